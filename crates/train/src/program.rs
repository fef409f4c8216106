//! Programs that train without a parameter server: epochs that they compute themselves, on threads of their
//! own, with the command line, the report, the history and the export of all applications. A program of
//! several nodes exchanges by itself what it computes; node 0 has the results.

use crate::agreement::Terms;
use crate::cut::{Cuts, Cutter, Made, Next, Nodes, Place};
use crate::error::{AppError, PathDisplay, TrainError};
use crate::exchanged::Exchanged;
use crate::export::Staging;
use crate::history::History;
use crate::meter::{EpochSum, Totals};
use crate::origin::{Origin, Subject};
use crate::parameters::Part;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{Epoch, ModelSize, Report};
use crate::run::{self, Outcome};
use crate::tally::Tally;
use crate::worker::guarded;
use crossbeam_channel::{RecvTimeoutError, bounded};
use intendant::{Aborter, NetworkStats, lapser::Lobby};
use intendant_checkpoint::{Checkpoint, CheckpointError, Values};
use intendant_core::{Key, KeyRange, lock};
use intendant_metrics::process;
use intendant_task::{Reduction, Split};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What an application supplies that trains without a parameter server. See
/// [`App::exchanging`](crate::App::exchanging).
///
/// With several nodes, all of them call the same methods in the same order. What the methods return counts on
/// node 0. [`Program::begin`] comes before the first epoch, [`Program::leave`] last.
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
    /// [`Split::Valid`] after some epochs, at most once after each, and [`Split::Test`] once at the end.
    ///
    /// # Errors
    /// Any error ends the run. A program of one node has none.
    fn evaluate(&mut self, split: Split) -> Result<Reduction, TrainError>;

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

    /// What checkpoints have of all nodes together. Nothing by default: the program has no checkpoints.
    fn state(&self) -> State {
        State::default()
    }

    /// Streams this node's values of the state, between two epochs. The nodes have every key once.
    fn save(&self, _part: &mut dyn FnMut(&[Key], &[f64])) {}

    /// Waits until every node has called this with the same name; their payloads by rank.
    ///
    /// # Errors
    /// Any error ends the run. A program of one node has none.
    fn gather(&mut self, _name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        Ok(vec![payload])
    }

    /// Begins: at the start, after the epochs of an earlier run, or with the parameters of another one.
    ///
    /// # Errors
    /// Any error ends the run.
    fn begin(&mut self, _saved: Option<Saved<'_>>) -> Result<(), TrainError> {
        Ok(())
    }

    /// Leaves the other nodes in order. It is called last, also if the run cannot begin, but not if it fails.
    ///
    /// # Errors
    /// If a node was lost meanwhile.
    fn leave(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    /// After the last epoch, if something is exported: all nodes bring together what node 0 writes into
    /// `folder`, which is empty. `folder` is `None` on other nodes, and on node 0 if it could not be made.
    ///
    /// # Errors
    /// The outer error is one of the nodes, and ends the run. The inner one is one of the export, of which
    /// nothing is kept; the exchange with the other nodes is complete nevertheless.
    fn export(&mut self, folder: Option<&Path>) -> Result<Result<(), AppError>, TrainError>;
}

/// What checkpoints have of a program: ranges of keys, with values of f64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Name, keys and numbers per value of each range. Keys are numbered range by range, from 0.
    pub ranges: Vec<(&'static str, u64, usize)>,
    /// The first so many ranges are what another run can begin with (`--from`).
    pub parameters: usize,
}

impl State {
    fn into_ranges(self) -> (Vec<KeyRange>, usize) {
        let mut first = 0;
        let ranges = self.ranges.into_iter().map(|(name, keys, len)| {
            let keys = first..first + keys;
            first = keys.end;
            KeyRange { name: name.to_owned(), keys, len }
        });
        (ranges.collect(), self.parameters)
    }
}

/// The state of an earlier run, with which a program goes on, or the parameters of another one.
pub struct Saved<'a> {
    epochs: Option<u32>,
    values: Values<'a, f64>,
    checkpoint: &'a Checkpoint,
    place: &'a str,
}

impl Saved<'_> {
    /// The epochs that the earlier run has trained. `None` if only parameters count: this is a new run.
    #[must_use]
    pub const fn epochs(&self) -> Option<u32> {
        self.epochs
    }

    /// Reads the values of successive keys, from `first` on.
    ///
    /// # Errors
    /// If the checkpoint cannot be read any more.
    ///
    /// # Panics
    /// If the state has no such keys, or `values` is not as long as theirs.
    pub fn read(&mut self, first: u64, values: &mut [f64]) -> Result<(), TrainError> {
        let mut rest = values;
        for key in (first..).map(Key) {
            if rest.is_empty() {
                break;
            }
            let (value, after) = rest.split_at_mut(self.checkpoint.value_len(key));
            let read = self.values.read(key, value);
            read.map_err(|source| CheckpointError::Io { what: "read", path: self.place.into(), source })?;
            rest = after;
        }
        Ok(())
    }
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
}

/// Runs the epochs of `program` as `plan` says, and writes its results. `--valid-every` decides after which
/// epochs the program is evaluated; it is once more at the end. After an error the run has ended on all
/// nodes.
///
/// With `--checkpoint`, all nodes meet after some epochs ([`Program::gather`]), as workers of a parameter
/// server do; node 0 says after which, and whether each node copies its state.
///
/// # Errors
/// See [`TrainError`]. An output that cannot be written is an error as well; the others are written
/// nevertheless.
pub fn run_program<P: Program + Send>(program: &mut P, plan: &Plan) -> Result<Outcome, TrainError> {
    intendant::check_capacity(program.size().bytes, plan.workers as u64).map_err(intendant::Error::from)?;
    let (name, digest) = (program.name().to_owned(), program.digest());
    let (ranges, parameters) = program.state().into_ranges();
    let subject = &Subject::of_program((&name, digest), &ranges, parameters);
    let origin = &begin(program, plan, subject)?;
    let is_first = plan.rank() == 0;
    let progress = &Progress::new(1, plan.epochs, is_first && plan.progress);
    let (cuts, writer) = Cuts::new(plan, &ranges, (plan.rank(), 1), origin, None).unzip();
    let cuts = cuts.as_ref();
    let ending = &Ending::new(program.aborter());
    let grace = cuts.map_or(Duration::ZERO, |_| plan.checkpoints.grace);
    let claim = plan.interrupt.claim(grace);
    let mut simulated = None;
    let trained = thread::scope(|scope| {
        let (end, ended) = bounded::<()>(0);
        let watch = move || {
            let Some(signal) = plan.interrupt.wait(&ended) else { return };
            if let Some(cuts) = cuts.filter(|cuts| !cuts.is_over()) {
                cuts.ask_to_end(signal);
                if !grace.is_zero() && is_first && plan.progress {
                    progress.say("writing a last checkpoint; another signal ends the run at once");
                }
                // The program ends after a last checkpoint.
                if ended.recv_timeout(grace) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                tracing::warn!("there is no last checkpoint: {} s were not enough", grace.as_secs_f64());
            }
            ending.end(TrainError::Interrupted(signal));
        };
        let refused = |source| TrainError::System { what: "start a thread", source };
        let watching = thread::Builder::new().name("interrupt".to_owned()).spawn_scoped(scope, watch);
        watching.map_err(refused)?;
        // It ends after the program: the last part may be on its way.
        let (written, all_written) = bounded::<()>(0);
        if let (Some(writer), Some(cuts)) = (writer, cuts) {
            let write = move || {
                let run = || {
                    writer.run(cuts, (&|_| {}, progress), &all_written);
                    Ok(())
                };
                if let Err(error) = guarded("checkpoint", run) {
                    // The program need not wait for a part any more.
                    cuts.give_up(&error);
                    ending.end(error);
                }
            };
            let writing = thread::Builder::new().name("checkpoint".to_owned()).spawn_scoped(scope, write);
            writing.map_err(refused)?;
        }
        let cutter = cuts.map(|cuts| Cutter::new(cuts, (subject, plan), 0).meeting_after(1));
        let trained = guarded("the program", || {
            let mut trained = epochs(program, plan, progress, (origin, cutter, ending), &mut simulated)?;
            if let Some(folder) = plan.export.as_deref().filter(|_| trained.interrupted.is_none()) {
                trained.exported = export(program, folder, is_first)?;
            }
            program.leave()?;
            Ok(trained)
        });
        drop((end, written));
        trained
    });
    drop(claim);
    let Trained { totals, exported, made, unsaved, interrupted } = trained.map_err(|error| {
        // What follows from a signal is not the reason.
        if let Some(first) = ending.take() {
            return first;
        }
        ending.abort_unless_known(&error);
        error
    })?;
    if let Some((signal, saved)) = interrupted {
        if let Some(unsaved) = unsaved {
            tracing::warn!("there is no last checkpoint: {unsaved}");
        }
        return Err(match saved {
            Some(place) => TrainError::Saved { signal, place: PathDisplay(place) },
            None => TrainError::Interrupted(signal),
        });
    }
    let mut report = Report::of((program.name(), program.digest(), program.size()), plan, &totals, 0);
    report.checkpoints = made;
    if let (Some(simulation), Some(epochs)) = (&plan.simulation, &simulated) {
        report.add_simulation(simulation, plan, epochs);
    }
    if is_first {
        run::finish(&report, plan, exported)?;
    }
    match unsaved {
        // The results are written nevertheless.
        Some(error) => Err(error),
        None => Ok(Outcome { rank: plan.rank(), report }),
    }
}

/// Finds where the run begins, together with the other nodes, and lets the program begin there.
fn begin<P: Program>(program: &mut P, plan: &Plan, subject: &Subject<'_>) -> Result<Origin, TrainError> {
    let found = match plan.rendezvous {
        None => Origin::find(subject, plan),
        Some(_) => Origin::agree(subject, plan, |name, word| program.gather(name, word)),
    };
    let mut origin = match found {
        Ok(origin) => origin,
        Err(error) => {
            // All nodes know it. If the cluster has failed, the error says so.
            let _ = program.leave();
            return Err(error);
        }
    };
    origin.say(plan);
    let checkpoint = origin.take_checkpoint();
    let saved = checkpoint.as_ref().map(|(checkpoint, place)| Saved {
        epochs: u32::try_from(origin.epochs.len()).ok().filter(|epochs| *epochs > 0),
        values: checkpoint.values(),
        checkpoint,
        place,
    });
    let aborter = program.aborter();
    if let Err(error) = program.begin(saved) {
        Ending::new(aborter).abort_unless_known(&error);
        return Err(error);
    }
    Ok(origin)
}

/// The end of a run from another thread than that of its program.
struct Ending {
    /// Whether the program is to return early.
    stop: AtomicBool,
    /// Why.
    first: Mutex<Option<TrainError>>,
    others: Option<Aborter>,
}

impl Ending {
    const fn new(others: Option<Aborter>) -> Self {
        Self { stop: AtomicBool::new(false), first: Mutex::new(None), others }
    }

    /// Ends the run on all nodes.
    fn end(&self, error: TrainError) {
        let reason = error.to_string();
        lock(&self.first).get_or_insert(error);
        // Release: pairs with the Acquire of `has_ended`.
        self.stop.store(true, Ordering::Release);
        // The program may wait for a node that waits for this one.
        if let Some(others) = &self.others {
            others.abort(&reason);
        }
    }

    /// Whether another thread has ended the run.
    fn has_ended(&self) -> bool {
        // Acquire: pairs with the Release of `end`; the error is there.
        self.stop.load(Ordering::Acquire)
    }

    fn take(&self) -> Option<TrainError> {
        lock(&self.first).take()
    }

    /// Ends the run on the other nodes because of an error of this one.
    fn abort_unless_known(&self, error: &TrainError) {
        if let (Some(others), false) = (&self.others, matches!(error, TrainError::Cluster(_))) {
            others.abort(&error.to_string());
        }
    }
}

/// What the epochs came to.
struct Trained {
    totals: Totals,
    /// At node 0; the files are not in their place yet.
    exported: Option<Result<Staging, TrainError>>,
    made: Option<Made>,
    /// Why the last checkpoint could not be made.
    unsaved: Option<TrainError>,
    /// The signal that ended the run early, and the last checkpoint at node 0.
    interrupted: Option<(i32, Option<PathBuf>)>,
}

/// The nodes of a program. No node changes the state of another one.
struct ByProgram<'a, P>(&'a mut P);

impl<P: Program> Nodes<f64> for ByProgram<'_, P> {
    const SHARES: bool = false;

    fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        self.0.gather(name, payload)
    }

    fn rest(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    fn copy(&mut self, part: &mut Part<'_, f64>) -> Result<(), TrainError> {
        self.0.save(part);
        Ok(())
    }
}

/// The epochs that are left, and the evaluation at the end.
fn epochs<P: Program>(
    program: &mut P,
    plan: &Plan,
    progress: &Progress,
    (origin, mut cutter, ending): (&Origin, Option<Cutter<'_, f64>>, &Ending),
    simulated: &mut Option<VirtualEpoch>,
) -> Result<Trained, TrainError> {
    let mut totals = origin.totals();
    let begin = || History::begin(plan, program.name(), 0, &totals);
    let mut history = if plan.rank() == 0 { begin() } else { None };
    let exchanged_before = totals.epochs.iter().filter_map(|epoch| epoch.exchanged);
    let exchanged_before = exchanged_before.reduce(|sum, epoch| sum.plus(&epoch));
    let (mut since, mut interval) = (0, cutter.as_ref().map_or(0, Cutter::first_meeting));
    let done = u32::try_from(totals.epochs.len()).unwrap_or(u32::MAX);
    for number in done.saturating_add(1)..=plan.epochs {
        let (start, cpu_start_ns, before) = (now(), process::cpu_ns(), program.costs());
        let epoch = program.epoch(&ending.stop);
        let (mut seconds, mut cpu_ns) =
            ((now() - start).as_secs_f64(), process::cpu_ns().saturating_sub(cpu_start_ns));
        if ending.has_ended() {
            return Err(TrainError::Stopped("another thread ended the run".to_owned()));
        }
        let (mut reduction, costs) = (epoch?, program.costs());
        let mut traffic = NetworkStats::default();
        if let Some(epoch) = program.virtual_epoch() {
            (seconds, cpu_ns) = (epoch.virtual_ns as f64 / 1e9, epoch.compute_ns);
            traffic = NetworkStats { messages: epoch.operations, bytes: epoch.bytes, unix_bytes: 0 };
            simulated.get_or_insert_default().continues(&epoch);
        }
        if plan.valid_every > 0 && number.is_multiple_of(plan.valid_every) {
            reduction.merge(&program.evaluate(Split::Valid)?);
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
        let Some(cutter) = &mut cutter else { continue };
        (since, interval) = (since + 1, interval.max(1));
        let must = number == plan.epochs;
        if must || since >= interval {
            let place = Place { epochs: &totals.epochs, before: None, rest: None, must };
            let nothing = |_: &ByProgram<'_, P>| (Vec::new(), 0.0);
            match cutter.meet(&mut ByProgram(program), since, &place, nothing)? {
                Next::Meeting(epochs) => (since, interval) = (0, epochs),
                Next::End(signal) => {
                    cutter.end(&mut ByProgram(program))?;
                    let (made, unsaved) = (Some(cutter.made()), cutter.unsaved());
                    let interrupted = Some((signal, cutter.saved()));
                    return Ok(Trained { totals, exported: None, made, unsaved, interrupted });
                }
            }
        }
    }
    // The test may take long: the state is safe before it.
    let (mut made, mut unsaved) = (None, None);
    if let Some(cutter) = &mut cutter {
        cutter.end(&mut ByProgram(program))?;
        (made, unsaved) = (Some(cutter.made()), cutter.unsaved());
    }
    let tally = Tally { reduction: program.evaluate(Split::Test)?, ..Tally::default() };
    totals.test = Some(EpochSum { tally, seconds: 0.0, untrained: None, exchanged: None });
    if let Some(history) = &mut history {
        history.end(&crate::report::test(&totals));
    }
    let exchanged = [exchanged_before, program.costs().exchanged].into_iter().flatten();
    totals.exchanged = exchanged.reduce(|before, here| before.plus(&here));
    Ok(Trained { totals, exported: None, made, unsaved, interrupted: None })
}

/// The nodes bring together what node 0 writes. The outer error is one of the cluster and ends the run; the
/// inner one is one of the export.
fn export<P: Program>(
    program: &mut P,
    folder: &Path,
    is_first: bool,
) -> Result<Option<Result<Staging, TrainError>>, TrainError> {
    if !is_first {
        return program.export(None).map(|_| None);
    }
    let staging = Staging::create(folder).map_err(|error| TrainError::Export(error.into()));
    // If there is no place, what the others have is received nevertheless.
    let written = program.export(staging.as_ref().ok().map(Staging::folder))?;
    Ok(Some(staging.and_then(|staging| written.map(|()| staging).map_err(TrainError::Export))))
}

#[expect(clippy::disallowed_methods, reason = "the threaded shell measures how long epochs take")]
fn now() -> Instant {
    Instant::now()
}
