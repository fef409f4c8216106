//! Names, numbered by first appearance, without an allocation for each.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use intendant_core::random::stream;
use std::hash::BuildHasher;

/// Names, numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    /// Number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name with number `id`, if there is one.
    pub fn get(&self, id: usize) -> Option<&str> {
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// All names, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|id| self.get(id))
    }

    /// A hash of `seed` and all names in their order.
    pub fn digest(&self, seed: u64) -> u64 {
        let mut digest = seed;
        for name in self.iter() {
            digest = stream(digest, &[name.len() as u64]);
            for part in name.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                digest = stream(digest, &[u64::from_le_bytes(word)]);
            }
        }
        digest
    }

    /// Appends a name.
    pub fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }
}

/// Finds the numbers of [`Names`] while they are collected.
#[derive(Debug, Default)]
pub struct NameIndex {
    table: HashTable<u32>,
    hasher: FixedState,
}

impl NameIndex {
    /// The index of names that exist already.
    pub fn of(names: &Names) -> Self {
        let mut index = Self::default();
        for (id, name) in names.iter().enumerate() {
            let hash = index.hasher.hash_one(name);
            index.table.insert_unique(hash, id as u32, |id| {
                index.hasher.hash_one(names.get(*id as usize).unwrap_or_default())
            });
        }
        index
    }

    /// The number of `name`.
    pub fn find(&self, names: &Names, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |id| names.get(*id as usize) == Some(name)).copied()
    }

    /// The number of `name`, which is appended to `names` if it is new. `None` if numbers have run out.
    pub fn intern(&mut self, names: &mut Names, name: &str) -> Option<u32> {
        if let Some(id) = self.find(names, name) {
            return Some(id);
        }
        // The last number of 32 bits is not used, so that a count of all names fits as well.
        let id = u32::try_from(names.len()).ok().filter(|id| *id < u32::MAX)?;
        names.push(name);
        let hash = self.hasher.hash_one(name);
        self.table
            .insert_unique(hash, id, |id| self.hasher.hash_one(names.get(*id as usize).unwrap_or_default()));
        Some(id)
    }
}

/// One word for each name: no word contains a blank, and no two words are equal. Blanks of a name become
/// underscores. If the result is the word of another name, `#2`, `#3` and so on are appended.
pub fn words(names: &Names) -> Names {
    let has_blank = |name: &str| name.is_empty() || name.contains(char::is_whitespace);
    let index = NameIndex::of(names);
    let mut words = Names::default();
    // The words made here. Names without blanks are words already; `index` finds them.
    let (mut made, mut made_index) = (Names::default(), NameIndex::default());
    for name in names.iter() {
        if !has_blank(name) {
            words.push(name);
            continue;
        }
        let base = if name.is_empty() { "_".to_owned() } else { name.replace(char::is_whitespace, "_") };
        let mut word = base.clone();
        let mut number = 2;
        while index.find(names, &word).is_some() || made_index.find(&made, &word).is_some() {
            word = format!("{base}#{number}");
            number += 1;
        }
        // `names` has at least as many names as `made`, so that numbers do not run out here.
        made_index.intern(&mut made, &word);
        words.push(&word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_by_first_appearance() {
        let (mut names, mut index) = (Names::default(), NameIndex::default());
        let ids: Vec<_> = ["b", "a", "", "b", "ab"].map(|n| index.intern(&mut names, n)).to_vec();
        assert_eq!(ids, [Some(0), Some(1), Some(2), Some(0), Some(3)]);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["b", "a", "", "ab"]);
        let rebuilt = NameIndex::of(&names);
        assert_eq!(rebuilt.find(&names, "ab"), Some(3));
        assert_eq!(rebuilt.find(&names, "c"), None);
        assert_eq!(names.get(4), None);
    }

    #[test]
    fn no_two_names_give_the_same_word() {
        let mut names = Names::default();
        ["New York", "New_York", "New\u{a0}York", "New_York#2", "", "x y", "_"]
            .iter()
            .for_each(|n| names.push(n));
        let words = words(&names);
        let expected = ["New_York#3", "New_York", "New_York#4", "New_York#2", "_#2", "x_y", "_"];
        assert_eq!(words.iter().collect::<Vec<_>>(), expected);
    }
}
