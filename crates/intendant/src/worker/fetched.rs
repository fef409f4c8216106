//! Copies of rows that are not here.

use intendant_core::Key;

/// Marks a position whose row is lent.
pub(super) const LENT: usize = usize::MAX;

/// Copies of the rows of a call that are not here. The memory is kept from call to call.
pub(super) struct Fetched<E> {
    /// By position of the call, where its copy begins, or [`LENT`]; empty if there are no copies.
    pub(super) places: Vec<usize>,
    /// Keys that were pulled and whose rows are lent nevertheless.
    pub(super) pulled_and_lent: usize,
    /// The positions that have copies, in the order of the copies; and their keys.
    pub(super) positions: Vec<u32>,
    pub(super) keys: Vec<Key>,
    /// The copies, and what was pulled.
    pub(super) values: Vec<E>,
    pub(super) pulled: Vec<E>,
}

impl<E> Default for Fetched<E> {
    fn default() -> Self {
        let (places, positions, keys) = (Vec::new(), Vec::new(), Vec::new());
        Self { places, pulled_and_lent: 0, positions, keys, values: Vec::new(), pulled: Vec::new() }
    }
}
