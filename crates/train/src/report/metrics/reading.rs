//! The metrics as numbers: what is read when a request comes.

use super::board::{Board, Costs, Event, Mark, News, Share};
use super::catalogue as names;
use super::observe::Observe;
use crate::clock::now;
use intendant::{FailureKind, ManagementStats, NetworkStats};
use intendant_core::{Histogram, lock};
use intendant_metrics::{Buckets, Metric, Sample, Source, Value, process};
use intendant_sampling::SamplingStats;
use serde_json::{Map, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The version of the JSON format.
const SCHEMA: &str = "intendant.live/1";

/// How often the costs of an epoch are read again if the epoch ended meanwhile. After that, its end waits for
/// the reading.
const READINGS_MAX: usize = 3;

/// Names of how often an access was forwarded.
const FORWARDS: [&str; 4] = ["0", "1", "2", "more"];

/// What is known of a run when it begins.
pub(super) struct Run {
    pub(super) program: String,
    pub(super) version: String,
    pub(super) technique: &'static str,
    pub(super) task: String,
    pub(super) rank: u16,
    pub(super) nodes: usize,
    pub(super) workers: usize,
    pub(super) epochs: u32,
}

/// Reads the metrics of a node.
pub(super) struct Reading {
    run: Run,
    board: Arc<Board>,
    node: Arc<dyn Observe>,
    start: Instant,
    started_unix_ms: u64,
    /// The latest costs that could be read: counters do not fall when the cluster has ended.
    latest: Mutex<Costs>,
}

impl Reading {
    pub(super) fn new(run: Run, board: Arc<Board>, node: Arc<dyn Observe>) -> Self {
        let (start, started_unix_ms) = (now(), process::unix_ms());
        Self { run, board, node, start, started_unix_ms, latest: Mutex::default() }
    }

    /// What epochs took so far.
    fn costs(&self) -> Costs {
        // One reading at a time, or an older one could be answered after a newer one.
        let mut latest = lock(&self.latest);
        for attempt in 0..=READINGS_MAX {
            let epochs = lock(&self.board.epochs);
            let state = epochs.clone();
            // The epoch does not end while the lock is held.
            let held = (attempt == READINGS_MAX).then_some(epochs);
            let mut costs = state.done;
            if let Some(before) = &state.running {
                let Some(management) = self.node.management() else { break };
                costs.add(&Costs {
                    seconds: (now() - before.start).as_secs_f64(),
                    cpu_ns: process::cpu_ns().saturating_sub(before.cpu_ns),
                    traffic: self.node.traffic().since(&before.traffic),
                    management: management.since(&before.management),
                });
            }
            // What happens between epochs does not count: it may have been read if the epoch ended meanwhile.
            if held.is_some() || lock(&self.board.epochs).changes == state.changes {
                *latest = costs;
                break;
            }
        }
        latest.clone()
    }

    /// The sum of a number over all workers.
    fn sum(&self, of: fn(&Share) -> &AtomicU64) -> u64 {
        // Relaxed: statistics.
        self.board.shares.iter().map(|share| of(share).load(Ordering::Relaxed)).sum()
    }

    fn news(&self) -> News {
        if let Some(failure) = self.node.failure()
            && let (FailureKind::PeerLost, Some(node)) = (failure.kind, failure.node)
        {
            self.board.lost(node.0);
        }
        lock(&self.board.news).clone()
    }

    fn run_samples(&self, samples: &mut Samples, news: &News) {
        let run = &self.run;
        let labels = [
            ("program", run.program.clone()),
            ("version", run.version.clone()),
            ("technique", run.technique.to_owned()),
            ("task", run.task.clone()),
        ];
        samples.labelled(&names::INFO, labels.into(), 1.0);
        samples.number(&names::NODES, run.nodes as f64);
        samples.number(&names::LOST_NODES, if news.lost.is_some() { 1.0 } else { 0.0 });
        samples.number(&names::WORKERS, run.workers as f64);
        samples.number(&names::UPTIME, (now() - self.start).as_secs_f64());
    }

    fn training(&self, samples: &mut Samples, news: &News, costs: &Costs) {
        let epoch = self.board.shares.iter().map(|share| share.epoch.load(Ordering::Relaxed)).max();
        samples.number(&names::EPOCH, epoch.unwrap_or(0) as f64);
        samples.number(&names::EPOCHS_PLANNED, f64::from(self.run.epochs));
        samples.count(&names::EXAMPLES, self.sum(|share| &share.examples));
        samples.count(&names::BATCHES, self.sum(|share| &share.batches));
        samples.number(&names::SECONDS, costs.seconds);
        samples.number(&names::CPU_SECONDS, costs.cpu_ns as f64 / 1e9);
        let examples = self.sum(|share| &share.epoch_examples);
        if examples > 0 {
            let losses = self.board.shares.iter().map(|share| share.epoch_loss.load(Ordering::Relaxed));
            let loss: f64 = losses.map(f64::from_bits).sum();
            samples.number(&names::EPOCH_LOSS, loss / examples as f64);
        }
        if let Some(loss) = news.loss {
            samples.number(&names::LOSS, loss);
        }
        for (metric, value) in &news.quality {
            samples.labelled(&names::QUALITY, vec![("metric", metric.clone())], *value);
        }
        samples.count(&names::PULLED, self.sum(|share| &share.pull_keys));
        samples.count(&names::PUSHED, self.sum(|share| &share.push_keys));
        samples.count(&names::LOCAL, self.sum(|share| &share.local));
        samples.count(&names::REMOTE, self.sum(|share| &share.remote));
        samples.count(&names::WINDOWS, self.sum(|share| &share.windows));
        samples.count(&names::SAMPLED, self.sum(|share| &share.sampled));
    }

    fn queues(&self, samples: &mut Samples) {
        samples.count(&names::INBOX, self.node.inbox_commands() as u64);
        samples.count(&names::PREPARED, self.sum(|share| &share.prepared));
        samples.count(&names::OPERATIONS, self.sum(|share| &share.operations));
        samples.count(&names::OUTSTANDING, self.sum(|share| &share.outstanding));
        samples.count(&names::HELD, self.node.held() as u64);
    }

    fn process(&self, samples: &mut Samples) {
        if let Some(bytes) = process::resident_bytes() {
            samples.count(&names::RESIDENT, bytes);
        }
        samples.number(&names::PROCESS_CPU, process::cpu_ns() as f64 / 1e9);
        if let Some(start) = process::start_seconds() {
            samples.number(&names::PROCESS_START, start);
        }
    }
}

impl Source for Reading {
    fn catalogue(&self) -> Vec<&'static Metric> {
        names::all()
    }

    fn labels(&self) -> Vec<(&'static str, String)> {
        vec![("node", self.run.rank.to_string())]
    }

    fn read(&self) -> Vec<Sample> {
        let mut samples = Samples::default();
        let (news, costs) = (self.news(), self.costs());
        self.run_samples(&mut samples, &news);
        self.training(&mut samples, &news, &costs);
        management(&mut samples, &costs.management);
        traffic(&mut samples, &costs.traffic);
        sampling(&mut samples, &self.node.sampling());
        checkpoints(&mut samples, &news);
        self.queues(&mut samples);
        self.process(&mut samples);
        samples.0
    }

    fn describe(&self) -> Map<String, serde_json::Value> {
        let (run, news) = (&self.run, self.news());
        let marks: Vec<_> = news.marks.iter().map(mark).collect();
        let members = [
            ("schema", json!(SCHEMA)),
            ("node", json!(run.rank)),
            ("nodes", json!(run.nodes)),
            ("task", json!(run.task)),
            ("technique", json!(run.technique)),
            ("program", json!(run.program)),
            ("version", json!(run.version)),
            ("workers", json!(run.workers)),
            ("peers", json!(news.peers)),
            ("started_unix_ms", json!(self.started_unix_ms)),
            ("now_unix_ms", json!(process::unix_ms())),
            ("marks", json!(marks)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn mark(mark: &Mark) -> serde_json::Value {
    let at = mark.at_unix_ms;
    match mark.what {
        Event::Epoch(number) => json!({ "at_unix_ms": at, "kind": "epoch", "number": number }),
        Event::Checkpoint(number) => json!({ "at_unix_ms": at, "kind": "checkpoint", "number": number }),
        Event::Lost(node) => json!({ "at_unix_ms": at, "kind": "lost", "node": node }),
    }
}

fn management(samples: &mut Samples, stats: &ManagementStats) {
    for (metric, count) in [
        (&names::RELOCATIONS, stats.relocations),
        (&names::SETUPS, stats.replica_setups),
        (&names::DROPS, stats.replica_drops),
        (&names::CONFLICTS, stats.localization_conflicts),
        (&names::ROUNDS, stats.sync_rounds),
        (&names::SYNCED, stats.synced_keys),
        (&names::HELD_BACK, stats.held_back),
        (&names::INTENTS, stats.intents),
        (&names::STALE_READS, stats.stale_reads),
        (&names::QUEUED, stats.queued),
    ] {
        samples.count(metric, count);
    }
    for (name, count) in FORWARDS.into_iter().zip(stats.forwards) {
        samples.labelled(&names::FORWARDED, vec![("forwards", name.to_owned())], count as f64);
    }
    samples.buckets(&names::RELOCATION, durations(&stats.relocation));
    samples.buckets(&names::BLOCKING, durations(&stats.blocking));
    let updates = (0..12).map(|power| (1 << power) - 1).map(|updates| (updates as f64, updates));
    samples.buckets(&names::UNSENT, buckets(&stats.unsent, 1.0, updates));
    let thousandths = (3..14).map(|power| 1u64 << power).map(|bound| (bound as f64 / 1e3, bound - 1));
    samples.buckets(&names::DRIFT, buckets(&stats.drift, 1e3, thousandths));
}

/// From 16 µs to 17 s, in powers of four.
fn durations(histogram: &Histogram) -> Buckets {
    let bounds = (2..13).map(|power| 1u64 << (2 * power)).map(|us| (us as f64 / 1e6, us - 1));
    buckets(histogram, 1e6, bounds)
}

/// A histogram with the given bounds: each in the metric's unit, and the largest recorded number below it.
/// `unit` is the unit in that of what was recorded.
fn buckets(histogram: &Histogram, unit: f64, bounds: impl Iterator<Item = (f64, u64)>) -> Buckets {
    let mut below = 0;
    let counts = bounds.map(|(bound, last)| {
        let up_to = histogram.count_up_to(last);
        (bound, up_to - std::mem::replace(&mut below, up_to))
    });
    let counts = counts.collect();
    Buckets { sum: histogram.sum_us() as f64 / unit, count: histogram.count(), counts }
}

fn traffic(samples: &mut Samples, stats: &NetworkStats) {
    let NetworkStats {
        messages,
        bytes,
        unpacked_bytes,
        saved_by_runs,
        saved_by_key_lists,
        saved_by_compression,
        unix_bytes,
    } = *stats;
    samples.count(&names::MESSAGES, messages);
    samples.count(&names::BYTES, bytes);
    samples.count(&names::UNPACKED_BYTES, unpacked_bytes);
    let saved =
        [("runs", saved_by_runs), ("key_lists", saved_by_key_lists), ("compression", saved_by_compression)];
    for (by, bytes) in saved {
        samples.labelled(&names::SAVED_BYTES, vec![("by", by.to_owned())], bytes as f64);
    }
    samples.count(&names::UNIX_BYTES, unix_bytes);
}

fn sampling(samples: &mut Samples, stats: &SamplingStats) {
    let SamplingStats { drawn, pools, late_pools, postponed, strayed } = *stats;
    samples.count(&names::SAMPLES, drawn);
    samples.count(&names::POOLS, pools);
    samples.count(&names::LATE_POOLS, late_pools);
    samples.count(&names::POSTPONED, postponed);
    samples.count(&names::STRAYED, strayed);
}

fn checkpoints(samples: &mut Samples, news: &News) {
    let Some(made) = &news.made else { return };
    samples.count(&names::CHECKPOINTS, made.count);
    if let Some((number, unix_ms)) = news.newest {
        samples.count(&names::CHECKPOINT, number);
        samples.number(&names::CHECKPOINT_TIME, unix_ms as f64 / 1e3);
    }
    if made.count > 0 {
        samples.count(&names::CHECKPOINT_BYTES, made.bytes);
        samples.number(&names::CHECKPOINT_STOP, made.stop_ms / 1e3);
        samples.number(&names::CHECKPOINT_WRITE, made.write_ms / 1e3);
    }
}

/// Samples as they are collected.
#[derive(Default)]
struct Samples(Vec<Sample>);

impl Samples {
    fn number(&mut self, metric: &'static Metric, value: f64) {
        self.0.push(Sample::number(metric, value));
    }

    fn count(&mut self, metric: &'static Metric, count: u64) {
        self.number(metric, count as f64);
    }

    fn labelled(&mut self, metric: &'static Metric, labels: Vec<(&'static str, String)>, value: f64) {
        self.0.push(Sample { metric, labels, value: Value::Number(value) });
    }

    fn buckets(&mut self, metric: &'static Metric, buckets: Buckets) {
        self.0.push(Sample { metric, labels: Vec::new(), value: Value::Buckets(buckets) });
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
