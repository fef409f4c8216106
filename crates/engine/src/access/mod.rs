//! Accesses: the operations of this node's workers that wait for answers, and the order of a worker's
//! operations on a key.
//!
//! The channel decides by the role of a key which mechanism serves, queues or forwards an access
//! (`Channel::access`, see the table in [`intendant_techniques::access`]). This module keeps what operations
//! wait for ([`Operations`]), and checks requests.

use crate::channel::core::{Core, Hash};
use crate::channel::effects::{Access, Output};
use crate::error::ProtocolError;
use crate::input::{Action, Completion, Kind};
use crate::outgoing::buffers::Room;
use bytes::Bytes;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as MapEntry;
use intendant_core::{Element, Key, Tick, WorkerId, limits};
use intendant_techniques::Order;
use intendant_wire::{AccessKind, OpId, Origin, Request, Response};
use std::collections::VecDeque;
use std::ops::Range;

/// An operation that waits for answers.
struct Pending {
    kind: Kind,
    /// Empty if the operation synchronizes.
    keys: Vec<Key>,
    /// Ascending; parallel to `keys`, if there are any.
    positions: Vec<u32>,
    /// Whether the position has been answered.
    answered: Vec<bool>,
    left: usize,
    since: Tick,
}

/// An operation on one key that waits for the worker's outstanding one.
struct Link {
    access: Access,
    operand: Bytes,
}

/// The operations of this node's workers on the keys of a channel.
#[derive(Default)]
pub(crate) struct Operations {
    pending: HashMap<(WorkerId, OpId), Pending, Hash>,
    /// Per worker and key with an outstanding operation: the operations that wait for it. Only with
    /// [`Order::Chain`].
    chains: HashMap<(WorkerId, Key), VecDeque<Link>, Hash>,
}

impl Operations {
    /// Number of operations that wait for answers.
    pub(crate) fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// Registers an operation of a worker. The channel processes answers at the end of the input, so the
    /// operation may be registered after the messages that it causes.
    pub(crate) fn register(
        &mut self,
        since: Tick,
        (worker, op): (WorkerId, OpId),
        kind: Kind,
        keys: Vec<Key>,
        positions: Vec<u32>,
    ) {
        let (left, answered) = (positions.len(), vec![false; positions.len()]);
        let previous =
            self.pending.insert((worker, op), Pending { kind, keys, positions, answered, left, since });
        intendant_core::strict_assert!(previous.is_none(), "{worker:?} reuses {op:?}");
    }

    /// When an operation that waits for answers was registered.
    pub(crate) fn since(&self, worker: WorkerId, op: OpId) -> Option<Tick> {
        self.pending.get(&(worker, op)).map(|pending| pending.since)
    }

    /// Whether an access of `worker` to `key` may start now. If an operation of the worker on the key is
    /// outstanding, the access waits for it in a chain.
    pub(crate) fn may_start(&mut self, key: Key, access: &Access, operand: impl FnOnce() -> Bytes) -> bool {
        match self.chains.entry((access.origin.worker, key)) {
            MapEntry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(Link { access: *access, operand: operand() });
                false
            }
            MapEntry::Vacant(new) => {
                new.insert(VecDeque::new());
                true
            }
        }
    }

    /// An operation of `worker` on `key` is done. Returns the next operation of the chain, if there is one.
    ///
    /// # Errors
    /// If no operation of the worker on the key was outstanding.
    pub(crate) fn next_in_chain(
        &mut self,
        worker: WorkerId,
        key: Key,
    ) -> Result<Option<(Access, Bytes)>, ProtocolError> {
        let MapEntry::Occupied(mut waiting) = self.chains.entry((worker, key)) else {
            return Err(ProtocolError::NotOutstanding { key, worker });
        };
        let next = waiting.get_mut().pop_front();
        if next.is_none() {
            waiting.remove();
        }
        Ok(next.map(|Link { access, operand }| (access, operand)))
    }

    /// Marks positions of an operation as answered and returns their keys.
    ///
    /// # Errors
    /// If the operation does not wait for this answer.
    pub(crate) fn settle(
        &mut self,
        worker: WorkerId,
        op: OpId,
        kind: Kind,
        positions: &[u32],
    ) -> Result<Vec<Key>, ProtocolError> {
        let Some(pending) = self.pending.get_mut(&(worker, op)) else {
            return Err(ProtocolError::AnswersNothing { worker, op });
        };
        if pending.kind != kind {
            return Err(ProtocolError::AnswersKind { asked: pending.kind, worker, op, answered: kind });
        }
        let mut keys = Vec::with_capacity(positions.len());
        let mut next = 0;
        for position in positions.iter().copied() {
            match find(&pending.positions, next, position) {
                Ok(at) if !pending.answered[at] => {
                    (pending.answered[at], next) = (true, at + 1);
                    keys.extend(pending.keys.get(at));
                }
                Ok(_) => return Err(ProtocolError::AnswersTwice { position, worker, op }),
                Err(_) => return Err(ProtocolError::AnswersUnasked { position, worker, op }),
            }
        }
        pending.left -= positions.len();
        if pending.left == 0 {
            self.pending.remove(&(worker, op));
        }
        Ok(keys)
    }

    /// Processes another node's answer: checks it, and completes (a part of) the worker's operation. Returns
    /// the keys, with the relocation counter of each if nodes remember locations.
    ///
    /// # Errors
    /// If the operation does not wait for this answer, or the answer is malformed.
    pub(crate) fn on_response<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        response: Response,
    ) -> Result<(Vec<Key>, Vec<u32>), ProtocolError> {
        let Response { worker, op, kind, positions, counters, values } = response;
        let keys = self.settle(worker, op, Kind::Access(kind), &positions)?;
        let expected = if kind == AccessKind::Pull { core.operands_bytes(kind, &keys) } else { 0 };
        ProtocolError::unless_bytes(|| "answer".into(), values.len(), expected)?;
        let expected = if core.policy().caches() { keys.len() } else { 0 };
        if counters.len() != expected {
            let message = "answer".into();
            return Err(ProtocolError::Counters { message, found: counters.len(), expected });
        }
        let late = core.counts_late().then_some(positions.len() as u32);
        let completion = Completion { op, positions, values, late };
        out.actions.push(Action::Complete { worker, completion });
        Ok((keys, counters))
    }
}

/// The index of `position` in the ascending `positions`: usually `next`, directly behind the previously found
/// one.
fn find(positions: &[u32], next: usize, position: u32) -> Result<usize, usize> {
    if positions.get(next) == Some(&position) { Ok(next) } else { positions.binary_search(&position) }
}

/// Whether operations of a worker on a key are chained.
pub(crate) fn is_chained<E: Element>(core: &Core<E>) -> bool {
    core.policy().order == Order::Chain
}

/// Reserves memory for the requests that a worker's call of `keys` keys may cause.
pub(crate) fn expect_requests<E: Element>(core: &Core<E>, out: &mut Output, keys: usize, bytes: usize) {
    // Each of the other nodes gets room for twice its even share.
    let share = |whole: usize| whole.min(2 * whole / core.shared.layout().nodes().saturating_sub(1).max(1));
    out.outgoing.requests.expect(Room { keys: share(keys), bytes: share(bytes) });
}

/// Reserves memory for the answer to another node's request.
pub(crate) fn expect_answer<E: Element>(core: &Core<E>, out: &mut Output, request: &Request) {
    let room = match request.kind {
        AccessKind::Pull => core.room(&request.keys),
        AccessKind::Push | AccessKind::Set => Room { keys: request.keys.len(), bytes: 0 },
    };
    out.outgoing.replies.expect(room);
}

/// The range of the operand of `key`, if the one before it ended at `offset`.
pub(crate) fn operand<E: Element>(core: &Core<E>, kind: AccessKind, key: Key, offset: usize) -> Range<usize> {
    match kind {
        AccessKind::Pull => offset..offset,
        AccessKind::Push | AccessKind::Set => offset..offset + core.operand_bytes(kind, key),
    }
}

/// Checks another node's request, or one of this node's own that other nodes have forwarded back to it.
///
/// # Errors
/// If its origin, keys or values are impossible.
pub(crate) fn check_request<E: Element>(core: &Core<E>, request: &Request) -> Result<(), ProtocolError> {
    let Origin { node, .. } = request.origin;
    // A forwarded request may return to its origin: the key may have arrived there.
    if node.index() >= core.shared.layout().nodes() || (node == core.node() && request.hops == 0) {
        return Err(ProtocolError::RequestOrigin { of: node, to: core.node() });
    }
    core.check_keys(&request.keys)?;
    let bytes = core.operands_bytes(request.kind, &request.keys);
    // Senders start a new frame at a target far below the limit of frames. A frame may exceed the target by
    // the size of one value.
    if bytes > limits::FRAME_PAYLOAD_BYTES_TARGET + limits::VALUE_BYTES_MAX {
        return Err(ProtocolError::AsksTooMuch { bytes });
    }
    let expected = if request.kind == AccessKind::Pull { 0 } else { bytes };
    ProtocolError::unless_bytes(|| format!("{:?}", request.kind), request.values.len(), expected)
}
