//! The quality of word vectors: the loss on held-out text, analogies, similarities.
//!
//! All three are means. Workers can only add up sums, so each worker reports its share of the mean.
//!
//! [`Tests`] has the questions of the last two; `files` reads it.

mod analogies;
mod files;
mod held_out;
mod similarity;
mod vectors;

pub use analogies::{Analogies, Question, Section};
pub use files::{read_analogies, read_similarities};
pub use similarity::{Rated, Similarities};

pub(crate) use held_out::HeldOut;

use crate::model::Shape;
use analogies::Answers;
use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_task::{Evaluation, Partition, Reduction, Split};
use similarity::spearman;
use std::ops::Range;
use vectors::Vectors;

/// The tests besides the loss on held-out text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tests {
    /// Analogies.
    pub analogies: Option<Analogies>,
    /// Similarities of words.
    pub similarities: Option<Similarities>,
}

impl Tests {
    pub(crate) fn digest(&self) -> u64 {
        let analogies = self.analogies.as_ref().map_or(0, Analogies::digest);
        stream(analogies, &[self.similarities.as_ref().map_or(0, Similarities::digest)])
    }
}

/// One worker's share of the evaluation.
pub(crate) struct Quality<E> {
    shape: Shape,
    keys: Vec<Key>,
    held_out: Option<HeldOut>,
    analogies: Option<Answers<E>>,
    /// The first worker evaluates all of them.
    similarities: Option<Similarities>,
    sums: Reduction,
}

impl<E: Element> Quality<E> {
    pub(crate) fn new(
        held_out: Option<HeldOut>,
        tests: &Tests,
        shape: Shape,
        split: Split,
        partition: Partition,
    ) -> Self {
        let analogies = tests.analogies.as_ref().map(|all| Answers::new(all, shape, split, partition));
        let is_first = partition.worker == 0;
        let similarities = tests.similarities.clone().filter(|_| is_first);
        let mut keys = held_out.as_ref().map_or_else(Vec::new, HeldOut::keys);
        keys.extend(analogies.iter().flat_map(Answers::keys));
        keys.extend(similarities.iter().flat_map(Similarities::keys));
        keys.sort_unstable();
        keys.dedup();
        let mut sums = Reduction::default();
        if is_first {
            // The workers' shares add up to the means, so the denominator is 1.
            sums.add("quality.count", 1.0);
        }
        Self { shape, keys, held_out, analogies, similarities, sums }
    }
}

impl<E: Element> Evaluation<E> for Quality<E> {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        let vectors = Vectors { keys: &self.keys, values, shape: self.shape };
        if let Some(part) = self.held_out.as_ref().and_then(|held_out| held_out.part_of_mean_loss(vectors)) {
            self.sums.add("quality.heldout_loss", part);
        }
        if let Some(analogies) = &mut self.analogies {
            analogies.ask(vectors);
        }
        if let Some(similarities) = &self.similarities {
            let (known, skipped) = (similarities.rated.len() as f64, similarities.skipped as f64);
            self.sums.add("quality.similarity_pairs", known);
            self.sums.add("quality.similarity_skipped", skipped);
            if let Some(correlation) = spearman(similarities, vectors) {
                self.sums.add("quality.similarity", correlation);
            }
        }
    }

    fn range(&self) -> Range<u64> {
        self.analogies.as_ref().map_or(0..0, Answers::candidates)
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        if let Some(analogies) = &mut self.analogies {
            analogies.consider(keys, values);
        }
    }

    fn finish(self: Box<Self>) -> Reduction {
        let mut sums = self.sums;
        if let Some(analogies) = &self.analogies {
            analogies.add_to(&mut sums);
        }
        sums
    }
}
