//! A set of keys that await processing, once each.

use crate::channel::core::Hash;
use hashbrown::HashSet;
use intendant_core::Key;

/// A set of keys that is filled one by one and emptied as a whole.
#[derive(Default)]
pub(crate) struct KeySet {
    keys: HashSet<Key, Hash>,
}

impl KeySet {
    pub(crate) fn insert(&mut self, key: Key) {
        self.keys.insert(key);
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.keys.remove(&key);
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Takes all keys out, ascending: the result does not depend on the order of insertion.
    pub(crate) fn take(&mut self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.keys.drain().collect();
        keys.sort_unstable();
        keys
    }
}
