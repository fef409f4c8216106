//! The results of a run: the report, then the table that a person reads.
//!
//! Both come before the export, and each is written whether or not another output fails: a full disk must not
//! cost results of hours.

use crate::error::{PathDisplay, TrainError};
use crate::plan::Plan;
use crate::report::Report;
use crate::{logging, output, table};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
            output::write(path, bytes)
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

/// The file of the effective configuration of a report: next to the report, unless that is a device or a
/// pipe.
pub(crate) fn config_path(report: &Path) -> Option<PathBuf> {
    output::has_place_beside(report).then(|| report.with_extension("config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_lies_beside_the_report() {
        let config = |report| config_path(Path::new(report));
        assert_eq!(config("out/r.json").as_deref(), Some(Path::new("out/r.config.toml")));
        assert_eq!(config("r").as_deref(), Some(Path::new("r.config.toml")));
        assert_eq!(config("/dev/null"), None, "a device has no file next to it");
    }

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
