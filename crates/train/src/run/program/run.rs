//! A run of a program: where it begins, its epochs, its checkpoints, its results.

use super::{Program, Saved};
use crate::clock::now;
use crate::error::TrainError;
use crate::export::Staging;
use crate::report::{Epoch, EpochSum, Exchanged, History, Progress, Report, Tally, VirtualEpoch};
use crate::run::cut::{Cuts, Cutter, Next, Place};
use crate::run::nodes::Nodes;
use crate::run::origin::{Origin, Subject};
use crate::run::outcome::Outcome;
use crate::run::parameters::Part;
use crate::run::shell::{FirstFailure, Reason, Shell, Trained};
use crate::run::worker::guarded;
use crate::settings::Plan;
use intendant::{Aborter, NetworkStats};
use intendant_checkpoint::protocol::End;
use intendant_metrics::process;
use intendant_task::Split;
use std::path::Path;

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
    let (cuts, writer) = Cuts::new(plan, &ranges, (plan.rank(), 1), origin, None, None).unzip();
    let cuts = cuts.as_ref();
    let aborter = program.aborter();
    let end = |reason: &Reason| end_on(aborter.as_ref(), reason);
    let failure = &FirstFailure::new(&end);
    let mut simulated = None;
    let shell = Shell { plan, rank: plan.rank(), cuts, progress, failure };
    let trained = shell.train(writer, &|_| {}, || {
        guarded("the program", || {
            let cutter = cuts.map(|cuts| Cutter::new(cuts, (subject, plan), 0, Some(1)));
            let mut trained = epochs(program, plan, progress, (origin, cutter, failure), &mut simulated)?;
            if let Some(folder) = plan.export.as_deref().filter(|_| trained.interrupted.is_none()) {
                trained.exported = export(program, folder, is_first)?;
            }
            program.leave()?;
            Ok(trained)
        })
    })?;
    trained.conclude((plan, plan.rank()), |totals| {
        let about = (program.name(), program.digest(), program.size());
        let mut report = Report::of(about, plan, totals, 0);
        if let (Some(simulation), Some(epochs)) = (&plan.simulation, &simulated) {
            report.add_simulation(simulation, plan, epochs);
        }
        report
    })
}

/// Ends the run on the other nodes. The program of this one may wait for a node that waits for this one.
fn end_on(others: Option<&Aborter>, reason: &Reason) {
    if let Some(others) = others.filter(|_| !reason.is_known) {
        others.abort(&reason.text);
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
    let epochs = u32::try_from(origin.epochs.len()).ok().filter(|epochs| *epochs > 0);
    let saved = checkpoint.as_ref().map(|(checkpoint, place)| Saved::new(epochs, checkpoint, place));
    let aborter = program.aborter();
    if let Err(error) = program.begin(saved) {
        end_on(aborter.as_ref(), &Reason::of(&error));
        return Err(error);
    }
    Ok(origin)
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

fn sum_of(mut first: Exchanged, next: Exchanged) -> Exchanged {
    first.merge(&next);
    first
}

/// The epochs that are left, and the evaluation at the end.
fn epochs<P: Program>(
    program: &mut P,
    plan: &Plan,
    progress: &Progress,
    (origin, mut cutter, failure): (&Origin, Option<Cutter<'_, f64>>, &FirstFailure<'_>),
    simulated: &mut Option<VirtualEpoch>,
) -> Result<Trained, TrainError> {
    let mut totals = origin.totals();
    let begin = || History::begin(plan, program.name(), 0, &totals);
    let mut history = if plan.rank() == 0 { begin() } else { None };
    let exchanged_before = totals.epochs.iter().filter_map(|epoch| epoch.exchanged);
    let exchanged_before = exchanged_before.reduce(sum_of);
    let (mut since, mut interval) = (0, cutter.as_ref().map_or(0, Cutter::first_meeting));
    let done = u32::try_from(totals.epochs.len()).unwrap_or(u32::MAX);
    for number in done.saturating_add(1)..=plan.epochs {
        let (start, cpu_start_ns, before) = (now(), process::cpu_ns(), program.costs());
        let epoch = program.epoch(failure.flag());
        let (mut seconds, mut cpu_ns) =
            ((now() - start).as_secs_f64(), process::cpu_ns().saturating_sub(cpu_start_ns));
        if failure.has_failed() {
            return Err(TrainError::Stopped("another thread ended the run".to_owned()));
        }
        let (mut reduction, costs) = (epoch?, program.costs());
        let mut traffic = NetworkStats::default();
        if let Some(epoch) = program.virtual_epoch() {
            (seconds, cpu_ns) = (epoch.virtual_ns as f64 / 1e9, epoch.compute_ns);
            traffic = NetworkStats {
                messages: epoch.operations,
                bytes: epoch.bytes,
                unpacked_bytes: epoch.bytes,
                ..NetworkStats::default()
            };
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
            let mut nothing = |_: &ByProgram<'_, P>| (Vec::new(), 0.0);
            match cutter.meet(&mut ByProgram(program), since, &place, &mut nothing)? {
                Next::Meeting(epochs) => (since, interval) = (0, epochs),
                // Programs have no copies, so that no other number of nodes is asked for.
                Next::End(End::Nodes(_)) => {}
                Next::End(End::Signal(signal)) => {
                    cutter.end(&mut ByProgram(program))?;
                    let (made, unsaved) = (Some(cutter.made()), cutter.unsaved());
                    let interrupted = Some((End::Signal(signal), cutter.saved()));
                    return Ok(Trained { totals, made, unsaved, interrupted, ..Trained::default() });
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
    totals.exchanged = exchanged.reduce(sum_of);
    Ok(Trained { totals, made, unsaved, ..Trained::default() })
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
