//! Proximal steps on blocks of features [OSDI'14, §5.1, Algorithm 3: delayed block proximal gradient].
//!
//! Features are dealt out to blocks. In an epoch, each worker takes one step per block. The order of blocks
//! is the same for all workers and in all epochs, so that messages repeat the same lists of keys. A worker
//! pulls the weights of the block, computes from them the gradient of the loss of *all of its rows*, and
//! pushes it, with a bound of the curvature. A weight takes a step when the pushes for all rows that have its
//! feature have arrived at its owner ([`Coordinate`]). So a step is one of gradient descent on all rows,
//! whatever the number of workers.
//!
//! A worker keeps the scores of its rows, and corrects them by the changes that it finds when it pulls a
//! block. The first batch of an epoch pulls all weights, computes the scores from them, and measures the
//! loss. The batch of a block also pulls an earlier block, whose step has been taken.
//!
//! A clock is a batch, and therefore a block. With `ssp` and staleness τ, a worker waits until all workers
//! are at most τ blocks behind it. The earlier block is the one τ + 1 steps before: the last one whose step
//! the worker certainly sees. A staleness of 0 is block coordinate descent. Techniques without clocks do not
//! bound the delay.
//!
//! **KKT filter** [OSDI'14, §5.1]. A weight that is zero stays zero as long as the gradient of the loss is
//! not larger than the L1 penalty. Workers push nothing for features whose weight is zero and whose last
//! gradient is smaller than the penalty by a margin. The owner keeps this gradient, over all rows, with the
//! weight. Workers that have seen the same step leave out the same features. This holds for all workers if
//! they are not further apart than the number of blocks of an epoch. If one worker pushes and another one
//! leaves the feature out, the push waits at the owner for the next pushes, and the step is that of their
//! average. Every tenth epoch leaves none out.

mod columns;
mod coordinate;

pub(crate) use coordinate::{Coordinate, VISIBLE, weight};

use crate::data::Dataset;
use crate::model::{log_loss, slope};
use columns::{Block, Columns};
use intendant_core::random::{mix, stream};
use intendant_core::{Element, Key, lock};
use intendant_task::{BatchAt, Cost, EpochOrder, Frequency, Partition, Prepared, Pulled, StepReport, Update};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// With a KKT filter, one of this many epochs leaves no feature out.
const FULL_EPOCH_EVERY: u32 = 10;

/// The blocks of all features, and what each worker of this process needs of the data.
#[derive(Debug)]
pub(crate) struct Blocks {
    data: Arc<Dataset>,
    intercept: bool,
    seed: u64,
    blocks: u32,
    /// By how many steps other workers may be behind.
    delay: u32,
    /// The gradient below which the KKT filter leaves a feature out, if there is a filter: the L1 penalty
    /// minus the margin.
    inactive_below: Option<f64>,
    /// By worker and number of workers.
    columns: Mutex<BTreeMap<(u32, u32), Arc<Columns>>>,
}

/// A batch of a worker.
#[derive(Clone, Debug)]
pub struct BlockBatch {
    columns: Arc<Columns>,
    /// The block, and the earlier one; `None` stands for all blocks, to compute the scores.
    block: Option<(usize, Option<usize>)>,
    /// Whether the KKT filter is on.
    filters: bool,
    worker: (u32, u32),
}

/// State that a worker keeps from batch to batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scores {
    /// The worker whose scores these are.
    worker: Option<(u32, u32)>,
    /// The scores of its rows.
    scores: Vec<f64>,
    /// For each feature, the weight that the scores contain.
    weights: Vec<f64>,
    /// For each row, the derivative of the loss with respect to the score, if it was computed in step
    /// `steps`.
    slopes: Vec<(u64, f64)>,
    steps: u64,
}

impl Blocks {
    /// The features of `data`, in `blocks` blocks; the intercept has a block of its own. Other workers may be
    /// `delay` steps behind. With a margin from 0 to 1, gradients that are smaller than `l1` by this fraction
    /// of it are left out.
    pub(crate) fn new(
        data: Arc<Dataset>,
        (intercept, seed): (bool, u64),
        (blocks, delay): (u32, u32),
        (l1, margin): (f64, Option<f64>),
    ) -> Self {
        let inactive_below = margin.map(|margin| (1.0 - margin) * l1);
        Self { data, intercept, seed, blocks, delay, inactive_below, columns: Mutex::default() }
    }

    /// Number of batches of a worker in an epoch: one for the scores, one for each block.
    pub(crate) fn batches(&self) -> u64 {
        1 + u64::from(self.blocks) + u64::from(self.intercept)
    }

    fn rows(&self, partition: Partition) -> Range<usize> {
        let rows = intendant_task::equal_share(
            self.data.train().len() as u64,
            partition.worker.into(),
            partition.workers.into(),
        );
        rows.start as usize..rows.end as usize
    }

    fn columns(&self, partition: Partition) -> Arc<Columns> {
        let mut all = lock(&self.columns);
        let columns = all.entry((partition.worker, partition.workers)).or_insert_with(|| {
            let rows = self.rows(partition);
            Arc::new(Columns::new(&self.data, rows, self.blocks, self.intercept))
        });
        Arc::clone(columns)
    }

    pub(crate) fn prepare(&self, at: BatchAt) -> Prepared<BlockBatch> {
        let (epoch, partition) = (at.subepoch.epoch, at.partition);
        let columns = self.columns(partition);
        let block = at.index.checked_sub(1).map(|step| {
            let order = EpochOrder::new(stream(self.seed, &[ORDER]), 0, self.batches() - 1, 1);
            let at = |step| order.batch(step).next().expect("one block per batch") as usize;
            (at(step), step.checked_sub(u64::from(self.delay) + 1).map(at))
        });
        let (keys, digest): (Vec<Key>, u64) = match block {
            Some((block, earlier)) => {
                let blocks = [Some(block), earlier].into_iter().flatten();
                (blocks.flat_map(|block| columns.blocks[block].keys.iter().copied()).collect(), 0)
            }
            None => {
                let seed = mix(epoch.into());
                let hash = |row: usize| mix(self.data.hash(row) ^ mix(row as u64 ^ seed));
                let digest = self.rows(partition).map(hash).fold(0u64, u64::wrapping_add);
                (columns.keys().collect(), digest)
            }
        };
        let filters = self.inactive_below.is_some() && !epoch.is_multiple_of(FULL_EPOCH_EVERY);
        let worker = (partition.worker, partition.workers);
        let batch = BlockBatch { columns, block, filters, worker };
        let near = keys.clone();
        Prepared { batch, keys, near, samples: Vec::new(), handles: Vec::new(), digest }
    }

    /// In an epoch, each worker pulls a key of its rows three times.
    pub(crate) fn frequencies(&self, partition: Partition) -> Vec<Frequency> {
        let workers = f64::from(partition.workers);
        let frequency = |(key, uses): (u64, u64)| Frequency {
            key: Key(key),
            accesses: 3.0 * workers.min(uses as f64),
            uses,
            shared: partition.nodes > 1 && uses > 1,
        };
        let features = (0..).zip(self.data.uses().iter().map(|uses| u64::from(*uses)));
        let rows = self.data.train().len() as u64;
        let intercept = self.intercept.then_some((u64::from(self.data.features()), rows));
        features.chain(intercept).filter(|(_, uses)| *uses > 0).map(frequency).collect()
    }

    pub(crate) fn compute<E: Element>(
        &self,
        scores: &mut Scores,
        batch: &BlockBatch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        let columns = &*batch.columns;
        match batch.block {
            None => scores.begin(columns, batch.worker, pulled.values),
            // Epochs are not divided. Without the first batch of its epoch, a block has no scores from which
            // to learn.
            Some(_) if scores.worker != Some(batch.worker) => StepReport::default(),
            Some((block, earlier)) => {
                let inactive_below = self.inactive_below.filter(|_| batch.filters);
                let block = &columns.blocks[block];
                let (values, earlier_values) = pulled.values.split_at(block.keys.len() * VISIBLE);
                let operands = &mut update.values[..block.keys.len() * coordinate::OPERAND];
                let corrected = earlier.map_or(0, |earlier| {
                    scores.correct(&columns.blocks[earlier], earlier_values.chunks_exact(VISIBLE))
                });
                let report = scores.step(columns, block, (values, operands), inactive_below);
                StepReport { cost: Cost(report.cost.0 + corrected), ..report }
            }
        }
    }
}

impl Scores {
    /// Computes the scores of all rows, and their loss.
    fn begin<E: Element>(&mut self, columns: &Columns, worker: (u32, u32), values: &[E]) -> StepReport {
        let rows = columns.labels.len();
        self.worker = Some(worker);
        self.scores.clear();
        self.scores.resize(rows, 0.0);
        self.slopes.clear();
        self.slopes.resize(rows, (0, 0.0));
        self.steps = 0;
        self.weights.clear();
        self.weights.resize(columns.keys_end, 0.0);
        let mut entries = 0;
        let mut values = values.chunks_exact(VISIBLE);
        for block in &columns.blocks {
            entries += self.correct(block, values.by_ref());
        }
        let labelled = self.scores.iter().zip(&columns.labels);
        let loss = labelled.map(|(score, label)| log_loss(*score, *label)).sum();
        StepReport { loss, examples: rows as u64, cost: Cost(entries + COST_OF_LOSS * rows as u64) }
    }

    /// Corrects the scores by the changes in the weights of a block. Returns the multiply-adds.
    fn correct<'a, E: Element>(&mut self, block: &Block, values: impl Iterator<Item = &'a [E]>) -> u64 {
        let mut entries = 0;
        for ((key, column), value) in block.columns().zip(values) {
            let known = &mut self.weights[key.index()];
            let now = weight(value);
            let change = now - std::mem::replace(known, now);
            if change != 0.0 {
                column.entries().for_each(|(row, value)| self.scores[row] += change * value);
                entries += column.rows.len() as u64;
            }
        }
        entries
    }

    /// Computes the operands of a block.
    fn step<E: Element>(
        &mut self,
        columns: &Columns,
        block: &Block,
        (values, operands): (&[E], &mut [E]),
        inactive_below: Option<f64>,
    ) -> StepReport {
        let mut cost = self.correct(block, values.chunks_exact(VISIBLE));
        self.steps += 1;
        let parts = values.chunks_exact(VISIBLE).zip(operands.chunks_exact_mut(coordinate::OPERAND));
        for ((key, column), (value, operand)) in block.columns().zip(parts) {
            let penalised = key != columns.intercept;
            if penalised && inactive_below.is_some_and(|least| coordinate::is_inactive(value, least)) {
                continue;
            }
            let mut gradient = 0.0;
            for (row, value) in column.entries() {
                let (step, slope_of_row) = &mut self.slopes[row];
                if *step != self.steps {
                    (*step, *slope_of_row) = (self.steps, slope(self.scores[row], columns.labels[row]));
                    cost += COST_OF_LOSS;
                }
                gradient += *slope_of_row * value;
            }
            cost += column.rows.len() as u64;
            for (part, number) in
                operand.iter_mut().zip([gradient, column.curvature, column.rows.len() as f64])
            {
                *part = E::from_f64(number);
            }
        }
        StepReport { loss: 0.0, examples: 0, cost: Cost(cost) }
    }
}

/// Name of a use of the seed.
const ORDER: u64 = 2;

/// Multiply-adds of an exponential.
const COST_OF_LOSS: u64 = 10;

#[cfg(test)]
mod tests;
