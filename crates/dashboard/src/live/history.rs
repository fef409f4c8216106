//! The answers of the nodes of a cluster, in bounded memory.

use super::node::{LiveAddress, Mark, Said};
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// The most nodes that are asked: as many as a cluster can have.
pub(super) const NODES_MAX: usize = 1024;

/// The most samples of all nodes together: a day of one node, three hours of eight.
const SAMPLES_MAX: usize = 86_400;

/// Samples per node of an answer: a chart has no more pixels.
const POINTS_MAX: usize = 400;

/// Marks that are kept.
const MARKS_MAX: usize = 1000;

/// The numbers that are kept: the name in this server's answers, and the name of the node's series. The page
/// computes rates from totals.
const SERIES: [(&str, &str); 21] = [
    ("examples", "intendant_examples_total"),
    ("training_seconds", "intendant_training_seconds_total"),
    ("epoch", "intendant_epoch"),
    ("epochs", "intendant_epochs_planned"),
    ("loss", "intendant_loss"),
    ("local", "intendant_local_accesses_total"),
    ("remote", "intendant_remote_accesses_total"),
    ("relocations", "intendant_relocations_total"),
    ("replica_setups", "intendant_replica_setups_total"),
    ("replica_drops", "intendant_replica_drops_total"),
    ("conflicts", "intendant_localization_conflicts_total"),
    ("rounds", "intendant_sync_rounds_total"),
    ("messages", "intendant_sent_messages_total"),
    ("bytes", "intendant_sent_bytes_total"),
    ("inbox", "intendant_inbox_commands"),
    ("prepared", "intendant_prepared_batches"),
    ("operations", "intendant_outstanding_operations"),
    ("outstanding_bytes", "intendant_outstanding_bytes"),
    ("held", "intendant_held_values"),
    ("memory", "process_resident_memory_bytes"),
    ("cpu", "process_cpu_seconds_total"),
];

/// The numbers of a node at one time.
#[derive(Clone, Debug)]
struct Sample {
    number: u64,
    at_ms: u64,
    values: [Option<f64>; SERIES.len()],
}

/// What is known about a node.
#[derive(Clone, Debug, Default)]
struct Node {
    address: Option<LiveAddress>,
    has_answered: bool,
    error: Option<String>,
    /// When it answered last, on the clock of this process.
    heard: Duration,
    workers: u64,
    samples: VecDeque<Sample>,
}

/// The answers of the nodes of a cluster.
#[derive(Debug, Default)]
pub(crate) struct History {
    task: String,
    technique: String,
    /// When the run started, and the latest time that a node has sent, both on the clocks of nodes.
    started_unix_ms: u64,
    now_unix_ms: u64,
    /// When the last question was answered or failed, on the clock of this process.
    since_start: Duration,
    nodes: Vec<Node>,
    marks: Vec<Mark>,
    number: u64,
}

/// A node as the page shows it.
#[derive(Debug, Serialize)]
struct ShownNode {
    node: usize,
    address: Option<String>,
    /// `answers`, `waiting` (it has not answered yet) or `silent` (it has answered before).
    state: &'static str,
    error: Option<String>,
    /// For how long it has not answered, if it has answered before.
    silent_ms: Option<u64>,
    workers: u64,
    at_ms: Vec<u64>,
    /// For each of `series`, one number per time.
    values: Vec<Vec<Option<f64>>>,
}

/// What the page shows.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    task: String,
    technique: String,
    started_unix_ms: u64,
    now_unix_ms: u64,
    /// The number of the newest sample, which later questions send as `since`.
    newest: u64,
    series: Vec<&'static str>,
    nodes: Vec<ShownNode>,
    marks: Vec<Mark>,
}

impl History {
    /// The nodes whose addresses are known.
    pub(crate) fn peers(&self) -> Vec<(usize, LiveAddress)> {
        let known = self.nodes.iter().enumerate();
        known.filter_map(|(node, state)| Some((node, state.address.clone()?))).collect()
    }

    /// Adds the answer of node `asked`. `since_start` is this process's clock, which never goes back.
    pub(crate) fn add(
        &mut self,
        since_start: Duration,
        asked: usize,
        address: LiveAddress,
        answer: Result<Said, String>,
    ) {
        self.number += 1;
        self.since_start = self.since_start.max(since_start);
        match answer {
            Ok(said) => self.add_answer(since_start, said, address),
            Err(error) => {
                let node = self.node(asked);
                node.error = Some(error);
                node.address = Some(address);
            }
        }
        let per_node = (SAMPLES_MAX / self.nodes.len().max(1)).max(POINTS_MAX);
        for node in &mut self.nodes {
            let extra = node.samples.len().saturating_sub(per_node);
            node.samples.drain(..extra);
        }
    }

    fn node(&mut self, at: usize) -> &mut Node {
        if at >= self.nodes.len() {
            self.nodes.resize_with(at + 1, Node::default);
        }
        &mut self.nodes[at]
    }

    fn add_answer(&mut self, since_start: Duration, said: Said, address: LiveAddress) {
        let most = NODES_MAX as u64;
        let Ok(at) = usize::try_from(said.node.min(most - 1)) else { return };
        let is_new_run = said.started_unix_ms > self.started_unix_ms.saturating_add(1000)
            && said.node == 0
            && self.number > 1;
        if is_new_run && self.started_unix_ms > 0 {
            // Another run at the same address: its counters begin at 0.
            let number = self.number;
            *self = Self { number, since_start, ..Self::default() };
        }
        if said.node == 0 || self.started_unix_ms == 0 {
            (self.task, self.technique) = (shortened(&said.task), shortened(&said.technique));
            self.started_unix_ms = said.started_unix_ms;
        }
        self.now_unix_ms = self.now_unix_ms.max(said.now_unix_ms);
        for (peer, place) in said.peers.iter().take(NODES_MAX).enumerate() {
            let place = place.as_ref().and_then(|place| place.parse().ok());
            let node = self.node(peer);
            node.address = place.or(node.address.take());
        }
        let number = self.number;
        let _ = self.node(usize::try_from(said.nodes.clamp(1, most) - 1).unwrap_or(0));
        let at_ms = if said.now_unix_ms > 0 { said.now_unix_ms } else { since_start.as_millis() as u64 };
        let node = self.node(at);
        node.address = Some(address);
        node.has_answered = true;
        node.error = None;
        node.heard = since_start;
        node.workers = said.workers;
        let value =
            |(_, name): (&str, &str)| said.metrics.get(name).copied().filter(|value| value.is_finite());
        let newest = node.samples.back().map_or(0, |sample| sample.at_ms);
        // Charts need times that grow, and clocks of machines may be set back.
        if at_ms > newest {
            node.samples.push_back(Sample { number, at_ms, values: SERIES.map(value) });
        }
        for mark in said.marks {
            let mark = Mark { kind: shortened(&mark.kind), ..mark };
            // Every node reports epochs and lost nodes.
            let is_same = |known: &Mark| {
                known.kind == mark.kind && known.number == mark.number && known.node == mark.node
            };
            if self.marks.len() < MARKS_MAX && !self.marks.iter().any(is_same) {
                self.marks.push(mark);
            }
        }
    }

    /// The answers that arrived after sample `since`.
    pub(crate) fn shown(&self, since: u64) -> Shown {
        let node = |(node, state): (usize, &Node)| {
            let after = state.samples.partition_point(|sample| sample.number <= since);
            let new = state.samples.len() - after;
            let step = new.div_ceil(POINTS_MAX).max(1);
            // The newest sample is always included.
            let chosen: Vec<&Sample> =
                state.samples.iter().skip(after + (new.max(1) - 1) % step).step_by(step).collect();
            let values = |at: usize| chosen.iter().map(|sample| sample.values[at]).collect();
            ShownNode {
                node,
                address: state.address.as_ref().map(LiveAddress::to_string),
                state: match (&state.error, state.has_answered) {
                    (None, true) => "answers",
                    (Some(_), true) => "silent",
                    (_, false) => "waiting",
                },
                error: state.error.clone(),
                silent_ms: (state.error.is_some() && state.has_answered)
                    .then(|| self.since_start.saturating_sub(state.heard).as_millis() as u64),
                workers: state.workers,
                at_ms: chosen.iter().map(|sample| sample.at_ms).collect(),
                values: (0..SERIES.len()).map(values).collect(),
            }
        };
        Shown {
            task: self.task.clone(),
            technique: self.technique.clone(),
            started_unix_ms: self.started_unix_ms,
            now_unix_ms: self.now_unix_ms,
            newest: self.number,
            series: SERIES.map(|(name, _)| name).to_vec(),
            nodes: self.nodes.iter().enumerate().map(node).collect(),
            marks: self.marks.clone(),
        }
    }
}

/// The names that real nodes send are shorter.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
