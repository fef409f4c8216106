//! The leader's ledger of cuts: what became of each attempt to make one.
//!
//! An attempt goes through *begun* (it has a number), *copied* (training goes on, parts are written),
//! *settled* (all nodes have told) and *committed*. It can fail at each of them, and what became of it is
//! known later than the next one begins. So everything is kept by attempt: neither the failure nor the
//! success of an earlier cut counts as that of the last one.
//!
//! The ledger orders what is to be written and does not write: [`Order`]s are for the thread that does.

use crate::best::Best;
use crate::error::TrainError;
use crate::origin::RunState;
use crossbeam_channel::{Receiver, Sender};
use intendant_checkpoint::protocol::Settled;
use intendant_checkpoint::{CheckpointError, Manifest, Range};
use intendant_core::ElementType;
use std::time::Duration;

/// What the thread that writes does for the leader.
pub(crate) enum Order {
    Commit {
        /// Without the state of the run.
        manifest: Box<Manifest>,
        state: Box<RunState>,
        stop: Duration,
        done: Sender<Result<(), CheckpointError>>,
    },
    /// The cut of this number is given up.
    Remove(u64),
}

/// What the manifest of the pending cut needs beside its parts.
pub(crate) struct Copied {
    pub(crate) state: RunState,
    pub(crate) stop: Duration,
    /// Its model, if that is the best one so far.
    pub(crate) best: Option<Best>,
}

/// A commit that was ordered.
struct Committing {
    attempt: u64,
    cut: u64,
    done: Receiver<Result<(), CheckpointError>>,
    /// The best model if it fails.
    best_before: Option<Best>,
}

/// See the [module documentation](self).
pub(crate) struct Ledger {
    element: ElementType,
    ranges: Vec<Range>,
    /// How often a cut was begun, or could not be.
    attempts: u64,
    /// The greatest number that a cut of this run has had.
    newest: u64,
    /// The cut whose parts are being written, with its attempt.
    pending: Option<(u64, Copied)>,
    committing: Option<Committing>,
    /// The newest attempt that made no checkpoint, and why.
    lost: Option<(u64, TrainError)>,
    /// The newest attempt that made a checkpoint, and its number.
    saved: Option<(u64, u64)>,
    best: Option<Best>,
}

impl Ledger {
    /// No cuts yet. `best` is the best model of an earlier run.
    pub(crate) const fn new(element: ElementType, ranges: Vec<Range>, best: Option<Best>) -> Self {
        Self {
            element,
            ranges,
            attempts: 0,
            newest: 0,
            pending: None,
            committing: None,
            lost: None,
            saved: None,
            best,
        }
    }

    /// The best model so far of which there is a checkpoint, or one that is being committed.
    pub(crate) const fn best(&self) -> Option<Best> {
        self.best
    }

    /// Another attempt: `begin` takes a number greater than the one it is given. `None` if it cannot.
    pub(crate) fn begin(&mut self, begin: impl FnOnce(u64) -> Result<u64, CheckpointError>) -> Option<u64> {
        self.attempts += 1;
        match begin(self.newest) {
            Ok(cut) => {
                self.newest = cut;
                Some(cut)
            }
            Err(error) => {
                tracing::warn!("no checkpoint is made now: {error}");
                self.lose(self.attempts, error.into());
                None
            }
        }
    }

    /// The number of a cut that has no place, and becomes no checkpoint.
    pub(crate) const fn next(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// All nodes have copied their values for the cut that was begun.
    pub(crate) fn copied(&mut self, copied: Copied) {
        self.pending = Some((self.attempts, copied));
    }

    /// All nodes have told what became of their parts of the pending cut; what is to be done. Waits until the
    /// commit before it is over, which it is: the same thread has written a part since.
    pub(crate) fn settle(&mut self, settled: Settled) -> Option<Order> {
        let (attempt, Copied { mut state, stop, best }) = self.pending.take()?;
        self.await_commit();
        match settled {
            Settled::Failed { cut, node, reason, .. } => {
                let reason = format!("checkpoint {cut} is given up: node {node} {reason}");
                tracing::warn!("{reason}");
                self.lose(attempt, TrainError::Unsaved(reason));
                Some(Order::Remove(cut))
            }
            Settled::Complete { cut, parts } => {
                let best_before = self.best;
                self.best = best.or(self.best);
                state.best_epoch = self.best.map(|best| best.epoch + 1);
                let ranges = self.ranges.clone();
                let manifest = Manifest::new(cut, self.element, ranges, parts, serde_json::Value::Null);
                let manifest = Box::new(Manifest { best: self.best.map(|best| best.cut), ..manifest });
                let (done, committed) = crossbeam_channel::bounded(1);
                self.committing = Some(Committing { attempt, cut, done: committed, best_before });
                Some(Order::Commit { manifest, state: Box::new(state), stop, done })
            }
        }
    }

    /// Waits until the cut that was settled is committed, or could not be.
    pub(crate) fn await_commit(&mut self) {
        let Some(Committing { attempt, cut, done, best_before }) = self.committing.take() else { return };
        match done.recv() {
            Ok(Ok(())) => self.saved = Some((attempt, cut)),
            Ok(Err(error)) => {
                self.best = best_before;
                self.lose(attempt, error.into());
            }
            // The thread has ended early, and says why.
            Err(_) => self.best = best_before,
        }
    }

    /// The cut of an attempt is no checkpoint.
    fn lose(&mut self, attempt: u64, error: TrainError) {
        if self.lost.as_ref().is_none_or(|(newest, _)| *newest <= attempt) {
            self.lost = Some((attempt, error));
        }
    }

    /// Why the last attempt made no checkpoint, if that is known.
    pub(crate) fn unsaved(&mut self) -> Option<TrainError> {
        let last = self.attempts;
        self.lost.take().filter(|(attempt, _)| *attempt == last).map(|(_, error)| error)
    }

    /// The number of the checkpoint that the last attempt made.
    pub(crate) fn saved(&self) -> Option<u64> {
        self.saved.filter(|(attempt, _)| *attempt == self.attempts).map(|(_, cut)| cut)
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
