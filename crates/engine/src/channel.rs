//! One channel of a node: its state, and what it does with an input. What happens to accesses, relocations and snapshots is in
//! the modules of these names.

use crate::batch::Batch;
use crate::error::Violation;
use crate::input::{Action, Completion, Input, Kind, SnapshotAsk, Submission};
use crate::moves::Moves;
use crate::quiesce::ChannelReport;
use crate::relocations::{Arrival, Departed};
use crate::replies::Replies;
use crate::shared::Shared;
use crate::stats::ManagementStats;
use bytes::Bytes;
use hashbrown::HashMap;
use intendant_core::{ChannelId, Element, Key, NodeId, Tick, WorkerId};
use intendant_wire::{AccessKind, Message, OpId, Origin, Response};
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) type Hash = foldhash::fast::FixedState;

/// An operation that waits for answers.
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    keys: Vec<Key>,
    /// Ascending; parallel to `keys`.
    positions: Vec<u32>,
    /// Whether the position has been answered.
    answered: Vec<bool>,
    left: usize,
}

/// An operation on one key that waits for the worker's outstanding one.
pub(crate) struct Link {
    pub(crate) op: OpId,
    pub(crate) kind: AccessKind,
    pub(crate) position: u32,
    pub(crate) operand: Bytes,
}

/// One channel of a node.
pub struct Channel<E> {
    pub(crate) id: ChannelId,
    pub(crate) shared: Arc<Shared<E>>,
    /// Of the current input.
    pub(crate) now: Tick,
    pub(crate) pending: HashMap<(WorkerId, OpId), Pending, Hash>,
    pub(crate) snapshots: HashMap<(WorkerId, OpId), SnapshotAsk, Hash>,
    /// Per worker and key with an outstanding operation: the operations that wait for it. Only with
    /// [`intendant_techniques::Order::Chain`].
    pub(crate) chains: HashMap<(WorkerId, Key), VecDeque<Link>, Hash>,
    /// Keys that are on their way here, with what waits for them.
    pub(crate) arrivals: HashMap<Key, Arrival, Hash>,
    pub(crate) departed: Departed,
    pub(crate) replies: Replies,
    pub(crate) batch: Batch,
    pub(crate) moves: Moves,
    pub(crate) stats: ManagementStats,
    sent: u64,
    received: u64,
}

impl<E: Element> Channel<E> {
    /// A channel at the start.
    #[must_use]
    pub fn new(id: ChannelId, shared: Arc<Shared<E>>) -> Self {
        Self {
            id,
            shared,
            now: Tick(0),
            pending: HashMap::default(),
            snapshots: HashMap::default(),
            chains: HashMap::default(),
            arrivals: HashMap::default(),
            departed: Departed::default(),
            replies: Replies::default(),
            batch: Batch::default(),
            moves: Moves::default(),
            stats: ManagementStats::default(),
            sent: 0,
            received: 0,
        }
    }

    /// The channel's id.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// What is outstanding, and what was sent and received: see [`crate::quiesce`].
    pub fn report(&self) -> ChannelReport {
        ChannelReport {
            outstanding: (self.pending.len() + self.snapshots.len() + self.arrivals.len()) as u64,
            sent: self.sent,
            received: self.received,
        }
    }

    /// What managing keys took so far.
    pub fn management(&self) -> &ManagementStats {
        &self.stats
    }

    /// Keys that are on their way here.
    pub fn arriving(&self) -> usize {
        self.arrivals.len()
    }

    /// Takes an input that happens at `now` and appends what has to be done to `actions`. Times are compared with each other and
    /// with those of workers' calls only; they are statistics, no decision follows from them.
    ///
    /// # Errors
    /// If a peer broke the protocol; nothing of its message was applied beyond the offending key.
    pub fn handle(&mut self, now: Tick, input: Input, actions: &mut Vec<Action>) -> Result<(), Violation> {
        self.now = now;
        let first = actions.len();
        let here = self.shared.node();
        let (from, result) = match input {
            Input::Submit(submission) => (here, self.on_submit(submission)),
            Input::Relocate { keys, to } => (here, self.on_order(&keys, to)),
            Input::Snapshot(ask) => {
                self.on_snapshot_ask(ask, actions);
                (here, Ok(()))
            }
            Input::Message { from, message } => {
                self.received += 1;
                (from, self.on_message(from, message, actions))
            }
        };
        let result = result.and_then(|()| self.answer(actions));
        self.moves.flush(actions);
        self.batch.flush(actions);
        self.sent += actions[first..].iter().filter(|a| matches!(a, Action::Send { .. })).count() as u64;
        result.map_err(|what| Violation { from, what })
    }

    fn on_message(
        &mut self,
        from: NodeId,
        message: Message,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        match message {
            Message::Request(request) => self.on_request(&request),
            Message::Response(response) => self.on_response(from, response, actions),
            Message::SnapshotRequest(request) => self.on_snapshot_request(from, &request, actions),
            Message::SnapshotPart(part) => self.on_snapshot_part(part, actions),
            Message::Localize(localize) => self.on_localize(from, &localize),
            Message::Relocate(relocate) => self.on_relocate(from, &relocate),
            Message::HandOver(hand_over) => self.on_hand_over(from, &hand_over),
            Message::Moved(moved) => self.on_moved(from, &moved),
        }
    }

    fn on_submit(&mut self, submission: Submission) -> Result<(), String> {
        let Submission { worker, op, kind, keys, positions, values, issued } = submission;
        let pending = Pending {
            kind,
            left: keys.len(),
            answered: vec![false; keys.len()],
            keys: keys.clone(),
            positions: positions.clone(),
        };
        let previous = self.pending.insert((worker, op), pending);
        intendant_core::strict_assert!(previous.is_none(), "{worker:?} reuses {op:?}");
        let origin = Origin { node: self.shared.node(), worker, op };
        match kind {
            Kind::Access(kind) => self.submit_accesses(origin, kind, &keys, &positions, &values.into()),
            Kind::Localize => self.submit_localize(origin, &keys, &positions, issued),
        }
    }

    pub(crate) fn value_bytes(&self, key: Key) -> usize {
        self.shared.layout().len(key) * size_of::<E>()
    }

    /// Sends answers to other nodes, completes operations of this one, and goes on with what waited for them, as long as
    /// something comes of it.
    fn answer(&mut self, actions: &mut Vec<Action>) -> Result<(), String> {
        loop {
            let answers = self.replies.take();
            if answers.is_empty() {
                return Ok(());
            }
            for (Origin { node, worker, op }, kind, answer) in answers {
                let (positions, values) = (answer.positions, Bytes::from(answer.values));
                if node == self.shared.node() {
                    let keys = self.settle(worker, op, kind, &positions)?;
                    let completion = Completion { op, positions, values };
                    actions.push(Action::Complete { worker, completion });
                    if let Kind::Access(_) = kind {
                        self.release(worker, &keys)?;
                    }
                } else if let Kind::Access(kind) = kind {
                    let counters = answer.counters;
                    let response = Response { worker, op, kind, positions, counters, values };
                    actions.push(Action::Send { to: node, message: Message::Response(response) });
                }
            }
        }
    }

    /// Notes that positions of an operation have been answered and returns their keys.
    pub(crate) fn settle(
        &mut self,
        worker: WorkerId,
        op: OpId,
        kind: Kind,
        positions: &[u32],
    ) -> Result<Vec<Key>, String> {
        let Some(pending) = self.pending.get_mut(&(worker, op)) else {
            return Err(format!("it answered {op:?} of {worker:?}, which waits for nothing"));
        };
        if pending.kind != kind {
            return Err(format!("it answered {} {op:?} of {worker:?} as {kind}", pending.kind));
        }
        let mut keys = Vec::with_capacity(positions.len());
        for position in positions {
            match pending.positions.binary_search(position) {
                Ok(at) if !pending.answered[at] => {
                    pending.answered[at] = true;
                    keys.push(pending.keys[at]);
                }
                Ok(_) => {
                    return Err(format!("it answered position {position} of {op:?} of {worker:?} twice"));
                }
                Err(_) => {
                    return Err(format!(
                        "it answered position {position} of {op:?} of {worker:?}, not asked for"
                    ));
                }
            }
        }
        pending.left -= keys.len();
        if pending.left == 0 {
            self.pending.remove(&(worker, op));
        }
        Ok(keys)
    }
}
