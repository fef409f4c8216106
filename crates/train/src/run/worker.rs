//! The interpreters of the two programs of a worker: [`Driver`] on its training thread, [`Loader`] on its
//! loader thread.

use super::ahead::{Inbox, Outbox};
use super::best::Kept;
use super::cut::{Cutter, Next, Place};
use super::meter::Meter;
use super::parameters::{NodeHandle, Parameters};
use crate::error::TrainError;
use crate::report::metrics::{Board, Queues, Watch};
use crate::report::{Epoch, EpochSum, History, Progress, Totals, add_first_loss, first_loss};
use intendant::{Mark, Work};
use intendant_checkpoint::protocol::End;
use intendant_core::{Element, Key};
use intendant_task::{Driver, Event, Loader, LoaderEvent, LoaderOp, Op, Task};
use std::sync::Arc;

/// Prepares batches until none is left or the training thread has ended.
pub(crate) fn load<T: Task>(
    mut loader: Loader<T>,
    node: &dyn NodeHandle,
    worker: usize,
    batches: &mut Outbox<T::Batch>,
) -> Result<(), TrainError> {
    node.give_way(Work::Load);
    let mut event = LoaderEvent::Start;
    loop {
        event = match loader.step(event) {
            LoaderOp::PrepareSample(request) => {
                let handle = node.prepare_sample(&request);
                let handle = handle.map_err(|source| TrainError::Sample { worker, source })?;
                LoaderEvent::Prepared(handle)
            }
            LoaderOp::Intend => {
                node.intend(worker, loader.next_intent())?;
                LoaderEvent::Done
            }
            LoaderOp::Deliver => match batches.send(loader.take()) {
                Ok(()) => LoaderEvent::Done,
                // The training thread has ended early and reports why.
                Err(_) => return Ok(()),
            },
            LoaderOp::Done => return Ok(()),
        };
    }
}

/// What a training thread needs in addition to the program and the parameters.
pub(crate) struct Station<'a, T: Task> {
    /// Index within the node.
    pub(crate) worker: usize,
    /// Number among all workers.
    pub(crate) number: u32,
    pub(crate) batches: Inbox<T::Batch>,
    pub(crate) node: &'a dyn NodeHandle,
    pub(crate) progress: &'a Progress,
    /// Where results of epochs are written, if this worker does so.
    pub(crate) history: Option<History>,
    /// Where the numbers of the run are published, if metrics are served.
    pub(crate) board: Option<&'a Board>,
    /// Makes checkpoints, if the run has some.
    pub(crate) cutter: Option<Cutter<'a, T::Element>>,
    /// What an earlier run trained: its epochs, and of the epoch that goes on.
    pub(crate) totals: Totals,
    pub(crate) before: Option<EpochSum>,
}

/// Trains to the end, or until a signal asks for an end and the last checkpoint is under way; that signal.
pub(crate) fn train<T: Task, P: Parameters<T::Element>>(
    mut driver: Driver<T>,
    parameters: &mut P,
    station: &mut Station<'_, T>,
) -> Result<(Totals, Option<End>), TrainError> {
    let worker = station.worker;
    station.node.give_way(Work::Train);
    let watch = station.board.map(|board| Watch::new(board, worker));
    let mut meter = Meter::new(worker == 0, station.node, watch);
    let (mut totals, mut untrained) = (std::mem::take(&mut station.totals), None);
    // Batches since the last meeting.
    let mut batches = 0;
    driver.meet_after(station.cutter.as_ref().map(Cutter::first_meeting));
    let mut event = Event::Start;
    meter.begin(parameters.accesses());
    loop {
        event = match driver.step(event)? {
            Op::NextBatch => {
                match station.batches.recv() {
                    Ok(prepared) => Event::Batch(prepared),
                    // The loader has ended early and reports why.
                    Err(_) => return Err(TrainError::Stopped("the loader ended early".to_owned())),
                }
            }
            Op::Localize { wait } => {
                parameters.localize(driver.localize_keys(), wait)?;
                Event::Done
            }
            Op::Barrier => {
                if driver.is_starting() {
                    meter.rest();
                }
                parameters.gather("barrier", Vec::new())?;
                if driver.is_starting() {
                    // Keys that moved so far are not charged to the epoch.
                    meter.begin(parameters.accesses());
                }
                Event::Done
            }
            Op::PullSample => {
                driver.draw(|handle, samples, keys| parameters.draw(handle, samples, keys))?;
                Event::Done
            }
            Op::Pull => {
                let sampled = driver.sampled_keys();
                if sampled > 0 {
                    parameters.count_sampled(sampled);
                }
                let kept = tested(&driver, parameters, &mut station.cutter, &totals)?;
                let (keys, values) = driver.pull_buffers();
                match kept {
                    Some(kept) => kept.pull(keys, values)?,
                    None => parameters.pull(keys, values)?,
                }
                Event::Done
            }
            Op::Train => {
                let sampled = driver.sampled_keys();
                if sampled > 0 {
                    parameters.count_sampled(sampled);
                }
                driver.train(|keys, act| parameters.train(keys, act))?;
                batches += 1;
                let progress = driver.progress();
                untrained = first_loss(&progress).or(untrained);
                station.progress.update(worker, &progress);
                let queues = || queues(&station.batches, parameters);
                meter.step(&progress, || parameters.accesses(), queues);
                Event::Done
            }
            Op::Compute(_) => {
                let progress = driver.progress();
                untrained = first_loss(&progress).or(untrained);
                station.progress.update(worker, &progress);
                Event::Done
            }
            Op::Push => {
                let (keys, values) = driver.push_buffers();
                parameters.push(keys, values)?;
                batches += 1;
                let queues = || queues(&station.batches, parameters);
                meter.step(&driver.progress(), || parameters.accesses(), queues);
                Event::Done
            }
            Op::AdvanceClock => {
                parameters.advance_clock();
                Event::Done
            }
            Op::Synchronize => {
                parameters.synchronize()?;
                Event::Done
            }
            Op::Meet => {
                if let Some(cutter) = &mut station.cutter {
                    let rest = || driver.rest();
                    let place = Place {
                        epochs: &totals.epochs,
                        before: station.before.as_ref(),
                        rest: Some(&rest),
                        must: false,
                    };
                    let mut so_far = |parameters: &P| {
                        let mut reduction = driver.reduction().clone();
                        if let Some(loss) = untrained {
                            add_first_loss(&mut reduction, station.number, loss);
                        }
                        (meter.tell_so_far(reduction, parameters.accesses()), meter.seconds())
                    };
                    let next = cutter.meet(parameters, std::mem::take(&mut batches), &place, &mut so_far)?;
                    match next {
                        Next::Meeting(batches) => driver.meet_after(Some(driver.trained() + batches)),
                        Next::End(end) => return Ok((totals, Some(end))),
                    }
                }
                Event::Done
            }
            Op::Flush => {
                parameters.flush()?;
                meter.flushed(parameters.accesses());
                Event::Done
            }
            Op::Quiesce => {
                parameters.quiesce()?;
                meter.quiesced();
                Event::Done
            }
            Op::Snapshot(range) => {
                let kept = tested(&driver, parameters, &mut station.cutter, &totals)?;
                let part = &mut |keys: &[Key], values: &[T::Element]| driver.snapshot_part(keys, values);
                match kept {
                    Some(kept) => kept.snapshot(range, part)?,
                    None => parameters.snapshot(range, part)?,
                }
                Event::Done
            }
            Op::Reduce => {
                let epoch = driver.combined().len();
                let is_test = driver.is_testing();
                let mut reduction = driver.reduction().clone();
                if let Some(loss) = untrained.take() {
                    add_first_loss(&mut reduction, station.number, loss);
                }
                let told = meter.tell(reduction);
                meter.rest();
                let all = parameters.gather(if is_test { "test" } else { "epoch" }, told)?;
                let mut sum = EpochSum::new(&all, meter.seconds())?;
                if let Some(before) = station.before.take().filter(|_| !is_test) {
                    sum.continues(&before);
                }
                let combined = sum.tally.reduction.clone();
                if is_test {
                    totals.test = Some(sum);
                } else {
                    station.progress.epoch_ended(worker, epoch + 1, &sum);
                    if station.number == 0 {
                        station.node.mark(Mark::Epoch, epoch as u64 + 1);
                    }
                    if let Some(board) = station.board.filter(|_| worker == 0) {
                        board.epoch_ended(epoch + 1, &sum);
                    }
                    if let Some(history) = &mut station.history {
                        history.epoch(&Epoch::new(epoch + 1, &sum, history.channels()));
                    }
                    totals.epochs.push(sum);
                    if let Some(cutter) = &mut station.cutter {
                        let must =
                            driver.ends_with(&combined) || cutter.compared().is_last_best(&totals.epochs);
                        let place = Place { epochs: &totals.epochs, before: None, rest: None, must };
                        let mut nothing = |_: &P| (Vec::new(), 0.0);
                        let next =
                            cutter.meet(parameters, std::mem::take(&mut batches), &place, &mut nothing)?;
                        match next {
                            Next::Meeting(batches) => driver.meet_after(Some(batches)),
                            Next::End(end) => return Ok((totals, Some(end))),
                        }
                        if driver.ends_with(&combined) {
                            // The test may take long: the model is safe before it.
                            cutter.end(parameters)?;
                        }
                    }
                }
                meter.begin(parameters.accesses());
                Event::Reduced(combined)
            }
            Op::Done => return Ok((totals, None)),
        };
    }
}

/// How much work waits at a worker.
fn queues<E: Element, B, P: Parameters<E>>(prepared: &Inbox<B>, parameters: &P) -> Queues {
    let (operations, bytes) = parameters.outstanding();
    Queues { batches: prepared.len(), operations, bytes }
}

/// The model that is evaluated, if it is not the one in memory.
fn tested<T: Task, P: Parameters<T::Element>>(
    driver: &Driver<T>,
    parameters: &mut P,
    cutter: &mut Option<Cutter<'_, T::Element>>,
    totals: &Totals,
) -> Result<Option<Arc<Kept>>, TrainError> {
    match cutter {
        Some(cutter) if driver.is_testing() => cutter.choose(parameters, &totals.epochs),
        Some(_) | None => Ok(None),
    }
}

/// Runs `act`, turning a panic into an error: other threads would wait forever for a thread that has
/// vanished.
pub(crate) fn guarded<R>(thread: &str, act: impl FnOnce() -> Result<R, TrainError>) -> Result<R, TrainError> {
    // The run ends after a panic, so that nothing uses what `act` borrows.
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    caught.unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(TrainError::Panicked { thread: thread.to_owned(), message })
    })
}
