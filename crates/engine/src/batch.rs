//! Outgoing requests, grouped: one frame per destination and operation, split where a frame would grow too long.

use crate::groups::Groups;
use crate::input::Action;
use intendant_core::{Key, NodeId, limits};
use intendant_wire::{AccessKind, Message, Origin, Request};

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
    values: Vec<u8>,
    /// Bytes of values on the way there or back.
    payload: usize,
}

/// Requests that the current input causes.
#[derive(Default)]
pub(crate) struct Batch {
    groups: Groups<Route, Group>,
    /// Full ones.
    ready: Vec<Action>,
    /// What the current input may add at most.
    room: Room,
}

/// Memory that groups take when they begin: most are as large as the call, or the frame, that they come from.
#[derive(Clone, Copy, Default)]
struct Room {
    keys: usize,
    bytes: usize,
}

impl Group {
    fn with(room: Room) -> Self {
        Self {
            keys: Vec::with_capacity(room.keys),
            positions: Vec::with_capacity(room.keys),
            values: Vec::with_capacity(room.bytes.min(limits::FRAME_PAYLOAD_BYTES_TARGET)),
            payload: 0,
        }
    }
}

impl Batch {
    /// Up to so many keys, with operands of so many bytes, are about to be added.
    pub(crate) fn expect(&mut self, keys: usize, bytes: usize) {
        self.room = Room { keys, bytes };
    }

    /// Adds a key. `value_bytes` is the size of its value, whichever way it travels.
    pub(crate) fn add(&mut self, route: Route, key: Key, position: u32, operand: &[u8], value_bytes: usize) {
        let room = self.room;
        let group = self.groups.entry(route, || Group::with(room));
        let full = group.payload + value_bytes > limits::FRAME_PAYLOAD_BYTES_TARGET && !group.keys.is_empty();
        if full {
            self.ready.push(request(route, std::mem::replace(group, Group::with(room))));
        }
        group.keys.push(key);
        group.positions.push(position);
        group.values.extend_from_slice(operand);
        group.payload += value_bytes;
    }

    /// Sends everything.
    pub(crate) fn flush(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready);
        while let Some((route, group)) = self.groups.pop_first() {
            actions.push(request(route, group));
        }
        self.room = Room::default();
    }
}

fn request(route: Route, group: Group) -> Action {
    let Route { to, origin, kind, hops } = route;
    let Group { keys, positions, values, .. } = group;
    Action::Send {
        to,
        message: Message::Request(Request { origin, kind, hops, keys, positions, values: values.into() }),
    }
}
