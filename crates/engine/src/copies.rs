//! Outgoing messages about replicas, grouped: one frame per destination and kind, split where a frame would grow too long.

use crate::buffers::Buffers;
use crate::groups::Groups;
use crate::input::Action;
use intendant_core::{Element, Key, NodeId, copy_to_bytes, limits};
use intendant_wire::{
    HEADER_BYTES, Message, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind,
};
use std::mem;

/// What holders' messages have in common that travel in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) to: NodeId,
    pub(crate) holder: NodeId,
    pub(crate) kind: ReplicaRequestKind,
    pub(crate) hops: u8,
}

#[derive(Default)]
struct Deltas {
    keys: Vec<Key>,
    generations: Vec<u32>,
    numbers: Vec<u32>,
    values: Vec<u8>,
    /// Bytes of values on the way there or back.
    payload: usize,
}

/// What is told about one key.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) key: Key,
    pub(crate) generation: u32,
    pub(crate) seq: u32,
    pub(crate) version: u32,
    /// Relocation counter, if nodes remember locations.
    pub(crate) counter: Option<u32>,
}

#[derive(Default)]
struct Told {
    /// The global clock when the first of these was told.
    clock: u32,
    items: Vec<Item>,
    values: Vec<u8>,
}

/// Messages about replicas that the current input causes.
#[derive(Default)]
pub(crate) struct CopyMessages {
    sync: Groups<Way, Deltas>,
    news: Groups<(NodeId, ReplicaUpdateKind), Told>,
    /// Full ones.
    ready_sync: Vec<Action>,
    ready_news: Vec<Action>,
    buffers: Buffers,
}

impl Deltas {
    fn of(kind: ReplicaRequestKind, buffers: &mut Buffers) -> Self {
        let values = if kind == ReplicaRequestKind::Delta { buffers.take_any() } else { Vec::new() };
        Self { values, ..Self::default() }
    }
}

impl Told {
    fn of(kind: ReplicaUpdateKind, buffers: &mut Buffers) -> Self {
        let values = match kind {
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => buffers.take_any(),
            ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => Vec::new(),
        };
        Self { values, ..Self::default() }
    }
}

impl CopyMessages {
    /// A holder's message about one key, whose value has so many bytes: what a frame asks for comes back at once. `delta` appends the
    /// elements of a delta.
    pub(crate) fn sync(
        &mut self,
        way: Way,
        key: Key,
        generation: u32,
        number: u32,
        value_bytes: usize,
        delta: impl FnOnce(&mut Vec<u8>),
    ) {
        let buffers = &mut self.buffers;
        let group = self.sync.entry(way, || Deltas::of(way.kind, buffers));
        let (payload, delta_bytes) = match way.kind {
            ReplicaRequestKind::Ask => (value_bytes, 0),
            ReplicaRequestKind::Delta => (value_bytes, value_bytes),
            ReplicaRequestKind::Drop => (0, 0),
        };
        let frame = HEADER_BYTES + (group.keys.len() + 1) * way.kind.key_bytes();
        let full = group.payload + payload > limits::FRAME_PAYLOAD_BYTES_TARGET
            || group.keys.len() == limits::FRAME_KEYS_MAX
            || frame + group.values.len() + delta_bytes > limits::FRAME_BYTES_MAX;
        if full && !group.keys.is_empty() {
            let full = mem::replace(group, Deltas::of(way.kind, &mut self.buffers));
            self.ready_sync.push(load(way, full, &mut self.buffers));
        }
        group.keys.push(key);
        group.generations.push(generation);
        if way.kind != ReplicaRequestKind::Drop {
            group.numbers.push(number);
        }
        if delta_bytes > 0 {
            delta(&mut group.values);
        }
        group.payload += payload;
    }

    /// What an owner whose global clock is `clock` tells a holder about one key; `value` is empty unless `kind` has one.
    pub(crate) fn news<E: Element>(
        &mut self,
        to: NodeId,
        kind: ReplicaUpdateKind,
        clock: u32,
        item: Item,
        value: &[E],
    ) {
        let buffers = &mut self.buffers;
        let group = self.news.entry((to, kind), || Told::of(kind, buffers));
        let payload = group.values.len() + size_of_val(value);
        let frame = HEADER_BYTES + (group.items.len() + 1) * kind.key_bytes(item.counter.is_some());
        let full = payload > limits::FRAME_PAYLOAD_BYTES_TARGET
            || group.items.len() == limits::FRAME_KEYS_MAX
            || frame + payload > limits::FRAME_BYTES_MAX;
        // A holder that waits for this clock must not be told an older one.
        if (full || group.clock != clock) && !group.items.is_empty() {
            let full = mem::replace(group, Told::of(kind, &mut self.buffers));
            self.ready_news.push(tell(to, kind, full, &mut self.buffers));
        }
        if group.items.is_empty() {
            group.clock = clock;
        }
        group.items.push(item);
        copy_to_bytes(value, &mut group.values);
    }

    /// Sends what owners tell: before answers to what holders asked otherwise.
    pub(crate) fn flush_news(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready_news);
        while let Some(((to, kind), told)) = self.news.pop_first() {
            actions.push(tell(to, kind, told, &mut self.buffers));
        }
    }

    /// Sends what holders say: after hand-overs, along the way of keys.
    pub(crate) fn flush_sync(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready_sync);
        while let Some((way, deltas)) = self.sync.pop_first() {
            actions.push(load(way, deltas, &mut self.buffers));
        }
    }
}

fn load(way: Way, deltas: Deltas, buffers: &mut Buffers) -> Action {
    let Way { to, holder, kind, hops } = way;
    let Deltas { keys, generations, numbers, values, .. } = deltas;
    let values = buffers.lend(values);
    let message =
        Message::ReplicaRequest(ReplicaRequest { kind, holder, hops, keys, generations, numbers, values });
    Action::Send { to, message }
}

fn tell(to: NodeId, kind: ReplicaUpdateKind, told: Told, buffers: &mut Buffers) -> Action {
    let Told { clock, items, values } = told;
    let all = |number: fn(&Item) -> u32| -> Vec<u32> {
        if kind == ReplicaUpdateKind::Dropped { Vec::new() } else { items.iter().map(number).collect() }
    };
    let message = Message::ReplicaUpdate(ReplicaUpdate {
        kind,
        clock,
        keys: items.iter().map(|item| item.key).collect(),
        generations: items.iter().map(|item| item.generation).collect(),
        seqs: all(|item| item.seq),
        versions: all(|item| item.version),
        counters: items.iter().filter_map(|item| item.counter).collect(),
        values: buffers.lend(values),
    });
    Action::Send { to, message }
}
