//! The leader's ledger of cuts: the outcome of each attempt to make one.
//!
//! An attempt is *begun* (it has a number), *copied* (training goes on, parts are written), *settled* (all
//! nodes have reported) and *committed*. It can fail at each of these steps, and the next attempt may begin
//! before the outcome is known. So the ledger keeps the outcome by attempt: neither the failure nor the
//! success of an earlier cut counts as that of the last one.

use crate::CheckpointError;
use crate::manifest::Part;
use crate::protocol::Settled;

/// The best model of a run that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// The cut that has it.
    pub cut: u64,
    /// The epoch after which it was made, from 0.
    pub epoch: usize,
}

impl Best {
    /// The best model from the cut that a manifest names, and from the epoch that the state of its run names,
    /// which counts from 1.
    #[must_use]
    pub fn of(cut: Option<u64>, epoch: Option<usize>) -> Option<Self> {
        Some(Self { cut: cut?, epoch: epoch?.checked_sub(1)? })
    }
}

/// The reason for which an attempt made no checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum Unsaved {
    /// The folder refused the cut, when it was begun or at the commit.
    #[error(transparent)]
    Refused(#[from] CheckpointError),
    /// A node could not write its part.
    #[error("{0}")]
    GivenUp(String),
}

/// The action of the leader for a cut that is settled.
#[derive(Debug)]
pub(crate) enum Order {
    Commit { cut: u64, parts: Vec<Part>, best: Option<Best> },
    GiveUp { cut: u64, reason: String },
}

/// A commit that was ordered.
#[derive(Debug)]
struct Committing {
    attempt: u64,
    cut: u64,
    /// The best model if the commit fails.
    best_before: Option<Best>,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Number of attempts, including those that could not begin.
    attempts: u64,
    /// The greatest number that a cut of this run has had.
    newest: u64,
    /// The attempt whose parts are being written, and its model if this is the best one so far.
    pending: Option<(u64, Option<Best>)>,
    committing: Option<Committing>,
    /// The newest attempt that made no checkpoint, and why.
    lost: Option<(u64, Unsaved)>,
    /// The newest attempt that made a checkpoint, and its number.
    saved: Option<(u64, u64)>,
    best: Option<Best>,
}

impl Ledger {
    /// No cuts yet. `best` is the best model of an earlier run.
    pub(crate) const fn new(best: Option<Best>) -> Self {
        Self { attempts: 0, newest: 0, pending: None, committing: None, lost: None, saved: None, best }
    }

    /// The best model so far of which a checkpoint exists or is being committed.
    pub(crate) const fn best(&self) -> Option<Best> {
        self.best
    }

    /// The greatest number that a cut has had.
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    /// Another attempt has this number, or could not begin.
    pub(crate) fn begun(&mut self, begun: Result<u64, CheckpointError>) -> Option<u64> {
        self.attempts += 1;
        match begun {
            Ok(cut) => {
                self.newest = cut;
                Some(cut)
            }
            Err(error) => {
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
    pub(crate) const fn copied(&mut self, best: Option<Best>) {
        self.pending = Some((self.attempts, best));
    }

    /// Whether a commit was ordered and its outcome is not known yet.
    pub(crate) const fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// All nodes have reported the outcome of their parts of the pending cut. Returns the leader's action.
    /// The outcome of the previous commit must be known.
    pub(crate) fn settle(&mut self, settled: Settled) -> Option<Order> {
        let (attempt, best) = self.pending.take()?;
        Some(match settled {
            Settled::Failed { cut, node, reason, .. } => {
                let reason = format!("checkpoint {cut} is given up: node {node} {reason}");
                self.lose(attempt, Unsaved::GivenUp(reason.clone()));
                Order::GiveUp { cut, reason }
            }
            Settled::Complete { cut, parts } => {
                self.committing = Some(Committing { attempt, cut, best_before: self.best });
                self.best = best.or(self.best);
                Order::Commit { cut, parts, best: self.best }
            }
        })
    }

    /// The outcome of the commit that was ordered; `None` if the thread that commits has ended. It then
    /// reports the reason itself.
    pub(crate) fn committed(&mut self, committed: Option<Result<(), CheckpointError>>) {
        let Some(Committing { attempt, cut, best_before }) = self.committing.take() else { return };
        match committed {
            Some(Ok(())) => self.saved = Some((attempt, cut)),
            Some(Err(error)) => {
                self.best = best_before;
                self.lose(attempt, error.into());
            }
            None => self.best = best_before,
        }
    }

    /// The cut of an attempt is no checkpoint.
    fn lose(&mut self, attempt: u64, error: Unsaved) {
        if self.lost.as_ref().is_none_or(|(newest, _)| *newest <= attempt) {
            self.lost = Some((attempt, error));
        }
    }

    /// The reason for which the last attempt made no checkpoint, if it is known.
    pub(crate) fn unsaved(&mut self) -> Option<Unsaved> {
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
