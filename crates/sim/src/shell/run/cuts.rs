//! Cuts of a simulated run: executes what the program of each worker ([`CutDriver`]) says, in virtual time,
//! as `intendant-train` does on threads. Votes, parts and manifests are those of real runs.
//!
//! The operations of one worker happen at once, or when the disk of its node has come so far. Of those that
//! all workers do together, a vote takes as long as a meeting; a worker rests when its pushes are
//! acknowledged, and the cluster rests when nothing is in flight.

use super::{TaskRun, Waiting};
use crate::cluster::Probe;
use crate::invariants::Cover;
use crate::meeting::Stream;
use crate::shell::cut::{Cut, Trained};
use crate::shell::cuts::{Copying, CutTask, Cuts};
use crate::shell::disk::violation;
use crate::shell::failure::TaskFailure;
use crate::shell::observer::Moment;
use intendant_checkpoint::protocol::{End, Vote};
use intendant_checkpoint::{CutEvent, CutOp, Manifest, Meeting, Rows};
use intendant_core::{Clock, Element, Key};
use intendant_task::{Event, Reduction, Task};
use intendant_techniques::Replicas;
use std::time::Duration;

impl<T: Task, P: Probe<T::Element>> TaskRun<'_, T, P> {
    /// What a worker does for the cuts now. Returns whether its training goes on.
    pub(in crate::shell) fn cut_on(&mut self, worker: usize, task: CutTask) -> Result<bool, TaskFailure> {
        let Some(cuts) = &mut self.cuts else { return Ok(true) };
        let op = match task {
            CutTask::Op(op) => op,
            CutTask::End => self.step_cut(worker, CutEvent::End),
            CutTask::Meet => {
                let regroup = self.config.cuts.as_ref().and_then(|config| config.regroup);
                let now_ns = self.cluster.now_ns();
                let asks = regroup.filter(|(from_ns, _)| worker == 0 && now_ns >= *from_ns);
                let meeting = Meeting {
                    batches: std::mem::take(&mut cuts.batches[worker]),
                    must: cuts.between.as_ref().is_some_and(|(_, is_end)| *is_end),
                    best: None,
                    end: asks.map(|(_, nodes)| End::Nodes(nodes)),
                };
                self.step_cut(worker, CutEvent::Meet(meeting))
            }
        };
        self.cut_from(worker, op)
    }

    /// Carries out the operations of a worker from this one, until it waits. Returns whether it has left.
    fn cut_from(&mut self, worker: usize, mut op: CutOp) -> Result<bool, TaskFailure> {
        loop {
            if op == CutOp::Left {
                return match self.cuts.as_ref().and_then(|cuts| cuts.ending) {
                    Some(nodes) => Err(TaskFailure::Regrouped { nodes }),
                    None => Ok(true),
                };
            }
            match self.carry_out(worker, op)? {
                Some(event) => op = self.step_cut(worker, event),
                None => return Ok(false),
            }
        }
    }

    fn step_cut(&mut self, worker: usize, event: CutEvent) -> CutOp {
        let now = Duration::from_nanos(self.cluster.now_ns());
        self.cuts.as_mut().map_or(CutOp::Left, |cuts| cuts.drivers[worker].step(event, now))
    }

    /// Carries out an operation. Returns what came of it, or `None` if the worker waits.
    fn carry_out(&mut self, worker: usize, op: CutOp) -> Result<Option<CutEvent>, TaskFailure> {
        let (node, now_ns) = (worker / self.config.workers, self.cluster.now_ns());
        let Some(cuts) = &mut self.cuts else { return Ok(None) };
        match op {
            CutOp::Begin { after } => {
                return Ok(Some(CutEvent::Begun(cuts.disk.begin(after))));
            }
            CutOp::AskPart { waits } => {
                let written = cuts.disk.written(node);
                let busy = cuts.disk.busy_until_ns(node).filter(|_| waits && written.is_none());
                if let Some(end_ns) = busy {
                    self.wake_for(worker, end_ns - now_ns, op);
                    return Ok(None);
                }
                return Ok(Some(CutEvent::Part(written)));
            }
            CutOp::Tell(vote) => {
                cuts.votes[worker] = Some(vote);
                if self.meet(worker, Waiting::Votes) {
                    self.voted()?;
                }
                return Ok(None);
            }
            CutOp::Settled { .. } => cuts.disk.forget(node),
            CutOp::AwaitCommit => {
                if let Some(end_ns) = cuts.disk.busy_until_ns(node) {
                    self.wake_for(worker, end_ns - now_ns, op);
                    return Ok(None);
                }
                return Ok(Some(CutEvent::Committed(cuts.disk.take_committed())));
            }
            CutOp::Commit { cut, parts, best } => {
                let Some(state) = cuts.recorded.take() else {
                    let what = format!("cut {cut} is committed, and its state is not known");
                    return Err(self.cluster.violation(("agreement", what)).into());
                };
                let manifest = Manifest::new(cut, T::Element::TYPE, cuts.ranges.clone(), parts, state);
                cuts.disk.commit(now_ns, Manifest { best: best.map(|best| best.cut), ..manifest });
            }
            CutOp::GiveUp { cut, .. } => cuts.disk.remove(now_ns, cut),
            CutOp::Rest => {
                if !self.cluster.local(worker).is_flushed() {
                    self.workers[worker].cut = Some(CutTask::Op(CutOp::Rest));
                    self.workers[worker].waiting = Waiting::CutFlush;
                } else if self.meet(worker, Waiting::Rest) {
                    self.quiescence.begin_flushed(self.cluster);
                }
                return Ok(None);
            }
            CutOp::Copy { .. } => {
                let bytes_max = cuts.disk.config().copy_bytes_max;
                let keys = 0..self.cluster.layout().keys();
                let stream = Stream::begin_of_node(self.cluster, worker, node, keys, bytes_max);
                self.workers[worker].stream = Some(stream);
                return Ok(None);
            }
            CutOp::Record { cut } if worker == 0 => self.record(cut),
            // The state is that of the leader.
            CutOp::Record { .. } => {}
            CutOp::Write { cut } => {
                // In reality each node's thread begins as soon as the node has copied; this differs by less
                // than a part takes to be written.
                if let Some(rows) = cuts.copying.as_mut().and_then(|copying| copying.rows[node].take()) {
                    cuts.disk.write(node, now_ns, cut, rows);
                }
            }
            CutOp::Leave => {
                if self.meet(worker, Waiting::Leave) {
                    self.together(|| CutEvent::Done)?;
                }
                return Ok(None);
            }
            // They are asleep until all nodes have copied.
            CutOp::Share => return Ok(None),
            CutOp::Ends(_) => return Ok(Some(CutEvent::End)),
            CutOp::Train { .. } | CutOp::Left => return Ok(None),
        }
        Ok(Some(CutEvent::Done))
    }

    fn wake_for(&mut self, worker: usize, after_ns: u64, op: CutOp) {
        self.workers[worker].cut = Some(CutTask::Op(op));
        self.cluster.wake(worker, after_ns);
    }

    /// All workers have voted.
    fn voted(&mut self) -> Result<(), TaskFailure> {
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        let votes: Vec<Vote> = cuts.votes.iter_mut().filter_map(Option::take).collect();
        let (is_settled, next) = self.together(|| CutEvent::Votes(votes.clone()))?;
        self.dies = self.observer.moment(Moment::Voted { is_settled, begins: next == Together::Rest });
        Ok(())
    }

    /// All workers have done an operation together: each goes on to the next one that takes time. Returns
    /// whether a cut was settled meanwhile, and what the workers do together next.
    fn together(&mut self, event: impl Fn() -> CutEvent) -> Result<(bool, Together), TaskFailure> {
        let (mut next, mut is_settled) = (None, false);
        for worker in 0..self.workers.len() {
            let mut op = self.step_cut(worker, event());
            while self.is_instant(&op) {
                is_settled |= matches!(op, CutOp::Settled { .. });
                match self.carry_out(worker, op)? {
                    Some(event) => op = self.step_cut(worker, event),
                    None => return Ok((is_settled, Together::Leave)),
                }
            }
            let does = Together::of(&op);
            if *next.get_or_insert(does) != does {
                let what = format!("worker {worker} decides otherwise than worker 0: {does:?}, and {next:?}");
                return Err(self.cluster.violation(("agreement", what)).into());
            }
            self.workers[worker].cut = Some(CutTask::Op(op));
        }
        let next = next.unwrap_or(Together::Leave);
        match (next, &mut self.cuts) {
            (Together::Train(batches), _) => self.meeting_over(batches),
            (Together::End(End::Nodes(nodes)), Some(cuts)) => cuts.ending = Some(nodes),
            (_, _) => {}
        }
        self.wake_all();
        Ok((is_settled, next))
    }

    /// Whether an operation takes no time.
    fn is_instant(&self, op: &CutOp) -> bool {
        let is_idle = || self.cuts.as_ref().is_none_or(|cuts| cuts.disk.busy_until_ns(0).is_none());
        match op {
            CutOp::Settled { .. }
            | CutOp::Commit { .. }
            | CutOp::GiveUp { .. }
            | CutOp::Record { .. }
            | CutOp::Write { .. } => true,
            CutOp::AwaitCommit => is_idle(),
            CutOp::Begin { .. }
            | CutOp::AskPart { .. }
            | CutOp::Tell(_)
            | CutOp::Rest
            | CutOp::Copy { .. }
            | CutOp::Share
            | CutOp::Train { .. }
            | CutOp::Ends(_)
            | CutOp::Leave
            | CutOp::Left => false,
        }
    }

    /// All workers meet at once, or end.
    pub(in crate::shell) fn go_on(&mut self, task: &CutTask) {
        self.workers.iter_mut().for_each(|state| state.cut = Some(task.clone()));
        self.wake_all();
    }

    /// Wakes all workers, which have met.
    fn wake_all(&mut self) {
        let meeting_ns = self.cluster.meeting_ns();
        let latest = self.workers.iter().map(|state| state.clock).max().unwrap_or(0);
        let clocked = self.config.cluster.technique.policy().replicas.is_some_and(Replicas::is_clocked);
        for worker in 0..self.workers.len() {
            let state = &mut self.workers[worker];
            if clocked {
                (state.clock, state.leaves_meeting) = (latest, true);
            }
            state.waiting = Waiting::No;
            self.cluster.resume(worker / self.config.workers);
            self.cluster.wake(worker, meeting_ns);
        }
    }

    /// Nothing is in flight: the first worker of each node copies what the node owns.
    pub(in crate::shell) fn copy(&mut self) -> Result<(), TaskFailure> {
        self.dies = self.observer.moment(Moment::Resting);
        let Some(cuts) = &mut self.cuts else { return Ok(()) };
        let layout = self.cluster.layout();
        cuts.copying = Some(Copying {
            rows: vec![Some(Rows::new(&cuts.ranges)); layout.nodes()],
            cover: Cover::new(0..layout.keys()),
            values: vec![Vec::new(); layout.keys() as usize],
            owners: vec![0; layout.keys() as usize],
            open: layout.nodes(),
        });
        for worker in 0..self.workers.len() {
            let op = self.step_cut(worker, CutEvent::Done);
            self.cut_from(worker, op)?;
        }
        Ok(())
    }

    /// A node has copied the values of these keys; `is_all` says whether all of its own.
    pub(in crate::shell) fn copied(
        &mut self,
        worker: usize,
        keys: &[Key],
        is_all: bool,
    ) -> Result<(), TaskFailure> {
        let node = worker / self.config.workers;
        let Some(Cuts { copying: Some(copying), .. }) = &mut self.cuts else { return Ok(()) };
        if let Some(rows) = &mut copying.rows[node] {
            rows.add(keys, &self.snapshot);
        }
        copying.cover.part(keys).map_err(violation(self.cluster))?;
        let mut rest = &self.snapshot[..];
        for key in keys {
            let (value, after) = rest.split_at(self.cluster.layout().len(*key));
            copying.values[key.index()] = value.to_vec();
            copying.owners[key.index()] = node as u16;
            rest = after;
        }
        copying.open -= usize::from(is_all);
        let is_last = copying.open == 0;
        if is_last {
            copying.cover.finish().map_err(violation(self.cluster))?;
            if copying.values.concat() != self.cluster.values() {
                let what = "the values of a cut are not those of their owners".to_owned();
                return Err(self.cluster.violation(("cut", what)).into());
            }
        }
        if is_all {
            let op = self.step_cut(worker, CutEvent::Done);
            self.cut_from(worker, op)?;
        }
        if is_last {
            self.together(|| CutEvent::Done)?;
            self.dies = self.observer.moment(Moment::Copied);
        }
        Ok(())
    }

    /// Keeps what was trained until the cut that is being made.
    fn record(&mut self, cut: u64) {
        let trained = self.trained();
        let state = trained.to_value();
        let Some(cuts) = &mut self.cuts else { return };
        cuts.recorded = Some(state);
        let Some(Copying { values, owners, .. }) = &mut cuts.copying else { return };
        let values = std::mem::take(values).concat().into_iter().map(Element::to_f64).collect();
        self.observer.cut(&Cut { number: cut, values, owners: std::mem::take(owners), trained });
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
    fn meeting_over(&mut self, batches: u64) {
        let between = self.cuts.as_mut().and_then(|cuts| cuts.between.take());
        for state in &mut self.workers {
            let trained = if between.is_some() { 0 } else { state.driver.trained() };
            state.driver.meet_after(Some(trained + batches));
            state.event = Some(match &between {
                Some((sum, _)) => Event::Reduced(sum.clone()),
                None => Event::Done,
            });
            // The test may take long: the model is safe before it.
            state.cut = between.as_ref().filter(|(_, is_end)| *is_end).map(|_| CutTask::End);
        }
        if between.is_some() {
            self.meter.begin(self.cluster);
        }
    }

    /// A worker leaves a meeting: its clock is that of the most advanced one.
    pub(in crate::shell) fn leave_meeting(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        if std::mem::take(&mut state.leaves_meeting) {
            self.cluster.advance_clock(worker, Clock(state.clock));
        }
    }
}

/// What all workers do together next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    Vote,
    Rest,
    Share,
    Train(u64),
    End(End),
    Leave,
}

impl Together {
    /// What a worker does with the others when it has done this.
    const fn of(op: &CutOp) -> Self {
        match op {
            CutOp::Begin { .. } | CutOp::AskPart { .. } | CutOp::Tell(_) => Self::Vote,
            CutOp::Rest => Self::Rest,
            CutOp::Copy { .. } | CutOp::Share => Self::Share,
            CutOp::Train { batches } => Self::Train(*batches),
            CutOp::Ends(end) => Self::End(*end),
            CutOp::Settled { .. }
            | CutOp::AwaitCommit
            | CutOp::Commit { .. }
            | CutOp::GiveUp { .. }
            | CutOp::Record { .. }
            | CutOp::Write { .. }
            | CutOp::Leave
            | CutOp::Left => Self::Leave,
        }
    }
}
