//! `cargo xtask instructions`: counts the instructions per key of accesses in the engine and of samples, and
//! those per example of whole programs, and compares them with `bench-configs/measured/instructions.toml`.
//!
//! Instruction counts depend far less on the load of the machine than seconds, so CI can compare them where
//! it cannot compare seconds. They do not measure time: waiting for memory executes no instructions. Valgrind
//! counts (callgrind, without cache simulation); without Valgrind, the command reports that and succeeds.

mod band;
mod paths;
mod programs;
mod valgrind;

use crate::process::{self, cargo};
use band::outside;
use paths::{EXAMPLES, Path};
use programs::Program;
use serde::{Deserialize, Serialize};

/// Count the instructions per access and per example, and compare them with the recorded counts.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Record the counts instead of comparing them
    #[arg(long)]
    write: bool,
    /// Only the paths and programs with this in their names
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
}

impl Args {
    /// Compares only.
    pub(crate) fn compare() -> Self {
        Self { write: false, only: String::new() }
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Tolerated difference of paths: compilers and C libraries differ by less.
    within_percent: f64,
    paths: Vec<Path>,
    programs: Vec<Program>,
}

/// The beginning of the file. The rest is written from a [`List`], so comments can only be here.
const HEADER: &str = "\
# `cargo xtask instructions` compares, `--write` writes.
#
# Paths: instructions per key. Programs: instructions per example, of all threads. Two nodes are simulated,
# and functions of the simulator do not count. Repeated runs of mf, and of word2vec and kge on
# one process without a server, differ by less than 0.2 %; the bands are for other compilers and C libraries.
# A ratio to single must not be above its band.
";

/// Counts and prints, then compares or records the counts.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let root = process::root();
    let file = root.join("bench-configs/measured/instructions.toml");
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|error| wrong(&error))?;
    let mut list: List = toml::from_str(&text).map_err(|error| wrong(&error))?;
    if let Some(reason) = valgrind::unavailable()? {
        if args.write {
            return Err(format!("instructions cannot be counted; {reason}"));
        }
        println!("instructions: not counted; {reason}");
        return Ok(());
    }
    build(&list)?;
    let mut off = Vec::new();
    println!("{:<60} {:>10} {:>10}", "instructions per key", "now", "recorded");
    for path in list.paths.iter_mut().filter(|path| path.what.contains(&args.only)) {
        let now = path.count()?;
        println!("{:<60} {now:>10.0} {:>10.0}", path.what, path.instructions);
        off.extend(outside(&path.what, "key", now, path.instructions, list.within_percent));
        path.instructions = now.round();
    }
    println!("{:<60} {:>10} {:>10}", "instructions per example", "now", "recorded");
    for program in list.programs.iter_mut().filter(|program| program.task.contains(&args.only)) {
        if args.write {
            program.record()?;
        } else {
            off.extend(program.compare()?);
        }
    }
    if args.write {
        let text = toml::to_string(&list).map_err(|error| wrong(&error))?;
        return std::fs::write(&file, format!("{HEADER}{text}")).map_err(|error| wrong(&error));
    }
    if off.is_empty() {
        return Ok(());
    }
    Err(format!(
        "instructions differ from those in {}:\n  {}\n\
         To find the cause, count at an earlier commit as well (--only NAME counts some rows), and compare \
         where the instructions are: valgrind --tool=callgrind PROGRAM, then callgrind_annotate.\n\
         If the change is intended, record it: cargo xtask instructions --write",
        file.display(),
        off.join("\n  ")
    ))
}

/// Builds examples, and programs as users build them: a build with examples has what tests depend on, and
/// other features of shared packages.
fn build(list: &List) -> Result<(), String> {
    let release = || {
        let mut command = cargo(&process::root());
        command.args(["build", "--quiet", "--release"]);
        command
    };
    let (mut examples, mut programs) = (release(), release());
    for (package, example) in EXAMPLES {
        examples.args(["--package", package, "--example", example]);
    }
    for program in &list.programs {
        programs.args(["--package", &program.task]);
    }
    process::run(&mut examples)?;
    process::run(&mut programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read_and_written() {
        let text = include_str!("../../../../bench-configs/measured/instructions.toml");
        let list: List = toml::from_str(text).expect("a list");
        assert!(list.paths.len() >= 8 && list.programs.len() >= 4 && list.within_percent > 0.0);
        assert_eq!(format!("{HEADER}{}", toml::to_string(&list).expect("a list")), text);
    }
}
