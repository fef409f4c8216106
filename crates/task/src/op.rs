//! What a [`crate::Driver`] wants done, what it hears, and what it is told to do.

use crate::{Cost, Patience, Prepared, Reduction, Rest};
use intendant_core::Key;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// Where a run begins: at the first batch (the default), or where an earlier run stopped.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The combined sums of the epochs that were trained. Tasks are told of them again
    /// ([`crate::Task::epoch_ended`]), so that what adapts to the course of the training is where it was.
    pub epochs: Vec<Reduction>,
    /// What is left of the epoch after these; `None` if all of it is.
    pub rest: Option<Arc<Rest>>,
}

impl Start {
    /// The epoch that is trained first, from 0.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epochs.len() as u32
    }
}

/// When what is trained and evaluated; equal for all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Passes over the data. 0 evaluates the initial model.
    pub epochs: u32,
    /// Validate after every so many epochs; 0 means never.
    pub valid_every: u32,
    /// End before the last epoch if validations no longer improve; `None` means never.
    pub patience: Option<Patience>,
    /// Evaluate on the test data after the last epoch.
    pub test: bool,
    /// Latency hiding: localize the keys of a batch so many batches before it is trained; 0 means not at all.
    pub localize_ahead: u32,
    /// Wait for the push of a batch before going on.
    pub synchronous: bool,
    /// All workers meet in a synchronisation of the copies that every node keeps ([`Op::Synchronize`]) after
    /// every so many batches of an epoch. With 1 and one worker per node, training is synchronous SGD;
    /// workers of one node share its copy, and may see in a step what another one of them has already added
    /// in it. Batches are counted as if all workers had as many in a subepoch as the one with the most: who
    /// has run out of them still comes to each meeting. `None` means never: the technique keeps copies in
    /// step by itself, or has none.
    pub synchronize: Option<NonZeroU32>,
    /// Advance the clock after every so many batches of a subepoch and after its last one; `None` means after
    /// the last one only. It is the unit in which techniques of bounded staleness count.
    pub clock_every: Option<NonZeroU32>,
    /// Workers meet ([`Op::Meet`]) between subepochs, and within them wherever [`crate::Driver::meet_after`]
    /// says.
    pub meets: bool,
    /// Announce, as soon as a batch is prepared, what will be accessed while the worker's clock is that of
    /// the batch ([`crate::LoaderOp::Intend`]).
    pub intents: bool,
    /// So many batches in a row share the handles of their samples, as far as they want samples of the same
    /// distributions, and draw from them one after the other. Some sampling schemes make use of it:
    /// [`intendant_sampling::Sampler::portions`].
    pub sample_portions: NonZeroU32,
}

impl Schedule {
    /// So many passes over the data, a clock per batch, then the evaluation on the test data; nothing else.
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

/// What a [`crate::Driver`] wants done. The interpreter does it, then calls [`crate::Driver::step`] with the
/// [`Event`] named here.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Receive the next batch from the loader → [`Event::Batch`].
    NextBatch,
    /// Move the keys of [`crate::Driver::localize_keys`] to this node, if the technique moves keys at all →
    /// [`Event::Done`].
    Localize {
        /// Whether to go on only when they are here.
        wait: bool,
    },
    /// Wait until all workers have come here → [`Event::Done`].
    Barrier,
    /// Choose the keys of prepared samples: call [`crate::Driver::draw`] → [`Event::Done`].
    PullSample,
    /// Read the values of [`crate::Driver::pull_buffers`] → [`Event::Done`].
    Pull,
    /// Train the batch in place: call [`crate::Driver::train`] with the rows of [`crate::Driver::train_keys`]
    /// → [`Event::Done`]. Tasks that do so have this operation instead of [`Op::Pull`], [`Op::Compute`] and
    /// [`Op::Push`].
    Train,
    /// Charge for arithmetic that was just done → [`Event::Done`].
    Compute(Cost),
    /// Add the values of [`crate::Driver::push_buffers`]; need not wait for them to arrive → [`Event::Done`].
    Push,
    /// Advance this worker's clock by one → [`Event::Done`].
    AdvanceClock,
    /// Bring the copies that every node keeps in step, together with all other workers, each of which comes
    /// here as often → [`Event::Done`].
    Synchronize,
    /// All workers are between the same two batches, and [`crate::Driver::rest`] is what is left: they may
    /// decide together what to do about it → [`Event::Done`].
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

/// Training stopped making sense: a loss or an update is not finite.
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
    /// The first key with an infinite value or update, if it could be told.
    pub key: Option<Key>,
    /// What was found.
    pub what: &'static str,
    /// The value found.
    pub value: f64,
}

/// How far a worker is.
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
