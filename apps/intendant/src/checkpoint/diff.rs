//! `intendant checkpoint diff`.

use super::compare::{Common, Differences, Doubles};
use super::source::Source;
use super::words::counted;
use crate::stdout::print;
use intendant_checkpoint::{Manifest, Range};
use intendant_train::{SavedRun, TrainError};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

/// Exit code if there are differences.
const DIFFERENT: u8 = 1;

/// Compares the checkpoints in `a` and `b`.
pub(super) fn run(a: &Path, b: &Path, only_values: bool) -> Result<ExitCode, TrainError> {
    let [a, b] = [Source::find(a)?.open()?, Source::find(b)?.open()?];
    let [(a, place_a), (b, place_b)] = [a, b];
    let mut said = Vec::new();
    if !only_values {
        said.extend(runs(a.manifest(), b.manifest()));
    }
    said.extend(models(a.manifest(), b.manifest()));
    let mut is_equal = said.is_empty();
    let (mut values_a, mut values_b) = (Doubles::of(&a), Doubles::of(&b));
    for range in common(a.manifest(), b.manifest()) {
        let found = Differences::between(&mut values_a, &mut values_b, &range).map_err(|source| {
            TrainError::usage(format!(
                "cannot read values of {} or {}: {source}",
                place_a.display(),
                place_b.display()
            ))
        })?;
        is_equal &= found.is_none();
        said.push(format!("{}: {found}", range.name));
    }
    let text: String = said.iter().map(|line| format!("{line}\n")).collect();
    Ok(print(&text, if is_equal { 0 } else { DIFFERENT }))
}

/// The differences of the runs.
fn runs(a: &Manifest, b: &Manifest) -> Vec<String> {
    let (Ok(a), Ok(b)) = (SavedRun::of(a), SavedRun::of(b)) else {
        return if a.run == b.run {
            Vec::new()
        } else {
            vec!["what the runs need to go on differs".to_owned()]
        };
    };
    let trained = |run: &SavedRun| {
        let under_way = run.under_way.map_or(String::new(), |under_way| {
            format!(" and {} of the next", counted(under_way.examples, "example"))
        });
        counted(run.epochs as u64, "epoch") + &under_way
    };
    let pairs = [
        ("program", a.program.clone(), b.program.clone()),
        ("version", a.version.clone(), b.version.clone()),
        ("task", a.task.clone(), b.task.clone()),
        ("data", a.data.clone(), b.data.clone()),
        ("trained", trained(&a), trained(&b)),
    ];
    let mut said: Vec<String> =
        pairs.into_iter().filter(|(_, a, b)| a != b).map(|(what, a, b)| line(what, &a, &b)).collect();
    let names = |config: &Value| -> BTreeSet<String> {
        config.as_object().map(|config| config.keys().cloned().collect()).unwrap_or_default()
    };
    for name in &names(&a.config) | &names(&b.config) {
        let of = |config: &Value| config.get(&name).map_or("absent".to_owned(), ToString::to_string);
        let (a, b) = (of(&a.config), of(&b.config));
        if a != b {
            said.push(line(&format!("--{name}"), &a, &b));
        }
    }
    said
}

fn line(what: &str, a: &str, b: &str) -> String {
    format!("{what}: {a} and {b}")
}

/// The differences of the models, besides their values.
fn models(a: &Manifest, b: &Manifest) -> Vec<String> {
    let mut said = Vec::new();
    if a.element != b.element {
        said.push(line("elements", &a.element, &b.element));
    }
    let describe = |range: Option<&Range>| {
        range.map_or("absent".to_owned(), |range| {
            format!("{} of length {}", counted(range.keys, "key"), range.len)
        })
    };
    let find =
        |manifest: &Manifest, name: &str| describe(manifest.ranges.iter().find(|range| range.name == name));
    let mut names: Vec<&str> = a.ranges.iter().map(|range| range.name.as_str()).collect();
    names.extend(
        b.ranges
            .iter()
            .map(|range| range.name.as_str())
            .filter(|name| a.ranges.iter().all(|range| range.name != *name)),
    );
    for name in names {
        let (a, b) = (find(a, name), find(b, name));
        if a != b {
            said.push(line(&format!("range {name}"), &a, &b));
        }
    }
    let order =
        |manifest: &Manifest| manifest.ranges.iter().map(|range| range.name.clone()).collect::<Vec<_>>();
    let (a, b) = (order(a), order(b));
    if said.is_empty() && a != b {
        said.push(line("order of ranges", &a.join(", "), &b.join(", ")));
    }
    said
}

/// The ranges that both models have.
fn common(a: &Manifest, b: &Manifest) -> Vec<Common> {
    let there = starts(b);
    let pair = |(start, range): (u64, &Range)| {
        let (first, other) = there.iter().find(|(_, other)| *other == range)?;
        Some(Common {
            name: range.name.clone(),
            keys: [start..start + range.keys, *first..first + other.keys],
            len: range.len,
        })
    };
    starts(a).into_iter().filter_map(pair).collect()
}

/// Ranges and their first keys.
fn starts(manifest: &Manifest) -> Vec<(u64, &Range)> {
    let mut start = 0;
    let mut all = Vec::new();
    for range in &manifest.ranges {
        all.push((start, range));
        start += range.keys;
    }
    all
}
