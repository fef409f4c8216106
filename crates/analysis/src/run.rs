//! A run: the events of all its nodes, on one clock.

use crate::align::{Alignment, Clocked, Offset, align};
use crate::error::AnalysisError;
use crate::folder::{self, Parts, Source};
use crate::keys::Keys;
use crate::limits::Limits;
use crate::merged::{self, Described};
use crate::node::{NodeInfo, is_complete};
use crate::record::{AT_MAX, Flat, Record, Stamped};
use intendant_core::{ChannelId, Key, Layout, NodeId};
use intendant_trace::{Event, Filter, Header, Trace};
use serde::Serialize;
use std::path::Path;

/// A problem with the traces of a run. It does not prevent an analysis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The node; `None` if the problem concerns the whole run.
    pub node: Option<u16>,
    /// What is wrong, and what follows from it.
    pub text: String,
}

/// The events of all nodes of a run, in the order of their times.
///
/// The clock of the run is that of the node with the lowest rank that has a trace. If events of other nodes
/// would have negative times, all times are shifted by the same amount.
#[derive(Debug)]
pub struct Run {
    header: Header,
    layout: Result<Layout, String>,
    filter: Filter,
    nodes: Vec<NodeInfo>,
    alignment: Alignment,
    records: Vec<Record>,
    ignored: Vec<String>,
    static_replicas: Keys,
}

impl Run {
    /// Reads a folder with the files of a run (`node-N.trace`), a merged file, or the file of one node.
    ///
    /// # Errors
    /// If there is no run, a file is damaged, the files are of different runs and nothing tells which is the
    /// newest, or there are more events than allowed.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, AnalysisError> {
        let limits = Limits { events_max: limits.events_max.min(Limits::EVENTS_MAX) };
        match folder::find(path)? {
            Source::Merged => {
                let (Described { header, nodes, alignment }, records) = merged::read(path, limits)?;
                Ok(Self::assemble(header, nodes, alignment, records))
            }
            Source::Nodes(files) => Self::of_parts(folder::read(path, &files, limits)?),
        }
    }

    /// The run of traces that are in memory; their headers are those of one run.
    ///
    /// # Errors
    /// If there is no trace, or if two traces are of the same node or of different runs.
    pub fn of_traces(traces: Vec<Trace>) -> Result<Self, AnalysisError> {
        Self::of_parts(folder::join(traces)?)
    }

    fn of_parts(parts: Parts) -> Result<Self, AnalysisError> {
        let Parts { header, mut nodes, mut records, ignored } = parts;
        let mut alignment = Alignment::default();
        // The records of each node are adjacent, in the order of nodes.
        let (mut rest, mut clocked, mut starts) = (records.as_mut_slice(), Vec::new(), Vec::new());
        for info in nodes.iter().filter(|info| info.file.is_some()) {
            let (own, others) = rest.split_at_mut(usize::try_from(info.events).unwrap_or(0).min(rest.len()));
            // The threads of a node write one after the other, so their events must be sorted. Events with
            // the same time keep their order.
            own.sort_by_key(|record| record.at);
            starts.push(own.first().map(|record| record.at as i64));
            let is_complete = is_complete(info);
            clocked.push(Clocked { node: info.node, epoch_us: info.epoch_us, records: own, is_complete });
            rest = others;
        }
        if !clocked.is_empty() {
            let (mut offsets, found) = align(&clocked);
            alignment = found;
            let first = |(offset, start): (&Offset, &Option<i64>)| start.map(|start| start + offset.us);
            let before = offsets.iter().zip(&starts).filter_map(first).min().unwrap_or(0).min(0);
            offsets.iter_mut().for_each(|offset| offset.us -= before);
            let known = nodes.iter_mut().filter(|info| info.file.is_some());
            for (info, offset) in known.zip(&offsets) {
                (info.offset_us, info.error_us) = (offset.us, offset.error_us);
            }
        }
        let offsets: Vec<i64> = nodes.iter().map(|info| info.offset_us).collect();
        for record in &mut records {
            record.at = record.at.saturating_add_signed(offsets[usize::from(record.node)]);
        }
        records.sort_by_key(|record| record.at);
        Ok(Self { ignored, ..Self::assemble(header, nodes, alignment, records) })
    }

    /// Assembles a run from records that are in order.
    fn assemble(header: Header, nodes: Vec<NodeInfo>, alignment: Alignment, records: Vec<Record>) -> Self {
        let layout = header.layout();
        let filter = header.filter.parse().unwrap_or_default();
        let static_replicas = Keys::of_any(&header.static_replicas);
        Self { header, layout, filter, nodes, alignment, records, ignored: Vec::new(), static_replicas }
    }

    /// The description of the run: the header of the first node's file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The names of files in its folder that are of earlier runs.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// The layout of the keys, if the header describes one.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref().ok()
    }

    /// Which keys were traced.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// All nodes of the cluster, by rank, also those without a file.
    #[must_use]
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// How the clocks were aligned.
    #[must_use]
    pub fn alignment(&self) -> &Alignment {
        &self.alignment
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The event at a position; `None` beyond the last.
    #[must_use]
    pub fn event(&self, at: usize) -> Option<Stamped> {
        self.records.get(at).and_then(|record| stamped(*record))
    }

    /// All events, by time.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = Stamped> + '_ {
        self.records.iter().filter_map(|record| stamped(*record))
    }

    /// The event at a position as a row of a table; `None` beyond the last.
    #[must_use]
    pub fn flat(&self, at: usize) -> Option<Flat> {
        self.records.get(at).and_then(|record| Flat::of(*record))
    }

    /// When the first and the last event happened, in microseconds of the run's clock; 0 if there is none.
    #[must_use]
    pub fn span_us(&self) -> (u64, u64) {
        match (self.records.first(), self.records.last()) {
            (Some(first), Some(last)) => (first.at, last.at),
            (None, _) | (_, None) => (0, 0),
        }
    }

    /// The home of a key, the node that owns it at the beginning; `None` if it is not known.
    #[must_use]
    pub fn home(&self, key: u64) -> Option<u16> {
        self.layout().filter(|layout| layout.contains(Key(key))).map(|layout| layout.home(Key(key)).0)
    }

    /// Whether every node has a replica of the key throughout the run.
    #[must_use]
    pub fn is_static_replica(&self, key: u64) -> bool {
        self.static_replicas.contains(key)
    }

    /// The keys with a replica at every node throughout the run.
    pub(crate) fn static_replicas(&self) -> &Keys {
        &self.static_replicas
    }

    /// The name of the range of a key, and its number within the range.
    #[must_use]
    pub fn name(&self, key: u64) -> Option<(&str, u64)> {
        let mut start = 0u64;
        for range in &self.header.ranges {
            let end = start.saturating_add(range.keys);
            if (start..end).contains(&key) {
                return Some((&range.name, key - start));
            }
            start = end;
        }
        None
    }

    /// The problems with the traces: missing nodes, dropped events, clocks that contradict each other.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut run = |text: String| found.push(Problem { node: None, text });
        if !self.ignored.is_empty() {
            run(format!("files of earlier runs are ignored: {}", self.ignored.join(", ")));
        }
        let missing: Vec<String> =
            self.nodes.iter().filter(|info| info.file.is_none()).map(|info| info.node.to_string()).collect();
        if !missing.is_empty() {
            run(format!(
                "there is no file of {} {}: what happened there is not known",
                if missing.len() == 1 { "node" } else { "nodes" },
                missing.join(", ")
            ));
        }
        if let Err(reason) = &self.layout {
            run(format!("the homes of keys are not known: {reason}"));
        }
        if let Err(error) = self.header.filter.parse::<Filter>() {
            run(format!("which keys were traced is not known: {error}"));
        }
        if self.alignment.contradiction_us > 0 {
            run(format!(
                "the clocks of the nodes have drifted: the order of events contradicts all fixed offsets by {} us, \
                 which is part of the errors",
                self.alignment.contradiction_us
            ));
        }
        for info in &self.nodes {
            let mut at = |count: u64, text: &str| {
                if count > 0 {
                    found.push(Problem { node: Some(info.node), text: format!("{count} {text}") });
                }
            };
            at(info.dropped, "events were dropped, because the disk was full or too slow: record fewer keys");
            at(info.unknown, "events are of kinds that this version does not know");
            at(info.refused, "events name nodes or times that cannot be, and are left out");
            at(
                info.lost_bytes,
                "bytes at the end of its file are no events: it was killed, is still running, or the file is damaged",
            );
            at(
                info.damaged_bytes,
                "bytes in the middle of its file are damaged: the events in them are missing",
            );
            if info.file.is_some() && info.error_us.is_none() {
                let text = "its clock is aligned by its wall clock only; the error is not known".to_owned();
                found.push(Problem { node: Some(info.node), text });
            }
        }
        found
    }

    /// Writes the run as one Parquet file: see `docs/traces.md` for its columns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_parquet(&self, path: &Path) -> Result<(), AnalysisError> {
        let described = Described {
            header: self.header.clone(),
            nodes: self.nodes.clone(),
            alignment: self.alignment.clone(),
        };
        merged::write(described, &self.records, path)
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }
}

/// `None` does not occur: records of unknown kinds are not kept.
pub(crate) fn stamped(record: Record) -> Option<Stamped> {
    let Event { key, what, .. } = record.event()?;
    let (node, channel) = (NodeId(record.node), ChannelId(record.channel));
    Some(Stamped { at_us: record.at, node, channel, key, what })
}

const _: () = assert!(AT_MAX < i64::MAX as u64 / 4, "times and offsets add up");
