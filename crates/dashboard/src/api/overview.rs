//! A run in numbers.

use super::question::span;
use super::texts::shortened;
use crate::library::Loaded;
use intendant_analysis::{Durations, NodeInfo, Summary, Wait};
use serde::Serialize;

/// The most nodes of a table of links: more do not fit on a page.
const LINKED_MAX: usize = 64;

/// The most marks of each kind in a picture: more could not be told apart.
const MARKS_MAX: usize = 500;

/// The most ranges, settings and problems in an answer. Headers may have more than a page can show.
const LINES_MAX: usize = 200;

#[derive(Debug, Serialize)]
pub(super) struct Overview {
    id: String,
    title: String,
    task: String,
    technique: String,
    filter: String,
    settings: Vec<(String, String)>,
    ranges: Vec<Range>,
    nodes: usize,
    from_us: u64,
    to_us: u64,
    keys: String,
    keys_with_events: u64,
    events: usize,
    problems: Vec<String>,
    node_states: Vec<NodeState>,
    kinds: Vec<(&'static str, u64)>,
    relocations: u64,
    replica_setups: u64,
    replica_drops: u64,
    conflicts: u64,
    sync_rounds: u64,
    bytes: u64,
    /// By sender and receiver; empty for clusters that are too large for a table.
    links: Vec<Vec<u64>>,
    remote: Waits,
    /// Accesses that waited for a key or a replica, which was on its way.
    waited: Waits,
    /// The mean time of an epoch without the first one.
    epoch_us: Option<u64>,
    marks: Vec<Mark>,
    longest: Vec<Waiting>,
}

#[derive(Debug, Serialize)]
struct Range {
    name: String,
    first: String,
    keys: String,
    len: u32,
}

#[derive(Debug, Serialize)]
struct NodeState {
    node: u16,
    events: u64,
    dropped: u64,
    offset_us: i64,
    error_us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Waits {
    count: u64,
    mean_us: f64,
    p99_us: f64,
    max_us: u64,
}

impl Waits {
    fn of(durations: &Durations) -> Self {
        let Durations { count, mean_us, p99_us, max_us } = *durations;
        Self { count, mean_us, p99_us, max_us }
    }
}

#[derive(Debug, Serialize)]
struct Mark {
    at_us: u64,
    kind: &'static str,
    number: u64,
}

/// An access that waited, in words.
#[derive(Debug, Serialize)]
pub(super) struct Waiting {
    at_us: u64,
    node: u16,
    key: String,
    access: String,
    by: Option<u16>,
    after_us: u64,
    cause: String,
}

impl Waiting {
    pub(super) fn of(wait: &Wait) -> Self {
        Self {
            at_us: wait.at_us,
            node: wait.node,
            key: wait.key.to_string(),
            access: wait.access.clone(),
            by: wait.by,
            after_us: wait.after_us,
            cause: wait.why.to_string(),
        }
    }
}

pub(super) fn of(run: &Loaded) -> Overview {
    let (summary, header) = (&run.summary, run.allocation.run().header());
    let (from_us, to_us) = span(run);
    let mut first = 0u64;
    let ranges = header.ranges.iter().take(LINES_MAX).map(|range| {
        let start = first;
        first = first.saturating_add(range.keys);
        Range {
            name: shortened(&range.name),
            first: start.to_string(),
            keys: range.keys.to_string(),
            len: range.len,
        }
    });
    let ranges = ranges.collect();
    let count =
        |name: &str| summary.events.iter().find(|kinds| kinds.kind == name).map_or(0, |kinds| kinds.count);
    let state = |node: &NodeInfo| NodeState {
        node: node.node,
        events: node.events,
        dropped: node.dropped,
        offset_us: node.offset_us,
        error_us: node.error_us,
    };
    let problem = |problem: &intendant_analysis::Problem| match problem.node {
        Some(node) => format!("Node {node}: {}", shortened(&problem.text)),
        None => shortened(&problem.text),
    };
    let mut problems: Vec<String> = summary.problems.iter().take(LINES_MAX).map(problem).collect();
    if summary.problems.len() > LINES_MAX {
        problems.push(format!("{} further problems are not listed", summary.problems.len() - LINES_MAX));
    }
    let missing = summary.inconsistencies.missing();
    if missing > 0 {
        problems.push(format!("{missing} events do not fit to each other, because others are missing"));
    }
    let setting = |(name, value): &(String, String)| (shortened(name), shortened(value));
    Overview {
        id: run.id.clone(),
        title: run.title.clone(),
        task: shortened(&summary.task),
        technique: shortened(&summary.technique),
        filter: shortened(&summary.filter),
        settings: summary.settings.iter().take(LINES_MAX).map(setting).collect(),
        ranges,
        nodes: summary.nodes.len(),
        from_us,
        to_us,
        keys: summary.keys.to_string(),
        keys_with_events: summary.active_keys,
        events: run.allocation.run().len(),
        problems,
        node_states: summary.nodes.iter().map(state).collect(),
        kinds: summary.events.iter().map(|kinds| (kinds.kind, kinds.count)).collect(),
        relocations: summary.relocations,
        replica_setups: summary.replicas,
        replica_drops: count("replica_dropped"),
        conflicts: summary.conflicts,
        sync_rounds: summary.staleness.iter().map(|staleness| staleness.rounds).sum(),
        bytes: summary.bytes(),
        links: links(summary),
        remote: Waits::of(&summary.remote),
        waited: Waits::of(&summary.waited),
        epoch_us: summary.epoch_us(),
        marks: marks(summary),
        longest: summary.longest.iter().map(Waiting::of).collect(),
    }
}

fn links(summary: &Summary) -> Vec<Vec<u64>> {
    let nodes = summary.nodes.len();
    if nodes > LINKED_MAX {
        return Vec::new();
    }
    let mut links = vec![vec![0; nodes]; nodes];
    for link in &summary.links {
        if let Some(bytes) =
            links.get_mut(usize::from(link.from)).and_then(|row| row.get_mut(usize::from(link.to)))
        {
            *bytes = link.bytes;
        }
    }
    links
}

fn marks(summary: &Summary) -> Vec<Mark> {
    let epochs = summary.epochs.iter().take(MARKS_MAX).map(|mark| ("epoch", mark));
    let all = epochs.chain(summary.checkpoints.iter().take(MARKS_MAX).map(|mark| ("checkpoint", mark)));
    let mark = |(kind, mark): (&'static str, &intendant_analysis::Marked)| Mark {
        at_us: mark.at_us,
        kind,
        number: mark.number,
    };
    all.map(mark).collect()
}
