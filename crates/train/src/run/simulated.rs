//! `--simulate`: the same training in a simulated cluster, in virtual time.
//!
//! The task, its arithmetic and its results are the real ones. Seconds in the report are those of the
//! simulated cluster; CPU seconds are the time that its workers and channels were busy. Technique `single` is
//! one simulated node whose workers share its memory.

use super::explain::{self, Explained};
use super::outcome::{Outcome, begin_export};
use super::replication::Resolved;
use super::shell::{FirstFailure, Reason, Shell, Trained};
use super::traced::Traces;
use super::worker::guarded;
use crate::error::TrainError;
use crate::export::{Exporter, Heir, Staging};
use crate::report::{
    Bound, Changes, Epoch, EpochSum, History, Progress, Report, Simulated, Tally, Totals, first_loss, least,
};
use crate::settings::{Bounds, Plan, Simulation};
use intendant::{Event, NodeId};
use intendant_core::{Element, Key, LayoutBuilder};
use intendant_sampling::Sampler;
use intendant_sim::{
    Cut, CutConfig, Episode, EpochOutcome, Fault, Faults, Moment, Observer, Origin, Spread, TaskConfig,
    TaskFailure, TaskOutcome, muster, resume_task, run_task,
};
use intendant_task::Task;
use intendant_trace::Header;
use std::path::Path;
use std::sync::Arc;

/// Keys of one part of an export.
const EXPORT_KEYS: u64 = 1024;

/// A run in a simulated cluster.
pub(super) struct SimulatedRun<'a, T: Task> {
    pub(super) simulation: &'a Simulation,
    pub(super) task: &'a Arc<T>,
    pub(super) plan: &'a Plan,
    pub(super) resolved: &'a Resolved,
    pub(super) sampler: &'a Sampler,
}

impl<T: Task> SimulatedRun<'_, T> {
    /// Trains until a node dies, and goes on without it.
    fn train(
        &self,
        config: &TaskConfig,
        watcher: &mut Watcher<'_>,
    ) -> Result<(TaskOutcome<T::Element>, Option<Changes>), TaskFailure> {
        let Self { simulation, task, plan, .. } = *self;
        let Some(crash) = simulation.crash else {
            let changes = (plan.copies > 0).then(|| Changes { count: 1, ..Changes::default() });
            return Ok((run_task(task, config, watcher)?, changes));
        };
        let from_ns = (crash.seconds * 1e9) as u64;
        let fault = Fault::Crash { node: NodeId(crash.node) };
        let faults = Faults::new(vec![Episode { from_ns, until_ns: u64::MAX, fault }]);
        let faults = faults.map_err(|error| TaskFailure::Checkpoint(error.to_string()))?;
        let (node, at_ns) = match run_task(task, &TaskConfig { faults, ..config.clone() }, watcher) {
            Err(TaskFailure::Crashed { node, at_ns }) => (node, at_ns),
            // It has ended before.
            ended => return Ok((ended?, Some(Changes { count: 1, ..Changes::default() }))),
        };
        // Without the time to meet, some messages.
        let delay_us = (2 * simulation.delays.network.latency.max_ns).div_ceil(1_000).max(1);
        let Some(agree_us) = muster::agree(config.nodes, crash.node, delay_us, plan.seed) else {
            return Err(TaskFailure::Crashed { node, at_ns });
        };
        let cut = watcher.settled.take();
        let done = cut.as_ref().map_or(0, |cut| cut.trained.epochs.len());
        let mut epochs = std::mem::take(&mut watcher.epochs);
        epochs.truncate(done);
        let before_ns = at_ns - epochs.iter().map(|epoch| epoch.virtual_ns).sum::<u64>();
        let change_ns = agree_us * 1_000 + simulation.travel_ns(part_bytes(task.as_ref(), plan));
        let origin = cut.map(|cut| Origin::of_cut(task.as_ref(), cut)).transpose()?;
        let config = TaskConfig { nodes: config.nodes - 1, ..config.clone() };
        let mut outcome = resume_task(task, &config, origin.as_ref(), watcher)?;
        if let Some(first) = outcome.epochs.first_mut() {
            first.virtual_ns += before_ns + change_ns;
        }
        outcome.virtual_ns += at_ns + change_ns;
        outcome.epochs.splice(0..0, epochs);
        let changes = Changes { count: 2, lost: 1, change_ms: change_ns as f64 / 1e6, ..Changes::default() };
        Ok((outcome, Some(changes)))
    }

    fn config(&self) -> TaskConfig {
        let Self { simulation, task, plan, resolved, sampler } = *self;
        let part_bytes = part_bytes(task.as_ref(), plan);
        TaskConfig {
            channels: plan.channels,
            key_order: plan.key_order,
            cluster: resolved.cluster(plan),
            operation_keys_max: simulation.operation_keys,
            unevenness: simulation.unevenness,
            sampler: Some(sampler.clone()),
            look_ahead: plan.look_ahead,
            delays: simulation.delays,
            trace: plan.trace.as_ref().map(|(_, filter)| filter.clone()),
            bounds: simulation.bounds.0.clone(),
            cuts: (plan.copies > 0).then(|| CutConfig {
                folder: None,
                seconds: plan.checkpoints.seconds,
                kept: 1,
                copy_bytes_max: 1 << 16,
                write: Spread::fixed(simulation.travel_ns(part_bytes).saturating_mul(plan.copies as u64)),
                commit: Spread::fixed(0),
                linger: Spread::fixed(0),
                refuses: 0,
                copies: true,
                regroup: None,
            }),
            layout_seed: plan.seed,
            seed: plan.seed,
            ..TaskConfig::new(plan.nodes, plan.workers, plan.schedule(sampler))
        }
    }

    /// Trains `task` in the simulated cluster; exports and reports like a run of processes.
    pub(super) fn run(
        &self,
        explained: &Explained,
        exporter: Option<&mut dyn Exporter<T::Element>>,
    ) -> Result<Outcome, TrainError> {
        let Self { simulation, task, plan, resolved, .. } = *self;
        if simulation.operation_keys.is_some() && !task.trains_in_place() {
            return Err(TrainError::usage(
                "--operation-keys divides the accesses of batches that are trained in place, and these settings train copies; leave it out",
            ));
        }
        let mut first_losses = Vec::new();
        let headline = task.criterion().map(|criterion| criterion.metric);
        let progress = Progress::new(plan.nodes * plan.workers, plan.epochs, plan.progress, headline);
        let mut history = History::begin(plan, task.name(), resolved.channels, &Totals::default());
        let mut traces = Traces::new(plan, task.name());
        let end = |_: &Reason| {};
        let failure = &FirstFailure::new(&end);
        let shell = Shell::<T::Element> { plan, rank: 0, cuts: None, progress: &progress, failure };
        let (outcome, changes) = shell.train(None, &|_| {}, || {
            let mut watcher = Watcher {
                progress: &progress,
                first_losses: &mut first_losses,
                failure,
                history: history.as_mut(),
                traces: traces.as_mut(),
                bounds: &simulation.bounds,
                epochs: Vec::new(),
                pending: None,
                settled: None,
            };
            guarded("the simulation", || {
                self.train(&self.config(), &mut watcher).map_err(|failure| match failure {
                    TaskFailure::Diverged { source, .. } => TrainError::Diverged(source),
                    TaskFailure::Sample { worker, source } => {
                        TrainError::Sample { worker: worker % plan.workers, source }
                    }
                    TaskFailure::Layout(error) => TrainError::usage(error),
                    TaskFailure::Stopped => TrainError::Stopped(failure.to_string()),
                    // A node that dies is expected, and no other number of nodes is asked for.
                    TaskFailure::Violation(_)
                    | TaskFailure::Regrouped { .. }
                    | TaskFailure::Crashed { .. }
                    | TaskFailure::Checkpoint(_) => TrainError::Simulation(failure),
                })
            })
        })?;
        drop(progress);
        if !explained.keys.is_empty() {
            let nodes = (0..).zip(outcome.explanations.iter().cloned());
            let said = nodes.map(|(node, keys)| explain::describe(node, keys));
            crate::logging::say(&explain::combine(said, explained));
        }
        let exported = match (&plan.export, exporter) {
            (Some(folder), Some(exporter)) => {
                let place = (folder.as_path(), plan.heir(task.digest()));
                Some(export(task.model().layout(), &outcome.values, place, exporter))
            }
            (Some(_) | None, _) => None,
        };
        let trained = Trained { totals: totals(&outcome), exported, ..Trained::default() };
        let concluded = trained.conclude((plan, 0), |totals| {
            let mut report = self.report(&outcome, totals);
            report.views = changes;
            if let Some(history) = &mut history {
                history.end(&report.test);
            }
            report.compare(task.as_ref());
            report.warn(task.as_ref(), plan, least(first_losses));
            report
        })?;
        traces.map_or(Ok(()), Traces::end)?;
        Ok(concluded)
    }

    fn report(&self, outcome: &TaskOutcome<T::Element>, totals: &Totals) -> Report {
        let Self { simulation, task, plan, resolved, sampler } = *self;
        let mut report = Report::new(task.as_ref(), plan, resolved.report(), sampler, totals);
        let virtual_ns: u64 = outcome.epochs.iter().map(|epoch| epoch.virtual_ns).sum();
        let (mut channels, mut sending) = (intendant_sim::Load::default(), intendant_sim::Load::default());
        let mut workers_ns = 0;
        for epoch in &outcome.epochs {
            workers_ns += epoch.load.workers.busy_ns;
            channels.merge(&epoch.load.channels);
            sending.merge(&epoch.load.sending);
        }
        report.simulation = Some(Simulated {
            net: simulation.net.clone(),
            machine: simulation.machine.clone(),
            charge: simulation.charge,
            charge_compute: simulation.charge_compute,
            operation_keys: simulation.operation_keys,
            events: outcome.events,
            channel_busy: channels.utilisation(virtual_ns) / (plan.nodes * plan.channels) as f64,
            channel_wait_ms: channels.mean_wait_ns() / 1e6,
            nic_busy: sending.utilisation(virtual_ns) / plan.nodes as f64,
            worker_busy: workers_ns as f64 / virtual_ns.max(1) as f64 / (plan.nodes * plan.workers) as f64,
        });
        report.bound = Bound::of(&simulation.bounds, &outcome.epochs);
        for (reported, epoch) in report.epochs.iter_mut().zip(&outcome.epochs) {
            reported.bound = Bound::of(&simulation.bounds, std::slice::from_ref(epoch));
        }
        report
    }
}

/// Shows the progress of a simulation, writes its history, and ends it on a signal.
struct Watcher<'a> {
    progress: &'a Progress,
    /// Losses of the workers' first batches.
    first_losses: &'a mut Vec<f64>,
    failure: &'a FirstFailure<'a>,
    history: Option<&'a mut History>,
    traces: Option<&'a mut Traces>,
    bounds: &'a Bounds,
    /// The epochs so far.
    epochs: Vec<EpochOutcome>,
    /// The newest cut, and the newest one that all nodes hold.
    pending: Option<Cut>,
    settled: Option<Cut>,
}

impl Observer for Watcher<'_> {
    fn batch(&mut self, worker: usize, progress: &intendant_task::Progress) {
        self.first_losses.extend(first_loss(progress));
        self.progress.update(worker, progress);
    }

    fn moment(&mut self, moment: Moment) -> Option<NodeId> {
        if matches!(moment, Moment::Voted { is_settled: true, .. }) {
            self.settled = self.pending.take();
        }
        None
    }

    fn cut(&mut self, cut: &Cut) {
        self.pending = Some(cut.clone());
    }

    fn epoch(&mut self, number: usize, epoch: &EpochOutcome) {
        self.epochs.push(epoch.clone());
        let sum = sum(epoch);
        self.progress.epoch_ended(0, number, &sum);
        if let Some(history) = &mut self.history {
            let bound = Bound::of(self.bounds, std::slice::from_ref(epoch));
            history.epoch(&Epoch { bound, ..Epoch::new(number, &sum, history.channels()) });
        }
    }

    fn traces(&mut self, headers: Vec<Header>) {
        if let Some(traces) = &mut self.traces {
            traces.begin(headers);
        }
    }

    fn records(&mut self, events: Vec<(NodeId, Event)>) {
        if let Some(traces) = &mut self.traces {
            traces.record(events);
        }
    }

    fn stop(&mut self) -> bool {
        self.failure.has_failed()
    }
}

/// The sums of a run.
#[inline(never)]
pub(super) fn totals<E>(outcome: &TaskOutcome<E>) -> Totals {
    Totals {
        epochs: outcome.epochs.iter().map(sum).collect(),
        test: outcome.test.clone().map(|reduction| sum_of(Tally { reduction, ..Tally::default() }, 0.0)),
        exchanged: None,
    }
}

/// Bytes of an equal share of all values.
fn part_bytes<T: Task>(task: &T, plan: &Plan) -> u64 {
    let model = task.model();
    let elements: u64 = model.ranges.iter().map(|range| range.keys * range.row() as u64).sum();
    elements * size_of::<T::Element>() as u64 / plan.nodes as u64
}

/// An epoch in the form of runs on threads.
fn sum(epoch: &EpochOutcome) -> EpochSum {
    let tally = Tally {
        reduction: epoch.reduction.clone(),
        accesses: epoch.accesses,
        late: epoch.late,
        cpu_ns: epoch.load.workers.busy_ns + epoch.load.channels.busy_ns,
        traffic: epoch.traffic,
        management: epoch.management.clone(),
        sampling: epoch.sampling,
    };
    sum_of(tally, epoch.virtual_ns as f64 / 1e9)
}

fn sum_of(tally: Tally, seconds: f64) -> EpochSum {
    EpochSum { tally, seconds, untrained: None, exchanged: None }
}

/// Hands the rows of all keys, which follow each other in `values`, to an exporter.
#[inline(never)]
pub(super) fn export<E: Element>(
    layout: LayoutBuilder,
    values: &[E],
    place: (&Path, Heir),
    exporter: &mut dyn Exporter<E>,
) -> Result<Staging, TrainError> {
    let layout = layout.build().map_err(TrainError::usage)?;
    let staging = begin_export(layout.ranges(), place, exporter)?;
    let mut rest = values;
    for start in (0..layout.keys()).step_by(EXPORT_KEYS as usize) {
        let keys: Vec<Key> = (start..layout.keys().min(start + EXPORT_KEYS)).map(Key).collect();
        let (part, after) = rest.split_at(keys.iter().map(|key| layout.len(*key)).sum());
        exporter.part(&keys, part).map_err(TrainError::Export)?;
        rest = after;
    }
    exporter.end().map(|()| staging).map_err(TrainError::Export)
}
