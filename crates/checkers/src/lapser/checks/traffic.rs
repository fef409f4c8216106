//! Pushes are sets × consumers, or, by slack, those without which a consumer's copy would be too old. Nothing
//! is read while a copy is new enough, and an item is not read twice at a time.

use intendant_lapser::{Directory, Variant};
use intendant_sim::Finding;
use std::collections::BTreeMap;

/// What a consumer of an item was written.
#[derive(Default)]
struct Pushed {
    /// Clock up to which the rule wants the consumer to know the item.
    clock: u64,
    wanted: u64,
    written: u64,
}

pub(crate) struct Traffic {
    variant: Variant,
    /// By key and consumer.
    pushed: BTreeMap<(u64, usize), Pushed>,
    /// By node and key: the newest clock that the node has returned.
    known: BTreeMap<(usize, u64), u64>,
    /// Reads in flight, by node and number: the key.
    reading: BTreeMap<(usize, u64), u64>,
}

impl Traffic {
    pub(crate) fn new(variant: Variant) -> Self {
        Self { variant, pushed: BTreeMap::new(), known: BTreeMap::new(), reading: BTreeMap::new() }
    }

    /// A value was set.
    pub(crate) fn set(&mut self, directory: &Directory, key: u64, clock: u64) {
        for (node, slack) in directory.consumers(key) {
            let pushed = self.pushed.entry((key, node)).or_default();
            let due = match self.variant {
                Variant::Push => true,
                Variant::PushBySlack => clock - pushed.clock > slack,
                Variant::Pull => false,
            };
            if due {
                (pushed.clock, pushed.wanted) = (clock, pushed.wanted + 1);
            }
        }
    }

    /// A write of an item's slot to a consumer begins.
    pub(crate) fn writes(&mut self, key: u64, node: usize) {
        self.pushed.entry((key, node)).or_default().written += 1;
    }

    /// A get has returned a value.
    pub(crate) fn got(&mut self, node: usize, key: u64, clock: u64) {
        let known = self.known.entry((node, key)).or_insert(0);
        *known = clock.max(*known);
    }

    /// A read begins, for gets and prefetches that need the clocks `wanted`.
    pub(crate) fn reads(
        &mut self,
        node: usize,
        key: u64,
        id: u64,
        wanted: impl Iterator<Item = u64>,
    ) -> Result<(), Finding> {
        let finding = |what: String| Err(("traffic", format!("n{node} reads key {key}, {what}")));
        if self.variant == Variant::Push {
            return finding("which is pushed".to_owned());
        }
        if self.reading.iter().any(|((by, _), of)| *by == node && *of == key) {
            return finding("which it reads already".to_owned());
        }
        self.reading.insert((node, id), key);
        let known = self.known.get(&(node, key)).copied().unwrap_or(0);
        match wanted.max() {
            None => finding("which no worker needs".to_owned()),
            Some(wanted) if wanted <= known => {
                finding(format!("of which it has clock {known} and needs clock {wanted}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// An operation of a node has ended.
    pub(crate) fn ended(&mut self, node: usize, id: u64) {
        self.reading.remove(&(node, id));
    }

    /// At the end of a run in which no node died.
    pub(crate) fn end(&self) -> Result<(), Finding> {
        for ((key, node), pushed) in &self.pushed {
            let Pushed { wanted, written, .. } = pushed;
            if wanted != written {
                return Err((
                    "traffic",
                    format!("key {key} was written {written} times to n{node}; its sets require {wanted}"),
                ));
            }
        }
        Ok(())
    }
}
