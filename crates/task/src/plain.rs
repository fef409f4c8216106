//! Rows of plain memory.

use crate::task::Rows;
use intendant_core::Key;
use intendant_store::Row;

/// The rows of a batch, in plain memory: for programs without a parameter server, and tests of tasks.
#[derive(Debug)]
pub struct PlainRows<'a, E> {
    /// The keys of the batch, by position.
    pub keys: &'a [Key],
    /// The values of all keys.
    pub values: &'a mut [Vec<E>],
}

impl<E> Rows<E> for PlainRows<'_, E> {
    fn row(&mut self, at: usize) -> Row<'_, E> {
        Row::unshared(&mut self.values[self.keys[at].index()])
    }

    fn prefetch(&self, _at: usize) {}
}
