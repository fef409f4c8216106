//! Which worker trains which documents, and in which order.
//!
//! In every epoch, every worker trains the same consecutive documents, which have about as many tokens as
//! those of the other workers. So only one worker uses the assignments of a document. Each epoch has a random
//! order of a worker's documents.

use crate::data::Documents;
use intendant_core::random::{Permutation, stream};
use intendant_task::Partition;
use std::ops::Range;

/// The documents of a worker.
pub(crate) fn of_worker(documents: &Documents, partition: Partition) -> Range<usize> {
    let workers = u128::from(partition.workers);
    // A document belongs to the worker whose share of the tokens contains the document's middle.
    let start = |worker: u32| {
        let limit = 2 * u128::from(documents.tokens()) * u128::from(worker);
        let middle = |document: usize| {
            u128::from(documents.tokens_before(document)) + u128::from(documents.tokens_before(document + 1))
        };
        first(documents.len(), |document| middle(document) * workers >= limit)
    };
    let end =
        if partition.worker + 1 == partition.workers { documents.len() } else { start(partition.worker + 1) };
    let start = if partition.worker == 0 { 0 } else { start(partition.worker) };
    start..end
}

/// The first of `0..len` for which `is_behind` is true; it is then also true for all later ones.
fn first(len: usize, is_behind: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_behind(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Number of batches of these documents.
pub(crate) const fn batches(documents: &Range<usize>, batch: u64) -> u64 {
    ((documents.end - documents.start) as u64).div_ceil(batch)
}

/// The documents of a worker's batch in an epoch.
pub(crate) fn documents(
    own: &Range<usize>,
    batch: u64,
    (seed, epoch): (u64, u32),
    index: u64,
) -> impl Iterator<Item = u32> + use<> {
    let (first, len) = (own.start as u64, (own.end - own.start) as u64);
    let order = Permutation::new(len, stream(seed, &[epoch.into(), first]));
    let places = (index * batch).min(len)..((index + 1) * batch).min(len);
    places.map(move |place| (first + order.apply(place)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Entry;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_document_is_trained_once_by_one_worker(
            tokens in proptest::collection::vec(0u32..200, 0..60),
            batch in 1u64..9,
            workers in 1u32..9,
            epoch in 0u32..3,
        ) {
            let mut all = Documents::default();
            tokens.iter().for_each(|tokens| all.push(1, vec![Entry { word: 0, count: *tokens }]));
            let (mut seen, mut next) = (vec![0; tokens.len()], 0);
            let largest = u64::from(tokens.iter().copied().max().unwrap_or(0));
            for partition in (Partition { workers, ..Partition::alone() }).all() {
                let own = of_worker(&all, partition);
                prop_assert_eq!(own.start, next);
                next = own.end;
                let share: u64 = own.clone().map(|document| all.tokens_of(document)).sum();
                let fair = all.tokens() / u64::from(workers);
                prop_assert!(share <= fair + largest + 1, "{} of {}", share, all.tokens());
                for index in 0..batches(&own, batch) {
                    let chosen: Vec<u32> = documents(&own, batch, (7, epoch), index).collect();
                    prop_assert!((1..=batch as usize).contains(&chosen.len()));
                    chosen.iter().for_each(|document| seen[*document as usize] += 1);
                    prop_assert!(chosen.iter().all(|document| own.contains(&(*document as usize))));
                }
            }
            prop_assert_eq!(next, tokens.len());
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }

    #[test]
    fn epochs_have_different_orders() {
        let order =
            |epoch| (0..10).flat_map(|i| documents(&(5..105), 10, (1, epoch), i)).collect::<Vec<u32>>();
        assert_ne!(order(0), order(1));
        assert_eq!(order(0), order(0));
    }
}
