//! ComplEx as a training task: which keys a batch needs, what is added to their values.
//!
//! Keys: the entities from 0, then the relations, then their reciprocals if there are any. All values have `2 · dim` elements,
//! an embedding and its AdaGrad accumulator.

use crate::batch::{Batch, Scratch};
use crate::data::{Dataset, Known, Triple};
use crate::evaluate::Ranking;
use crate::model::{Penalties, initialise};
use crate::{logistic, softmax};
use intendant_core::Element;
use intendant_core::random::stream;
use intendant_sampling::{Conformity, Distribution, DistributionId, Sampler};
use intendant_task::{
    BatchAt, EpochOrder, Evaluation, Model, ModelRange, Partition, Prepared, Pulled, SampleRequest, Split,
    StepReport, Subepoch, Task, Update,
};
use std::sync::{Arc, OnceLock};

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Cross-entropy over candidates that a batch shares: its entities and `negatives` samples.
    Softmax,
    /// Logistic loss of every triple and of `negatives` corrupted ones of its own per side.
    Logistic,
}

/// Hyperparameters; [`Kge::new`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Real numbers per embedding: twice the number of complex ones.
    pub dim: usize,
    /// Triples per batch.
    pub batch: usize,
    /// What is minimised.
    pub loss: Loss,
    /// Samples: per batch or per query, as [`Loss`] says.
    pub negatives: usize,
    /// Whether every relation has a reciprocal, with which subjects are predicted.
    pub reciprocal: bool,
    /// Penalties, per use of an embedding in a query.
    pub penalties: Penalties,
    /// Learning rate of AdaGrad.
    pub learning_rate: f64,
    /// Standard deviation of the initial embeddings.
    pub init_scale: f64,
    /// Seed of initial values, order and samples.
    pub seed: u64,
}

/// A hyperparameter that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}; it must be {allowed}")]
pub struct ConfigError {
    /// Name of the hyperparameter.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl Config {
    /// Tells whether this can be trained.
    ///
    /// # Errors
    /// Names the first hyperparameter that makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |name, value: String, allowed: &str| {
            Err(ConfigError { name, value, allowed: allowed.to_owned() })
        };
        if self.dim == 0 || !self.dim.is_multiple_of(2) || self.dim > DIM_MAX {
            return wrong("dim", self.dim.to_string(), &format!("an even number from 2 to {DIM_MAX}"));
        }
        for (name, count) in [("batch", self.batch), ("negatives", self.negatives)] {
            if count == 0 || count > COUNT_MAX {
                return wrong(name, count.to_string(), &format!("a number from 1 to {COUNT_MAX}"));
            }
        }
        if self.elements() > ELEMENTS_MAX {
            let value = format!("{} with {} negatives and dim {}", self.batch, self.negatives, self.dim);
            let allowed = format!(
                "so small that the values and the scores of a batch are at most {ELEMENTS_MAX} numbers each; here \
                 they may be {}",
                self.elements()
            );
            return wrong("batch", value, &allowed);
        }
        for (name, number) in [("lr", self.learning_rate), ("init-scale", self.init_scale)] {
            if !(number > 0.0 && number.is_finite()) {
                return wrong(name, number.to_string(), "a number above 0");
            }
        }
        for (name, number) in [("n3", self.penalties.n3), ("l2", self.penalties.l2)] {
            if !(number >= 0.0 && number.is_finite()) {
                return wrong(name, number.to_string(), "a number of at least 0");
            }
        }
        Ok(())
    }

    /// Elements of the larger of a batch's two large arrays, in the worst case: the values that it pulls, or its scores. None
    /// of the factors is above its own maximum, so that nothing overflows.
    fn elements(&self) -> u64 {
        let (batch, negatives, dim) = (self.batch as u64, self.negatives as u64, self.dim as u64);
        let (entities, queries) = (2 * batch, 2 * batch);
        let (samples, scores) = match self.loss {
            Loss::Softmax => (negatives, queries * (entities + negatives)),
            Loss::Logistic => (queries * negatives, queries * negatives),
        };
        // Relations and their reciprocals besides.
        let keys = entities + 2 * batch + samples;
        scores.max(keys * 2 * dim)
    }
}

/// Half of the elements that the largest value may have, in double precision.
const DIM_MAX: usize = intendant_core::limits::VALUE_BYTES_MAX / 16;

/// Triples or samples of a batch at most.
const COUNT_MAX: usize = 1 << 20;

/// Elements of a batch's values or scores at most: they must fit into memory several times, for each worker.
const ELEMENTS_MAX: u64 = 1 << 28;

/// Knowledge graph embeddings.
pub struct Kge<E> {
    data: Arc<Dataset>,
    known: OnceLock<Arc<Known>>,
    config: Config,
    model: Model<E>,
    negatives: DistributionId,
    /// First key of the relations, first key of their reciprocals.
    relations: (u64, Option<u64>),
}

impl<E: Element> Kge<E> {
    /// The task of embedding `data`.
    ///
    /// # Errors
    /// If a hyperparameter makes no sense.
    pub fn new(data: Arc<Dataset>, config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let (entities, relations) = (data.entities.len() as u64, data.relations.len() as u64);
        let uniform = Distribution::uniform(0..entities).map_err(|_| ConfigError {
            name: "data",
            value: "a graph without entities".to_owned(),
            allowed: "a graph with triples".to_owned(),
        })?;
        let mut sampler = Sampler::builder();
        let negatives = sampler.register(uniform, Conformity::Conform);
        let len = 2 * config.dim;
        let mut ranges = vec![
            ModelRange { name: "entity", keys: entities, len },
            ModelRange { name: "relation", keys: relations, len },
        ];
        if config.reciprocal {
            ranges.push(ModelRange { name: "reciprocal", keys: relations, len });
        }
        let (seed, scale) = (stream(config.seed, &[INITIAL]), config.init_scale);
        let model = Model {
            ranges,
            init: Arc::new(move |key, value: &mut [E]| initialise(seed, key, scale, value)),
            sampler: sampler.build(),
        };
        let relations = (entities, config.reciprocal.then_some(entities + relations));
        Ok(Self { data, known: OnceLock::new(), config, model, negatives, relations })
    }

    /// The graph.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn order(&self, epoch: u32) -> EpochOrder {
        let seed = stream(self.config.seed, &[ORDER]);
        EpochOrder::new(seed, epoch, self.data.train.len() as u64, self.config.batch as u64)
    }
}

/// Names of the uses of the seed.
const INITIAL: u64 = 1;
const ORDER: u64 = 2;
const NEGATIVES: u64 = 3;

impl<E: Element> Task for Kge<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = Scratch<E>;

    fn name(&self) -> &'static str {
        "kge"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn digest(&self) -> u64 {
        self.data.digest()
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        partition.share(self.order(subepoch.epoch).batches())
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let epoch = u64::from(at.subepoch.epoch);
        let examples: Vec<u64> = self.order(at.subepoch.epoch).batch(at.global()).collect();
        let triples: Vec<Triple> = examples.iter().map(|e| self.data.train[*e as usize]).collect();
        let (batch, keys) = Batch::new(&triples, self.relations);
        let request = |samples, name| SampleRequest {
            distribution: self.negatives,
            samples,
            stream: stream(self.config.seed, &[NEGATIVES, epoch, name]),
        };
        let samples: Vec<SampleRequest> = match self.config.loss {
            Loss::Softmax => vec![request(self.config.negatives, at.global())],
            // The first half is for the object's query, the second half for the subject's.
            Loss::Logistic => examples.iter().map(|e| request(2 * self.config.negatives, *e)).collect(),
        };
        let hash = |t: &Triple| stream(epoch, &[t.subject.into(), t.relation.into(), t.object.into()]);
        let of_examples = triples.iter().map(hash);
        let of_samples = samples.iter().map(|s| stream(s.stream, &[s.samples as u64]));
        let digest = of_examples.chain(of_samples).fold(0u64, u64::wrapping_add);
        Prepared { batch, near: keys.clone(), keys, samples, handles: Vec::new(), digest }
    }

    fn scratch(&self) -> Scratch<E> {
        Scratch::new(self.config.dim)
    }

    fn compute(
        &self,
        scratch: &mut Scratch<E>,
        batch: &Batch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        scratch.compose(batch, pulled.values);
        let (loss, cost) = match self.config.loss {
            Loss::Softmax => {
                softmax::gradients(batch, scratch, self.data.entities.len() as u64, pulled, update)
            }
            Loss::Logistic => logistic::gradients(batch, scratch, pulled, update),
        };
        scratch.compose_backward(batch, pulled.values, update.values);
        scratch.penalise(self.config.penalties, batch, pulled.values, update.values);
        scratch.merge(batch, pulled, update);
        scratch.adagrad(self.config.learning_rate, pulled, update);
        StepReport { loss, examples: batch.queries.len() as u64 / 2, cost }
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let triples = match split {
            Split::Valid => &self.data.valid,
            Split::Test => &self.data.test,
        };
        if triples.is_empty() {
            return None;
        }
        let known = self.known.get_or_init(|| Arc::new(Known::new(&self.data)));
        let share: Vec<Triple> = triples
            .iter()
            .skip(partition.worker as usize)
            .step_by(partition.workers as usize)
            .copied()
            .collect();
        let entities = self.data.entities.len() as u64;
        let threads = partition.threads;
        Some(Box::new(Ranking::new(
            known.clone(),
            &share,
            entities,
            self.relations,
            self.config.dim,
            threads,
        )))
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
