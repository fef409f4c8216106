//! Cuts: checkpoints of a run that goes on.
//!
//! All workers meet between two batches, every few seconds and at the end of each epoch. The *leader*, the
//! first worker of all, says whether a cut is due, and when the next meeting is; its clock is the only one
//! that counts, so that all workers come to the same decision. For a cut the cluster becomes quiescent, each
//! node copies the values that it owns, and training goes on; a thread of each node writes the copy. At a
//! later meeting all nodes tell that their parts are durable, and node 0 commits the cut.
//!
//! A cut that one node cannot write is given up, with a warning. The run goes on, and tries again at the next
//! one.

use crate::error::TrainError;
use crate::meter::EpochSum;
use crate::origin::RunState;
use crate::parameters::Parameters;
use crate::plan::Plan;
use crate::progress::Progress;
use crossbeam_channel::{Receiver, Sender};
use intendant_checkpoint::{CheckpointError, Folder, Manifest, Part, Range, Rows};
use intendant_core::{Element, KeyRange, lock};
use intendant_task::{Rest, Task};
use serde::{Deserialize, Serialize};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Checkpoints that are kept.
const KEPT: usize = 2;

/// Batches before the first meeting, when no worker knows yet how long a batch takes.
const FIRST_MEETING: u64 = 16;

/// Meetings become rarer by this factor at most: what the first batches took says little.
const RARER: u64 = 8;

/// Seconds between two meetings at most: a part that is written is committed at the next one.
const MEETING_SECONDS_MAX: f64 = 5.0;

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
    fn add(&mut self, bytes: u64, stop: Duration, write: Duration) {
        let before = self.count as f64;
        let mean = |mean: f64, last: Duration| (mean * before + last.as_secs_f64() * 1e3) / (before + 1.0);
        *self = Self {
            count: self.count + 1,
            bytes,
            stop_ms: mean(self.stop_ms, stop),
            write_ms: mean(self.write_ms, write),
        };
    }
}

/// What a worker tells the others at a meeting.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Vote {
    /// The leader: the cut that is due, by its number.
    cut: Option<u64>,
    /// The leader: batches to the next meeting.
    next: u64,
    /// The first worker of a node whose part of the pending cut is written, or could not be.
    written: Option<Result<Part, String>>,
}

/// What the thread that writes does.
enum Job<E> {
    Write { cut: u64, rows: Rows<E> },
    Commit { manifest: Box<Manifest>, stop: Duration, done: Sender<Result<(), CheckpointError>> },
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
    written: Mutex<Option<Result<Part, String>>>,
    /// Notified when something is in `written`.
    wrote: Condvar,
    made: Mutex<Made>,
}

/// A cut whose parts are being written.
struct Pending {
    cut: u64,
    /// Node 0 needs it for the manifest.
    state: Option<serde_json::Value>,
    stop: Duration,
}

/// Where the run is when workers meet.
pub(crate) struct Place<'a> {
    /// The epochs that were trained.
    pub(crate) epochs: &'a [EpochSum],
    /// What was trained of the next one before this run.
    pub(crate) before: Option<&'a EpochSum>,
    /// What is left of the epoch; `None` between epochs.
    pub(crate) rest: Option<&'a dyn Fn() -> Rest>,
    /// Whether a cut is made in any case: the training is over.
    pub(crate) is_end: bool,
}

/// A worker's view of the cuts.
pub(crate) struct Cutter<'a, T: Task> {
    cuts: &'a Cuts<T::Element>,
    task: &'a T,
    plan: &'a Plan,
    /// Index within the node.
    worker: usize,
    pending: Option<Pending>,
    /// Why the last cut is no checkpoint, at the leader.
    lost: Option<TrainError>,
    /// What became of the last commit, at the leader.
    committed: Option<Receiver<Result<(), CheckpointError>>>,
    last_cut: Instant,
    last_meeting: Instant,
    /// Batches between the last two meetings.
    interval: u64,
}

impl<E: Element> Cuts<E> {
    /// Prepares cuts into the folder that the plan names; what the thread that writes receives.
    pub(crate) fn new(plan: &Plan, ranges: &[KeyRange], rank: u16, made: Made) -> Option<(Self, Writer<E>)> {
        let folder = Folder::new(plan.checkpoints.folder.as_ref()?);
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
            made: Mutex::new(made),
        };
        Some((cuts, Writer(queue)))
    }

    pub(crate) fn made(&self) -> Made {
        *lock(&self.made)
    }

    /// The thread that writes has ended early.
    pub(crate) fn give_up(&self, error: &TrainError) {
        self.tell(Err(error.to_string()));
    }

    fn tell(&self, written: Result<Part, String>) {
        *lock(&self.written) = Some(written);
        self.wrote.notify_all();
    }

    fn is_leader(&self, worker: usize) -> bool {
        self.rank == 0 && worker == 0
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
                Ok(Job::Commit { manifest, stop, done }) => {
                    let committed = cuts.folder.commit(&manifest);
                    match &committed {
                        Ok(()) => {
                            let (bytes, place) = (manifest.bytes(), cuts.folder.place(manifest.cut));
                            lock(&cuts.made).add(bytes, stop, took);
                            intendant::launch::tell_saved();
                            let size = indicatif::HumanBytes(bytes);
                            progress.say(&format!("checkpoint {}  {size}", place.display()));
                            if let Err(error) = cuts.folder.keep(KEPT) {
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
        let now = now();
        Self {
            cuts,
            task,
            plan,
            worker,
            pending: None,
            lost: None,
            committed: None,
            last_cut: now,
            last_meeting: now,
            interval: FIRST_MEETING,
        }
    }

    /// The checkpoints that were made.
    pub(crate) fn made(&self) -> Made {
        self.cuts.made()
    }

    /// After how many batches the first meeting is.
    pub(crate) const fn first_meeting(&self) -> u64 {
        self.interval
    }

    /// The leader says how many batches the next meeting is away.
    fn next_meeting(&mut self, batches: u64) -> u64 {
        let lap = (now() - self.last_meeting).as_secs_f64().max(1e-6);
        let goal = (self.cuts.seconds / 4.0).min(MEETING_SECONDS_MAX);
        let wanted = batches.max(1) as f64 * goal / lap;
        (wanted as u64).clamp(1, self.interval.saturating_mul(RARER))
    }

    /// Meets all other workers, which are between the same two batches. `batches` were trained since the last
    /// meeting. Makes a cut if one is due; `so_far` tells this worker's sums of the epoch so far. Returns
    /// after how many batches the next meeting is.
    pub(crate) fn meet<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        batches: u64,
        place: &Place<'_>,
        so_far: impl FnOnce(&P) -> (Vec<u8>, f64),
    ) -> Result<u64, TrainError> {
        let is_leader = self.cuts.is_leader(self.worker);
        let mut vote = Vote::default();
        if is_leader {
            vote.next = self.next_meeting(batches);
            let is_due = (now() - self.last_cut).as_secs_f64() >= self.cuts.seconds;
            // One at a time: the copy of a cut takes as much memory as its values.
            if (is_due && self.pending.is_none()) || place.is_end {
                vote.cut = self.begin();
            }
        }
        let votes = self.vote(parameters, vote, place.is_end)?;
        let Some(leader) = votes.first() else {
            return Err(TrainError::Stopped("no worker came to a meeting".to_owned()));
        };
        if let Some(cut) = leader.cut {
            self.cut(parameters, cut, place, so_far)?;
        }
        self.interval = leader.next.max(1);
        self.last_meeting = now();
        Ok(self.interval)
    }

    /// After the last cut: waits until it is a checkpoint; at the leader, why it is none.
    pub(crate) fn end<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
    ) -> Result<Option<TrainError>, TrainError> {
        self.vote(parameters, Vote::default(), true)?;
        if let Some(Ok(Err(error))) = self.committed.take().map(|committed| committed.recv()) {
            self.lost = Some(error.into());
        }
        // No node leaves, and ends the others' threads, before the last cut is a checkpoint.
        parameters.gather("left", Vec::new())?;
        Ok(self.lost.take())
    }

    /// Adds what became of the node's part to a vote, exchanges votes with all workers, and settles the
    /// pending cut. With `waits`, the part is waited for.
    fn vote<P: Parameters<T::Element>>(
        &mut self,
        parameters: &mut P,
        mut vote: Vote,
        waits: bool,
    ) -> Result<Vec<Vote>, TrainError> {
        if self.worker == 0 && self.pending.is_some() {
            if waits {
                self.wait_for_part();
            }
            vote.written.clone_from(&lock(&self.cuts.written));
        }
        let vote = postcard::to_stdvec(&vote).expect("a vote has no part that cannot be serialised");
        let told = parameters.gather("meeting", vote)?;
        let decode = |(worker, bytes): (usize, &Vec<u8>)| {
            postcard::from_bytes(bytes).map_err(|error| TrainError::Tally { worker, what: error.to_string() })
        };
        let votes: Vec<Vote> = told.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        self.settle(&votes);
        Ok(votes)
    }

    /// The leader starts a cut; `None` if that is not possible now.
    fn begin(&mut self) -> Option<u64> {
        self.last_cut = now();
        match self.cuts.folder.begin() {
            Ok(cut) => {
                self.lost = None;
                Some(cut)
            }
            Err(error) => {
                tracing::warn!("no checkpoint is made now: {error}");
                self.lost = Some(error.into());
                None
            }
        }
    }

    /// Waits for the thread that writes.
    fn wait_for_part(&self) {
        let mut written = lock(&self.cuts.written);
        while written.is_none() {
            written = self.cuts.wrote.wait(written).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Commits the pending cut if all nodes have written their parts, or gives it up if one could not.
    fn settle(&mut self, votes: &[Vote]) {
        let Some(pending) = &self.pending else { return };
        let of_nodes = || votes.iter().step_by(self.cuts.workers).map(|vote| &vote.written);
        // All of them: what one node writes late would else be taken for its part of the next cut.
        let Some(written) = of_nodes().cloned().collect::<Option<Vec<_>>>() else { return };
        let failed =
            (0_usize..).zip(&written).find_map(|(node, part)| Some((node, part.as_ref().err()?.clone())));
        let parts: Vec<Part> = written.into_iter().filter_map(Result::ok).collect();
        if self.cuts.is_leader(self.worker) {
            if let Some((node, reason)) = failed {
                let reason = format!("checkpoint {} is given up: node {node} {reason}", pending.cut);
                tracing::warn!("{reason}");
                self.lost = Some(TrainError::Unsaved(reason));
                let _ = self.cuts.folder.remove(pending.cut);
            } else {
                self.lost = None;
                let state = pending.state.clone().unwrap_or_default();
                let ranges = self.cuts.ranges.clone();
                let manifest = Manifest::new(pending.cut, T::Element::TYPE, ranges, parts, state);
                let (done, committed) = crossbeam_channel::bounded(1);
                let job = Job::Commit { manifest: Box::new(manifest), stop: pending.stop, done };
                // If the receiver is gone, the run has failed, and says why.
                let _ = self.cuts.jobs.send(job);
                self.committed = Some(committed);
            }
        }
        if self.worker == 0 {
            lock(&self.cuts.written).take();
        }
        self.pending = None;
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
        if self.worker == 0 {
            let mut rows = Rows::new(&self.cuts.ranges);
            parameters.snapshot_of_node(&mut |keys, values| rows.add(keys, values))?;
            // As above.
            let _ = self.cuts.jobs.send(Job::Write { cut, rows });
        }
        let (told, seconds) = so_far(parameters);
        // No worker trains on before all nodes have their copies.
        let told = parameters.gather("cut", told)?;
        let state = if self.cuts.is_leader(self.worker) {
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
            let state = RunState::new(self.task, self.plan, place.epochs, under_way, self.cuts.made());
            Some(serde_json::to_value(state).map_err(|error| TrainError::usage(error.to_string()))?)
        } else {
            None
        };
        self.pending = Some(Pending { cut, state, stop: now() - start });
        Ok(())
    }
}
