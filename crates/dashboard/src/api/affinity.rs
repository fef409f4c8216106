//! Affinity of keys to nodes.

use super::{RangeName, question, shortened};
use crate::answer::Refusal;
use crate::library::Loaded;
use intendant_analysis::Affinity;
use serde::{Deserialize, Serialize};

/// Keys of a table.
const KEYS_MAX: usize = 200;

#[derive(Debug, Deserialize)]
pub(super) struct Question {
    keys: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Table {
    nodes: u16,
    rows: Vec<Row>,
    /// What was asked for and is no key of the run, and why: the other keys are shown nevertheless.
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
    if named.len() > KEYS_MAX {
        return Err(Refusal::wrong(format!("a table has at most {KEYS_MAX} keys")));
    }
    let (mut keys, mut refused) = (Vec::new(), Vec::new());
    for name in named {
        match question::key(run, name) {
            Ok(key) => keys.push(key),
            Err(refusal) => refused.push((shortened(name.trim()), refusal.reason().to_owned())),
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
