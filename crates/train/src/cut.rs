//! Cuts: checkpoints of a run that goes on.
//!
//! All workers meet between two batches, every few seconds and at the end of each epoch. [`Protocol`] says
//! what they tell each other and what follows from it; this module does it. For a cut the cluster becomes
//! quiescent, each node copies the values that it owns, and training goes on; a thread of each node writes
//! the copy. At a later meeting all nodes tell that their parts are durable, and node 0 commits the cut.
//!
//! A cut that one node cannot write is given up, with a warning. The run goes on, and tries again at the next
//! one. [`crate::best`] says which epochs are cut in any case, and what becomes of their cuts.

use crate::best::{self, Best, Compared, Kept};
use crate::error::TrainError;
use crate::meter::EpochSum;
use crate::origin::{Origin, RunState};
use crate::parameters::Parameters;
use crate::plan::Plan;
use crate::progress::Progress;
use crossbeam_channel::{Receiver, Sender};
use intendant_checkpoint::protocol::{Heard, Protocol, Seat, Settled, Vote, Written};
use intendant_checkpoint::{CheckpointError, Folder, Manifest, Range, Rows};
use intendant_core::{Element, KeyRange, lock};
use intendant_task::{Rest, Task};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Checkpoints that are kept.
const KEPT: usize = 2;

/// The checkpoints that a run has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Committed checkpoints.
    pub count: u64,
    /// Bytes of the newest.
    pub bytes: u64,
    /// Mean time during which training stood still for one, milliseconds: until all nodes have copied their
    /// values.
    pub stop_ms: f64,
    /// Mean time until node 0 had written its part of one, milliseconds.
    pub write_ms: f64,
}

impl Made {
    /// With one more.
    fn with(self, bytes: u64, stop: Duration, write: Duration) -> Self {
        let before = self.count as f64;
        let mean = |mean: f64, last: Duration| (mean * before + last.as_secs_f64() * 1e3) / (before + 1.0);
        Self {
            count: self.count + 1,
            bytes,
            stop_ms: mean(self.stop_ms, stop),
            write_ms: mean(self.write_ms, write),
        }
    }
}

/// What the thread that writes does.
enum Job<E> {
    Write {
        cut: u64,
        rows: Rows<E>,
    },
    Commit {
        /// Without the state of the run.
        manifest: Box<Manifest>,
        state: Box<RunState>,
        stop: Duration,
        done: Sender<Result<(), CheckpointError>>,
    },
}

/// A node's cuts: what its workers and the thread that writes share.
pub(crate) struct Cuts<E> {
    folder: Folder,
    seconds: f64,
    ranges: Vec<Range>,
    rank: u16,
    workers: usize,
    jobs: Sender<Job<E>>,
    /// What became of the last part.
    written: Mutex<Option<Written>>,
    /// Notified when something is in `written`.
    wrote: Condvar,
    made: Mutex<Made>,
    /// The signal that asks for an end of the run; 0 if there is none.
    asked: AtomicI32,
    /// The best model of an earlier run.
    best: Option<Best>,
    compared: Compared,
    /// Checkpoints of an earlier run that cannot be used.
    damaged: Vec<u64>,
    /// The last cut is made: training is over.
    is_over: AtomicBool,
    /// The model that is tested and exported, if it is not the one in memory. The node's first worker sets
    /// it, between two meetings of all workers.
    pub(crate) kept: OnceLock<Arc<Kept>>,
}

/// What the manifest of the pending cut needs beside its parts.
struct Pending {
    attempt: u64,
    state: Box<RunState>,
    stop: Duration,
    /// Its model, if that is the best one so far.
    best: Option<Best>,
}

/// A commit that the thread that writes has been told of.
struct Committing {
    attempt: u64,
    cut: u64,
    done: Receiver<Result<(), CheckpointError>>,
    /// The best model if it fails.
    best_before: Option<Best>,
}

/// What follows a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Training, and the next meeting after so many batches.
    Meeting(u64),
    /// The end of the run, because of this signal.
    End(i32),
}

/// Where the run is when workers meet.
pub(crate) struct Place<'a> {
    /// The epochs that were trained.
    pub(crate) epochs: &'a [EpochSum],
    /// What was trained of the next one before this run.
    pub(crate) before: Option<&'a EpochSum>,
    /// What is left of the epoch; `None` between epochs.
    pub(crate) rest: Option<&'a dyn Fn() -> Rest>,
    /// Whether a cut is made in any case: the model is the best so far, or the last one.
    pub(crate) must: bool,
}

/// A worker's view of the cuts.
pub(crate) struct Cutter<'a, T: Task> {
    cuts: &'a Cuts<T::Element>,
    task: &'a T,
    plan: &'a Plan,
    protocol: Protocol,
    /// When `protocol` began: its times count from there.
    began: Instant,
    /// At the leader.
    pending: Option<Pending>,
    /// How often the leader has tried to begin a cut. What became of cuts is known by the attempt: that of an
    /// earlier one may be known later.
    attempts: u64,
    /// Why the cut of an attempt is no checkpoint, the newest such one, at the leader.
    lost: Option<(u64, TrainError)>,
    /// The commit that is under way, at the leader.
    committing: Option<Committing>,
    /// The attempt of the newest checkpoint, and its place, at the leader.
    saved: Option<(u64, PathBuf)>,
    /// Whether the last cut is settled and committed.
    has_ended: bool,
    /// The best model so far, at the leader.
    best: Option<Best>,
    /// The model that is tested and exported, once it is chosen; `None` is the one in memory.
    chosen: Option<Option<Arc<Kept>>>,
}

impl<E: Element> Cuts<E> {
    /// Prepares cuts into the folder that the plan names; what the thread that writes receives.
    pub(crate) fn new(
        plan: &Plan,
        ranges: &[KeyRange],
        rank: u16,
        origin: &Origin,
    ) -> Option<(Self, Writer<E>)> {
        let folder = plan.checkpoints.folder.clone()?;
        let (jobs, queue) = crossbeam_channel::unbounded();
        let cuts = Self {
            folder,
            seconds: plan.checkpoints.seconds,
            ranges: ranges.iter().map(Range::from).collect(),
            rank,
            workers: plan.workers,
            jobs,
            written: Mutex::new(None),
            wrote: Condvar::new(),
            made: Mutex::new(origin.made),
            asked: AtomicI32::new(0),
            // A run that keeps the last model must not say that an earlier one is the best so far.
            best: origin.best.filter(|_| plan.best.is_some()),
            compared: Compared::new(plan, origin),
            damaged: origin.damaged.clone(),
            is_over: AtomicBool::new(false),
            kept: OnceLock::new(),
        };
        Some((cuts, Writer(queue)))
    }

    pub(crate) fn made(&self) -> Made {
        *lock(&self.made)
    }

    /// Whether the last cut is made: training is over, and there are no more meetings.
    pub(crate) fn is_over(&self) -> bool {
        // Nothing else is passed on with it.
        self.is_over.load(Ordering::Relaxed)
    }

    /// A signal asks for an end of the run: after a last cut, at the next meeting.
    pub(crate) fn ask_to_end(&self, signal: i32) {
        // Nothing else is passed on with it.
        self.asked.store(signal, Ordering::Relaxed);
    }

    /// The thread that writes has ended early.
    pub(crate) fn give_up(&self, error: &TrainError) {
        self.tell(Err(error.to_string()));
    }

    fn tell(&self, written: Written) {
        *lock(&self.written) = Some(written);
        self.wrote.notify_all();
    }
}

/// The queue of the thread that writes.
pub(crate) struct Writer<E>(Receiver<Job<E>>);

impl<E: Element> Writer<E> {
    /// Writes what is in the queue until `ended` is disconnected.
    pub(crate) fn run(self, cuts: &Cuts<E>, progress: &Progress, ended: &Receiver<()>) {
        let mut took = Duration::ZERO;
        loop {
            let job = crossbeam_channel::select! {
                recv(self.0) -> job => job,
                recv(ended) -> _ => return,
            };
            match job {
                Ok(Job::Write { cut, rows }) => {
                    let start = now();
                    let name = format!("part-{}", cuts.rank);
                    let part = cuts.folder.write(cut, &name, &rows).map_err(|error| error.to_string());
                    took = now() - start;
                    cuts.tell(part);
                }
                Ok(Job::Commit { mut manifest, mut state, stop, done }) => {
                    let made = cuts.made().with(manifest.bytes(), stop, took);
                    state.made = made;
                    let state = serde_json::to_value(state);
                    manifest.run = state.expect("a state has no part that cannot be serialised");
                    let committed = cuts.folder.commit(&manifest);
                    match &committed {
                        Ok(()) => {
                            *lock(&cuts.made) = made;
                            intendant::launch::tell_saved();
                            let place = cuts.folder.place(manifest.cut);
                            let size = indicatif::HumanBytes(manifest.bytes());
                            progress.say(&format!("checkpoint {}  {size}", place.display()));
                            if let Err(error) = cuts.folder.keep(KEPT, &cuts.damaged) {
                                tracing::warn!("an old checkpoint is left: {error}");
                            }
                        }
                        Err(error) => {
                            tracing::warn!("checkpoint {} is given up: {error}", manifest.cut);
                            let _ = cuts.folder.remove(manifest.cut);
                        }
                    }
                    // The leader waits for it only at the end.
                    let _ = done.send(committed);
                }
                Err(_) => return,
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "cuts are made every so many seconds")]
fn now() -> Instant {
    Instant::now()
}

impl<'a, T: Task> Cutter<'a, T> {
    pub(crate) fn new(cuts: &'a Cuts<T::Element>, (task, plan): (&'a T, &'a Plan), worker: usize) -> Self {
        let seat = Seat { node: cuts.rank, worker, workers: cuts.workers };
        Self {
            cuts,
            task,
            plan,
            protocol: Protocol::new(seat, cuts.seconds, Duration::ZERO),
            began: now(),
            pending: None,
            attempts: 0,
            lost: None,
            committing: None,
            saved: None,
            has_ended: false,
            best: cuts.best,
            chosen: None,
        }
    }

    /// The checkpoints that were made.
    pub(crate) fn made(&self) -> Made {
        self.cuts.made()
    }

    /// Which epochs are compared.
    pub(crate) const fn compared(&self) -> Compared {
        self.cuts.compared
    }

    /// After how many batches the first meeting is.
    pub(crate) const fn first_meeting(&self) -> u64 {
        self.protocol.next_meeting()
    }

    /// The time as the protocol counts it.
    fn time(&self) -> Duration {
        now() - self.began
    }

    /// Meets all other workers, which are between the same two batches. `batches` were trained since the last
    /// meeting. Makes a cut if one is due; `so_far` tells this worker's sums of the epoch so far.
    pub(crate) fn meet<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        batches: u64,
        place: &Place<'_>,
        so_far: impl FnOnce(&P) -> (Vec<u8>, f64),
    ) -> Result<Next, TrainError> {
        let Heard { mut cut, end, .. } = self.ask(parameters, batches, place.must)?;
        if end.is_some() && cut.is_none() {
            cut = self.ask(parameters, batches, true)?.cut;
        }
        if let Some(cut) = cut {
            self.cut(parameters, cut, place, so_far)?;
        }
        self.protocol.leave(self.time());
        Ok(end.map_or(Next::Meeting(self.protocol.next_meeting()), Next::End))
    }

    /// Hears whether a cut is made now. If one must be, the pending one is waited for.
    fn ask<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        batches: u64,
        must: bool,
    ) -> Result<Heard, TrainError> {
        let begun = if self.protocol.is_due(self.time(), must) { self.begin() } else { None };
        let written = self.written(must);
        let asked = Some(self.cuts.asked.load(Ordering::Relaxed)).filter(|signal| *signal != 0);
        let vote = self.protocol.vote(self.time(), batches, begun, written).asking_for_end(asked);
        self.vote(parameters, &vote)
    }

    /// After the last cut: waits until it is a checkpoint. All workers meet, the first time that they call
    /// it.
    pub(crate) fn end<P: Parameters<T::Element>>(&mut self, parameters: &mut P) -> Result<(), TrainError> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        let vote = self.protocol.last_vote(self.written(true));
        self.vote(parameters, &vote)?;
        self.await_commit();
        // No node leaves, and ends the others' threads, before the last cut is a checkpoint.
        parameters.gather("left", Vec::new())?;
        self.cuts.is_over.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Why the last cut is no checkpoint, at the leader.
    pub(crate) fn unsaved(&mut self) -> Option<TrainError> {
        let last = self.attempts;
        self.lost.take().filter(|(attempt, _)| *attempt == last).map(|(_, error)| error)
    }

    /// The place of the last cut, if it is a checkpoint, at the leader.
    pub(crate) fn saved(&mut self) -> Option<PathBuf> {
        let last = self.attempts;
        self.saved.take().filter(|(attempt, _)| *attempt == last).map(|(_, place)| place)
    }

    /// The cut of an attempt is no checkpoint.
    fn lose(&mut self, attempt: u64, error: TrainError) {
        if self.lost.as_ref().is_none_or(|(newest, _)| *newest <= attempt) {
            self.lost = Some((attempt, error));
        }
    }

    /// Waits until the cut that was settled is committed, or could not be.
    fn await_commit(&mut self) {
        let Some(Committing { attempt, cut, done, best_before }) = self.committing.take() else { return };
        match done.recv() {
            Ok(Ok(())) => self.saved = Some((attempt, self.cuts.folder.place(cut))),
            Ok(Err(error)) => {
                self.best = best_before;
                self.lose(attempt, error.into());
            }
            // The thread has ended early, and says why.
            Err(_) => self.best = best_before,
        }
    }

    /// The model that is tested and exported, after the training; `None` is the one in memory. All workers
    /// call it, and meet the first time.
    pub(crate) fn choose<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        epochs: &[EpochSum],
    ) -> Result<Option<Arc<Kept>>, TrainError> {
        if self.chosen.is_none() {
            let best = self.cuts.compared.best(epochs).filter(|best| best + 1 < epochs.len());
            let chosen = match best {
                None => None,
                Some(epoch) => {
                    self.await_commit();
                    let best = self.best.filter(|best| best.epoch == epoch).map(|best| best.cut);
                    let seat = (self.cuts.rank, self.protocol.is_first_of_node());
                    best::open(parameters, (&self.cuts.folder, &self.cuts.kept), seat, epoch, best)?
                }
            };
            self.chosen = Some(chosen);
        }
        Ok(self.chosen.clone().flatten())
    }

    /// Exchanges votes with all workers, and settles the pending cut.
    fn vote<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        vote: &Vote,
    ) -> Result<Heard, TrainError> {
        let vote = postcard::to_stdvec(vote).expect("a vote has no part that cannot be serialised");
        let told = parameters.gather("meeting", vote)?;
        let decode = |(worker, bytes): (usize, &Vec<u8>)| {
            postcard::from_bytes(bytes).map_err(|error| TrainError::Tally { worker, what: error.to_string() })
        };
        let votes: Vec<Vote> = told.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        let Some(mut heard) = self.protocol.hear(&votes) else {
            return Err(TrainError::Stopped("no worker came to a meeting".to_owned()));
        };
        if let Some(settled) = heard.settled.take() {
            self.settle(settled);
        }
        Ok(heard)
    }

    /// The leader starts a cut; `None` if that is not possible now.
    fn begin(&mut self) -> Option<u64> {
        self.protocol.begun(self.time());
        self.attempts += 1;
        match self.cuts.folder.begin() {
            Ok(cut) => Some(cut),
            Err(error) => {
                tracing::warn!("no checkpoint is made now: {error}");
                self.lose(self.attempts, error.into());
                None
            }
        }
    }

    /// What became of the node's part of the pending cut. With `waits`, it is waited for.
    fn written(&self, waits: bool) -> Option<Written> {
        if !self.protocol.tells_of_part() {
            return None;
        }
        let mut written = lock(&self.cuts.written);
        while waits && written.is_none() {
            written = self.cuts.wrote.wait(written).unwrap_or_else(PoisonError::into_inner);
        }
        written.clone()
    }

    /// Commits the cut that was pending, or gives it up.
    fn settle(&mut self, settled: Settled) {
        if self.protocol.is_first_of_node() {
            lock(&self.cuts.written).take();
        }
        // All other workers have none.
        let Some(Pending { attempt, mut state, stop, best }) = self.pending.take() else { return };
        // The commit before it is over: the same thread has written a part since.
        self.await_commit();
        match settled {
            Settled::Failed { cut, node, reason } => {
                let reason = format!("checkpoint {cut} is given up: node {node} {reason}");
                tracing::warn!("{reason}");
                self.lose(attempt, TrainError::Unsaved(reason));
                let _ = self.cuts.folder.remove(cut);
            }
            Settled::Complete { cut, parts } => {
                let best_before = self.best;
                self.best = best.or(self.best);
                state.best_epoch = self.best.map(|best| best.epoch + 1);
                let best = self.best.map(|best| best.cut);
                let ranges = self.cuts.ranges.clone();
                let manifest = Manifest::new(cut, T::Element::TYPE, ranges, parts, serde_json::Value::Null);
                let manifest = Box::new(Manifest { best, ..manifest });
                let (done, committed) = crossbeam_channel::bounded(1);
                self.committing = Some(Committing { attempt, cut, done: committed, best_before });
                let job = Job::Commit { manifest, state, stop, done };
                // If the receiver is gone, the run has failed, and says why.
                let _ = self.cuts.jobs.send(job);
            }
        }
    }

    /// Copies what this node owns, while the cluster rests.
    fn cut<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        cut: u64,
        place: &Place<'_>,
        so_far: impl FnOnce(&P) -> (Vec<u8>, f64),
    ) -> Result<(), TrainError> {
        let start = now();
        parameters.flush()?;
        parameters.quiesce()?;
        if self.protocol.is_first_of_node() {
            let mut rows = Rows::new(&self.cuts.ranges);
            parameters.snapshot_of_node(&mut |keys, values| rows.add(keys, values))?;
            // As above.
            let _ = self.cuts.jobs.send(Job::Write { cut, rows });
        }
        let (told, seconds) = so_far(parameters);
        // No worker trains on before all nodes have their copies.
        let told = parameters.gather("cut", told)?;
        if self.protocol.is_leader() {
            let under_way = match &place.rest {
                None => None,
                Some(rest) => {
                    let mut sum = EpochSum::new(&told, seconds)?;
                    if let Some(before) = place.before {
                        sum.continues(before);
                    }
                    Some((sum, rest()))
                }
            };
            let is_best = place.rest.is_none() && self.compared().is_last_best(place.epochs);
            let best = place.epochs.len().checked_sub(1).filter(|_| is_best);
            let best = best.map(|epoch| Best { cut, epoch });
            let state = RunState::new(self.task, self.plan, place.epochs, under_way);
            self.pending =
                Some(Pending { attempt: self.attempts, state: Box::new(state), stop: now() - start, best });
        }
        Ok(())
    }
}
