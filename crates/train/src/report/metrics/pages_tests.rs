//! The tables of statistics and metrics in `docs/` are those of the declarations.
//!
//! With `INTENDANT_WRITE_PAGES=1` in the environment, the tests write the tables instead of comparing them.

use super::catalogue::{self, STATISTICS};
use intendant_apptest::pages::compare;
use intendant_core::{Form, Statistic};
use intendant_metrics::Metric;
use std::fmt::Write as _;

/// Members of the report that have the numbers of metrics beside statistics.
const MEMBERS: [(&str, &str); 14] = [
    ("intendant_info", "`technique`, `task`"),
    ("intendant_nodes", "`nodes`"),
    ("intendant_workers", "`workers_per_node`"),
    ("intendant_epoch", "`epochs[].epoch`"),
    ("intendant_epochs_planned", "`config.epochs`"),
    ("intendant_examples_total", "`epochs[].examples`"),
    ("intendant_training_seconds_total", "`epochs[].seconds`"),
    ("intendant_training_cpu_seconds_total", "`epochs[].cpu_seconds`"),
    ("intendant_loss", "`epochs[].loss`"),
    ("intendant_quality", "`epochs[].quality`"),
    ("intendant_checkpoints_total", "`checkpoints.count`"),
    ("intendant_checkpoint_bytes", "`checkpoints.bytes`"),
    ("intendant_checkpoint_stop_seconds", "`checkpoints.stop_ms`"),
    ("intendant_checkpoint_write_seconds", "`checkpoints.write_ms`"),
];

/// As in the middle of a sentence; abbreviations keep their capitals.
fn in_lower_case(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter();
    match letters.clone().next() {
        Some(second) if second.is_uppercase() => text.to_owned(),
        Some(_) | None => first.flat_map(char::to_lowercase).chain(letters).collect(),
    }
}

fn of_report(statistics: &[Statistic]) -> String {
    let mut table = "| member | unit | meaning |\n| --- | --- | --- |\n".to_owned();
    for statistic in statistics {
        let (array, unit) = match statistic.shown.form {
            Form::Number | Form::Part { .. } => ("", statistic.shown.unit.to_owned()),
            Form::Each { .. } => ("[]", statistic.shown.unit.to_owned()),
            Form::Durations => ("", "milliseconds: `mean`, `p50`, `p99`".to_owned()),
            Form::Counts => ("", format!("{}: `mean`, `p50`, `p99`", statistic.shown.unit)),
            Form::Thousandths => ("", "share: `mean`, `p50`, `p99`".to_owned()),
        };
        let meaning = in_lower_case(statistic.meaning());
        writeln!(table, "| `{}{array}` | {unit} | {meaning} |", statistic.member).expect("memory");
    }
    table
}

/// The labels of a metric of statistics, and their values.
fn labels(metric: &Metric) -> String {
    let shown = STATISTICS.into_iter().flat_map(|(_, fields)| fields).map(|field| field.shown);
    let mut label = None;
    let mut values: Vec<String> = Vec::new();
    for shown in shown.filter(|shown| shown.metric == metric.name) {
        for (name, value) in (0..).map_while(|k| shown.form.label(k).filter(|_| k < values_of(shown.form))) {
            label = Some(name);
            values.push(format!("`{value}`"));
        }
    }
    label.map(|label| format!("; label `{label}`: {}", values.join(", "))).unwrap_or_default()
}

/// How many samples a field has.
const fn values_of(form: Form) -> usize {
    match form {
        Form::Each { values, .. } => values.len(),
        Form::Number | Form::Part { .. } | Form::Durations | Form::Counts | Form::Thousandths => 1,
    }
}

fn member(metric: &Metric) -> String {
    let fields =
        STATISTICS.into_iter().flat_map(|(section, shown)| shown.iter().map(move |field| (section, field)));
    let shown: Vec<_> = fields
        .filter(|(_, field)| field.shown.metric == metric.name)
        .map(|(section, field)| format!("`{section}.{}`", field.member))
        .collect();
    let named = MEMBERS.iter().find(|(name, _)| *name == metric.name);
    named.map_or_else(|| shown.join(", "), |(_, member)| (*member).to_owned())
}

#[test]
fn pages_have_the_statistics_of_reports() {
    for (section, statistics) in STATISTICS {
        compare("docs/report.md", section, &of_report(statistics));
    }
}

#[test]
fn pages_have_the_metrics() {
    let mut table =
        "| metric | type | unit | meaning | report |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for metric in catalogue::all() {
        let Metric { name, kind, unit, help } = metric;
        let (kind, help) = (kind.name(), in_lower_case(help) + &labels(metric));
        writeln!(table, "| `{name}` | {kind} | {unit} | {help} | {} |", member(metric)).expect("memory");
    }
    compare("docs/metrics.md", "metrics", &table);
}
