//! Counts of accesses, of parameter management and of messages: one type for each, with
//! [`merge`](AccessStats::merge) and [`since`](AccessStats::since).
//!
//! A new counter is a field here, and the place that counts; `docs/extending.md` lists what reports need.
//! Reports, simulated runs and the control plane use these types.

use intendant_core::Histogram;
use serde::{Deserialize, Serialize};

/// The operations of one field of the statistics.
trait Count {
    /// Adds `other`. Counts may be those of other processes: an impossible sum must not stop this one, so it
    /// saturates.
    fn merge(&mut self, other: &Self);

    /// The difference to `before`, an earlier state.
    fn since(&self, before: &Self) -> Self;
}

impl Count for u64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    fn since(&self, before: &Self) -> Self {
        self.saturating_sub(*before)
    }
}

impl<const N: usize> Count for [u64; N] {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(count, more)| count.merge(more));
    }

    fn since(&self, before: &Self) -> Self {
        std::array::from_fn(|at| self[at].since(&before[at]))
    }
}

impl Count for Histogram {
    fn merge(&mut self, other: &Self) {
        Histogram::merge(self, other);
    }

    fn since(&self, before: &Self) -> Self {
        Histogram::since(self, before)
    }
}

/// Defines a type of statistics whose `merge` and `since` apply to every field.
macro_rules! statistics {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// Adds the counts of `other`. Sums saturate.
            pub fn merge(&mut self, other: &Self) {
                $(Count::merge(&mut self.$field, &other.$field);)*
            }

            /// The difference to `before`, an earlier state of these counts.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: Count::since(&self.$field, &before.$field),)* }
            }
        }
    };
}

statistics! {
    /// Accesses of a worker, in keys. `local + remote = pull_keys + push_keys`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    AccessStats {
        /// Keys pulled.
        pull_keys: u64,
        /// Keys pushed or set.
        push_keys: u64,
        /// Keys served without waiting for a message.
        local: u64,
        /// The others.
        remote: u64,
        /// Pulled keys that were samples.
        sampled: u64,
    }
}

statistics! {
    /// Messages of the data plane that a node has sent to others.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    NetworkStats {
        /// How many messages.
        messages: u64,
        /// Their bytes, without the transport's own.
        bytes: u64,
    }
}

statistics! {
    /// What managing keys took: counts of one channel, or sums over several.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    ManagementStats {
        /// Keys that arrived here.
        relocations: u64,
        /// Replicas that were set up here, through the owner.
        replica_setups: u64,
        /// Of these, replicas that were dropped or became the main copy.
        replica_drops: u64,
        /// Rounds that synchronised copies here: all-reduces of static replicas, rounds of deltas and
        /// updates, or flushes at clocks.
        sync_rounds: u64,
        /// Keys whose updates this node sent or received in such rounds.
        synced_keys: u64,
        /// Reads that waited for the staleness bound.
        stale_reads: u64,
        /// Keys of intents that this node acted on.
        intents: u64,
        /// Accesses of this node's workers that were sent away although the node had localized the key:
        /// another node localized it as well, and has it.
        localization_conflicts: u64,
        /// Accesses that waited here for their key to arrive.
        queued: u64,
        /// Accesses of other nodes that were served here, by how often they had been forwarded: never, once,
        /// twice, more often.
        forwards: [u64; 4],
        /// Relocation time per key, in µs: from the worker's call to the arrival. Only of relocations that
        /// this node asked for.
        relocation: Histogram,
        /// Blocking time per access that waited here, in µs.
        blocking: Histogram,
    }
}

impl ManagementStats {
    /// Counts an access of another node that was served after `hops` forwards.
    pub(crate) fn served(&mut self, hops: u8) {
        let last = self.forwards.len() - 1;
        self.forwards[usize::from(hops).min(last)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_and_what_was_before_are_the_whole() {
        let mut before = ManagementStats { relocations: 3, forwards: [1, 2, 3, 4], ..Default::default() };
        before.blocking.record(7);
        let mut after = before.clone();
        after.relocations += 2;
        after.forwards[3] += 5;
        after.blocking.record(9);
        let mut since = after.since(&before);
        assert_eq!((since.relocations, since.forwards, since.blocking.count()), (2, [0, 0, 0, 5], 1));
        since.merge(&before);
        assert_eq!(since, after);
    }

    #[test]
    fn impossible_counts_saturate() {
        let mut count = AccessStats { local: u64::MAX, ..AccessStats::default() };
        count.merge(&AccessStats { local: 1, ..AccessStats::default() });
        assert_eq!(count.local, u64::MAX);
        assert_eq!(AccessStats::default().since(&count).local, 0);
    }
}
