//! Errors that end a run early, and their exit codes.

use intendant::launch::LaunchError;
use intendant::{Failure, FailureKind, NodeId};
use intendant_checkpoint::CheckpointError;
use intendant_core::Key;
use intendant_sampling::SampleError;
use intendant_sim::TaskFailure;
use intendant_task::Diverged;
use intendant_views::SearchError;
use std::io;
use std::path::PathBuf;

/// Exit codes of application binaries.
pub mod exit {
    /// Any failure without a code of its own.
    pub const OTHER: u8 = 1;
    /// A flag, a configuration file or the data is wrong.
    pub const USAGE: u8 = 2;
    /// A loss or an update is not finite.
    pub const DIVERGED: u8 = 3;
    /// Another node of the cluster died or stopped answering.
    pub const PEER_LOST: u8 = 4;
    /// No checkpoint can be used, because all are damaged.
    pub const DAMAGED: u8 = 5;
    /// A thread panicked: a bug of the application or of Intendant. The same as that of any Rust program.
    pub const PANICKED: u8 = 101;
    /// Added to the number of the signal that ended the run.
    pub const SIGNAL: u8 = 128;
}

/// How the texts of [`Diverged`] and [`TrainError::ProgramDiverged`] start.
const DIVERGED: [&str; 2] = ["diverged in epoch ", "diverged: "];

/// An error of the application: its data, its export.
pub type AppError = Box<dyn std::error::Error + Send + Sync>;

/// A setting of an application has a value that it must not have. As a [`TrainError`] it names the flag.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}; it must be {allowed}")]
pub struct SettingError {
    /// Name of the setting, which is that of its flag.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The values that are allowed.
    pub allowed: String,
}

impl SettingError {
    /// An error about one setting.
    pub fn new(name: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { name, value: value.to_string(), allowed: allowed.into() }
    }
}

impl From<SettingError> for TrainError {
    fn from(error: SettingError) -> Self {
        Self::usage(format!("--{error}"))
    }
}

/// Why a run ended early, or could not write one of its outputs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The user asked for something that is not possible, or gave data that cannot be used.
    #[error("{0}")]
    Usage(AppError),
    /// A configuration file cannot be used.
    #[error("{file}{}: {reason}", line.map_or(String::new(), |l| format!(":{l}")))]
    Config {
        /// The file.
        file: PathDisplay,
        /// Line within the file, from 1, if the error is about one.
        line: Option<usize>,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A loss or an update is not finite on this node.
    #[error(transparent)]
    Diverged(#[from] Diverged),
    /// Values of a [`Program`](crate::Program) have left the range of numbers.
    #[error("diverged: {0}")]
    ProgramDiverged(AppError),
    /// A loss or an update is not finite on another node.
    #[error("node {by} {reason}")]
    DivergedElsewhere {
        /// Rank of the node.
        by: u16,
        /// Its message.
        reason: String,
    },
    /// Another node cannot begin the run.
    #[error("node {node}: {message}")]
    Elsewhere {
        /// Rank of the node.
        node: usize,
        /// Its message.
        message: String,
        /// Its exit code, which is that of all nodes.
        exit_code: u8,
    },
    /// The cluster failed.
    #[error(transparent)]
    Cluster(intendant::Error),
    /// The nodes of a [`Program`](crate::Program) cannot go on. All of them know it.
    #[error("{source}")]
    Nodes {
        /// Why.
        source: AppError,
        /// The exit code.
        exit_code: u8,
    },
    /// The nodes could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Another thread of this process ended the run. Its error is the one that is reported.
    #[error("another worker ended the run: {0}")]
    Stopped(String),
    /// A task requested samples that it did not prepare.
    #[error("worker {worker}: {source}")]
    Sample {
        /// Worker within its node.
        worker: usize,
        /// The sampler's error.
        source: SampleError,
    },
    /// A task named a key that its model does not have.
    #[error("{key:?} is not one of the {keys} keys of the model")]
    NoSuchKey {
        /// The key.
        key: Key,
        /// Number of keys.
        keys: u64,
    },
    /// A thread panicked: a bug of the task or of Intendant.
    #[error("{thread} panicked: {message}")]
    Panicked {
        /// Which thread.
        thread: String,
        /// Its message.
        message: String,
    },
    /// The nodes were started with settings or data that cannot train together.
    #[error("this node and node {node} were started differently: {what} is {here} here and {there} there")]
    Disagreement {
        /// The other node.
        node: usize,
        /// Name of the setting.
        what: String,
        /// Its value on this node.
        here: String,
        /// Its value on the other node.
        there: String,
    },
    /// A worker sent sums that cannot be decoded. All nodes run the same version, so that this is a bug.
    #[error("the sums of worker {worker} are malformed: {what}")]
    Tally {
        /// Worker among all workers.
        worker: usize,
        /// What is wrong.
        what: String,
    },
    /// An output cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file, or standard output.
        path: PathDisplay,
        /// Why.
        source: io::Error,
    },
    /// A checkpoint cannot be read, or the folder of checkpoints cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The last checkpoint of a run could not be made.
    #[error("{0}")]
    Unsaved(String),
    /// The model could not be exported.
    #[error("export failed: {0}")]
    Export(AppError),
    /// The operating system refused what every run needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was refused.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is no next view of a run with copies.
    #[error(transparent)]
    Muster(#[from] SearchError),
    /// The values with which a view begins could not be fetched: a node was lost again.
    #[error("{0}")]
    Unloaded(String),
    /// The view is over, at a cut: the run goes on with another number of nodes.
    #[error("the run goes on with other nodes")]
    Regroups {
        /// Nodes of the view that stay.
        nodes: u16,
    },
    /// This process is no node of the run any more, as was asked for.
    #[error("this node has left the run, which goes on")]
    Left,
    /// A simulated cluster broke one of its invariants: a bug of Intendant.
    #[error("the simulation failed: {0}")]
    Simulation(TaskFailure),
    /// A signal ended the run.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// A signal ended the run, after a last checkpoint.
    #[error(
        "interrupted by signal {signal}; {place} has what was trained so far: --resume goes on from there"
    )]
    Saved {
        /// The signal.
        signal: i32,
        /// The checkpoint.
        place: PathDisplay,
    },
}

/// A path that prints itself as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathDisplay(pub PathBuf);

impl std::fmt::Display for PathDisplay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl From<&std::path::Path> for PathDisplay {
    fn from(path: &std::path::Path) -> Self {
        Self(path.to_owned())
    }
}

impl From<intendant::Error> for TrainError {
    fn from(error: intendant::Error) -> Self {
        // The node that diverged aborts the cluster with the text of its error, so that all nodes end with
        // the same exit code.
        if let intendant::Error::Failed(Failure { kind: FailureKind::Aborted, node: Some(by), reason }) =
            &error
            && DIVERGED.iter().any(|start| reason.starts_with(start))
        {
            return Self::DivergedElsewhere { by: by.0, reason: reason.clone() };
        }
        Self::Cluster(error)
    }
}

impl From<Failure> for TrainError {
    fn from(failure: Failure) -> Self {
        intendant::Error::from(failure).into()
    }
}

impl TrainError {
    /// An error of usage, from a message or any other error.
    pub fn usage(error: impl Into<AppError>) -> Self {
        Self::Usage(error.into())
    }

    /// Whether the view has lost a node, so that a run with copies may go on without it.
    pub(crate) fn loses_node(&self) -> bool {
        match self.of_cluster() {
            Some(error) => error.exit_code() == exit::PEER_LOST,
            None => matches!(self, Self::Unloaded(_)),
        }
    }

    /// The node that the view has lost, if it is known.
    pub(crate) fn lost_node(&self) -> Option<NodeId> {
        self.of_cluster()?.lost_node()
    }

    /// The node that has ended the view, or that the others could not go on with.
    pub(crate) fn ended_by(&self) -> Option<NodeId> {
        self.of_cluster()?.ended_by()
    }

    const fn of_cluster(&self) -> Option<&intendant::Error> {
        if let Self::Cluster(error) = self { Some(error) } else { None }
    }

    /// Standard output cannot be written.
    pub(crate) fn standard_output(source: io::Error) -> Self {
        Self::Write { path: PathDisplay("standard output".into()), source }
    }

    /// The exit code for this error; see [`exit`].
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config { .. } | Self::Disagreement { .. } => exit::USAGE,
            Self::Diverged(_) | Self::ProgramDiverged(_) | Self::DivergedElsewhere { .. } => exit::DIVERGED,
            Self::Elsewhere { exit_code, .. } | Self::Nodes { exit_code, .. } => *exit_code,
            Self::Cluster(error) => error.exit_code(),
            Self::Launch(error) => error.exit_code(),
            Self::Checkpoint(CheckpointError::Damaged { .. }) => exit::DAMAGED,
            Self::Checkpoint(
                CheckpointError::Version { .. }
                | CheckpointError::Address { .. }
                | CheckpointError::InUse { .. },
            ) => exit::USAGE,
            Self::Interrupted(signal) | Self::Saved { signal, .. } => {
                exit::SIGNAL.saturating_add(u8::try_from(*signal).unwrap_or(0))
            }
            Self::Panicked { .. } => exit::PANICKED,
            Self::Muster(SearchError::Refused { .. }) => exit::USAGE,
            Self::Muster(SearchError::Stuck(_) | SearchError::Late { .. } | SearchError::Over { .. })
            | Self::Unloaded(_) => exit::PEER_LOST,
            Self::Left => 0,
            Self::Muster(_) | Self::Regroups { .. } => exit::OTHER,
            Self::Checkpoint(_)
            | Self::Unsaved(_)
            | Self::Stopped(_)
            | Self::Sample { .. }
            | Self::NoSuchKey { .. }
            | Self::Tally { .. }
            | Self::Write { .. }
            | Self::Export(_)
            | Self::Simulation(_)
            | Self::System { .. } => exit::OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::NodeId;

    #[test]
    fn divergence_elsewhere_ends_this_node_alike() {
        let here = Diverged { epoch: 2, step: 3, key: Some(Key(4)), what: "an update", value: f64::NAN };
        let aborted = |reason: String| {
            let failure = Failure { kind: FailureKind::Aborted, node: Some(NodeId(1)), reason };
            TrainError::from(intendant::Error::from(failure))
        };
        let there = aborted(here.to_string());
        assert_eq!(there.exit_code(), exit::DIVERGED);
        assert!(
            there.to_string().starts_with("node 1 diverged in epoch 2, step 3, key 4: an update is NaN"),
            "{there}"
        );
        let there = aborted(TrainError::ProgramDiverged("the precision is NaN".into()).to_string());
        assert_eq!(there.exit_code(), exit::DIVERGED);
        assert_eq!(there.to_string(), "node 1 diverged: the precision is NaN");
        assert_eq!(aborted("worker 0 panicked".to_owned()).exit_code(), exit::OTHER);
    }
}
