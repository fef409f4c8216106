//! The keys: words from 0, then the totals, then the assignments.
//!
//! The value of a word has the word's number of tokens in each topic; the value of the totals has the number
//! of all tokens in each topic. The assignments of a document are blocks of [`BLOCK`] tokens, in the order of
//! its entries. They hold the topic of each token, from 1; 0 stands for a token without a topic yet, and for
//! places after the last token.

use crate::data::Documents;
use intendant_core::Key;
use intendant_task::ModelRange;
use std::ops::Range;

/// Number of tokens whose assignments are in one value.
pub(crate) const BLOCK: usize = 64;

/// The places of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    words: u64,
    topics: usize,
    /// The place at which the blocks of each document begin, counted from the first document's; and the end
    /// of the last.
    blocks: Vec<u64>,
}

impl Layout {
    pub(crate) fn new(words: usize, topics: usize, documents: &Documents) -> Self {
        let mut blocks = vec![0];
        let mut end = 0;
        for document in 0..documents.len() {
            end += documents.tokens_of(document).div_ceil(BLOCK as u64);
            blocks.push(end);
        }
        Self { words: words as u64, topics, blocks }
    }

    /// The ranges of the model. Without documents, there are no assignments.
    pub(crate) fn ranges(&self) -> Vec<ModelRange> {
        let range = |name, keys, len| ModelRange::new(name, keys, len);
        let assignments = self.keys() - self.words - 1;
        let mut ranges = vec![range("word", self.words, self.topics), range("total", 1, self.topics)];
        ranges.extend((assignments > 0).then(|| range("assignment", assignments, BLOCK)));
        ranges
    }

    pub(crate) const fn words(&self) -> usize {
        self.words as usize
    }

    pub(crate) const fn topics(&self) -> usize {
        self.topics
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> u64 {
        self.words + 1 + self.blocks.last().copied().unwrap_or(0)
    }

    pub(crate) const fn word(&self, word: u32) -> Key {
        Key(word as u64)
    }

    pub(crate) const fn totals(&self) -> Key {
        Key(self.words)
    }

    /// The keys of a document's assignments.
    pub(crate) fn blocks(&self, document: usize) -> Range<u64> {
        let first = self.words + 1;
        first + self.blocks[document]..first + self.blocks[document + 1]
    }

    /// The document with this block of assignments, and the place of the block's first token in the document.
    /// `None` if the key is not a block of assignments.
    pub(crate) fn document(&self, key: Key) -> Option<(usize, usize)> {
        let block = key.0.checked_sub(self.words + 1)?;
        let document = self.blocks.partition_point(|start| *start <= block).checked_sub(1)?;
        if document + 1 == self.blocks.len() {
            return None;
        }
        Some((document, (block - self.blocks[document]) as usize * BLOCK))
    }

    /// Elements of the value of a key.
    pub(crate) const fn len(&self, key: Key) -> usize {
        if key.0 <= self.words { self.topics } else { BLOCK }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Entry;

    #[test]
    fn documents_have_their_blocks() {
        let mut documents = Documents::default();
        for tokens in [0, 64, 1, 0, 130, 0] {
            documents.push(1, vec![Entry { word: 3, count: tokens }]);
        }
        let layout = Layout::new(5, 7, &documents);
        let blocks: Vec<_> = (0..6).map(|document| layout.blocks(document)).collect();
        assert_eq!(blocks, [6..6, 6..7, 7..8, 8..8, 8..11, 11..11]);
        let found: Vec<_> = (4..12).map(|key| layout.document(Key(key))).collect();
        let expected = [(1, 0), (2, 0), (4, 0), (4, 64), (4, 128)].map(Some);
        assert_eq!(found, [&[None, None][..], &expected, &[None]].concat());
        assert_eq!((layout.word(4), layout.totals(), layout.keys()), (Key(4), Key(5), 11));
        assert_eq!([4, 5, 6].map(|key| layout.len(Key(key))), [7, 7, 64]);
        let keys: Vec<u64> = layout.ranges().iter().map(|range| range.keys).collect();
        assert_eq!(keys, [5, 1, 5]);
        assert_eq!(Layout::new(5, 7, &Documents::default()).ranges().len(), 2);
    }
}
