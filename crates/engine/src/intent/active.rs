//! How many of a node's intents are active, by key.
//!
//! The channel keeps the counts itself, not in the slots. It counts every intent twice, when the intent
//! begins and when it ends, and each latch would evict a shard's cache line from workers that are about to
//! access the shard.

use crate::channel::core::Hash;
use hashbrown::HashMap;
use intendant_core::{Key, Layout};
use intendant_store::prefetch;
use std::sync::Arc;

/// How many keys ahead counts are prefetched.
const AHEAD: usize = 8;

/// The counts of a channel's keys.
pub(crate) enum Active {
    /// One per key of the channel, by [`Layout::place`].
    Dense(Arc<Layout>, Vec<u32>),
    /// Counts of keys with active intents, for a sparse store.
    Sparse(HashMap<Key, u32, Hash>),
}

impl Active {
    /// No active intents, for any key.
    pub(crate) fn new(layout: &Arc<Layout>, sparse: bool) -> Self {
        if sparse {
            Self::Sparse(HashMap::default())
        } else {
            Self::Dense(Arc::clone(layout), vec![0; layout.places()])
        }
    }

    /// How many intents for `key` are active.
    #[inline]
    pub(crate) fn of(&self, key: Key) -> u32 {
        match self {
            Self::Dense(layout, counts) => counts[layout.place(key)],
            Self::Sparse(counts) => counts.get(&key).copied().unwrap_or(0),
        }
    }

    /// Prefetches the counts of the keys behind the one at `at`, for a caller that goes through all of them.
    #[inline]
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        if let Self::Dense(layout, counts) = self
            && let Some(count) = keys.get(at + AHEAD).and_then(|key| counts.get(layout.place(*key)))
        {
            prefetch(count);
        }
    }

    /// Counts one intent more or less, and returns the new count.
    #[inline]
    pub(crate) fn count(&mut self, key: Key, more: bool) -> u32 {
        let step = |count: u32| {
            intendant_core::strict_assert!(more || count > 0, "an intent ends that was not active");
            if more { count.saturating_add(1) } else { count.saturating_sub(1) }
        };
        match self {
            Self::Dense(layout, counts) => {
                let count = &mut counts[layout.place(key)];
                *count = step(*count);
                *count
            }
            Self::Sparse(counts) => {
                let count = counts.entry(key).or_default();
                *count = step(*count);
                let now = *count;
                if now == 0 {
                    counts.remove(&key);
                }
                now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_table_forgets_counts_that_come_back_to_zero() {
        let layout = Arc::new(Layout::builder().range("k", 9, 1).shards(4).build().unwrap());
        for sparse in [false, true] {
            let mut active = Active::new(&layout, sparse);
            let steps =
                [(3, true, 1), (3, true, 2), (8, true, 1), (3, false, 1), (8, false, 0), (3, false, 0)];
            for (key, more, left) in steps {
                assert_eq!(active.count(Key(key), more), left);
                assert_eq!(active.of(Key(key)), left);
            }
            assert_eq!(active.of(Key(0)), 0);
            if let Active::Sparse(counts) = active {
                assert!(counts.is_empty());
            }
        }
    }
}
