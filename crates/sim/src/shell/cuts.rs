//! Cuts of a simulated run: workers meet, and make and commit checkpoints, by the protocol and with the files
//! of real runs.
//!
//! A worker that meets goes through these stages, as `intendant-train` does on threads:
//!
//! ```text
//! vote → all have voted → (a cut is due) → flush → rest → nothing is in flight → first workers copy → go on
//! ```

use super::disk::{Disk, violation};
use super::run::{TaskRun, Waiting};
use super::{Moment, TaskFailure};
use crate::Spread;
use crate::invariants::{Cover, Finding};
use crate::meeting::Stream;
use intendant_checkpoint::protocol::{End, Heard, Protocol, Seat, Settled, Vote};
use intendant_checkpoint::{Checkpoint, Folder, Manifest, Range, Rows};
use intendant_core::{Clock, Element, Initialiser, Key, Layout};
use intendant_task::{Event, Reduction, Rest, Start, Task};
use intendant_techniques::Replicas;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How a simulated run makes checkpoints.
#[derive(Clone, Debug)]
pub struct CutConfig {
    /// Where to, if parts are written at all. The files are real.
    pub folder: Option<Folder>,
    /// Virtual seconds between two cuts.
    pub seconds: f64,
    /// Checkpoints that are kept.
    pub kept: usize,
    /// Upper bound of the bytes of a part of the copy that a node makes of its values.
    pub copy_bytes_max: u32,
    /// Until a node's part is durable.
    pub write: Spread,
    /// Until a manifest is durable.
    pub commit: Spread,
    /// How long other nodes live when one has died.
    pub linger: Spread,
    /// Whether nodes hold copies of each other's values: the first meeting makes a cut.
    pub copies: bool,
    /// From when on, ns, node 0 asks for another number of nodes, and for how many; the run then ends at a
    /// cut, as [`TaskFailure::Regrouped`].
    pub regroup: Option<(u64, u16)>,
}

/// What a run needs besides its parameters, to go on where a cut was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// The sums of the epochs that were trained.
    pub epochs: Vec<Reduction>,
    /// The sums of the next one so far, and what is left of it; `None` between epochs.
    pub under_way: Option<(Reduction, Rest)>,
}

/// A cut that was made, and may be committed later.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Its number.
    pub number: u64,
    /// The values of all keys when nothing was in flight, concatenated.
    pub values: Vec<f64>,
    /// The node that owned each key.
    pub owners: Vec<u16>,
    /// What was trained until then.
    pub trained: Trained,
}

/// Where a run begins that continues an earlier one.
#[derive(Clone)]
pub struct Origin<E> {
    /// The cut, as it was read.
    pub cut: Cut,
    /// Whether the cut is the newest one of the folder.
    is_read: bool,
    start: Start,
    init: Initialiser<E>,
}

impl<E: Element> Origin<E> {
    /// Reads the newest checkpoint of a folder; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is not one of the task.
    pub fn find<T: Task<Element = E>>(task: &T, folder: &Folder) -> Result<Option<Self>, TaskFailure> {
        let lost = |error: &dyn std::fmt::Display| TaskFailure::Checkpoint(error.to_string());
        let Some(latest) = folder.latest().map_err(|error| lost(&error))? else { return Ok(None) };
        if let Some(error) = latest.skipped.first() {
            return Err(lost(error));
        }
        let checkpoint: Arc<Checkpoint> = Arc::new(latest.checkpoint);
        let manifest = checkpoint.manifest();
        let trained: Trained = serde_json::from_value(manifest.run.clone()).map_err(|error| lost(&error))?;
        let rest = trained.under_way.as_ref().map(|(_, rest)| Arc::new(rest.clone()));
        if let Some(rest) = &rest {
            rest.check(task).map_err(|error| lost(&error))?;
        }
        let mut values = Vec::new();
        for key in (0..task.model().keys()).map(Key) {
            let mut value = vec![E::ZERO; task.model().range(key).row()];
            checkpoint.read(key, &mut value).map_err(|error| lost(&error))?;
            values.extend(value.into_iter().map(E::to_f64));
        }
        let start = Start { epochs: trained.epochs.clone(), rest };
        let cut = Cut { number: manifest.cut, values, owners: Vec::new(), trained };
        let init: Initialiser<E> = Arc::new(move |key: Key, value: &mut [E]| {
            checkpoint.read(key, value).expect("it was read before, and files stay while they are open");
        });
        Ok(Some(Self { cut, is_read: true, start, init }))
    }

    /// Begins where a cut was made, with the values that it has.
    ///
    /// # Errors
    /// If it is not one of the task.
    pub fn of_cut<T: Task<Element = E>>(task: &T, cut: Cut) -> Result<Self, TaskFailure> {
        let rest = cut.trained.under_way.as_ref().map(|(_, rest)| Arc::new(rest.clone()));
        if let Some(rest) = &rest {
            rest.check(task).map_err(|error| TaskFailure::Checkpoint(error.to_string()))?;
        }
        let start = Start { epochs: cut.trained.epochs.clone(), rest };
        let mut at = 0;
        let rows: Vec<Vec<E>> = (0..task.model().keys())
            .map(|key| {
                let row = at..at + task.model().range(Key(key)).row();
                at = row.end;
                cut.values[row].iter().map(|value| E::from_f64(*value)).collect()
            })
            .collect();
        let init: Initialiser<E> =
            Arc::new(move |key: Key, value: &mut [E]| value.copy_from_slice(&rows[key.index()]));
        Ok(Self { cut, is_read: false, start, init })
    }

    /// The newest cut of the folder, by its number.
    pub(super) fn newest(&self) -> Option<u64> {
        self.is_read.then_some(self.cut.number)
    }

    /// Where training begins.
    pub(super) const fn start(&self) -> &Start {
        &self.start
    }

    /// The sums with which a worker begins.
    pub(super) fn sums(&self, worker: u32) -> Reduction {
        match &self.cut.trained.under_way {
            Some((sums, _)) if worker == 0 => sums.clone(),
            Some(_) | None => Reduction::default(),
        }
    }

    /// Initial values.
    pub(super) fn init(&self) -> Initialiser<E> {
        Arc::clone(&self.init)
    }
}

/// How far a worker is at a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Vote,
    Flush,
    Rest,
    /// The training is over: the last cut is settled.
    LastVote,
    /// It is a checkpoint.
    Leave,
}

/// The cuts of a run.
pub(super) struct Cuts<E> {
    pub(super) disk: Disk<E>,
    ranges: Vec<Range>,
    /// One per worker, and what each has voted.
    protocols: Vec<Protocol>,
    votes: Vec<Option<Vote>>,
    /// Batches that each worker has trained since the last meeting.
    pub(super) batches: Vec<u64>,
    /// The sums with which the epoch ended, if workers meet between two epochs, and whether it was the last.
    pub(super) between: Option<(Reduction, bool)>,
    /// The leader: what its manifest says of the pending cut.
    pending: Option<serde_json::Value>,
    copying: Option<Copying<E>>,
    /// The number of nodes with which the run goes on after the cut that is due, or that is being made.
    ending: Option<u16>,
}

/// A cut whose values are being copied.
struct Copying<E> {
    cut: u64,
    rows: Vec<Rows<E>>,
    cover: Cover,
    values: Vec<Vec<E>>,
    owners: Vec<u16>,
    /// Nodes that have not copied all of theirs.
    open: usize,
}

impl<E: Element> Cuts<E> {
    pub(super) fn new(
        config: &CutConfig,
        layout: &Layout,
        workers: usize,
        seed: u64,
        newest: Option<u64>,
    ) -> Self {
        let all = layout.nodes() * workers;
        let seat = |at: usize| Seat { node: (at / workers) as u16, worker: at % workers, workers };
        let protocol = |at| {
            let protocol = Protocol::new(seat(at), config.seconds, Duration::ZERO);
            if config.copies { protocol.cutting_first() } else { protocol }
        };
        Self {
            disk: Disk::new(config, layout.nodes(), seed, newest),
            ranges: layout.ranges().iter().map(Range::from).collect(),
            protocols: (0..all).map(protocol).collect(),
            votes: vec![None; all],
            batches: vec![0; all],
            between: None,
            pending: None,
            copying: None,
            ending: None,
        }
    }

    pub(super) fn first_meeting(&self) -> u64 {
        self.protocols[0].next_meeting()
    }

    /// Whether a cut is made in any case.
    fn must(&self) -> bool {
        self.ending.is_some() || self.between.as_ref().is_some_and(|(_, is_end)| *is_end)
    }

    /// All workers hear all votes.
    fn hear(&mut self) -> Result<Heard, Finding> {
        let votes: Vec<Vote> = self.votes.iter_mut().filter_map(Option::take).collect();
        let mut heard = self.protocols.iter_mut().map(|protocol| protocol.hear(&votes));
        let first = heard.next().flatten();
        let agree = heard.all(|other| other == first);
        match first {
            Some(first) if agree => Ok(first),
            Some(_) | None => Err(("agreement", "workers decide differently at a meeting".to_owned())),
        }
    }

    fn settle(&mut self, settled: Settled, now_ns: u64) -> Result<(), Finding> {
        self.disk.forget();
        match settled {
            Settled::Complete { cut, parts } => {
                let state = self.pending.take().ok_or(("agreement", "nothing is pending".to_owned()))?;
                self.disk.commit(now_ns, Manifest::new(cut, E::TYPE, self.ranges.clone(), parts, state));
                Ok(())
            }
            Settled::Failed { cut, reason, .. } => Err(("readable", format!("cut {cut}: {reason}"))),
        }
    }
}

impl<T: Task> TaskRun<'_, T> {
    /// The next stage of a worker's meeting.
    pub(super) fn meet_on(&mut self, worker: usize, stage: Stage) -> Result<(), TaskFailure> {
        if stage == Stage::Leave {
            self.cluster.retire(worker);
            self.workers[worker].waiting = Waiting::Over;
            return Ok(());
        }
        let now_ns = self.cluster.now_ns();
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        match stage {
            Stage::Vote | Stage::LastVote => {
                let node = worker / self.config.workers;
                let is_last = stage == Stage::LastVote;
                let (protocol, is_end) = (&cuts.protocols[worker], cuts.must());
                let mut written = None;
                if protocol.tells_of_part() {
                    written = cuts.disk.written(node);
                    if let Some(end_ns) = cuts.disk.busy_until_ns(node).filter(|_| written.is_none())
                        && (is_end || is_last)
                    {
                        self.cluster.wake(worker, end_ns - now_ns);
                        return Ok(());
                    }
                }
                let now = Duration::from_nanos(now_ns);
                let mut begun = None;
                if !is_last && protocol.is_due(now, is_end) {
                    let cut = cuts.disk.begin();
                    begun = Some(cut.map_err(|error| TaskFailure::Checkpoint(error.to_string()))?);
                    cuts.protocols[worker].begun(now);
                }
                let batches = std::mem::take(&mut cuts.batches[worker]);
                let protocol = &cuts.protocols[worker];
                let vote = if is_last {
                    protocol.last_vote(written)
                } else {
                    protocol.vote(now, batches, begun, written)
                };
                let regroup = self.config.cuts.as_ref().and_then(|config| config.regroup);
                let asks = regroup.filter(|(from_ns, _)| worker == 0 && !is_last && now_ns >= *from_ns);
                cuts.votes[worker] = Some(vote.asking_for_end(asks.map(|(_, nodes)| End::Nodes(nodes))));
                if self.meet(worker, Waiting::Votes) {
                    self.voted(is_last)?;
                }
            }
            Stage::Flush => {
                if self.cluster.is_flushed(worker) {
                    self.workers[worker].stage = Some(Stage::Rest);
                    if self.meet(worker, Waiting::Rest) {
                        self.quiescence.begin_flushed(&mut self.cluster);
                    }
                } else {
                    self.workers[worker].waiting = Waiting::CutFlush;
                }
            }
            Stage::Rest | Stage::Leave => unreachable!("a worker that rests is not awake, or has left"),
        }
        Ok(())
    }

    /// All workers have voted.
    fn voted(&mut self, is_last: bool) -> Result<(), TaskFailure> {
        let now_ns = self.cluster.now_ns();
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        let heard = cuts.hear().map_err(violation(&self.cluster))?;
        let is_settled = heard.settled.is_some();
        if let Some(settled) = heard.settled {
            cuts.settle(settled, now_ns).map_err(violation(&self.cluster))?;
        }
        self.dies = self.observer.moment(Moment::Voted { is_settled, begins: heard.cut.is_some() });
        if let Some(nodes) = cuts.ending.filter(|_| is_last) {
            return Err(TaskFailure::Regrouped { nodes });
        }
        if let Some(End::Nodes(nodes)) = heard.end {
            cuts.ending = Some(nodes);
        }
        if is_last {
            // No node leaves before the last cut is a checkpoint.
            let end_ns = cuts.disk.busy_until_ns(0).unwrap_or(now_ns);
            self.go_on(Stage::Leave, end_ns - now_ns);
        } else if let Some(cut) = heard.cut {
            let layout = self.cluster.layout();
            cuts.copying = Some(Copying {
                cut,
                rows: vec![Rows::new(&cuts.ranges); layout.nodes()],
                cover: Cover::new(0..layout.keys()),
                values: vec![Vec::new(); layout.keys() as usize],
                owners: vec![0; layout.keys() as usize],
                open: layout.nodes(),
            });
            self.go_on(Stage::Flush, 0);
        } else if cuts.ending.is_some() {
            // The run ends at a cut: they meet again at once, for one.
            self.go_on(Stage::Vote, 0);
        } else {
            self.meeting_over();
        }
        Ok(())
    }

    /// All workers go on with a stage of the meeting.
    pub(super) fn go_on(&mut self, stage: Stage, after_ns: u64) {
        for state in &mut self.workers {
            state.stage = Some(stage);
        }
        self.wake_all(after_ns);
    }

    /// Wakes all workers, which have met.
    fn wake_all(&mut self, after_ns: u64) {
        let meeting_ns = self.cluster.meeting_ns();
        let latest = self.workers.iter().map(|state| state.clock).max().unwrap_or(0);
        let clocked = self.config.technique.policy().replicas.is_some_and(Replicas::is_clocked);
        for worker in 0..self.workers.len() {
            let state = &mut self.workers[worker];
            if clocked {
                (state.clock, state.leaves_meeting) = (latest, true);
            }
            state.waiting = Waiting::No;
            self.cluster.resume(worker / self.config.workers);
            self.cluster.wake(worker, after_ns + meeting_ns);
        }
    }

    /// Nothing is in flight: the first worker of each node copies what the node owns.
    pub(super) fn copy(&mut self) {
        let keys = 0..self.cluster.layout().keys();
        let Some(config) = &self.config.cuts else { return };
        self.dies = self.observer.moment(Moment::Resting);
        for node in 0..self.config.nodes {
            let first = node * self.config.workers;
            let (bytes_max, keys) = (config.copy_bytes_max, keys.clone());
            let stream = Stream::begin_of_node(&mut self.cluster, first, node, keys, bytes_max);
            self.workers[first].stream = Some(stream);
        }
    }

    /// A node has copied the values of these keys; `is_all` says whether all of its own.
    pub(super) fn copied(&mut self, worker: usize, keys: &[Key], is_all: bool) -> Result<(), TaskFailure> {
        let (node, now_ns) = (worker / self.config.workers, self.cluster.now_ns());
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        let Some(copying) = &mut cuts.copying else { return Ok(()) };
        copying.rows[node].add(keys, &self.snapshot);
        copying.cover.part(keys).map_err(violation(&self.cluster))?;
        let mut rest = &self.snapshot[..];
        for key in keys {
            let (value, after) = rest.split_at(self.cluster.layout().len(*key));
            copying.values[key.index()] = value.to_vec();
            copying.owners[key.index()] = node as u16;
            rest = after;
        }
        copying.open -= usize::from(is_all);
        if copying.open > 0 {
            return Ok(());
        }
        let Some(Copying { cut, rows, cover, values, owners, .. }) = cuts.copying.take() else {
            return Ok(());
        };
        cover.finish().map_err(violation(&self.cluster))?;
        let values = values.concat();
        if values != self.cluster.values() {
            let what = format!("the values of cut {cut} are not those of their owners");
            return Err(self.cluster.violation(("cut", what)).into());
        }
        // In reality each node's thread begins as soon as the node has copied; this differs by less than a
        // part takes to be written.
        (0..).zip(rows).for_each(|(node, rows)| cuts.disk.write(node, now_ns, cut, rows));
        let trained = self.trained();
        let state = serde_json::to_value(&trained).expect("sums and names of batches can be serialised");
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        cuts.pending = Some(state);
        let values = values.into_iter().map(Element::to_f64).collect();
        self.observer.cut(&Cut { number: cut, values, owners, trained });
        self.dies = self.observer.moment(Moment::Copied);
        if self.cuts.as_ref().is_some_and(|cuts| cuts.ending.is_some()) {
            self.go_on(Stage::LastVote, 0);
        } else {
            self.meeting_over();
        }
        Ok(())
    }

    /// What was trained until this meeting.
    fn trained(&self) -> Trained {
        let first = &self.workers[0].driver;
        let mut epochs = first.combined().to_vec();
        let under_way = match self.cuts.as_ref().and_then(|cuts| cuts.between.as_ref()) {
            // The drivers hear of the epoch after the meeting.
            Some((sum, _)) => {
                epochs.push(sum.clone());
                None
            }
            None => {
                let mut sum = Reduction::default();
                self.workers.iter().for_each(|state| sum.merge(state.driver.reduction()));
                Some((sum, first.rest()))
            }
        };
        Trained { epochs, under_way }
    }

    /// The workers train on.
    fn meeting_over(&mut self) {
        let now = Duration::from_nanos(self.cluster.now_ns());
        let Some(cuts) = &mut self.cuts else { return };
        cuts.protocols.iter_mut().for_each(|protocol| protocol.leave(now));
        let (next, between) = (cuts.protocols[0].next_meeting(), cuts.between.take());
        for state in &mut self.workers {
            let trained = if between.is_some() { 0 } else { state.driver.trained() };
            state.driver.meet_after(Some(trained + next));
            state.stage = None;
            state.event = Some(match &between {
                Some((sum, _)) => Event::Reduced(sum.clone()),
                None => Event::Done,
            });
        }
        if between.is_some() {
            self.meter.begin(&self.cluster);
        }
        self.wake_all(0);
    }

    /// A worker leaves a meeting: its clock is that of the most advanced one.
    pub(super) fn leave_meeting(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        if std::mem::take(&mut state.leaves_meeting) {
            self.cluster.advance_clock(worker, Clock(state.clock));
        }
    }
}
