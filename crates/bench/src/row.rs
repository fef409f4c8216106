//! One line of results, as a table and as JSON.

use crate::args::Mode;
use crate::error::BenchError;
use crate::measure::Spread;
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The measurement of one operation. Times are medians over rounds. Numbers that a mode does not have are
/// zero.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Row {
    pub(crate) mode: &'static str,
    pub(crate) op: String,
    pub(crate) technique: String,
    pub(crate) float: String,
    pub(crate) dist: &'static str,
    pub(crate) keys: u64,
    pub(crate) len: usize,
    pub(crate) batch: usize,
    pub(crate) threads: usize,
    /// How the worker accesses values of its own node.
    pub(crate) local_access: &'static str,
    /// The name of the limit.
    pub(crate) limit: String,
    pub(crate) wall_ns_per_key: f64,
    pub(crate) cpu_ns_per_key: f64,
    pub(crate) limit_wall_ns_per_key: f64,
    pub(crate) limit_cpu_ns_per_key: f64,
    /// The measurement divided by the limit; median over rounds.
    pub(crate) ratio: f64,
    pub(crate) ratio_spread: Spread,
    /// All threads of a node together.
    pub(crate) keys_per_s: f64,
    /// Time of one call.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Numbers that only this mode has.
    #[serde(flatten)]
    pub(crate) more: BTreeMap<&'static str, f64>,
}

impl Row {
    /// A row without numbers.
    pub(crate) fn new(settings: &Settings, op: impl Into<String>, limit: impl Into<String>) -> Self {
        Self {
            mode: settings.mode.name(),
            op: op.into(),
            technique: settings.technique.to_string(),
            float: settings.float.to_string(),
            dist: settings.dist.name(),
            keys: settings.keys,
            len: settings.len,
            batch: settings.batch,
            threads: settings.threads,
            local_access: settings.access.name(),
            limit: limit.into(),
            wall_ns_per_key: 0.0,
            cpu_ns_per_key: 0.0,
            limit_wall_ns_per_key: 0.0,
            limit_cpu_ns_per_key: 0.0,
            ratio: 0.0,
            ratio_spread: Spread::of([0.0]),
            keys_per_s: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            more: BTreeMap::new(),
        }
    }

    /// Sets the ratio from the ratios of the rounds.
    pub(crate) fn set_ratio(&mut self, ratios: impl IntoIterator<Item = f64>) {
        self.ratio_spread = Spread::of(ratios);
        self.ratio = self.ratio_spread.median;
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:<8} {:<11} {:>5} {:>6} {:>3} {:>9.1} ({:>7.1}) {:>9.1} ({:>7.1}) {:>8.3} ({:.3}..{:.3}) {:>9.3} {:>9.2} {:>9.2}",
            self.mode,
            self.op,
            self.len,
            self.batch,
            self.threads,
            self.wall_ns_per_key,
            self.cpu_ns_per_key,
            self.limit_wall_ns_per_key,
            self.limit_cpu_ns_per_key,
            self.ratio,
            self.ratio_spread.min,
            self.ratio_spread.max,
            self.keys_per_s / 1e6,
            self.p50_us,
            self.p99_us
        )?;
        write!(out, "         limit: {}", self.limit)?;
        if self.mode == Mode::Local.name() {
            write!(out, "; local access: {}", self.local_access)?;
        }
        for (name, value) in &self.more {
            // Bytes per second and shares of a core should both be readable.
            let digits = if value.abs() >= 100.0 { 0 } else { 4 };
            write!(out, "; {name} {value:.digits$}")?;
        }
        writeln!(out)
    }
}

/// Checks that the results can be written to `path`, before anything is measured. The content of the file
/// stays until the results are written.
pub(crate) fn check(path: &Path) -> Result<(), BenchError> {
    OpenOptions::new().append(true).create(true).open(path).map(drop).map_err(cannot_write(path))
}

fn cannot_write<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> BenchError {
    move |error| BenchError::Usage(format!("cannot write {}: {error}; see --json", path.display()))
}

/// Prints the rows and, if asked to, writes them.
pub(crate) fn write(settings: &Settings, rows: &[Row]) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    let table = || -> io::Result<()> {
        writeln!(out, "ratio: ours / limit, run in turn, median (min..max) over rounds; lower is better")?;
        writeln!(
            out,
            "mode     op            len  batch thr    ns/key (    cpu)     limit (    cpu)    ratio                Mkeys/s    p50 us    p99 us"
        )?;
        rows.iter().try_for_each(|row| row.write(&mut out))
    };
    // A reader that closes the pipe because it has seen enough is not an error.
    match { table }() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(BenchError::Other(format!("cannot print: {error}")));
        }
        Ok(()) | Err(_) => {}
    }
    if let Some(path) = &settings.json {
        let mut file = BufWriter::new(File::create(path).map_err(cannot_write(path))?);
        serde_json::to_writer_pretty(&mut file, rows).map_err(cannot_write(path))?;
        file.flush().map_err(cannot_write(path))?;
    }
    Ok(())
}
