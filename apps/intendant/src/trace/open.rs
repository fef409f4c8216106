//! Opens runs, and reports their irregularities.

use super::args::ViewArgs;
use super::failure::Failure;
use super::words;
use intendant_analysis::{Allocation, Limits, Run};
use intendant_trace::Filter;
use std::path::Path;
use std::sync::Arc;

/// Opens a run, and reports its irregularities.
pub(super) fn open(path: &Path, events_max: u64) -> Result<Run, Failure> {
    let run = Run::open(path, Limits { events_max })?;
    for problem in run.problems() {
        let node = problem.node.map_or(String::new(), |node| format!("node {node}: "));
        eprintln!("intendant: {}: {node}{}", path.display(), words::shown(&problem.text));
    }
    Ok(run)
}

/// The places of the keys of a run over time.
pub(super) fn allocation_of(path: &Path, view: &ViewArgs) -> Result<Allocation, Failure> {
    let run = open(path, view.limits.max_events)?;
    let allocation = Allocation::of(&Arc::new(run), &view.keys);
    let header = allocation.run().header();
    let traced = format!(
        "the run has {} and traced {}",
        words::counted(header.keys(), "key"),
        words::shown(&header.filter)
    );
    if allocation.keys().is_empty() && view.keys != Filter::All {
        return Err(Failure::Usage(format!("none of the keys {} was traced: {traced}", view.keys)));
    }
    if let Filter::Keys(ranges) = &view.keys {
        let named: u64 = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        let missing = named.saturating_sub(allocation.keys().len());
        if missing > 0 {
            eprintln!(
                "intendant: {}: {} of {} named by --keys: not traced; {traced}",
                path.display(),
                words::grouped(missing),
                words::counted(named, "key")
            );
        }
    }
    say_inconsistencies(path, &allocation);
    Ok(allocation)
}

pub(super) fn say_inconsistencies(path: &Path, allocation: &Allocation) {
    let missing = allocation.inconsistencies().missing();
    if missing > 0 {
        eprintln!(
            "intendant: {}: {} not fit to what was known of the key: others are missing",
            path.display(),
            if missing == 1 { "1 event does".to_owned() } else { format!("{missing} events do") }
        );
    }
}
