//! The protocol of cuts: the decisions of workers when they meet. It has no I/O, threads or clocks; its
//! caller exchanges the votes, passes the time in, and writes.
//!
//! All workers meet between the same two batches, and each sends a [`Vote`] to all. The *leader*, the first
//! worker of the first node, says whether a cut is made now, and after how many batches the next meeting is;
//! its clock is the only one that counts. The first worker of each node reports the outcome of its node's
//! part. When all nodes have reported, each worker settles the cut ([`Settled`]), and the leader's caller
//! commits it. All workers get the same votes, so that all come to the same decisions.

use crate::Part;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Batches before the first meeting, when no worker knows yet how long a batch takes.
const FIRST_MEETING: u64 = 16;

/// The interval between meetings grows by at most this factor from one meeting to the next, because the time
/// of the first batches says little.
const RARER: u64 = 8;

/// The most seconds between two meetings: a part that is written is committed at the next meeting.
const MEETING_SECONDS_MAX: f64 = 5.0;

/// The position of a worker in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its node, from 0.
    pub node: u16,
    /// Its index within the node, from 0.
    pub worker: usize,
    /// Workers of each node.
    pub workers: usize,
}

/// A node's part of a cut, once it is durable, or the reason for which it cannot be written.
pub type Written = Result<Part, Unwritten>;

/// The reason for which a node's part of a cut cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwritten {
    /// The rest of a sentence that begins with the node.
    pub reason: String,
    /// Whether the node holds the copies of other nodes' parts that it should hold, although the disk is
    /// full.
    pub is_copied: bool,
}

/// The reason for which the run ends early, or goes on with other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// A signal asks for it.
    Signal(i32),
    /// The run is to go on with this many of its nodes, and with the processes that want to join.
    Nodes(u16),
}

/// The message of a worker to all others at a meeting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// From the leader: the number of the cut that is made now, if any.
    cut: Option<u64>,
    /// From the leader: whether nodes copy their parts of it, and write none, because the cut has no place in
    /// the folder.
    is_unsaved: bool,
    /// From the leader: batches to the next meeting.
    next: u64,
    /// From the first worker of a node: the outcome of the node's part of the pending cut, once it is known.
    written: Option<Written>,
    /// From the workers of a node that was asked to end the run: the reason.
    end: Option<End>,
}

impl Vote {
    /// The same vote, for a cut that has no place in the folder: nodes copy their parts, and write none.
    #[must_use]
    pub fn without_place(self, is_unsaved: bool) -> Self {
        Self { is_unsaved, ..self }
    }

    /// The same vote, of a node that was asked to end the run.
    #[must_use]
    pub fn asking_for_end(self, end: Option<End>) -> Self {
        Self { end, ..self }
    }
}

/// The outcome of the pending cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// All its parts are durable: the leader's caller commits it.
    Complete {
        /// Its number.
        cut: u64,
        /// The part of each node, in order.
        parts: Vec<Part>,
    },
    /// It is given up: the leader's caller removes it.
    Failed {
        /// Its number.
        cut: u64,
        /// The first node that could not write its part.
        node: usize,
        /// The reason.
        reason: String,
        /// Whether all nodes hold the copies that they should hold: the cut is no checkpoint, but a run that
        /// loses nodes can go on from it.
        is_copied: bool,
    },
}

impl Settled {
    /// The number of the cut.
    pub(crate) const fn cut(&self) -> u64 {
        let (Self::Complete { cut, .. } | Self::Failed { cut, .. }) = self;
        *cut
    }

    /// Whether all nodes hold the copies that they should hold.
    pub(crate) const fn is_copied(&self) -> bool {
        match self {
            Self::Complete { .. } => true,
            Self::Failed { is_copied, .. } => *is_copied,
        }
    }
}

/// The decisions of a meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The outcome of the cut that was pending, if all nodes have reported.
    pub settled: Option<Settled>,
    /// The cut that all workers make now.
    pub cut: Option<u64>,
    /// Whether nodes only copy their parts of it.
    pub is_unsaved: bool,
    /// A node was asked to end the run: all workers make a last cut. If none is made now, they meet again at
    /// once, as at the end of the training.
    pub end: Option<End>,
}

/// The protocol at one worker. Times are those of the worker's own clock, since an arbitrary moment.
#[derive(Clone, Debug)]
pub struct Protocol {
    seat: Seat,
    /// Seconds between two cuts.
    seconds: f64,
    /// The cut whose parts are being written.
    pending: Option<u64>,
    /// Whether the run depends on its cuts, and whether it has no cut yet. If both are true, each meeting
    /// begins a cut.
    depends: bool,
    is_bare: bool,
    last_cut: Duration,
    last_meeting: Duration,
    /// Batches to the next meeting; at a meeting, those since the last one.
    interval: u64,
}

impl Protocol {
    /// The protocol at a worker of a run that makes a cut every `seconds` seconds.
    #[must_use]
    pub const fn new(seat: Seat, seconds: f64, now: Duration) -> Self {
        Self {
            seat,
            seconds,
            pending: None,
            depends: false,
            is_bare: false,
            last_cut: now,
            last_meeting: now,
            interval: FIRST_MEETING,
        }
    }

    /// The same protocol, with the first meeting after `batches` batches. The number must be the same at all
    /// workers.
    #[must_use]
    pub const fn meeting_after(self, batches: u64) -> Self {
        Self { interval: if batches == 0 { 1 } else { batches }, ..self }
    }

    /// The same protocol, of a run that depends on its cuts from the beginning: the first meeting makes a
    /// cut.
    #[must_use]
    pub const fn cutting_first(self) -> Self {
        Self { depends: true, is_bare: true, ..self }
    }

    /// Whether this worker leads. Its caller asks [`Protocol::is_due`], begins and commits cuts.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        self.seat.node == 0 && self.seat.worker == 0
    }

    /// Whether this worker reports the outcome of its node's part.
    #[must_use]
    pub const fn is_first_of_node(&self) -> bool {
        self.seat.worker == 0
    }

    /// The number of batches to the next meeting.
    #[must_use]
    pub const fn next_meeting(&self) -> u64 {
        self.interval
    }

    /// The cut whose parts are being written.
    #[must_use]
    pub const fn pending(&self) -> Option<u64> {
        self.pending
    }

    /// Whether the vote at the next meeting reports the outcome of this node's part.
    #[must_use]
    pub const fn tells_of_part(&self) -> bool {
        self.is_first_of_node() && self.pending.is_some()
    }

    /// Whether this worker is to begin a cut. If a cut `must` be made (of the best model so far, or at the
    /// end of the training), all nodes wait for their parts of the pending cut before they vote, so that the
    /// pending cut is settled first.
    #[must_use]
    pub fn is_due(&self, now: Duration, must: bool) -> bool {
        let since = now.saturating_sub(self.last_cut).as_secs_f64();
        // Usually one cut is pending at a time, because the copy of a cut takes as much memory as its values.
        self.is_leader() && (must || self.is_bare || since >= self.seconds && self.pending.is_none())
    }

    /// A cut was begun, or could not be: the next one is due `seconds` seconds from now.
    pub const fn begun(&mut self, now: Duration) {
        self.last_cut = now;
    }

    /// The vote of this worker at a meeting. `batches` batches were trained since the last meeting; `cut` is
    /// the number of the cut that was begun. Only the values of the leader count.
    #[must_use]
    pub fn vote(&self, now: Duration, batches: u64, cut: Option<u64>, written: Option<Written>) -> Vote {
        let (cut, next) = if self.is_leader() { (cut, self.next(now, batches)) } else { (None, 0) };
        Vote { cut, is_unsaved: false, next, written: self.of_pending(written), end: None }
    }

    /// The vote of this worker after the end of the training, with which only the pending cut is settled.
    #[must_use]
    pub fn last_vote(&self, written: Option<Written>) -> Vote {
        Vote { written: self.of_pending(written), ..Vote::default() }
    }

    fn of_pending(&self, written: Option<Written>) -> Option<Written> {
        written.filter(|_| self.tells_of_part())
    }

    /// The leader's number of batches to the next meeting.
    fn next(&self, now: Duration, batches: u64) -> u64 {
        let lap = now.saturating_sub(self.last_meeting).as_secs_f64().max(1e-6);
        let goal = (self.seconds / 4.0).min(MEETING_SECONDS_MAX);
        let wanted = batches.max(1) as f64 * goal / lap;
        (wanted as u64).clamp(1, self.interval.saturating_mul(RARER))
    }

    /// Takes the votes of all workers, in the order of node and worker. If there are no votes, nothing is
    /// decided. If a cut is settled, the caller drops the outcome of its part.
    pub fn hear(&mut self, votes: &[Vote]) -> Heard {
        let nothing = Vote::default();
        let leader = votes.first().unwrap_or(&nothing);
        let settled = self.settle(votes);
        if leader.cut.is_some() {
            self.pending = leader.cut;
            self.is_bare = false;
        }
        self.interval = leader.next.max(1);
        let end = votes.iter().find_map(|vote| vote.end);
        Heard { settled, cut: leader.cut, is_unsaved: leader.is_unsaved, end }
    }

    /// The meeting is over: training goes on.
    pub const fn leave(&mut self, now: Duration) {
        self.last_meeting = now;
    }

    fn settle(&mut self, votes: &[Vote]) -> Option<Settled> {
        let cut = self.pending.filter(|_| !votes.is_empty())?;
        let of_nodes = votes.iter().step_by(self.seat.workers).map(|vote| vote.written.clone());
        // All nodes must have reported. Otherwise a part that a node writes late would be taken for its part
        // of the next cut.
        let written: Vec<Written> = of_nodes.collect::<Option<_>>()?;
        self.pending = None;
        let is_copied = written.iter().all(|part| part.as_ref().map_or_else(|why| why.is_copied, |_| true));
        let mut parts = Vec::with_capacity(written.len());
        for (node, part) in written.into_iter().enumerate() {
            match part {
                Ok(part) => parts.push(part),
                Err(Unwritten { reason, .. }) => {
                    self.is_bare = self.depends && !is_copied;
                    return Some(Settled::Failed { cut, node, reason, is_copied });
                }
            }
        }
        Some(Settled::Complete { cut, parts })
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
