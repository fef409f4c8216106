//! A hint comes after the data that it announces, and announces all of it. (A node does not rely on it. But
//! a hint that comes before is of no use, nor is that of one item for several: gets wait until the next
//! look.)

use intendant_segment::slot::{self, Torn};
use intendant_sim::Finding;
use std::collections::BTreeSet;

/// Checks the image of the slot to which a write with a hint went, when the hint arrives. `clock` is that of
/// the producer's value when the write began; `is_landing` says that a later write lands.
pub(crate) fn check(
    (node, key): (usize, u64),
    incarnation: u64,
    value_words: usize,
    image: &[u64],
    clock: u64,
    is_landing: bool,
) -> Result<(), Finding> {
    let finding = |what: String| {
        Err(("hinted", format!("a hint announces clock {clock} of key {key} to n{node}, whose slot {what}")))
    };
    match slot::decode(incarnation, key, value_words, image) {
        Ok(found) if found >= clock => Ok(()),
        Ok(found) => finding(format!("has clock {found}")),
        Err(Torn::Changed) if is_landing => Ok(()),
        Err(torn) => finding(format!("has no value: {torn}")),
    }
}

/// Checks the hint of a write, which announces those before it that had none as well. `unhinted` are the
/// nodes with such writes, and `own` is the hint of the item. Returns whether there were any.
pub(crate) fn check_batch(
    unhinted: &mut BTreeSet<usize>,
    node: usize,
    to: usize,
    hint: Option<u32>,
    own: Option<u32>,
) -> Result<bool, Finding> {
    let Some(hint) = hint else {
        unhinted.insert(to);
        return Ok(false);
    };
    let several = unhinted.remove(&to);
    let expected = if several { SEVERAL } else { own.unwrap_or(SEVERAL) };
    if hint != expected {
        return Err(("hinted", format!("n{node} gives n{to} hint {hint}; what it has set has {expected}")));
    }
    Ok(several)
}

/// The hint at several items.
const SEVERAL: u32 = 0;
