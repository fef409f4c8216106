//! Cuts: checkpoints of a run that goes on.
//!
//! All workers meet between two batches, every few seconds and at the end of each epoch. [`Protocol`] says
//! what they tell each other and what follows from it; this module does it. For a cut the cluster becomes
//! quiescent, each node copies the values that it owns, and training goes on; a thread of each node writes
//! the copy. At a later meeting all nodes tell that their parts are durable, and node 0 commits the cut.
//!
//! With `--copies` other nodes hold the copy as well ([`crate::copies`]), and a run needs no folder.
//!
//! A cut that one node cannot write is given up, with a warning. The run goes on, and tries again at the next
//! one. [`crate::best`] says which epochs are cut in any case, and what becomes of their cuts.
//!
//! The parts: [`Cutter`] is a worker's view, `ledger` what the leader knows of its cuts, `writer` the thread
//! that writes. `nodes` is what cuts need of the nodes of a run.

mod ledger;
mod writer;

pub(crate) use writer::Cuts;
pub use writer::Made;

use crate::best::{self, Best, Compared, Kept};
use crate::copies::Part;
use crate::error::TrainError;
use crate::meter::EpochSum;
use crate::nodes::Nodes;
use crate::origin::{RunState, Subject};
use crate::plan::Plan;
use intendant_checkpoint::protocol::{End, Heard, Protocol, Seat, Settled, Vote, Written};
use intendant_core::Element;
use intendant_task::Rest;
use ledger::{Copied, Ledger};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A worker's view of the cuts.
pub(crate) struct Cutter<'a, E> {
    cuts: &'a Cuts<E>,
    subject: &'a Subject<'a>,
    plan: &'a Plan,
    protocol: Protocol,
    /// When `protocol` began: its times count from there.
    began: Instant,
    /// Of use at the leader only.
    ledger: Ledger,
    /// Whether the last cut is settled and committed.
    has_ended: bool,
    /// The model that is tested and exported, once it is chosen; `None` is the one in memory.
    chosen: Option<Option<Arc<Kept>>>,
}

#[expect(clippy::disallowed_methods, reason = "cuts are made every so many seconds")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl<'a, E: Element> Cutter<'a, E> {
    pub(crate) fn new(
        cuts: &'a Cuts<E>,
        (subject, plan): (&'a Subject<'a>, &'a Plan),
        worker: usize,
    ) -> Self {
        let seat = Seat { node: cuts.rank, worker, workers: cuts.workers };
        let protocol = Protocol::new(seat, cuts.seconds, Duration::ZERO);
        Self {
            cuts,
            subject,
            plan,
            protocol: if cuts.copying.is_some() { protocol.cutting_first() } else { protocol },
            began: now(),
            ledger: Ledger::new(E::TYPE, cuts.ranges.clone(), cuts.best),
            has_ended: false,
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

    /// The same with a first meeting after so many batches.
    pub(crate) const fn meeting_after(mut self, batches: u64) -> Self {
        self.protocol = self.protocol.meeting_after(batches);
        self
    }

    /// The time as the protocol counts it.
    fn time(&self) -> Duration {
        now() - self.began
    }

    /// Meets all other workers, which are between the same two batches. `batches` were trained since the last
    /// meeting. Makes a cut if one is due; `so_far` tells this worker's sums of the epoch so far.
    pub(crate) fn meet<P: Nodes<E>>(
        &mut self,
        nodes: &mut P,
        batches: u64,
        place: &Place<'_>,
        so_far: impl FnOnce(&P) -> (Vec<u8>, f64),
    ) -> Result<Next, TrainError> {
        let mut heard = self.ask(nodes, batches, place.must)?;
        let end = heard.end;
        if end.is_some() && heard.cut.is_none() {
            heard = self.ask(nodes, batches, true)?;
        }
        if let Some(cut) = heard.cut {
            self.cut(nodes, (cut, !heard.is_unsaved), place, so_far)?;
        }
        self.protocol.leave(self.time());
        Ok(end.map_or(Next::Meeting(self.protocol.next_meeting()), Next::End))
    }

    /// Hears whether a cut is made now. If one must be, the pending one is waited for.
    fn ask<P: Nodes<E>>(&mut self, nodes: &mut P, batches: u64, must: bool) -> Result<Heard, TrainError> {
        let (begun, is_unsaved) =
            if self.protocol.is_due(self.time(), must) { self.begin() } else { (None, false) };
        let written = self.written(must);
        let vote = self.protocol.vote(self.time(), batches, begun, written);
        let vote = vote.without_place(is_unsaved).asking_for_end(self.cuts.asked(self.protocol.is_leader()));
        self.vote(nodes, &vote)
    }

    /// After the last cut: waits until it is a checkpoint. All workers meet, the first time that they call
    /// it.
    pub(crate) fn end<P: Nodes<E>>(&mut self, nodes: &mut P) -> Result<(), TrainError> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        let vote = self.protocol.last_vote(self.written(true));
        self.vote(nodes, &vote)?;
        self.ledger.await_commit();
        // No node leaves, and ends the others' threads, before the last cut is a checkpoint.
        nodes.gather("left", Vec::new())?;
        self.cuts.end();
        Ok(())
    }

    /// Why the last cut is no checkpoint, at the leader.
    pub(crate) fn unsaved(&mut self) -> Option<TrainError> {
        // Without a folder, the last cut was only for a loss that has not come.
        self.ledger.unsaved().filter(|_| self.cuts.saves())
    }

    /// The place of the last cut, if it is a checkpoint, at the leader.
    pub(crate) fn saved(&self) -> Option<PathBuf> {
        let folder = self.cuts.folder.as_ref()?;
        self.ledger.saved().map(|cut| folder.place(cut))
    }

    /// The model that is tested and exported, after the training; `None` is the one in memory. All workers
    /// call it, and meet the first time.
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
                    self.ledger.await_commit();
                    let best = self.ledger.best().filter(|best| best.epoch == epoch).map(|best| best.cut);
                    let seat = (self.cuts.rank, self.protocol.is_first_of_node());
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

    /// Exchanges votes with all workers, and settles the pending cut.
    fn vote<P: Nodes<E>>(&mut self, nodes: &mut P, vote: &Vote) -> Result<Heard, TrainError> {
        let vote = postcard::to_stdvec(vote).expect("a vote has no part that cannot be serialised");
        let told = nodes.gather("meeting", vote)?;
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

    /// The leader starts a cut; `None` if that is not possible now. Also returns whether it has no place, and
    /// is made for its copies alone.
    fn begin(&mut self) -> (Option<u64>, bool) {
        self.protocol.begun(self.time());
        let begun = self.ledger.begin(|last| match &self.cuts.folder {
            Some(folder) => folder.begin_after(last),
            None => Ok(last + 1),
        });
        let is_unsaved = begun.is_none() && self.cuts.copying.is_some();
        (begun.or_else(|| is_unsaved.then(|| self.ledger.next())), is_unsaved)
    }

    /// What became of the node's part of the pending cut. With `waits`, it is waited for.
    fn written(&self, waits: bool) -> Option<Written> {
        if self.protocol.tells_of_part() { self.cuts.written(waits) } else { None }
    }

    /// Commits the cut that was pending, or gives it up.
    fn settle(&mut self, settled: Settled) {
        if self.protocol.is_first_of_node() {
            self.cuts.forget_part();
            if let Some(copying) = &self.cuts.copying {
                match &settled {
                    Settled::Complete { cut, .. } | Settled::Failed { cut, is_copied: true, .. } => {
                        copying.settle(*cut);
                    }
                    Settled::Failed { cut, .. } => copying.copies.forget(copying.name(*cut)),
                }
            }
        }
        // The ledgers of all other workers have no pending cut.
        if let Some(order) = self.ledger.settle(settled) {
            self.cuts.order(order);
        }
    }

    /// Copies what this node owns, while the cluster rests, and writes it if the cut has a place.
    fn cut<P: Nodes<E>>(
        &mut self,
        nodes: &mut P,
        (cut, has_place): (u64, bool),
        place: &Place<'_>,
        so_far: impl FnOnce(&P) -> (Vec<u8>, f64),
    ) -> Result<(), TrainError> {
        let start = now();
        nodes.rest()?;
        let is_first = self.protocol.is_first_of_node();
        let mut rows = None;
        if is_first {
            rows = self.cuts.folder.as_ref().filter(|_| has_place).map(|_| self.cuts.rows());
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
        }
        let (told, seconds) = so_far(nodes);
        let told = if P::SHARES {
            // No worker trains on before all nodes have their copies, and no thread that writes takes time
            // from those that copy.
            nodes.gather("cut", told)?
        } else {
            vec![told]
        };
        let copying = self.cuts.copying.as_ref().filter(|_| is_first);
        if is_first && copying.is_none() {
            self.cuts.write(cut, rows.take());
        }
        if self.protocol.is_leader() || copying.is_some() {
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
            let state = RunState::new(self.subject, self.plan, place.epochs, under_way);
            let state = RunState { made: self.cuts.made(), ..state };
            if let Some(copying) = copying {
                copying.copies.copied(copying.name(cut), state.clone());
            }
            if copying.is_some() {
                // After the state is known: a part that is fetched belongs to a cut that can be used.
                self.cuts.write(cut, rows);
            }
            if !self.protocol.is_leader() {
                return Ok(());
            }
            if has_place {
                self.ledger.copied(Copied { state, stop: now() - start, best });
            }
        }
        Ok(())
    }
}
