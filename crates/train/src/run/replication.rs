//! Which keys have replicas, for a task: the choice of the keys that have static ones.

use crate::error::TrainError;
use crate::report::Replicated;
use crate::settings::replication::{Choice, ReplicationPlan};
use crate::settings::{Plan, without_replicas};
use intendant::{Assignment, ClusterSettings, ReplicationConfig, StaticReplicas};
use intendant_core::{Key, Layout};
use intendant_task::{Frequency, Partition, Task};

/// How the keys of a task are replicated.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) replication: ReplicationConfig,
    /// Of techniques with static replicas.
    pub(crate) replicated: Option<Replicated>,
    /// Channels that synchronise replicas.
    pub(crate) channels: usize,
}

impl Resolved {
    /// How the nodes of the plan manage the parameters of the task.
    pub(crate) fn cluster(&self, plan: &Plan) -> ClusterSettings {
        ClusterSettings { replication: self.replication.clone(), ..plan.cluster.clone() }
    }

    /// What a report has of it.
    pub(crate) const fn report(&self) -> (Option<Replicated>, usize) {
        (self.replicated, self.channels)
    }
}

/// Chooses the keys that are replicated. All nodes make the same choice.
pub(crate) fn resolve<T: Task>(task: &T, plan: &Plan, layout: &Layout) -> Result<Resolved, TrainError> {
    let ReplicationPlan { staleness, pace, clip, ref choice, .. } = plan.replication;
    let policy = plan.technique.policy();
    let Some(static_replicas) = policy.and_then(|p| p.static_replicas) else {
        let has_copies = policy.and_then(|p| p.replicas).is_some() && plan.nodes > 1;
        let replication = plan.intents.replication(ReplicationConfig {
            staleness,
            every: plan.replication.every,
            significant: plan.replication.significant,
            precision: plan.replication.precision,
            ..ReplicationConfig::default()
        });
        let channels = if has_copies { layout.channels() } else { 0 };
        return Ok(Resolved { replication, replicated: None, channels });
    };
    let partition = Partition {
        worker: 0,
        workers: (plan.nodes * plan.workers) as u32,
        nodes: plan.nodes as u32,
        threads: 1,
    };
    let (assignment, frequencies) = match static_replicas {
        StaticReplicas::All => (Assignment::all(), None),
        StaticReplicas::Assigned => {
            let frequencies = task.frequencies(partition);
            (choose(choice, frequencies.as_deref(), layout.keys(), task.name())?, frequencies)
        }
    };
    assignment.check(layout).map_err(|error| match choice {
        Choice::Given(_) => TrainError::usage(format!("--replicate-file: {error}")),
        Choice::Above { .. } | Choice::Top(_) => TrainError::usage(error),
    })?;
    // A single node needs no replicas.
    let keys = if plan.nodes > 1 { assignment.resolve(layout) } else { [].into() };
    let elements: u64 = keys.iter().map(|key| layout.len(*key) as u64).sum();
    let replicated = Replicated {
        keys: keys.len() as u64,
        bytes: elements * size_of::<T::Element>() as u64,
        access_share: match static_replicas {
            StaticReplicas::All => Some(if plan.nodes > 1 { 1.0 } else { 0.0 }),
            StaticReplicas::Assigned => frequencies.map(|frequencies| share(&frequencies, &keys)),
        },
    };
    let mut used = vec![false; layout.channels()];
    keys.iter().for_each(|key| used[layout.channel(*key).index()] = true);
    let replication = ReplicationConfig { assignment, pace, clip, staleness, ..ReplicationConfig::default() };
    let channels = used.into_iter().filter(|used| *used).count();
    Ok(Resolved { replication, replicated: Some(replicated), channels })
}

/// Chooses keys by how often examples use them: by their frequency in the data. Samples are not counted, as
/// they are drawn from all keys.
fn choose(
    choice: &Choice,
    frequencies: Option<&[Frequency]>,
    keys: u64,
    task: &str,
) -> Result<Assignment, TrainError> {
    let known = || {
        frequencies.ok_or_else(|| {
            TrainError::usage(format!(
                "task {task} does not know how often parameters are accessed; name the parameters to replicate by \
                 --replicate-file"
            ))
        })
    };
    match *choice {
        Choice::Given(ref assignment) => Ok(assignment.clone()),
        Choice::Top(count) => Ok(most_used(known()?, count)),
        Choice::Above { factor, scale } => {
            let frequencies = known()?;
            // The mean of keys that may be hot: the rows of a matrix each belong to one node and would lower
            // it.
            let shared = || frequencies.iter().filter(|f| f.shared);
            let others = (frequencies.len() - shared().count()) as u64;
            let mean = shared().map(|f| f.uses as f64).sum::<f64>() / (keys - others).max(1) as f64;
            let hot = |f: &&Frequency| f.shared && f.uses as f64 > factor * mean;
            let count = frequencies.iter().filter(hot).count();
            Ok(most_used(frequencies, (count as f64 * scale).round() as u64))
        }
    }
}

/// The `count` most frequent keys of those that several nodes access: replicas of other keys would never be
/// read.
fn most_used(frequencies: &[Frequency], count: u64) -> Assignment {
    let shared = frequencies.iter().filter(|f| f.shared).map(|f| (f.key, f.uses as f64));
    Assignment::top(shared, usize::try_from(count).unwrap_or(usize::MAX))
}

/// The share of `keys` in all accesses; both ascending.
fn share(frequencies: &[Frequency], keys: &[Key]) -> f64 {
    let all: f64 = frequencies.iter().map(|f| f.accesses).sum();
    let replicated = frequencies.iter().filter(|f| keys.binary_search(&f.key).is_ok());
    // The sum of nothing would be -0.
    if all > 0.0 { replicated.map(|f| f.accesses).fold(0.0, |sum, more| sum + more) / all } else { 0.0 }
}

/// Reports before the training which keys are replicated.
pub(crate) fn tell(resolved: &Resolved, plan: &Plan) {
    let Some(replicated) = resolved.replicated.filter(|_| plan.rank() == 0 && plan.nodes > 1) else { return };
    if replicated.keys == 0 {
        let reason = why_none(&plan.replication.choice);
        let equal = without_replicas(plan.technique).map_or_else(String::new, |other| {
            format!("; without replicas, {} equals {other}", plan.technique.name())
        });
        tracing::warn!("no key is replicated: {reason}{equal}");
    } else if plan.progress {
        crate::logging::say(&format!("replicated: {replicated}"));
    }
}

/// Why no key is replicated, by the flag that decides.
fn why_none(choice: &Choice) -> &'static str {
    match choice {
        Choice::Above { .. } => {
            "no key that several nodes use is used as often as --replicate-above and --replicate-scale ask for"
        }
        Choice::Top(0) => "--replicate-top is 0",
        Choice::Top(_) => "no key is used by several nodes",
        Choice::Given(_) => "--replicate-file names no key",
    }
}

#[cfg(test)]
#[path = "replication_tests.rs"]
mod tests;
