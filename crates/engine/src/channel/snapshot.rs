//! Snapshots: the values that a node owns, shard by shard, in bounded parts.

use super::core::{Core, Hash};
use super::effects::Output;
use crate::error::ProtocolError;
use crate::input::{Action, SnapshotAsk};
use crate::node::Shared;
use hashbrown::HashMap;
use intendant_core::{ChannelId, Element, Key, Layout, NodeId, WorkerId, copy_to_bytes, limits};
use intendant_wire::{Cursor, Message, OpId, Origin, SnapshotPart, SnapshotRequest};
use std::ops::{ControlFlow, Range};

/// Maximum number of positions examined for one part: a range with few owned keys must not keep the channel
/// from other work.
const POSITIONS_PER_PART_MAX: usize = 1 << 14;

/// Parts of snapshots that this node's workers wait for.
#[derive(Default)]
pub(crate) struct Snapshots {
    asked: HashMap<(WorkerId, OpId), SnapshotAsk, Hash>,
}

impl Snapshots {
    /// Number of parts that workers wait for.
    pub(crate) fn outstanding(&self) -> usize {
        self.asked.len()
    }

    /// A worker wants a part: asks its owner, or answers at once.
    pub(crate) fn ask<E: Element>(&mut self, core: &Core<E>, out: &mut Output, ask: SnapshotAsk) {
        let SnapshotAsk { worker, op, owner, start, end, cursor, bytes_max } = ask;
        let request = SnapshotRequest {
            origin: Origin { node: core.node(), worker, op },
            start,
            end,
            cursor: cursor.unwrap_or(Cursor { shard: 0, position: 0 }),
            bytes_max,
        };
        if owner == core.node() {
            let part = serve(&core.shared, core.id, &request);
            out.actions.push(Action::CompleteSnapshot { worker, part });
        } else {
            self.asked.insert((worker, op), ask);
            out.actions.push(Action::Send { to: owner, message: Message::SnapshotRequest(request) });
        }
    }

    /// The owner has sent a part.
    ///
    /// # Errors
    /// If no worker asked for it, or it is malformed.
    pub(crate) fn on_part<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        part: SnapshotPart,
    ) -> Result<(), ProtocolError> {
        let (worker, op) = (part.worker, part.op);
        let Some(ask) = self.asked.remove(&(worker, op)) else {
            return Err(ProtocolError::UnaskedPart { worker, op });
        };
        let asked = |key: &Key| core.shared.layout().contains(*key) && (ask.start..ask.end).contains(key);
        if let Some(key) = part.keys.iter().find(|key| !asked(key)) {
            return Err(ProtocolError::UnaskedKey(*key));
        }
        let expected = core.values_bytes(&part.keys);
        ProtocolError::unless_bytes(|| "snapshot part".into(), part.values.len(), expected)?;
        out.actions.push(Action::CompleteSnapshot { worker, part });
        Ok(())
    }
}

/// Another node wants a part of the values that this node owns.
///
/// # Errors
/// If it asks in the name of another node, or for too large a part.
pub(crate) fn on_request<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    from: NodeId,
    request: &SnapshotRequest,
) -> Result<(), ProtocolError> {
    let node = request.origin.node;
    // Snapshot requests are never forwarded.
    if node != from {
        return Err(ProtocolError::InTheNameOf { what: "snapshot request".into(), node });
    }
    if request.bytes_max as usize > limits::FRAME_PAYLOAD_BYTES_TARGET {
        return Err(ProtocolError::PartTooLarge(request.bytes_max));
    }
    let part = serve(&core.shared, core.id, request);
    out.actions.push(Action::Send { to: node, message: Message::SnapshotPart(part) });
    Ok(())
}

/// The next part of the range of `request`, from the shards of `channel`.
fn serve<E: Element>(shared: &Shared<E>, channel: ChannelId, request: &SnapshotRequest) -> SnapshotPart {
    let layout = shared.layout();
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut next = None;
    let mut budget = POSITIONS_PER_PART_MAX;
    let (mut shard, mut from) = (request.cursor.shard as usize, request.cursor.position as usize);
    while shard < layout.shards() {
        // Shards of this channel are those that equal it modulo the number of channels.
        if shard % layout.channels() == channel.index() {
            let all = positions(layout, shard, request.start, request.end);
            let start = all.start.max(from);
            let end = all.end.min(start.saturating_add(budget));
            let full = |values: &Vec<u8>| values.len() >= request.bytes_max.max(1) as usize;
            let stopped = if shared.is_lazy() {
                let mut at = start;
                while at < end && !full(&values) {
                    let key = layout.key_at(shard, at);
                    if shared.read_or_make(key, &mut values) {
                        keys.push(key);
                    }
                    at += 1;
                }
                at
            } else {
                let resume = shared.store().scan(shard, start..end.max(start), |key, state, value| {
                    if shared.is_main(key, state.role) {
                        keys.push(key);
                        copy_to_bytes(value, &mut values);
                    }
                    if full(&values) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                resume.unwrap_or(end)
            };
            if stopped < all.end {
                next = Some(Cursor { shard: shard as u32, position: stopped as u64 });
                break;
            }
            budget -= end.saturating_sub(start);
        }
        (shard, from) = (shard + 1, 0);
    }
    SnapshotPart { worker: request.origin.worker, op: request.origin.op, next, keys, values: values.into() }
}

/// The positions of `shard` whose keys lie in `start..end`.
fn positions(layout: &Layout, shard: usize, start: Key, end: Key) -> Range<usize> {
    let (shards, shard) = (layout.shards() as u64, shard as u64);
    let below = |key: Key| (key.0.min(layout.keys()).saturating_sub(shard).div_ceil(shards)) as usize;
    below(start)..below(end).max(below(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_range() {
        let layout = Layout::builder().range("k", 37, 1).shards(8).build().unwrap();
        for (start, end) in [(0, 37), (5, 6), (7, 9), (0, 0), (20, 10), (30, 99)] {
            for shard in 0..8 {
                let expected: Vec<usize> = (start..end.min(37))
                    .map(Key)
                    .filter(|key| layout.shard(*key) == shard)
                    .map(|key| layout.position(key))
                    .collect();
                let found: Vec<usize> = positions(&layout, shard, Key(start), Key(end)).collect();
                assert_eq!(found, expected, "shard {shard} of {start}..{end}");
            }
        }
    }
}
