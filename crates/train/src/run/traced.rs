//! `--trace DIR`: what happens to parameters is recorded, of real nodes and of simulated ones.

use crate::error::TrainError;
use crate::settings::Plan;
use intendant::{Event, Filter, NodeId, TraceConfig};
use intendant_core::Layout;
use intendant_trace::{Header, TraceError, Writer};
use std::fs::File;
use std::path::PathBuf;

/// What the node of this process records.
pub(crate) fn config(plan: &Plan, task: &str) -> Option<TraceConfig> {
    let (folder, filter) = plan.trace.clone()?;
    let (task, settings) = (task.to_owned(), settings(plan));
    Some(TraceConfig { folder, filter, task, settings, ..TraceConfig::default() })
}

/// Checks that the model has the keys that are to be traced.
///
/// # Errors
/// If it does not.
pub(crate) fn check_keys(plan: &Plan, layout: &Layout) -> Result<(), TrainError> {
    let Some((_, Filter::Keys(ranges))) = &plan.trace else { return Ok(()) };
    let beyond = ranges.iter().find(|range| range.end > layout.keys());
    beyond.map_or(Ok(()), |range| {
        let (key, last) = (range.start.max(layout.keys()), layout.keys() - 1);
        Err(TrainError::usage(format!("--trace-keys names key {key}; the model has keys 0 to {last}")))
    })
}

/// The settings of the run, for people who read its trace.
fn settings(plan: &Plan) -> Vec<(String, String)> {
    let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    plan.config.settings().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

/// The traces of the nodes of a simulated cluster.
pub(crate) struct Traces {
    /// In which folder, which task, and with which settings.
    about: (PathBuf, String, Vec<(String, String)>),
    /// By node.
    files: Vec<OfNode>,
    /// What went wrong first. No events are written after it.
    error: Option<TraceError>,
}

struct OfNode {
    path: PathBuf,
    writer: Writer<File>,
    /// The events of the node that are written next.
    events: Vec<Event>,
    /// Events that have not been written, and will not be.
    dropped: u64,
}

impl OfNode {
    fn write(&mut self) -> Result<(), TraceError> {
        let (events, before) = (std::mem::take(&mut self.events), self.writer.events());
        let written = self.writer.write(&events, 0);
        written.map_err(|error| {
            self.dropped += events.len() as u64 - (self.writer.events() - before);
            TraceError::write(&self.path, error)
        })
    }

    fn drop_events(&mut self) {
        self.dropped += self.events.len() as u64;
        self.events.clear();
    }
}

impl Traces {
    pub(crate) fn new(plan: &Plan, task: &str) -> Option<Self> {
        let (folder, _) = plan.trace.clone()?;
        Some(Self { about: (folder, task.to_owned(), settings(plan)), files: Vec::new(), error: None })
    }

    /// Creates the files.
    pub(crate) fn begin(&mut self, headers: Vec<Header>) {
        let (folder, task, settings) = &self.about;
        let start = |header: Header| {
            let path = intendant_trace::prepare(folder, header.node)?;
            // Runs with the same settings are the same.
            let run = settings.iter().fold(1, |digest, (name, value)| {
                let text = |text: &str| text.bytes().map(u64::from).collect::<Vec<_>>();
                intendant_core::random::stream(digest, &[text(name), text(value)].concat())
            });
            let header = Header { run, task: task.clone(), settings: settings.clone(), ..header };
            let writer = Writer::create(&path, &header)?;
            Ok(OfNode { path, writer, events: Vec::new(), dropped: 0 })
        };
        match headers.into_iter().map(start).collect::<Result<_, _>>() {
            Ok(files) => self.files = files,
            Err(error) => self.error = Some(error),
        }
    }

    /// Writes events.
    pub(crate) fn record(&mut self, events: Vec<(NodeId, Event)>) {
        for (node, event) in events {
            if let Some(file) = self.files.get_mut(node.index()) {
                file.events.push(event);
            }
        }
        for file in &mut self.files {
            if self.error.is_some() {
                file.drop_events();
            } else if !file.events.is_empty()
                && let Err(error) = file.write()
            {
                tracing::warn!("{error}; the run goes on, and nothing more is recorded");
                self.error = Some(error);
            }
        }
    }

    /// The traces are complete, or it is told why they are not.
    pub(crate) fn end(mut self) -> Result<(), TrainError> {
        let Some(error) = self.error else { return Ok(()) };
        let incomplete = self.files.iter_mut().filter(|file| file.dropped > 0);
        // A full disk may have room for a number. If not, the error says it all the same.
        let dropped = incomplete.fold(0, |sum, file| {
            let _ = file.writer.write_dropped(file.dropped);
            sum + file.dropped
        });
        if dropped == 0 {
            return Err(intendant::Error::from(error).into());
        }
        let error = if let TraceError::Io { path, source, .. } = error {
            TraceError::Incomplete { path, dropped, source }
        } else {
            error
        };
        Err(intendant::Error::from(error).into())
    }
}
