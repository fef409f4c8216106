//! Groups of keys that leave in one frame. Usually there is one group at a time.

use std::collections::BTreeMap;

/// Groups by a key that their members have in common. The group that was used last is found without a search.
pub(crate) struct Groups<K, V> {
    last: Option<(K, V)>,
    others: BTreeMap<K, V>,
}

impl<K, V> Default for Groups<K, V> {
    fn default() -> Self {
        Self { last: None, others: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, V> Groups<K, V> {
    /// The group `key`, which `new` makes if there is none.
    #[inline]
    pub(crate) fn entry(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if self.last.as_ref().is_none_or(|(last, _)| *last != key) {
            self.change(key, new);
        }
        &mut self.last.as_mut().expect("the group was just put there").1
    }

    fn change(&mut self, key: K, new: impl FnOnce() -> V) {
        let group = self.others.remove(&key).unwrap_or_else(new);
        if let Some((last, group)) = self.last.replace((key, group)) {
            self.others.insert(last, group);
        }
    }

    /// Takes the first group, in order of keys.
    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        match (&self.last, self.others.first_key_value()) {
            (Some((last, _)), Some((first, _))) if first < last => self.others.pop_first(),
            (Some(_), _) => self.last.take(),
            (None, _) => self.others.pop_first(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::stream;

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
