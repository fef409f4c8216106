//! The plan of a run: the common flags, checked and complete.

use super::args::{CommonArgs, ServerArgs};
use super::checkpoints::Checkpoints;
use super::intents::IntentPlan;
use super::keys::Keys;
use super::layers::Config;
use super::replication::ReplicationPlan;
use super::sampling::SamplingPlan;
use super::simulation::{Simulable, Simulation};
use super::technique::Technique;
use super::tls;
use super::values::{DataSource, LocalAccess, TestSource};
use crate::error::TrainError;
use crate::export::Heir;
use crate::files::Input;
use crate::signals::Interrupt;
use intendant::{ClusterSettings, Filter, Rendezvous, Replicas, Tls, Transport, launch};
use intendant_core::{ElementType, KeyOrder};
use intendant_metrics::Address;
use intendant_sampling::Sampler;
use intendant_task::{Criterion, LookAhead, Patience, Schedule};
use std::num::NonZeroU32;
use std::path::PathBuf;

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
    /// Worker threads per node. A program without a parameter server sets it.
    pub workers: usize,
    /// Who manages the parameters. A program without a parameter server sets it.
    pub technique: Technique,
    /// How the nodes manage parameters, if there are some. What is replicated follows from the task.
    pub(crate) cluster: ClusterSettings,
    /// Channels per node.
    pub channels: usize,
    /// How keys are assigned to home nodes.
    pub key_order: KeyOrder,
    /// How workers access the values of their own node.
    pub local_access: LocalAccess,
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
    /// Whether it may replace a model of another program or of other data.
    pub(crate) overwrite: bool,
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
    /// Whose model `--export` writes: one of this program, and of data of this digest.
    pub(crate) fn heir(&self, digest: u64) -> Heir {
        let data = Some(format!("{digest:016x}"));
        Heir { program: self.program.clone(), data, overwrites: self.overwrite }
    }

    /// Checks the common flags.
    pub(crate) fn new(
        (args, server): (CommonArgs, ServerArgs),
        given: Given,
        rendezvous: Option<Rendezvous>,
    ) -> Result<Self, TrainError> {
        let Given { program, version, nodes_chosen, inputs, mut config } = given;
        let CommonArgs { data, test, epochs, valid_every, seed, nodes, tls, .. } = args;
        let CommonArgs { simulation, checkpoints, outputs, .. } = args;
        let ServerArgs { patience, float, cluster, replication, intents, sampling, .. } = server;
        let (technique, asked) = (cluster.technique, nodes.nodes);
        let rendezvous = match (rendezvous, cluster.data_port) {
            (Some(rendezvous), Some(port)) => Some(rendezvous.data_port(port as u16)),
            (rendezvous, _) => rendezvous,
        };
        let nodes = match &rendezvous {
            Some(rendezvous) if nodes_chosen && rendezvous.nodes() != asked => {
                return Err(TrainError::usage(format!(
                    "--nodes is {asked}, but {} says that this process is one of {}; leave --nodes out under a launcher",
                    rendezvous.launcher().nodes_variable(),
                    rendezvous.nodes()
                )));
            }
            Some(rendezvous) => rendezvous.nodes(),
            // One of several: how many there are, the run says.
            None if server.checkpoints.join.is_some() => asked.max(2),
            None => asked,
        };
        cluster.check_technique(nodes)?;
        let replication = ReplicationPlan::new(&replication, technique, float, &mut config)?;
        let intents = IntentPlan::new(&intents, technique, nodes, &mut config)?;
        let look_ahead = cluster.look_ahead(nodes, intents.are_signalled);
        config.set("look-ahead", look_ahead.batches as i64);
        config.set("look-ahead-keys", look_ahead.keys as i64);
        let localize_ahead = cluster.localize_ahead(nodes);
        config.set("localize-ahead", i64::from(localize_ahead));
        let sampling = SamplingPlan::new(&sampling, technique, technique.movement(nodes, localize_ahead))?;
        cluster.refuse_routing_that_would_be_ignored()?;
        cluster.check_local_access(simulation.simulate)?;
        let tls = tls.files()?;
        cluster.check_transport(tls.is_some())?;
        server.checkpoints.check_comparisons(patience, valid_every, checkpoints.checkpoint.is_some())?;
        let names = [("--net", &simulation.net), ("--machine", &simulation.machine)];
        let named = names.map(|(flag, name)| name.as_ref().map(|name| Input::new(flag, name)));
        let simulation = Simulation::new(
            &simulation,
            &server.simulation,
            &Simulable {
                local_access: cluster.local_access,
                nodes: asked,
                copies: server.checkpoints.copies,
                is_launched: rendezvous.is_some(),
            },
        )?;
        checkpoints.check_restarts(rendezvous.as_ref())?;
        let is_traced = server.outputs.trace.is_some();
        server.checkpoints.check_copies((technique, nodes), rendezvous.as_ref(), is_traced)?;
        // A process that starts nodes reads the files as well: one error instead of one from each node.
        let tls = match tls {
            Some(files) if nodes > 1 || rendezvous.is_some() || server.checkpoints.join.is_some() => {
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
            let data = match &data {
                Some(DataSource::Path(path)) => Some(Input::new("--data", path)),
                Some(DataSource::Builtin(_)) | None => None,
            };
            let inputs: Vec<Input> =
                inputs.into_iter().chain(data).chain(named.into_iter().flatten()).collect();
            let trace = server.outputs.trace.as_deref();
            outputs.check(&program, &inputs, checkpoints.checkpoint.as_deref(), trace)?;
        }
        config.set("nodes", nodes as i64);
        // When nodes come and go, few keys should move.
        let default = if server.checkpoints.copies > 0 { KeyOrder::Ring } else { KeyOrder::default() };
        let key_order = cluster.key_order.unwrap_or(default);
        config.set("key-order", key_order.to_string());
        config.drop_without_effect(simulation.is_some());
        let (kept, served) = (server.checkpoints, server.outputs);
        Ok(Self {
            data,
            test,
            epochs,
            valid_every,
            patience_validations: patience,
            patience: None,
            best: None,
            seed,
            float,
            nodes,
            transport: cluster.transport,
            workers: cluster.workers,
            technique,
            channels: cluster.channels,
            cluster: cluster.settings(),
            key_order,
            local_access: cluster.local_access,
            look_ahead,
            intents,
            localize_ahead,
            synchronous: cluster.synchronous,
            replication,
            sampling,
            simulation,
            otlp: served.collector()?,
            explain: served.explain.unwrap_or_default(),
            report: outputs.report,
            metrics: served.metrics,
            export: outputs.export,
            overwrite: outputs.overwrite,
            trace: served.trace.map(|folder| (folder, served.trace_keys.unwrap_or_default())),
            progress: !outputs.no_progress,
            verbose: outputs.verbose,
            config,
            copies: kept.copies,
            names: None,
            checkpoints: checkpoints.checkpoints(kept.keep)?,
            join: kept.join,
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
        self.checkpoints.resumed()?.get(name).cloned()
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

    /// The training data that the user names, or else built-in data.
    #[must_use]
    pub fn data_or(&self, builtin: &str) -> DataSource {
        self.data.clone().unwrap_or_else(|| DataSource::Builtin(builtin.to_owned()))
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

    /// How this process finds its cluster, if a launcher started it as one of several.
    #[must_use]
    pub const fn rendezvous(&self) -> Option<&Rendezvous> {
        self.rendezvous.as_ref()
    }
}
