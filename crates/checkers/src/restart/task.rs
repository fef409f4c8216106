//! The task of the runs that crash: its values tell what was trained.
//!
//! | range | value of a key |
//! | --- | --- |
//! | `mark` | of an example: per epoch, how often it was trained |
//! | `hot` | of a third of all batches: how many were trained, and the sum of their rates |
//! | `noise` | how often the key was drawn as a sample |
//! | `state` | a number that depends on the order of all batches that used it |
//!
//! All but `state` are whole numbers, so that they are exact in any order of additions.

use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_sampling::{Conformity, Distribution, DistributionId, Sampler};
use intendant_task::{
    BatchAt, EpochOrder, Evaluation, Model, ModelRange, Partition, Prepared, Pulled, Reduction, Rest, Rows,
    SampleRequest, Split, StepReport, Subepoch, Task, Update,
};
use std::sync::Arc;

pub(crate) const HOT: u64 = 3;
pub(crate) const NOISE: u64 = 16;
pub(crate) const STATE: u64 = 4;
/// Elements of each value of `hot`, `noise` and `state`.
pub(crate) const HOT_LEN: usize = 2;
const SAMPLES: usize = 2;

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) examples: u64,
    pub(crate) batch: u64,
    pub(crate) epochs: u32,
    /// Epochs have subepochs: as many as there are workers.
    pub(crate) blocked: bool,
    pub(crate) in_place: bool,
}

impl Shape {
    fn order(&self, epoch: u32) -> EpochOrder {
        EpochOrder::new(self.seed, epoch, self.examples, self.batch)
    }

    pub(crate) fn batches(&self) -> u64 {
        self.order(0).batches()
    }

    /// The examples of a batch of all.
    pub(crate) fn examples_of(&self, epoch: u32, batch: u64) -> Vec<u64> {
        self.order(epoch).batch(batch).collect()
    }

    fn word(&self, epoch: u32, example: u64) -> u64 {
        stream(self.seed, &[u64::from(epoch), example])
    }

    pub(crate) fn digest(&self, epoch: u32, examples: impl Iterator<Item = u64>) -> u64 {
        examples.fold(0, |sum, example| sum.wrapping_add(self.word(epoch, example)))
    }

    fn subepochs(&self, partition: Partition) -> u32 {
        if self.blocked { partition.workers } else { 1 }
    }

    fn batches_in(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        let share = partition.share(self.batches());
        let subepochs = u64::from(self.subepochs(partition));
        share.saturating_sub(subepoch.index.into()).div_ceil(subepochs)
    }

    /// Which of all batches a worker's batch is.
    fn global(&self, subepoch: Subepoch, partition: Partition, index: u64) -> u64 {
        partition.nth(u64::from(subepoch.index) + index * u64::from(self.subepochs(partition)))
    }

    /// The batches that are left of an epoch, by their numbers among all of them, as a reader of the names of
    /// batches lists them.
    pub(crate) fn left(&self, rest: &Rest) -> Vec<u64> {
        let of = |worker| Partition { worker, workers: rest.workers, nodes: rest.nodes, threads: 1 };
        let mut left = Vec::new();
        for stretch in &rest.stretches {
            let names = stretch.first..stretch.end;
            left.extend(names.map(|index| self.global(rest.subepoch, of(stretch.worker), index)));
        }
        for index in rest.subepoch.index + 1..self.subepochs(of(0)) {
            let subepoch = Subepoch { index, ..rest.subepoch };
            for partition in of(0).all() {
                let batches = 0..self.batches_in(subepoch, partition);
                left.extend(batches.map(|index| self.global(subepoch, partition, index)));
            }
        }
        left.sort_unstable();
        left
    }

    /// The rate of each epoch: it adapts to the sums of all earlier ones.
    pub(crate) fn rates(&self) -> Vec<u64> {
        let digests = (0..self.epochs).map(|epoch| self.digest(epoch, 0..self.examples));
        let rates = digests.scan(1, |rate, digest| {
            let now = *rate;
            *rate = adapted(*rate, digest);
            Some(now)
        });
        rates.collect()
    }
}

fn adapted(rate: u64, digest: u64) -> u64 {
    (3 * rate + digest % 7) % 32 + 1
}

pub(crate) struct Marks<E> {
    pub(crate) shape: Shape,
    model: Model<E>,
    noise: DistributionId,
}

/// A batch.
pub(crate) struct Batch {
    epoch: u32,
    number: u64,
    examples: usize,
}

impl<E: Element> Marks<E> {
    pub(crate) fn new(shape: Shape) -> Self {
        let first = shape.examples + HOT;
        let mut sampler = Sampler::builder();
        let noise = Distribution::uniform(first..first + NOISE).expect("there are keys");
        let noise = sampler.register(noise, Conformity::Conform);
        let ranges = vec![
            ModelRange::new("mark", shape.examples, shape.epochs as usize),
            ModelRange::new("hot", HOT, HOT_LEN),
            ModelRange::new("noise", NOISE, 1),
            ModelRange::new("state", STATE, 1),
        ];
        let init = Arc::new(|_: Key, value: &mut [E]| value.fill(E::ZERO));
        Self { shape, model: Model { ranges, init, sampler: sampler.build() }, noise }
    }

    /// What a batch adds to the value at `position` of its direct keys.
    fn change(&self, batch: &Batch, rate: u64, position: usize, value: &[E], update: &mut [E], drawn: f64) {
        if position < batch.examples {
            update[batch.epoch as usize] = E::ONE;
        } else if position == batch.examples {
            (update[0], update[1]) = (E::ONE, E::from_f64(rate as f64));
        } else {
            // Bounded, however outdated the value is.
            let x = value[0].to_f64() + drawn + batch.number as f64 + rate as f64;
            update[0] = E::from_f64(x.sin() / 64.0);
        }
    }
}

impl<E: Element> Task for Marks<E> {
    type Element = E;
    type Batch = Batch;
    /// The rate.
    type Scratch = u64;

    fn name(&self) -> &'static str {
        "marks"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn subepochs(&self, _epoch: u32, partition: Partition) -> u32 {
        self.shape.subepochs(partition)
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        self.shape.batches_in(subepoch, partition)
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let (shape, epoch) = (&self.shape, at.subepoch.epoch);
        let number = shape.global(at.subepoch, at.partition, at.index);
        let examples = shape.examples_of(epoch, number);
        let hot = Key(shape.examples + number % HOT);
        let state = Key(shape.examples + HOT + NOISE + number % STATE);
        let keys: Vec<Key> = examples.iter().copied().map(Key).chain([hot, state]).collect();
        let stream = shape.word(epoch, examples[0]);
        Prepared {
            batch: Batch { epoch, number, examples: examples.len() },
            near: keys.clone(),
            keys,
            samples: vec![SampleRequest { distribution: self.noise, samples: SAMPLES, stream }],
            handles: Vec::new(),
            digest: shape.digest(epoch, examples.iter().copied()),
        }
    }

    fn scratch(&self) -> u64 {
        1
    }

    fn trains_in_place(&self) -> bool {
        self.shape.in_place
    }

    fn compute(
        &self,
        rate: &mut u64,
        batch: &Batch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        let drawn: f64 = pulled.sample_values.iter().map(|value| value.to_f64()).sum();
        let (mut values, mut updates) = (pulled.values, &mut *update.values);
        for (position, key) in pulled.keys.iter().enumerate() {
            let len = self.model.len(*key);
            let (value, values_after) = values.split_at(len);
            let (change, updates_after) = updates.split_at_mut(len);
            self.change(batch, *rate, position, value, change, drawn);
            (values, updates) = (values_after, updates_after);
        }
        update.sample_values.fill(E::ONE);
        StepReport { examples: batch.examples as u64, ..StepReport::default() }
    }

    fn train(&self, rate: &mut u64, batch: &Batch, keys: &[Key], rows: &mut dyn Rows<E>) -> StepReport {
        let direct = batch.examples + 2;
        let mut drawn = 0.0;
        for at in direct..keys.len() {
            let mut row = rows.row(at);
            drawn += row[0].to_f64();
            row[0] += E::ONE;
        }
        for at in 0..direct {
            let mut row = rows.row(at);
            let mut update = vec![E::ZERO; row.len()];
            self.change(batch, *rate, at, &row, &mut update, drawn);
            row.iter_mut().zip(update).for_each(|(value, update)| *value += update);
        }
        StepReport { examples: batch.examples as u64, ..StepReport::default() }
    }

    fn epoch_ended(&self, rate: &mut u64, combined: &Reduction) {
        *rate = adapted(*rate, combined.digest);
    }

    fn evaluation(&self, _: Split, _: Partition) -> Option<Box<dyn Evaluation<E>>> {
        None
    }
}

/// How many samples so many batches draw.
pub(crate) const fn samples(batches: u64) -> u64 {
    batches * SAMPLES as u64
}
