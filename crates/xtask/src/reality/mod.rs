//! The simulator against real processes: calibrates the constants of this machine, compares simulated with
//! real runs, and varies the constants to see which conclusions depend on them.

pub(crate) mod calibrate;
mod cluster;
pub(crate) mod sensitivity;
mod table;
pub(crate) mod validate;

use crate::process::{self, cargo};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A task of `bench-configs/measured/reality.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    /// Package of the application.
    name: String,
    args: Vec<String>,
    /// A flag and two values of it, in ascending order of work.
    size: [String; 3],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    tasks: Vec<Workload>,
}

impl Workload {
    /// The flags of a run at one of the two sizes, without validation.
    fn args(&self, size: usize, epochs: usize) -> Vec<String> {
        let mut args = self.args.clone();
        args.extend([self.size[0].clone(), self.size[1 + size].clone()]);
        args.extend(
            ["--epochs", &epochs.to_string(), "--valid-every", "0", "--no-progress"].map(str::to_owned),
        );
        args
    }
}

/// The tasks whose names contain `only`.
fn workloads(only: &str) -> Result<Vec<Workload>, String> {
    let path = process::root().join("bench-configs/measured/reality.toml");
    let List { tasks } =
        toml::from_str(&read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    let tasks: Vec<Workload> = tasks.into_iter().filter(|task| task.name.contains(only)).collect();
    if tasks.is_empty() {
        Err(format!("no task of {} has '{only}' in its name", path.display()))
    } else {
        Ok(tasks)
    }
}

/// Builds the release programs of the tasks, `intendant` and `intendant-bench`; without `build`, checks that
/// they exist.
fn programs(tasks: &[Workload], build: bool) -> Result<(), String> {
    let packages = || tasks.iter().map(|task| task.name.as_str()).chain(["intendant-cli", "intendant-bench"]);
    if build {
        let packages = packages().flat_map(|name| ["--package", name]);
        process::run(cargo(&process::root()).args(["build", "--quiet", "--release"]).args(packages))?;
    }
    for name in packages() {
        let path = process::program(if name == "intendant-cli" { "intendant" } else { name }, true);
        if !path.is_file() {
            return Err(format!("{} does not exist; leave out --no-build to build it", path.display()));
        }
    }
    Ok(())
}

/// Folder of intermediate files.
fn scratch() -> Result<PathBuf, String> {
    let folder = process::target().join("reality");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts the table that `command` writes into its place in docs/simulator.md.
fn shown_in_page(command: &str, table: &str) -> Result<(), String> {
    crate::measure::replace_between(&process::root().join("docs/simulator.md"), command, table)
}

/// Executes `command`, to which `flag` and a file are added, and reads the JSON that it writes there.
fn json(command: &mut Command, flag: &str) -> Result<Value, String> {
    process::json(command, flag, &scratch()?.join("run.json"))
}

/// The median; NaN of none.
fn median(numbers: &[f64]) -> f64 {
    crate::measure::median(numbers).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_can_be_read_and_missing_ones_are_named() {
        let tasks = workloads("").expect("a list");
        assert_eq!(tasks.len(), 3);
        assert!(tasks[0].args(1, 2).windows(2).any(|pair| pair == ["--epochs", "2"]));
        assert!(workloads("chess").expect_err("none").contains("'chess'"));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
