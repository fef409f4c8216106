//! `cargo xtask instructions`: counts the instructions per key of accesses in the engine, and compares them
//! with `bench-configs/measured/instructions.toml`.
//!
//! Instruction counts do not depend on the load of the machine, so CI can compare them where it cannot
//! compare seconds. They do not measure time: waiting for memory executes no instructions. Valgrind counts
//! (callgrind, without cache simulation); without Valgrind, the command reports that and succeeds.

use crate::process::{self, cargo};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::process::Command;

/// Count the instructions per access, and compare them with the recorded counts.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Record the counts instead of comparing them
    #[arg(long)]
    write: bool,
}

impl Args {
    /// Compares only.
    pub(crate) fn compare() -> Self {
        Self { write: false }
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Tolerated difference: compilers and C libraries differ by less.
    within_percent: f64,
    paths: Vec<Counted>,
}

/// A path of the engine's example `hot_paths`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    what: String,
    path: String,
    nodes: usize,
    /// Keys per call.
    keys: u64,
    /// Instructions per key.
    instructions: f64,
}

const HEADER: &str = "# Instructions per key on the paths of the engine: `cargo xtask instructions` compares, `--write` writes.\n\n";

/// Minimum number of keys that the calls of the shorter and the longer run access. The difference of the runs
/// is the cost of the calls; with this many keys, one-time allocations are negligible.
const KEYS: [u64; 2] = [12_800, 25_600];
/// Upper bound of the calls: a call for few keys costs more per key, so fewer keys suffice.
const CALLS_MAX: [u64; 2] = [4_000, 8_000];

/// Counts and prints, then compares or records the counts.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let root = process::root();
    let file = root.join("bench-configs/measured/instructions.toml");
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|error| wrong(&error))?;
    let mut list: List = toml::from_str(&text).map_err(|error| wrong(&error))?;
    if !cfg!(target_arch = "x86_64") {
        println!("instructions: not counted; the recorded counts are for x86-64");
        return Ok(());
    }
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        if error.kind() == io::ErrorKind::NotFound && !args.write {
            println!("instructions: not counted; valgrind is not installed");
            return Ok(());
        }
        return Err(format!("cannot start valgrind: {error}"));
    }
    let example =
        ["build", "--quiet", "--release", "--package", "intendant-engine", "--example", "hot_paths"];
    process::run(cargo(&root).args(example))?;
    let program = process::target().join("release/examples/hot_paths");
    let mut off = Vec::new();
    println!("{:<60} {:>10} {:>10}", "instructions per key", "now", "recorded");
    for path in &mut list.paths {
        let now = path.count(&program)?;
        println!("{:<60} {now:>10.0} {:>10.0}", path.what, path.instructions);
        if !is_within(now, path.instructions, list.within_percent) {
            off.push(format!("{}: {now:.0} instead of {:.0}", path.what, path.instructions));
        }
        path.instructions = now.round();
    }
    if args.write {
        let text = toml::to_string(&list).map_err(|error| wrong(&error))?;
        return std::fs::write(&file, format!("{HEADER}{text}")).map_err(|error| wrong(&error));
    }
    if off.is_empty() {
        return Ok(());
    }
    Err(format!(
        "instructions per key differ by more than {} %:\n  {}\nIf the change is intended, record it: cargo xtask instructions --write",
        list.within_percent,
        off.join("\n  ")
    ))
}

fn is_within(now: f64, written: f64, percent: f64) -> bool {
    (now - written).abs() <= written * percent / 100.0
}

impl Counted {
    /// Instructions per key.
    fn count(&self, program: &Path) -> Result<f64, String> {
        let [fewer, more] = [0, 1].map(|run| KEYS[run].div_ceil(self.keys).min(CALLS_MAX[run]));
        let difference = self.total(program, more)?.saturating_sub(self.total(program, fewer)?);
        Ok(difference as f64 / ((more - fewer) * self.keys) as f64)
    }

    /// Instructions of a run with `calls` calls.
    fn total(&self, program: &Path, calls: u64) -> Result<u64, String> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        command.args([&self.path, &self.nodes.to_string(), &calls.to_string()]);
        let output = process::output(&mut command)?;
        let printed = String::from_utf8_lossy(&output.stderr);
        match collected(&printed).filter(|_| output.status.success()) {
            Some(total) => Ok(total),
            None => Err(format!("{command:?} failed: {}\n{printed}", output.status)),
        }
    }
}

/// The count in callgrind's output.
fn collected(printed: &str) -> Option<u64> {
    let (_, rest) = printed.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_compared() {
        let printed = "==7== Callgrind, a call-graph generating cache profiler\n==7== \n==7== Events    : Ir\n==7== Collected : 105902978\n==7== \n";
        assert_eq!(collected(printed), Some(105_902_978));
        assert_eq!(collected("valgrind: no such file"), None);
        assert!(is_within(110.0, 100.0, 10.0) && is_within(90.0, 100.0, 10.0));
        assert!(
            !is_within(111.0, 100.0, 10.0) && !is_within(89.0, 100.0, 10.0),
            "fewer instructions are a difference as well"
        );
    }

    #[test]
    fn the_list_can_be_read_and_written() {
        let text = include_str!("../../../bench-configs/measured/instructions.toml");
        let list: List = toml::from_str(text).expect("a list");
        assert!(list.paths.len() >= 8 && list.within_percent > 0.0);
        assert_eq!(format!("{HEADER}{}", toml::to_string(&list).expect("a list")), text);
    }
}
