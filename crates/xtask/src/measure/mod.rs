//! `cargo xtask measure`: measures the numbers listed in `bench-configs/measured/performance.toml`, and
//! prints them beside targets and rivals.
//!
//! All rows are measured several times, in turn, so that a temporary slowdown of the machine affects all of
//! them; the median counts. A missed target is no failure, because machines differ.
//!
//! `cargo xtask measure --pinned` compares clusters with threads, with equal means: [`pinned`].

mod args;
mod pinned;
mod table;

pub(crate) use args::Args;
pub(crate) use table::{median, replace_between};

use crate::process::{self, cargo};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::process::Command;
use table::{Target, shown, with_range};

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

/// The command that writes the table, as the page names it.
const WRITTEN_BY: &str = "cargo xtask measure --write";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_makes_sense_and_the_page_has_a_place() {
        let root = process::root();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file of the project");
        let rows = parse(&read("bench-configs/measured/performance.toml")).expect("valid");
        assert!(rows.len() > 10);
        let page = table::replace(&read("docs/performance.md"), WRITTEN_BY, "| new |\n").expect("a place");
        assert!(page.contains("| new |\n<!-- end -->"));
        assert_eq!(table::replace(&page, "cargo xtask other", ""), None);
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
}
