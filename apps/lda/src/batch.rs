//! A batch: some documents, and the keys that they need.

use crate::data::Documents;
use crate::layout::Layout;
use intendant_core::Key;
use intendant_task::Ranking;

/// A document of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The document.
    pub(crate) document: u32,
    /// Position among the keys of the batch of the first of its blocks of assignments.
    pub(crate) blocks: u32,
}

/// A batch, prepared before it is trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The epoch, which determines the random numbers.
    pub(crate) epoch: u32,
    /// The documents, in the order in which they are trained.
    pub(crate) parts: Vec<Part>,
    /// For each entry of each document, the position of its word among the keys, one document after the
    /// other.
    pub(crate) words: Vec<u32>,
}

/// Position of the totals among the keys of a batch.
pub(crate) const TOTALS: usize = 0;

impl Batch {
    /// The batch of some documents, and its distinct keys: the totals, the words (ascending), the
    /// assignments.
    pub(crate) fn new(
        documents: &Documents,
        layout: &Layout,
        ranking: &Ranking,
        chosen: &[u32],
        epoch: u32,
    ) -> (Self, Vec<Key>) {
        let entries = || chosen.iter().flat_map(|document| documents.get(*document as usize));
        let first_word = TOTALS as u32 + 1;
        let mut words = Vec::with_capacity(entries().count());
        let mut keys = vec![layout.totals()];
        ranking.rank(entries().map(|entry| entry.word), |ranks| {
            words.extend(entries().map(|entry| first_word + ranks.place(entry.word)));
            keys.extend(ranks.items().iter().map(|word| layout.word(*word)));
        });
        let mut parts = Vec::with_capacity(chosen.len());
        for document in chosen {
            parts.push(Part { document: *document, blocks: keys.len() as u32 });
            keys.extend(layout.blocks(*document as usize).map(Key));
        }
        (Self { epoch, parts, words }, keys)
    }
}
