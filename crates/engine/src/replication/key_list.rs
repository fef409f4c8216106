//! A list of keys that await processing, once each.

use intendant_core::Key;

/// A list of keys that is filled one by one and processed in portions. The record of each key notes whether
/// the key is listed, so that no search is necessary.
#[derive(Default)]
pub(crate) struct KeyList {
    /// Keys listed since the last [`KeyList::gather`]. May contain keys that were removed, and contains keys
    /// twice that were removed and inserted again.
    keys: Vec<Key>,
    /// The keys that are being processed, ascending: the result does not depend on the order of insertion.
    gathered: Vec<Key>,
    /// How many of them have been processed.
    done: usize,
    /// How many keys are listed.
    listed: usize,
}

impl KeyList {
    /// Lists `key`. `listed` is the flag in the record of the key that says whether it is listed.
    pub(crate) fn insert(&mut self, key: Key, listed: &mut bool) {
        if !std::mem::replace(listed, true) {
            self.keys.push(key);
            self.listed += 1;
        }
    }

    /// Removes the key whose record contains the flag `listed`.
    pub(crate) fn remove(&mut self, listed: &mut bool) {
        self.listed -= usize::from(std::mem::take(listed));
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.listed
    }

    /// Gathers all listed keys, to be processed from now on. Keys that are listed later wait for the next
    /// call.
    pub(crate) fn gather(&mut self) {
        self.gathered.drain(..self.done);
        self.done = 0;
        self.gathered.append(&mut self.keys);
        self.gathered.sort_unstable();
        self.gathered.dedup();
    }

    /// Number of gathered keys that have not been processed.
    pub(crate) fn gathered(&self) -> usize {
        self.gathered.len() - self.done
    }

    /// Takes the gathered keys out, with the number of those that have been processed. The caller removes
    /// each further one that it processes, skips those that are not listed any more, and calls
    /// [`KeyList::put_back`].
    pub(crate) fn take_gathered(&mut self) -> (Vec<Key>, usize) {
        (std::mem::take(&mut self.gathered), self.done)
    }

    /// Puts the gathered keys back, of which `done` have been processed now.
    pub(crate) fn put_back(&mut self, gathered: Vec<Key>, done: usize) {
        (self.gathered, self.done) = (gathered, done);
    }
}
