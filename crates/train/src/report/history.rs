//! The history of a run: its epochs as lines of JSON beside the report, each written when the epoch ends, so
//! that a run that ends early has the results so far. Described in `docs/report.md`.
//!
//! A run that continues another one writes the lines of the earlier epochs anew, from the sums in the
//! checkpoint: an epoch that is trained again has one line. What cannot be written stays in memory and is
//! tried again with the next line: a disk that is full for a while costs nothing but a warning.

use super::schema::Epoch;
use super::sums::Totals;
use crate::files;
use crate::settings::{Plan, history_path};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// The version of the format.
pub(crate) const SCHEMA: &str = "intendant.history/1";

/// The first line: the run, as the report names it.
#[derive(Serialize)]
struct First<'a> {
    schema: &'static str,
    task: &'a str,
    technique: &'a str,
    seed: u64,
    nodes: usize,
    workers_per_node: usize,
    simulated: bool,
    config: serde_json::Value,
}

/// The last line, of a run that has come to its end.
#[derive(Serialize)]
struct Last<'a> {
    test: &'a BTreeMap<String, f64>,
}

/// The file, and what is still to be written to it.
pub(crate) struct History {
    path: PathBuf,
    file: Option<File>,
    /// Lines that are not in the file.
    pending: Vec<u8>,
    /// Bytes of whole lines in the file.
    written: u64,
    has_warned: bool,
    /// Channels of all nodes with replicas, for the frequency of synchronisations.
    channels: usize,
}

impl History {
    /// Begins the file, which takes the place of that of an earlier run; `None` if the plan asks for no
    /// report, or the report has no place beside it. `before` has the epochs that an earlier run trained.
    pub(crate) fn begin(plan: &Plan, task: &str, channels: usize, before: &Totals) -> Option<Self> {
        let path = history_path(plan.report.as_deref()?)?;
        let first = First {
            schema: SCHEMA,
            task,
            technique: plan.technique.name(),
            seed: plan.seed,
            nodes: plan.nodes,
            workers_per_node: plan.workers,
            simulated: plan.simulation.is_some(),
            config: plan.config.to_json(),
        };
        let mut history = Self {
            path,
            file: None,
            pending: Vec::new(),
            written: 0,
            has_warned: false,
            channels: channels * plan.nodes,
        };
        history.line(&first);
        for (epoch, sum) in (1..).zip(&before.epochs) {
            history.line(&Epoch::new(epoch, sum, history.channels));
        }
        history.flush();
        Some(history)
    }

    /// An epoch has ended.
    pub(crate) fn epoch(&mut self, epoch: &Epoch) {
        self.line(epoch);
        self.flush();
    }

    /// Channels of all nodes with replicas.
    pub(crate) const fn channels(&self) -> usize {
        self.channels
    }

    /// The run has come to its end, with these results on test data.
    pub(crate) fn end(&mut self, test: &BTreeMap<String, f64>) {
        self.line(&Last { test });
        self.flush();
    }

    fn line(&mut self, line: &impl Serialize) {
        let line = serde_json::to_vec(line).expect("a line has no part that cannot be serialised");
        self.pending.extend(line);
        self.pending.push(b'\n');
    }

    /// Writes what is pending, as far as that is possible now.
    fn flush(&mut self) {
        match self.write() {
            Ok(()) => {
                self.written += self.pending.len() as u64;
                self.pending.clear();
            }
            Err(error) => {
                // The part of a line that fitted. Not every file can be cut off.
                let _ = self.file.as_ref().map(|file| file.set_len(self.written));
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(
                        "the results of epochs cannot be written to {} now: {error}; the training goes on",
                        self.path.display()
                    );
                }
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(&self.pending),
            None => {
                self.file = Some(files::begin(&self.path, &self.pending)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
