//! Copies of rows that the node cannot lend.

use intendant_core::Key;

/// Marks a position whose row is lent.
pub(super) const LENT: usize = usize::MAX;

/// Copies of the rows of a call that the node cannot lend. The memory is reused from call to call.
pub(super) struct Fetched<E> {
    /// For each position of the call, the offset of its copy in `values`, or [`LENT`]; empty if there are no
    /// copies.
    pub(super) places: Vec<usize>,
    /// Keys that were pulled and whose rows are lent nevertheless.
    pub(super) pulled_and_lent: usize,
    /// The positions that have copies, in the order of the copies, and the keys at these positions.
    pub(super) positions: Vec<u32>,
    pub(super) keys: Vec<Key>,
    /// The copies, and the values that were pulled.
    pub(super) values: Vec<E>,
    pub(super) pulled: Vec<E>,
}

impl<E> Default for Fetched<E> {
    fn default() -> Self {
        let (places, positions, keys) = (Vec::new(), Vec::new(), Vec::new());
        Self { places, pulled_and_lent: 0, positions, keys, values: Vec::new(), pulled: Vec::new() }
    }
}
