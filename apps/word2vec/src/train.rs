//! One batch: its pairs are trained in place, one after the other.
//!
//! The output vectors of a pair, those of the context word and of the samples, are visited once: the row is
//! lent, scored and changed. The pairs of a word follow each other. They train a copy of the word's input
//! vector; after the last pair, the difference is added to the vector, accumulators included.
//!
//! The loops are compiled for several generations of processors; [`pulp`] chooses at run time.

use crate::batch::Batch;
use crate::model::{Shape, Stepper};
use intendant_core::{Element, Key};
use intendant_task::Rows;
use intendant_task::kernel::{QuickLosses, elementwise, product};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Buffers of a worker.
#[derive(Debug)]
pub struct Scratch<E> {
    arch: Arch,
    /// The value with the input vector that is being trained, and its content before.
    input: Vec<E>,
    before: Vec<E>,
    /// The sum of a pair's gradients with respect to the input vector.
    error: Vec<E>,
}

impl<E: Element> Scratch<E> {
    pub(crate) fn new(shape: Shape) -> Self {
        let value = vec![E::ZERO; shape.len()];
        Self { arch: Arch::new(), input: value.clone(), before: value, error: vec![E::ZERO; shape.dim] }
    }

    /// Trains a batch; returns the sum of its losses, in nats. `keys` are those of the rows. Stops after a
    /// pair whose loss is not finite.
    pub(crate) fn train(
        &mut self,
        stepper: Stepper<E>,
        (batch, negatives): (&Batch, usize),
        keys: &[Key],
        rows: &mut dyn Rows<E>,
    ) -> f64 {
        let arch = self.arch;
        arch.dispatch(Train { stepper, batch, negatives, keys, rows, scratch: self })
    }
}

/// The arguments of the loops.
struct Train<'a, E> {
    stepper: Stepper<E>,
    batch: &'a Batch,
    negatives: usize,
    keys: &'a [Key],
    rows: &'a mut dyn Rows<E>,
    scratch: &'a mut Scratch<E>,
}

impl<E: Element> Train<'_, E> {
    /// The positions of the samples of a pair.
    #[inline(always)]
    fn samples(&self, pair: usize) -> Range<usize> {
        let first = self.batch.samples + pair * self.negatives;
        first..first + self.negatives
    }

    /// Prefetches the rows of a pair, if there is one: the arithmetic of a pair takes as long as a memory
    /// access.
    #[inline(always)]
    fn prefetch(&self, pair: usize) {
        if let Some(output) = self.batch.outputs.get(pair) {
            self.rows.prefetch(*output as usize);
            self.samples(pair).for_each(|at| self.rows.prefetch(at));
        }
    }

    /// Trains a pair.
    #[inline(always)]
    fn pair<S: Simd>(&mut self, simd: S, pair: usize, losses: &mut QuickLosses) {
        let output = self.batch.outputs[pair] as usize;
        let word = self.keys[output];
        let samples = self.samples(pair);
        let Scratch { input, error, .. } = &mut *self.scratch;
        error.fill(E::ZERO);
        for (nth, at) in std::iter::once(output).chain(samples).enumerate() {
            let is_sample = nth > 0;
            if is_sample && self.keys[at] == word {
                // A sample that equals the context word is not a counterexample.
                continue;
            }
            // A sample whose key has moved away meanwhile is skipped.
            let row = if is_sample { self.rows.sample(at) } else { Some(self.rows.row(at)) };
            let Some(mut row) = row else { continue };
            let score = product(simd, &input[..error.len()], &row);
            self.stepper.output(simd, error, &mut row, input, losses.add(score, is_sample));
        }
        self.stepper.input(input, error);
    }
}

impl<E: Element> WithSimd for Train<'_, E> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> f64 {
        let (mut losses, mut pair) = (QuickLosses::new(), 0);
        self.prefetch(0);
        for (nth, centre) in self.batch.centres.iter().enumerate() {
            if let Some(next) = self.batch.centres.get(nth + 1) {
                self.rows.prefetch(next.input as usize);
            }
            let at = centre.input as usize;
            self.scratch.input.copy_from_slice(&self.rows.row(at));
            self.scratch.before.copy_from_slice(&self.scratch.input);
            while pair < centre.end as usize && losses.are_finite() {
                self.prefetch(pair + 1);
                self.pair(simd, pair, &mut losses);
                pair += 1;
            }
            // Other workers may have changed the vector meanwhile.
            let Scratch { input, before, .. } = &*self.scratch;
            elementwise([&mut *self.rows.row(at)], [input, before], |[now], [after, before]| {
                [now + (after - before)]
            });
        }
        losses.total()
    }
}
