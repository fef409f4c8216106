//! Two runs side by side.

use crate::summary::Summary;
use serde::Serialize;
use std::fmt;

/// A number, for each of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The name of the number.
    pub what: &'static str,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// Its value for the first run; `None` if the trace does not contain it.
    pub a: Option<f64>,
    /// Its value for the second run.
    pub b: Option<f64>,
}

/// A reason to doubt a comparison of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The runs have different tasks.
    Task,
    /// The models have different numbers of keys.
    Keys,
    /// The clusters have different numbers of nodes.
    Nodes,
    /// Different keys were traced.
    TracedKeys,
    /// The runs have different numbers of epochs.
    Epochs,
}

impl Doubt {
    /// All doubts about a comparison of two runs.
    #[must_use]
    pub fn between(a: &Summary, b: &Summary) -> Vec<Self> {
        let all = [
            (a.task != b.task, Self::Task),
            (a.keys != b.keys, Self::Keys),
            (a.nodes.len() != b.nodes.len(), Self::Nodes),
            (a.filter != b.filter, Self::TracedKeys),
            (a.epochs.len() != b.epochs.len(), Self::Epochs),
        ];
        all.into_iter().filter_map(|(differ, doubt)| differ.then_some(doubt)).collect()
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task => "the runs have different tasks",
            Self::Keys => "the models have different numbers of keys",
            Self::Nodes => "the clusters have different numbers of nodes",
            Self::TracedKeys => "different keys were traced: numbers of events about keys differ for that",
            Self::Epochs => "the runs have different numbers of epochs",
        })
    }
}

/// Two runs side by side, such as one with static and one with dynamic allocation.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first run.
    pub a: Summary,
    /// The second run.
    pub b: Summary,
    /// Numbers of both.
    pub lines: Vec<Line>,
    /// The reasons to doubt the comparison.
    pub doubts: Vec<String>,
}

impl Comparison {
    /// Compares two runs.
    #[must_use]
    pub fn of(a: Summary, b: Summary) -> Self {
        let line =
            |what, unit, of: &dyn Fn(&Summary) -> Option<f64>| Line { what, unit, a: of(&a), b: of(&b) };
        let lines = vec![
            line("length", "s", &|run| Some((run.to_us - run.from_us) as f64 / 1e6)),
            line("time per epoch", "s", &|run| run.epoch_us().map(|us| us as f64 / 1e6)),
            line("remote accesses", "", &|run| Some(run.remote.count as f64)),
            line("remote accesses, mean", "us", &|run| (run.remote.count > 0).then_some(run.remote.mean_us)),
            line("remote accesses, p99", "us", &|run| (run.remote.count > 0).then_some(run.remote.p99_us)),
            line("accesses that waited", "", &|run| Some(run.waited.count as f64)),
            line("relocations", "", &|run| Some(run.relocations as f64)),
            line("replicas set up", "", &|run| Some(run.replicas as f64)),
            line("conflicts", "", &|run| Some(run.conflicts as f64)),
            line("mean replicas per key", "", &|run| Some(run.roles.replicas)),
            line("sent", "MB", &|run| (!run.links.is_empty()).then_some(run.bytes() as f64 / 1e6)),
        ];
        let doubts = Doubt::between(&a, &b).iter().map(Doubt::to_string).collect();
        Self { a, b, lines, doubts }
    }
}
