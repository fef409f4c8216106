//! Checkpoints and copies: their flags, and what they need.

use super::flag;
use super::headings::CHECKPOINTS;
use super::technique::Technique;
use super::values::{Keep, seconds};
use crate::error::TrainError;
use intendant::Rendezvous;
use intendant_checkpoint::{Checkpoint, Folder};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

// The flags, as the user typed them. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CheckpointArgs {
    /// Write checkpoints to this folder, from which --resume continues the run. All nodes must reach it. A
    /// program that is built with the feature s3 also takes s3://BUCKET/PREFIX
    #[arg(
        long, groups = [flag::BASIC, flag::OUTPUT], value_name = "DIR", conflicts_with = "simulate",
        help_heading = CHECKPOINTS,
    )]
    pub(crate) checkpoint: Option<PathBuf>,

    /// Seconds between two checkpoints. There is one at the end of the training as well
    #[arg(
        long, value_name = "S", default_value_t = 60.0, value_parser = seconds,
        help_heading = CHECKPOINTS
    )]
    pub(crate) checkpoint_seconds: f64,

    /// Continue from the newest checkpoint, if there is one. Flags about the cluster may differ from those of
    /// the run that wrote it
    #[arg(long, groups = [flag::BASIC, flag::OUTPUT], requires = "checkpoint", help_heading = CHECKPOINTS)]
    pub(crate) resume: bool,

    /// Begin with the parameters of a checkpoint of another run, instead of initial ones
    #[arg(long, value_name = "DIR", conflicts_with = "simulate", help_heading = CHECKPOINTS)]
    pub(crate) from: Option<PathBuf>,

    /// Start the nodes again, up to so many times in a row, when one was killed or lost: they continue from
    /// the newest checkpoint. Newer checkpoints make the count start anew. Needs --checkpoint
    #[arg(
        long, group = flag::OUTPUT, value_name = "K", default_value_t = 0, conflicts_with = "simulate",
        help_heading = CHECKPOINTS,
    )]
    pub(crate) max_restarts: u32,

    /// Seconds to write a last checkpoint after Ctrl-C, SIGTERM, SIGHUP or SIGUSR1, before the run ends
    /// without. A second signal ends it at once
    #[arg(
        long, group = flag::OUTPUT, value_name = "S", default_value_t = 25.0, value_parser = seconds,
        help_heading = CHECKPOINTS
    )]
    pub(crate) grace_seconds: f64,
}

// Those of runs that manage parameters. (Not a documentation comment, as above.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServerCheckpointArgs {
    /// The model that is tested and exported, and whose checkpoint is kept: that of the last epoch (last), or
    /// that of the best validation (best). Needs --checkpoint
    #[arg(
        long, value_name = "last|best", default_value = "last",
        conflicts_with = "simulate", help_heading = CHECKPOINTS,
    )]
    pub(crate) keep: Keep,

    /// Let so many other nodes hold a copy of what each node owns, as it was at the last cut
    /// (--checkpoint-seconds). When up to so many nodes are lost, the others go on from there; nodes can join
    /// (--join) and leave (`intendant scale`). It needs no --checkpoint
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = CHECKPOINTS)]
    pub(crate) copies: usize,

    /// Join a run with --copies: the address that its node 0 has told, or that of any other node of it. The
    /// other flags are those of the run
    #[arg(
        long, group = flag::OWN, value_name = "HOST:PORT", conflicts_with = "simulate",
        help_heading = CHECKPOINTS,
    )]
    pub(crate) join: Option<String>,
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

impl Checkpoints {
    /// The effective configuration of the run that this one continues, if its newest manifest can be read.
    pub(super) fn resumed(&self) -> Option<serde_json::Value> {
        let folder = self.folder.as_ref().filter(|_| self.resume)?;
        let newest = *folder.cuts().ok()?.last()?;
        // What is wrong with the checkpoint is told when it is opened.
        Checkpoint::manifest_in(&folder.place(newest)).ok()?.run.get("config").cloned()
    }
}

impl CheckpointArgs {
    /// Restarts are for whom starts the nodes, and need something to continue from.
    pub(super) fn check_restarts(&self, rendezvous: Option<&Rendezvous>) -> Result<(), TrainError> {
        if self.max_restarts == 0 {
            return Ok(());
        }
        if self.checkpoint.is_none() {
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

    /// What the flags ask for.
    pub(super) fn checkpoints(self, keep: Keep) -> Result<Checkpoints, TrainError> {
        Ok(Checkpoints {
            folder: folder_at("--checkpoint", self.checkpoint)?,
            seconds: self.checkpoint_seconds,
            resume: self.resume,
            keep,
            from: folder_at("--from", self.from)?,
            max_restarts: self.max_restarts,
            grace: Duration::from_secs_f64(self.grace_seconds),
        })
    }
}

impl ServerCheckpointArgs {
    /// The best of several models needs validations, and a place.
    pub(super) fn check_comparisons(
        &self,
        patience: Option<NonZeroU32>,
        valid_every: u32,
        has_folder: bool,
    ) -> Result<(), TrainError> {
        let keeps_best = self.keep == Keep::Best;
        let compares = [("--patience", patience.is_some()), ("--keep best", keeps_best)];
        if let (Some((flag, _)), 0) = (compares.iter().find(|(_, is_given)| *is_given), valid_every) {
            return Err(TrainError::usage(format!(
                "{flag} compares validations, and --valid-every 0 asks for none; leave one of them out"
            )));
        }
        if keeps_best && !has_folder {
            return Err(TrainError::usage(
                "--keep best: the best model is kept as a checkpoint; add --checkpoint DIR",
            ));
        }
        Ok(())
    }

    /// Copies are held by other nodes, of a parameter server, in processes of their own.
    pub(super) fn check_copies(
        &self,
        (technique, nodes): (Technique, usize),
        rendezvous: Option<&Rendezvous>,
        is_traced: bool,
    ) -> Result<(), TrainError> {
        let refused = |what: String| Err(TrainError::usage(what));
        if self.copies == 0 {
            return match self.join {
                Some(_) => refused(
                    "--join: only runs with --copies let nodes join; give all of them --copies K".into(),
                ),
                None => Ok(()),
            };
        }
        if !matches!(technique, Technique::Server(_)) {
            let technique = technique.name();
            return refused(format!(
                "--copies: technique {technique} has no nodes that hold copies of values; leave it out"
            ));
        }
        if self.join.is_some() && rendezvous.is_some() {
            return refused(
                "--join: a launcher has started this process as a node; start it alone to join a run".into(),
            );
        }
        if self.copies >= nodes && self.join.is_none() {
            return refused(format!(
                "--copies {}: with {nodes} nodes, at most {} others can hold a copy",
                self.copies,
                nodes - 1
            ));
        }
        if is_traced {
            return refused(
                "--copies: a trace is of one cluster, and the nodes of this run may change: leave --trace out"
                    .into(),
            );
        }
        if self.keep == Keep::Best {
            return refused(
                "--copies: the best model is known to node 0 alone, which may be lost: leave --keep out"
                    .into(),
            );
        }
        Ok(())
    }
}

/// The folder at a path or an address that a flag gives.
fn folder_at(flag: &str, path: Option<PathBuf>) -> Result<Option<Folder>, TrainError> {
    path.map(Folder::at).transpose().map_err(|error| TrainError::usage(format!("{flag} {error}")))
}
