//! How often keys are accessed in an epoch.
//!
//! A batch accesses the totals once, each of its words once, and each of its blocks of assignments once. The
//! documents of a batch differ from epoch to epoch; numbers of accesses of words are averages over all
//! orders. All tokens use the totals, so that they are by far the hottest key.

use crate::course::{batches, of_worker};
use crate::data::Documents;
use crate::layout::Layout;
use intendant_task::{Frequency, Partition, expected_batches};

/// Uses of a word.
#[derive(Clone, Copy, Default)]
struct Count {
    accesses: f64,
    uses: u64,
    /// The first node that accesses it.
    node: Option<u32>,
    shared: bool,
    /// Documents with it among those of the worker that is being counted.
    here: u64,
}

/// Frequencies of all keys that are accessed. Assignments are never shared; nor is a word whose documents are
/// all at one node.
pub(crate) fn frequencies(
    documents: &Documents,
    layout: &Layout,
    batch: u64,
    partition: Partition,
) -> Vec<Frequency> {
    let mut words = vec![Count::default(); layout.words()];
    let mut all_batches = 0;
    for partition in (Partition { worker: 0, ..partition }).all() {
        let own = of_worker(documents, partition);
        all_batches += batches(&own, batch);
        let entries = || own.clone().flat_map(|document| documents.get(document));
        for entry in entries() {
            let count = &mut words[entry.word as usize];
            count.here += 1;
            count.uses += u64::from(entry.count);
            count.shared |= *count.node.get_or_insert(partition.node()) != partition.node();
        }
        for entry in entries() {
            // The count of a word is taken at its first entry, and covers all of its entries.
            let count = &mut words[entry.word as usize];
            let here = std::mem::take(&mut count.here);
            if here > 0 {
                count.accesses += expected_batches(own.len() as u64, batch, here);
            }
        }
    }
    let of_words = (0..).zip(&words).filter(|(_, count)| count.uses > 0).map(|(word, count)| Frequency {
        key: layout.word(word),
        accesses: count.accesses,
        uses: count.uses,
        shared: count.shared,
    });
    let totals = Frequency {
        key: layout.totals(),
        accesses: all_batches as f64,
        uses: documents.tokens(),
        shared: partition.nodes > 1,
    };
    let assignments = (0..documents.len()).flat_map(|document| {
        let (blocks, tokens) = (layout.blocks(document), documents.tokens_of(document));
        (0..).zip(blocks).map(move |(index, key)| Frequency {
            key: intendant_core::Key(key),
            accesses: 1.0,
            uses: (tokens - index * crate::layout::BLOCK as u64).min(crate::layout::BLOCK as u64),
            shared: false,
        })
    });
    let totals = (all_batches > 0).then_some(totals);
    of_words.chain(totals).chain(assignments).collect()
}
