//! Direct-access repurposing: the keys that a node pulled recently [thesis §4.3.2].

use intendant_core::Key;
use rand::{Rng, RngExt};
use std::ops::Range;

/// Number of keys that are remembered: those of some batches, which are most likely still here.
const REMEMBERED: usize = 1_024;

/// The latest pulled keys of a range, each as often as it was pulled.
pub(crate) struct Recent {
    range: Range<u64>,
    keys: Vec<Key>,
    /// The index of the oldest, once all places are taken.
    oldest: usize,
}

impl Recent {
    pub(crate) fn new(range: Range<u64>) -> Self {
        Self { range, keys: Vec::new(), oldest: 0 }
    }

    pub(crate) fn add(&mut self, keys: &[Key]) {
        for key in keys.iter().filter(|key| self.range.contains(&key.0)) {
            if self.keys.len() < REMEMBERED {
                self.keys.push(*key);
            } else {
                self.keys[self.oldest] = *key;
                self.oldest = (self.oldest + 1) % REMEMBERED;
            }
        }
    }

    /// One of these keys, if there is any.
    pub(crate) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<Key> {
        if self.keys.is_empty() { None } else { Some(self.keys[rng.random_range(0..self.keys.len())]) }
    }
}
