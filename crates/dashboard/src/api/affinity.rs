//! Affinity of keys to nodes.

use super::texts::{RangeName, shortened};
use super::{question, selection};
use crate::answer::Refusal;
use crate::library::Loaded;
use intendant_analysis::Affinity;
use intendant_trace::Filter;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Keys of a table.
const KEYS_MAX: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    keys: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Table {
    nodes: u16,
    rows: Vec<Row>,
    /// The parts of the question that name no key of the run, each with the reason. The other keys are shown
    /// nevertheless.
    refused: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
struct Row {
    key: String,
    range: RangeName,
    share: Vec<f64>,
    moving_share: f64,
    replica_share: Vec<f64>,
    relocations: Vec<u32>,
}

pub(super) fn of(run: &Loaded, question: &Question) -> Result<Table, Refusal> {
    let named: Vec<&str> = question.keys.split(',').filter(|key| !key.trim().is_empty()).collect();
    if named.is_empty() {
        return Err(Refusal::wrong("no keys are named; write some, such as ?keys=7,100..110"));
    }
    let too_many = || Refusal::wrong(format!("a table has at most {KEYS_MAX} keys"));
    let (mut keys, mut refused) = (Vec::new(), Vec::new());
    for name in named {
        let found = if name.contains("..") {
            range(run, name)
        } else {
            question::key(run, name).map(|key| vec![key])
        };
        match found {
            Ok(found) => keys.extend(found),
            Err(refusal) => refused.push((shortened(name.trim()), refusal.reason().to_owned())),
        }
        if keys.len() + refused.len() > KEYS_MAX {
            return Err(too_many());
        }
    }
    let row = |affinity: Affinity| Row {
        key: affinity.key.to_string(),
        range: RangeName::of(run, affinity.key),
        share: affinity.share,
        moving_share: affinity.moving_share,
        replica_share: affinity.replica_share,
        relocations: affinity.relocations,
    };
    let rows = run.allocation.affinity(&keys).into_iter().map(row).collect();
    Ok(Table { nodes: run.allocation.run().header().nodes, rows, refused })
}

/// The keys of the run in a range, at most one more than a table may have.
fn range(run: &Loaded, text: &str) -> Result<Vec<u64>, Refusal> {
    let Filter::Keys(ranges) = selection::filter(text)? else {
        return Err(Refusal::wrong(format!("{:?} is no range of keys", shortened(text))));
    };
    let all = run.allocation.keys();
    let of = |range: Range<u64>| {
        let (first, count) = (all.count_in(0..range.start), all.count_in(range));
        (first..first + count).filter_map(|at| all.nth(at))
    };
    let keys: Vec<u64> = ranges.into_iter().flat_map(of).take(KEYS_MAX + 1).collect();
    if keys.is_empty() {
        return Err(Refusal::missing(format!("no key of {} is in this trace", shortened(text.trim()))));
    }
    Ok(keys)
}
