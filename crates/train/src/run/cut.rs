//! Cuts: checkpoints of a run that goes on.
//!
//! All workers meet between two batches, every few seconds and at the end of each epoch. [`CutDriver`] says
//! what each of them does then; this module does it, on training threads. For a cut the cluster becomes
//! quiescent, each node copies the values that it owns, and training goes on; a thread of each node writes
//! the copy. At a later meeting all nodes tell that their parts are durable, and node 0 commits the cut.
//!
//! With `--copies` other nodes hold the copy as well ([`crate::run::copies`]), and a run needs no folder.
//!
//! A cut that one node cannot write is given up, with a warning. The run goes on, and tries again at the next
//! one. [`crate::run::best`] says which epochs are cut in any case, and what becomes of their cuts.
//!
//! The parts: [`Cutter`] is a worker's interpreter of the program, `writer` the thread that writes. `nodes`
//! is what cuts need of the nodes of a run.

mod writer;

pub(crate) use writer::{Cuts, Writer};

use super::best::{self, Compared, Kept};
use super::copies::Part;
use super::nodes::Nodes;
use super::origin::{RunState, Subject};
use crate::clock::now;
use crate::error::TrainError;
use crate::report::{EpochSum, Made};
use crate::settings::Plan;
use intendant_checkpoint::protocol::{End, Seat, Vote};
use intendant_checkpoint::{
    CheckpointError, CutDriver, CutEvent, CutOp, CutRules, Manifest, Meeting, Rows, Unsaved,
};
use intendant_core::Element;
use intendant_task::Rest;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use writer::Order;

/// What follows a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Training, and the next meeting after so many batches.
    Meeting(u64),
    /// The end of the run, or of the view.
    End(End),
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

/// A worker's interpreter of its [`CutDriver`].
pub(crate) struct Cutter<'a, E> {
    cuts: &'a Cuts<E>,
    subject: &'a Subject<'a>,
    plan: &'a Plan,
    driver: CutDriver,
    /// When `driver` began: its times count from there.
    began: Instant,
    /// When the cluster began to rest for a cut.
    rested: Instant,
    /// What this node has copied, until it is written.
    rows: Option<Rows<E>>,
    /// What all workers have told of the epoch so far, and the seconds.
    told: (Vec<Vec<u8>>, f64),
    /// What the manifest of the pending cut says, at the leader.
    recorded: Option<Recorded>,
    /// The commit that was ordered, at the leader.
    committing: Option<crossbeam_channel::Receiver<Result<(), CheckpointError>>>,
    /// The model that is tested and exported, once it is chosen; `None` is the one in memory.
    chosen: Option<Option<Arc<Kept>>>,
}

/// What the manifest of a cut says beside its parts.
struct Recorded {
    state: RunState,
    /// How long training stood still.
    stop: Duration,
}

impl<'a, E: Element> Cutter<'a, E> {
    /// `first_meeting` is after so many batches; `None` is the protocol's choice.
    #[inline(never)]
    pub(crate) fn new(
        cuts: &'a Cuts<E>,
        (subject, plan): (&'a Subject<'a>, &'a Plan),
        worker: usize,
        first_meeting: Option<u64>,
    ) -> Self {
        let seat = Seat { node: cuts.rank, worker, workers: cuts.workers };
        let rules = CutRules {
            seconds: cuts.seconds,
            writes: cuts.saves(),
            copies: cuts.copying.is_some(),
            first_meeting,
            best: cuts.best,
        };
        let began = now();
        Self {
            cuts,
            subject,
            plan,
            driver: CutDriver::new(seat, rules, Duration::ZERO),
            began,
            rested: began,
            rows: None,
            told: (Vec::new(), 0.0),
            recorded: None,
            committing: None,
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
        self.driver.first_meeting()
    }

    fn step(&mut self, event: CutEvent) -> CutOp {
        self.driver.step(event, now() - self.began)
    }

    /// Meets all other workers, which are between the same two batches. `batches` were trained since the last
    /// meeting. Makes a cut if one is due; `so_far` tells this worker's sums of the epoch so far.
    #[inline(never)]
    pub(crate) fn meet<P: Nodes<E>>(
        &mut self,
        nodes: &mut P,
        batches: u64,
        place: &Place<'_>,
        so_far: &mut dyn FnMut(&P) -> (Vec<u8>, f64),
    ) -> Result<Next, TrainError> {
        let is_best = place.rest.is_none() && self.compared().is_last_best(place.epochs);
        let best = place.epochs.len().checked_sub(1).filter(|_| is_best);
        let end = self.cuts.asked(self.driver.is_leader());
        let mut op = self.step(CutEvent::Meet(Meeting { batches, must: place.must, best, end }));
        loop {
            if let CutOp::Train { batches } = op {
                return Ok(Next::Meeting(batches));
            } else if let CutOp::Ends(end) = op {
                return Ok(Next::End(end));
            }
            let event = if let CutOp::Record { cut } = op {
                self.record(cut, place)?;
                CutEvent::Done
            } else if op == CutOp::Share {
                let (told, seconds) = so_far(nodes);
                // No thread that writes takes time from those that copy.
                let told = if P::SHARES { nodes.gather("cut", told)? } else { vec![told] };
                self.told = (told, seconds);
                CutEvent::Done
            } else {
                self.carry_out(nodes, op)?
            };
            op = self.step(event);
        }
    }

    /// After the last cut: waits until it is a checkpoint. All workers meet, the first time that they call
    /// it.
    #[inline(never)]
    pub(crate) fn end<P: Nodes<E>>(&mut self, nodes: &mut P) -> Result<(), TrainError> {
        let mut op = self.step(CutEvent::End);
        while op != CutOp::Left {
            let event = self.carry_out(nodes, op)?;
            op = self.step(event);
        }
        self.cuts.end();
        Ok(())
    }

    /// Carries out an operation that does not depend on where the run is.
    fn carry_out<P: Nodes<E>>(&mut self, nodes: &mut P, op: CutOp) -> Result<CutEvent, TrainError> {
        match op {
            CutOp::Begin { after } => {
                let Some(folder) = &self.cuts.folder else { return Ok(CutEvent::Begun(Ok(after + 1))) };
                let begun = folder.begin_after(after);
                if let Err(error) = &begun {
                    tracing::warn!("no checkpoint is made now: {error}");
                }
                return Ok(CutEvent::Begun(begun));
            }
            CutOp::AskPart { waits } => return Ok(CutEvent::Part(self.cuts.written(waits))),
            CutOp::Tell(vote) => return exchange(nodes, &vote),
            CutOp::Settled { cut, is_copied } => {
                self.cuts.forget_part();
                match &self.cuts.copying {
                    Some(copying) if is_copied => copying.settle(cut),
                    Some(copying) => copying.copies.forget(copying.name(cut)),
                    None => {}
                }
            }
            CutOp::AwaitCommit => {
                // If nothing comes, the thread has ended early, and says why.
                let committed = self.committing.take().and_then(|done| done.recv().ok());
                return Ok(CutEvent::Committed(committed));
            }
            CutOp::Commit { cut, parts, best } => {
                if let Some(Recorded { mut state, stop }) = self.recorded.take() {
                    state.best_epoch = best.map(|best| best.epoch + 1);
                    let ranges = self.cuts.ranges.clone();
                    let manifest = Manifest::new(cut, E::TYPE, ranges, parts, serde_json::Value::Null);
                    let manifest = Box::new(Manifest { best: best.map(|best| best.cut), ..manifest });
                    let (done, committed) = crossbeam_channel::bounded(1);
                    self.committing = Some(committed);
                    self.cuts.order(Order::Commit { manifest, state: Box::new(state), stop, done });
                }
            }
            CutOp::GiveUp { cut, reason } => {
                tracing::warn!("{reason}");
                self.cuts.order(Order::Remove(cut));
            }
            CutOp::Rest => {
                self.rested = now();
                nodes.rest()?;
            }
            CutOp::Copy { cut, is_written } => self.copy(nodes, cut, is_written)?,
            CutOp::Write { cut } => self.cuts.write(cut, self.rows.take()),
            CutOp::Leave => {
                // No node leaves, and ends the others' threads, before the last cut is a checkpoint.
                nodes.gather("left", Vec::new())?;
            }
            // Those of a meeting.
            CutOp::Share | CutOp::Record { .. } | CutOp::Train { .. } | CutOp::Ends(_) | CutOp::Left => {}
        }
        Ok(CutEvent::Done)
    }

    /// Why the last cut is no checkpoint, at the leader.
    pub(crate) fn unsaved(&mut self) -> Option<TrainError> {
        // Without a folder, the last cut was only for a loss that has not come.
        self.driver.unsaved().filter(|_| self.cuts.saves()).map(|unsaved| match unsaved {
            Unsaved::Refused(error) => error.into(),
            Unsaved::GivenUp(reason) => TrainError::Unsaved(reason),
        })
    }

    /// The place of the last cut, if it is a checkpoint, at the leader.
    pub(crate) fn saved(&self) -> Option<PathBuf> {
        let folder = self.cuts.folder.as_ref()?;
        self.driver.saved().map(|cut| folder.place(cut))
    }

    /// The model that is tested and exported, after [`Cutter::end`]; `None` is the one in memory. All workers
    /// call it, and meet the first time.
    #[inline(never)]
    pub(crate) fn choose<P: Nodes<E>>(
        &mut self,
        nodes: &mut P,
        epochs: &[EpochSum],
    ) -> Result<Option<Arc<Kept>>, TrainError> {
        if self.chosen.is_none() {
            let best = self.cuts.compared.best(epochs).filter(|best| best + 1 < epochs.len());
            let chosen = match best {
                None => None,
                Some(epoch) => {
                    let best = self.driver.best().filter(|best| best.epoch == epoch).map(|best| best.cut);
                    let seat = (self.cuts.rank, self.driver.is_first_of_node());
                    match &self.cuts.folder {
                        Some(folder) => best::open(nodes, (folder, &self.cuts.kept), seat, epoch, best)?,
                        None => None,
                    }
                }
            };
            self.chosen = Some(chosen);
        }
        Ok(self.chosen.clone().flatten())
    }

    /// Copies what this node owns, while the cluster rests: to be written, and for other nodes.
    fn copy<P: Nodes<E>>(&mut self, nodes: &mut P, cut: u64, is_written: bool) -> Result<(), TrainError> {
        let mut rows = is_written.then(|| self.cuts.rows());
        let mut part = self.cuts.copying.as_ref().map(|copying| (copying, Part::new()));
        nodes.copy(&mut |keys, values| {
            if let Some(rows) = &mut rows {
                rows.add(keys, values);
            }
            if let Some((_, part)) = &mut part {
                part.add(keys, values);
            }
        })?;
        if let Some((copying, part)) = part {
            let place = (copying.rank, copying.view.members.len());
            copying.copies.publish(copying.name(cut), place, part);
        }
        self.rows = rows;
        Ok(())
    }

    /// Keeps what was trained until the cut. A part that others fetch then belongs to a cut that can be used.
    fn record(&mut self, cut: u64, place: &Place<'_>) -> Result<(), TrainError> {
        let (told, seconds) = std::mem::take(&mut self.told);
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
        let state = RunState::new(self.subject, self.plan, place.epochs, under_way);
        let state = RunState { made: self.cuts.made(), damaged: self.cuts.damaged.clone(), ..state };
        if let Some(copying) = &self.cuts.copying {
            copying.copies.copied(copying.name(cut), state.clone());
        }
        if self.driver.is_leader() {
            self.recorded = Some(Recorded { state, stop: now() - self.rested });
        }
        Ok(())
    }
}

/// Exchanges votes with all workers.
fn exchange<E: Element, P: Nodes<E>>(nodes: &mut P, vote: &Vote) -> Result<CutEvent, TrainError> {
    let vote = postcard::to_stdvec(vote).expect("a vote has no part that cannot be serialised");
    let told = nodes.gather("meeting", vote)?;
    let decode = |(worker, bytes): (usize, &Vec<u8>)| {
        postcard::from_bytes(bytes).map_err(|error| TrainError::Tally { worker, what: error.to_string() })
    };
    let votes: Vec<Vote> = told.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
    if votes.is_empty() {
        return Err(TrainError::Stopped("no worker came to a meeting".to_owned()));
    }
    Ok(CutEvent::Votes(votes))
}
