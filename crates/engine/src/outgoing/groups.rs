//! Groups of keys that leave in one frame. Usually there is one group at a time.

use std::cmp::Reverse;

/// Groups by a key that their members have in common. The group that was used last is found without a
/// search.
///
/// A turn forms few groups, and takes them in order of their keys. In a sorted vector, nothing is allocated
/// per group, and the first group is at the end.
pub(crate) struct Groups<K, V> {
    /// In descending order of keys.
    groups: Vec<(K, V)>,
    /// Index of the group that was used last, or no index.
    last: usize,
}

impl<K, V> Default for Groups<K, V> {
    fn default() -> Self {
        Self { groups: Vec::new(), last: 0 }
    }
}

impl<K: Copy + Ord, V> Groups<K, V> {
    /// The group `key`, which `new` makes if there is none.
    #[inline]
    pub(crate) fn entry(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if self.groups.get(self.last).is_none_or(|(last, _)| *last != key) {
            self.change(key, new);
        }
        &mut self.groups[self.last].1
    }

    fn change(&mut self, key: K, new: impl FnOnce() -> V) {
        let found = self.groups.binary_search_by_key(&Reverse(key), |(key, _)| Reverse(*key));
        self.last = found.unwrap_or_else(|at| {
            self.groups.insert(at, (key, new()));
            at
        });
    }

    /// Takes the first group, in order of keys.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        self.groups.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::stream;
    use std::collections::BTreeMap;

    #[test]
    fn the_same_as_an_ordered_map() {
        for seed in 0..500 {
            let (mut groups, mut map) = (Groups::default(), BTreeMap::<u64, Vec<u64>>::new());
            for at in 0..seed % 60 {
                let word = stream(seed, &[at]);
                if word.is_multiple_of(3) {
                    assert_eq!(groups.pop_first(), map.pop_first());
                }
                let key = word / 3 % 5;
                groups.entry(key, Vec::new).push(at);
                map.entry(key).or_default().push(at);
            }
            while let Some(group) = map.pop_first() {
                assert_eq!(groups.pop_first(), Some(group));
            }
            assert_eq!(groups.pop_first(), None);
        }
    }
}
