//! Snapshots: the values that a node owns, shard by shard, in bounded parts.

use crate::channel::Channel;
use crate::input::{Action, SnapshotAsk};
use crate::shared::Shared;
use intendant_core::{ChannelId, Element, Key, Layout, NodeId, copy_to_bytes, limits};
use intendant_wire::{Cursor, Message, Origin, SnapshotPart, SnapshotRequest};
use std::ops::{ControlFlow, Range};

/// Positions that are looked at for one part: a range of which little is owned here must not keep the channel from others.
const POSITIONS_PER_PART_MAX: usize = 1 << 14;

impl<E: Element> Channel<E> {
    pub(crate) fn on_snapshot_ask(&mut self, ask: SnapshotAsk, actions: &mut Vec<Action>) {
        let SnapshotAsk { worker, op, owner, start, end, cursor, bytes_max } = ask;
        let request = SnapshotRequest {
            origin: Origin { node: self.shared.node(), worker, op },
            start,
            end,
            cursor: cursor.unwrap_or(Cursor { shard: 0, position: 0 }),
            bytes_max,
        };
        if owner == self.shared.node() {
            let part = serve(&self.shared, self.id, &request);
            actions.push(Action::CompleteSnapshot { worker, part });
        } else {
            self.snapshots.insert((worker, op), ask);
            actions.push(Action::Send { to: owner, message: Message::SnapshotRequest(request) });
        }
    }

    pub(crate) fn on_snapshot_request(
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
        let part = serve(&self.shared, self.id, request);
        actions.push(Action::Send { to: node, message: Message::SnapshotPart(part) });
        Ok(())
    }

    pub(crate) fn on_snapshot_part(
        &mut self,
        part: SnapshotPart,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
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

/// The next part of what `request` asks for, from the shards of `channel`.
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
