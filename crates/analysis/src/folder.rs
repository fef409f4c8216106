//! The files of a run's nodes.

use crate::error::AnalysisError;
use crate::limits::{Limits, check_header};
use crate::node::NodeInfo;
use crate::record::Record;
use intendant_core::limits::NODES_MAX;
use intendant_trace::{Header, Trace};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The advice to users whose path names no run. Errors end with it.
pub const WHAT_TO_NAME: &str = "name a folder with files node-N.trace, or a merged file";

/// What a path names.
pub(crate) enum Source {
    /// A merged file.
    Merged,
    /// The files of nodes.
    Nodes(Vec<PathBuf>),
}

/// The files that are read when `path` is opened as a run: a merged file, or the traces of nodes.
///
/// # Errors
///
/// When `path` names no run.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>, AnalysisError> {
    Ok(match find(path)? {
        Source::Merged => vec![path.to_owned()],
        Source::Nodes(files) => files,
    })
}

/// The parts of a run before its events are in order.
pub(crate) struct Parts {
    pub(crate) header: Header,
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) records: Vec<Record>,
    /// The names of files of earlier runs.
    pub(crate) ignored: Vec<String>,
}

/// Determines what a path names.
pub(crate) fn find(path: &Path) -> Result<Source, AnalysisError> {
    let facts = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(AnalysisError::not_a_run(
                path,
                format!("there is no such file or folder; {WHAT_TO_NAME}"),
            ));
        }
        facts => facts.map_err(AnalysisError::io("read", path))?,
    };
    if facts.is_dir() {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(AnalysisError::io("read", path))? {
            let entry = entry.map_err(AnalysisError::io("read", path))?;
            let name = entry.file_name();
            let is_node = |name: &str| name.starts_with("node-") && name.ends_with(".trace");
            if name.to_str().is_some_and(is_node) {
                files.push(entry.path());
            }
        }
        return match files.len() {
            0 => Err(AnalysisError::not_a_run(path, format!("it has no traces; {WHAT_TO_NAME}"))),
            1..=NODES_MAX => {
                files.sort();
                Ok(Source::Nodes(files))
            }
            count => Err(AnalysisError::not_a_run(
                path,
                format!("it has {count} traces, and clusters have at most {NODES_MAX} nodes"),
            )),
        };
    }
    if !facts.is_file() {
        return Err(AnalysisError::not_a_run(
            path,
            format!("it is neither a file nor a folder; {WHAT_TO_NAME}"),
        ));
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(AnalysisError::io("read", path))?;
    file.take(8).read_to_end(&mut start).map_err(AnalysisError::io("read", path))?;
    match start.as_slice() {
        b"ITDTRACE" => Ok(Source::Nodes(vec![path.to_owned()])),
        [b'P', b'A', b'R', b'1', ..] => Ok(Source::Merged),
        [b'P', b'K', 3 | 5, ..] | [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Err(AnalysisError::not_a_run(
                path,
                format!("it is an archive or compressed: unpack it first, and {WHAT_TO_NAME}"),
            ))
        }
        _ => Err(AnalysisError::not_a_run(path, format!("it is no trace; {WHAT_TO_NAME}"))),
    }
}

/// Reads the files into records, node by node.
pub(crate) fn read(path: &Path, files: &[PathBuf], limits: Limits) -> Result<Parts, AnalysisError> {
    let mut reader = Reader::default();
    // The file system reports the true lengths of files, so this much memory is needed.
    let lens = files.iter().filter_map(|file| Some(fs::metadata(file).ok()?.len()));
    let bytes = lens.fold(0, u64::saturating_add);
    let expected = (bytes / intendant_trace::Event::BYTES as u64).min(limits.events_max);
    reader.records.reserve_exact(usize::try_from(expected).unwrap_or(0));
    let (files, ignored) = newest(files)?;
    reader.ignored = ignored;
    for (Header { node, nodes, .. }, file) in &files {
        let (node, nodes) = (*node, *nodes);
        let (mut refused, mut is_full, before) = (0, false, reader.records.len());
        let records = &mut reader.records;
        let trace = Trace::read_each(file, |event| {
            let record = Record::of(node, event);
            if !record.fits(nodes) {
                refused += 1;
            } else if records.len() as u64 >= limits.events_max {
                is_full = true;
                return ControlFlow::Break(());
            } else {
                records.push(record);
            }
            ControlFlow::Continue(())
        })?;
        if is_full {
            return Err(AnalysisError::TooMany { path: path.to_owned(), events_max: limits.events_max });
        }
        reader.end(file, &trace, refused, before)?;
    }
    reader.parts(path)
}

/// A file and its header.
type Headed<'a> = (Header, &'a PathBuf);

/// Returns the files of the newest run, by rank, and the names of the files of earlier runs. A run with fewer
/// nodes leaves files of an earlier run in its folder.
fn newest(files: &[PathBuf]) -> Result<(Vec<Headed<'_>>, Vec<String>), AnalysisError> {
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let header = Trace::read_each(file, |_| ControlFlow::Break(()))?.header;
        check_header(&header).map_err(|reason| AnalysisError::damaged(file, reason))?;
        all.push((header, file));
    }
    let Some(newest) = all.iter().max_by_key(|(header, _)| header.epoch_us) else {
        return Ok((all, Vec::new()));
    };
    let (run, epoch_us) = (newest.0.run, newest.0.epoch_us);
    let (mut own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(header, _)| header.run == run);
    // If the times are equal, as in simulated runs, it is not known which run is the newest.
    if let Some((header, file)) = others.iter().find(|(header, _)| header.epoch_us == epoch_us)
        && let Some((first, path)) = own.first()
    {
        let reason = differ(first, header).unwrap_or_default();
        return Err(AnalysisError::Mixed { first: path.to_path_buf(), second: file.to_path_buf(), reason });
    }
    own.sort_by_key(|(header, _)| header.node);
    Ok((own, others.iter().map(|(_, file)| file_name(file)).collect()))
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Assembles traces that are in memory.
pub(crate) fn join(mut traces: Vec<Trace>) -> Result<Parts, AnalysisError> {
    let mut reader = Reader::default();
    traces.sort_by_key(|trace| trace.header.node);
    for trace in traces {
        let file = PathBuf::from(format!("node-{}.trace", trace.header.node));
        check_header(&trace.header).map_err(|reason| AnalysisError::damaged(&file, reason))?;
        let (before, node, nodes) = (reader.records.len(), trace.header.node, trace.header.nodes);
        let records = trace.events.iter().map(|event| Record::of(node, *event));
        reader.records.extend(records.filter(|record| record.fits(nodes)));
        let refused = trace.events.len() - (reader.records.len() - before);
        reader.end(&file, &trace, refused as u64, before)?;
    }
    reader.parts(Path::new("."))
}

/// Assembles the files of a run.
#[derive(Default)]
struct Reader {
    /// The header and the file of the first node.
    first: Option<(Header, PathBuf)>,
    /// By node: its file, and what is known about it.
    nodes: BTreeMap<u16, (PathBuf, NodeInfo)>,
    records: Vec<Record>,
    /// The names of files of earlier runs.
    ignored: Vec<String>,
}

impl Reader {
    /// Completes a file: its records are those from `before` on, and `trace` has the other facts about it.
    fn end(&mut self, file: &Path, trace: &Trace, refused: u64, before: usize) -> Result<(), AnalysisError> {
        let header = &trace.header;
        if let Some((first, path)) = &self.first
            && let Some(reason) = differ(first, header)
        {
            return Err(AnalysisError::Mixed { first: path.clone(), second: file.to_owned(), reason });
        }
        self.first.get_or_insert_with(|| (header.clone(), file.to_owned()));
        let info = NodeInfo {
            node: header.node,
            file: Some(file_name(file)),
            epoch_us: header.epoch_us,
            events: (self.records.len() - before) as u64,
            dropped: trace.dropped,
            unknown: trace.unknown,
            refused,
            lost_bytes: trace.lost_bytes,
            damaged_bytes: trace.damaged_bytes,
            offset_us: 0,
            error_us: None,
        };
        if let Some((other, _)) = self.nodes.insert(header.node, (file.to_owned(), info)) {
            let reason = format!("both are of node {}", header.node);
            return Err(AnalysisError::Mixed { first: other, second: file.to_owned(), reason });
        }
        Ok(())
    }

    fn parts(mut self, path: &Path) -> Result<Parts, AnalysisError> {
        let Some((header, _)) = self.first else {
            return Err(AnalysisError::not_a_run(path, "it has no traces"));
        };
        let info = |node: u16| {
            let known = self.nodes.remove(&node).map(|(_, info)| info);
            known.unwrap_or(NodeInfo { node, ..NodeInfo::default() })
        };
        let nodes = (0..header.nodes).map(info).collect();
        Ok(Parts { nodes, header, records: self.records, ignored: self.ignored })
    }
}

/// The first difference between two headers in a property that all headers of a run must share.
fn differ(a: &Header, b: &Header) -> Option<String> {
    let differ = |what: &str, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
        Some(format!("{what} {a} and {b}"))
    };
    if a.run != b.run {
        return differ("their runs are", &format_args!("{:016x}", a.run), &format_args!("{:016x}", b.run));
    }
    if a.nodes != b.nodes {
        return differ("their numbers of nodes are", &a.nodes, &b.nodes);
    }
    if a.technique != b.technique {
        return differ("their techniques are", &a.technique, &b.technique);
    }
    if a.filter != b.filter {
        return differ("their traced keys are", &a.filter, &b.filter);
    }
    let layout = |header: &Header| {
        (header.ranges.clone(), header.key_order.clone(), header.layout_seed, header.static_replicas.clone())
    };
    (layout(a) != layout(b)).then(|| "their keys have other ranges, homes or static replicas".to_owned())
}
