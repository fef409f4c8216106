//! What the workers of a node share for their cuts, and the thread that writes them.

use crate::clock::now;
use crate::error::TrainError;
use crate::report::Made;
use crate::report::Progress;
use crate::report::metrics::Board;
use crate::run::best::{Compared, Kept};
use crate::run::origin::{Origin, RunState};
use crate::run::views::Copying;
use crate::settings::Plan;
use crossbeam_channel::{Receiver, Sender};
use intendant_checkpoint::protocol::{End, Unwritten, Written};
use intendant_checkpoint::{Best, CheckpointError, Folder, Keeper, Manifest, Part, Range, Rows};
use intendant_core::{Element, KeyRange, lock};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Checkpoints that are kept.
const KEPT: usize = 2;

/// What the thread that writes does for the leader.
pub(super) enum Order {
    Commit {
        /// Without the state of the run.
        manifest: Box<Manifest>,
        state: Box<RunState>,
        stop: Duration,
        done: Sender<Result<(), CheckpointError>>,
    },
    /// The cut of this number is given up.
    Remove(u64),
}

/// What the thread that writes does.
enum Job<E> {
    /// Of a run with copies, also fetches parts of other nodes.
    Write {
        cut: u64,
        rows: Option<Rows<E>>,
    },
    Order(Order),
}

/// What became of this node's part of the pending cut.
#[derive(Default)]
struct Told {
    part: Option<Written>,
    /// Why there will be no part any more.
    over: Option<String>,
}

/// A node's cuts: what its workers and the thread that writes share.
pub(crate) struct Cuts<E> {
    /// Where checkpoints are written; a run with copies may have none.
    pub(super) folder: Option<Folder>,
    /// What copies need, if other nodes hold some.
    pub(super) copying: Option<Copying<E>>,
    pub(super) seconds: f64,
    pub(super) ranges: Vec<Range>,
    pub(super) rank: u16,
    pub(super) workers: usize,
    nodes: usize,
    jobs: Sender<Job<E>>,
    /// Memory for the next copy.
    spare: Mutex<Option<Rows<E>>>,
    told: Mutex<Told>,
    /// Notified when something is told.
    wrote: Condvar,
    made: Mutex<Made>,
    /// Checkpoints that do not count ([`Keeper::new`]).
    pub(super) damaged: Vec<u64>,
    /// The signal that asks for an end of the run; 0 if there is none.
    asked: AtomicI32,
    /// The best model of an earlier run.
    pub(super) best: Option<Best>,
    pub(super) compared: Compared,
    /// The last cut is made: training is over.
    is_over: AtomicBool,
    /// The model that is tested and exported, if it is not the one in memory. The node's first worker sets
    /// it, between two meetings of all workers.
    pub(crate) kept: OnceLock<Arc<Kept>>,
    /// Where checkpoints are published, if metrics are served.
    board: Option<Arc<Board>>,
}

impl<E: Element> Cuts<E> {
    /// Prepares cuts into the folder that the plan names; what the thread that writes receives. So many
    /// workers of each node meet.
    #[inline(never)]
    pub(crate) fn new(
        plan: &Plan,
        ranges: &[KeyRange],
        (rank, workers): (u16, usize),
        origin: &Origin,
        board: Option<&Arc<Board>>,
        copying: Option<Copying<E>>,
    ) -> Option<(Self, Writer<E>)> {
        let folder = plan.checkpoints.folder.clone();
        if folder.is_none() && copying.is_none() {
            return None;
        }
        let (jobs, queue) = crossbeam_channel::unbounded();
        let cuts = Self {
            folder,
            copying,
            seconds: plan.checkpoints.seconds,
            ranges: ranges.iter().map(Range::from).collect(),
            rank,
            workers,
            nodes: plan.nodes,
            jobs,
            spare: Mutex::default(),
            told: Mutex::default(),
            wrote: Condvar::new(),
            made: Mutex::new(origin.made),
            damaged: origin.damaged.clone(),
            asked: AtomicI32::new(0),
            // A run that keeps the last model must not say that an earlier one is the best so far.
            best: origin.best.filter(|_| plan.best.is_some()),
            compared: Compared::new(plan, origin),
            is_over: AtomicBool::new(false),
            kept: OnceLock::new(),
            board: board.cloned(),
        };
        let keeper = cuts.folder.clone().map(|folder| Keeper::new(folder, KEPT, origin.damaged.clone()));
        Some((cuts, Writer { queue, keeper }))
    }

    pub(crate) fn made(&self) -> Made {
        *lock(&self.made)
    }

    /// Whether the last cut is made: training is over, and there are no more meetings.
    pub(crate) fn is_over(&self) -> bool {
        // Nothing else is passed on with it.
        self.is_over.load(Ordering::Relaxed)
    }

    /// The last cut is made.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// A signal asks for an end of the run: after a last cut, at the next meeting.
    pub(crate) fn ask_to_end(&self, signal: i32) {
        // Nothing else is passed on with it.
        self.asked.store(signal, Ordering::Relaxed);
    }

    /// What asks for an end of the run, or of the view. The leader hears of nodes that want to join.
    pub(super) fn asked(&self, is_leader: bool) -> Option<End> {
        let signal = Some(self.asked.load(Ordering::Relaxed)).filter(|signal| *signal != 0);
        let nodes = || self.copying.as_ref().filter(|_| is_leader)?.copies.asked(self.nodes);
        signal.map(End::Signal).or_else(|| nodes().map(End::Nodes))
    }

    /// Whether checkpoints are written.
    pub(crate) const fn saves(&self) -> bool {
        self.folder.is_some()
    }

    /// The thread that writes has ended early: workers need not wait for a part any more.
    pub(crate) fn give_up(&self, error: &TrainError) {
        lock(&self.told).over = Some(error.to_string());
        self.wrote.notify_all();
    }

    /// Where values are copied to.
    pub(super) fn rows(&self) -> Rows<E> {
        lock(&self.spare).take().unwrap_or_else(|| Rows::new(&self.ranges))
    }

    /// Orders that a copy is written as this node's part of a cut.
    pub(super) fn write(&self, cut: u64, rows: Option<Rows<E>>) {
        // If the receiver is gone, the run has failed, and says why.
        let _ = self.jobs.send(Job::Write { cut, rows });
    }

    /// Writes this node's part of a cut, if checkpoints are written.
    fn write_part(&self, cut: u64, rows: Option<Rows<E>>) -> Result<Part, String> {
        let name = format!("part-{}", self.rank);
        let (Some(folder), Some(mut rows)) = (&self.folder, rows) else {
            return Ok(Part { file: name, bytes: 0, keys: 0, blocks: Vec::new() });
        };
        let part = folder.write(cut, &name, &rows).map_err(|error| error.to_string());
        rows.clear();
        *lock(&self.spare) = Some(rows);
        part
    }

    /// Passes an order of the leader on.
    pub(super) fn order(&self, order: Order) {
        // As above.
        let _ = self.jobs.send(Job::Order(order));
    }

    /// What became of this node's part of the pending cut. With `waits`, it is waited for.
    pub(super) fn written(&self, waits: bool) -> Option<Written> {
        let mut told = lock(&self.told);
        loop {
            if let Some(reason) = &told.over {
                return Some(Err(Unwritten { reason: reason.clone(), is_copied: false }));
            }
            if told.part.is_some() || !waits {
                return told.part.clone();
            }
            told = self.wrote.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The pending cut is settled.
    pub(super) fn forget_part(&self) {
        lock(&self.told).part = None;
    }
}

/// Hears of each checkpoint, by its number.
pub(crate) type Committed<'a> = dyn Fn(u64) + Sync + 'a;

/// The thread that writes.
pub(crate) struct Writer<E> {
    queue: Receiver<Job<E>>,
    /// Of use at the leader's node only.
    keeper: Option<Keeper>,
}

impl<E: Element> Writer<E> {
    /// Writes what is in the queue until `ended` is disconnected. Before, it takes memory for an equal share
    /// of all values: while the cluster stands still for a cut, none has to be taken. The leader's orders are
    /// carried out in any case; of a run that fails, no more parts are written.
    #[inline(never)]
    pub(crate) fn run(mut self, cuts: &Cuts<E>, told: (&Committed<'_>, &Progress), ended: &Receiver<()>) {
        let mut took = Duration::ZERO;
        if cuts.saves() {
            let mut room = Rows::new(&cuts.ranges);
            room.make_room(cuts.nodes);
            lock(&cuts.spare).get_or_insert(room);
        }
        loop {
            let job = crossbeam_channel::select! {
                recv(self.queue) -> job => job,
                recv(ended) -> _ => {
                    for job in self.queue.try_iter() {
                        if let Job::Order(order) = job {
                            carry_out(order, (cuts, self.keeper.as_mut()), told, took);
                        }
                    }
                    return;
                }
            };
            match job {
                Ok(Job::Write { cut, rows }) => {
                    let start = now();
                    let copied = match &cuts.copying {
                        Some(copying) => copying.copies.fetch(copying.name(cut), &copying.view, copying.rank),
                        None => Ok(()),
                    };
                    let unwritten = |is_copied| move |reason| Unwritten { reason, is_copied };
                    let part = copied.map_err(unwritten(false));
                    let part = part.and_then(|()| cuts.write_part(cut, rows).map_err(unwritten(true)));
                    took = now() - start;
                    lock(&cuts.told).part = Some(part);
                    cuts.wrote.notify_all();
                }
                Ok(Job::Order(order)) => carry_out(order, (cuts, self.keeper.as_mut()), told, took),
                Err(_) => return,
            }
        }
    }
}

/// Carries an order out. `took` is how long the part of this node took to be written.
fn carry_out<E: Element>(
    order: Order,
    (cuts, keeper): (&Cuts<E>, Option<&mut Keeper>),
    (tell, progress): (&Committed<'_>, &Progress),
    took: Duration,
) {
    match order {
        Order::Commit { mut manifest, mut state, stop, done } => {
            let (Some(keeper), Some(folder)) = (keeper, &cuts.folder) else {
                let _ = done.send(Ok(()));
                return;
            };
            let made = cuts.made().with(manifest.bytes(), stop, took);
            state.made = made;
            let state = serde_json::to_value(state);
            manifest.run = state.expect("a state has no part that cannot be serialised");
            let committed = keeper.commit(&manifest);
            match &committed {
                Ok(()) => {
                    *lock(&cuts.made) = made;
                    if let Some(board) = &cuts.board {
                        board.checkpoint(manifest.cut, made);
                    }
                    intendant::launch::tell_saved();
                    tell(manifest.cut);
                    let place = folder.place(manifest.cut);
                    let size = indicatif::HumanBytes(manifest.bytes());
                    progress.say(&format!("checkpoint {}  {size}", place.display()));
                    if let Err(error) = keeper.tidy() {
                        tracing::warn!("an old checkpoint is left: {error}");
                    }
                }
                Err(error) => tracing::warn!("checkpoint {} is given up: {error}", manifest.cut),
            }
            // The leader waits for it only at the end.
            let _ = done.send(committed);
        }
        Order::Remove(cut) => {
            if let Some(keeper) = keeper {
                keeper.give_up(cut);
            }
        }
    }
}
