//! Outputs of a run: their flags, and what they must not overwrite.

use super::flag;
use super::headings::OUTPUT;
use super::keys::{Keys, keys};
use crate::error::TrainError;
use crate::export::{self, Heir};
use crate::files::{self, Input};
use clap::ArgAction;
use intendant_checkpoint::is_address;
use std::path::{Path, PathBuf, absolute};

// The flags, as the user typed them. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Write the report (docs/report.md) to this file, and the effective configuration next to it
    #[arg(long, groups = [flag::BASIC, flag::OUTPUT], value_name = "FILE.json", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,

    /// Write the trained model to this folder, which is replaced as a whole
    #[arg(long, groups = [flag::BASIC, flag::OUTPUT], value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) export: Option<PathBuf>,

    /// Let --export replace a model of another program or of other data
    #[arg(long, group = flag::OUTPUT, requires = "export", help_heading = OUTPUT)]
    pub(crate) overwrite: bool,

    /// Show only the result: neither progress nor a line per epoch
    #[arg(short = 'q', long, groups = [flag::BASIC, flag::OUTPUT], help_heading = OUTPUT)]
    pub(crate) no_progress: bool,

    /// Log more; -vv for debugging, -vvv for everything. RUST_LOG, if set, decides instead
    #[arg(
        short = 'v', long, groups = [flag::BASIC, flag::COMMAND_LINE], action = ArgAction::Count,
        help_heading = OUTPUT,
    )]
    pub(crate) verbose: u8,

    /// Read flags from this file: TOML, with the flags' names as keys. The environment and the command line
    /// win over it
    #[arg(long, groups = [flag::BASIC, flag::COMMAND_LINE], value_name = "FILE.toml", help_heading = OUTPUT)]
    pub(crate) config: Option<PathBuf>,
}

// Those of nodes that manage parameters. (Not a documentation comment, as above.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ServerOutputArgs {
    /// At the end, explain the locations of these parameters: owner, replicas, intents and the latest
    /// decisions, as each node sees them; names, key numbers and ranges of keys, as in virus,3,10..20
    #[arg(
        long, group = flag::NODES, value_name = "KEYS", value_parser = keys,
        help_heading = OUTPUT,
    )]
    pub(crate) explain: Option<Keys>,

    /// Record what happens to parameters: each node writes a trace to this folder, which `intendant trace`
    /// and `intendant dashboard` read
    #[arg(
        long, groups = [flag::OUTPUT, flag::NODES], value_name = "DIR", help_heading = OUTPUT,
    )]
    pub(crate) trace: Option<PathBuf>,

    /// The parameters to trace: all, keys and ranges of keys, as in 7,100..200, or sample:1/N for one of N
    /// [default: all]
    #[arg(
        long, group = flag::OUTPUT, value_name = "KEYS", requires = "trace",
        help_heading = OUTPUT,
    )]
    pub(crate) trace_keys: Option<intendant::Filter>,

    /// Serve the numbers of each node while it trains (docs/metrics.md), for Prometheus at
    /// http://ADDR/metrics; the k-th node of a machine uses PORT + k, and 0 is any free port. A port alone is
    /// one of 127.0.0.1; addresses that other machines reach need a token
    #[arg(
        long, groups = [flag::BASIC, flag::OUTPUT], value_name = "PORT|HOST:PORT",
        conflicts_with = "simulate", help_heading = OUTPUT,
    )]
    pub(crate) metrics: Option<intendant_metrics::Address>,

    /// Push the same numbers to this collector of OpenTelemetry, as in http://localhost:4318. Only a program
    /// that is built with the feature otlp does so
    #[arg(
        long, group = flag::OUTPUT, value_name = "URL", conflicts_with = "simulate",
        help_heading = OUTPUT,
    )]
    pub(crate) otlp: Option<String>,
}

impl OutputArgs {
    /// Tells before hours of training whether report and export can be written, and that they overwrite no
    /// file that the run reads.
    pub(super) fn check(
        &self,
        program: &str,
        inputs: &[Input],
        checkpoint: Option<&Path>,
        trace: Option<&Path>,
    ) -> Result<(), TrainError> {
        if let Some(report) = &self.report {
            files::check("--report", "the report", report, inputs)?;
            if let Some(config) = config_path(report) {
                files::check("--report", "the effective configuration", &config, inputs)?;
            }
            if let Some(history) = history_path(report) {
                files::check("--report", "the results of epochs", &history, inputs)?;
            }
        }
        let folder = checkpoint.filter(|folder| !is_address(folder));
        if let Some(folder) = folder.and_then(|folder| absolute(folder).ok()) {
            let meets = |output: Option<&Path>, meets: fn(&Path, &Path) -> bool| {
                output.and_then(|output| absolute(output).ok()).is_some_and(|output| meets(&folder, &output))
            };
            let clash = [
                ("--report", meets(self.report.as_deref(), |folder, report| folder == report)),
                ("--export", meets(self.export.as_deref(), |folder, export| folder.starts_with(export))),
                ("--trace", meets(trace, |folder, trace| folder == trace)),
            ];
            if let Some((flag, _)) = clash.iter().find(|(_, meets)| *meets) {
                return Err(TrainError::usage(format!(
                    "--checkpoint {}: {flag} writes there as well; name another folder",
                    folder.display()
                )));
            }
        }
        match &self.export {
            Some(folder) => {
                let heir = Heir { program: program.to_owned(), data: None, overwrites: self.overwrite };
                export::check(("--export", folder), heir, self.report.as_deref(), inputs)
            }
            None => Ok(()),
        }
    }
}

impl ServerOutputArgs {
    /// The collector to which metrics are pushed, if this program can do so.
    pub(super) fn collector(&self) -> Result<Option<String>, TrainError> {
        match &self.otlp {
            Some(_) if !cfg!(feature = "otlp") => Err(TrainError::usage(
                "--otlp: this program was built without the feature otlp; build it with --features otlp, or leave --otlp out",
            )),
            otlp => Ok(otlp.clone()),
        }
    }
}

/// The file of the effective configuration of a report: next to the report, unless that is a device or a
/// pipe.
pub(crate) fn config_path(report: &Path) -> Option<PathBuf> {
    files::has_place_beside(report).then(|| report.with_extension("config.toml"))
}

/// The file of the history of a report: beside it, unless the report is a device or a pipe.
pub(crate) fn history_path(report: &Path) -> Option<PathBuf> {
    files::has_place_beside(report).then(|| report.with_extension("epochs.jsonl"))
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
}
