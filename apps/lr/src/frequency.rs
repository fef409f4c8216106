//! How often keys are accessed in an epoch.
//!
//! A batch accesses each of its features once. The rows of a batch differ from epoch to epoch; numbers of
//! accesses are averages over all orders. Rows are dealt out at random, so that any node may need any feature
//! that more than one row has.

use crate::data::Dataset;
use intendant_core::Key;
use intendant_task::{Frequency, expected_batches};

/// Frequencies of all keys that are accessed.
pub(crate) fn frequencies(data: &Dataset, intercept: bool, batch: usize, nodes: u32) -> Vec<Frequency> {
    let rows = data.train().len() as u64;
    let frequency = |(key, uses): (u64, u64)| Frequency {
        key: Key(key),
        accesses: expected_batches(rows, batch as u64, uses),
        uses,
        shared: nodes > 1 && uses > 1,
    };
    let features = (0..).zip(data.uses().iter().map(|uses| u64::from(*uses)));
    let intercept = intercept.then_some((u64::from(data.features()), rows));
    features.chain(intercept).filter(|(_, uses)| *uses > 0).map(frequency).collect()
}
