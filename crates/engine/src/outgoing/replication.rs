//! Outgoing replica requests (holder to owner) and replica updates (owner to holder).

use super::buffers::{Buffers, Room};
use super::groups::Groups;
use crate::input::Action;
use intendant_core::{Element, Key, NodeId, Precision, limits};
use intendant_wire::{
    HEADER_BYTES, Message, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind,
};
use std::mem;

/// What the replica requests of one frame have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestRoute {
    pub(crate) to: NodeId,
    pub(crate) holder: NodeId,
    pub(crate) kind: ReplicaRequestKind,
    /// How the elements of deltas are written.
    pub(crate) precision: Precision,
    pub(crate) hops: u8,
}

/// What the replica updates of one frame have in common, apart from the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UpdateRoute {
    pub(crate) to: NodeId,
    pub(crate) kind: ReplicaUpdateKind,
    /// How values are written.
    pub(crate) precision: Precision,
}

#[derive(Default)]
struct Requests {
    keys: Vec<Key>,
    generations: Vec<u32>,
    numbers: Vec<u32>,
    values: Vec<u8>,
    /// Bytes of values that the requests or their answers carry.
    payload: usize,
}

/// What an update says about one key, apart from its value.
#[derive(Clone, Copy)]
pub(crate) struct UpdateRow {
    pub(crate) key: Key,
    pub(crate) generation: u32,
    pub(crate) seq: u32,
    pub(crate) version: u32,
    /// Relocation counter, if nodes remember locations.
    pub(crate) counter: Option<u32>,
}

#[derive(Default)]
struct Updates {
    /// The owner's global clock.
    clock: u32,
    rows: Vec<UpdateRow>,
    values: Vec<u8>,
}

/// Messages about replicas of the current turn.
#[derive(Default)]
pub(crate) struct ReplicationMessages {
    requests: Groups<RequestRoute, Requests>,
    updates: Groups<UpdateRoute, Updates>,
    /// Requests whose frame is full.
    ready_requests: Vec<Action>,
    /// Updates whose frame is full.
    ready_updates: Vec<Action>,
    /// What the current input adds for one node at most; zero if that is unknown.
    room: Room,
    buffers: Buffers,
}

impl Requests {
    fn with(kind: ReplicaRequestKind, room: Room, buffers: &mut Buffers) -> Self {
        let values = if kind == ReplicaRequestKind::Delta { buffers.take_for(room) } else { Vec::new() };
        Self {
            keys: Vec::with_capacity(room.keys),
            generations: Vec::with_capacity(room.keys),
            numbers: Vec::with_capacity(room.keys),
            values,
            payload: 0,
        }
    }
}

impl Updates {
    fn with(kind: ReplicaUpdateKind, room: Room, buffers: &mut Buffers) -> Self {
        let values = match kind {
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => buffers.take_for(room),
            ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => Vec::new(),
        };
        Self { clock: 0, rows: Vec::with_capacity(room.keys), values }
    }
}

impl ReplicationMessages {
    /// Announces how many keys, and bytes of their values, the messages to one node have at most.
    pub(crate) fn expect(&mut self, room: Room) {
        self.room = room.of_a_frame();
    }

    /// Adds a replica request about one key, whose value has `value_bytes` bytes: the owner answers a frame
    /// as a whole. `delta` appends the elements of a delta.
    pub(crate) fn request(
        &mut self,
        route: RequestRoute,
        key: Key,
        generation: u32,
        number: u32,
        (value_bytes, delta_bytes): (usize, usize),
        delta: impl FnOnce(&mut Vec<u8>),
    ) {
        let (room, buffers) = (self.room, &mut self.buffers);
        let group = self.requests.entry(route, || Requests::with(route.kind, room, buffers));
        let (payload, delta_bytes) = match route.kind {
            ReplicaRequestKind::Ask => (value_bytes, 0),
            ReplicaRequestKind::Delta => (value_bytes, delta_bytes),
            ReplicaRequestKind::Drop => (0, 0),
        };
        let frame = HEADER_BYTES + (group.keys.len() + 1) * route.kind.key_bytes();
        let full = group.payload + payload > limits::FRAME_PAYLOAD_BYTES_TARGET
            || group.keys.len() == limits::FRAME_KEYS_MAX
            || frame + group.values.len() + delta_bytes > limits::FRAME_BYTES_MAX;
        if full && !group.keys.is_empty() {
            let full = mem::replace(group, Requests::with(route.kind, room, &mut self.buffers));
            self.ready_requests.push(request_action(route, full, &mut self.buffers));
        }
        group.keys.push(key);
        group.generations.push(generation);
        if route.kind != ReplicaRequestKind::Drop {
            group.numbers.push(number);
        }
        if delta_bytes > 0 {
            delta(&mut group.values);
        }
        group.payload += payload;
    }

    /// Adds an update about one key, from an owner whose global clock is `clock`; `value` is empty unless
    /// the kind has one.
    pub(crate) fn update<E: Element>(&mut self, route: UpdateRoute, clock: u32, row: UpdateRow, value: &[E]) {
        let UpdateRoute { kind, precision, .. } = route;
        let (room, buffers) = (self.room, &mut self.buffers);
        let group = self.updates.entry(route, || Updates::with(kind, room, buffers));
        let payload = group.values.len() + precision.bytes::<E>(size_of_val(value));
        let frame = HEADER_BYTES + (group.rows.len() + 1) * kind.key_bytes(row.counter.is_some());
        let full = payload > limits::FRAME_PAYLOAD_BYTES_TARGET
            || group.rows.len() == limits::FRAME_KEYS_MAX
            || frame + payload > limits::FRAME_BYTES_MAX;
        // A holder that waits for this clock must not get an older one.
        if (full || group.clock != clock) && !group.rows.is_empty() {
            let full = mem::replace(group, Updates::with(kind, room, &mut self.buffers));
            self.ready_updates.push(update_action(route, full, &mut self.buffers));
        }
        if group.rows.is_empty() {
            group.clock = clock;
        }
        group.rows.push(row);
        precision.write(value, &mut group.values);
    }

    /// Sends updates. They must leave before the answers to accesses.
    pub(crate) fn flush_updates(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready_updates);
        while let Some((route, updates)) = self.updates.pop_first() {
            actions.push(update_action(route, updates, &mut self.buffers));
        }
    }

    /// Sends requests. They must leave after hand-overs, because they may follow a key.
    pub(crate) fn flush_requests(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready_requests);
        while let Some((route, deltas)) = self.requests.pop_first() {
            actions.push(request_action(route, deltas, &mut self.buffers));
        }
        self.room = Room::default();
    }
}

fn request_action(route: RequestRoute, deltas: Requests, buffers: &mut Buffers) -> Action {
    let RequestRoute { to, holder, kind, precision, hops } = route;
    let Requests { keys, generations, numbers, values, .. } = deltas;
    let values = buffers.lend(values);
    let request = ReplicaRequest { kind, holder, hops, keys, generations, numbers, precision, values };
    Action::Send { to, message: Message::ReplicaRequest(request) }
}

fn update_action(route: UpdateRoute, updates: Updates, buffers: &mut Buffers) -> Action {
    let UpdateRoute { to, kind, precision } = route;
    let Updates { clock, rows, values } = updates;
    let all = |number: fn(&UpdateRow) -> u32| -> Vec<u32> {
        if kind == ReplicaUpdateKind::Dropped { Vec::new() } else { rows.iter().map(number).collect() }
    };
    let message = Message::ReplicaUpdate(ReplicaUpdate {
        kind,
        clock,
        keys: rows.iter().map(|row| row.key).collect(),
        generations: rows.iter().map(|row| row.generation).collect(),
        seqs: all(|row| row.seq),
        versions: all(|row| row.version),
        counters: rows.iter().filter_map(|row| row.counter).collect(),
        precision,
        values: buffers.lend(values),
    });
    Action::Send { to, message }
}
