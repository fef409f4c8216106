//! Bags of words, one after the other.

use intendant_core::random::stream;
use intendant_formats::Names;

/// How often a word occurs in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The word.
    pub word: u32,
    /// Its occurrences, at least one.
    pub count: u32,
}

/// Documents. Each is a list of entries with ascending words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    entries: Vec<Entry>,
    /// The end of each document.
    ends: Vec<usize>,
    /// Number of tokens (occurrences of words) before each document, and in all documents.
    tokens: Vec<u64>,
    /// The name of each document in its source: its number, or its line, from 1.
    names: Vec<u64>,
}

impl Default for Documents {
    fn default() -> Self {
        Self { entries: Vec::new(), ends: Vec::new(), tokens: vec![0], names: Vec::new() }
    }
}

/// Sorts the entries of a document, and adds up those of the same word.
///
/// # Panics
/// If a word occurs more often than 32 bits can count.
pub(super) fn merge(entries: &mut Vec<Entry>) {
    entries.sort_unstable();
    entries.dedup_by(|later, earlier| {
        let same = later.word == earlier.word;
        if same {
            earlier.count = earlier.count.checked_add(later.count).expect("a count of 32 bits");
        }
        same
    });
    entries.retain(|entry| entry.count > 0);
}

impl Documents {
    /// Appends a document. Its entries are sorted, and entries of the same word are added up.
    ///
    /// # Panics
    /// If a word occurs more often than 32 bits can count.
    pub fn push(&mut self, name: u64, mut entries: Vec<Entry>) {
        merge(&mut entries);
        let tokens: u64 = entries.iter().map(|entry| u64::from(entry.count)).sum();
        self.tokens.push(self.tokens() + tokens);
        self.entries.append(&mut entries);
        self.ends.push(self.entries.len());
        self.names.push(name);
    }

    /// Number of documents.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entries of a document.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn get(&self, document: usize) -> &[Entry] {
        let start = document.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[start..self.ends[document]]
    }

    /// All documents.
    pub fn iter(&self) -> impl Iterator<Item = &[Entry]> {
        (0..self.len()).map(|document| self.get(document))
    }

    /// The name of a document in its source: its number, or its line, from 1.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn name(&self, document: usize) -> u64 {
        self.names[document]
    }

    /// Tokens of a document.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn tokens_of(&self, document: usize) -> u64 {
        self.tokens[document + 1] - self.tokens[document]
    }

    /// Tokens of the documents before this one.
    ///
    /// # Panics
    /// If there are fewer documents.
    #[must_use]
    pub fn tokens_before(&self, document: usize) -> u64 {
        self.tokens[document]
    }

    /// Tokens of all documents.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens.last().copied().unwrap_or(0)
    }

    /// Number of occurrences of each of `words` words.
    #[must_use]
    pub fn counts(&self, words: usize) -> Vec<u64> {
        let mut counts = vec![0; words];
        self.entries.iter().for_each(|entry| counts[entry.word as usize] += u64::from(entry.count));
        counts
    }

    /// A hash of a document.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn digest_of(&self, document: usize) -> u64 {
        let entries = self.get(document).iter();
        entries.fold(self.name(document), |digest, entry| {
            stream(digest, &[u64::from(entry.word) << 32 | u64::from(entry.count)])
        })
    }

    /// A hash of all documents in their order.
    #[must_use]
    pub fn digest(&self) -> u64 {
        (0..self.len())
            .fold(self.len() as u64, |digest, document| stream(digest, &[self.digest_of(document)]))
    }

    /// The documents whose places are chosen, and the others.
    #[must_use]
    pub(super) fn split(&self, chosen: impl Fn(usize) -> bool) -> (Self, Self) {
        let (mut those, mut others) = (Self::default(), Self::default());
        for (place, entries) in self.iter().enumerate() {
            let part = if chosen(place) { &mut those } else { &mut others };
            part.push(self.name(place), entries.to_vec());
        }
        (those, others)
    }

    /// The same documents with other numbers of words; words without a new number are left out.
    #[must_use]
    pub(super) fn renumbered(&self, numbers: &[Option<u32>]) -> Self {
        let mut documents = Self::default();
        for (place, entries) in self.iter().enumerate() {
            let entry =
                |entry: &Entry| numbers[entry.word as usize].map(|word| Entry { word, count: entry.count });
            documents.push(self.name(place), entries.iter().filter_map(entry).collect());
        }
        documents
    }
}

/// Documents before some are held out, and their words.
#[derive(Clone, Debug)]
pub(super) struct Collection {
    pub(super) words: Names,
    pub(super) documents: Documents,
}
