//! The results of a run: the report, then the table that a person reads.
//!
//! Both come before the export, and each is written whether or not another output fails: a full disk must not
//! cost results of hours.

use super::schema::Report;
use super::table;
use crate::error::{PathDisplay, TrainError};
use crate::export::{Manifest, Staging};
use crate::settings::{Plan, config_path};
use crate::{files, logging};
use std::io::{self, Write};
use std::path::Path;

/// Outputs that could not be written.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<TrainError>);

impl Failures {
    pub(crate) fn note(&mut self, result: Result<(), TrainError>) {
        self.0.extend(result.err());
    }

    /// The error that ends the run, if an output failed. Others are reported here.
    pub(crate) fn end(self) -> Result<(), TrainError> {
        let mut failures = self.0.into_iter();
        let Some(first) = failures.next() else { return Ok(()) };
        for other in failures {
            tracing::error!("{other}");
        }
        Err(first)
    }
}

/// Writes the report and prints the table, as far as the plan asks for them.
pub(crate) fn deliver(report: &Report, plan: &Plan) -> Failures {
    let mut failures = Failures::default();
    if let Some(path) = &plan.report {
        let write = |path: &Path, bytes: &[u8]| {
            files::write(path, bytes)
                .map_err(|source| TrainError::Write { path: PathDisplay::from(path), source })
        };
        if let Some(config) = config_path(path) {
            failures.note(write(&config, plan.config.to_toml().as_bytes()));
        }
        match serde_json::to_vec_pretty(report) {
            Ok(mut json) => {
                json.push(b'\n');
                let written = write(path, &json);
                if written.is_err() {
                    rescue(path, report);
                }
                failures.note(written);
            }
            Err(error) => {
                let (path, source) = (PathDisplay::from(path.as_path()), io::Error::from(error));
                failures.note(Err(TrainError::Write { path, source }));
            }
        }
    }
    if plan.prints {
        let mut output = io::stdout().lock();
        let table = table::render(report, plan);
        let printed = output.write_all(table.as_bytes()).and_then(|()| output.flush());
        failures.note(logging::unless_closed(printed).map_err(TrainError::standard_output));
    }
    failures
}

/// The results of rank 0 are written, and those of its outputs that fail are kept for the end.
pub(crate) fn finish(
    report: &Report,
    plan: &Plan,
    exported: Option<Result<Staging, TrainError>>,
) -> Result<(), TrainError> {
    let mut failures = deliver(report, plan);
    if let Some(exported) = exported {
        failures.note(exported.and_then(|staging| {
            let (program, version) = (&plan.program, &plan.version);
            let manifest = Manifest::new(program, version, &report.data_digest, report.config.clone());
            staging.publish(manifest).map_err(|error| TrainError::Export(error.into()))
        }));
    }
    failures.end()
}

/// Shows a report that could not be written, as one line: nothing else may have its results.
fn rescue(path: &Path, report: &Report) {
    let Ok(json) = serde_json::to_string(report) else { return };
    let text = format!("the report could not be written to {}; this is it:\n{json}\n", path.display());
    let shown = io::stderr().lock().write_all(text.as_bytes());
    if shown.is_err() {
        // The error that ends the run tells that the report is missing.
        let _ = io::stdout().lock().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run() {
        let mut failures = Failures::default();
        failures.note(Ok(()));
        assert!(failures.end().is_ok());
        let mut failures = Failures::default();
        failures.note(Err(TrainError::usage("one")));
        failures.note(Err(TrainError::usage("two")));
        assert_eq!(failures.end().expect_err("two").to_string(), "one");
    }
}
