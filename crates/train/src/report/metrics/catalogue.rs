//! The metrics of a node. `docs/metrics.md` has a table of them, and the members of the report that have the
//! same numbers.

use intendant::{AccessStats, ManagementStats, NetworkStats};
use intendant_core::{Form, Shown, Statistic, Statistics};
use intendant_metrics::{Kind, Metric};
use intendant_sampling::SamplingStats;
use std::sync::LazyLock;

/// Statistics, each type with the member of the report that has its fields.
pub(super) const STATISTICS: [(&str, &[Statistic]); 4] = [
    ("access", AccessStats::SHOWN),
    ("management", ManagementStats::SHOWN),
    ("network", NetworkStats::SHOWN),
    ("sampling", SamplingStats::SHOWN),
];

/// The metrics of statistics.
static OF_STATISTICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let mut metrics: Vec<_> = STATISTICS.into_iter().flat_map(|(_, shown)| shown).map(metric).collect();
    // Parts of a metric follow each other.
    metrics.dedup();
    metrics
});

fn metric(statistic: &Statistic) -> Metric {
    let Shown { metric: name, unit, form } = statistic.shown;
    let (kind, help) = match form {
        Form::Number | Form::Each { .. } => (Kind::Counter, statistic.meaning()),
        Form::Part { of, .. } => (Kind::Counter, of),
        Form::Durations | Form::Counts | Form::Thousandths => (Kind::Histogram, statistic.meaning()),
    };
    Metric { name, kind, unit, help }
}

/// The metric that shows a field of statistics.
pub(super) fn of(shown: &Shown) -> &'static Metric {
    let metric = OF_STATISTICS.iter().find(|metric| metric.name == shown.metric);
    metric.expect("the catalogue has each type of statistics that is read")
}

/// All of them.
pub(super) fn all() -> Vec<&'static Metric> {
    RUN.into_iter().chain(&*OF_STATISTICS).chain(NODE).collect()
}

macro_rules! catalogue {
    (
        $(#[$meta:meta])* $all:ident;
        $($constant:ident: $kind:ident, $name:literal, $unit:literal, $help:literal;)*
    ) => {
        $(pub(super) static $constant: Metric =
            Metric { name: $name, kind: Kind::$kind, unit: $unit, help: $help };)*

        $(#[$meta])*
        static $all: [&Metric; [$($name),*].len()] = [$(&$constant),*];
    };
}

catalogue! {
    /// Of the run and its training.
    RUN;

    INFO: Gauge, "intendant_info", "",
        "1; the labels `program`, `version`, `technique` and `task` describe the run";
    NODES: Gauge, "intendant_nodes", "nodes",
        "Nodes of the cluster";
    LOST_NODES: Gauge, "intendant_lost_nodes", "nodes",
        "1 if this node knows that another one is lost; the run ends at once then, or goes on with other nodes (copies)";
    WORKERS: Gauge, "intendant_workers", "threads",
        "Training threads of this node";
    UPTIME: Gauge, "intendant_uptime_seconds", "seconds",
        "Time since this node began to train";
    EPOCH: Gauge, "intendant_epoch", "",
        "The epoch under way or the last one, from 1; 0 before the first batch";
    EPOCHS_PLANNED: Gauge, "intendant_epochs_planned", "epochs",
        "Epochs of the whole run, at most";
    EXAMPLES: Counter, "intendant_examples_total", "examples",
        "Examples trained";
    BATCHES: Counter, "intendant_batches_total", "batches",
        "Batches trained";
    SECONDS: Counter, "intendant_training_seconds_total", "seconds",
        "Time in epochs, evaluation excluded; compare node 0";
    CPU_SECONDS: Counter, "intendant_training_cpu_seconds_total", "seconds",
        "CPU time of this process in epochs";
    EPOCH_LOSS: Gauge, "intendant_epoch_loss", "",
        "Mean loss per example of this node in the epoch under way";
    LOSS: Gauge, "intendant_loss", "",
        "Mean loss per example of all nodes in the last epoch that ended";
    QUALITY: Gauge, "intendant_quality", "",
        "Quality on the validation data, label `metric`, after the last epoch that was validated";
}

catalogue! {
    /// Of checkpoints, queues and the process.
    NODE;

    CHECKPOINTS: Counter, "intendant_checkpoints_total", "checkpoints",
        "Checkpoints committed, those before a resumption included; node 0 with `--checkpoint`, as the next five";
    CHECKPOINT: Gauge, "intendant_checkpoint_number", "",
        "Number of the newest checkpoint of this process";
    CHECKPOINT_TIME: Gauge, "intendant_checkpoint_timestamp_seconds", "seconds",
        "When that was committed, since 1970";
    CHECKPOINT_BYTES: Gauge, "intendant_checkpoint_bytes", "bytes",
        "Size of the newest checkpoint";
    CHECKPOINT_STOP: Gauge, "intendant_checkpoint_stop_seconds", "seconds",
        "Mean time for which training stood still for a checkpoint";
    CHECKPOINT_WRITE: Gauge, "intendant_checkpoint_write_seconds", "seconds",
        "Mean time until node 0 had written its part of one";
    INBOX: Gauge, "intendant_inbox_commands", "commands",
        "Commands of workers and loaders that wait for the threads of the channels";
    PREPARED: Gauge, "intendant_prepared_batches", "batches",
        "Batches that loaders have prepared and workers have not taken";
    OPERATIONS: Gauge, "intendant_outstanding_operations", "operations",
        "Operations of workers that wait for answers, after their last batches";
    OUTSTANDING: Gauge, "intendant_outstanding_bytes", "bytes",
        "Bytes that these have in flight";
    HELD: Gauge, "intendant_held_values", "values",
        "Values that this node holds, replicas included";
    RESIDENT: Gauge, "process_resident_memory_bytes", "bytes",
        "Resident memory of the process";
    PROCESS_CPU: Counter, "process_cpu_seconds_total", "seconds",
        "CPU time of the process";
    PROCESS_START: Gauge, "process_start_time_seconds", "seconds",
        "When the process started, since 1970";
}
