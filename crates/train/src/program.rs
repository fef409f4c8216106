//! Programs that train without a parameter server: epochs that they compute themselves, on threads of their
//! own, with the command line, the report, the history and the export of all applications. A program of
//! several nodes exchanges by itself what it computes; node 0 has the results.

use crate::agreement::Terms;
use crate::error::{AppError, TrainError};
use crate::exchanged::Exchanged;
use crate::export::Staging;
use crate::history::History;
use crate::meter::{EpochSum, Totals};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{Epoch, ModelSize, Report};
use crate::run::{self, Outcome};
use crate::tally::Tally;
use crate::worker::guarded;
use crossbeam_channel::bounded;
use intendant::lapser::{Lobby, Way};
use intendant::{Aborter, NetworkStats, Transport};
use intendant_metrics::process;
use intendant_task::Reduction;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What an application supplies that trains without a parameter server. See
/// [`App::exchanging`](crate::App::exchanging).
///
/// With several nodes, all of them call the same methods in the same order, apart from [`Program::export`].
/// What the methods return counts on node 0.
pub trait Program {
    /// Name of the task, as in the report.
    fn name(&self) -> &'static str;

    /// Hash of everything that is trained on, and of the order.
    fn digest(&self) -> u64;

    /// Size of the model. It is checked against the memory of the machine before the first epoch.
    fn size(&self) -> ModelSize;

    /// Computes the next epoch and returns the sums `examples` and `loss`. It may return early, with any
    /// sums, once `stop` is true.
    ///
    /// # Errors
    /// Any error ends the run; [`TrainError::ProgramDiverged`] if values leave the range of numbers.
    fn epoch(&mut self, stop: &AtomicBool) -> Result<Reduction, TrainError>;

    /// The quality on held-out data now: the sums `quality.NAME` and `quality.count`, as
    /// [`Evaluation::finish`](intendant_task::Evaluation::finish) has them; none without held-out data.
    ///
    /// # Errors
    /// Any error ends the run. A program of one node has none.
    fn evaluate(&mut self) -> Result<Reduction, TrainError>;

    /// What the last epoch took and sent, if it ran on a simulated cluster: called once after each epoch.
    fn virtual_epoch(&mut self) -> Option<VirtualEpoch> {
        None
    }

    /// The costs of all epochs so far, as [`Program::epoch`] learnt them. Nothing on one node.
    fn costs(&self) -> Costs {
        Costs::default()
    }

    /// What ends the run on all nodes, while another thread waits in a method. `None` on one node.
    fn aborter(&self) -> Option<Aborter> {
        None
    }

    /// Brings to node 0 what it exports. All nodes call it after the last epoch, if something is exported.
    ///
    /// # Errors
    /// Any error ends the run.
    fn collect(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    /// Leaves the other nodes in order. It is called last, unless the run fails.
    ///
    /// # Errors
    /// If a node was lost meanwhile.
    fn leave(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    /// Writes the files of the model into `folder`, which is empty. On node 0 only.
    ///
    /// # Errors
    /// Any error ends the export; nothing of it is kept.
    fn export(&mut self, folder: &Path) -> Result<(), AppError>;
}

/// An epoch on a simulated cluster, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualEpoch {
    /// How long it lasted, nanoseconds.
    pub virtual_ns: u64,
    /// Time in which threads computed, summed over nodes, nanoseconds.
    pub compute_ns: u64,
    /// Operations between nodes.
    pub operations: u64,
    /// Bytes of the operations.
    pub bytes: u64,
    /// Events of the simulation since its start.
    pub events: u64,
    /// Time in which the sending halves of the nodes' NICs were busy, summed over nodes, nanoseconds.
    pub nic_busy_ns: u64,
}

impl VirtualEpoch {
    /// Adds the next epoch.
    fn continues(&mut self, next: &Self) {
        self.virtual_ns += next.virtual_ns;
        self.compute_ns += next.compute_ns;
        self.operations += next.operations;
        self.bytes += next.bytes;
        self.events = next.events;
        self.nic_busy_ns += next.nic_busy_ns;
    }
}

/// What the epochs of a [`Program`] cost beyond what node 0 sees by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// CPU time of the other nodes, nanoseconds.
    pub cpu_ns: u64,
    /// What all nodes exchanged; `None` if there are no others.
    pub exchanged: Option<Exchanged>,
}

impl Plan {
    /// Meets the other nodes of a program, if a launcher started this process as one of several. Nodes whose
    /// settings or data (`digest`) differ refuse each other.
    ///
    /// # Errors
    /// If the cluster refuses this node or is not complete in time.
    pub fn lobby(&self, name: &str, digest: u64) -> Result<Option<Lobby>, TrainError> {
        let Some(rendezvous) = self.rendezvous.clone() else { return Ok(None) };
        let settings = Terms::of_program(name, digest, self).settings(self);
        Ok(Some(Lobby::enter(rendezvous, settings)?))
    }

    /// The way by which nodes that exchange reach each other's memory.
    #[must_use]
    pub const fn way(&self) -> Way {
        match self.transport {
            Transport::Verbs => Way::Verbs,
            Transport::Shm => Way::Shm,
            // The other kinds were refused.
            Transport::Auto | Transport::Tcp | Transport::Unix => Way::Auto,
        }
    }
}

/// Runs the epochs of `program` as `plan` says, and writes its results. `--valid-every` decides after which
/// epochs the program is evaluated; it is once more at the end. After an error the run has ended on all
/// nodes.
///
/// # Errors
/// See [`TrainError`]. An output that cannot be written is an error as well; the others are written
/// nevertheless.
pub fn run_program<P: Program + Send>(program: &mut P, plan: &Plan) -> Result<Outcome, TrainError> {
    intendant::check_capacity(program.size().bytes, plan.workers as u64).map_err(intendant::Error::from)?;
    let is_first = plan.rank() == 0;
    let progress = &Progress::new(1, plan.epochs, is_first && plan.progress);
    let (stop, signal) = (&AtomicBool::new(false), &AtomicI32::new(0));
    let aborter = program.aborter();
    let claim = plan.interrupt.claim(Duration::ZERO);
    let mut simulated = None;
    let trained = thread::scope(|scope| {
        let (end, ended) = bounded::<()>(0);
        let others = aborter.clone();
        let watch = move || {
            if let Some(number) = plan.interrupt.wait(&ended) {
                signal.store(number, Ordering::Relaxed);
                // Release: pairs with the Acquire in `epochs`; a run that is stopped finds the signal.
                stop.store(true, Ordering::Release);
                // The program may wait for a node that waits for this one.
                if let Some(others) = others {
                    others.abort(&TrainError::Interrupted(number).to_string());
                }
            }
        };
        let watching = thread::Builder::new().name("interrupt".to_owned()).spawn_scoped(scope, watch);
        watching.map_err(|source| TrainError::System { what: "start a thread", source })?;
        let trained = guarded("the program", || {
            let totals = epochs(program, plan, progress, (stop, signal), &mut simulated)?;
            if plan.export.is_some() {
                program.collect()?;
            }
            program.leave()?;
            Ok(totals)
        });
        drop(end);
        trained
    });
    drop(claim);
    let totals = trained.map_err(|error| {
        // Acquire: pairs with the Release of the thread that waits for signals. What follows from a signal is
        // not the reason.
        if stop.load(Ordering::Acquire) {
            return TrainError::Interrupted(signal.load(Ordering::Relaxed));
        }
        if let (Some(others), false) = (&aborter, matches!(error, TrainError::Cluster(_))) {
            others.abort(&error.to_string());
        }
        error
    })?;
    let mut report = Report::of((program.name(), program.digest(), program.size()), plan, &totals, 0);
    if let (Some(simulation), Some(epochs)) = (&plan.simulation, &simulated) {
        report.add_simulation(simulation, plan, epochs);
    }
    if is_first {
        let exported = plan.export.as_deref().map(|folder| export(program, folder));
        run::finish(&report, plan, exported)?;
    }
    Ok(Outcome { rank: plan.rank(), report })
}

/// The epochs, and the evaluation at the end.
fn epochs<P: Program>(
    program: &mut P,
    plan: &Plan,
    progress: &Progress,
    (stop, signal): (&AtomicBool, &AtomicI32),
    simulated: &mut Option<VirtualEpoch>,
) -> Result<Totals, TrainError> {
    let begin = || History::begin(plan, program.name(), 0, &Totals::default());
    let mut history = if plan.rank() == 0 { begin() } else { None };
    let mut totals = Totals::default();
    for number in 1..=plan.epochs {
        let (start, cpu_start_ns, before) = (now(), process::cpu_ns(), program.costs());
        let epoch = program.epoch(stop);
        let (mut seconds, mut cpu_ns) =
            ((now() - start).as_secs_f64(), process::cpu_ns().saturating_sub(cpu_start_ns));
        // Acquire: pairs with the Release of the thread that waits for signals.
        if stop.load(Ordering::Acquire) {
            return Err(TrainError::Interrupted(signal.load(Ordering::Relaxed)));
        }
        let (mut reduction, costs) = (epoch?, program.costs());
        let mut traffic = NetworkStats::default();
        if let Some(epoch) = program.virtual_epoch() {
            (seconds, cpu_ns) = (epoch.virtual_ns as f64 / 1e9, epoch.compute_ns);
            traffic = NetworkStats { messages: epoch.operations, bytes: epoch.bytes, unix_bytes: 0 };
            simulated.get_or_insert_default().continues(&epoch);
        }
        if plan.valid_every > 0 && number.is_multiple_of(plan.valid_every) {
            reduction.merge(&program.evaluate()?);
        }
        let cpu_ns = cpu_ns + costs.cpu_ns.saturating_sub(before.cpu_ns);
        let exchanged = costs.exchanged.map(|all| all.since(&before.exchanged.unwrap_or_default()));
        let tally = Tally { reduction, cpu_ns, traffic, ..Tally::default() };
        let sum = EpochSum { tally, seconds, untrained: None, exchanged };
        if let Some(history) = &mut history {
            history.epoch(&Epoch::new(number as usize, &sum, 0));
        }
        progress.epoch_ended(0, number as usize, &sum);
        totals.epochs.push(sum);
    }
    let tally = Tally { reduction: program.evaluate()?, ..Tally::default() };
    totals.test = Some(EpochSum { tally, seconds: 0.0, untrained: None, exchanged: None });
    if let Some(history) = &mut history {
        history.end(&crate::report::test(&totals));
    }
    totals.exchanged = program.costs().exchanged;
    Ok(totals)
}

fn export<P: Program>(program: &mut P, folder: &Path) -> Result<Staging, TrainError> {
    let staging = Staging::create(folder).map_err(|error| TrainError::Export(error.into()))?;
    program.export(staging.folder()).map_err(TrainError::Export)?;
    Ok(staging)
}

#[expect(clippy::disallowed_methods, reason = "the threaded shell measures how long epochs take")]
fn now() -> Instant {
    Instant::now()
}
