//! `cargo xtask measure --pinned`: the speed-up by a second node, with equal means per node.
//!
//! A node has one core and one worker; technique `single` has the same. A cluster of two such nodes has twice
//! the means, so that its speed-up over `single` is the number that the papers report for two machines.
//! Clusters of more nodes share two cores, so that only their CPU time says something.
//!
//! All cases of a task run in turn. Each ratio is to the run of `single` of the same turn.

use super::args::Args;
use super::table::{Target, median, replace_between, shown, with_range};
use crate::pinned::{CORES, Case, Task, packages, tasks};
use crate::pinning;
use crate::process::{self, cargo};
use serde_json::Value;
use std::fmt::Write as _;

/// The command that writes the table, as the page names it.
const WRITTEN_BY: &str = "cargo xtask measure --pinned --write";

/// What a run took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// Medians of the epochs after the first one.
    wall_seconds: f64,
    cpu_seconds: f64,
    /// Training loss of the last epoch.
    loss: f64,
}

impl Run {
    fn read(report: &Value) -> Option<Self> {
        let epochs = report["epochs"].as_array()?;
        let of = |field: &str| {
            let all: Option<Vec<f64>> = epochs.iter().skip(1).map(|epoch| epoch[field].as_f64()).collect();
            median(&all?)
        };
        Some(Self {
            wall_seconds: of("seconds")?,
            cpu_seconds: of("cpu_seconds")?,
            loss: epochs.last()?["loss"].as_f64()?,
        })
    }
}

/// A task with the runs of each of its cases, `single` first; the runs of a turn have the same index.
struct Measured<'a> {
    task: &'a Task,
    single: Vec<Run>,
    /// In the order of the task's clusters.
    clusters: Vec<Vec<Run>>,
}

/// Measures the tasks, prints the table, and writes it with `--write`.
pub(super) fn run(args: &Args) -> Result<(), String> {
    pinning::check(CORES)?;
    let folder = args.data_dir.as_deref();
    let wanted = |task: &Task| task.name.contains(&args.only) || task.id.contains(&args.only);
    let tasks = tasks(wanted, folder)?;
    let root = process::root();
    if !args.no_build {
        let packages = packages(&tasks).flat_map(|name| ["--package", name]);
        process::run(cargo(&root).args(["build", "--quiet", "--release"]).args(packages))?;
    }
    let target = process::target();
    let measure = |task: &Task, case: Case| {
        let mut command = task.command(case, &target, folder)?;
        let report = process::json(&mut command, "--report", &target.join("measured/pinned.json"))?;
        let run = Run::read(&report).ok_or("the report has no seconds after the first epoch, or no loss");
        let run = run.map_err(|error| format!("{}: {error}", task.name))?;
        let [wall, cpu, loss] = [run.wall_seconds, run.cpu_seconds, run.loss].map(shown);
        println!("  {:<22} {wall:>8} s {cpu:>8} CPU s   loss {loss}", case.to_string());
        Ok::<_, String>(run)
    };
    let mut all = Vec::new();
    for task in &tasks {
        let mut measured =
            Measured { task, single: Vec::new(), clusters: vec![Vec::new(); task.clusters.len()] };
        for turn in 1..=args.runs {
            println!("{}, run {turn} of {}", task.name, args.runs);
            measured.single.push(measure(task, Case::Single)?);
            for (runs, goals) in measured.clusters.iter_mut().zip(&task.clusters) {
                runs.push(measure(task, Case::Nodes(goals.nodes))?);
            }
        }
        all.push(measured);
    }
    let table = render(&all);
    println!("\n{table}");
    if args.write { replace_between(&root.join("docs/performance.md"), WRITTEN_BY, &table) } else { Ok(()) }
}

fn render(all: &[Measured<'_>]) -> String {
    let mut table = "| task | | wall s | CPU s | speed-up | CPU / `single` | loss / `single` |\n".to_owned();
    table.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for measured in all {
        let (task, single) = (measured.task, &measured.single);
        let _ = writeln!(table, "| {} | {} | {} | | | |", task.name, Case::Single, seconds(single));
        for (runs, goals) in measured.clusters.iter().zip(&task.clusters) {
            let case = Case::Nodes(goals.nodes);
            let ratio = |target, of: fn(&Run, &Run) -> f64| {
                let all: Vec<f64> = runs.iter().zip(single).map(|(run, single)| of(run, single)).collect();
                cell(&all, target)
            };
            let at_least = Target { at_most: None, at_least: goals.speed_up_at_least };
            let at_most = |most| Target { at_most: most, at_least: None };
            let speed_up = ratio(at_least, |run, single| single.wall_seconds / run.wall_seconds);
            let speed_up = if case.has_cores() { speed_up } else { String::new() };
            let cpu = ratio(at_most(goals.cpu_at_most), |run, single| run.cpu_seconds / single.cpu_seconds);
            let loss = ratio(at_most(goals.loss_at_most), |run, single| run.loss / single.loss);
            let _ = writeln!(table, "| | {case} | {} | {speed_up} | {cpu} | {loss} |", seconds(runs));
        }
    }
    table
}

/// The two cells of medians of seconds.
fn seconds(runs: &[Run]) -> String {
    let of = |number: fn(&Run) -> f64| {
        median(&runs.iter().map(number).collect::<Vec<f64>>()).map(shown).unwrap_or_default()
    };
    format!("{} | {}", of(|run| run.wall_seconds), of(|run| run.cpu_seconds))
}

/// The median and the range of ratios, the target, and whether the median reaches it.
fn cell(ratios: &[f64], target: Target) -> String {
    let Some(median) = median(ratios) else { return String::new() };
    let measured = with_range(ratios, median);
    match target.verdict(median) {
        "" => measured,
        verdict => format!("{measured}; {target}: {verdict}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinned::Goals;
    use serde_json::json;

    #[test]
    fn the_first_epoch_is_ignored_and_the_last_loss_counts() {
        let epoch =
            |seconds: f64, loss: f64| json!({"seconds": seconds, "cpu_seconds": 2.0 * seconds, "loss": loss});
        let report = json!({"epochs": [epoch(9.0, 7.0), epoch(1.0, 6.0), epoch(3.0, 5.0)]});
        assert_eq!(Run::read(&report), Some(Run { wall_seconds: 2.0, cpu_seconds: 4.0, loss: 5.0 }));
        assert_eq!(Run::read(&json!({"epochs": [epoch(9.0, 7.0)]})), None, "only a first epoch");
        assert_eq!(
            Run::read(&json!({"epochs": [{}, {"seconds": 1.0, "cpu_seconds": 1.0}]})),
            None,
            "no loss"
        );
    }

    #[test]
    fn ratios_are_of_the_same_turn_and_shared_cores_have_no_speed_up() {
        let run = |wall_seconds, cpu_seconds, loss| Run { wall_seconds, cpu_seconds, loss };
        let mut task = tasks(|task| task.id == "words", None).expect("a list").remove(0);
        task.name = "words".to_owned();
        let none = Goals { nodes: 4, speed_up_at_least: None, cpu_at_most: None, loss_at_most: None };
        let goals =
            Goals { nodes: 2, speed_up_at_least: Some(1.5), cpu_at_most: Some(1.05), loss_at_most: None };
        task.clusters = vec![goals, Goals { loss_at_most: Some(1.1), ..none }];
        let measured = Measured {
            task: &task,
            single: vec![run(1.0, 1.0, 2.0), run(2.0, 2.0, 2.0), run(4.0, 4.0, 2.0)],
            clusters: vec![
                vec![run(0.5, 1.0, 2.0), run(1.25, 2.2, 2.2), run(2.5, 8.0, 2.0)],
                vec![run(3.0, 3.0, 2.0), run(3.0, 3.0, 2.2), run(3.0, 3.0, 2.4)],
            ],
        };
        let expected = "\
| task | | wall s | CPU s | speed-up | CPU / `single` | loss / `single` |
| --- | --- | --- | --- | --- | --- | --- |
| words | `single` | 2.00 | 2.00 | | | |
| | 2 nodes | 1.25 | 2.20 | 1.60 (1.60 to 2.00); ≥ 1.5: reached | 1.10 (1.00 to 2.00); ≤ 1.05: **missed** | 1.00 (1.00 to 1.10) |
| | 4 nodes on 2 cores | 3.00 | 3.00 |  | 1.50 (0.750 to 3.00) | 1.10 (1.00 to 1.20); ≤ 1.1: reached |
";
        assert_eq!(render(&[measured]), expected);
    }

    #[test]
    fn the_page_has_a_place() {
        let page = std::fs::read_to_string(process::root().join("docs/performance.md")).expect("a page");
        assert!(crate::measure::table::replace(&page, WRITTEN_BY, "").is_some());
    }
}
