//! What an application supplies.

use crate::{Baseline, Criterion, Evaluation, Reduction, Split};
use intendant_core::{Combine, Element, Initialiser, Key, Layout, LayoutBuilder, Rule, SharedRule};
use intendant_sampling::{DistributionId, Handle, Sampler};
use intendant_store::{Row, prefetch};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::ops::Range;

/// One range of a model's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRange {
    /// What the keys stand for.
    pub name: &'static str,
    /// How many there are. Keys are numbered range by range, from 0.
    pub keys: u64,
    /// Elements per value. The optimiser state is included, unless a rule keeps it.
    pub len: usize,
    /// How the owners of the keys apply pushed updates, if they do not add them. Batches are then not trained
    /// in place, and updates have the lengths of the rule's operands.
    pub rule: Option<SharedRule>,
}

impl ModelRange {
    /// `keys` keys with values of `len` elements, to which updates are added.
    #[must_use]
    pub const fn new(name: &'static str, keys: u64, len: usize) -> Self {
        Self { name, keys, len, rule: None }
    }

    /// The same with a rule.
    #[must_use]
    pub fn with_rule(name: &'static str, keys: u64, len: usize, rule: impl Rule) -> Self {
        // The layout refuses longer values, and a rule should not have to handle such lengths.
        let rule = SharedRule::new(rule, len.min(intendant_core::limits::VALUE_BYTES_MAX));
        Self { name, keys, len, rule: Some(rule) }
    }

    /// Elements of an update of a key.
    #[must_use]
    pub fn operand(&self) -> usize {
        self.rule.as_ref().map_or(self.len, SharedRule::operand)
    }

    /// Elements that are stored for a key.
    #[must_use]
    pub fn row(&self) -> usize {
        self.rule.as_ref().map_or(self.len, SharedRule::row)
    }
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

    /// The range of `key`.
    ///
    /// # Panics
    /// If the key is beyond the last range.
    pub fn range(&self, key: Key) -> &ModelRange {
        let mut end = 0;
        for range in &self.ranges {
            end += range.keys;
            if key.0 < end {
                return range;
            }
        }
        panic!("{key:?} is not one of the {end} keys of the model")
    }

    /// Elements of the value of `key`.
    ///
    /// # Panics
    /// As [`Model::range`].
    pub fn len(&self, key: Key) -> usize {
        self.range(key).len
    }

    /// A layout builder with the ranges of the model.
    pub fn layout(&self) -> LayoutBuilder {
        let mut layout = Layout::builder();
        for ModelRange { name, keys, len, rule } in &self.ranges {
            layout = layout.range_by(name, *keys, *len, rule.clone());
        }
        layout
    }

    /// Whether the model has no keys.
    pub fn is_empty(&self) -> bool {
        self.keys() == 0
    }
}

/// A worker among all workers of all nodes. Workers are numbered node by node; all nodes have as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// This worker, from 0.
    pub worker: u32,
    /// All workers.
    pub workers: u32,
    /// All nodes.
    pub nodes: u32,
    /// Threads that this worker may use while nothing else runs (evaluation).
    pub threads: usize,
}

impl Partition {
    /// The only worker of the only node.
    #[must_use]
    pub const fn alone() -> Self {
        Self { worker: 0, workers: 1, nodes: 1, threads: 1 }
    }

    /// Workers on each node.
    #[must_use]
    pub const fn workers_per_node(&self) -> u32 {
        self.workers / self.nodes
    }

    /// The node of this worker.
    #[must_use]
    pub const fn node(&self) -> u32 {
        self.worker / self.workers_per_node()
    }

    /// How many of `total` things, dealt out one by one, this worker gets.
    #[must_use]
    pub const fn share(&self, total: u64) -> u64 {
        total.saturating_sub(self.worker as u64).div_ceil(self.workers as u64)
    }

    /// All workers, this one included, in order.
    pub fn all(self) -> impl Iterator<Item = Self> {
        (0..self.workers).map(move |worker| Self { worker, ..self })
    }

    /// The number of this worker's `index`-th thing, among things that are dealt out one by one.
    #[must_use]
    pub const fn nth(&self, index: u64) -> u64 {
        self.worker as u64 + index * self.workers as u64
    }
}

/// The `at`-th of `shares` shares of `total` things. A share is consecutive, and the sizes differ by one at
/// most.
///
/// # Panics
/// If there are no shares.
#[must_use]
pub fn equal_share(total: u64, at: u64, shares: u64) -> Range<u64> {
    // The product may not fit into 64 bits.
    let start = |at: u64| (u128::from(total) * u128::from(at) / u128::from(shares)) as u64;
    start(at)..start(at + 1)
}

/// A part of an epoch: all workers meet before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subepoch {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Index within the epoch, from 0.
    pub index: u32,
}

/// Names a batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAt {
    /// When it is trained.
    pub subepoch: Subepoch,
    /// The worker that trains it.
    pub partition: Partition,
    /// Index among the batches of this worker in this subepoch, from 0.
    pub index: u64,
}

impl BatchAt {
    /// A batch of a run with one worker and without subepochs.
    #[must_use]
    pub const fn alone(epoch: u32, index: u64) -> Self {
        Self { subepoch: Subepoch { epoch, index: 0 }, partition: Partition::alone(), index }
    }

    /// The number of this batch among all batches of the epoch, if they are dealt out one by one and there
    /// are no subepochs.
    #[must_use]
    pub const fn global(&self) -> u64 {
        self.partition.nth(self.index)
    }
}

/// Samples that a batch wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRequest {
    /// Registered in [`Model::sampler`].
    pub distribution: DistributionId,
    /// How many.
    pub samples: usize,
    /// The stream of random numbers; see [`intendant_sampling::Manager::prepare`].
    pub stream: u64,
}

/// A batch, ready to be trained.
#[derive(Debug)]
pub struct Prepared<B> {
    /// What the task needs to compute the update.
    pub batch: B,
    /// Keys of direct accesses. A key may occur more than once: it is pulled and pushed that often.
    pub keys: Vec<Key>,
    /// Keys worth moving to this node before the batch is trained (latency hiding), in any order. The
    /// [`crate::Driver`] adds the keys of samples that are known ahead. Used only if the run asks for it:
    /// [`crate::Schedule::localize_ahead`].
    pub near: Vec<Key>,
    /// Samples wanted.
    pub samples: Vec<SampleRequest>,
    /// Handles of the samples, one per request; filled by the [`crate::Loader`]. Empty if the samples come
    /// from the handles of an earlier batch: [`crate::Schedule::sample_portions`].
    pub handles: Vec<Handle>,
    /// A hash of the examples and of their randomness. Their wrapping sum over all batches tells whether
    /// every example was trained exactly once.
    pub digest: u64,
}

impl<B> Prepared<B> {
    /// Hints that the batch is about to be used.
    #[inline]
    pub fn prefetch(&self) {
        const LINE: usize = 64;
        let at = std::ptr::from_ref(self).cast::<u8>();
        (0..size_of::<Self>()).step_by(LINE).for_each(|offset| prefetch(at.wrapping_add(offset)));
    }

    /// Second hint, a few events later: fetches the first keys.
    #[inline]
    pub fn prefetch_keys(&self) {
        prefetch(self.keys.as_ptr());
        prefetch(self.samples.as_ptr());
    }
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

/// The update of a batch: what is added to the values. It is zero at the start. It has the shape of
/// [`Pulled`], or for keys with a rule, that of the operands.
#[derive(Debug)]
pub struct Update<'a, E> {
    /// For the values of the direct keys.
    pub values: &'a mut [E],
    /// For the values of the sampled keys.
    pub sample_values: &'a mut [E],
}

/// The rows of a batch that is trained in place, by position: those of [`Prepared::keys`], then those of the
/// sampled keys.
///
/// A row is lent: its holder reads and changes the parameter itself, and gives it back by dropping the row.
/// What happens to a row meanwhile is atomic. Rows are independent of each other: between two rows, other
/// workers may change any parameter, including one whose row this batch has had before.
pub trait Rows<E> {
    /// Lends the row at a position, as often as the task wants it. The holder should not do more than
    /// arithmetic on the row, since others may wait for it.
    ///
    /// # Panics
    /// If the batch has no such position.
    fn row(&mut self, at: usize) -> Row<'_, E>;

    /// Lends the row of a sample. Returns `None` if samples are drawn from the keys that are near, and this
    /// key has moved away since; the task then skips it. Elsewhere (on plain memory, in a simulation, where
    /// no time passes between the search for rows and their use) every row is lent.
    ///
    /// # Panics
    /// As [`Rows::row`].
    fn sample(&mut self, at: usize) -> Option<Row<'_, E>> {
        Some(self.row(at))
    }

    /// Hints that the row at a position is about to be lent. Positions beyond the last one are ignored.
    fn prefetch(&self, at: usize);
}

/// How often a key is accessed, and how often it is used. These differ because a batch accesses a key once,
/// although several of its examples may use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    /// The key.
    pub key: Key,
    /// Expected occurrences in the pulls of an epoch, by all workers together, samples included: the
    /// frequency that a parameter server sees. The push that follows a pull has the same keys and is not
    /// counted again.
    pub accesses: f64,
    /// Training examples that use the key, however they are divided into batches: the frequency in the data
    /// set, without samples.
    pub uses: u64,
    /// Whether workers of more than one node may access it. If not, copies on other nodes are useless, no
    /// matter how often the key is accessed.
    pub shared: bool,
}

/// The amount of arithmetic, in multiply-adds. Only a simulator reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost(pub u64);

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct StepReport {
    /// Sum of the losses of the examples, penalties excluded.
    pub loss: f64,
    /// Examples trained.
    pub examples: u64,
    /// Arithmetic.
    pub cost: Cost,
}

/// A training task: a model's mathematics and its data. It does not mention where parameters are.
pub trait Task: Send + Sync + 'static {
    /// Element type of the values.
    type Element: Element;
    /// What [`Task::prepare`] computes ahead.
    type Batch: Send + 'static;
    /// Buffers that a worker keeps for the whole run.
    type Scratch: Send;

    /// Name of the task, as in reports.
    fn name(&self) -> &'static str;

    /// The parameters.
    fn model(&self) -> &Model<Self::Element>;

    /// How the updates of several copies of a value are combined; see [`Combine`].
    fn combine(&self) -> Combine {
        Combine::Sum
    }

    /// A hash of the data, and of whatever else in the task must be equal on all nodes but is not one of its
    /// settings.
    fn digest(&self) -> u64 {
        0
    }

    /// Number of subepochs of an epoch; equal for all workers. More than one only for algorithms that need
    /// meetings in between, such as parameter blocking.
    fn subepochs(&self, _epoch: u32, _partition: Partition) -> u32 {
        1
    }

    /// Whether workers can meet within an epoch for a checkpoint, and other workers can train what is left of
    /// the epoch. False if a batch needs state that its worker has kept from earlier batches of the epoch:
    /// checkpoints are then made between epochs only.
    fn rests_within_epochs(&self) -> bool {
        true
    }

    /// Number of batches that a worker trains in a subepoch. Must be cheap, because it is called more than
    /// once.
    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64;

    /// The number of consecutive batches, from the first one of a subepoch on, that share the handles of
    /// their samples. It serves tasks whose batches are steps of one example, each of which takes some of the
    /// example's samples. The batches want samples of the same distributions; the first one's
    /// [`SampleRequest::stream`] names the randomness.
    fn portions(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// Prepares one batch. Pure: a function of the data, the seed and `at`. All examples of an epoch are
    /// trained once, whatever the partition, and the randomness of an example depends on seed, epoch and
    /// example only.
    fn prepare(&self, at: BatchAt) -> Prepared<Self::Batch>;

    /// Keys that a worker uses so much more often than the workers of other nodes that its node should hold
    /// them for the whole run (data clustering). They are localized before the first epoch, which waits for
    /// them.
    fn residents(&self, _partition: Partition) -> Vec<Key> {
        Vec::new()
    }

    /// How many keys of a batch, from the first on, are residents of its worker's node that no other node
    /// uses. They need no intents of their own: a [`crate::Loader`] announces the residents once, for the
    /// whole run.
    fn residents_of(&self, _batch: &Self::Batch) -> usize {
        0
    }

    /// Keys that only this worker uses during a subepoch (parameter blocking). They are localized at its
    /// beginning, after all workers have met; training waits for them.
    fn block(&self, _subepoch: Subepoch, _partition: Partition) -> Vec<Key> {
        Vec::new()
    }

    /// The keys of the parameters that users call `name`: a word, for example, has an input and an output
    /// vector. Empty if there are none.
    fn keys_named(&self, _name: &str) -> Vec<Key> {
        Vec::new()
    }

    /// How often keys are accessed in training, in ascending order of key, as far as the data determine it
    /// beforehand; for heuristics that manage hot keys differently. Keys that are left out are never
    /// accessed. The result is a function of the data, the settings and the numbers of workers and nodes in
    /// `partition`. It does not depend on which worker `partition` is: all nodes must come to the same
    /// conclusions. `None` if nothing is known.
    fn frequencies(&self, _partition: Partition) -> Option<Vec<Frequency>> {
        None
    }

    /// Buffers for one worker.
    fn scratch(&self) -> Self::Scratch;

    /// Whether batches are trained in place, by [`Task::train`]. Otherwise [`Task::compute`] computes their
    /// updates from copies. The answer is the same for all batches.
    fn trains_in_place(&self) -> bool {
        false
    }

    /// Whether to leave keys out of the push if their update is all zeros and would change nothing. For keys
    /// with a rule, an operand of zero must then leave value and state unchanged.
    fn skips_zeros(&self) -> bool {
        false
    }

    /// Computes the update of a batch from copies of its values. Implemented by tasks that do not train in
    /// place.
    fn compute(
        &self,
        _scratch: &mut Self::Scratch,
        _batch: &Self::Batch,
        _pulled: Pulled<'_, Self::Element>,
        _update: &mut Update<'_, Self::Element>,
    ) -> StepReport {
        panic!("task {} trains in place", self.name())
    }

    /// Trains a batch on its rows. `keys` are the keys of the rows. Implemented by tasks that train in place:
    /// this avoids copying and visiting the values twice. A task that finds that a loss is not finite should
    /// stop before it changes rows further, so that the first row that is not finite can be named.
    fn train(
        &self,
        _scratch: &mut Self::Scratch,
        _batch: &Self::Batch,
        _keys: &[Key],
        _rows: &mut dyn Rows<Self::Element>,
    ) -> StepReport {
        panic!("task {} does not train in place", self.name())
    }

    /// Called before the sums of this worker are read: at the end of an epoch, or where workers meet within
    /// one (a checkpoint may be made there). Moves what the worker has gathered in `scratch` over many
    /// batches to `sums`. `sums` may have come from an earlier run. The sums of all workers are added to each
    /// other.
    fn settle(&self, _scratch: &mut Self::Scratch, _sums: &mut Reduction) {}

    /// Called when an epoch has ended. `combined` has the sums of all workers, and is the same for all of
    /// them. It serves whatever adapts to the course of the training, such as a learning rate.
    fn epoch_ended(&self, _scratch: &mut Self::Scratch, _combined: &Reduction) {}

    /// Whether the loss of the first batches is that of a model that knows nothing, so that a higher one at
    /// the end shows that nothing was learnt.
    fn loss_falls(&self) -> bool {
        true
    }

    /// The metric by which validations are compared; `None` if there is no validation data besides the test
    /// data, or no single metric is decisive. All workers give the same answer.
    fn criterion(&self) -> Option<Criterion> {
        None
    }

    /// What a trivial predictor reaches on the test data; `None` without test data, or if there is no such
    /// predictor. Called once, at the end of a run.
    fn baseline(&self) -> Option<Baseline> {
        None
    }

    /// This worker's share of the evaluation on `split`, or `None` if there is nothing to evaluate. All
    /// workers return `None`, or none does.
    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<Self::Element>>>;
}
