//! One channel of a node: routes what workers could not serve, serves what other nodes ask for.

use crate::batch::Batch;
use crate::error::Violation;
use crate::quiesce::ChannelReport;
use crate::shared::Shared;
use crate::snapshot;
use bytes::Bytes;
use hashbrown::HashMap;
use intendant_core::{ChannelId, Element, Key, NodeId, WorkerId, copy_to_bytes, limits};
use intendant_techniques::{HOPS_MAX, NextHop, Order, Role, access};
use intendant_wire::{
    AccessKind, Cursor, Message, OpId, Origin, Request, Response, SnapshotPart, SnapshotRequest,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

type Hash = foldhash::fast::FixedState;

/// The keys of a worker's operation that belong to one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The worker.
    pub worker: WorkerId,
    /// The operation.
    pub op: OpId,
    /// What to do.
    pub kind: AccessKind,
    /// The keys.
    pub keys: Vec<Key>,
    /// Their positions in the call, ascending.
    pub positions: Vec<u32>,
    /// For a push or set, the elements of all keys, little-endian.
    pub values: Vec<u8>,
}

impl Submission {
    pub(crate) fn new(worker: WorkerId, op: OpId, kind: AccessKind) -> Self {
        Self { worker, op, kind, keys: Vec::new(), positions: Vec::new(), values: Vec::new() }
    }

    pub(crate) fn add<E: Element>(&mut self, key: Key, position: u32, operand: &[E]) {
        self.keys.push(key);
        self.positions.push(position);
        copy_to_bytes(operand, &mut self.values);
    }
}

/// A part of an operation is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation.
    pub op: OpId,
    /// Which positions of the call.
    pub positions: Vec<u32>,
    /// For a pull, their values, little-endian.
    pub values: Bytes,
}

/// Asks for a part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAsk {
    /// The worker that wants it.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// Whose values.
    pub owner: NodeId,
    /// First key wanted.
    pub start: Key,
    /// End of the keys wanted, excluded.
    pub end: Key,
    /// Where to continue; `None` at the start.
    pub cursor: Option<Cursor>,
    /// Bytes of values after which the part ends.
    pub bytes_max: u32,
}

/// What happens to a channel.
#[derive(Clone, Debug)]
pub enum Input {
    /// A worker of this node deferred keys.
    Submit(Submission),
    /// A worker of this node wants a part of a snapshot.
    Snapshot(SnapshotAsk),
    /// A message came from another node.
    Message {
        /// The node that sent it.
        from: NodeId,
        /// The message.
        message: Message,
    },
}

/// What the caller has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give the message to the transport; order towards one node must be kept.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// Hand this to a worker of this node; order towards one worker must be kept.
    Complete {
        /// The worker.
        worker: WorkerId,
        /// What is done.
        completion: Completion,
    },
    /// Hand this to a worker of this node.
    CompleteSnapshot {
        /// The worker.
        worker: WorkerId,
        /// The part.
        part: SnapshotPart,
    },
}

/// An operation that waits for answers.
struct Pending {
    kind: AccessKind,
    keys: Vec<Key>,
    /// Ascending; parallel to `keys`.
    positions: Vec<u32>,
    /// Whether the position has been answered.
    answered: Vec<bool>,
    left: usize,
}

/// An operation on one key that waits for the worker's outstanding one.
struct Link {
    op: OpId,
    kind: AccessKind,
    position: u32,
    operand: Bytes,
}

/// Answers that the current input causes, gathered per operation.
#[derive(Default)]
struct Answer {
    positions: Vec<u32>,
    values: Vec<u8>,
}

/// One channel of a node.
pub struct Channel<E> {
    id: ChannelId,
    shared: Arc<Shared<E>>,
    pending: HashMap<(WorkerId, OpId), Pending, Hash>,
    snapshots: HashMap<(WorkerId, OpId), SnapshotAsk, Hash>,
    /// Per worker and key with an outstanding operation: the operations that wait for it. Only with [`Order::Chain`].
    chains: HashMap<(WorkerId, Key), VecDeque<Link>, Hash>,
    batch: Batch,
    sent: u64,
    received: u64,
    forwarded: u64,
}

impl<E: Element> Channel<E> {
    /// A channel at the start.
    #[must_use]
    pub fn new(id: ChannelId, shared: Arc<Shared<E>>) -> Self {
        Self {
            id,
            shared,
            pending: HashMap::default(),
            snapshots: HashMap::default(),
            chains: HashMap::default(),
            batch: Batch::default(),
            sent: 0,
            received: 0,
            forwarded: 0,
        }
    }

    /// The channel's id.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// What is outstanding, and what was sent and received: see [`crate::quiesce`].
    pub fn report(&self) -> ChannelReport {
        ChannelReport {
            outstanding: (self.pending.len() + self.snapshots.len()) as u64,
            sent: self.sent,
            received: self.received,
        }
    }

    /// Keys that this channel forwarded because they were not here.
    pub fn forwarded_keys(&self) -> u64 {
        self.forwarded
    }

    /// Takes an input and appends what has to be done to `actions`.
    ///
    /// # Errors
    /// If a peer broke the protocol; nothing of its message was applied beyond the offending key.
    pub fn handle(&mut self, input: Input, actions: &mut Vec<Action>) -> Result<(), Violation> {
        let first = actions.len();
        let result = match input {
            Input::Submit(submission) => self.on_submit(submission, actions),
            Input::Snapshot(ask) => {
                self.on_snapshot_ask(ask, actions);
                Ok(())
            }
            Input::Message { from, message } => {
                self.received += 1;
                let result = match message {
                    Message::Request(request) => self.on_request(&request, actions),
                    Message::Response(response) => self.on_response(response, actions),
                    Message::SnapshotRequest(request) => self.on_snapshot_request(from, &request, actions),
                    Message::SnapshotPart(part) => self.on_snapshot_part(part, actions),
                };
                result.map_err(|what| Violation { from, what })
            }
        };
        self.batch.flush(&mut |to, message| actions.push(Action::Send { to, message }));
        self.sent += actions[first..].iter().filter(|a| matches!(a, Action::Send { .. })).count() as u64;
        result
    }

    fn value_bytes(&self, key: Key) -> usize {
        self.shared.layout().len(key) * size_of::<E>()
    }

    fn on_submit(&mut self, submission: Submission, actions: &mut Vec<Action>) -> Result<(), Violation> {
        let Submission { worker, op, kind, keys, positions, values } = submission;
        let values = Bytes::from(values);
        let origin = Origin { node: self.shared.node(), worker, op };
        let pending = Pending {
            kind,
            left: keys.len(),
            answered: vec![false; keys.len()],
            keys: keys.clone(),
            positions: positions.clone(),
        };
        let previous = self.pending.insert((worker, op), pending);
        intendant_core::strict_assert!(previous.is_none(), "{worker:?} reuses {op:?}");
        let mut answers = BTreeMap::new();
        let mut offset = 0;
        for (key, position) in keys.into_iter().zip(positions) {
            let operand = match kind {
                AccessKind::Pull => 0..0,
                AccessKind::Push | AccessKind::Set => offset..offset + self.value_bytes(key),
            };
            offset = operand.end;
            if self.shared.order() == Order::Chain {
                if let Some(waiting) = self.chains.get_mut(&(worker, key)) {
                    waiting.push_back(Link { op, kind, position, operand: values.slice(operand) });
                    continue;
                }
                self.chains.insert((worker, key), VecDeque::new());
            }
            self.access(origin, kind, key, position, &values[operand], &mut answers, actions)
                .map_err(|what| Violation { from: self.shared.node(), what })?;
        }
        let released = self.complete_here(worker, answers, actions);
        self.release(released, actions).map_err(|what| Violation { from: self.shared.node(), what })
    }

    /// Serves an access of this node's worker if the key is here by now, else sends a request.
    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    fn access(
        &mut self,
        origin: Origin,
        kind: AccessKind,
        key: Key,
        position: u32,
        operand: &[u8],
        answers: &mut BTreeMap<OpId, Answer>,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let (mut entry, role) = shared.latch(key);
        match role {
            Role::Owner => {
                let answer = answers.entry(origin.op).or_default();
                answer.positions.push(position);
                let value = entry.value_mut().expect("an owner holds the value");
                access::apply(kind, value, operand, &mut answer.values);
                Ok(())
            }
            Role::Absent => {
                let state = entry.state();
                drop(entry);
                match shared.directory().first_hop(key, &state) {
                    NextHop::To(to) => {
                        let bytes = self.value_bytes(key);
                        let send = &mut |to, message| actions.push(Action::Send { to, message });
                        self.batch.add(to, origin, kind, 0, key, position, operand, bytes, send);
                        Ok(())
                    }
                    NextHop::Lost => Err(format!("this node is home of {key:?} and does not know its owner")),
                }
            }
        }
    }

    /// Completes what was served here; returns the keys that are free for the next operation of their chain.
    fn complete_here(
        &mut self,
        worker: WorkerId,
        answers: BTreeMap<OpId, Answer>,
        actions: &mut Vec<Action>,
    ) -> Vec<(WorkerId, Key)> {
        let mut released = Vec::new();
        for (op, Answer { positions, values }) in answers {
            let settled = self.settle(worker, op, &positions);
            released.extend(
                settled.expect("served for an outstanding operation").into_iter().map(|key| (worker, key)),
            );
            let completion = Completion { op, positions, values: values.into() };
            actions.push(Action::Complete { worker, completion });
        }
        released
    }

    /// Notes that positions of an operation have been answered and returns their keys.
    fn settle(&mut self, worker: WorkerId, op: OpId, positions: &[u32]) -> Result<Vec<Key>, String> {
        let Some(pending) = self.pending.get_mut(&(worker, op)) else {
            return Err(format!("it answered {op:?} of {worker:?}, which waits for nothing"));
        };
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

    /// Goes on with the next operation of each chain, as long as operations complete here.
    fn release(
        &mut self,
        mut released: Vec<(WorkerId, Key)>,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        if self.shared.order() != Order::Chain {
            return Ok(());
        }
        while !released.is_empty() {
            let mut per_worker: BTreeMap<WorkerId, BTreeMap<OpId, Answer>> = BTreeMap::new();
            for (worker, key) in std::mem::take(&mut released) {
                let Some(waiting) = self.chains.get_mut(&(worker, key)) else {
                    return Err(format!("{key:?} of {worker:?} completed without being outstanding"));
                };
                match waiting.pop_front() {
                    Some(Link { op, kind, position, operand }) => {
                        let origin = Origin { node: self.shared.node(), worker, op };
                        let answers = per_worker.entry(worker).or_default();
                        self.access(origin, kind, key, position, &operand, answers, actions)?;
                    }
                    None => {
                        self.chains.remove(&(worker, key));
                    }
                }
            }
            for (worker, answers) in per_worker {
                released.extend(self.complete_here(worker, answers, actions));
            }
        }
        Ok(())
    }

    /// Another node's access: serve it, or forward it.
    fn on_request(&mut self, request: &Request, actions: &mut Vec<Action>) -> Result<(), String> {
        let Request { origin, kind, hops, keys, positions, values } = request;
        self.check_request(request)?;
        let shared = Arc::clone(&self.shared);
        keys.iter().for_each(|key| shared.store().prefetch_slot(*key));
        let mut response = Response {
            worker: origin.worker,
            op: origin.op,
            kind: *kind,
            positions: Vec::with_capacity(keys.len()),
            values: Bytes::new(),
        };
        let mut read = Vec::new();
        let mut offset = 0;
        for (at, (key, position)) in keys.iter().zip(positions).enumerate() {
            if let Some(ahead) = keys.get(at + 4) {
                shared.store().prefetch_value(*ahead);
            }
            let operand = match kind {
                AccessKind::Pull => &[][..],
                AccessKind::Push | AccessKind::Set => &values[offset..offset + self.value_bytes(*key)],
            };
            offset += operand.len();
            let (mut entry, role) = shared.latch(*key);
            match role {
                Role::Owner => {
                    let value = entry.value_mut().expect("an owner holds the value");
                    access::apply(*kind, value, operand, &mut read);
                    response.positions.push(*position);
                }
                Role::Absent => {
                    let state = entry.state();
                    drop(entry);
                    self.forwarded += 1;
                    if *hops >= HOPS_MAX {
                        return Err(format!("its request for {key:?} was forwarded {hops} times"));
                    }
                    match shared.directory().next_hop(*key, &state) {
                        NextHop::To(to) => {
                            let bytes = self.value_bytes(*key);
                            let send = &mut |to, message| actions.push(Action::Send { to, message });
                            self.batch.add(
                                to,
                                *origin,
                                *kind,
                                hops + 1,
                                *key,
                                *position,
                                operand,
                                bytes,
                                send,
                            );
                        }
                        NextHop::Lost => {
                            return Err(format!("it asks for {key:?}, whose owner nobody knows"));
                        }
                    }
                }
            }
        }
        if !response.positions.is_empty() {
            response.values = read.into();
            actions.push(Action::Send { to: origin.node, message: Message::Response(response) });
        }
        Ok(())
    }

    fn check_request(&self, request: &Request) -> Result<(), String> {
        let layout = self.shared.layout();
        let Origin { node, .. } = request.origin;
        if node.index() >= layout.nodes() || node == self.shared.node() {
            return Err(format!("a request of node {node} came to node {}", self.shared.node()));
        }
        let mut bytes = 0;
        for key in &request.keys {
            if !layout.contains(*key) {
                return Err(format!("it asks for {key:?}, which does not exist"));
            }
            if layout.channel(*key) != self.id {
                return Err(format!("it asks {:?} for {key:?} of {:?}", self.id, layout.channel(*key)));
            }
            bytes += self.value_bytes(*key);
        }
        // Senders start a new frame at a far smaller target; one value may exceed it by its own size.
        if bytes > limits::FRAME_PAYLOAD_BYTES_TARGET + limits::VALUE_BYTES_MAX {
            return Err(format!("it asks for {bytes} bytes of values in one frame"));
        }
        let expected = if request.kind == AccessKind::Pull { 0 } else { bytes };
        if request.values.len() != expected {
            let found = request.values.len();
            return Err(format!(
                "its {:?} carries {found} bytes of values instead of {expected}",
                request.kind
            ));
        }
        Ok(())
    }

    fn on_response(&mut self, response: Response, actions: &mut Vec<Action>) -> Result<(), String> {
        let Response { worker, op, kind, positions, values } = response;
        match self.pending.get(&(worker, op)) {
            Some(pending) if pending.kind != kind => {
                return Err(format!("it answered {:?} {op:?} of {worker:?} as {kind:?}", pending.kind));
            }
            _ => {}
        }
        let keys = self.settle(worker, op, &positions)?;
        let expected = match kind {
            AccessKind::Pull => keys.iter().map(|key| self.value_bytes(*key)).sum(),
            AccessKind::Push | AccessKind::Set => 0,
        };
        if values.len() != expected {
            return Err(format!("its answer carries {} bytes of values instead of {expected}", values.len()));
        }
        actions.push(Action::Complete { worker, completion: Completion { op, positions, values } });
        self.release(keys.into_iter().map(|key| (worker, key)).collect(), actions)
    }

    fn on_snapshot_ask(&mut self, ask: SnapshotAsk, actions: &mut Vec<Action>) {
        let SnapshotAsk { worker, op, owner, start, end, cursor, bytes_max } = ask;
        let request = SnapshotRequest {
            origin: Origin { node: self.shared.node(), worker, op },
            start,
            end,
            cursor: cursor.unwrap_or(Cursor { shard: 0, position: 0 }),
            bytes_max,
        };
        if owner == self.shared.node() {
            let part = snapshot::serve(&self.shared, self.id, &request);
            actions.push(Action::CompleteSnapshot { worker, part });
        } else {
            self.snapshots.insert((worker, op), ask);
            actions.push(Action::Send { to: owner, message: Message::SnapshotRequest(request) });
        }
    }

    fn on_snapshot_request(
        &mut self,
        from: NodeId,
        request: &SnapshotRequest,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let node = request.origin.node;
        // Snapshot requests are never forwarded.
        if node != from {
            return Err(format!("it asks for a snapshot in the name of node {node}"));
        }
        if request.bytes_max as usize > limits::FRAME_PAYLOAD_BYTES_TARGET {
            return Err(format!("it asks for parts of {} bytes", request.bytes_max));
        }
        let part = snapshot::serve(&self.shared, self.id, request);
        actions.push(Action::Send { to: node, message: Message::SnapshotPart(part) });
        Ok(())
    }

    fn on_snapshot_part(&mut self, part: SnapshotPart, actions: &mut Vec<Action>) -> Result<(), String> {
        let Some(ask) = self.snapshots.remove(&(part.worker, part.op)) else {
            return Err(format!(
                "it sent a snapshot part for {:?} of {:?}, not asked for",
                part.op, part.worker
            ));
        };
        let layout = self.shared.layout();
        if let Some(key) =
            part.keys.iter().find(|k| !layout.contains(**k) || !(ask.start..ask.end).contains(*k))
        {
            return Err(format!("its snapshot part has {key:?}, not asked for"));
        }
        let expected: usize = part.keys.iter().map(|key| self.value_bytes(*key)).sum();
        if part.values.len() != expected {
            return Err(format!(
                "its snapshot part has {} bytes of values instead of {expected}",
                part.values.len()
            ));
        }
        actions.push(Action::CompleteSnapshot { worker: part.worker, part });
        Ok(())
    }
}
