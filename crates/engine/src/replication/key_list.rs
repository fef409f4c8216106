//! A list of keys that await processing, once each.

use intendant_core::Key;

/// A list of keys that is filled one by one and emptied as a whole. The record of each key notes whether the
/// key is listed, so that there is no search.
#[derive(Default)]
pub(crate) struct KeyList {
    /// May contain keys that were removed, and keys twice that were removed and inserted again.
    keys: Vec<Key>,
    /// How many keys are listed.
    listed: usize,
}

impl KeyList {
    /// Lists `key`, whose record says with `listed` whether it is listed.
    pub(crate) fn insert(&mut self, key: Key, listed: &mut bool) {
        if !std::mem::replace(listed, true) {
            self.keys.push(key);
            self.listed += 1;
        }
    }

    /// Removes the key whose record has `listed`.
    pub(crate) fn remove(&mut self, listed: &mut bool) {
        self.listed -= usize::from(std::mem::take(listed));
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.listed
    }

    /// Takes the keys out, ascending: the result does not depend on the order of insertion. The caller
    /// removes each; a key that is not listed any more is to be skipped.
    pub(crate) fn take(&mut self) -> Vec<Key> {
        let mut keys = std::mem::take(&mut self.keys);
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
