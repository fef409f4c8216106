//! One batch: its pairs are trained one after the other on copies of the values that were pulled.
//!
//! A key has one copy, even if it occurs several times, as an output vector of the text and as samples. So
//! each pair sees the changes of the pairs before it, and the worker pushes the differences of the copies.
//! Most samples occur once in a batch; their update is written without a copy.
//!
//! The loops are compiled for several generations of processors; [`pulp`] chooses at run time.

use crate::batch::Batch;
use crate::model::Stepper;
use intendant_core::{Element, Key};
use intendant_task::kernel::{Losses, dot, subtract};
use intendant_task::{Pulled, Update};
use pulp::{Arch, Simd, WithSimd};

/// Buffers of a worker.
#[derive(Debug)]
pub struct Scratch<E> {
    arch: Arch,
    samples: Samples,
    error: Vec<E>,
}

impl<E: Element> Scratch<E> {
    pub(crate) fn new() -> Self {
        Self { arch: Arch::new(), samples: Samples::default(), error: Vec::new() }
    }

    /// Trains a batch; returns the sum of its losses, in nats. `first_output` is the key of the first output
    /// vector.
    pub(crate) fn train(
        &mut self,
        stepper: Stepper<E>,
        (dim, len): (usize, usize),
        (batch, negatives): (&Batch, usize),
        first_output: u64,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> f64 {
        self.samples.place(&pulled.keys[batch.inputs..], pulled.sample_keys, first_output);
        self.error.resize(dim, E::ZERO);
        let Self { arch, samples, error } = self;
        arch.dispatch(Train { stepper, dim, len, batch, negatives, samples, error, pulled, update })
    }
}

/// The places of the copies of sampled keys.
#[derive(Debug, Default)]
struct Samples {
    /// For each sample the position of its copy: among the batch's output keys, or behind them among the
    /// samples.
    rows: Vec<u32>,
    /// For each sample whether other samples use its copy.
    shared: Vec<bool>,
    /// A hash table from words to positions.
    table: Vec<(u32, u32)>,
}

/// No word: there are fewer.
const EMPTY: u32 = u32::MAX;

impl Samples {
    fn place(&mut self, outputs: &[Key], samples: &[Key], first_output: u64) {
        let size = (2 * (outputs.len() + samples.len())).next_power_of_two().max(2);
        self.table.clear();
        self.table.resize(size, (EMPTY, 0));
        self.rows.clear();
        self.shared.clear();
        self.shared.resize(samples.len(), false);
        let shift = u32::BITS - size.trailing_zeros();
        let table = &mut self.table[..size];
        // Words are numbered with 32 bits, and keys of output vectors follow those numbers.
        let word = |key: &Key| (key.0 - first_output) as u32;
        let mut find = |word: u32, row: u32| {
            let mut at = (word.wrapping_mul(0x9e37_79b9) >> shift) as usize;
            loop {
                let entry = &mut table[at & (size - 1)];
                if entry.0 == word {
                    return entry.1;
                }
                if entry.0 == EMPTY {
                    *entry = (word, row);
                    return row;
                }
                at += 1;
            }
        };
        for (row, key) in (0..).zip(outputs) {
            find(word(key), row);
        }
        let direct = outputs.len() as u32;
        for (own, key) in (direct..).zip(samples) {
            let row = find(word(key), own);
            if row != own && row >= direct {
                self.shared[(row - direct) as usize] = true;
            }
            self.rows.push(row);
        }
    }
}

/// The arguments of the loops.
struct Train<'a, 'b, E> {
    stepper: Stepper<E>,
    dim: usize,
    /// Elements of a value.
    len: usize,
    batch: &'a Batch,
    negatives: usize,
    samples: &'a Samples,
    error: &'a mut [E],
    pulled: Pulled<'a, E>,
    update: &'a mut Update<'b, E>,
}

impl<E: Element> WithSimd for Train<'_, '_, E> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f64 {
        let Self { stepper, dim, len, batch, negatives, samples, error, pulled, update } = self;
        let row = |at: usize| at * len..(at + 1) * len;
        // The update serves as the copy that is trained.
        update.values.copy_from_slice(pulled.values);
        for (at, _) in samples.shared.iter().enumerate().filter(|(_, shared)| **shared) {
            update.sample_values[row(at)].copy_from_slice(&pulled.sample_values[row(at)]);
        }
        let (inputs, outputs) = update.values.split_at_mut(batch.inputs * len);
        let direct = (outputs.len() / len) as u32;
        let mut losses = Losses::new();
        let mut negative_rows = samples.rows.chunks_exact(negatives);
        for centre in &batch.centres {
            let input = &mut inputs[row(centre.input as usize)];
            for at in centre.context() {
                error.fill(E::ZERO);
                let positive = batch.outputs[at];
                let output = &mut outputs[row(positive as usize)];
                let slope = losses.add(dot(&input[..dim], &output[..dim]), false);
                stepper.output(error, output, &input[..dim], slope);
                // There are as many samples as pairs need.
                for &place in negative_rows.next().unwrap_or_default() {
                    if place == positive {
                        // The word of the context itself is no counterexample.
                    } else if place < direct {
                        let output = &mut outputs[row(place as usize)];
                        let slope = losses.add(dot(&input[..dim], &output[..dim]), true);
                        stepper.output(error, output, &input[..dim], slope);
                    } else {
                        let sample = (place - direct) as usize;
                        let copy = &mut update.sample_values[row(sample)];
                        if samples.shared[sample] {
                            let slope = losses.add(dot(&input[..dim], &copy[..dim]), true);
                            stepper.output(error, copy, &input[..dim], slope);
                        } else {
                            let output = &pulled.sample_values[row(sample)];
                            let slope = losses.add(dot(&input[..dim], &output[..dim]), true);
                            stepper.output_once(error, output, copy, &input[..dim], slope);
                        }
                    }
                }
                stepper.input(input, error);
            }
        }
        subtract(update.values, pulled.values);
        for (at, _) in samples.shared.iter().enumerate().filter(|(_, shared)| **shared) {
            subtract(&mut update.sample_values[row(at)], &pulled.sample_values[row(at)]);
        }
        losses.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_copy() {
        let mut samples = Samples::default();
        let keys = |words: &[u64]| words.iter().map(|word| Key(100 + word)).collect::<Vec<_>>();
        samples.place(&keys(&[2, 5]), &keys(&[7, 5, 9, 7, 2, 7]), 100);
        assert_eq!(samples.rows, [2, 1, 4, 2, 0, 2]);
        assert_eq!(samples.shared, [true, false, false, false, false, false]);
        samples.place(&[], &keys(&[7]), 100);
        assert_eq!((&samples.rows[..], &samples.shared[..]), (&[0][..], &[false][..]));
        samples.place(&[], &[], 100);
        assert!(samples.rows.is_empty());
        let many: Vec<u64> = (0..3000).map(|i| i * i % 1009 * 64).collect();
        samples.place(&keys(&[]), &keys(&many), 100);
        for (at, row) in samples.rows.iter().enumerate() {
            let first = many.iter().position(|word| *word == many[at]).unwrap();
            assert_eq!(*row as usize, first);
        }
    }
}
