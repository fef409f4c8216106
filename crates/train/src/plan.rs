//! The plan of a run: the common flags, checked and complete.

use crate::args::{CommonArgs, DataSource, Keep, LocalAccess, Technique, TestSource};
use crate::error::TrainError;
use crate::explain::Keys;
use crate::export;
use crate::history;
use crate::intents::IntentPlan;
use crate::metrics;
use crate::output::{self, Input};
use crate::replication::ReplicationPlan;
use crate::results;
use crate::sampling::SamplingPlan;
use crate::settings::Config;
use crate::signals::Interrupt;
use crate::simulation::Simulation;
use crate::tls;
use intendant::Tls;
use intendant::launch;
use intendant::{Filter, Initiator, Location, Order, Packing, Rendezvous, Replicas, Storage, Transport};
use intendant_checkpoint::{Folder, is_address};
use intendant_core::{ElementType, KeyOrder, Movement};
use intendant_metrics::Address;
use intendant_sampling::Sampler;
use intendant_task::{Criterion, LookAhead, Patience, Schedule};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

/// How far ahead loaders prepare batches, so that training does not wait for them.
const AHEAD: LookAhead = LookAhead { batches: 8, keys: 0 };
/// The same on a single node. Small batches are trained in microseconds, and waking a loader takes as long.
const ALONE_AHEAD: LookAhead = LookAhead { keys: 1 << 13, ..AHEAD };
/// The same if loaders signal intents: a tenth of a second of training or more, so that several rounds of
/// decisions and the answers to them fit in.
const FAR_AHEAD: LookAhead = LookAhead { batches: 128, keys: 1 << 17 };

/// Batches ahead at which keys are moved to the node that will train with them, if the user does not say.
const LOCALIZE_AHEAD: u32 = 1;

/// The plan of a run, as far as the common flags say it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Training data.
    pub data: Option<DataSource>,
    /// Test data, if not part of the data set.
    pub test: Option<TestSource>,
    /// Passes over the training data.
    pub epochs: u32,
    /// Validate after every so many epochs; 0 means never.
    pub valid_every: u32,
    /// End after so many validations without a better one.
    pub(crate) patience_validations: Option<NonZeroU32>,
    /// The same with what is compared, when the task is known.
    pub(crate) patience: Option<Patience>,
    /// By what the best model is chosen, if that is what is kept.
    pub(crate) best: Option<Criterion>,
    /// Seed of everything random.
    pub seed: u64,
    /// Element type of parameters.
    pub float: ElementType,
    /// Node processes in the cluster.
    pub nodes: usize,
    /// The kinds of connections between nodes.
    pub transport: Transport,
    /// How nodes shorten their messages.
    pub packing: Packing,
    /// Worker threads per node.
    pub workers: usize,
    /// Who manages the parameters.
    pub technique: Technique,
    /// Channels per node.
    pub channels: usize,
    /// How keys are assigned to home nodes.
    pub key_order: KeyOrder,
    /// How a node stores its values.
    pub storage: Storage,
    /// How workers access the values of their own node.
    pub local_access: LocalAccess,
    /// Order of a worker's operations on one key; `None` is the technique's own.
    pub order: Option<Order>,
    /// Whether nodes remember locations; `None` is the technique's own.
    pub caches: Option<bool>,
    /// How nodes find keys that move on request; `None` is by their homes.
    pub location: Option<Location>,
    /// How far ahead each worker's loader is.
    pub look_ahead: LookAhead,
    /// Batches ahead of its training at which a batch's keys are localized; 0 if never.
    pub localize_ahead: u32,
    /// Whether workers wait for each push.
    pub synchronous: bool,
    /// How parameters are replicated.
    pub(crate) replication: ReplicationPlan,
    /// Parameters to explain at the end.
    pub(crate) explain: Keys,
    /// Whether loaders signal intents, and when the system acts on them.
    pub(crate) intents: IntentPlan,
    /// How samples are drawn.
    pub(crate) sampling: SamplingPlan,
    /// The simulated cluster that trains, if none of processes does.
    pub simulation: Option<Simulation>,
    /// The file of the report.
    pub report: Option<PathBuf>,
    /// Where the first node of a machine serves its metrics.
    pub(crate) metrics: Option<Address>,
    /// The collector to which nodes push them.
    pub(crate) otlp: Option<String>,
    /// Folder for the trained model.
    pub export: Option<PathBuf>,
    /// Folder for the traces of the nodes, and the keys that are traced.
    pub(crate) trace: Option<(PathBuf, Filter)>,
    /// Checkpoints that are written, and the one that the run begins with.
    pub(crate) checkpoints: Checkpoints,
    /// Whether to show progress.
    pub progress: bool,
    /// How often `-v` was given.
    pub verbose: u8,
    /// The effective configuration; the application may [`Config::set`] what it decided.
    pub config: Config,
    /// How many nodes hold a copy of what each node owns, beside itself.
    pub(crate) copies: usize,
    /// The names of the nodes of a view, by rank, if they are not their ranks.
    pub(crate) names: Option<Vec<u64>>,
    /// The process whose run this one joins.
    pub(crate) join: Option<String>,
    /// The certificates of the cluster, if its connections are encrypted.
    pub(crate) tls: Option<Tls>,
    /// How this process finds its cluster, if a launcher started it as one of several.
    pub(crate) rendezvous: Option<Rendezvous>,
    /// Notifies a run of a signal.
    pub(crate) interrupt: Interrupt,
    /// The program and its version.
    pub(crate) program: String,
    pub(crate) version: String,
    /// Whether the table of results is printed to standard output.
    pub(crate) prints: bool,
}

/// The checkpoints of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoints {
    /// Where they are written.
    pub(crate) folder: Option<Folder>,
    /// Seconds between two of them.
    pub(crate) seconds: f64,
    /// Whether the run goes on from the newest one, if there is one.
    pub(crate) resume: bool,
    /// Which of them are kept.
    pub(crate) keep: Keep,
    /// The checkpoint with whose parameters the run begins.
    pub(crate) from: Option<Folder>,
    /// Restarts in a row without a newer checkpoint.
    pub(crate) max_restarts: u32,
    /// Time for a last checkpoint after a signal.
    pub(crate) grace: Duration,
}

/// What is known of a run in addition to the values of the common flags.
#[derive(Debug)]
pub(crate) struct Given {
    /// The program and its version.
    pub(crate) program: String,
    pub(crate) version: String,
    /// Whether the user chose the number of nodes.
    pub(crate) nodes_chosen: bool,
    /// Files that flags of the type of a path name for reading.
    pub(crate) inputs: Vec<Input>,
    pub(crate) config: Config,
}

impl Plan {
    /// Checks the common flags.
    pub(crate) fn new(
        args: CommonArgs,
        given: Given,
        rendezvous: Option<Rendezvous>,
    ) -> Result<Self, TrainError> {
        let Given { program, version, nodes_chosen, inputs, mut config } = given;
        let rendezvous = match (rendezvous, args.data_port) {
            (Some(rendezvous), Some(port)) => Some(rendezvous.data_port(port as u16)),
            (rendezvous, _) => rendezvous,
        };
        let nodes = match &rendezvous {
            Some(rendezvous) if nodes_chosen && rendezvous.nodes() != args.nodes => {
                return Err(TrainError::usage(format!(
                    "--nodes is {}, but {} says that this process is one of {}; leave --nodes out under a launcher",
                    args.nodes,
                    rendezvous.launcher().nodes_variable(),
                    rendezvous.nodes()
                )));
            }
            Some(rendezvous) => rendezvous.nodes(),
            // One of several: how many there are, the run says.
            None if args.join.is_some() => args.nodes.max(2),
            None => args.nodes,
        };
        if args.technique == Technique::Single && nodes > 1 {
            return Err(TrainError::usage(format!(
                "technique single is plain memory in one process, but there are {nodes} nodes; use another \
                 technique, or --nodes 1 with more --workers"
            )));
        }
        if args.technique == Technique::Single && args.explain.is_some() {
            return Err(TrainError::usage(
                "--explain is about nodes, and technique single has none: leave it out",
            ));
        }
        if args.technique == Technique::Single && args.trace.is_some() {
            return Err(TrainError::usage(
                "--trace records what happens between nodes, and technique single has none: leave it out",
            ));
        }
        let replication = ReplicationPlan::new(&args.replication, args.technique, args.float, &mut config)?;
        let intents = IntentPlan::new(&args.intents, args.technique, nodes, &mut config)?;
        let default = if intents.are_signalled {
            FAR_AHEAD
        } else if nodes == 1 {
            ALONE_AHEAD
        } else {
            AHEAD
        };
        let look_ahead = LookAhead {
            batches: args.look_ahead.unwrap_or(default.batches),
            // A user who gives a number of batches means exactly that.
            keys: args.look_ahead_keys.unwrap_or(if args.look_ahead.is_some() { 0 } else { default.keys }),
        };
        config.set("look-ahead", look_ahead.batches as i64);
        config.set("look-ahead-keys", look_ahead.keys as i64);
        let moves_on_request = match args.technique {
            Technique::Single | Technique::Exchange(_) => false,
            Technique::Server(technique) => technique.policy().relocation == Some(Initiator::Requester),
        };
        let localize_ahead =
            args.localize_ahead.unwrap_or(if moves_on_request && nodes > 1 { LOCALIZE_AHEAD } else { 0 });
        config.set("localize-ahead", i64::from(localize_ahead));
        let movement = match args.technique {
            Technique::Single | Technique::Exchange(_) => Movement::Intended,
            Technique::Server(technique) => match technique.policy().movement(nodes) {
                Movement::Requested if localize_ahead == 0 => Movement::Never,
                movement @ (Movement::Never | Movement::Requested | Movement::Intended) => movement,
            },
        };
        let sampling = SamplingPlan::new(&args.sampling, args.technique, movement)?;
        refuse_routing_that_would_be_ignored(&args)?;
        check_local_access(&args)?;
        check_transport(&args)?;
        check_comparisons(&args)?;
        let simulation = Simulation::new(&args, rendezvous.is_some())?;
        check_restarts(&args, rendezvous.as_ref())?;
        check_copies(&args, nodes, rendezvous.as_ref())?;
        // A process that starts nodes reads the files as well: one error instead of one from each node.
        let tls = match args.tls.files()? {
            Some(files) if nodes > 1 || rendezvous.is_some() || args.join.is_some() => {
                Some(tls::load(&files)?)
            }
            Some(_) | None => None,
        };
        let rendezvous = rendezvous.map(|rendezvous| match &tls {
            Some(tls) => rendezvous.tls(Some(tls.clone())),
            None => rendezvous,
        });
        // Other nodes may be on other machines and do not write.
        if rendezvous.as_ref().is_none_or(|r| r.rank().0 == 0) {
            check_outputs(&args, inputs)?;
        }
        config.set("nodes", nodes as i64);
        // When nodes come and go, few keys should move.
        let default = if args.copies > 0 { KeyOrder::Ring } else { KeyOrder::default() };
        let key_order = args.key_order.unwrap_or(default);
        config.set("key-order", key_order.to_string());
        Ok(Self {
            data: args.data,
            test: args.test,
            epochs: args.epochs,
            valid_every: args.valid_every,
            patience_validations: args.patience,
            patience: None,
            best: None,
            seed: args.seed,
            float: args.float,
            nodes,
            transport: args.transport,
            packing: args.packing.packing(args.technique)?,
            workers: args.workers,
            technique: args.technique,
            channels: args.channels,
            key_order,
            storage: args.storage,
            local_access: args.local_access,
            order: args.order,
            caches: args.caches,
            location: args.location,
            look_ahead,
            intents,
            explain: args.explain.unwrap_or_default(),
            localize_ahead,
            synchronous: args.synchronous,
            replication,
            sampling,
            simulation,
            report: args.report,
            metrics: args.metrics,
            otlp: metrics::collector(args.otlp)?,
            export: args.export,
            trace: args.trace.map(|folder| (folder, args.trace_keys.unwrap_or_default())),
            checkpoints: Checkpoints {
                folder: folder_at("--checkpoint", args.checkpoint)?,
                seconds: args.checkpoint_seconds,
                resume: args.resume,
                keep: args.keep,
                from: folder_at("--from", args.from)?,
                max_restarts: args.max_restarts,
                grace: Duration::from_secs_f64(args.grace_seconds),
            },
            progress: !args.no_progress,
            verbose: args.verbose,
            config,
            copies: args.copies,
            names: None,
            join: args.join,
            tls,
            rendezvous,
            interrupt: Interrupt::default(),
            program,
            version,
            prints: false,
        })
    }

    /// The schedule of training and evaluation, with samples drawn by `sampler`.
    #[must_use]
    pub(crate) fn schedule(&self, sampler: &Sampler) -> Schedule {
        Schedule {
            epochs: self.epochs,
            valid_every: self.valid_every,
            patience: self.patience,
            test: true,
            localize_ahead: self.localize_ahead,
            synchronous: self.synchronous,
            synchronize: self.replication.sync_batches,
            clock_every: self.replication.clock_every,
            meets: self.checkpoints.folder.is_some() || self.copies > 0,
            intents: self.intents.are_signalled,
            sample_portions: sampler.portions(),
        }
    }

    /// The value that a setting of the application had in the run that this one continues. Defaults that
    /// depend on the cluster yield to it, so that a run continues on another number of nodes.
    #[must_use]
    pub fn resumed(&self, name: &str) -> Option<serde_json::Value> {
        let folder = self.checkpoints.folder.as_ref().filter(|_| self.checkpoints.resume)?;
        // What is wrong with the checkpoint is told when it is opened.
        crate::origin::newest_config(folder)?.get(name).cloned()
    }

    /// Whether loaders signal intents, and the technique acts on them.
    #[must_use]
    pub const fn signals_intents(&self) -> bool {
        self.intents.are_signalled
    }

    /// Rank of this node, as far as it is known before the nodes have met.
    #[must_use]
    pub fn rank(&self) -> u16 {
        self.rendezvous.as_ref().map_or(0, |r| r.rank().0)
    }

    /// How many clocks reads may be stale, and how many batches a clock has (`None`: a subepoch), if the
    /// technique bounds staleness by clocks.
    #[must_use]
    pub fn staleness(&self) -> Option<(u32, Option<NonZeroU32>)> {
        let Technique::Server(technique) = self.technique else { return None };
        let clocked = technique.policy().replicas.is_some_and(Replicas::is_clocked);
        clocked.then_some((self.replication.staleness, self.replication.clock_every))
    }

    /// Whether the technique has copies that are brought in step every so many milliseconds, and not by
    /// clocks.
    #[must_use]
    pub fn has_copies_without_clocks(&self) -> bool {
        let Technique::Server(technique) = self.technique else { return false };
        let policy = technique.policy();
        policy.static_replicas.is_some() || policy.replicas.is_some_and(|replicas| !replicas.is_clocked())
    }

    /// Warns on rank 0, before the training, that there will be no quality to report.
    pub fn warn_without_test_data(&self) {
        if self.rank() == 0 {
            tracing::warn!(
                "quality is not measured, as there is no test data: --test 0.1 holds out a tenth of the training data, \
                 --test FILE names a file"
            );
        }
    }

    /// Nodes on this machine, as far as the launcher says it.
    pub(crate) fn local_nodes(&self) -> usize {
        self.rendezvous.as_ref().map_or(1, |rendezvous| rendezvous.local().1)
    }

    /// Whether this process starts the nodes rather than being one.
    pub(crate) fn must_launch(&self) -> bool {
        let by_others = self.rendezvous.is_some() || self.simulation.is_some() || self.join.is_some();
        !by_others && (self.nodes > 1 || (self.checkpoints.max_restarts > 0 && !launch::is_launched()))
    }
}

/// The folder at a path or an address that a flag gives.
fn folder_at(flag: &str, path: Option<PathBuf>) -> Result<Option<Folder>, TrainError> {
    path.map(Folder::at).transpose().map_err(|error| TrainError::usage(format!("{flag} {error}")))
}

/// Replicas through the owner need chained operations, and only keys that requesters relocate have to be
/// found.
fn refuse_routing_that_would_be_ignored(args: &CommonArgs) -> Result<(), TrainError> {
    match args.technique {
        Technique::Server(technique)
            if args.order == Some(Order::Fifo) && technique.policy().replicas.is_some() =>
        {
            Err(TrainError::usage(format!(
                "technique {technique} chains operations on a key; leave --order out"
            )))
        }
        Technique::Server(technique) => {
            let Some(location) = args.location else { return Ok(()) };
            if technique.policy().relocation != Some(Initiator::Requester) {
                return Err(TrainError::usage(format!(
                    "technique {technique} does not relocate keys on request, so it has no --location; use lapse or nups"
                )));
            }
            let policy = technique.policy().located(Some(location));
            policy.check().map_err(|error| TrainError::usage(format!("--location: {error}")))
        }
        Technique::Single if args.location.is_some() => Err(TrainError::usage(
            "technique single has no nodes that look for keys; leave --location out".to_owned(),
        )),
        Technique::Single | Technique::Exchange(_) => Ok(()),
    }
}

/// The best of several models needs validations, and a place.
fn check_comparisons(args: &CommonArgs) -> Result<(), TrainError> {
    let keeps_best = args.keep == Keep::Best;
    let compares = [("--patience", args.patience.is_some()), ("--keep best", keeps_best)];
    if let (Some((flag, _)), 0) = (compares.iter().find(|(_, is_given)| *is_given), args.valid_every) {
        return Err(TrainError::usage(format!(
            "{flag} compares validations, and --valid-every 0 asks for none; leave one of them out"
        )));
    }
    if keeps_best && args.checkpoint.is_none() {
        return Err(TrainError::usage(
            "--keep best: the best model is kept as a checkpoint; add --checkpoint DIR",
        ));
    }
    Ok(())
}

/// Restarts are for whom starts the nodes, and need something to continue from.
fn check_restarts(args: &CommonArgs, rendezvous: Option<&Rendezvous>) -> Result<(), TrainError> {
    if args.max_restarts == 0 {
        return Ok(());
    }
    if args.checkpoint.is_none() {
        return Err(TrainError::usage(
            "--max-restarts: a restart continues from a checkpoint; add --checkpoint DIR",
        ));
    }
    match rendezvous.filter(|rendezvous| !rendezvous.launched()) {
        Some(_) => Err(TrainError::usage(
            "--max-restarts: another launcher has started this process, and only it can start the nodes again; leave \
             --max-restarts out, and give --resume (docs/launchers.md)",
        )),
        None => Ok(()),
    }
}

/// Copies are held by other nodes, of a parameter server, in processes of their own.
fn check_copies(args: &CommonArgs, nodes: usize, rendezvous: Option<&Rendezvous>) -> Result<(), TrainError> {
    let refused = |what: String| Err(TrainError::usage(what));
    if args.copies == 0 {
        return match args.join {
            Some(_) => {
                refused("--join: only runs with --copies let nodes join; give all of them --copies K".into())
            }
            None => Ok(()),
        };
    }
    if !matches!(args.technique, Technique::Server(_)) {
        let technique = args.technique.name();
        return refused(format!(
            "--copies: technique {technique} has no nodes that hold copies of values; leave it out"
        ));
    }
    if args.join.is_some() && rendezvous.is_some() {
        return refused(
            "--join: a launcher has started this process as a node; start it alone to join a run".into(),
        );
    }
    if args.copies >= nodes && args.join.is_none() {
        return refused(format!(
            "--copies {}: with {nodes} nodes, at most {} others can hold a copy",
            args.copies,
            nodes - 1
        ));
    }
    if args.trace.is_some() {
        return refused(
            "--copies: a trace is of one cluster, and the nodes of this run may change: leave --trace out"
                .into(),
        );
    }
    if args.keep == Keep::Best {
        return refused(
            "--copies: the best model is known to node 0 alone, which may be lost: leave --keep out".into(),
        );
    }
    Ok(())
}

/// Refuses kinds of connections that this program does not have.
fn check_transport(args: &CommonArgs) -> Result<(), TrainError> {
    let transport = args.transport;
    match (args.technique, transport) {
        (Technique::Exchange(_), Transport::Tcp | Transport::Unix) => Err(TrainError::usage(format!(
            "--transport is {transport}, but the nodes write and read each other's memory: use shm, verbs or auto"
        ))),
        (_, Transport::Verbs) if !cfg!(feature = "verbs") => Err(TrainError::usage(
            "--transport is verbs, but this program was built without the feature verbs: build it with --features verbs \
             (docs/rdma.md), or use another transport",
        )),
        (Technique::Server(_), Transport::Verbs) if args.tls.files()?.is_some() => Err(TrainError::usage(
            "--transport is verbs, but RDMA does not encrypt: leave it out, or the flags of TLS",
        )),
        _ => Ok(()),
    }
}

/// Workers and channels of a real node share a process, and technique single has no channels.
fn check_local_access(args: &CommonArgs) -> Result<(), TrainError> {
    let access = args.local_access;
    if access != LocalAccess::Shared && args.technique == Technique::Single {
        return Err(TrainError::usage(format!(
            "--local-access {access} is about nodes with channels, and technique single has none; use --technique classic"
        )));
    }
    if access == LocalAccess::Ipc && !args.simulate {
        return Err(TrainError::usage(
            "--local-access ipc is only simulated: add --simulate; intendant-bench measures it on this machine",
        ));
    }
    Ok(())
}

/// Tells before hours of training whether report and export can be written, and that they overwrite no file
/// that the run reads.
fn check_outputs(args: &CommonArgs, mut inputs: Vec<Input>) -> Result<(), TrainError> {
    let mut reads = |flag: &str, path: PathBuf| inputs.push(Input { flag: flag.to_owned(), path });
    if let Some(DataSource::Path(path)) = &args.data {
        reads("--data", path.clone());
    }
    for (flag, name) in [("--net", &args.net), ("--machine", &args.machine)] {
        if let Some(name) = name {
            reads(flag, name.into());
        }
    }
    if let Some(report) = &args.report {
        output::check("--report", "the report", report, &inputs)?;
        if let Some(config) = results::config_path(report) {
            output::check("--report", "the effective configuration", &config, &inputs)?;
        }
        if let Some(history) = history::path(report) {
            output::check("--report", "the results of epochs", &history, &inputs)?;
        }
    }
    let folder = args.checkpoint.as_ref().filter(|folder| !is_address(folder));
    if let Some(folder) = folder.and_then(|folder| absolute(folder).ok()) {
        let meets = |output: &Option<PathBuf>, meets: fn(&Path, &Path) -> bool| {
            output
                .as_ref()
                .and_then(|output| absolute(output).ok())
                .is_some_and(|output| meets(&folder, &output))
        };
        let clash = [
            ("--report", meets(&args.report, |folder, report| folder == report)),
            ("--export", meets(&args.export, |folder, export| folder.starts_with(export))),
            ("--trace", meets(&args.trace, |folder, trace| folder == trace)),
        ];
        if let Some((flag, _)) = clash.iter().find(|(_, meets)| *meets) {
            return Err(TrainError::usage(format!(
                "--checkpoint {}: {flag} writes there as well; name another folder",
                folder.display()
            )));
        }
    }
    match &args.export {
        Some(folder) => export::check(("--export", folder), args.report.as_deref(), &inputs),
        None => Ok(()),
    }
}
