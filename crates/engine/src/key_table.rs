//! Records of some of a channel's keys.
//!
//! With a dense store, each key has an index entry, so that a record is found without a search, and can be
//! prefetched: keys come and go by the thousand, and code would otherwise wait for memory at each of them.
//! The records lie together in memory, and a new record takes the place that was freed last.

use crate::channel::core::Hash;
use hashbrown::HashMap;
use intendant_core::{Key, Layout};
use intendant_store::prefetch;
use std::sync::Arc;

/// How many keys ahead index entries, and records, are prefetched.
const AHEAD: usize = 8;
const RECORDS_AHEAD: usize = 4;

/// Where the record of a key is: its place plus one, 0 if there is none.
enum Index {
    /// By [`Layout::place`]; empty until there is a record.
    Dense(Arc<Layout>, Vec<u32>),
    /// For a sparse store: keys with records.
    Sparse(HashMap<Key, u32, Hash>),
}

/// A map from keys to records.
pub(crate) struct KeyTable<V> {
    index: Index,
    records: Vec<Option<(Key, V)>>,
    /// Places without a record.
    free: Vec<u32>,
}

impl<V> KeyTable<V> {
    /// A table without records. `sparse` says whether the store is sparse.
    pub(crate) fn new(layout: &Arc<Layout>, sparse: bool) -> Self {
        let index = if sparse {
            Index::Sparse(HashMap::default())
        } else {
            Index::Dense(Arc::clone(layout), Vec::new())
        };
        Self { index, records: Vec::new(), free: Vec::new() }
    }

    /// The place of the record of `key`. Another channel's key has none.
    #[inline(always)]
    fn place(&self, key: Key) -> Option<usize> {
        let place = match &self.index {
            Index::Dense(layout, places) => places.get(layout.place(key)),
            Index::Sparse(places) => places.get(&key),
        };
        let at = (*place? as usize).checked_sub(1)?;
        // A key of another channel may have the index entry of one of this channel.
        self.records[at].as_ref().is_some_and(|(of, _)| *of == key).then_some(at)
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `key` has a record.
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.place(key).is_some()
    }

    /// The record of `key`.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&V> {
        let at = self.place(key)?;
        self.records[at].as_ref().map(|(_, record)| record)
    }

    /// The record of `key`, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        let at = self.place(key)?;
        self.records[at].as_mut().map(|(_, record)| record)
    }

    /// Adds the record of a key that has none.
    pub(crate) fn insert(&mut self, key: Key, record: V) -> &mut V {
        let at = self.free.pop().map_or(self.records.len(), |at| at as usize);
        // Prefetches the place of one of the next records to be added.
        if let Some(later) = self.free.len().checked_sub(RECORDS_AHEAD)
            && let Some(record) = self.records.get(self.free[later] as usize)
        {
            prefetch(record);
        }
        let place = at as u32 + 1;
        let before = match &mut self.index {
            Index::Dense(layout, places) => {
                if places.is_empty() {
                    *places = vec![0; layout.places()];
                }
                std::mem::replace(&mut places[layout.place(key)], place)
            }
            Index::Sparse(places) => places.insert(key, place).unwrap_or(0),
        };
        assert_eq!(before, 0, "{key:?} has a record");
        if at == self.records.len() {
            self.records.push(None);
        }
        let (_, record) = self.records[at].insert((key, record));
        record
    }

    /// Removes the record of `key`.
    pub(crate) fn remove(&mut self, key: Key) -> Option<V> {
        let at = self.place(key)?;
        match &mut self.index {
            Index::Dense(layout, places) => places[layout.place(key)] = 0,
            Index::Sparse(places) => drop(places.remove(&key)),
        }
        self.free.push(at as u32);
        self.records[at].take().map(|(_, record)| record)
    }

    /// All records with their keys, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        self.records.iter().flatten().map(|(key, record)| (*key, record))
    }

    /// Prefetches records of the keys behind the one at `at`, for a caller that goes through all of them.
    #[inline]
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        let Index::Dense(layout, places) = &self.index else { return };
        if places.is_empty() {
            return;
        }
        if let Some(place) = keys.get(at + AHEAD).and_then(|key| places.get(layout.place(*key))) {
            prefetch(place);
        }
        if let Some(key) = keys.get(at + RECORDS_AHEAD)
            && let Some(record) = places
                .get(layout.place(*key))
                .and_then(|place| self.records.get((*place as usize).wrapping_sub(1)))
        {
            prefetch(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::stream;
    use std::collections::BTreeMap;

    #[test]
    fn the_same_as_a_map() {
        let layout = Arc::new(Layout::builder().range("k", 90, 1).shards(4).channels(2).build().unwrap());
        let all = || (0..90).map(Key);
        let keys: Vec<Key> = all().filter(|key| layout.channel(*key).0 == 1).collect();
        for sparse in [false, true] {
            let (mut table, mut map) = (KeyTable::new(&layout, sparse), BTreeMap::new());
            for step in 0..4_000 {
                let word = stream(5, &[step]);
                let key = keys[word as usize % keys.len()];
                table.prefetch(&keys, word as usize % keys.len());
                assert_eq!((table.get(key), table.contains(key)), (map.get(&key), map.contains_key(&key)));
                match table.get_mut(key) {
                    Some(record) if word >> 32 & 1 == 0 => {
                        *record += 1;
                        *map.get_mut(&key).unwrap() += 1;
                    }
                    Some(_) => assert_eq!(table.remove(key), map.remove(&key)),
                    None if word >> 32 & 1 == 0 => {
                        assert_eq!(*table.insert(key, step), step);
                        map.insert(key, step);
                    }
                    None => assert_eq!(table.remove(key), None),
                }
                assert_eq!((table.len(), table.is_empty()), (map.len(), map.is_empty()));
            }
            let mut records: Vec<(Key, u64)> = table.iter().map(|(key, record)| (key, *record)).collect();
            records.sort_unstable();
            assert_eq!(records, map.into_iter().collect::<Vec<_>>());
            assert!(table.records.len() <= keys.len(), "places are filled again");
            let found: Vec<Key> = all().filter(|key| table.contains(*key)).collect();
            assert!(!found.is_empty() && found.iter().all(|key| keys.contains(key)), "only own keys");
        }
    }
}
