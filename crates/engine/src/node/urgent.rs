//! Replicas whose unsent updates should not wait for the next round of deltas.
//!
//! A round by the clock treats all replicas alike: 40 ms are hundreds of updates of a hot key, and none of a
//! cold one. A copy drifts by its unsent updates, not by time. So each replica has an *allowance*: the number
//! of updates that workers may make before the channel sends a delta. The slot counts it down. At zero the
//! replica is *urgent*: the worker lists the key, and the channel sends its delta at its next look.
//!
//! The channel measures each delta ([`intendant_techniques::combine::change`]) and divides by the number of
//! updates: one update changes the value by `c` of its norm. If each of N nodes holds `n` updates back, a
//! reader lacks up to `N n c`, while an update costs `1 / n` deltas. The sum of lack and cost is least where
//! `n` is proportional to `1 / sqrt(N c)`. So young parameters, which take long steps, are sent after each
//! update, and settled ones rarely.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use intendant_core::{ChannelId, Element, Key, Layout};
use intendant_store::Entry;
use intendant_techniques::{Role, SlotState};

/// The allowance where all nodes together change a value by its norm with one update each: the root of what a
/// delta costs in terms of what readers lack. On 8 simulated nodes (KGE, 12,000 entities, 40 relations, one
/// seed) 0.3 costs half as many deltas more and teaches no more, and 1 teaches less.
const CARE: f64 = 0.6;

/// The allowance of all nodes together for a key whose updates have not been measured yet.
const FIRST_ALLOWANCE: u32 = 8;

/// The largest allowance. Deltas that are rarer than this travel with the rounds anyway.
const ALLOWANCE_MAX: f64 = 1000.0;

/// The urgent replicas of a node.
pub(crate) struct Urgent {
    nodes: u32,
    /// By channel.
    lists: Box<[List]>,
}

#[derive(Default)]
struct List {
    keys: Mutex<Vec<Key>>,
    /// Whether there are keys: a hint, which spares the lock.
    any: AtomicBool,
}

impl Urgent {
    pub(crate) fn new(channels: usize, nodes: usize) -> Self {
        Self { nodes: nodes as u32, lists: (0..channels).map(|_| List::default()).collect() }
    }

    /// The allowance of a replica whose updates have not been measured.
    pub(crate) fn first_allowance(&self) -> u32 {
        (FIRST_ALLOWANCE / self.nodes).max(1)
    }

    /// The allowance of a replica that `updates` updates have changed by `change` of its norm.
    pub(crate) fn allowance(&self, updates: u32, change: f64) -> u32 {
        let each = change / f64::from(updates.max(1));
        // Nothing may have changed, and the norm may be zero: all results are within the bounds.
        (CARE / (f64::from(self.nodes) * each).sqrt()).clamp(1.0, ALLOWANCE_MAX) as u32
    }

    /// Counts an update of `entry`'s key, and lists the key if it becomes urgent.
    #[inline]
    pub(super) fn count<E: Element>(&self, layout: &Layout, entry: &mut Entry<'_, SlotState, E>) {
        if entry.state().role == Role::Replica && entry.state_mut().count_down() {
            self.list(layout.channel(entry.key()), entry.key());
        }
    }

    /// Lists an urgent replica.
    #[cold]
    pub(crate) fn list(&self, channel: ChannelId, key: Key) {
        let list = &self.lists[channel.index()];
        let mut keys = lock(&list.keys);
        keys.push(key);
        // Relaxed: written under the lock only, so that the last value agrees with the list.
        list.any.store(true, Ordering::Relaxed);
    }

    /// Moves the urgent keys of `channel` to `keys`, which is empty.
    pub(crate) fn take(&self, channel: ChannelId, keys: &mut Vec<Key>) {
        let list = &self.lists[channel.index()];
        // Relaxed: a key that is missed is found at the next look.
        if list.any.load(Ordering::Relaxed) {
            let mut listed = lock(&list.keys);
            std::mem::swap(&mut *listed, keys);
            list.any.store(false, Ordering::Relaxed);
        }
    }
}
