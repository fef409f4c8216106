//! Replicas whose unsent updates should not wait for the next round of deltas.
//!
//! A timed round treats all replicas alike: within 40 ms, workers update a hot key hundreds of times, and a
//! cold key not at all. But the error of a copy grows with its unsent updates, not with time. So each replica
//! has an *allowance*: the number of updates that workers may make before the channel sends a delta. The slot
//! counts it down. At zero the replica is *urgent*: the worker lists the key, and the channel sends its delta
//! at its next look.
//!
//! The channel measures by how much each delta changes the value ([`intendant_techniques::combine::change`]),
//! and divides this by the number of updates: one update changes the value by the fraction `c` of its norm.
//! If each of N nodes holds `n` updates back, a reader lacks changes of up to `N n c` of the norm, while each
//! update costs `1 / n` deltas. The sum of lack and cost is smallest if `n` is proportional to
//! `1 / sqrt(N c)`. So holders send updates of young parameters, which take long steps, one by one, and those
//! of settled parameters rarely.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use intendant_core::{ChannelId, Element, Key, Layout};
use intendant_store::Entry;
use intendant_techniques::{Role, SlotState};

/// The allowance for `N c = 1`: one update of each node together change the value by its whole norm. It is
/// the square root of the cost of a delta, in terms of what readers lack. On 8 simulated nodes (KGE, 12,000
/// entities, 40 relations, one seed), 0.3 takes half as many deltas more, and the model trains no better;
/// with 1, it trains worse.
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
    /// Whether `keys` has any. Readers use it as a hint, to avoid taking the lock.
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
        // The change may be zero, or infinite if the norm is zero: `clamp` bounds all results.
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
