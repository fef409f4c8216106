//! The report: the contract between applications, benchmarks and plots. Its schema is documented in
//! `docs/report.md`.

use super::bound::Bound;
use super::exchanged::{Exchanged, VirtualTime};
use super::numbers::{means, number, reported, share};
use super::sums::{EpochSum, Totals};
use crate::settings::{Plan, Simulation};
use indicatif::HumanBytes;
use intendant::{AccessStats, ManagementStats, NetworkStats, ReportedManagement};
use intendant_core::Element;
use intendant_sampling::{Sampler, SamplingStats};
use intendant_task::{Model, Partition, Subepoch, Task};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

/// The version of the schema.
pub const SCHEMA: &str = "intendant.report/1";

/// A run, as reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the task.
    pub task: String,
    /// Name of the technique.
    pub technique: String,
    /// Seed of the run.
    pub seed: u64,
    /// Nodes.
    pub nodes: usize,
    /// Workers per node.
    pub workers_per_node: usize,
    /// Whether time was virtual.
    pub simulated: bool,
    /// The effective configuration.
    pub config: serde_json::Value,
    /// Hash of everything that was trained on, 16 hexadecimal digits; equal for every technique and number of
    /// nodes.
    pub data_digest: String,
    /// Size of the model.
    pub model: ModelSize,
    /// The epochs, in order.
    pub epochs: Vec<Epoch>,
    /// Quality on the test data after the last epoch; empty if there is none.
    pub test: BTreeMap<String, f64>,
    /// What a trivial predictor reaches on the test data; absent if the task has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// How the epochs compare; absent without `--patience` and `--keep best`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// Accesses of all epochs.
    pub access: Access,
    /// What parameter management did.
    pub management: Management,
    /// What the epochs sent.
    pub network: NetworkStats,
    /// How samples were drawn; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// The checkpoints that were made, those before a resumption included; absent without `--checkpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Made>,
    /// How the nodes have changed; only of a run with `--copies`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub views: Option<Changes>,
    /// More about a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulated>,
    /// What the epochs sent beside what they had to send; only of a simulated run that was asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// What the nodes exchanged; only of a program that runs on several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_sided: Option<Exchanged>,
}

/// What a trivial predictor reaches on the test data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What it predicts by.
    pub name: String,
    /// The metric, as in [`Report::test`].
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// How the epochs of a run compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The metric, as in [`Epoch::quality`].
    pub metric: String,
    /// The best epoch, from 1; absent without any validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_epoch: Option<usize>,
    /// Whether the training ended because validations no longer improved.
    pub ended_early: bool,
    /// The epoch, from 1, whose model was tested and exported; only with `--keep best`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_epoch: Option<usize>,
}

impl Validation {
    /// What came of the comparison, in words, after so many epochs.
    pub(crate) fn describe(&self, epochs: usize) -> String {
        let Self { metric, best_epoch, ended_early, model_epoch } = self;
        let mut text = best_epoch.map_or_else(
            || "no epoch was validated".to_owned(),
            |best| format!("{metric} is best after epoch {best}"),
        );
        if *ended_early {
            text.push_str(", training ended early");
        }
        if let Some(epoch) = model_epoch.filter(|epoch| *epoch != epochs || *best_epoch != Some(*epoch)) {
            text.push_str(&format!(", the model is that of epoch {epoch}"));
        }
        text
    }

    /// If the plan compares epochs.
    fn new(plan: &Plan, epochs: &[EpochSum]) -> Option<Self> {
        let criterion = plan.best.or(plan.patience.map(|patience| patience.criterion))?;
        let sums = || epochs.iter().map(|epoch| &epoch.tally.reduction);
        Some(Self {
            metric: reported(criterion.metric).0.to_owned(),
            best_epoch: criterion.best(sums()).map(|best| best.epoch + 1),
            ended_early: plan.patience.is_some_and(|patience| patience.ends(sums())),
            // A run that tests another one says so.
            model_epoch: plan.best.map(|_| epochs.len()),
        })
    }
}

/// What only a simulation can measure, summed or averaged over the epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// The network: a name or a file.
    pub net: String,
    /// The machines: a name or a file.
    pub machine: String,
    /// Factor by which bytes of values counted.
    pub charge: f64,
    /// Factor by which arithmetic counted.
    pub charge_compute: f64,
    /// Upper bound of the keys of an operation on rows of other nodes, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_keys: Option<NonZeroUsize>,
    /// Events of the whole run, evaluation included.
    pub events: u64,
    /// Share of the time in which a channel's thread was busy, mean over channels.
    pub channel_busy: f64,
    /// Mean time that an input waited for its channel's thread, milliseconds.
    pub channel_wait_ms: f64,
    /// Share of the time in which the sending half of a node's NIC was busy, mean over nodes.
    pub nic_busy: f64,
    /// Share of the time in which a worker did not wait, mean over workers.
    #[serde(default)]
    pub worker_busy: f64,
}

/// The checkpoints that a run has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Committed checkpoints.
    pub count: u64,
    /// Bytes of the newest.
    pub bytes: u64,
    /// Mean time during which training stood still for one, milliseconds: until all nodes have copied their
    /// values.
    pub stop_ms: f64,
    /// Mean time until node 0 had written its part of one, milliseconds.
    pub write_ms: f64,
}

impl Made {
    /// With one more.
    pub(crate) fn with(self, bytes: u64, stop: Duration, write: Duration) -> Self {
        let before = self.count as f64;
        let mean = |mean: f64, last: Duration| (mean * before + last.as_secs_f64() * 1e3) / (before + 1.0);
        Self {
            count: self.count + 1,
            bytes,
            stop_ms: mean(self.stop_ms, stop),
            write_ms: mean(self.write_ms, write),
        }
    }
}

/// The changes of a run's nodes, as far as this process has seen them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Views, with the first one.
    pub count: u64,
    /// Nodes that were lost.
    pub lost: u64,
    /// Nodes that have joined.
    pub joined: u64,
    /// Nodes that have left.
    pub left: u64,
    /// Time from the end of a view to the beginning of the training in the next one, on average,
    /// milliseconds.
    pub change_ms: f64,
}

/// How samples were drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// The conformity level that was asked for.
    pub level: String,
    /// The scheme.
    pub scheme: String,
    /// Keys of a pool, of schemes that have some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_keys: Option<u32>,
    /// How often each of them is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_uses: Option<u32>,
    /// Over all nodes.
    #[serde(flatten)]
    pub counts: SamplingStats,
}

impl Sampling {
    pub(crate) fn new(sampler: &Sampler, stats: &SamplingStats) -> Option<Self> {
        let (level, scheme) = sampler.schemes().next()?;
        let pooling = scheme.pooling();
        Some(Self {
            level: level.to_string(),
            scheme: scheme.to_string(),
            pool_keys: pooling.map(|pooling| pooling.keys.get()),
            pool_uses: pooling.map(|pooling| pooling.uses.get()),
            counts: *stats,
        })
    }
}

/// The static replicas of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replicated {
    /// Keys of which every node always has a replica.
    pub keys: u64,
    /// Bytes of their values, on each node.
    pub bytes: u64,
    /// Expected share of these keys in all accesses; absent if the task does not know how often keys are
    /// accessed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_share: Option<f64>,
}

impl fmt::Display for Replicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} on each node", crate::logging::counted(self.keys, "key"), HumanBytes(self.bytes))?;
        match self.access_share {
            Some(share) => write!(f, ", {:.1} % of accesses", 100.0 * share),
            None => Ok(()),
        }
    }
}

/// Size of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSize {
    /// Keys.
    pub keys: u64,
    /// Elements of all values.
    pub values: u64,
    /// Bytes of all values.
    pub bytes: u64,
    /// The static replicas; only of techniques that have some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicated: Option<Replicated>,
}

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1.
    pub epoch: usize,
    /// Time from the start of the epoch until all updates were applied, evaluation excluded.
    pub seconds: f64,
    /// CPU time of all processes in that time.
    pub cpu_seconds: f64,
    /// Examples trained.
    pub examples: u64,
    /// Mean loss per example, penalties excluded.
    pub loss: f64,
    /// Accesses of this epoch.
    pub access: Access,
    /// What parameter management did in this epoch.
    pub management: Management,
    /// What this epoch sent.
    pub network: NetworkStats,
    /// Quality on the validation data after this epoch; empty if there was no validation.
    pub quality: BTreeMap<String, f64>,
    /// What this epoch sent beside what it had to send, as in [`Report::bound`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// What the nodes exchanged in this epoch, as in [`Report::one_sided`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_sided: Option<Exchanged>,
}

/// Accesses, summed over all workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// In keys.
    #[serde(flatten)]
    pub counts: AccessStats,
    /// `remote / (local + remote)`, 0 without accesses.
    pub remote_share: f64,
    /// The same without the accesses of the first 5 % of each worker's batches of each epoch.
    pub remote_share_after_5_percent: f64,
}

/// What parameter management did. With techniques that allocate parameters statically and have no replicas,
/// all counts are 0 except `forwards`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Management {
    /// Over all channels of all nodes.
    #[serde(flatten)]
    pub counts: ReportedManagement,
    /// Rounds per second of a channel of a node, mean over the channels that have replicas. All nodes take
    /// part in a round of static replicas.
    #[serde(default)]
    pub syncs_per_second: f64,
}

impl Management {
    /// The statistics of so many seconds; `channels` is the number of channels of all nodes that have
    /// replicas.
    fn new(stats: &ManagementStats, channels: usize, seconds: f64) -> Self {
        let channel_seconds = channels as f64 * seconds;
        let syncs_per_second =
            if channel_seconds > 0.0 { stats.sync_rounds as f64 / channel_seconds } else { 0.0 };
        Self { counts: stats.reported(), syncs_per_second }
    }
}

/// Whether the frequency that was reached is less than half of the goal. A few rounds are too few to judge.
fn is_far_below(reached: f64, wanted: f64, seconds: f64) -> bool {
    const ROUNDS_MIN: f64 = 20.0;
    wanted * seconds >= ROUNDS_MIN && reached < wanted / 2.0
}

/// The median change of a replica between two synchronisations, times the number of nodes, that is worth a
/// warning: several times what the engine aims at.
const DRIFT_WARN: f64 = 1.0;

/// The relative difference of losses below which a model may still have learnt: losses are means over
/// different examples.
const LOSS_NOISE: f64 = 0.05;

/// The quality on the test data; empty if there is none.
pub(crate) fn test(totals: &Totals) -> BTreeMap<String, f64> {
    totals.test.as_ref().map(|sum| means(&sum.tally.reduction)).unwrap_or_default()
}

fn access(all: AccessStats, late: AccessStats) -> Access {
    Access { counts: all, remote_share: share(all), remote_share_after_5_percent: share(late) }
}

impl ModelSize {
    fn of<E: Element>(model: &Model<E>, replicated: Option<Replicated>) -> Self {
        let values = model.ranges.iter().map(|r| r.keys * r.row() as u64).sum();
        Self { keys: model.keys(), values, bytes: values * size_of::<E>() as u64, replicated }
    }
}

impl Epoch {
    /// The results of the epoch of this number; `channels` is the number of channels of all nodes that have
    /// replicas.
    pub(crate) fn new(number: usize, sum: &EpochSum, channels: usize) -> Self {
        let tally = &sum.tally;
        let examples = tally.reduction.get("examples");
        Self {
            epoch: number,
            seconds: sum.seconds,
            cpu_seconds: tally.cpu_ns as f64 / 1e9,
            examples: examples as u64,
            loss: tally.reduction.get("loss") / examples.max(1.0),
            access: access(tally.accesses, tally.late),
            management: Management::new(&tally.management, channels, sum.seconds),
            network: tally.traffic,
            quality: means(&tally.reduction),
            bound: None,
            one_sided: sum.exchanged,
        }
    }
}

impl Report {
    pub(crate) fn new<T: Task>(
        task: &T,
        plan: &Plan,
        (replicated, channels): (Option<Replicated>, usize),
        sampler: &Sampler,
        totals: &Totals,
    ) -> Self {
        let channels = channels * plan.nodes;
        let (mut all, mut late, mut traffic) =
            (AccessStats::default(), AccessStats::default(), NetworkStats::default());
        let (mut management, mut sampled) = (ManagementStats::default(), SamplingStats::default());
        let mut digest = 0u64;
        let mut seconds = 0.0;
        for sum in &totals.epochs {
            let tally = &sum.tally;
            all.merge(&tally.accesses);
            late.merge(&tally.late);
            traffic.merge(&tally.traffic);
            management.merge(&tally.management);
            sampled.merge(&tally.sampling);
            seconds += sum.seconds;
            digest = digest.wrapping_add(tally.reduction.digest);
        }
        let model = ModelSize::of(task.model(), replicated);
        Self {
            validation: Validation::new(plan, &totals.epochs),
            access: access(all, late),
            management: Management::new(&management, channels, seconds),
            network: traffic,
            sampling: Sampling::new(sampler, &sampled),
            ..Self::of((task.name(), digest, model), plan, totals, channels)
        }
    }

    /// What the reports of programs without a parameter server have as well; `channels` is 0 for them. The
    /// first argument: the name of the task, the digest of the data, the size of the model.
    pub(crate) fn of(
        (name, digest, model): (&str, u64, ModelSize),
        plan: &Plan,
        totals: &Totals,
        channels: usize,
    ) -> Self {
        let none = AccessStats::default();
        Self {
            schema: SCHEMA.to_owned(),
            task: name.to_owned(),
            technique: plan.technique.name().to_owned(),
            seed: plan.seed,
            nodes: plan.nodes,
            workers_per_node: plan.workers,
            simulated: plan.simulation.is_some(),
            config: plan.config.to_json(),
            data_digest: format!("{digest:016x}"),
            model,
            epochs: (1..)
                .zip(&totals.epochs)
                .map(|(number, sum)| Epoch::new(number, sum, channels))
                .collect(),
            test: test(totals),
            baseline: None,
            validation: None,
            access: access(none, none),
            management: Management::default(),
            network: NetworkStats::default(),
            sampling: None,
            checkpoints: None,
            views: None,
            simulation: None,
            bound: None,
            one_sided: totals.exchanged,
        }
    }

    /// Adds what only a simulation of a program measures.
    pub(crate) fn add_simulation(&mut self, simulation: &Simulation, plan: &Plan, time: &VirtualTime) {
        let VirtualTime { virtual_ns, compute_ns, events, nic_busy_ns, .. } = *time;
        self.network = time.traffic();
        self.simulation = Some(Simulated {
            net: simulation.net.clone(),
            machine: simulation.machine.clone(),
            charge: simulation.charge,
            charge_compute: simulation.charge_compute,
            operation_keys: simulation.operation_keys,
            events,
            channel_busy: 0.0,
            channel_wait_ms: 0.0,
            nic_busy: nic_busy_ns as f64 / virtual_ns.max(1) as f64 / plan.nodes as f64,
            worker_busy: compute_ns as f64 / virtual_ns.max(1) as f64 / plan.nodes as f64,
        });
    }

    /// Adds what a trivial predictor reaches, and warns if it is better than the model.
    pub(crate) fn compare<T: Task>(&mut self, task: &T) {
        let Some(baseline) = task.baseline() else { return };
        let intendant_task::Baseline { name, metric, value, .. } = baseline;
        if let Some(model) = self.test.get(metric).filter(|model| baseline.beats(**model))
            && !self.epochs.is_empty()
        {
            tracing::warn!(
                "the model is of no use yet: test {metric} is {}, and {name} alone reach {}; train for more epochs, or with \
                 other settings",
                number(*model),
                number(value)
            );
        }
        self.baseline = Some(Baseline { name: name.to_owned(), metric: metric.to_owned(), value });
    }

    /// Warns of results that may not be what the user asked for. `untrained` is the loss of the initial
    /// model.
    pub(crate) fn warn<T: Task>(&self, task: &T, plan: &Plan, untrained: Option<f64>) {
        if let (Some(last), Some(untrained)) = (self.epochs.last(), untrained)
            && last.loss > untrained * (1.0 + LOSS_NOISE)
            && task.loss_falls()
        {
            tracing::warn!(
                "nothing was learnt: the loss is {} after the training, and was {} before it; try a lower learning rate",
                number(last.loss),
                number(untrained)
            );
        }
        if self.validation.as_ref().is_some_and(|validation| validation.best_epoch.is_none()) {
            tracing::warn!(
                "no epoch was validated, so that none could be compared: --valid-every is {}, and there were {} epochs",
                plan.valid_every,
                self.epochs.len()
            );
        }
        self.warn_of_stale_replicas(task, plan);
        let drift = self.management.counts.drift.p50 * plan.nodes as f64;
        if drift > DRIFT_WARN {
            tracing::warn!(
                "replicas drifted: in half of all synchronisations, the updates that the nodes had held back changed the value by \
                 more than {:.0} % of its norm together; train on fewer nodes, or give channels free cores",
                100.0 * drift
            );
        }
    }

    fn warn_of_stale_replicas<T: Task>(&self, task: &T, plan: &Plan) {
        let Some(goal) = plan.replication.goal(plan.technique).filter(|_| plan.nodes > 1) else { return };
        let seconds: f64 = self.epochs.iter().map(|epoch| epoch.seconds).sum();
        // Between two batches there is nothing to synchronise.
        let workers = (plan.nodes * plan.workers) as u32;
        let first = Partition { worker: 0, workers, nodes: plan.nodes as u32, threads: 1 };
        let of_epoch = |epoch: u32| -> u64 {
            let subepochs = (0..task.subepochs(epoch, first)).map(|index| Subepoch { epoch, index });
            subepochs.flat_map(|at| first.all().map(move |worker| task.batches(at, worker))).sum()
        };
        let batches: u64 = (0..plan.epochs).map(of_epoch).sum();
        let wanted = goal.min(batches as f64 / seconds.max(1e-9));
        let reached = self.management.syncs_per_second;
        let has_copies = self.model.replicated.is_some_and(|replicated| replicated.keys > 0);
        if has_copies && is_far_below(reached, wanted, seconds) {
            tracing::warn!(
                "replicas were synchronised {reached:.1} times per second, not {goal:.1} times, and were staler than asked for; \
                 replicate fewer keys, or raise --sync-every-ms"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_is_that_of_one_channel_and_is_judged_by_the_goal() {
        let stats = ManagementStats { sync_rounds: 1_200, ..ManagementStats::default() };
        // Three nodes of two channels, 20 seconds.
        assert_eq!(Management::new(&stats, 6, 20.0).syncs_per_second, 10.0);
        assert_eq!(Management::new(&stats, 0, 20.0).syncs_per_second, 0.0);
        assert_eq!(Management::new(&stats, 6, 0.0).syncs_per_second, 0.0);
        assert!(is_far_below(10.0, 25.0, 20.0));
        assert!(!is_far_below(12.5, 25.0, 20.0));
        assert!(!is_far_below(0.0, 25.0, 0.5), "too short to tell");
    }
}
