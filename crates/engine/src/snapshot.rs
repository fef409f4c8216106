//! The owner's side of a snapshot: the values that a node owns, shard by shard, in bounded parts.

use crate::shared::Shared;
use intendant_core::{ChannelId, Element, Key, copy_to_bytes};
use intendant_techniques::Role;
use intendant_wire::{Cursor, SnapshotPart, SnapshotRequest};
use std::ops::ControlFlow;

/// The next part of what `request` asks for, from the shards of `channel`.
pub(crate) fn serve<E: Element>(
    shared: &Shared<E>,
    channel: ChannelId,
    request: &SnapshotRequest,
) -> SnapshotPart {
    let layout = shared.layout();
    let wanted = request.start..request.end;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut next = None;
    let (mut shard, mut position) = (request.cursor.shard as usize, request.cursor.position as usize);
    // Shards of this channel are those that equal it modulo the number of channels.
    let first = channel.index();
    if shard < first {
        (shard, position) = (first, 0);
    }
    while shard < layout.shards() {
        if shard % layout.channels() == first {
            materialise(shared, shard, position, &wanted);
            let resume = shared.store().scan(shard, position, |key, state, value| {
                if wanted.contains(&key) && state.role == Role::Owner {
                    keys.push(key);
                    copy_to_bytes(value, &mut values);
                    if values.len() >= request.bytes_max as usize {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            if let Some(position) = resume {
                next = Some(Cursor { shard: shard as u32, position: position as u64 });
                break;
            }
        }
        (shard, position) = (shard + 1, 0);
    }
    SnapshotPart { worker: request.origin.worker, op: request.origin.op, next, keys, values: values.into() }
}

/// Makes the values of a lazy store that nobody has touched yet: a snapshot has every key of the range.
fn materialise<E: Element>(shared: &Shared<E>, shard: usize, position: usize, wanted: &std::ops::Range<Key>) {
    if !shared.is_lazy() {
        return;
    }
    let layout = shared.layout();
    for position in position..layout.shard_keys(shard) {
        let key = layout.key_at(shard, position);
        if wanted.contains(&key) && layout.home(key) == shared.node() {
            drop(shared.latch(key));
        }
    }
}
