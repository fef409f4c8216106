//! A run: the threads of one node, from the first batch to the report.
//!
//! Each worker has a training thread and a loader thread. Whatever goes wrong in one of them ends all of them: the first error
//! is kept and told, the run is aborted in the whole cluster, and the errors that follow from the abort are dropped.

use crate::agreement::Terms;
use crate::ahead;
use crate::args::Technique;
use crate::cluster;
use crate::copies::{self, Resolved};
use crate::error::TrainError;
use crate::explain;
use crate::export::Exporter;
use crate::meter::Totals;
use crate::parameters::{Home, Parameters};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::Report;
use crate::sampling;
use crate::single;
use crate::worker::{Station, guarded, load, train};
use crossbeam_channel::bounded;
use intendant::Initiator;
use intendant_core::{Element, KeyRange, Layout};
use intendant_sampling::Sampler;
use intendant_task::{Driver, Loader, Partition, Schedule, Task};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What a run came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// This node.
    pub rank: u16,
    /// The report; the same on every node but for the seconds.
    pub report: Report,
}

/// Trains `task` as `plan` says: on this node, together with the others if there are any. Rank 0 writes the report, and exports
/// the model through `exporter` if the plan names a folder; other nodes need no exporter.
///
/// # Errors
/// See [`TrainError`]. After an error the run has ended on all nodes.
pub fn run<T: Task>(
    task: &Arc<T>,
    plan: &Plan,
    exporter: Option<&mut dyn Exporter<T::Element>>,
) -> Result<Outcome, TrainError> {
    if T::Element::TYPE != plan.float {
        let (has, wants) = (T::Element::TYPE, plan.float);
        return Err(TrainError::usage(format!("--float is {wants}, but the task was built with {has}")));
    }
    if plan.export.is_some() && plan.rank() == 0 && exporter.is_none() {
        return Err(TrainError::usage("this application cannot export its model; leave --export out"));
    }
    let model = task.model();
    let mut layout =
        Layout::builder().nodes(plan.nodes).channels(plan.channels).order(plan.key_order).seed(plan.seed);
    for range in &model.ranges {
        layout = layout.range(range.name, range.keys, range.len);
    }
    let layout = layout.build().map_err(TrainError::usage)?;
    let ranges = layout.ranges().to_vec();
    let mut resolved = copies::resolve(task.as_ref(), plan, &layout)?;
    if let Some(key) = plan.explain.iter().find(|key| !layout.contains(**key)) {
        let last = layout.keys() - 1;
        return Err(TrainError::usage(format!("--explain names key {key}; the model has keys 0 to {last}")));
    }
    resolved.copies.watched.clone_from(&plan.explain);
    copies::tell(&resolved, plan);
    let mut config = plan.config.clone();
    let sampler =
        plan.sampling.resolve(&model.sampler, task.name(), plan.technique, plan.nodes, &mut config)?;
    let plan = &Plan { config, ..plan.clone() };
    sampling::tell(&sampler, plan);
    if let Some(simulation) = &plan.simulation {
        return simulation.run(task, plan, &resolved, &sampler, exporter);
    }
    let crew = |rank| Crew { task, plan, rank, ranges: &ranges, resolved: &resolved, sampler: &sampler };
    match plan.technique {
        Technique::Single => {
            let (home, workers) = single::start(layout, &model.init, &sampler, plan.seed, plan.workers);
            let totals = crew(0).work(&home, workers, exporter)?;
            crew(0).report(&totals)
        }
        Technique::Server(technique) => {
            if technique.policy().relocation == Some(Initiator::Requester)
                && plan.localize_ahead == 0
                && plan.nodes > 1
                && plan.rank() == 0
            {
                tracing::warn!(
                    "technique {technique} without --localize-ahead: nothing moves but what the application keeps at a node"
                );
            }
            let settings = Terms::new(task.as_ref(), plan).settings(plan);
            let mut node = cluster::start(layout, model, plan, resolved.copies.clone(), &sampler, settings)?;
            let (rank, workers) = (node.rank(), node.workers());
            let totals = crew(rank).work(&node, workers, exporter)?;
            // A run that loses a node while it ends has failed, and what failed has no report.
            node.shutdown()?;
            crew(rank).report(&totals)
        }
    }
}

/// The threads of one node.
struct Crew<'a, T: Task> {
    task: &'a Arc<T>,
    plan: &'a Plan,
    rank: u16,
    ranges: &'a [KeyRange],
    resolved: &'a Resolved,
    sampler: &'a Sampler,
}

impl<T: Task> Crew<'_, T> {
    fn schedule(&self) -> Schedule {
        self.plan.schedule(self.sampler)
    }

    /// The outcome of a run that ended well.
    fn report(&self, totals: &Totals) -> Result<Outcome, TrainError> {
        let report = Report::new(self.task.as_ref(), self.plan, self.resolved, self.sampler, totals);
        if self.rank == 0 {
            report.warn(self.task.as_ref(), self.plan);
        }
        if let (0, Some(path)) = (self.rank, &self.plan.report) {
            report.write(self.plan, path)?;
        }
        Ok(Outcome { rank: self.rank, report })
    }

    /// Trains and exports.
    fn work<P: Parameters<T::Element>>(
        &self,
        home: &dyn Home,
        workers: Vec<P>,
        exporter: Option<&mut dyn Exporter<T::Element>>,
    ) -> Result<Totals, TrainError> {
        let verdict = Verdict { first: Mutex::new(None), home };
        let result = Mutex::new(None);
        let (verdict, result) = (&verdict, &result);
        let progress = &Progress::new(workers.len(), self.plan.epochs, self.rank == 0 && self.plan.progress);
        let claim = self.plan.interrupt.claim();
        thread::scope(|scope| {
            let (end, ended) = bounded::<()>(0);
            let interrupt = &self.plan.interrupt;
            let watch = move || {
                if let Some(signal) = interrupt.wait(&ended) {
                    verdict.fail(TrainError::Interrupted(signal));
                }
            };
            let mut threads = Vec::new();
            let watching = named("interrupt".to_owned()).spawn_scoped(scope, watch);
            if let Err(source) = watching {
                return verdict.fail(TrainError::System { what: "start a thread", source });
            }
            let mut exporter = exporter;
            for (worker, mut parameters) in workers.into_iter().enumerate() {
                let partition = self.partition(worker);
                let (mut outbox, batches) = ahead::way(self.plan.look_ahead);
                let loader = Loader::new(Arc::clone(self.task), partition, &self.schedule());
                let name = format!("loader-{worker}");
                let loading = named(name.clone()).spawn_scoped(scope, move || {
                    // The outbox outlives the verdict: the training thread must not be the first to say that batches end.
                    if let Err(error) = guarded(&name, || load(loader, home, worker, &mut outbox)) {
                        verdict.fail(error);
                    }
                });
                let exporter = exporter.take();
                let name = format!("worker-{worker}");
                let training = named(name.clone()).spawn_scoped(scope, move || {
                    let driver = Driver::new(Arc::clone(self.task), partition, self.schedule());
                    let mut station = Station { worker, epochs: self.plan.epochs, batches, home, progress };
                    let done =
                        guarded(&name, || self.career(driver, &mut parameters, &mut station, exporter));
                    match done {
                        Ok(totals) if worker == 0 => *lock(result) = Some(totals),
                        Ok(_) => {}
                        Err(error) => verdict.fail(error),
                    }
                });
                for spawned in [loading, training] {
                    match spawned {
                        Ok(thread) => threads.push(thread),
                        Err(source) => verdict.fail(TrainError::System { what: "start a thread", source }),
                    }
                }
            }
            for thread in threads {
                // Panics were caught and judged inside.
                let _ = thread.join();
            }
            drop(end);
        });
        drop(claim);
        if let Some(error) = lock(&verdict.first).take() {
            return Err(error);
        }
        let totals = lock(result).take();
        totals.ok_or_else(|| TrainError::Stopped("the first worker ended without a result".to_owned()))
    }

    /// The life of a training thread.
    fn career<P: Parameters<T::Element>>(
        &self,
        driver: Driver<T>,
        parameters: &mut P,
        station: &mut Station<'_, T>,
        exporter: Option<&mut dyn Exporter<T::Element>>,
    ) -> Result<Totals, TrainError> {
        let terms = Terms::new(self.task.as_ref(), self.plan);
        let all = parameters.gather("start", terms.encode())?;
        if let Err(error) = terms.check(&all, self.plan.workers) {
            // Then all workers see a difference. They meet once more, or the first abort would keep the others from telling it.
            let _ = parameters.gather("disagreed", Vec::new());
            return Err(error);
        }
        let totals = train(driver, parameters, station)?;
        if self.plan.export.is_some() {
            parameters.quiesce()?;
            if let (0, Some(exporter)) = (self.rank, exporter) {
                export(parameters, self.ranges, exporter)?;
            }
            // Nobody leaves, and no run counts as successful, before the model is out.
            parameters.gather("exported", Vec::new())?;
        }
        explain::tell(parameters, &self.plan.explain, self.rank, station.worker)?;
        Ok(totals)
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

fn export<E: Element, P: Parameters<E>>(
    parameters: &mut P,
    ranges: &[KeyRange],
    exporter: &mut dyn Exporter<E>,
) -> Result<(), TrainError> {
    exporter.begin(ranges).map_err(TrainError::Export)?;
    let mut state = Ok(());
    let keys = 0..ranges.last().map_or(0, |r| r.keys.end);
    parameters.snapshot(keys, &mut |keys, values| {
        if state.is_ok() {
            state = exporter.part(keys, values);
        }
    })?;
    state.and_then(|()| exporter.end()).map_err(TrainError::Export)
}

/// Keeps the first error and ends the run for everybody.
struct Verdict<'a> {
    first: Mutex<Option<TrainError>>,
    home: &'a dyn Home,
}

impl Verdict<'_> {
    fn fail(&self, error: TrainError) {
        let reason = error.to_string();
        let is_first = {
            let mut first = lock(&self.first);
            let is_first = first.is_none();
            first.get_or_insert(error);
            is_first
        };
        // After the error is recorded: what the abort causes must not be taken for the cause.
        if is_first {
            self.home.abort(&reason);
        }
    }
}

fn named(name: String) -> thread::Builder {
    thread::Builder::new().name(name)
}

/// A mutex whose holder panicked still holds a whole value: each is assigned in one step.
fn lock<X>(mutex: &Mutex<X>) -> std::sync::MutexGuard<'_, X> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
