//! Logistic regression as a training task: the keys of a batch, and the updates of their values.
//!
//! Keys: the features from 0, then the intercept, if there is one. A batch pulls the features of its rows,
//! each once, sums the gradients of all rows, and pushes one update per feature.

use crate::batch::{Batch, RowsBatch};
use crate::config::Config;
use crate::data::Dataset;
use crate::evaluate::{HeldOut, Predictions, Quality};
use crate::frequency::frequencies;
use crate::model::{LEN_MAX, Optimizer, log_loss, slope};
use crate::proximal::{Blocks, Coordinate, Scores};
use crate::weights::Weights;
use intendant_core::random::{mix, stream};
use intendant_core::{Combine, Element, ElementType, Key, lock};
use intendant_sampling::Sampler;
use intendant_task::{
    Baseline, BatchAt, Better, Cost, Criterion, EpochOrder, Evaluation, Frequency, Model, ModelRange,
    Partition, Prepared, Pulled, Ranking, Split, StepReport, Subepoch, Task, Update,
};
use intendant_train::SettingError;
use std::sync::Arc;

/// Sparse logistic regression.
pub struct Lr<E> {
    data: Arc<Dataset>,
    config: Config,
    model: Model<E>,
    /// The digest of the initial weights.
    digest: u64,
    predictions: Predictions,
    /// Finds the features of batches.
    ranking: Ranking,
    /// The blocks, for proximal steps.
    blocks: Option<Blocks>,
}

/// Buffers of a worker.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// For each key of the batch, its value, its weight and the gradient.
    value: Vec<f64>,
    weights: Vec<f64>,
    gradients: Vec<f64>,
    /// The state of proximal steps.
    scores: Scores,
}

/// Whole numbers up to this one are exact in single precision.
const F32_ROWS_MAX: usize = 1 << 24;

/// Name of a use of the seed.
const ORDER: u64 = 1;

impl<E: Element> Lr<E> {
    /// A task that trains on `data`, with the initial weights `weights`.
    ///
    /// # Errors
    /// See [`Config::check`].
    ///
    /// # Panics
    /// If the data has no features.
    pub fn new(data: Arc<Dataset>, config: Config, weights: Weights) -> Result<Self, SettingError> {
        config.check()?;
        let rows = data.train().len();
        if config.optimizer == Optimizer::Proximal && E::TYPE == ElementType::F32 && rows > F32_ROWS_MAX {
            let what = format!("f64 for more than {F32_ROWS_MAX} rows, which it counts");
            return Err(SettingError::new("float", E::TYPE, what));
        }
        assert!(data.features() > 0, "nothing to learn from");
        let rule = config.rule();
        let digest = weights.digest();
        let features = u64::from(data.features());
        let range = |name, keys, l1, l2| match config.optimizer {
            Optimizer::Proximal => {
                let coordinate = Coordinate { rate: config.learning_rate, l1, l2 };
                ModelRange::with_rule(name, keys, rule.len(), coordinate)
            }
            Optimizer::Ftrl | Optimizer::AdaGrad | Optimizer::Sgd => ModelRange::new(name, keys, rule.len()),
        };
        let mut ranges = vec![range("feature", features, config.l1, config.l2)];
        if config.intercept {
            ranges.push(range("intercept", 1, 0.0, 0.0));
        }
        let blocks = (config.optimizer == Optimizer::Proximal).then(|| {
            let of_all = (config.intercept, config.seed);
            Blocks::new(Arc::clone(&data), of_all, (config.blocks, config.delay), (config.l1, config.kkt))
        });
        let counted = blocks.is_some().then(|| Arc::clone(&data));
        let init = move |key: Key, value: &mut [E]| {
            let weight = if key.0 == features {
                weights.intercept
            } else {
                // There are at most FEATURES_MAX others.
                weights.of(key.0 as u32)
            };
            let mut wide = [0.0; LEN_MAX];
            let wide = &mut wide[..rule.len()];
            rule.initial(weight, wide);
            if let Some(data) = &counted {
                let rows =
                    data.uses().get(key.index()).map_or(data.train().len() as f64, |uses| f64::from(*uses));
                wide[wide.len() - 1] = rows;
            }
            value.fill(E::ZERO);
            value.iter_mut().zip(wide).for_each(|(x, wide)| *x = E::from_f64(*wide));
        };
        let model = Model { ranges, init: Arc::new(init), sampler: Sampler::default() };
        let ranking = Ranking::new(data.features() as usize);
        Ok(Self { data, config, model, digest, predictions: Predictions::default(), ranking, blocks })
    }

    /// The rows.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weight in the value of a key, in the precision of the elements.
    ///
    /// # Panics
    /// If the length of the value differs from the model's.
    pub fn weight(&self, value: &[E]) -> f64 {
        crate::evaluate::weight_of(&self.config.rule(), value)
    }

    /// The probabilities of positive labels that the last evaluation predicted for the test rows, in the
    /// order of the rows. `None` if this process predicted none; only the process of the first worker does.
    pub fn take_predictions(&self) -> Option<Vec<f64>> {
        lock(&self.predictions).take()
    }

    fn order(&self, epoch: u32) -> EpochOrder {
        let (rows, batch) = (self.data.train().len() as u64, self.config.batch as u64);
        EpochOrder::new(stream(self.config.seed, &[ORDER]), epoch, rows, batch)
    }
}

impl<E: Element> Task for Lr<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = Scratch;

    fn name(&self) -> &'static str {
        "lr"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn combine(&self) -> Combine {
        match self.config.optimizer {
            Optimizer::Ftrl | Optimizer::Sgd | Optimizer::Proximal => Combine::Sum,
            Optimizer::AdaGrad => Combine::AdaGrad,
        }
    }

    fn digest(&self) -> u64 {
        stream(self.data.digest(), &[self.digest])
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        match &self.blocks {
            Some(blocks) => blocks.batches(),
            None => partition.share(self.order(subepoch.epoch).batches()),
        }
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let epoch = at.subepoch.epoch;
        if let Some(blocks) = &self.blocks {
            let Prepared { batch, keys, near, samples, handles, digest } = blocks.prepare(at);
            return Prepared { batch: Batch::Block(batch), keys, near, samples, handles, digest };
        }
        let rows: Vec<u64> = self.order(epoch).batch(at.global()).collect();
        let seed = mix(epoch.into());
        let hash = |row: &u64| mix(self.data.hash(*row as usize) ^ mix(*row ^ seed));
        let digest = rows.iter().map(hash).fold(0u64, u64::wrapping_add);
        let rows = rows.iter().map(|row| self.data.train().row(*row as usize));
        let (batch, keys) = RowsBatch::new(&self.data, &self.ranking, rows, (self.config.intercept, epoch));
        let batch = Batch::Rows(batch);
        let near = keys.clone();
        Prepared { batch, keys, near, samples: Vec::new(), handles: Vec::new(), digest }
    }

    fn keys_named(&self, name: &str) -> Vec<Key> {
        let features = self.data.features();
        if name == "intercept" && self.config.intercept {
            return vec![Key(features.into())];
        }
        let found = self.data.naming().find(name).filter(|feature| *feature < features);
        found.map(|feature| Key(feature.into())).into_iter().collect()
    }

    fn frequencies(&self, partition: Partition) -> Option<Vec<Frequency>> {
        if let Some(blocks) = &self.blocks {
            return Some(blocks.frequencies(partition));
        }
        Some(frequencies(&self.data, self.config.intercept, self.config.batch, partition.nodes))
    }

    fn scratch(&self) -> Scratch {
        Scratch::default()
    }

    fn rests_within_epochs(&self) -> bool {
        self.blocks.is_none()
    }

    fn skips_zeros(&self) -> bool {
        self.blocks.is_some()
    }

    fn compute(
        &self,
        scratch: &mut Scratch,
        batch: &Batch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        let batch = match (batch, &self.blocks) {
            (Batch::Rows(batch), _) => batch,
            (Batch::Block(batch), Some(blocks)) => {
                return blocks.compute(&mut scratch.scores, batch, pulled, update);
            }
            (Batch::Block(_), None) => unreachable!("only proximal steps are prepared by blocks"),
        };
        let rule = self.config.rule();
        let (len, keys) = (rule.len(), pulled.keys.len());
        let Scratch { value, weights, gradients, scores: _ } = scratch;
        value.clear();
        value.extend(pulled.values.iter().map(|x| x.to_f64()));
        weights.clear();
        weights.extend(value.chunks_exact(len).map(|value| rule.weight(value)));
        gradients.clear();
        gradients.resize(keys, 0.0);
        // The value of the intercept's feature is 1 in every row.
        let intercept = batch.intercept.then(|| keys - 1);
        let constant = intercept.map_or(0.0, |at| weights[at]);
        let mut loss = 0.0;
        for (label, places, values) in batch.rows() {
            let terms = places.iter().zip(values);
            let score = terms
                .clone()
                .fold(constant, |sum, (at, value)| sum + weights[*at as usize] * f64::from(*value));
            loss += log_loss(score, label);
            let slope = slope(score, label);
            terms.for_each(|(at, value)| gradients[*at as usize] += slope * f64::from(*value));
            if let Some(at) = intercept {
                gradients[at] += slope;
            }
        }
        let mut added = [0.0; LEN_MAX];
        let added = &mut added[..len];
        for (at, (value, update)) in
            value.chunks_exact(len).zip(update.values.chunks_exact_mut(len)).enumerate()
        {
            // The intercept is not penalised.
            let passes = batch.passes.get(at).copied().unwrap_or(0.0);
            rule.update((value, weights[at]), (gradients[at], passes, batch.epoch), added);
            update.iter_mut().zip(&*added).for_each(|(update, added)| *update = E::from_f64(*added));
        }
        let cost = Cost(2 * batch.places.len() as u64 + COST_OF_KEY * keys as u64);
        StepReport { loss, examples: batch.labels.len() as u64, cost }
    }

    fn criterion(&self) -> Option<Criterion> {
        // Without validation rows, users watch epochs on the test rows, which must not select a model.
        (!self.data.valid().is_empty()).then_some(Criterion { metric: "log_loss", better: Better::Lower })
    }

    fn baseline(&self) -> Option<Baseline> {
        let (train, test) = (self.data.train(), self.data.test());
        if test.is_empty() {
            return None;
        }
        let (positives, rows) = (train.positives() as f64, train.len() as f64);
        // As if there were one more row of each class: a class without any has a probability, too.
        let score = ((positives + 1.0) / (rows - positives + 1.0)).ln();
        let value = test.iter().map(|row| log_loss(score, row.label)).sum::<f64>() / test.len() as f64;
        Some(Baseline { name: "class frequencies", metric: "log_loss", better: Better::Lower, value })
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let is_test = split == Split::Test;
        let held_out = match (is_test || self.data.valid().is_empty(), self.data.test().is_empty()) {
            (false, _) => HeldOut::Valid,
            (true, false) => HeldOut::Test,
            (true, true) => HeldOut::None,
        };
        let bins = if is_test { self.config.reliability } else { 0 };
        let predictions = is_test.then(|| Arc::clone(&self.predictions));
        let rule = (self.config.rule(), self.config.intercept);
        Some(Box::new(Quality::new(&self.data, rule, held_out, (bins, predictions), partition)))
    }
}

/// Multiply-adds of a weight and an update, with a root or a division counted as one.
const COST_OF_KEY: u64 = 10;

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
