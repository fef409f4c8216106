//! Words: byte strings, numbered, without an allocation for each; and the vocabulary, which has the words
//! that are trained.

use hashbrown::HashTable;
use intendant_core::random::stream;
use std::cmp::Reverse;
use xxhash_rust::xxh3::xxh3_64;

/// Stands for a word that is not in the vocabulary.
pub const UNKNOWN: u32 = u32::MAX;

/// Byte strings, numbered from 0, with an index by their bytes.
#[derive(Clone, Debug, Default)]
struct Table {
    text: Vec<u8>,
    ends: Vec<usize>,
    places: HashTable<u32>,
}

impl Table {
    fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[id]]
    }

    #[inline]
    fn find(&self, word: &[u8], hash: u64) -> Option<u32> {
        self.places.find(hash, |id| self.get(*id) == word).copied()
    }

    /// Appends a new word; `None` if numbers have run out.
    fn push(&mut self, word: &[u8], hash: u64) -> Option<u32> {
        let id = u32::try_from(self.ends.len()).ok().filter(|id| *id < UNKNOWN)?;
        self.text.extend_from_slice(word);
        self.ends.push(self.text.len());
        let Self { text, ends, places } = self;
        let rehash = |id: &u32| {
            let id = *id as usize;
            let start = id.checked_sub(1).map_or(0, |before| ends[before]);
            xxh3_64(&text[start..ends[id]])
        };
        places.insert_unique(hash, id, rehash);
        Some(id)
    }
}

/// The hash by which words are found. It is the same on all machines.
#[inline]
pub(super) fn hash(word: &[u8]) -> u64 {
    xxh3_64(word)
}

/// Counts words.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    table: Table,
    counts: Vec<u64>,
}

/// There are more distinct words than 32 bits can number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyWords;

impl Counts {
    /// Adds `count` occurrences of a word, with its [`hash`]. Returns its number: words are numbered from 0,
    /// by first appearance.
    #[inline]
    pub(super) fn add(&mut self, word: &[u8], hash: u64, count: u64) -> Result<u32, TooManyWords> {
        if let Some(id) = self.table.find(word, hash) {
            self.counts[id as usize] += count;
            return Ok(id);
        }
        let id = self.table.push(word, hash).ok_or(TooManyWords)?;
        self.counts.push(count);
        Ok(id)
    }

    /// Adds all counts of `other`. Returns the number of each of its words in `self`.
    pub(super) fn merge(&mut self, other: &Self) -> Result<Vec<u32>, TooManyWords> {
        let add = |(id, count): (u32, &u64)| {
            let word = other.table.get(id);
            self.add(word, hash(word), *count)
        };
        (0..).zip(&other.counts).map(add).collect()
    }

    /// Number of occurrences of all words.
    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Distinct words.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The largest count.
    pub(super) fn largest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

/// The words that are trained, in descending order of count; ties are in the order of their bytes.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    table: Table,
    counts: Vec<u64>,
    total: u64,
}

impl Vocabulary {
    /// The words that occur at least `min_count` times.
    pub(super) fn new(counts: &Counts, min_count: u64) -> Self {
        let word = |id: &u32| (Reverse(counts.counts[*id as usize]), counts.table.get(*id));
        let ids = (0..).zip(&counts.counts).filter(|(_, count)| **count >= min_count).map(|(id, _)| id);
        let mut ids: Vec<u32> = ids.collect();
        ids.sort_unstable_by(|a, b| word(a).cmp(&word(b)));
        let mut vocabulary = Self::default();
        for id in ids {
            let word = counts.table.get(id);
            // There are no more words than in `counts`.
            let _ = vocabulary.table.push(word, hash(word));
            vocabulary.counts.push(counts.counts[id as usize]);
        }
        vocabulary.total = vocabulary.counts.iter().sum();
        vocabulary
    }

    /// Words and their counts, in their order.
    ///
    /// # Errors
    /// If a word occurs twice, or there are too many: a text for people.
    pub fn of<'a>(words: impl IntoIterator<Item = (&'a [u8], u64)>) -> Result<Self, String> {
        let mut vocabulary = Self::default();
        for (word, count) in words {
            let shown = || String::from_utf8_lossy(word).into_owned();
            if vocabulary.find(word).is_some() {
                return Err(format!("'{}' occurs twice", shown()));
            }
            let total = vocabulary.total.checked_add(count);
            vocabulary.total = total.ok_or_else(|| format!("the count of '{}' is too large", shown()))?;
            vocabulary.table.push(word, hash(word)).ok_or("there are more words than 32 bits can number")?;
            vocabulary.counts.push(count);
        }
        Ok(vocabulary)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// A word.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn word(&self, id: u32) -> &[u8] {
        self.table.get(id)
    }

    /// All words, in order of their numbers.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.counts.len() as u32).map(|id| self.table.get(id))
    }

    /// How often each word occurs in the corpus.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The number of a word.
    pub fn find(&self, word: &[u8]) -> Option<u32> {
        self.table.find(word, hash(word))
    }

    /// The number in this vocabulary of each of the counted words, or [`UNKNOWN`].
    pub(super) fn numbers(&self, counts: &Counts) -> Vec<u32> {
        let number = |id| {
            let word = counts.table.get(id);
            self.find_hashed(word, hash(word))
        };
        (0..counts.len() as u32).map(number).collect()
    }

    #[inline]
    pub(super) fn find_hashed(&self, word: &[u8], hash: u64) -> u32 {
        self.table.find(word, hash).unwrap_or(UNKNOWN)
    }

    /// A hash of all words and their counts.
    pub(super) fn digest(&self, seed: u64) -> u64 {
        let word = |digest, (word, count): (&[u8], &u64)| stream(digest, &[hash(word), *count]);
        self.words().zip(&self.counts).fold(seed, word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        let mut counts = Counts::default();
        for word in text.split(' ').map(str::as_bytes) {
            counts.add(word, hash(word), 1).unwrap();
        }
        counts
    }

    #[test]
    fn frequent_words_come_first_and_equally_frequent_ones_by_their_bytes() {
        let mut all = counts("b a c b d ab c");
        all.merge(&counts("d b e")).unwrap();
        assert_eq!((all.total(), all.len(), all.largest()), (10, 6, 3));
        let vocabulary = Vocabulary::new(&all, 2);
        assert_eq!(vocabulary.words().collect::<Vec<_>>(), [b"b", b"c", b"d"]);
        assert_eq!((vocabulary.counts(), vocabulary.total()), (&[3, 2, 2][..], 7));
        assert_eq!(Vocabulary::new(&all, 1).words().collect::<Vec<_>>()[3..], [&b"a"[..], b"ab", b"e"]);
        assert_eq!(
            (vocabulary.find(b"d"), vocabulary.find(b"a"), vocabulary.word(1)),
            (Some(2), None, &b"c"[..])
        );
        assert!(Vocabulary::new(&all, 4).is_empty());
    }

    #[test]
    fn words_are_found_among_many() {
        let mut all = Counts::default();
        for number in 0..20_000u32 {
            let word = format!("{}", number % 7000);
            all.add(word.as_bytes(), hash(word.as_bytes()), 1).unwrap();
        }
        let vocabulary = Vocabulary::new(&all, 3);
        assert_eq!(vocabulary.len(), 6000, "the others occur twice");
        assert!((0..6000).all(|id| vocabulary.find(vocabulary.word(id)) == Some(id)));
    }
}
