//! Outgoing requests: one group per destination and operation.

use super::buffers::{Buffers, Room};
use super::groups::Groups;
use crate::input::Action;
use bytes::Bytes;
use intendant_core::{Key, NodeId, limits};
use intendant_wire::{AccessKind, Message, Origin, Request};
use std::mem;
use std::ops::Range;

/// What the requests of one frame have in common.
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
    /// Bytes of values that the request or its answer carries.
    payload: usize,
}

/// The operands of a group, in the order of its keys.
enum Operands {
    /// A part of the frame that contained them: all keys between the first and the last one have the same
    /// route.
    Part { source: Bytes, range: Range<usize> },
    /// Operands that were copied together.
    Gathered(Vec<u8>),
}

/// Requests of the current turn.
#[derive(Default)]
pub(crate) struct Requests {
    groups: Groups<Route, Group>,
    /// Requests whose frame is full.
    ready: Vec<Action>,
    /// What the current input adds at most.
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
    /// Adds the operand at `next` of `from`. `memory` supplies a buffer when operands have to be copied
    /// together.
    fn add(&mut self, from: &Bytes, next: Range<usize>, memory: impl FnOnce() -> Vec<u8>) {
        match self {
            _ if next.is_empty() => {}
            Self::Part { source, range } if range.start == range.end => {
                (*source, *range) = (from.clone(), next)
            }
            // Both buffers are alive, so equal addresses mean the same buffer.
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

impl Requests {
    /// Announces how many keys and bytes of operands the input adds at most.
    pub(crate) fn expect(&mut self, room: Room) {
        self.room = room.of_a_frame();
    }

    /// Adds a key, whose operand is at `operand` of `values`. `value_bytes` is the size of its value, which
    /// the request or the answer carries.
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
