//! Training tasks in virtual time: runs the programs of workers ([`Driver`]) and loaders ([`Loader`]) on a
//! [`Cluster`].
//!
//! The arithmetic is executed; its duration is simulated: a step takes the time that its
//! [`Cost`](intendant_task::Cost) stands for. A run therefore trains a real model on any number of nodes,
//! with the same result on every machine.

mod config;
mod cut;
mod cuts;
mod disk;
mod failure;
mod meter;
mod observer;
mod outcome;
mod rows;
mod run;

pub use config::{CutConfig, TaskConfig, Unevenness};
pub use cut::{Cut, Origin, Trained};
pub use failure::TaskFailure;
pub use meter::EpochOutcome;
pub use observer::{Moment, Observer};
pub use outcome::TaskOutcome;

use crate::cluster::{ClusterConfig, Probe};
use intendant_task::Task;
use run::TaskRun;
use std::sync::Arc;

/// Trains `task` to the end.
///
/// # Errors
/// See [`TaskFailure`].
pub fn run_task<T: Task>(
    task: &Arc<T>,
    config: &TaskConfig,
    observer: &mut dyn Observer,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    resume_task(task, config, None, observer)
}

/// Trains `task` to the end, from a checkpoint if there is one. The outcome has the epochs that end in this
/// run, and the sums of all of them.
///
/// # Errors
/// See [`TaskFailure`].
pub fn resume_task<T: Task>(
    task: &Arc<T>,
    config: &TaskConfig,
    origin: Option<&Origin<T::Element>>,
    observer: &mut dyn Observer,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    observe_task(task, config, origin, observer, |_| ())
}

/// As [`resume_task`], on a cluster that the probe of `probe_of` observes.
///
/// # Errors
/// See [`TaskFailure`].
pub fn observe_task<T: Task, P: Probe<T::Element>>(
    task: &Arc<T>,
    config: &TaskConfig,
    origin: Option<&Origin<T::Element>>,
    observer: &mut dyn Observer,
    probe_of: impl FnOnce(&ClusterConfig<T::Element>) -> P,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    let model = task.model();
    let builder = model.layout().combine(task.combine());
    let builder = builder.nodes(config.nodes).channels(config.channels).shards(config.shards);
    let layout = Arc::new(builder.order(config.key_order).seed(config.layout_seed).build()?);
    let cluster = ClusterConfig {
        layout,
        init: origin.map_or_else(|| Arc::clone(&model.init), Origin::init),
        storage: config.cluster.storage,
        access: config.cluster.access,
        policy: config.cluster.policy(),
        replication: config.cluster.replication.clone(),
        hosts: None,
        workers: config.workers,
        outstanding_bytes_max: config.outstanding_bytes_max,
        stale_hints: false,
        delays: config.delays,
        faults: config.faults.clone(),
        events_max: config.events_max,
        packing: config.cluster.packing,
        seed: config.seed,
        trace: false,
    };
    let probe = probe_of(&cluster);
    let mut outcome = None;
    run::with_cluster(cluster, probe, &mut |cluster| {
        if let Some(filter) = &config.trace {
            observer.traces(cluster.record(filter));
        }
        outcome = Some(TaskRun::new(task, config, cluster, origin, observer).run());
    });
    outcome.expect("it was called")
}
