//! A run in memory.

use super::totals::Index;
use intendant_analysis::{Allocation, AnalysisError, Limits, Run, Stamped, Summary};
use intendant_trace::{Filter, What};
use std::path::Path;
use std::sync::Arc;

/// Waits with their causes in the overview of a run.
const LONGEST: usize = 20;

/// A run in memory.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) allocation: Allocation,
    pub(crate) summary: Summary,
    pub(crate) totals: Index,
    /// By node, the times of its synchronisation rounds.
    pub(crate) rounds: Vec<Vec<u64>>,
}

impl Loaded {
    /// # Errors
    /// If the path does not name a run.
    pub(super) fn read(id: &str, title: &str, path: &Path, limits: Limits) -> Result<Self, AnalysisError> {
        let run = Arc::new(Run::open(path, limits)?);
        let allocation = Allocation::of(&run, &Filter::All);
        let summary = Summary::of(&allocation, LONGEST);
        let mut rounds = vec![Vec::new(); run.header().nodes.into()];
        for event in run.events().filter(|event| matches!(event.what, What::Synced { .. })) {
            if let Some(rounds) = rounds.get_mut(usize::from(event.node.0)) {
                rounds.push(event.at_us);
            }
        }
        let totals = Index::of(&run);
        Ok(Self { id: id.to_owned(), title: title.to_owned(), allocation, summary, totals, rounds })
    }

    /// A measure of the memory that it takes: the number of events, ranges of keys and settings, each of
    /// which takes about 50 bytes.
    pub(super) fn weight(&self) -> usize {
        let run = self.allocation.run();
        let header = run.header();
        let filter = if let Filter::Keys(ranges) = run.filter() { ranges.len() } else { 0 };
        [
            run.len(),
            self.allocation.keys().ranges(),
            filter,
            header.static_replicas.len(),
            header.ranges.len(),
        ]
        .into_iter()
        .fold(header.settings.len(), usize::saturating_add)
    }

    /// The positions in the run of the events of a key from one time to another.
    pub(crate) fn positions_between(&self, key: u64, from_us: u64, to_us: u64) -> &[u32] {
        let positions = self.allocation.positions_of(key);
        let time =
            |position: &u32| self.allocation.run().event(*position as usize).map_or(0, |event| event.at_us);
        let first = positions.partition_point(|position| time(position) < from_us);
        let end = positions.partition_point(|position| time(position) <= to_us);
        &positions[first..end.max(first)]
    }

    /// The events of a key from one time to another.
    pub(crate) fn events_between(
        &self,
        key: u64,
        from_us: u64,
        to_us: u64,
    ) -> impl Iterator<Item = Stamped> + '_ {
        let positions = self.positions_between(key, from_us, to_us).iter();
        positions.filter_map(|position| self.allocation.run().event(*position as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_trace::{Header, NamedRange, Writer};

    #[test]
    fn a_run_of_few_events_and_many_separate_keys_weighs_much() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let header = Header {
            nodes: 1,
            channels: 1,
            shards: 1,
            key_order: "range".to_owned(),
            ranges: vec![NamedRange { name: "word".to_owned(), keys: 1 << 20, len: 1 }],
            filter: "sample:1/2".to_owned(),
            ..Header::default()
        };
        Writer::create(file.path(), &header).unwrap();
        let loaded = Loaded::read("a", "a", file.path(), Limits::default()).unwrap();
        assert_eq!(loaded.allocation.run().len(), 0);
        // A quarter of all keys begin a range of accepted ones.
        assert!((1 << 17..1 << 19).contains(&loaded.weight()), "{}", loaded.weight());
    }
}
