//! `cargo xtask measure`: measures the numbers listed in `bench-configs/measured/performance.toml`, and
//! prints them beside targets and rivals.
//!
//! All rows are measured several times, in turn, so that a temporary slowdown of the machine affects all of
//! them; the median counts. A missed target is no failure, because machines differ.
//!
//! `cargo xtask measure --pinned` compares clusters with threads, with equal means: [`pinned`].

mod pinned;

use crate::process::{self, cargo};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measure speed, and print it beside targets and rivals.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of measurements of each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Only measure rows whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Write the table to docs/performance.md
    #[arg(long)]
    write: bool,
    /// Do not build the programs
    #[arg(long)]
    no_build: bool,
    /// Measure the tasks of pinned.toml instead: clusters with one core per node, and threads on one core
    #[arg(long)]
    pinned: bool,
    /// Folder with the data of tasks that are not built in; without it, they are skipped
    #[arg(long, value_name = "DIR", requires = "pinned")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    rows: Vec<Row>,
}

/// A row of the table: a number to measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// `intendant-bench` or an application.
    program: String,
    args: Vec<String>,
    /// For the benchmark: the operation, if the report has several, and the field. For an application: a
    /// field of epochs, or `examples` for examples per CPU second; the first epoch is ignored.
    op: Option<String>,
    value: String,
    /// The number is divided by `divide_by`, and by the number of the row named `over`.
    #[serde(default = "one")]
    divide_by: f64,
    over: Option<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    #[serde(default)]
    rivals: String,
    /// Not shown; only other rows are divided by it.
    #[serde(default)]
    hidden: bool,
}

fn one() -> f64 {
    1.0
}

/// The command that writes the table, as the page names it, and the end of a table.
const WRITTEN_BY: &str = "cargo xtask measure --write";
const END: &str = "<!-- end -->";

/// Measures and prints the rows, and writes the table with `--write`.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    if args.pinned {
        return pinned::run(args);
    }
    let root = process::root();
    let path = root.join("bench-configs/measured/performance.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rows = parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let rows = wanted(&rows, &args.only);
    if rows.is_empty() {
        return Err(format!("no row of {} has '{}' in its name", path.display(), args.only));
    }
    if !args.no_build {
        let packages = rows.iter().flat_map(|row| ["--package", &row.program]);
        process::run(cargo(&root).args(["build", "--quiet", "--release"]).args(packages))?;
    }
    let mut numbers: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in 1..=args.runs {
        println!("run {run} of {}", args.runs);
        // Rows with the same command share one execution.
        let mut outputs: BTreeMap<(&str, &[String]), Value> = BTreeMap::new();
        for row in &rows {
            let command = (row.program.as_str(), &row.args[..]);
            let output = match outputs.entry(command) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(none) => none.insert(execute(row)?),
            };
            let number = row.read(output).map_err(|error| format!("{}: {error}", row.name))?;
            println!("  {:<90} {}", row.name, shown(number));
            numbers.entry(&row.name).or_default().push(number);
        }
    }
    let table = render(&rows, &numbers);
    println!("\n{table}");
    if args.write {
        replace_between(&root.join("docs/performance.md"), WRITTEN_BY, &table)?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Row>, String> {
    let List { rows } = toml::from_str(text).map_err(|error| error.to_string())?;
    for row in &rows {
        if let Some(over) = row.over.as_ref().filter(|over| rows.iter().all(|other| other.name != **over)) {
            return Err(format!("{} is divided by '{over}', which does not exist", row.name));
        }
    }
    Ok(rows)
}

/// The rows with `only` in their names, and the rows that these are divided by.
fn wanted<'a>(rows: &'a [Row], only: &str) -> Vec<&'a Row> {
    let named = |row: &Row| !row.hidden && row.name.contains(only);
    let needed = |row: &Row| rows.iter().any(|other| named(other) && other.over.as_ref() == Some(&row.name));
    rows.iter().filter(|row| named(row) || needed(row)).collect()
}

/// Runs a row's program and reads what it reports.
fn execute(row: &Row) -> Result<Value, String> {
    let mut command = Command::new(process::program(&row.program, true));
    command.args(&row.args);
    if !row.is_bench() {
        command.arg("--no-progress");
    }
    let flag = if row.is_bench() { "--json" } else { "--report" };
    process::json(&mut command, flag, &process::target().join("measured/report.json"))
}

impl Row {
    fn is_bench(&self) -> bool {
        self.program == "intendant-bench"
    }

    /// Reads the number from the program's report.
    fn read(&self, report: &Value) -> Result<f64, String> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let number = if self.is_bench() {
            let is_it = |row: &&Value| self.op.as_ref().is_none_or(|op| row["op"] == **op);
            list(report).iter().find(is_it).and_then(|row| row[&self.value].as_f64())
        } else {
            let epochs = list(&report["epochs"]);
            let of_epoch = |epoch: &Value| match self.value.as_str() {
                "examples" => Some(epoch["examples"].as_f64()? / epoch["cpu_seconds"].as_f64()?),
                field => epoch[field].as_f64(),
            };
            epochs.iter().skip(1).map(of_epoch).collect::<Option<Vec<f64>>>().and_then(|all| median(&all))
        };
        Ok(number.ok_or_else(|| format!("the report has no {}", self.value))? / self.divide_by)
    }

    fn target(&self) -> Target {
        Target { at_most: self.at_most, at_least: self.at_least }
    }
}

/// What a number has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Target {
    at_most: Option<f64>,
    at_least: Option<f64>,
}

impl Target {
    /// Whether the number reaches the target; `None` without a target.
    fn reached(self, number: f64) -> Option<bool> {
        match (self.at_most, self.at_least) {
            (None, None) => None,
            (most, least) => Some(most.is_none_or(|m| number <= m) && least.is_none_or(|l| number >= l)),
        }
    }

    /// The verdict of a table; empty without a target.
    fn verdict(self, number: f64) -> &'static str {
        match self.reached(number) {
            None => "",
            Some(true) => "reached",
            Some(false) => "**missed**",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at_most, self.at_least) {
            (Some(most), _) => write!(formatter, "≤ {most}"),
            (None, Some(least)) => write!(formatter, "≥ {least}"),
            (None, None) => Ok(()),
        }
    }
}

/// The median; of an even number, the mean of the two in the middle. `None` of none.
pub(crate) fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// The number with three significant digits.
fn shown(number: f64) -> String {
    let digits = 2 - (number.abs().max(1e-9).log10().floor() as i32).clamp(-6, 2);
    format!("{number:.*}", digits as usize)
}

/// The median and the range of `numbers`.
fn with_range(numbers: &[f64], median: f64) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({} to {})", shown(median), shown(least), shown(most))
}

fn render(rows: &[&Row], numbers: &BTreeMap<&str, Vec<f64>>) -> String {
    let mut table = "| what | asked | measured: median (least to most) | | rivals, measured |\n".to_owned();
    table.push_str("| --- | --- | --- | --- | --- |\n");
    for row in rows.iter().filter(|row| !row.hidden) {
        let of = |name: &str| numbers.get(name).cloned().unwrap_or_default();
        let mut all = of(&row.name);
        if let Some(over) = &row.over {
            all = all.iter().zip(of(over)).map(|(number, base)| number / base).collect();
        }
        let Some(median) = median(&all) else { continue };
        let (name, target, rivals) = (&row.name, row.target(), &row.rivals);
        let (measured, verdict) = (with_range(&all, median), target.verdict(median));
        let _ = writeln!(table, "| {name} | {target} | {measured} | {verdict} | {rivals} |");
    }
    table
}

/// Replaces the table of the page that `command` writes: what is between the comments `begin: command` and
/// `end`.
pub(crate) fn replace_between(page: &Path, command: &str, table: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let text = replace(&text, command, table)
        .ok_or_else(|| format!("{} has no place for the table of `{command}`", page.display()))?;
    std::fs::write(page, text).map_err(|error| format!("{}: {error}", page.display()))
}

/// The page with its table replaced; `None` if it has no place for one.
fn replace(page: &str, command: &str, table: &str) -> Option<String> {
    let begin = format!("<!-- begin: {command} -->\n");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_makes_sense_and_the_page_has_a_place() {
        let root = process::root();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file of the project");
        let rows = parse(&read("bench-configs/measured/performance.toml")).expect("valid");
        assert!(rows.len() > 10);
        let page = replace(&read("docs/performance.md"), WRITTEN_BY, "| new |\n").expect("a place");
        assert!(page.contains("| new |\n<!-- end -->"));
        assert_eq!(replace(&page, "cargo xtask other", ""), None);
    }

    #[test]
    fn numbers_come_from_reports_and_are_judged() {
        let rows = parse(
            "[[rows]]\nname='a'\nprogram='intendant-bench'\nargs=['local']\nop='push'\nvalue='ratio'\nover='b'\nat_most=2\n\
             [[rows]]\nname='b'\nprogram='kge'\nargs=[]\nvalue='examples'\nhidden=true\ndivide_by=10",
        )
        .expect("valid");
        let bench = serde_json::json!([{"op": "pull", "ratio": 9.0}, {"op": "push", "ratio": 3.0}]);
        assert_eq!(rows[0].read(&bench), Ok(3.0));
        let report = serde_json::json!({"epochs": [
            {"examples": 1, "cpu_seconds": 1.0}, {"examples": 40, "cpu_seconds": 2.0}, {"examples": 40, "cpu_seconds": 4.0},
        ]});
        assert_eq!(rows[1].read(&report), Ok(1.5));
        assert!(rows[1].read(&bench).is_err());
        assert_eq!(wanted(&rows, "a").len(), 2);
        assert!(wanted(&rows, "b").is_empty());
        let numbers = BTreeMap::from([("a", vec![3.0, 6.0, 9.0]), ("b", vec![1.5, 1.5, 1.5])]);
        let table = render(&wanted(&rows, ""), &numbers);
        assert!(table.ends_with("| a | ≤ 2 | 4.00 (2.00 to 6.00) | **missed** |  |\n"), "{table}");
        assert_eq!(rows[0].target().reached(2.0), Some(true));
        assert!(parse("[[rows]]\nname='a'\nprogram='kge'\nargs=[]\nvalue='x'\nover='c'").is_err());
    }

    #[test]
    fn three_digits() {
        for (number, text) in [(0.00345, "0.00345"), (1.0, "1.00"), (34.56, "34.6"), (602_123.0, "602123")] {
            assert_eq!(shown(number), text);
        }
    }
}
