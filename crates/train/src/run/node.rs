//! A run of one node, from the first batch to the results: each worker has a training thread and a loader
//! thread.

use super::agreement::Terms;
use super::best::Kept;
use super::cut::{Cuts, Cutter};
use super::explain::{self, Explained};
use super::origin::{Origin, Subject};
use super::outcome::{Outcome, begin_export};
use super::parameters::{NodeHandle, Parameters};
use super::replication::{self, Resolved};
use super::shell::{FirstFailure, Reason, Shell, Trained, named};
use super::simulated::SimulatedRun;
use super::views::{Copying, Views};
use super::worker::{Station, guarded, load, train};
use super::{ahead, cluster, copies, sampling, single, traced};
use crate::error::TrainError;
use crate::export::{self, Exporter, Heir, Staging};
use crate::report::metrics::{Monitor, Serving, Site};
use crate::report::{self, Changes, History, Progress, Report};
use crate::settings::{Keep, Plan, Technique};
use intendant::{Lobby, Mark, Storage};
use intendant_core::{Element, Key, KeyRange, Precision, lock};
use intendant_sampling::Sampler;
use intendant_task::{Criterion, Driver, Loader, Partition, Patience, Schedule, Task};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// Trains `task` as `plan` says: on this node, together with the others if there are any. Rank 0 writes the
/// report, and exports the model through `exporter` if the plan names a folder; other nodes use no exporter.
///
/// # Errors
/// See [`TrainError`]. After an error the run has ended on all nodes, unless it has copies. An output of rank
/// 0 that cannot be written is an error of rank 0 alone; the other outputs are written nevertheless.
pub fn run<T: Task>(
    task: &Arc<T>,
    plan: &Plan,
    exporter: Option<&mut dyn Exporter<T::Element>>,
) -> Result<Outcome, TrainError> {
    let mut exporter = exporter;
    if T::Element::TYPE != plan.float {
        let (has, wants) = (T::Element::TYPE, plan.float);
        return Err(TrainError::usage(format!("--float is {wants}, but the task was built with {has}")));
    }
    if plan.export.is_some() && (plan.rank() == 0 || plan.copies > 0) && exporter.is_none() {
        return Err(TrainError::usage("this application cannot export its model; leave --export out"));
    }
    if let Some(folder) = plan.export.as_ref().filter(|_| plan.rank() == 0) {
        export::check_earlier(folder, &plan.heir(task.digest()))?;
    }
    let plan = &judged(task.name(), task.criterion(), plan)?;
    let model = task.model();
    check_rules(task.as_ref(), plan)?;
    // Before the nodes meet: an address that is taken ends the run before it begins.
    let site = Site::listen(plan)?;
    let layout = model.layout().combine(task.combine()).order(plan.key_order).seed(plan.seed);
    let layout = layout.build().map_err(TrainError::usage)?;
    let replicated = replication::resolve(task.as_ref(), plan, &layout)?.replication.assignment.digest();
    // Settings that follow from others are compared as well.
    let mut settled = plan.clone();
    plan.sampling.resolve(&model.sampler, task.name(), &mut settled.config)?;
    let Some(mut views) = Views::open(task.as_ref(), &settled, &layout, replicated)? else {
        return run_view(task, plan, exporter, site.as_ref(), None);
    };
    loop {
        let at = &views.plan(plan);
        let exporter = exporter.as_mut().map(|exporter| &mut **exporter as &mut dyn Exporter<T::Element>);
        match run_view(task, at, exporter, site.as_ref(), Some(&mut views)) {
            Err(error) => views.follow(error, at)?,
            ended @ Ok(_) => return ended,
        }
    }
}

/// The run, or a view of one whose nodes change.
fn run_view<T: Task>(
    task: &Arc<T>,
    plan: &Plan,
    exporter: Option<&mut dyn Exporter<T::Element>>,
    site: Option<&Arc<Site>>,
    mut views: Option<&mut Views<T::Element>>,
) -> Result<Outcome, TrainError> {
    let model = task.model();
    let layout = model.layout().combine(task.combine());
    let layout = layout.channels(plan.channels).order(plan.key_order).seed(plan.seed);
    let layout = match &plan.names {
        Some(names) => layout.names(names),
        None => layout.nodes(plan.nodes),
    };
    let layout = layout.build().map_err(TrainError::usage)?;
    let ranges = layout.ranges().to_vec();
    let mut resolved = replication::resolve(task.as_ref(), plan, &layout)?;
    traced::check_keys(plan, &layout)?;
    let explained = explain::resolve(&plan.explain, task.as_ref(), &layout)?;
    resolved.replication.watched.clone_from(&explained.keys);
    replication::tell(&resolved, plan);
    let mut config = plan.config.clone();
    let sampler = plan.sampling.resolve(&model.sampler, task.name(), &mut config)?;
    let plan = &Plan { config, ..plan.clone() };
    sampling::tell(&sampler, plan);
    if plan.simulation.is_some() || plan.technique == Technique::Single {
        // Nodes check themselves. The least that these take is the values.
        let bytes = layout.elements().saturating_mul(size_of::<T::Element>() as u64);
        let workers = if plan.simulation.is_some() { 1 } else { plan.workers };
        let threads = workers * cluster::THREADS_PER_WORKER;
        intendant::check_capacity(bytes, threads as u64).map_err(intendant::Error::from)?;
    }
    if let Some(simulation) = &plan.simulation {
        let (resolved, sampler) = (&resolved, &sampler);
        let run = SimulatedRun { simulation, task, plan, resolved, sampler };
        return run.run(&explained, exporter);
    }
    let subject = &Subject::of(task.as_ref(), &ranges);
    let monitor = site.map(|site| site.monitor(plan));
    let node_run = |rank, origin| NodeRun {
        origin,
        copying: None,
        changes: None,
        subject,
        monitor: monitor.as_ref(),
        task,
        plan,
        rank,
        ranges: &ranges,
        resolved: &resolved,
        explained: &explained,
        sampler: &sampler,
    };
    match plan.technique {
        Technique::Single => {
            let origin = Origin::find(subject, plan)?;
            origin.say(plan);
            let init = origin.init(&model.init);
            let (node, workers) = single::start(layout, &init, &sampler, plan.seed, plan.workers);
            let node_run = node_run(0, &origin);
            let trained = node_run.train(&node, workers, exporter)?;
            node_run.finish(trained)
        }
        // Of programs only.
        Technique::Own(_) => Err(TrainError::usage(format!(
            "technique {} is not one of parameter servers",
            plan.technique.name()
        ))),
        Technique::Server(_) => {
            let settings = Terms::new(task.as_ref(), plan).settings(plan);
            let mut origin = Origin::default();
            let replicated =
                || resolved.replication.assignment.resolve(&layout).iter().map(|key| key.0).collect();
            let views = &mut views;
            let mut begin = |lobby: Option<&Lobby<T::Element>>| {
                if let (Some(views), Some(lobby)) = (views.as_mut(), lobby) {
                    views.enter(lobby)?;
                    if plan.rank() == 0 && plan.progress {
                        views.invite();
                    }
                    if let Some((found, loaded)) = views.origin((subject, plan), &layout, replicated)? {
                        origin = found;
                        return Ok(copies::init(&loaded, &model.init));
                    }
                }
                origin = match lobby {
                    None => Origin::find(subject, plan)?,
                    Some(lobby) => {
                        let gather = |name: &str, word| Ok(lobby.gather(name, word)?);
                        Origin::agree(subject, plan, gather)?
                    }
                };
                origin.say(plan);
                Ok(origin.init(&model.init))
            };
            let values = (layout.clone(), Arc::clone(&model.init));
            let seen = (settings, traced::config(plan, task.name()));
            let mut node = cluster::start(values, plan, resolved.cluster(plan), &sampler, seen, &mut begin)?;
            let copying = views
                .as_ref()
                .and_then(|views| views.copying(node.rank(), plan.cluster.storage == Storage::Dense));
            let (mut node_run, workers) = (node_run(node.rank(), &origin), node.workers());
            (node_run.copying, node_run.changes) = (copying, views.as_mut().map(|views| views.begins()));
            let trained = node_run.train(&node, workers, exporter)?;
            if views.is_some() {
                // Results first: if node 0 is lost before they are written, the others go on, and write them.
                let outcome = node_run.finish(trained);
                if outcome.is_ok() && plan.rank() == 0 {
                    intendant::launch::tell_done();
                }
                node.shutdown()??;
                return outcome;
            }
            // A run that loses a node while it ends has failed. A failed run has neither report nor model.
            let traced = node.shutdown()?;
            let outcome = node_run.finish(trained)?;
            traced.map(|()| outcome)
        }
    }
}

/// The plan with the metric by which the task compares epochs, if they are compared.
fn judged(task: &str, criterion: Option<Criterion>, plan: &Plan) -> Result<Plan, TrainError> {
    let mut plan = plan.clone();
    let criterion = |flag: &str| {
        criterion.ok_or_else(|| {
            TrainError::usage(format!(
                "{flag}: task {task} has no validation data to compare epochs by; leave it out, or hold out data for \
                 validation",
            ))
        })
    };
    if let Some(validations) = plan.patience_validations {
        plan.patience = Some(Patience { criterion: criterion("--patience")?, validations });
    }
    if plan.checkpoints.keep == Keep::Best {
        plan.best = Some(criterion("--keep best")?);
    }
    Ok(plan)
}

/// The part of a run that happens on one node.
struct NodeRun<'a, T: Task> {
    origin: &'a Origin,
    /// What copies need, in a run with some.
    copying: Option<Copying<T::Element>>,
    /// How the nodes have changed, in a run with copies.
    changes: Option<Changes>,
    subject: &'a Subject<'a>,
    /// The metrics of this node, if they are served.
    monitor: Option<&'a Monitor>,
    task: &'a Arc<T>,
    plan: &'a Plan,
    rank: u16,
    ranges: &'a [KeyRange],
    resolved: &'a Resolved,
    explained: &'a Explained,
    sampler: &'a Sampler,
}

impl<T: Task> NodeRun<'_, T> {
    fn schedule(&self) -> Schedule {
        self.plan.schedule(self.sampler)
    }

    /// The outcome of a run that ended well on all nodes.
    fn finish(&self, trained: Trained) -> Result<Outcome, TrainError> {
        trained.conclude((self.plan, self.rank), |totals| {
            let (task, plan) = (self.task.as_ref(), self.plan);
            let mut report = Report::new(task, plan, self.resolved.report(), self.sampler, totals);
            report.views = self.changes;
            if self.rank == 0 {
                report.compare(task);
                report.warn(task, plan, totals.untrained());
            }
            report
        })
    }

    /// Starts the threads of all workers and waits for them.
    fn train<P: Parameters<T::Element>>(
        &self,
        node: &dyn NodeHandle,
        workers: Vec<P>,
        exporter: Option<&mut dyn Exporter<T::Element>>,
    ) -> Result<Trained, TrainError> {
        self.origin.check()?;
        let board = self.monitor.map(Monitor::board);
        let seats = (self.rank, self.plan.workers);
        let (cuts, writer) =
            Cuts::new(self.plan, self.ranges, seats, self.origin, board, self.copying.clone()).unzip();
        let (cuts, start) = (cuts.as_ref(), &self.origin.start());
        // After a last checkpoint, a signal ends the run on all nodes.
        let survives = self.copying.is_some() && cuts.is_none_or(|cuts| !cuts.saves());
        let end = |reason: &Reason| match survives && reason.is_signal {
            true => node.drop_out(&reason.text),
            false => node.abort(&reason.text),
        };
        let failure = &FirstFailure::new(&end);
        let result = &Mutex::new(None);
        let headline = self.task.criterion().map(|criterion| criterion.metric);
        let progress =
            &Progress::new(workers.len(), self.plan.epochs, self.rank == 0 && self.plan.progress, headline);
        let _serving = self.serve(node, progress)?;
        let shell = Shell { plan: self.plan, rank: self.rank, cuts, progress, failure };
        let committed = |cut| node.mark(Mark::Checkpoint, cut);
        shell.train(writer, &committed, || {
            thread::scope(|scope| {
                let mut exporter = exporter;
                let mut history = self.history();
                for (worker, mut parameters) in workers.into_iter().enumerate() {
                    let partition = self.partition(worker);
                    let (mut outbox, batches) = ahead::way(self.plan.look_ahead);
                    let loader = Loader::resume(Arc::clone(self.task), partition, &self.schedule(), start);
                    let name = format!("loader-{worker}");
                    let loading = named(name.clone()).spawn_scoped(scope, move || {
                        // The outbox is dropped after the failure is noted: else the training thread might be
                        // the first to report that batches end.
                        if let Err(error) = guarded(&name, || load(loader, node, worker, &mut outbox)) {
                            failure.note(error);
                        }
                    });
                    let (exporter, history) = (exporter.take(), history.take());
                    let name = format!("worker-{worker}");
                    let training = named(name.clone()).spawn_scoped(scope, move || {
                        let number = partition.worker;
                        let (task, sums) = (Arc::clone(self.task), self.origin.sums(number));
                        let driver = Driver::resume(task, partition, self.schedule(), start, sums);
                        let mut station = Station {
                            worker,
                            number,
                            batches,
                            node,
                            progress,
                            history,
                            board: board.map(|board| &**board),
                            cutter: cuts
                                .map(|cuts| Cutter::new(cuts, (self.subject, self.plan), worker, None)),
                            totals: self.origin.totals(),
                            before: self.origin.under_way.clone(),
                        };
                        let run = || self.run_worker(driver, &mut parameters, &mut station, exporter);
                        match guarded(&name, run) {
                            Ok(trained) if worker == 0 => *lock(result) = Some(trained),
                            Ok(_) => {}
                            Err(error) => failure.note(error),
                        }
                    });
                    // The threads are joined at the end of the scope; `guarded` has turned panics into
                    // failures.
                    for refused in [loading.err(), training.err()].into_iter().flatten() {
                        failure.note(TrainError::System { what: "start a thread", source: refused });
                    }
                }
            });
            let trained = lock(result).take();
            trained.ok_or_else(|| TrainError::Stopped("the first worker ended without a result".to_owned()))
        })
    }

    /// Serves the metrics, if the plan says so, until what is returned is dropped.
    fn serve(&self, node: &dyn NodeHandle, progress: &Progress) -> Result<Option<Serving>, TrainError> {
        let Some(monitor) = self.monitor else { return Ok(None) };
        let serving =
            monitor.serve((self.plan, self.task.name(), self.rank), node.observer(), self.origin.made)?;
        if let Some(line) = monitor.announcement(self.rank) {
            progress.say(&line);
        }
        Ok(Some(serving))
    }

    /// The history of the run, which node 0 writes.
    fn history(&self) -> Option<History> {
        let begin =
            || History::begin(self.plan, self.task.name(), self.resolved.channels, &self.origin.totals());
        (self.rank == 0).then(begin).flatten()
    }

    /// The work of a training thread.
    fn run_worker<P: Parameters<T::Element>>(
        &self,
        driver: Driver<T>,
        parameters: &mut P,
        station: &mut Station<'_, T>,
        exporter: Option<&mut dyn Exporter<T::Element>>,
    ) -> Result<Trained, TrainError> {
        let terms = Terms::new(self.task.as_ref(), self.plan);
        let place = self.monitor.and_then(Monitor::place);
        let all = parameters.gather("start", terms.encode(place))?;
        if let Err(error) = terms.check(&all, self.plan.workers) {
            // All workers see a difference then. They meet once more, or the first abort would keep the
            // others from reporting it.
            let _ = parameters.gather("disagreed", Vec::new());
            return Err(error);
        }
        if let Some(monitor) = self.monitor.filter(|_| station.worker == 0) {
            monitor.meet(&Terms::places(&all, self.plan.workers));
        }
        let (totals, interrupted) = train(driver, parameters, station)?;
        if let Some(history) = &mut station.history
            && interrupted.is_none()
        {
            history.end(&report::test(&totals));
        }
        let (mut made, mut unsaved, mut kept) = (None, None, None);
        if let Some(cutter) = &mut station.cutter {
            if interrupted.is_none() {
                kept = cutter.choose(parameters, &totals.epochs)?;
            }
            cutter.end(parameters)?;
            unsaved = cutter.unsaved();
            made = Some(cutter.made());
            if let Some(end) = interrupted {
                let interrupted = Some((end, cutter.saved()));
                return Ok(Trained { totals, exported: None, made, kept: None, unsaved, interrupted });
            }
        }
        let mut exported = None;
        if let Some(folder) = &self.plan.export {
            parameters.quiesce()?;
            if let (0, Some(exporter)) = (self.rank, exporter) {
                let place = (folder.as_path(), self.plan.heir(self.task.digest()));
                exported = Some(export(parameters, kept.as_deref(), self.ranges, place, exporter)?);
            }
            // No node leaves before the model is exported.
            parameters.gather("exported", Vec::new())?;
        }
        explain::tell(parameters, self.explained, self.rank, station.worker)?;
        let kept = kept.map(|kept| kept.epoch);
        Ok(Trained { totals, exported, made, kept, unsaved, interrupted: None })
    }

    fn partition(&self, worker: usize) -> Partition {
        let (workers, rank) = (self.plan.workers, usize::from(self.rank));
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (cores / (self.plan.local_nodes() * workers)).max(1);
        Partition {
            worker: (rank * workers + worker) as u32,
            workers: (self.plan.nodes * workers) as u32,
            nodes: self.plan.nodes as u32,
            threads,
        }
    }
}

/// Writes the files of the model, which is `kept` or the one in memory. The outer error is one of the cluster
/// and ends the run; the inner one is one of the export.
#[inline(never)]
pub(super) fn export<E: Element, P: Parameters<E>>(
    parameters: &mut P,
    kept: Option<&Kept>,
    ranges: &[KeyRange],
    place: (&Path, Heir),
    exporter: &mut dyn Exporter<E>,
) -> Result<Result<Staging, TrainError>, TrainError> {
    let staging = match begin_export(ranges, place, exporter) {
        Ok(staging) => staging,
        Err(error) => return Ok(Err(error)),
    };
    let mut state = Ok(());
    let keys = 0..ranges.last().map_or(0, |r| r.keys.end);
    let part = &mut |keys: &[Key], values: &[E]| {
        if state.is_ok() {
            state = exporter.part(keys, values);
        }
    };
    match kept {
        Some(kept) => kept.snapshot(keys, part)?,
        None => parameters.snapshot(keys, part)?,
    }
    Ok(state.and_then(|()| exporter.end()).map(|()| staging).map_err(TrainError::Export))
}

/// Refuses what models with rules cannot have.
fn check_rules<T: Task>(task: &T, plan: &Plan) -> Result<(), TrainError> {
    let Some(range) = task.model().ranges.iter().find(|range| range.rule.is_some()) else { return Ok(()) };
    let what = |reason: &str| {
        Err(TrainError::usage(format!("the values of range {} follow a rule, {reason}", range.name)))
    };
    if task.trains_in_place() {
        return what("so that their batches cannot be trained in place");
    }
    if plan.replication.precision == Precision::Bf16 {
        return what(
            "whose operands and state must travel exactly: leave --delta-type bf16 out, or use an optimiser that adds its \
             steps",
        );
    }
    if plan.technique == Technique::Single {
        return what(
            "which the owner of a value applies, and technique single has no owners: use another one, also on one node",
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
