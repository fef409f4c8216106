//! Outgoing requests, grouped: one frame per destination and operation, split where a frame would grow too long.

use intendant_core::{Key, NodeId, limits};
use intendant_wire::{AccessKind, Message, Origin, Request};
use std::collections::BTreeMap;

#[derive(Default)]
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
    groups: BTreeMap<(NodeId, Origin, AccessKind, u8), Group>,
}

impl Batch {
    /// Adds a key to the request to `to`. `value_bytes` is the size of its value, whichever way it travels.
    #[expect(
        clippy::too_many_arguments,
        reason = "a request has that many parts, and a struct would only rename them"
    )]
    pub(crate) fn add(
        &mut self,
        to: NodeId,
        origin: Origin,
        kind: AccessKind,
        hops: u8,
        key: Key,
        position: u32,
        operand: &[u8],
        value_bytes: usize,
        send: &mut impl FnMut(NodeId, Message),
    ) {
        let group = self.groups.entry((to, origin, kind, hops)).or_default();
        let full = group.payload + value_bytes > limits::FRAME_PAYLOAD_BYTES_TARGET && !group.keys.is_empty();
        if full {
            send(to, request(origin, kind, hops, std::mem::take(group)));
        }
        group.keys.push(key);
        group.positions.push(position);
        group.values.extend_from_slice(operand);
        group.payload += value_bytes;
    }

    /// Sends what is left.
    pub(crate) fn flush(&mut self, send: &mut impl FnMut(NodeId, Message)) {
        while let Some(((to, origin, kind, hops), group)) = self.groups.pop_first() {
            send(to, request(origin, kind, hops, group));
        }
    }
}

fn request(origin: Origin, kind: AccessKind, hops: u8, group: Group) -> Message {
    let Group { keys, positions, values, .. } = group;
    Message::Request(Request { origin, kind, hops, keys, positions, values: values.into() })
}
