//! What an application supplies.

use crate::{Evaluation, Split};
use intendant_core::{Element, Initialiser, Key};
use intendant_sampling::{DistributionId, Handle, Sampler};

/// One range of a model's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRange {
    /// What the keys stand for.
    pub name: &'static str,
    /// How many there are. Keys are numbered range by range, from 0.
    pub keys: u64,
    /// Elements per value, optimiser state included.
    pub len: usize,
}

/// The parameters of a task.
#[derive(Clone)]
pub struct Model<E> {
    /// The key ranges, in order.
    pub ranges: Vec<ModelRange>,
    /// Initial values.
    pub init: Initialiser<E>,
    /// The distributions that batches sample from.
    pub sampler: Sampler,
}

impl<E> Model<E> {
    /// Number of keys of all ranges.
    pub fn keys(&self) -> u64 {
        self.ranges.iter().map(|r| r.keys).sum()
    }

    /// Elements of the value of `key`.
    ///
    /// # Panics
    /// If the key is beyond the last range.
    pub fn len(&self, key: Key) -> usize {
        let mut end = 0;
        for range in &self.ranges {
            end += range.keys;
            if key.0 < end {
                return range.len;
            }
        }
        panic!("{key:?} is not one of the {end} keys of the model")
    }

    /// Whether the model has no keys.
    pub fn is_empty(&self) -> bool {
        self.keys() == 0
    }
}

/// A worker among all workers of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// This worker, from 0.
    pub worker: u32,
    /// All workers.
    pub workers: u32,
    /// Threads that this worker may use while nothing else runs (evaluation).
    pub threads: usize,
}

/// Names a batch of a run. What is in it depends on the seed, `epoch` and `index` only, never on who trains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAt {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Index among all batches of the epoch, from 0.
    pub index: u64,
}

/// Samples that a batch wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRequest {
    /// Registered in [`Model::sampler`].
    pub distribution: DistributionId,
    /// How many.
    pub samples: usize,
    /// Names the randomness; see [`Sampler::prepare`].
    pub stream: u64,
}

/// A batch, ready to be trained.
#[derive(Debug)]
pub struct Prepared<B> {
    /// What the task needs to compute the update.
    pub batch: B,
    /// Keys of direct accesses. A key may occur more than once: it is pulled and pushed that often.
    pub keys: Vec<Key>,
    /// Samples wanted.
    pub samples: Vec<SampleRequest>,
    /// Handles of the samples, one per request; filled by the [`crate::Loader`].
    pub handles: Vec<Handle>,
    /// A hash of the examples and of their randomness. Their wrapping sum over all batches tells whether every example was
    /// trained exactly once.
    pub digest: u64,
}

/// Values that were pulled for a batch, concatenated in the order of their keys.
#[derive(Clone, Copy, Debug)]
pub struct Pulled<'a, E> {
    /// [`Prepared::keys`].
    pub keys: &'a [Key],
    /// Their values.
    pub values: &'a [E],
    /// The sampled keys, request by request.
    pub sample_keys: &'a [Key],
    /// Their values.
    pub sample_values: &'a [E],
}

/// The update of a batch: what is added to the values. Zero at the start; shaped like [`Pulled`].
#[derive(Debug)]
pub struct Update<'a, E> {
    /// For the values of the direct keys.
    pub values: &'a mut [E],
    /// For the values of the sampled keys.
    pub sample_values: &'a mut [E],
}

/// How much arithmetic something took, in multiply-adds. Only a simulator reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost(pub u64);

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct StepReport {
    /// Sum of the losses of the examples, penalties excluded.
    pub loss: f64,
    /// Examples trained.
    pub examples: u64,
    /// Arithmetic.
    pub cost: Cost,
}

/// A training task: a model's mathematics and its data, without a word about where parameters are.
pub trait Task: Send + Sync + 'static {
    /// Element type of the values.
    type Element: Element;
    /// What [`Task::prepare`] computes ahead.
    type Batch: Send + 'static;
    /// Buffers of a worker that live through the run.
    type Scratch: Send;

    /// Name of the task, as in reports.
    fn name(&self) -> &'static str;

    /// The parameters.
    fn model(&self) -> &Model<Self::Element>;

    /// A hash of the data, and of whatever else of the task must be equal on all nodes but is not one of its settings.
    fn digest(&self) -> u64 {
        0
    }

    /// Number of batches of an epoch. Worker `w` of `W` trains the batches `w`, `w + W`, …
    fn batches(&self, epoch: u32) -> u64;

    /// Prepares one batch. Pure: a function of the data, the seed and `at`.
    fn prepare(&self, at: BatchAt) -> Prepared<Self::Batch>;

    /// Buffers for one worker.
    fn scratch(&self) -> Self::Scratch;

    /// Computes the update of a batch.
    fn compute(
        &self,
        scratch: &mut Self::Scratch,
        batch: &Self::Batch,
        pulled: Pulled<'_, Self::Element>,
        update: &mut Update<'_, Self::Element>,
    ) -> StepReport;

    /// This worker's share of the evaluation on `split`, or `None` if there is nothing to evaluate. All workers answer alike.
    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<Self::Element>>>;
}
