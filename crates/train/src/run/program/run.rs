//! A run of a program: where it begins, its epochs, its checkpoints, its results.

use super::{About, Computed, Costs, Program, Saved};
use crate::clock::now;
use crate::error::TrainError;
use crate::export::{self, Heir, Staging};
use crate::report::{Epoch, EpochSum, Exchanged, History, Progress, Report, Tally, VirtualTime};
use crate::run::cut::{Cuts, Cutter, Next, Place};
use crate::run::nodes::Nodes;
use crate::run::origin::{Origin, Subject};
use crate::run::outcome::Outcome;
use crate::run::parameters::Part;
use crate::run::shell::{End, FirstFailure, Reason, Shell, Trained};
use crate::run::worker::guarded;
use crate::settings::Plan;
use intendant::Aborter;
use intendant_checkpoint::protocol;
use intendant_metrics::process;
use intendant_task::{Reduction, Split};
use std::path::Path;

/// Runs the epochs of `program`, which is about `about`, as `plan` says, and writes its results.
/// `--valid-every` decides after which epochs the program is evaluated; it is once more at the end. After an
/// error the run has ended on all nodes.
///
/// With `--checkpoint`, all nodes meet after some epochs ([`Program::gather`]), as workers of a parameter
/// server do; node 0 says after which, and whether each node copies its state.
///
/// # Errors
/// See [`TrainError`]. An output that cannot be written is an error as well; the others are written
/// nevertheless.
pub fn run_program<P: Program + Send>(
    program: &mut P,
    about: &About,
    plan: &Plan,
) -> Result<Outcome, TrainError> {
    let &About { task, digest, size, ref state, ref aborter } = about;
    intendant::check_capacity(size.bytes, plan.workers as u64).map_err(intendant::Error::from)?;
    let (ranges, parameters) = state.ranges();
    let subject = &Subject::of_program((task, digest), &ranges, parameters);
    let end = |reason: &Reason| end_on(aborter.as_ref(), reason);
    let origin = &begin(program, plan, subject, &end)?;
    let is_first = plan.rank() == 0;
    if let Some(folder) = plan.export.as_ref().filter(|_| is_first) {
        export::check_earlier(folder, &plan.heir(digest))?;
    }
    let progress = &Progress::new(1, plan.epochs, is_first && plan.progress, None);
    let (cuts, writer) = Cuts::new(plan, &ranges, (plan.rank(), 1), origin, None, None).unzip();
    let cuts = cuts.as_ref();
    let failure = &FirstFailure::new(&end);
    let mut simulated = None;
    let shell = Shell { plan, rank: plan.rank(), cuts, progress, failure };
    let trained = shell.train(writer, &|_| {}, || {
        guarded("the program", || {
            let cutter = cuts.map(|cuts| Cutter::new(cuts, (subject, plan), 0, Some(1)));
            let run = (task, origin, failure, progress);
            let mut trained = epochs(program, plan, run, cutter, &mut simulated)?;
            if let Some(folder) = plan.export.as_deref().filter(|_| trained.interrupted.is_none()) {
                trained.exported = export(program, (folder, plan.heir(digest)), is_first)?;
            }
            program.leave()?;
            Ok(trained)
        })
    })?;
    trained.conclude((plan, plan.rank()), |totals| {
        let mut report = Report::of((task, digest, size), plan, totals, 0);
        if let (Some(simulation), Some(time)) = (&plan.simulation, &simulated) {
            report.add_simulation(simulation, plan, time);
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
fn begin<P: Program>(
    program: &mut P,
    plan: &Plan,
    subject: &Subject<'_>,
    end: &End<'_>,
) -> Result<Origin, TrainError> {
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
    program.begin(saved).inspect_err(|error| end(&Reason::of(error)))?;
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

/// The epochs that are left, and the evaluation at the end. `simulated` becomes the time of all epochs, if it
/// is virtual.
fn epochs<P: Program>(
    program: &mut P,
    plan: &Plan,
    (task, origin, failure, progress): (&str, &Origin, &FirstFailure<'_>, &Progress),
    mut cutter: Option<Cutter<'_, f64>>,
    simulated: &mut Option<VirtualTime>,
) -> Result<Trained, TrainError> {
    let mut totals = origin.totals();
    let begin = || History::begin(plan, task, 0, &totals);
    let mut history = if plan.rank() == 0 { begin() } else { None };
    let exchanged_before = totals.epochs.iter().filter_map(|epoch| epoch.exchanged);
    let exchanged_before = exchanged_before.reduce(sum_of);
    let (mut since, mut interval) = (0, cutter.as_ref().map_or(0, Cutter::first_meeting));
    let done = u32::try_from(totals.epochs.len()).unwrap_or(u32::MAX);
    let mut before = Costs::default();
    for number in done.saturating_add(1)..=plan.epochs {
        let (start, cpu_start_ns) = (now(), process::cpu_ns());
        let epoch = program.epoch(failure.flag());
        let seconds = (now() - start).as_secs_f64();
        let cpu_ns = process::cpu_ns().saturating_sub(cpu_start_ns);
        if failure.has_failed() {
            return Err(TrainError::Stopped("another thread ended the run".to_owned()));
        }
        let Computed { sums: mut reduction, costs } = epoch?;
        *simulated = costs.simulated;
        let mut after = costs;
        if plan.valid_every > 0 && number.is_multiple_of(plan.valid_every) {
            let validation = program.evaluate(Split::Valid)?;
            reduction.merge(&validation.sums);
            after = validation.costs;
        }
        let sum = epoch_sum(reduction, (seconds, cpu_ns), &costs.since(&before));
        before = after;
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
                Next::End(protocol::End::Nodes(_)) => {}
                Next::End(protocol::End::Signal(signal)) => {
                    cutter.end(&mut ByProgram(program))?;
                    let (made, unsaved) = (Some(cutter.made()), cutter.unsaved());
                    let interrupted = Some((protocol::End::Signal(signal), cutter.saved()));
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
    let Computed { sums: reduction, costs } = program.evaluate(Split::Test)?;
    let tally = Tally { reduction, ..Tally::default() };
    totals.test = Some(EpochSum { tally, seconds: 0.0, untrained: None, exchanged: None });
    if let Some(history) = &mut history {
        history.end(&crate::report::test(&totals));
    }
    let exchanged = [exchanged_before, costs.exchanged].into_iter().flatten();
    totals.exchanged = exchanged.reduce(sum_of);
    Ok(Trained { totals, made, unsaved, ..Trained::default() })
}

/// The sum of an epoch with these costs, which took so long here: in seconds, and in nanoseconds of CPU time.
/// The time of an epoch that is simulated is virtual.
fn epoch_sum(reduction: Reduction, (seconds, cpu_ns): (f64, u64), costs: &Costs) -> EpochSum {
    let (mut tally, mut seconds) = (Tally { reduction, cpu_ns, ..Tally::default() }, seconds);
    if let Some(time) = costs.simulated {
        (seconds, tally.cpu_ns, tally.traffic) = (time.seconds(), time.compute_ns, time.traffic());
    }
    tally.cpu_ns += costs.cpu_ns;
    EpochSum { tally, seconds, untrained: None, exchanged: costs.exchanged }
}

/// The nodes bring together what node 0 writes. The outer error is one of the cluster and ends the run; the
/// inner one is one of the export.
fn export<P: Program>(
    program: &mut P,
    (folder, heir): (&Path, Heir),
    is_first: bool,
) -> Result<Option<Result<Staging, TrainError>>, TrainError> {
    if !is_first {
        return program.export(None).map(|_| None);
    }
    let staging = Staging::create(folder, heir).map_err(|error| TrainError::Export(error.into()));
    // If there is no place, what the others have is received nevertheless.
    let written = program.export(staging.as_ref().ok().map(Staging::folder))?;
    Ok(Some(staging.and_then(|staging| written.map(|()| staging).map_err(TrainError::Export))))
}
