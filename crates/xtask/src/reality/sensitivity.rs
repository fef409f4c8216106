//! `cargo xtask sensitivity`: runs figures at scale ci with each constant of machines and networks half and
//! one and a half times as large, and lists the claims whose outcomes change.

use super::{shown_in_page, workloads};
use crate::figure::{self, Outcome, ScaledConstant};
use std::fmt::Write as _;

/// Change each constant, and show which claims depend on it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Figures; by default some of each chapter, which take a few minutes
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = FIGURES)]
    figures: Vec<String>,
    /// Factors
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_value = "0.5,1.5")]
    factors: Vec<f64>,
    /// Write the table to docs/simulator.md
    #[arg(long)]
    write: bool,
    /// Do not build the programs
    #[arg(long)]
    no_build: bool,
}

const FIGURES: &str =
    "thesis-fig-3.8,thesis-tab-3.5-small,thesis-fig-4.5-mf,thesis-fig-4.6,adaps-fig-9-kge,thesis-fig-5.12-mf";

/// A claim with its figure, and its outcome.
type Judged = (String, Outcome);

/// Runs the figures, and prints the table. A claim that changes is no failure of the command: it is a result.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    super::programs(&workloads("")?, !args.no_build)?;
    let judge = |constant: Option<&ScaledConstant>| -> Result<Vec<Judged>, String> {
        let mut judged = Vec::new();
        for name in &args.figures {
            let outcomes = figure::outcomes(&figure::Args::changed(name, constant.cloned()))?;
            judged.extend(outcomes.into_iter().map(|(text, outcome)| (format!("`{name}`: {text}"), outcome)));
        }
        Ok(judged)
    };
    let before = judge(None)?;
    let mut rows = Vec::new();
    for field in figure::fields() {
        for factor in &args.factors {
            let constant: ScaledConstant = format!("{field}={factor}").parse()?;
            let changes = changes(&before, &judge(Some(&constant))?);
            println!("{field} × {factor}: {} of {} claims change", changes.len(), before.len());
            changes.iter().for_each(|change| println!("  {change}"));
            rows.push((format!("`{field}` × {factor}"), changes));
        }
    }
    let table = render(&rows, before.len(), args.figures.len());
    println!("\n{table}");
    if args.write { shown_in_page("cargo xtask sensitivity --write", &table) } else { Ok(()) }
}

/// The claims whose outcomes differ, with both outcomes.
fn changes(before: &[Judged], after: &[Judged]) -> Vec<String> {
    let word = |outcome: Outcome| outcome.word().to_lowercase();
    let pairs = before.iter().zip(after).filter(|((_, before), (_, after))| before != after);
    pairs
        .map(|((text, before), (_, after))| format!("{text} ({} → {})", word(*before), word(*after)))
        .collect()
}

/// The constants that change a claim, and those that change none.
fn render(rows: &[(String, Vec<String>)], claims: usize, figures: usize) -> String {
    let mut table = format!(
        "| constant | changed, of {claims} claims of {figures} figures | which |\n| --- | --- | --- |\n"
    );
    for (name, changes) in rows.iter().filter(|(_, changes)| !changes.is_empty()) {
        let _ = writeln!(table, "| {name} | {} | {} |", changes.len(), changes.join("; "));
    }
    let none: Vec<&str> =
        rows.iter().filter(|(_, changes)| changes.is_empty()).map(|(name, _)| &**name).collect();
    let _ = writeln!(table, "| {} | 0 | |", none.join(", "));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_listed() {
        let judged = |second| vec![("one".to_owned(), Outcome::Holds), ("two".to_owned(), second)];
        let found = changes(&judged(Outcome::Deviates), &judged(Outcome::Broken));
        assert_eq!(found, ["two (deviates → broken)"]);
        assert!(changes(&judged(Outcome::Holds), &judged(Outcome::Holds)).is_empty());
        let rows = [("`a` × 2".to_owned(), found), ("`b` × 2".to_owned(), Vec::new())];
        let table = render(&rows, 2, 1);
        assert!(table.ends_with("| `a` × 2 | 1 | two (deviates → broken) |\n| `b` × 2 | 0 | |\n"), "{table}");
    }
}
