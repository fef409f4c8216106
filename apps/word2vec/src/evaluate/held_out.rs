//! The loss on held-out text: the same pairs and the same samples in each evaluation, on any number of
//! workers.

use super::vectors::Vectors;
use crate::draw::Drawn;
use intendant_core::{Element, Key};
use intendant_sampling::Distribution;
use intendant_task::kernel::{Losses, dot};
use pulp::{Arch, Simd, WithSimd};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// One worker's held-out blocks.
pub(crate) struct HeldOut {
    /// The draws of each block, and the stream of random numbers of its samples.
    blocks: Vec<(Drawn, u64)>,
    samples: Distribution,
    negatives: usize,
    first_output: u64,
    /// Number of pairs of all workers together.
    pairs_total: u64,
}

impl HeldOut {
    pub(crate) fn new(
        blocks: Vec<(Drawn, u64)>,
        (samples, negatives): (Distribution, usize),
        first_output: u64,
        pairs_total: u64,
    ) -> Self {
        Self { blocks, samples, negatives, first_output, pairs_total }
    }

    /// Calls `pair` with the keys of each pair and its samples.
    #[inline(always)]
    fn each(&self, mut pair: impl FnMut(Key, Key, &[Key])) {
        let mut negatives = Vec::with_capacity(self.negatives);
        for (drawn, stream) in &self.blocks {
            let mut rng = Pcg64Mcg::seed_from_u64(*stream);
            for (place, kept) in drawn.kept().iter().enumerate() {
                for at in kept.context().filter(|at| *at != place) {
                    negatives.clear();
                    negatives.extend((0..self.negatives).map(|_| self.samples.draw(&mut rng)));
                    let output = self.first_output + u64::from(drawn.kept()[at].word);
                    pair(Key(kept.word.into()), Key(output), &negatives);
                }
            }
        }
    }

    /// The keys that are needed.
    pub(crate) fn keys(&self) -> Vec<Key> {
        // Each output key occurs as often as it is used in a block, so that lists of pairs would be far
        // longer than lists of keys.
        let mut is_used = vec![false; 2 * self.first_output as usize];
        self.each(|input, output, samples| {
            is_used[input.index()] = true;
            is_used[output.index()] = true;
            samples.iter().for_each(|key| is_used[key.index()] = true);
        });
        (0..).map(Key).zip(is_used).filter(|(_, is_used)| *is_used).map(|(key, _)| key).collect()
    }

    /// The sum of this worker's losses, divided by the number of pairs of all workers; `None` if there are
    /// none.
    pub(crate) fn part_of_mean_loss<E: Element>(&self, vectors: Vectors<'_, E>) -> Option<f64> {
        if self.pairs_total == 0 {
            return None;
        }
        let mut places = vec![0u32; 2 * self.first_output as usize];
        (0..).zip(vectors.keys).for_each(|(place, key)| places[key.index()] = place);
        let loss = Arch::new().dispatch(Loss { held_out: self, vectors, places: &places });
        Some(loss / self.pairs_total as f64)
    }
}

struct Loss<'a, E> {
    held_out: &'a HeldOut,
    vectors: Vectors<'a, E>,
    places: &'a [u32],
}

impl<E: Element> WithSimd for Loss<'_, E> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f64 {
        let vector = |key: Key| self.vectors.at(self.places[key.index()] as usize);
        let mut losses = Losses::new();
        self.held_out.each(|input, output, samples| {
            let input = vector(input);
            losses.add(dot(input, vector(output)), false);
            for sample in samples.iter().filter(|sample| **sample != output) {
                losses.add(dot(input, vector(*sample)), true);
            }
        });
        losses.total()
    }
}
