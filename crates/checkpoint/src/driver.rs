//! The program of a worker for the cuts of its run, as a sequence of operations. Between meetings the worker
//! trains. At a meeting it votes, and copies the values that its node owns if a cut is due. At the end it
//! waits until the last cut is a checkpoint.
//!
//! The program has no I/O, threads or clocks. An interpreter executes each operation ([`CutOp`]) and passes
//! its result ([`CutEvent`]) and the time to [`CutDriver::step`], which returns the next operation. There are
//! two interpreters: training threads, and simulated clusters in virtual time.
//!
//! ```text
//! Meet ─► Begin ─► AskPart ─► Tell ─► Settled ─► AwaitCommit ─► Commit or GiveUp ─┬─► Train or Ends
//!           ▲                                                                     │       ▲
//!           └─ once, if the training ends and no cut was begun ───────────────────┤       │
//!                                   a cut ─► Rest ─► Copy ─► Share ─► Record ─► Write ────┘
//!
//! End ─► AskPart ─► Tell ─► Settled ─► AwaitCommit ─► Commit or GiveUp ─► AwaitCommit ─► Leave ─► Left
//! ```
//!
//! All workers meet for [`CutOp::Tell`], [`CutOp::Rest`], [`CutOp::Share`] and [`CutOp::Leave`]. The other
//! operations are those of some workers only: the leader, and the first worker of each node.

use crate::CheckpointError;
use crate::ledger::{Best, Ledger, Order, Unsaved};
use crate::manifest::Part;
use crate::protocol::{End, Protocol, Seat, Settled, Vote, Written};
use std::time::Duration;

/// The next operation of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutOp {
    /// The leader takes a number greater than `after` for a cut. Answer: [`CutEvent::Begun`].
    Begin {
        /// The greatest number that a cut of this run has had.
        after: u64,
    },
    /// The first worker of a node looks up the outcome of its node's part of the pending cut. Answer:
    /// [`CutEvent::Part`].
    AskPart {
        /// Whether it waits until the outcome is known.
        waits: bool,
    },
    /// All workers exchange their votes. Answer: [`CutEvent::Votes`].
    Tell(Vote),
    /// The pending cut is settled, and the first worker of a node drops the outcome of its part.
    Settled {
        /// The cut.
        cut: u64,
        /// Whether the run can go on from the copies that nodes hold of it. If so, the node drops older
        /// copies; if not, it drops those of this cut.
        is_copied: bool,
    },
    /// The leader waits until the cut that it has ordered to commit is a checkpoint, or cannot be one.
    /// Answer: [`CutEvent::Committed`].
    AwaitCommit,
    /// The leader orders that a cut becomes a checkpoint. It does not wait for the commit.
    Commit {
        /// The cut.
        cut: u64,
        /// The part of each node, in order.
        parts: Vec<Part>,
        /// The best model so far that is kept, if this cut is committed.
        best: Option<Best>,
    },
    /// The leader orders that the rest of a cut is removed.
    GiveUp {
        /// The cut.
        cut: u64,
        /// The reason for which it becomes no checkpoint, as a sentence.
        reason: String,
    },
    /// All workers wait until no change of a value is in flight.
    Rest,
    /// The first worker of a node copies the values that the node owns.
    Copy {
        /// The cut.
        cut: u64,
        /// Whether the copy will be written. If not, it is made for other nodes alone.
        is_written: bool,
    },
    /// All workers tell each other the state of their training. None trains on before all nodes have their
    /// copies.
    Share,
    /// The worker keeps the state that the run needs besides the values to go on at the cut. The leader keeps
    /// it for the manifest; in a run with copies, the first worker of each node keeps it as well.
    Record {
        /// The cut.
        cut: u64,
    },
    /// The first worker of a node orders that the copy is written. It does not wait for that.
    Write {
        /// The cut.
        cut: u64,
    },
    /// The meeting is over. The worker trains, and meets the others again after `batches` batches.
    Train {
        /// Batches to the next meeting.
        batches: u64,
    },
    /// The meeting is over, and the training ends. The worker passes [`CutEvent::End`] next.
    Ends(End),
    /// All workers wait for each other: no node leaves before the last cut is a checkpoint.
    Leave,
    /// The worker has left: there are no more meetings.
    Left,
}

/// The result of an operation, or an event at a worker that trains.
#[derive(Debug)]
pub enum CutEvent {
    /// The worker meets all others.
    Meet(Meeting),
    /// The training is over, and the last cut is made.
    End,
    /// The cut has this number, or cannot be made.
    Begun(Result<u64, CheckpointError>),
    /// The outcome of the part, if it is known.
    Part(Option<Written>),
    /// The votes of all workers, in the order of node and worker.
    Votes(Vec<Vote>),
    /// The outcome of the commit; `None` if the commit never ends.
    Committed(Option<Result<(), CheckpointError>>),
    /// The operation is done.
    Done,
}

/// The state of a worker when it meets the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meeting {
    /// Batches that were trained since the last meeting.
    pub batches: u64,
    /// Whether a cut is made in any case: the model is the best so far, or the last one.
    pub must: bool,
    /// The epoch that has just ended, from 0, if its model is the best one so far.
    pub best: Option<usize>,
    /// The reason for which the node is to end, if it is to end.
    pub end: Option<End>,
}

/// The rules by which a run makes cuts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutRules {
    /// Seconds between two cuts.
    pub seconds: f64,
    /// Whether cuts are written as checkpoints.
    pub writes: bool,
    /// Whether nodes hold copies of each other's values: then the run depends on its cuts, and the first
    /// meeting makes one.
    pub copies: bool,
    /// Batches before the first meeting; with `None`, the protocol chooses.
    pub first_meeting: Option<u64>,
    /// The best model of an earlier run, from which this one goes on.
    pub best: Option<Best>,
}

/// The next stage of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    AskPart,
    Tell,
    Settle,
    Await,
    Order,
    Decide,
    Copy,
    Share,
    Record,
    Write,
    Over,
    LastAwait,
    Leave,
    Left,
}

/// The program of one worker for the cuts of its run.
#[derive(Debug)]
pub struct CutDriver {
    protocol: Protocol,
    rules: CutRules,
    /// Only the leader uses it.
    ledger: Ledger,
    stage: Stage,
    meeting: Meeting,
    /// At the leader, the cut that it has begun at this meeting, and whether that cut has no place in the
    /// folder.
    begun: Option<u64>,
    is_unsaved: bool,
    written: Option<Written>,
    settled: Option<Settled>,
    /// The cut that is made at this meeting, and whether it is written.
    cut: Option<(u64, bool)>,
    /// The reason for which the training ends after this meeting.
    end: Option<End>,
    /// Whether the workers vote again, because the training ends and no cut was begun.
    is_again: bool,
    /// Whether the training is over.
    is_last: bool,
}

impl CutDriver {
    /// The program of the worker at `seat`. It begins to train.
    #[must_use]
    pub fn new(seat: Seat, rules: CutRules, now: Duration) -> Self {
        let protocol = Protocol::new(seat, rules.seconds, now);
        let protocol = if rules.copies { protocol.cutting_first() } else { protocol };
        let protocol = match rules.first_meeting {
            Some(batches) => protocol.meeting_after(batches),
            None => protocol,
        };
        Self {
            protocol,
            rules,
            ledger: Ledger::new(rules.best),
            stage: Stage::Over,
            meeting: Meeting::default(),
            begun: None,
            is_unsaved: false,
            written: None,
            settled: None,
            cut: None,
            end: None,
            is_again: false,
            is_last: false,
        }
    }

    /// The number of batches before the first meeting.
    #[must_use]
    pub const fn first_meeting(&self) -> u64 {
        self.protocol.next_meeting()
    }

    /// Whether this worker leads.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        self.protocol.is_leader()
    }

    /// Whether this worker acts for its node.
    #[must_use]
    pub const fn is_first_of_node(&self) -> bool {
        self.protocol.is_first_of_node()
    }

    /// Whether the worker has left: there are no more meetings.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.stage == Stage::Left
    }

    /// At the leader, the best model so far of which there is a checkpoint.
    #[must_use]
    pub const fn best(&self) -> Option<Best> {
        self.ledger.best()
    }

    /// At the leader, after [`CutOp::Left`], the reason for which the last cut is no checkpoint. It is
    /// returned once.
    pub fn unsaved(&mut self) -> Option<Unsaved> {
        self.ledger.unsaved()
    }

    /// At the leader, after [`CutOp::Left`], the number of the last cut, if it is a checkpoint.
    #[must_use]
    pub fn saved(&self) -> Option<u64> {
        self.ledger.saved()
    }

    /// The next operation. `event` is the result of the last one. A worker that trains passes
    /// [`CutEvent::Meet`], and a worker whose training ends passes [`CutEvent::End`].
    pub fn step(&mut self, event: CutEvent, now: Duration) -> CutOp {
        match event {
            CutEvent::Meet(meeting) => {
                (self.meeting, self.end, self.is_again) = (meeting, None, false);
                self.stage = Stage::Begin;
            }
            CutEvent::End if self.stage == Stage::Left => {}
            CutEvent::End => (self.is_last, self.stage) = (true, Stage::AskPart),
            CutEvent::Begun(begun) => {
                self.begun = self.ledger.begun(begun);
                self.is_unsaved = self.begun.is_none() && self.rules.copies;
                if self.is_unsaved {
                    self.begun = Some(self.ledger.next());
                }
            }
            CutEvent::Part(written) => self.written = written,
            CutEvent::Votes(votes) => self.hear(&votes),
            CutEvent::Committed(committed) => self.ledger.committed(committed),
            CutEvent::Done => {}
        }
        loop {
            if let Some(op) = self.go(now) {
                return op;
            }
        }
    }

    /// All workers get the same votes, so that all of them decide alike.
    fn hear(&mut self, votes: &[Vote]) {
        let heard = self.protocol.hear(votes);
        self.settled = heard.settled;
        self.cut = heard.cut.map(|cut| (cut, self.rules.writes && !heard.is_unsaved));
        self.end = self.end.or(heard.end);
    }

    /// The operation of this stage, if the worker has one, and the stage after it.
    fn go(&mut self, now: Duration) -> Option<CutOp> {
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::AskPart;
                (self.begun, self.is_unsaved) = (None, false);
                if !self.protocol.is_due(now, self.must()) {
                    return None;
                }
                self.protocol.begun(now);
                let after = self.ledger.newest();
                if self.rules.writes {
                    return Some(CutOp::Begin { after });
                }
                self.begun = self.ledger.begun(Ok(after + 1));
                None
            }
            Stage::AskPart => {
                self.stage = Stage::Tell;
                self.written = None;
                let waits = self.is_last || self.must();
                self.protocol.tells_of_part().then_some(CutOp::AskPart { waits })
            }
            Stage::Tell => {
                self.stage = Stage::Settle;
                let written = self.written.take();
                if self.is_last {
                    return Some(CutOp::Tell(self.protocol.last_vote(written)));
                }
                let vote = self.protocol.vote(now, self.meeting.batches, self.begun, written);
                Some(CutOp::Tell(vote.without_place(self.is_unsaved).asking_for_end(self.meeting.end)))
            }
            Stage::Settle => {
                self.stage = Stage::Await;
                let settled = self.settled.as_ref().filter(|_| self.protocol.is_first_of_node())?;
                Some(CutOp::Settled { cut: settled.cut(), is_copied: settled.is_copied() })
            }
            Stage::Await => {
                self.stage = Stage::Order;
                // The commit is over, because the same thread has written a part since.
                (self.settled.is_some() && self.ledger.is_committing()).then_some(CutOp::AwaitCommit)
            }
            Stage::Order => {
                self.stage = Stage::Decide;
                Some(match self.ledger.settle(self.settled.take()?)? {
                    Order::Commit { cut, parts, best } => CutOp::Commit { cut, parts, best },
                    Order::GiveUp { cut, reason } => CutOp::GiveUp { cut, reason },
                })
            }
            Stage::Decide if self.is_last => {
                self.stage = Stage::LastAwait;
                None
            }
            Stage::Decide if self.cut.is_some() => {
                self.stage = Stage::Copy;
                Some(CutOp::Rest)
            }
            Stage::Decide => {
                // A run that ends does so at a cut. If no cut can be begun, it ends without one.
                let again = self.end.is_some() && !self.is_again;
                self.stage = if again { Stage::Begin } else { Stage::Over };
                self.is_again = again;
                None
            }
            Stage::Copy => {
                self.stage = Stage::Share;
                let (cut, is_written) = self.cut.filter(|_| self.protocol.is_first_of_node())?;
                Some(CutOp::Copy { cut, is_written })
            }
            Stage::Share => {
                self.stage = Stage::Record;
                Some(CutOp::Share)
            }
            Stage::Record => {
                self.stage = Stage::Write;
                let (cut, _) = self.cut?;
                if self.protocol.is_leader() && !self.is_unsaved {
                    self.ledger.copied(self.meeting.best.map(|epoch| Best { cut, epoch }));
                }
                let records = self.protocol.is_first_of_node() && self.rules.copies;
                (self.protocol.is_leader() || records).then_some(CutOp::Record { cut })
            }
            Stage::Write => {
                self.stage = Stage::Over;
                let (cut, _) = self.cut.take().filter(|_| self.protocol.is_first_of_node())?;
                Some(CutOp::Write { cut })
            }
            Stage::Over => {
                self.protocol.leave(now);
                Some(match self.end.take() {
                    Some(end) => CutOp::Ends(end),
                    None => CutOp::Train { batches: self.protocol.next_meeting() },
                })
            }
            Stage::LastAwait => {
                self.stage = Stage::Leave;
                self.ledger.is_committing().then_some(CutOp::AwaitCommit)
            }
            Stage::Leave => {
                self.stage = Stage::Left;
                Some(CutOp::Leave)
            }
            Stage::Left => Some(CutOp::Left),
        }
    }

    /// Whether a cut is made at this meeting in any case.
    const fn must(&self) -> bool {
        self.meeting.must || self.is_again
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
