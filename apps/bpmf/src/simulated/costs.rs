//! Durations of the operations of a node's thread, and the bytes of transfers.

use bpmf::{Item, Model};
use intendant_segment::slot;
use intendant_sim::Machine;
use intendant_train::Simulation;
use std::sync::Arc;

/// Durations and bytes at the charged rank: the chain may have fewer factors than the cost model assumes.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    model: Arc<Model>,
    machine: Machine,
    /// Number of factors that the cost model assumes.
    rank: u64,
}

impl Costs {
    pub(super) fn new(model: &Arc<Model>, simulation: &Simulation) -> Self {
        let rank = (model.config().rank as f64 * simulation.charge).round().max(1.0) as u64;
        Self { model: Arc::clone(model), machine: simulation.delays.machine, rank }
    }

    /// Drawing an item.
    pub(super) fn draw_ns(&self, item: Item) -> u64 {
        self.arithmetic_ns(self.model.multiply_adds(item, self.rank))
    }

    /// Predicting the held-out entries of a row of U.
    pub(super) fn predict_ns(&self, row: u32) -> u64 {
        self.arithmetic_ns(self.model.tested_of(row) as u64 * self.rank)
    }

    /// Words of an item's value at the charged rank.
    fn words(&self, item: Item) -> u64 {
        let triangle = self.rank * (self.rank + 1) / 2;
        match item {
            Item::Row(..) => self.rank,
            Item::Statistics(..) => 1 + self.rank + triangle,
            Item::Hyperparameters(_) => self.rank + triangle,
        }
    }

    /// Bytes of an item's value.
    pub(super) fn value_bytes(&self, item: Item) -> u64 {
        8 * self.words(item)
    }

    /// Bytes of an item's slot.
    pub(super) fn slot_bytes(&self, item: Item) -> u64 {
        8 * slot::words(self.words(item) as usize) as u64
    }

    /// A get whose copy has not changed.
    pub(super) fn call_ns(&self) -> u64 {
        self.machine.call_ns
    }

    /// A set, or taking an image that has arrived: a copy and a checksum.
    pub(super) fn checked_ns(&self, item: Item) -> u64 {
        let each_ps = self.machine.byte_ps + self.machine.channel_byte_ps;
        self.machine.call_ns + self.value_bytes(item) * each_ps / 1_000
    }

    /// Copying a value, without a checksum.
    pub(super) fn copied_ns(&self, item: Item) -> u64 {
        self.value_bytes(item) * self.machine.byte_ps / 1_000
    }

    /// Beginning an operation.
    pub(super) fn begin_ns(&self) -> u64 {
        self.machine.send_ns
    }

    /// Handling a completion or a notification.
    pub(super) fn input_ns(&self) -> u64 {
        self.machine.input_ns
    }

    fn arithmetic_ns(&self, multiply_adds: u64) -> u64 {
        multiply_adds * self.machine.multiply_add_ps / 1_000
    }
}
