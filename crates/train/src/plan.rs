//! What will be done: the common flags, checked and complete.

use crate::args::{CommonArgs, DataSource, OrderKind, StorageKind, Technique, TestSource};
use crate::copies::CopyPlan;
use crate::error::TrainError;
use crate::intents::IntentPlan;
use crate::sampling::SamplingPlan;
use crate::settings::Config;
use crate::signals::Interrupt;
use crate::simulation::Simulation;
use intendant::Rendezvous;
use intendant_core::{ElementType, Key, KeyOrder};
use intendant_sampling::Sampler;
use intendant_task::{LookAhead, Schedule};
use std::path::{Path, PathBuf};

/// How far ahead loaders prepare batches, so that training does not wait for them.
const AHEAD: LookAhead = LookAhead { batches: 8, keys: 0 };
/// The same where nobody else learns of it. Small batches are trained in microseconds, and waking a loader takes as long.
const ALONE_AHEAD: LookAhead = LookAhead { keys: 1 << 13, ..AHEAD };
/// The same where loaders say what will be used: tens of milliseconds of training, so that several rounds of deciding about keys
/// fit in.
const FAR_AHEAD: LookAhead = LookAhead { batches: 128, keys: 1 << 16 };

/// What will be done, as far as the common flags say it.
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
    /// Seed of everything random.
    pub seed: u64,
    /// Element type of parameters.
    pub float: ElementType,
    /// Node processes in the cluster.
    pub nodes: usize,
    /// Worker threads per node.
    pub workers: usize,
    /// Who manages the parameters.
    pub technique: Technique,
    /// Channels per node.
    pub channels: usize,
    /// How keys are assigned to home nodes.
    pub key_order: KeyOrder,
    /// How a node stores its values.
    pub storage: StorageKind,
    /// Order of a worker's operations on one key; `None` is the technique's own.
    pub order: Option<OrderKind>,
    /// Whether nodes remember locations; `None` is the technique's own.
    pub caches: Option<bool>,
    /// How far ahead each worker's loader is.
    pub look_ahead: LookAhead,
    /// Batches ahead of its training at which a batch's keys are localized; 0 if never.
    pub localize_ahead: u32,
    /// Whether workers wait for each push.
    pub synchronous: bool,
    /// How copies of parameters are kept.
    pub(crate) copies: CopyPlan,
    /// Keys to explain at the end.
    pub(crate) explain: Vec<Key>,
    /// Whether workers say what they will use, and what becomes of it.
    pub(crate) intents: IntentPlan,
    /// How samples are drawn.
    pub(crate) sampling: SamplingPlan,
    /// The simulated cluster that trains, if none of processes does.
    pub simulation: Option<Simulation>,
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// Folder for the trained model.
    pub export: Option<PathBuf>,
    /// Whether to show progress.
    pub progress: bool,
    /// How often `-v` was given.
    pub verbose: u8,
    /// The effective configuration; the application may [`Config::set`] what it decided.
    pub config: Config,
    /// How this process finds its cluster, if something started it as one of several.
    pub(crate) rendezvous: Option<Rendezvous>,
    /// Tells a run that a signal came.
    pub(crate) interrupt: Interrupt,
}

impl Plan {
    /// Checks the common flags. `nodes_chosen` says whether somebody chose the number of nodes.
    pub(crate) fn new(
        args: CommonArgs,
        nodes_chosen: bool,
        config: Config,
        rendezvous: Option<Rendezvous>,
    ) -> Result<Self, TrainError> {
        refuse_what_is_to_come(&args)?;
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
            None => args.nodes,
        };
        if args.technique == Technique::Single && nodes > 1 {
            return Err(TrainError::usage(format!(
                "technique single is plain memory in one process, but there are {nodes} nodes; use --technique classic, \
                 or --nodes 1 with more --workers"
            )));
        }
        if args.technique == Technique::Single && args.explain.is_some() {
            return Err(TrainError::usage(
                "--explain tells why parameters are at their nodes; technique single has none: leave it out",
            ));
        }
        let mut config = config;
        let copies = CopyPlan::new(&args.copies, args.technique, &mut config)?;
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
            // Who says how many batches means that.
            keys: args.look_ahead_keys.unwrap_or(if args.look_ahead.is_some() { 0 } else { default.keys }),
        };
        config.set("look-ahead", look_ahead.batches as i64);
        config.set("look-ahead-keys", look_ahead.keys as i64);
        let sampling = SamplingPlan::new(&args.sampling, args.technique, nodes)?;
        refuse_routing_that_would_be_ignored(&args)?;
        let simulation = Simulation::new(&args, rendezvous.is_some())?;
        // Other nodes may be on other machines and do not write.
        let writes = rendezvous.as_ref().is_none_or(|r| r.rank().0 == 0);
        if let Some(report) = args.report.as_ref().filter(|_| writes) {
            report_can_be_written(report)?;
        }
        if let Some(folder) = args.export.as_ref().filter(|_| writes) {
            export_can_be_written(folder)?;
        }
        config.set("nodes", nodes as i64);
        Ok(Self {
            data: args.data,
            test: args.test,
            epochs: args.epochs,
            valid_every: args.valid_every,
            seed: args.seed,
            float: args.float,
            nodes,
            workers: args.workers,
            technique: args.technique,
            channels: args.channels,
            key_order: args.key_order,
            storage: args.storage,
            order: args.order,
            caches: args.caches,
            look_ahead,
            intents,
            explain: args.explain.map(|keys| keys.0).unwrap_or_default(),
            localize_ahead: args.localize_ahead,
            synchronous: args.synchronous,
            copies,
            sampling,
            simulation,
            report: args.report,
            export: args.export,
            progress: !args.no_progress,
            verbose: args.verbose,
            config,
            rendezvous,
            interrupt: Interrupt::default(),
        })
    }

    /// When is trained and evaluated, with samples drawn by `sampler`.
    #[must_use]
    pub(crate) fn schedule(&self, sampler: &Sampler) -> Schedule {
        Schedule {
            epochs: self.epochs,
            valid_every: self.valid_every,
            test: true,
            localize_ahead: self.localize_ahead,
            synchronous: self.synchronous,
            synchronize: self.copies.sync_batches,
            clock_every: self.copies.clock_every,
            intents: self.intents.are_signalled,
            sample_portions: sampler.portions(),
        }
    }

    /// This node among the nodes, as far as it is known before they have met.
    #[must_use]
    pub fn rank(&self) -> u16 {
        self.rendezvous.as_ref().map_or(0, |r| r.rank().0)
    }

    /// Nodes on this machine, as far as a launcher says it.
    pub(crate) fn local_nodes(&self) -> usize {
        self.rendezvous.as_ref().map_or(1, |rendezvous| rendezvous.local().1)
    }

    /// Whether this process must start the nodes rather than be one.
    pub(crate) fn must_launch(&self) -> bool {
        self.rendezvous.is_none() && self.simulation.is_none() && self.nodes > 1
    }
}

/// Flags that are part of the common command line but do nothing yet would mislead if they were ignored.
fn refuse_what_is_to_come(args: &CommonArgs) -> Result<(), TrainError> {
    let given = [
        ("--trace", args.trace.is_some()),
        ("--checkpoint", args.checkpoint.is_some()),
        ("--resume", args.resume),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(TrainError::usage(format!("{flag} is not built yet; leave it out"))),
        None => Ok(()),
    }
}

/// Where copies come and go, operations on a key are chained, whatever the user says.
fn refuse_routing_that_would_be_ignored(args: &CommonArgs) -> Result<(), TrainError> {
    match args.technique {
        Technique::Server(technique)
            if args.order == Some(OrderKind::Fifo) && technique.policy().replicas.is_some() =>
        {
            Err(TrainError::usage(format!(
                "technique {technique} chains operations on a key; leave --order out"
            )))
        }
        Technique::Server(_) | Technique::Single => Ok(()),
    }
}

/// So should an export: the other nodes would wait for one that cannot write.
fn export_can_be_written(folder: &Path) -> Result<(), TrainError> {
    let refused = |error: std::io::Error| {
        TrainError::usage(format!("--export {}: cannot write in this folder: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(refused)?;
    let probe = folder.join(format!(".intendant.{}.probe", std::process::id()));
    std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe)).map_err(refused)
}

/// A report that cannot be written should be known before hours of training.
fn report_can_be_written(path: &Path) -> Result<(), TrainError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(TrainError::usage(format!(
            "--report {}: this is a folder; name a file in it",
            path.display()
        )));
    }
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(TrainError::usage(format!(
            "--report {}: there is no folder {folder}; create it",
            path.display()
        )));
    }
    let probe = folder.join(format!(".intendant.{}.probe", std::process::id()));
    let probed = std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe));
    probed.map_err(|error| {
        TrainError::usage(format!(
            "--report {}: cannot write in {}: {error}",
            path.display(),
            folder.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_cannot_be_written_is_known_before_training() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(report_can_be_written(&folder.path().join("r.json")).is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0, "the probe is gone");
        let refused = |path: &Path| report_can_be_written(path).expect_err("refused").to_string();
        assert!(refused(folder.path()).contains("this is a folder"));
        assert!(refused(&folder.path().join("no/r.json")).contains("there is no folder"));
        let export = |path: &Path| export_can_be_written(path).map_err(|error| error.to_string());
        assert!(export(&folder.path().join("new/model")).is_ok());
        std::fs::write(folder.path().join("file"), "").expect("written");
        assert!(
            export(&folder.path().join("file")).expect_err("refused").contains("cannot write in this folder")
        );
        // Nobody can create files there, not even root.
        #[cfg(target_os = "linux")]
        assert!(refused(Path::new("/proc/r.json")).contains("cannot write in /proc"));
    }
}
