//! One line of results, as a table and as JSON.

use crate::args::Args;
use crate::measure::Spread;
use std::fs::File;
use std::io::{self, Write};

/// What was measured for one operation. Times are medians over rounds.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Row {
    pub(crate) mode: &'static str,
    pub(crate) op: &'static str,
    pub(crate) technique: String,
    pub(crate) float: String,
    pub(crate) dist: &'static str,
    pub(crate) keys: u64,
    pub(crate) len: u32,
    pub(crate) batch: u32,
    pub(crate) threads: u32,
    pub(crate) wall_ns_per_key: f64,
    pub(crate) cpu_ns_per_key: f64,
    pub(crate) limit_wall_ns_per_key: f64,
    pub(crate) limit_cpu_ns_per_key: f64,
    /// Median of the rounds' ratios of wall times.
    pub(crate) ratio: f64,
    pub(crate) ratio_spread: Spread,
    /// All threads together.
    pub(crate) keys_per_s: f64,
    /// Of one call.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Prints the rows and, if asked to, writes them.
pub(crate) fn write(args: &Args, rows: &[Row]) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let table = || -> io::Result<()> {
        writeln!(
            out,
            "ratio: ours / a plain loop over one flat array with the same keys, run in turn; lower is better"
        )?;
        writeln!(
            out,
            "mode   op    len  batch thr  ns/key (cpu)      loop (cpu)        ratio (min..max)     Mkeys/s   p50 us  p99 us"
        )?;
        for row in rows {
            writeln!(
                out,
                "{:<6} {:<4} {:>5} {:>5} {:>3} {:>8.1} ({:>6.1}) {:>8.1} ({:>6.1}) {:>7.2} ({:.2}..{:.2}) {:>10.2} {:>8.2} {:>7.2}",
                row.mode,
                row.op,
                row.len,
                row.batch,
                row.threads,
                row.wall_ns_per_key,
                row.cpu_ns_per_key,
                row.limit_wall_ns_per_key,
                row.limit_cpu_ns_per_key,
                row.ratio,
                row.ratio_spread.min,
                row.ratio_spread.max,
                row.keys_per_s / 1e6,
                row.p50_us,
                row.p99_us
            )?;
        }
        Ok(())
    };
    // A reader that has seen enough is no error.
    match { table }() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.to_string()),
        _ => {}
    }
    if let Some(path) = &args.json {
        let file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        serde_json::to_writer_pretty(file, rows)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
