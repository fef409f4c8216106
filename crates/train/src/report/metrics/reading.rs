//! The metrics as numbers: what is read when a request comes.

use super::board::{ACCESSES, Board, Costs, Event, Mark, News, Share};
use super::catalogue as names;
use super::observe::Observe;
use crate::clock::now;
use intendant::{AccessStats, FailureKind};
use intendant_core::{Amount, Form, Histogram, Statistic, Statistics, lock};
use intendant_metrics::{Buckets, Metric, Sample, Source, Value, process};
use serde_json::{Map, json};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The version of the JSON format.
const SCHEMA: &str = "intendant.live/1";

/// How often the costs of an epoch are read again if the epoch ended meanwhile. After that, its end waits for
/// the reading.
const READINGS_MAX: usize = 3;

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
        for (statistic, count) in AccessStats::SHOWN.iter().zip(self.accesses()) {
            samples.statistic(statistic, Amount::Numbers(&[count]));
        }
    }

    /// The accesses of all workers, in the order of [`AccessStats::SHOWN`].
    fn accesses(&self) -> [u64; ACCESSES] {
        let sum = |at: usize| {
            self.board.shares.iter().map(|share| share.accesses[at].load(Ordering::Relaxed)).sum()
        };
        std::array::from_fn(sum)
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
        samples.statistics(&costs.management);
        samples.statistics(&costs.traffic);
        samples.statistics(&self.node.sampling());
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

/// A histogram in the metric's unit. Its bounds are powers of two, or of four: below one of them, counts of
/// [`Histogram`] are exact.
fn buckets(histogram: &Histogram, form: Form) -> Buckets {
    // A bound in the metric's unit, and the largest recorded number below it.
    let powers = |powers: Range<u32>, unit: f64| {
        powers.map(move |power| 1u64 << power).map(move |bound| (bound as f64 / unit, bound - 1))
    };
    let (unit, bounds): (f64, Vec<_>) = match form {
        // From 16 µs to 17 s.
        Form::Durations => (1e6, powers(4..25, 1e6).step_by(2).collect()),
        // From 0 to 2047.
        Form::Counts => {
            (1.0, (0..12).map(|power| (1 << power) - 1).map(|count| (count as f64, count)).collect())
        }
        Form::Thousandths => (1e3, powers(3..14, 1e3).collect()),
        Form::Number | Form::Each { .. } | Form::Part { .. } => (1.0, Vec::new()),
    };
    let mut below = 0;
    let counts = bounds.into_iter().map(|(bound, last)| {
        let up_to = histogram.count_up_to(last);
        (bound, up_to - std::mem::replace(&mut below, up_to))
    });
    let counts = counts.collect();
    Buckets { sum: histogram.sum_us() as f64 / unit, count: histogram.count(), counts }
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

    fn statistics<S: Statistics>(&mut self, stats: &S) {
        S::SHOWN
            .iter()
            .zip(stats.amounts())
            .for_each(|(statistic, amount)| self.statistic(statistic, amount));
    }

    fn statistic(&mut self, statistic: &Statistic, amount: Amount<'_>) {
        let (metric, form) = (names::of(&statistic.shown), statistic.shown.form);
        match amount {
            Amount::Numbers(numbers) => {
                for (at, number) in numbers.iter().enumerate() {
                    let labels = form.label(at).map(|(label, value)| (label, value.to_owned()));
                    self.labelled(metric, labels.into_iter().collect(), *number as f64);
                }
            }
            Amount::Distribution(histogram) => {
                let value = Value::Buckets(buckets(histogram, form));
                self.0.push(Sample { metric, labels: Vec::new(), value });
            }
        }
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
