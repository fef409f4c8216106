//! Batches of sets: a consumer is woken once, by the last write to it, and not by each of them.

use crate::Effect;
use crate::directory::ANY;
use std::collections::BTreeMap;

/// The last write of a batch to each node: it has not begun yet, because it may have to announce others.
#[derive(Debug, Default)]
pub(crate) struct Batch(BTreeMap<usize, Effect>);

impl Batch {
    /// Holds back a write to node `to`. The one before it begins, without a hint.
    pub(crate) fn hold(&mut self, to: usize, write: Effect, out: &mut Vec<Effect>) {
        let Some(mut before) = self.0.insert(to, write) else { return };
        hint_of(&mut before, None);
        out.push(before);
        self.0.get_mut(&to).into_iter().for_each(|write| hint_of(write, Some(ANY)));
    }

    /// Begins the writes that were held back, with their hints.
    pub(crate) fn release(&mut self, out: &mut Vec<Effect>) {
        out.extend(std::mem::take(&mut self.0).into_values());
    }
}

fn hint_of(write: &mut Effect, new: Option<u32>) {
    if let Effect::Write { hint, .. } = write {
        *hint = new;
    }
}
