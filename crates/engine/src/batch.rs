//! Outgoing requests, grouped: one frame per destination and operation, split where a frame would grow too long.

use crate::buffers::{Buffers, Room};
use crate::groups::Groups;
use crate::input::Action;
use bytes::Bytes;
use intendant_core::{Key, NodeId, limits};
use intendant_wire::{AccessKind, Message, Origin, Request};
use std::mem;
use std::ops::Range;

/// What requests have in common that travel in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) to: NodeId,
    pub(crate) origin: Origin,
    pub(crate) kind: AccessKind,
    pub(crate) hops: u8,
}

struct Group {
    keys: Vec<Key>,
    positions: Vec<u32>,
    operands: Operands,
    /// Bytes of values on the way there or back.
    payload: usize,
}

/// The operands of a group, in the order of its keys.
enum Operands {
    /// A part of where they came from: all keys between the first and the last one go the same way.
    Part { source: Bytes, range: Range<usize> },
    /// Gathered.
    Gathered(Vec<u8>),
}

/// Requests that the current input causes.
#[derive(Default)]
pub(crate) struct Batch {
    groups: Groups<Route, Group>,
    /// Full ones.
    ready: Vec<Action>,
    /// What the current input may add at most.
    room: Room,
    buffers: Buffers,
}

impl Group {
    fn with(room: Room) -> Self {
        Self {
            keys: Vec::with_capacity(room.keys),
            positions: Vec::with_capacity(room.keys),
            operands: Operands::Part { source: Bytes::new(), range: 0..0 },
            payload: 0,
        }
    }
}

impl Operands {
    /// Adds what is at `next` of `from`; `memory` is for what has to be gathered.
    fn add(&mut self, from: &Bytes, next: Range<usize>, memory: impl FnOnce() -> Vec<u8>) {
        match self {
            _ if next.is_empty() => {}
            Self::Part { source, range } if range.start == range.end => {
                (*source, *range) = (from.clone(), next)
            }
            // Both are there, so that the same place is the same memory.
            Self::Part { source, range }
                if range.end == next.start && source.as_ptr_range() == from.as_ptr_range() =>
            {
                range.end = next.end
            }
            Self::Part { source, range } => {
                let mut gathered = memory();
                gathered.extend_from_slice(&source[range.clone()]);
                gathered.extend_from_slice(&from[next]);
                *self = Self::Gathered(gathered);
            }
            Self::Gathered(gathered) => gathered.extend_from_slice(&from[next]),
        }
    }

    fn into_bytes(self, buffers: &mut Buffers) -> Bytes {
        match self {
            Self::Part { source, range } => source.slice(range),
            Self::Gathered(gathered) => buffers.lend(gathered),
        }
    }
}

impl Batch {
    /// Up to so many keys, with operands of so many bytes, are about to be added.
    pub(crate) fn expect(&mut self, room: Room) {
        self.room = room.of_a_frame();
    }

    /// Adds a key, whose operand is at `operand` of `values`. `value_bytes` is the size of its value, whichever way it travels.
    pub(crate) fn add(
        &mut self,
        route: Route,
        key: Key,
        position: u32,
        values: &Bytes,
        operand: Range<usize>,
        value_bytes: usize,
    ) {
        let (room, buffers) = (self.room, &mut self.buffers);
        let group = self.groups.entry(route, || Group::with(room));
        let full = group.payload + value_bytes > limits::FRAME_PAYLOAD_BYTES_TARGET && !group.keys.is_empty();
        if full {
            self.ready.push(request(route, mem::replace(group, Group::with(room)), buffers));
        }
        group.keys.push(key);
        group.positions.push(position);
        group.payload += value_bytes;
        group.operands.add(values, operand, || buffers.take(room.bytes));
    }

    /// Sends everything.
    pub(crate) fn flush(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready);
        while let Some((route, group)) = self.groups.pop_first() {
            actions.push(request(route, group, &mut self.buffers));
        }
        self.room = Room::default();
    }
}

fn request(route: Route, group: Group, buffers: &mut Buffers) -> Action {
    let Route { to, origin, kind, hops } = route;
    let Group { keys, positions, operands, .. } = group;
    let values = operands.into_bytes(buffers);
    Action::Send { to, message: Message::Request(Request { origin, kind, hops, keys, positions, values }) }
}
