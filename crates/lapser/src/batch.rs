//! Batches of sets: the last write to a consumer wakes it once; the other writes do not wake it.

use crate::Effect;
use crate::directory::ANY;
use std::collections::BTreeMap;

/// A write that has not begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) to: usize,
    pub(crate) local: usize,
    pub(crate) remote: usize,
    pub(crate) words: usize,
    pub(crate) hint: Option<u32>,
    pub(crate) id: u64,
}

impl From<Write> for Effect {
    fn from(Write { to, local, remote, words, hint, id }: Write) -> Self {
        Self::Write { to, local, remote, words, hint, id }
    }
}

/// For each node, the last write of a batch. The batch holds it back, because its hint may have to announce
/// other writes.
#[derive(Debug, Default)]
pub(crate) struct Batch(BTreeMap<usize, Write>);

impl Batch {
    /// Holds back a write. The previous held-back write to the same node begins, without a hint.
    pub(crate) fn hold(&mut self, mut write: Write, out: &mut Vec<Effect>) {
        if let Some(before) = self.0.remove(&write.to) {
            out.push(Write { hint: None, ..before }.into());
            write.hint = Some(ANY);
        }
        self.0.insert(write.to, write);
    }

    /// Begins the held-back writes from word `local`, with their hints.
    pub(crate) fn release(&mut self, local: usize, out: &mut Vec<Effect>) {
        self.0.retain(|_, write| {
            let stays = write.local != local;
            if !stays {
                out.push(Effect::from(*write));
            }
            stays
        });
    }

    /// Begins all held-back writes.
    pub(crate) fn end(self, out: &mut Vec<Effect>) {
        out.extend(self.0.into_values().map(Effect::from));
    }

    /// Removes the held-back write to a node.
    pub(crate) fn drop_write(&mut self, to: usize) -> Option<Write> {
        self.0.remove(&to)
    }
}
