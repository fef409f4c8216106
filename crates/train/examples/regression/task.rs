//! Sparse linear regression by stochastic gradient descent, on generated data: about the smallest task with
//! everything that a task can have. Two key ranges with values of different lengths, optimiser state inside
//! of the values, samples, and an evaluation that pulls some values and streams the others.

use intendant_core::{Element, Key, random};
use intendant_sampling::{Conformity, Distribution, DistributionError, DistributionId, Sampler};
use intendant_task::{
    BatchAt, Better, Cost, Criterion, EpochOrder, Evaluation, Model, ModelRange, Partition, Prepared, Pulled,
    Reduction, SampleRequest, Split, StepReport, Subepoch, Task, Update,
};
use std::ops::Range;
use std::sync::Arc;

/// Weight and AdaGrad accumulator.
const WEIGHT_LEN: usize = 2;
/// The constant term is learnt by plain gradient descent, without an accumulator.
const CONSTANT_LEN: usize = 1;
const FEATURES_PER_EXAMPLE: usize = 4;
/// Weights per batch that are pulled towards zero; sampled, as all of them would be too many.
const DECAYED_PER_BATCH: usize = 8;
const DECAY: f64 = 1e-5;

/// What is trained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) features: u64,
    pub(crate) examples: u64,
    pub(crate) batch: u64,
    pub(crate) rate: f64,
}

/// `y = constant + Σ weight(feature) · strength(feature)`.
#[derive(Debug)]
struct Example {
    features: [(u64, f64); FEATURES_PER_EXAMPLE],
    target: f64,
}

/// The task. Example `i` of `0..examples` is for training; those behind are for evaluation.
pub(crate) struct Regression<E> {
    settings: Settings,
    model: Model<E>,
    decayed: DistributionId,
}

/// A batch of examples.
pub(crate) struct Batch(Vec<Example>);

fn example(settings: &Settings, index: u64) -> Example {
    let word = |part: u64| random::stream(settings.seed, &[1, index, part]);
    let mut target = 0.5;
    let features = std::array::from_fn(|at| {
        let (feature, strength) = (word(at as u64) % settings.features, random::unit(word(100 + at as u64)));
        target += strength * (random::unit(random::stream(settings.seed, &[2, feature])) - 0.5);
        (feature, strength)
    });
    Example { features, target }
}

/// What tells a trained example from all others.
pub(crate) fn digest(seed: u64, epoch: u32, index: u64) -> u64 {
    random::stream(seed, &[3, u64::from(epoch), index])
}

impl<E: Element> Regression<E> {
    pub(crate) fn new(settings: Settings) -> Result<Self, DistributionError> {
        let mut sampler = Sampler::builder();
        let decayed = sampler.register(Distribution::uniform(0..settings.features)?, Conformity::Conform);
        let model = Model {
            ranges: vec![
                ModelRange::new("weight", settings.features, WEIGHT_LEN),
                ModelRange::new("constant", 1, CONSTANT_LEN),
            ],
            init: Arc::new(|_, _| {}),
            sampler: sampler.build(),
        };
        Ok(Self { settings, model, decayed })
    }

    fn order(&self, epoch: u32) -> EpochOrder {
        EpochOrder::new(self.settings.seed, epoch, self.settings.examples, self.settings.batch)
    }

    fn constant(&self) -> Key {
        Key(self.settings.features)
    }
}

impl<E: Element> Task for Regression<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = ();

    fn name(&self) -> &'static str {
        "regression"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        partition.share(self.order(subepoch.epoch).batches())
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let (mut batch, mut keys, mut sum) = (Vec::new(), vec![self.constant()], 0u64);
        let epoch = at.subepoch.epoch;
        for index in self.order(epoch).batch(at.global()) {
            let example = example(&self.settings, index);
            keys.extend(example.features.iter().map(|(feature, _)| Key(*feature)));
            batch.push(example);
            sum = sum.wrapping_add(digest(self.settings.seed, epoch, index));
        }
        let stream = random::stream(self.settings.seed, &[4, u64::from(epoch), at.global()]);
        let samples = vec![SampleRequest { distribution: self.decayed, samples: DECAYED_PER_BATCH, stream }];
        Prepared { batch: Batch(batch), near: keys.clone(), keys, samples, handles: Vec::new(), digest: sum }
    }

    fn scratch(&self) {}

    fn compute(
        &self,
        (): &mut (),
        batch: &Batch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        let mut loss = 0.0;
        let (constant, weights) = pulled.values.split_at(CONSTANT_LEN);
        let (constant_update, weight_updates) = update.values.split_at_mut(CONSTANT_LEN);
        let per_example = FEATURES_PER_EXAMPLE * WEIGHT_LEN;
        let rate = E::from_f64(self.settings.rate);
        let mean_rate = E::from_f64(self.settings.rate / batch.0.len() as f64);
        let each = batch
            .0
            .iter()
            .zip(weights.chunks_exact(per_example))
            .zip(weight_updates.chunks_exact_mut(per_example));
        for ((example, values), updates) in each {
            let terms = example.features.iter().zip(values.chunks_exact(WEIGHT_LEN));
            let predicted = terms
                .fold(constant[0], |sum, ((_, strength), value)| sum + value[0] * E::from_f64(*strength));
            let error = predicted - E::from_f64(example.target);
            loss += (error * error).to_f64();
            constant_update[0] -= mean_rate * error;
            let each = example.features.iter().zip(values.chunks_exact(WEIGHT_LEN));
            for (((_, strength), value), update) in each.zip(updates.chunks_exact_mut(WEIGHT_LEN)) {
                let gradient = error * E::from_f64(*strength);
                update[1] = gradient * gradient;
                update[0] = -rate * gradient / (value[1] + update[1] + E::from_f64(1e-8)).sqrt();
            }
        }
        let each = pulled
            .sample_values
            .chunks_exact(WEIGHT_LEN)
            .zip(update.sample_values.chunks_exact_mut(WEIGHT_LEN));
        for (value, update) in each {
            update[0] = -E::from_f64(DECAY) * value[0];
        }
        let examples = batch.0.len() as u64;
        StepReport { loss, examples, cost: Cost(examples * FEATURES_PER_EXAMPLE as u64) }
    }

    fn criterion(&self) -> Option<Criterion> {
        Some(Criterion { metric: "squared_error", better: Better::Lower })
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let first = match split {
            Split::Valid => self.settings.examples,
            Split::Test => 2 * self.settings.examples,
        };
        let held_out = (first..first + self.settings.examples / 10)
            .skip(partition.worker as usize)
            .step_by(partition.workers as usize)
            .map(|index| example(&self.settings, index))
            .collect();
        let weights = vec![E::ZERO; self.settings.features as usize];
        let keys = vec![self.constant()];
        Some(Box::new(HeldOut { held_out, keys, constant: E::ZERO, weights, seen: 0 }))
    }
}

/// Mean squared error on held-out examples.
struct HeldOut<E> {
    held_out: Vec<Example>,
    keys: Vec<Key>,
    constant: E,
    weights: Vec<E>,
    seen: usize,
}

impl<E: Element> Evaluation<E> for HeldOut<E> {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        self.constant = values[0];
    }

    fn range(&self) -> Range<u64> {
        0..self.weights.len() as u64
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        for (key, value) in keys.iter().zip(values.chunks_exact(WEIGHT_LEN)) {
            self.weights[key.index()] = value[0];
        }
        self.seen += keys.len();
    }

    fn finish(self: Box<Self>) -> Reduction {
        assert_eq!(self.seen, self.weights.len(), "every weight streams by once");
        let mut sums = Reduction::default();
        for example in &self.held_out {
            let terms =
                example.features.iter().map(|(f, strength)| self.weights[*f as usize].to_f64() * strength);
            let error = self.constant.to_f64() + terms.sum::<f64>() - example.target;
            sums.add("quality.squared_error", error * error);
            sums.add("quality.count", 1.0);
        }
        sums
    }
}
