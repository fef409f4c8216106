//! `cargo xtask profile`: shows where the CPU time of a task goes, by kind of thread and by path, with
//! technique `single`, on one node and on two.
//!
//! The cases are those of `cargo xtask measure --pinned`. `perf record` samples all threads of all processes;
//! `addr2line` names the inlined functions of each sampled address. `bench-configs/measured/profile.toml`
//! says which functions belong to which path. All numbers are in units of the CPU time that the threads of
//! `single` take: 100.
//!
//! | file | contents |
//! | --- | --- |
//! | [`samples`] | `perf record`, and the samples that `perf script` prints |
//! | [`frames`] | the functions at an address of a program |
//! | [`paths`] | the path to which a sample belongs |
//! | [`table`] | sums of samples, and their table |

mod frames;
mod paths;
mod samples;
mod table;

use crate::pinned::{CORES, Case, packages, tasks};
use crate::pinning;
use crate::process::{self, cargo};
use clap::ValueEnum;
use frames::Frame;
use paths::Paths;
use samples::Place;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use table::Sums;

/// Show where the CPU time of training goes: by thread and by path, of one node and of two.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The task: an id of bench-configs/measured/pinned.toml
    #[arg(long, value_name = "ID", default_value = "words")]
    task: String,
    /// What trains it; `single` is always profiled, because its time is the unit
    #[arg(long, value_name = "CASE", value_delimiter = ',', default_value = "one,two")]
    case: Vec<Choice>,
    /// Number of runs of each case, in turn; their samples are added
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Samples per CPU second
    #[arg(long, default_value_t = 1999)]
    frequency: u32,
    /// Name the largest functions of each path, not only of the rest
    #[arg(long)]
    all: bool,
    /// Folder with the data of tasks that are not built in
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Do not build the programs
    #[arg(long)]
    no_build: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Single,
    One,
    Two,
    Four,
}

impl Choice {
    const fn case(self) -> Case {
        match self {
            Self::Single => Case::Single,
            Self::One => Case::Nodes(1),
            Self::Two => Case::Nodes(2),
            Self::Four => Case::Nodes(4),
        }
    }
}

/// Profiles the task, and prints the table.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let paths = Paths::read()?;
    samples::check()?;
    frames::check()?;
    pinning::check(CORES)?;
    let folder = args.data_dir.as_deref();
    let tasks = tasks(|task| task.id == args.task, folder)?;
    let [task] = &tasks[..] else { return Err(format!("several tasks have the id {}", args.task)) };
    // Programs with line tables, so that those of other commands stay as they are.
    let target = process::target().join("profiled");
    if !args.no_build {
        let mut build = cargo(&process::root());
        build.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
        build.args(["build", "--quiet", "--release", "--target-dir"]).arg(&target);
        process::run(build.args(packages(&tasks).flat_map(|name| ["--package", name])))?;
    }
    let mut cases = vec![Case::Single];
    cases.extend(args.case.iter().map(|choice| choice.case()).filter(|case| *case != Case::Single));
    let program = process::program_in(&target, &task.program, true);
    // As perf names it.
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let mut sampled: Vec<BTreeMap<(String, Place), u64>> = vec![BTreeMap::new(); cases.len()];
    for run in 1..=args.runs {
        for (samples, &case) in sampled.iter_mut().zip(&cases) {
            println!("{}: {case}, run {run} of {}", task.name, args.runs);
            let command = task.command(case, &target, folder)?;
            let data = target.join(format!("{}.perf", case.to_string().replace(['`', ' '], "")));
            samples::record(&command, args.frequency, &data)?;
            samples::read(&data, &program, samples)?;
        }
    }
    let functions = functions(&program, sampled.iter().flat_map(BTreeMap::keys))?;
    let root = process::root();
    let sums: Vec<Sums> =
        sampled.iter().map(|samples| Sums::new(samples, &functions, &paths, &root)).collect();
    print!("\n{}", table::render(&cases, &sums, &paths, args.all));
    Ok(())
}

/// The frames of each sampled address of the program.
fn functions<'a>(
    program: &Path,
    places: impl Iterator<Item = &'a (String, Place)>,
) -> Result<BTreeMap<u64, Vec<Frame>>, String> {
    let mut addresses: Vec<u64> = places
        .filter_map(|(_, place)| match place {
            Place::Program { offset } => Some(*offset),
            Place::Elsewhere(_) => None,
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    frames::at(program, &addresses)
}
