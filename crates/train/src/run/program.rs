//! Programs that train without a parameter server: epochs that they compute themselves, on threads of their
//! own, with the command line, the report, the history, the checkpoints and the export of all applications. A
//! program of several nodes exchanges by itself what it computes; node 0 has the results.

mod run;

use super::agreement::Terms;
use crate::error::{AppError, TrainError};
use crate::report::{Exchanged, ModelSize, VirtualTime};
use crate::settings::Plan;
use intendant::Aborter;
use intendant_checkpoint::{Checkpoint, CheckpointError, Values};
use intendant_core::{Key, KeyRange};
use intendant_task::{Reduction, Split};
pub use run::run_program;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What an application supplies that trains without a parameter server. See
/// [`App::without_server`](crate::App::without_server).
///
/// With several nodes, all of them call the same methods in the same order. What the methods return counts on
/// node 0. [`Program::begin`] comes before the first epoch, [`Program::leave`] last. Programs of one process
/// need no methods but the required ones.
pub trait Program {
    /// Computes the next epoch and returns the sums `examples` and `loss`. It may return early, with any
    /// sums, once `stop` is true.
    ///
    /// # Errors
    /// Any error ends the run; [`TrainError::ProgramDiverged`] if values leave the range of numbers.
    fn epoch(&mut self, stop: &AtomicBool) -> Result<Computed, TrainError>;

    /// The quality on held-out data now: the sums `quality.NAME` and `quality.count`, as
    /// [`Evaluation::finish`](intendant_task::Evaluation::finish) has them; none without held-out data.
    /// [`Split::Valid`] after some epochs, at most once after each, and [`Split::Test`] once at the end.
    ///
    /// # Errors
    /// Any error ends the run. A program of one node has none.
    fn evaluate(&mut self, split: Split) -> Result<Computed, TrainError>;

    /// After the last epoch, if something is exported: all nodes bring together what node 0 writes into
    /// `folder`, which is empty. `folder` is `None` on other nodes, and on node 0 if it could not be made.
    ///
    /// # Errors
    /// The outer error is one of the nodes, and ends the run. The inner one is one of the export, of which
    /// nothing is kept; the exchange with the other nodes is complete nevertheless.
    fn export(&mut self, folder: Option<&Path>) -> Result<Result<(), AppError>, TrainError>;

    /// Streams this node's values of the state ([`About::state`]), between two epochs. The nodes have every
    /// key once.
    fn save(&self, _part: &mut dyn FnMut(&[Key], &[f64])) {}

    /// Begins: at the start, after the epochs of an earlier run, or with the parameters of another one.
    ///
    /// # Errors
    /// Any error ends the run.
    fn begin(&mut self, _saved: Option<Saved<'_>>) -> Result<(), TrainError> {
        Ok(())
    }

    /// Waits until every node has called this with the same name; their payloads by rank.
    ///
    /// # Errors
    /// Any error ends the run. A program of one node has none.
    fn gather(&mut self, _name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        Ok(vec![payload])
    }

    /// Leaves the other nodes in order. It is called last, also if the run cannot begin, but not if it fails.
    ///
    /// # Errors
    /// If a node was lost meanwhile.
    fn leave(&mut self) -> Result<(), TrainError> {
        Ok(())
    }
}

/// What a [`Program`] trains, as it is known before it begins.
#[derive(Clone)]
pub struct About {
    /// Name of the task, as in the report.
    pub task: &'static str,
    /// Hash of everything that is trained on, and of the order.
    pub digest: u64,
    /// Size of the model. It is checked against the memory of the machine before the first epoch.
    pub size: ModelSize,
    /// What checkpoints have of all nodes together. If there are no ranges, checkpoints have no values.
    pub state: State,
    /// What ends the run on all nodes, while another thread waits in a method; `None` on one node.
    pub aborter: Option<Aborter>,
}

/// What a [`Program`] has computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Computed {
    /// The sums of all nodes.
    pub sums: Reduction,
    /// The costs of everything so far.
    pub costs: Costs,
}

/// What a [`Program`] has cost so far, beyond what node 0 sees by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// CPU time of the other nodes, nanoseconds.
    pub cpu_ns: u64,
    /// What all nodes exchanged; `None` if there are no others.
    pub exchanged: Option<Exchanged>,
    /// The epochs in virtual time, if the nodes are simulated.
    pub simulated: Option<VirtualTime>,
}

impl Costs {
    /// What was added since `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            exchanged: self.exchanged.map(|all| all.since(&before.exchanged.unwrap_or_default())),
            simulated: self.simulated.map(|all| all.since(&before.simulated.unwrap_or_default())),
        }
    }
}

/// What checkpoints have of a program: ranges of keys, with values of f64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Name, keys and numbers per value of each range. Keys are numbered range by range, from 0.
    pub ranges: Vec<(&'static str, u64, usize)>,
    /// The first so many ranges are what another run can begin with (`--from`).
    pub parameters: usize,
}

impl State {
    fn ranges(&self) -> (Vec<KeyRange>, usize) {
        let mut first = 0;
        let ranges = self.ranges.iter().map(|(name, keys, len)| {
            let keys = first..first + keys;
            first = keys.end;
            KeyRange::new(name, keys, *len)
        });
        (ranges.collect(), self.parameters)
    }
}

/// The state of an earlier run, with which a program goes on, or the parameters of another one.
pub struct Saved<'a> {
    epochs: Option<u32>,
    values: Values<'a, f64>,
    checkpoint: &'a Checkpoint,
    place: &'a str,
}

impl<'a> Saved<'a> {
    fn new(epochs: Option<u32>, checkpoint: &'a Checkpoint, place: &'a str) -> Self {
        Self { epochs, values: checkpoint.values(), checkpoint, place }
    }

    /// The epochs that the earlier run has trained. `None` if only parameters count: this is a new run.
    #[must_use]
    pub const fn epochs(&self) -> Option<u32> {
        self.epochs
    }

    /// Reads the values of successive keys, from `first` on.
    ///
    /// # Errors
    /// If the checkpoint cannot be read any more.
    ///
    /// # Panics
    /// If the state has no such keys, or `values` is not as long as theirs.
    pub fn read(&mut self, first: u64, values: &mut [f64]) -> Result<(), TrainError> {
        let mut rest = values;
        for key in (first..).map(Key) {
            if rest.is_empty() {
                break;
            }
            let (value, after) = rest.split_at_mut(self.checkpoint.value_len(key));
            let read = self.values.read(key, value);
            read.map_err(|source| CheckpointError::Io { what: "read", path: self.place.into(), source })?;
            rest = after;
        }
        Ok(())
    }
}

/// Settings by name that must be equal on all nodes of a program, under which it trains data of this digest.
#[must_use]
pub fn terms(plan: &Plan, name: &str, digest: u64) -> Vec<(String, String)> {
    Terms::of_program(name, digest, plan).settings(plan)
}
