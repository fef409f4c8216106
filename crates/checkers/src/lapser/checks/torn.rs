//! A get returns a value that one set has set, with its clock.

use intendant_sim::Finding;
use std::collections::BTreeMap;

/// The value of a key that is set at `clock`. Every word depends on key, clock and position, so that a
/// mixture of two values is no value.
pub(crate) fn value_of(key: u64, clock: u64, value: &mut [u64]) {
    for (position, word) in value.iter_mut().enumerate() {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ clock.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        *word = (mixed ^ position as u64).wrapping_mul(0x1656_67b1_9e37_79f9);
    }
}

/// The clock of the last set of each key. A key is set at 1, 2, 3 and so on.
#[derive(Default)]
pub(crate) struct Sets(BTreeMap<u64, u64>);

impl Sets {
    pub(crate) fn set(&mut self, key: u64, clock: u64) {
        self.0.insert(key, clock);
    }

    pub(crate) fn last(&self, key: u64) -> u64 {
        self.0.get(&key).copied().unwrap_or(0)
    }

    /// Checks what a get returned.
    pub(crate) fn got(&self, node: usize, key: u64, clock: u64, value: &[u64]) -> Result<(), Finding> {
        let finding =
            |what: String| Err(("torn", format!("n{node} gets key {key} at clock {clock}: {what}")));
        let last = self.last(key);
        if clock > last {
            return finding(format!("it was set up to clock {last}"));
        }
        let mut expected = vec![0; value.len()];
        if clock > 0 {
            value_of(key, clock, &mut expected);
        }
        if value != expected {
            return finding(format!("the value is {value:x?}, which no set has set at this clock"));
        }
        Ok(())
    }
}
