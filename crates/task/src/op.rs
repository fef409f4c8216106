//! The operations of a [`crate::Driver`], the events that answer them, and the settings of a driver.

use crate::{Cost, Patience, Prepared, Reduction, Rest};
use intendant_core::Key;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// Where a run begins: at the first batch (the default), or where an earlier run stopped.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The combined sums of the epochs that were trained. The driver passes them to the task again
    /// ([`crate::Task::epoch_ended`]), so that whatever adapts to the course of the training resumes its
    /// state.
    pub epochs: Vec<Reduction>,
    /// What is left of the epoch after these; `None` if the whole epoch is left.
    pub rest: Option<Arc<Rest>>,
}

impl Start {
    /// The epoch that is trained first, from 0.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epochs.len() as u32
    }
}

/// When to train and when to evaluate; equal for all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Passes over the data. 0 evaluates the initial model.
    pub epochs: u32,
    /// Number of epochs between validations; 0 means no validation.
    pub valid_every: u32,
    /// End before the last epoch if validations no longer improve; `None` means never.
    pub patience: Option<Patience>,
    /// Evaluate on the test data after the last epoch.
    pub test: bool,
    /// Latency hiding: localize the keys of a batch this many batches before it is trained; 0 means not at
    /// all.
    pub localize_ahead: u32,
    /// Wait for the push of a batch before going on.
    pub synchronous: bool,
    /// Number of batches of an epoch after which all workers meet to synchronise the copies that every node
    /// keeps ([`Op::Synchronize`]). With 1 and one worker per node, training is synchronous SGD. Workers of
    /// one node share its copy: in a step, a worker may see what another worker has already added to the copy
    /// in that step. Batches are counted as if every worker had as many in a subepoch as the worker with the
    /// most: a worker that has run out of batches still comes to each meeting. `None` means never: the
    /// technique keeps copies in step by itself, or has none.
    pub synchronize: Option<NonZeroU32>,
    /// Advance the clock after this many batches of a subepoch, and after its last one; `None` means after
    /// the last one only. Techniques of bounded staleness count in clocks.
    pub clock_every: Option<NonZeroU32>,
    /// Workers meet ([`Op::Meet`]) between subepochs, and within them at the place set by
    /// [`crate::Driver::meet_after`].
    pub meets: bool,
    /// As soon as a batch is prepared, announce what will be accessed at its clock
    /// ([`crate::LoaderOp::Intend`]).
    pub intents: bool,
    /// Number of consecutive batches that share the handles of their samples and draw from them one after the
    /// other, as long as they want samples of the same distributions. Some sampling schemes make use of it:
    /// [`intendant_sampling::Sampler::portions`].
    pub sample_portions: NonZeroU32,
}

impl Schedule {
    /// A schedule of `epochs` passes over the data with a clock per batch, then the evaluation on the test
    /// data.
    #[must_use]
    pub const fn epochs(epochs: u32) -> Self {
        Self {
            epochs,
            valid_every: 0,
            patience: None,
            test: true,
            localize_ahead: 0,
            synchronous: false,
            synchronize: None,
            clock_every: NonZeroU32::new(1),
            meets: false,
            intents: false,
            sample_portions: NonZeroU32::MIN,
        }
    }
}

/// An operation that a [`crate::Driver`] wants done. The interpreter does it, then calls
/// [`crate::Driver::step`] with the [`Event`] named here.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Receive the next batch from the loader → [`Event::Batch`].
    NextBatch,
    /// Move the keys of [`crate::Driver::localize_keys`] to this node, if the technique moves keys at all →
    /// [`Event::Done`].
    Localize {
        /// Whether to continue only when the keys are here.
        wait: bool,
    },
    /// Wait until all workers have come here → [`Event::Done`].
    Barrier,
    /// Choose the keys of prepared samples: call [`crate::Driver::draw`] → [`Event::Done`].
    PullSample,
    /// Read the values of [`crate::Driver::pull_buffers`] → [`Event::Done`].
    Pull,
    /// Train the batch in place: call [`crate::Driver::train`] with the rows of [`crate::Driver::train_keys`]
    /// → [`Event::Done`]. Tasks that train in place have this operation instead of [`Op::Pull`],
    /// [`Op::Compute`] and [`Op::Push`].
    Train,
    /// Charge for the arithmetic that was just done → [`Event::Done`].
    Compute(Cost),
    /// Add the values of [`crate::Driver::push_buffers`]; need not wait for them to arrive → [`Event::Done`].
    Push,
    /// Advance this worker's clock by one → [`Event::Done`].
    AdvanceClock,
    /// Synchronise the copies that every node keeps, together with all other workers. Every worker reaches
    /// this operation equally often → [`Event::Done`].
    Synchronize,
    /// All workers are between the same two batches, and [`crate::Driver::rest`] is what is left of the
    /// epoch. They may decide together what to do about it → [`Event::Done`].
    Meet,
    /// Wait until everything that this worker pushed has been applied → [`Event::Done`].
    Flush,
    /// Wait until all workers have come here and nothing is in flight in the cluster → [`Event::Done`].
    Quiesce,
    /// Call [`crate::Driver::snapshot_part`] with every key of the range and its value, in parts →
    /// [`Event::Done`].
    Snapshot(Range<u64>),
    /// Combine [`crate::Driver::reduction`] of all workers → [`Event::Reduced`].
    Reduce,
    /// Training is over.
    Done,
}

/// What happened.
#[derive(Debug)]
pub enum Event<B> {
    /// The first event.
    Start,
    /// The operation is done.
    Done,
    /// The next batch.
    Batch(Prepared<B>),
    /// The combined sums of all workers.
    Reduced(Reduction),
}

/// Training has diverged: a loss or an update is not finite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "diverged in epoch {epoch}, step {step}{}: {what} is {value}; lower {}the learning rate",
    key.map_or(String::new(), |k| format!(", key {k}")),
    // Nothing has been learnt before the first step.
    if (*epoch, *step) == (1, 1) { "the scale of the initial values, or " } else { "" }
)]
pub struct Diverged {
    /// Epoch, from 1.
    pub epoch: u32,
    /// Step of this worker within the epoch, from 1.
    pub step: u64,
    /// The first key with an infinite value or update, if one was found.
    pub key: Option<Key>,
    /// Which quantity is not finite.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
}

/// The progress of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Batches of this epoch that this worker has trained.
    pub batches: u64,
    /// Batches of this epoch that this worker will train.
    pub batches_total: u64,
    /// Examples trained in this epoch.
    pub examples: u64,
    /// Sum of their losses.
    pub loss: f64,
}
