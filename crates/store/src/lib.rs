#![doc = include_str!("../README.md")]
//!
//! Start at [`Store`]: keys are spread over latched shards; [`Store::latch`] returns an [`Entry`], the only
//! access to a key's slot state and value. [`Entry::into_row`] lends the value. [`Latch`] protects a shard
//! for the duration of one copy, or while a row is lent; [`slab`](mod@self) storage keeps values of one
//! length one after the other in blocks, so that the memory grows with the number of values that the store
//! holds. [`Entry::note`] puts a key on a list of its shard, which [`Store::take_noted`] empties: a caller
//! finds changed keys without a scan. [`Flat`] is the plain shared array that a single node without a
//! parameter server would use.
//!
//! The store gives the slot state no meaning. While the caller holds the entry, it decides which node owns a
//! key and how to handle a key that is not here. It sends messages after it has dropped the entry.
//!
//! [`Store::favour`] lets one thread enter without a latch until another thread comes;
//! [`Store::lend_favoured`] is that thread's short path to a row. Values and slots lie on huge pages once
//! they take a few MiB.
//!
//! All `unsafe` code of the crate is in `latch`, `memory`, `slab`, `noted`, `store`, `row` and `flat`; each
//! block names the invariant it relies on.

mod bias;
mod flat;
mod latch;
mod memory;
mod noted;
mod prefetch;
mod row;
mod slab;
mod store;
mod sync;

pub use bias::Favour;
pub use flat::Flat;
pub use latch::{Latch, LatchGuard};
pub use row::{Mirror, Row};
pub use store::{Entry, Lends, Slot, Store};

/// Prefetches the cache line at `at`, which need not be mapped: a hint for callers that keep tables by key.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    prefetch::prefetch(at);
}

// This is not in the source of shards, because the model checker compiles that with larger primitives.
const _: () = assert!(store::SHARD_PARTS.0 <= 64 && store::SHARD_PARTS.1 >= 64, "see `store::Shard`");
