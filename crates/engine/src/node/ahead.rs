//! Prefetching for channels: each turn latches many keys in a known order.

use crate::node::Shared;
use intendant_core::{Element, Key};
use intendant_store::Store;
use intendant_techniques::SlotState;

/// How many keys ahead channels prefetch slots. Channels do more per key than workers.
const SLOTS: usize = 8;
const VALUES: usize = 4;

/// Prefetches for a channel that walks through a list of keys. The channel calls one of the methods at each
/// key of the list, with the position of the key.
pub(crate) struct Ahead<'a, E>(&'a Store<SlotState, E>);

impl<E: Element> Shared<E> {
    /// Prefetches keys of this node.
    #[inline]
    pub(crate) fn ahead(&self) -> Ahead<'_, E> {
        Ahead(&self.store)
    }
}

impl<E: Element> Ahead<'_, E> {
    /// Prefetches slots and values of the keys behind the one at `at`, for a channel that latches all of
    /// them. They may be in the cache of a worker's core.
    #[inline]
    pub(crate) fn values(&self, keys: &[Key], at: usize) {
        self.slots(keys, at);
        if at == 0 {
            keys.iter().take(VALUES).for_each(|key| self.0.prefetch_value(*key));
        }
        if let Some(ahead) = keys.get(at + VALUES) {
            self.0.prefetch_value(*ahead);
        }
    }

    /// As [`Ahead::values`], for keys that are about to be handed over.
    #[inline]
    pub(crate) fn departures(&self, keys: &[Key], at: usize) {
        self.values(keys, at);
        ahead(keys, at, |key| self.0.prefetch_slab(key));
    }

    /// Prefetches the slots of the keys behind the one at `at`.
    #[inline]
    pub(crate) fn slots(&self, keys: &[Key], at: usize) {
        ahead(keys, at, |key| self.0.prefetch_slot(key));
    }

    /// Prefetches slots and free places for the keys behind the one at `at`, whose values are about to
    /// arrive.
    #[inline]
    pub(crate) fn arrivals(&self, keys: &[Key], at: usize) {
        ahead(keys, at, |key| {
            self.0.prefetch_slot(key);
            self.0.prefetch_slab(key);
        });
        if let Some(ahead) = keys.get(at + VALUES) {
            self.0.prefetch_place(*ahead);
        }
    }
}

/// Prefetches keys with `fetch` when the caller reaches the `at`-th of `keys`: the first [`SLOTS`] keys at
/// the start, and one more key at each call.
#[inline]
fn ahead(keys: &[Key], at: usize, fetch: impl Fn(Key)) {
    if at == 0 {
        keys.iter().take(SLOTS).for_each(|key| fetch(*key));
    }
    if let Some(key) = keys.get(at + SLOTS) {
        fetch(*key);
    }
}
