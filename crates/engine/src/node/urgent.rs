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

use intendant_core::{ChannelId, Element, Key, Layout, lock};
use intendant_store::Entry;
use intendant_techniques::{Role, SlotState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The allowance where all nodes together change a value by its norm with one update each: what a delta costs
/// in terms of what readers lack. On 8 simulated nodes (KGE, 12,000 entities, 40 relations) 0.3 costs half
/// as many deltas more and teaches no more, and 1 teaches less.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_weighs_what_readers_lack_against_deltas() {
        let two = Urgent::new(1, 2);
        assert_eq!([2, 8, 64].map(|nodes| Urgent::new(1, nodes).first_allowance()), [4, 1, 1]);
        // 10 updates changed it by 1 %. A quarter of that, or four times as many nodes: twice or half as many.
        assert_eq!(two.allowance(10, 0.01), 13);
        assert_eq!(two.allowance(10, 0.0025), 26);
        assert_eq!(Urgent::new(1, 8).allowance(10, 0.01), 6);
        assert_eq!(two.allowance(1, 0.5), 1);
        assert_eq!(two.allowance(0, 0.5), 1);
        assert_eq!(two.allowance(5, 0.0), 1000);
        assert_eq!(two.allowance(5, f64::INFINITY), 1);
        assert_eq!(two.allowance(5, f64::NAN), 0, "a run that has diverged ends soon");
    }

    #[test]
    fn each_channel_takes_its_own_keys_once() {
        let urgent = Urgent::new(2, 2);
        let mut keys = Vec::new();
        urgent.take(ChannelId(0), &mut keys);
        assert!(keys.is_empty());
        urgent.list(ChannelId(0), Key(4));
        urgent.list(ChannelId(1), Key(7));
        urgent.list(ChannelId(0), Key(2));
        urgent.take(ChannelId(0), &mut keys);
        assert_eq!(keys, [Key(4), Key(2)]);
        keys.clear();
        urgent.take(ChannelId(0), &mut keys);
        assert!(keys.is_empty());
        urgent.take(ChannelId(1), &mut keys);
        assert_eq!(keys, [Key(7)]);
    }
}
