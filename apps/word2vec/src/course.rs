//! The order in which blocks are trained, and each worker's share of them.
//!
//! Each epoch has a random order of the blocks, the same for any number of workers. Each block is divided
//! into batches, which are numbered through the epoch. Every worker trains an equal share of consecutive
//! numbers. So the batches do not depend on the number of workers, and the numbers of batches of two workers
//! differ by one at most.

use intendant_core::random::{Permutation, stream};
use intendant_task::{Partition, equal_share};
use std::ops::Range;

/// The batches of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Blocks in the order of training, each with the number of the first batch after it.
    blocks: Vec<(u32, u64)>,
}

/// A batch: a part of the words of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The block.
    pub(crate) block: u32,
    /// Index of the part.
    pub(crate) part: u64,
    /// How many parts it has.
    pub(crate) parts: u64,
}

impl Part {
    /// The words of the block that belong to this part, if the block has `words` words.
    pub(crate) fn words(&self, words: u64) -> Range<u64> {
        equal_share(words, self.part, self.parts)
    }
}

/// Number of batches of a block.
pub(crate) const fn parts(words: u64, batch_words: u64) -> u64 {
    words.div_ceil(batch_words)
}

/// The numbers of the batches of a worker, if an epoch has `batches` batches.
pub(crate) fn of_worker(batches: u64, partition: Partition) -> Range<u64> {
    equal_share(batches, partition.worker.into(), partition.workers.into())
}

impl Course {
    /// The order of `blocks` in an epoch. `parts` returns the number of batches of a block.
    pub(crate) fn new(seed: u64, epoch: u32, blocks: &[u32], parts: impl Fn(u32) -> u64) -> Self {
        let order = Permutation::new(blocks.len() as u64, stream(seed, &[epoch.into()]));
        let mut end = 0;
        let blocks = (0..blocks.len() as u64).map(|at| {
            let block = blocks[order.apply(at) as usize];
            end += parts(block);
            (block, end)
        });
        Self { blocks: blocks.collect() }
    }

    /// The batch with this number.
    pub(crate) fn batch(&self, number: u64) -> Part {
        let at = self.blocks.partition_point(|(_, end)| *end <= number);
        let start = at.checked_sub(1).map_or(0, |before| self.blocks[before].1);
        let (block, end) = self.blocks[at];
        Part { block, part: number - start, parts: end - start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_word_is_trained_once_by_one_worker(
            words in proptest::collection::vec(1u64..500, 1..40),
            batch_words in 1u64..200,
            workers in 1u32..9,
        ) {
            // Only even blocks are trained.
            let blocks: Vec<u32> = (0..words.len() as u32).step_by(2).collect();
            let of = |block: u32| parts(words[block as usize], batch_words);
            let course = Course::new(3, 1, &blocks, of);
            let batches: u64 = blocks.iter().map(|block| of(*block)).sum();
            let (mut seen, mut shares) = (BTreeSet::new(), Vec::new());
            for partition in (Partition { workers, ..Partition::alone() }).all() {
                let share = of_worker(batches, partition);
                shares.push(share.end - share.start);
                for number in share {
                    let part = course.batch(number);
                    let within = part.words(words[part.block as usize]);
                    prop_assert!((1..=batch_words).contains(&(within.end - within.start)));
                    for word in within {
                        prop_assert!(seen.insert((part.block, word)));
                    }
                }
            }
            let expected = blocks.iter().map(|block| words[*block as usize]).sum::<u64>();
            prop_assert_eq!(seen.len() as u64, expected);
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn epochs_have_different_orders() {
        let blocks: Vec<u32> = (0..100).collect();
        let order = |epoch| {
            let course = Course::new(3, epoch, &blocks, |_| 2);
            (0..200).map(|number| course.batch(number).block).collect::<Vec<u32>>()
        };
        assert_ne!(order(0), order(1));
        assert_eq!(order(0), order(0));
        assert_ne!(order(0)[..20], (0..10).flat_map(|block| [block, block]).collect::<Vec<u32>>());
    }
}
