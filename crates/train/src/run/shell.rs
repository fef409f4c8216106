//! What surrounds the training of every run: the thread that waits for a signal, the one that writes
//! checkpoints, the first error, and the results.
//!
//! Training is what is passed to [`Shell::train`]: the threads of a node, a simulation, or a program. An
//! error in any thread ends the run: the first one is kept, and what follows from it is dropped. Results come
//! first: the report and the table are written before the exported model takes its place, and a failing
//! output does not keep the others from being written.

use super::cut::{Cuts, Writer};
use super::outcome::Outcome;
use super::worker::guarded;
use crate::clock::now;
use crate::error::{PathDisplay, TrainError};
use crate::export::Staging;
use crate::report::{Made, Progress, Report, Totals, finish};
use crate::settings::{Plan, Technique};
use crossbeam_channel::{RecvTimeoutError, bounded};
use intendant_checkpoint::protocol;
use intendant_core::{Element, lock};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Why a run is to end on all nodes.
pub(super) struct Reason {
    pub(super) text: String,
    /// A signal asks for it.
    pub(super) is_signal: bool,
    /// The cluster has failed, so that the other nodes know it.
    pub(super) is_known: bool,
}

impl Reason {
    pub(super) fn of(error: &TrainError) -> Self {
        Self {
            text: error.to_string(),
            is_signal: matches!(error, TrainError::Interrupted(_)),
            is_known: matches!(error, TrainError::Cluster(_) | TrainError::Nodes { .. }),
        }
    }
}

/// Ends a run on all nodes.
pub(super) type End<'a> = dyn Fn(&Reason) + Sync + 'a;

/// Keeps the first error and ends the run.
pub(super) struct FirstFailure<'a> {
    error: Mutex<Option<TrainError>>,
    has_failed: AtomicBool,
    end: &'a End<'a>,
}

impl<'a> FirstFailure<'a> {
    pub(super) const fn new(end: &'a End<'a>) -> Self {
        Self { error: Mutex::new(None), has_failed: AtomicBool::new(false), end }
    }

    /// An error. What the end of the run causes must not be taken for the cause: the run ends after the error
    /// is kept.
    pub(super) fn note(&self, error: TrainError) {
        let reason = Reason::of(&error);
        let is_first = {
            let mut first = lock(&self.error);
            let is_first = first.is_none();
            first.get_or_insert(error);
            is_first
        };
        if is_first {
            // Release: pairs with the Acquire of `has_failed`; the error is there.
            self.has_failed.store(true, Ordering::Release);
            (self.end)(&reason);
        }
    }

    /// Whether the run is to end.
    pub(super) fn has_failed(&self) -> bool {
        // Acquire: pairs with the Release of `note`.
        self.has_failed.load(Ordering::Acquire)
    }

    /// Becomes true with the first error.
    pub(super) const fn flag(&self) -> &AtomicBool {
        &self.has_failed
    }

    fn take(&self) -> Option<TrainError> {
        lock(&self.error).take()
    }
}

/// A shorter training needs no more workers.
const WORTH_MORE_WORKERS: Duration = Duration::from_secs(10);

/// The surroundings of a training.
pub(super) struct Shell<'a, E: Element> {
    pub(super) plan: &'a Plan,
    pub(super) rank: u16,
    pub(super) cuts: Option<&'a Cuts<E>>,
    pub(super) progress: &'a Progress,
    pub(super) failure: &'a FirstFailure<'a>,
}

impl<E: Element> Shell<'_, E> {
    /// Trains by `train`, which notes the errors of its threads. A signal ends the run, after a last
    /// checkpoint if there are some. `writer` writes checkpoints, and tells `committed` of each.
    ///
    /// # Errors
    /// The first one.
    pub(super) fn train<R>(
        &self,
        writer: Option<Writer<E>>,
        committed: &(dyn Fn(u64) + Sync),
        train: impl FnOnce() -> Result<R, TrainError>,
    ) -> Result<R, TrainError> {
        let (mut train, mut trained) = (Some(train), None);
        self.run(writer, committed, &mut || {
            trained = train.take().map(|train| train()).transpose()?;
            Ok(())
        })?;
        Ok(trained.expect("it was called and returned no error"))
    }

    /// As [`Shell::train`], without the result: compiled once.
    #[inline(never)]
    pub(super) fn run(
        &self,
        writer: Option<Writer<E>>,
        committed: &(dyn Fn(u64) + Sync),
        train: &mut dyn FnMut() -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let Self { plan, cuts, progress, failure, .. } = *self;
        let grace = self.saving().map_or(Duration::ZERO, |_| plan.checkpoints.grace);
        let (claim, began) = (plan.interrupt.claim(grace), now());
        let trained = thread::scope(|scope| {
            let (end, ended) = bounded::<()>(0);
            // It ends after the training: the last part may be on its way.
            let (written, all_written) = bounded::<()>(0);
            let refused = |source| TrainError::System { what: "start a thread", source };
            if let (Some(writer), Some(cuts)) = (writer, cuts) {
                let write = move || {
                    let run = || {
                        writer.run(cuts, (committed, progress), &all_written);
                        Ok(())
                    };
                    if let Err(error) = guarded("checkpoint", run) {
                        // Workers need not wait for a part any more.
                        cuts.give_up(&error);
                        failure.note(error);
                    }
                };
                named("checkpoint".to_owned()).spawn_scoped(scope, write).map_err(refused)?;
            }
            let watch = move || self.watch(&ended, grace);
            named("interrupt".to_owned()).spawn_scoped(scope, watch).map_err(refused)?;
            let trained = train();
            drop((end, written));
            trained
        });
        drop(claim);
        if now().saturating_duration_since(began) >= WORTH_MORE_WORKERS {
            self.tell_of_idle_cores();
        }
        trained.unwrap_or_else(|error| failure.note(error));
        failure.take().map_or(Ok(()), Err)
    }

    /// Says so if a single worker has trained although the machine has more cores.
    fn tell_of_idle_cores(&self) {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let Plan { nodes: 1, workers: 1, simulation: None, technique, .. } = self.plan else { return };
        if cores > 1 && !matches!(technique, Technique::Own(_)) {
            let said =
                format!("one worker has trained, on a machine with {cores} cores; see --workers and --nodes");
            self.progress.say(&said);
        }
    }

    /// The cuts, if they are written as checkpoints: then a signal ends the run after a last one.
    fn saving(&self) -> Option<&Cuts<E>> {
        self.cuts.filter(|cuts| cuts.saves())
    }

    /// Waits for a signal, until the training has `ended`.
    fn watch(&self, ended: &crossbeam_channel::Receiver<()>, grace: Duration) {
        let Some(signal) = self.plan.interrupt.wait(ended) else { return };
        if let Some(cuts) = self.saving().filter(|cuts| !cuts.is_over()) {
            cuts.ask_to_end(signal);
            if !grace.is_zero() && self.rank == 0 && self.plan.progress {
                self.progress.say("writing a last checkpoint; another signal ends the run at once");
            }
            // Nothing is sent: the training ends after a last checkpoint.
            if ended.recv_timeout(grace) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            tracing::warn!("there is no last checkpoint: {} s were not enough", grace.as_secs_f64());
        }
        self.failure.note(TrainError::Interrupted(signal));
    }
}

/// A trained model: the sums of its epochs, and its files if it is exported from here. Those are not in their
/// place yet.
#[derive(Default)]
pub(super) struct Trained {
    pub(super) totals: Totals,
    pub(super) exported: Option<Result<Staging, TrainError>>,
    pub(super) made: Option<Made>,
    /// The epoch, from 1, whose model was tested and is exported; `None` is the last one.
    pub(super) kept: Option<usize>,
    /// Why the last checkpoint could not be made.
    pub(super) unsaved: Option<TrainError>,
    /// What ended the training early, and the last checkpoint at node 0.
    pub(super) interrupted: Option<(protocol::End, Option<PathBuf>)>,
}

impl Trained {
    /// The outcome of a run that ended well on all nodes. `report` makes its report; node 0 writes it.
    ///
    /// # Errors
    /// If the run was to end early, an output cannot be written, or the last checkpoint is missing. The
    /// results are written nevertheless, as far as that is possible.
    pub(super) fn conclude(
        self,
        (plan, rank): (&Plan, u16),
        report: impl FnOnce(&Totals) -> Report,
    ) -> Result<Outcome, TrainError> {
        let Self { totals, exported, made, kept, unsaved, interrupted } = self;
        match interrupted {
            Some((protocol::End::Nodes(nodes), _)) => return Err(TrainError::Regroups { nodes }),
            Some((protocol::End::Signal(signal), saved)) => {
                if let Some(unsaved) = unsaved {
                    tracing::warn!("there is no last checkpoint: {unsaved}");
                }
                return Err(match saved {
                    Some(place) => TrainError::Saved { signal, place: PathDisplay(place) },
                    None => TrainError::Interrupted(signal),
                });
            }
            None => {}
        }
        let mut report = report(&totals);
        report.checkpoints = made.filter(|_| plan.checkpoints.folder.is_some());
        if let (Some(validation), Some(epoch)) = (&mut report.validation, kept) {
            validation.model_epoch = Some(epoch);
        }
        if rank == 0 {
            finish(&report, plan, exported)?;
        }
        match unsaved {
            Some(error) => Err(error),
            None => Ok(Outcome { rank, report }),
        }
    }
}

/// A thread of this name, which has not started.
pub(super) fn named(name: String) -> thread::Builder {
    thread::Builder::new().name(name)
}
