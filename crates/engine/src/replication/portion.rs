//! How much of a round a channel does in one input.

use crate::channel::core::Core;
use crate::outgoing::buffers::Room;
use intendant_core::{Element, Key};

/// The largest number of keys of a portion. It limits portions with small values: 4,096 keys take a fraction
/// of a millisecond.
const KEYS_MAX: usize = 4_096;

/// What is left of a portion of a round. The accesses of other nodes wait while a channel handles an input,
/// so a round of many replicas must not be a single input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// Keys that are overdue: they are processed even if the portion exceeds its limits.
    overdue: usize,
    keys: usize,
    /// Bytes of values.
    bytes: usize,
}

impl Portion {
    /// No limit.
    pub(crate) fn all() -> Self {
        Self { overdue: usize::MAX, keys: usize::MAX, bytes: usize::MAX }
    }

    /// The share of one input, with values of `bytes` bytes or `overdue` keys, whichever is more.
    pub(crate) fn of_an_input(bytes: usize, overdue: usize) -> Self {
        Self { overdue, keys: KEYS_MAX, bytes }
    }

    /// A key has been processed, and values of `bytes` bytes were sent. A caller that stops at
    /// [`Portion::is_used_up`] exceeds the portion by one key at most.
    pub(crate) fn use_up(&mut self, bytes: usize) {
        self.overdue = self.overdue.saturating_sub(1);
        self.keys = self.keys.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.overdue == 0 && (self.keys == 0 || self.bytes == 0)
    }

    /// Memory for one other node's share of the portion, if `keys` are to be processed.
    pub(crate) fn room<E: Element>(&self, core: &Core<E>, keys: &[Key]) -> Room {
        let most = self.keys.max(self.overdue);
        let Room { keys, bytes } = core.share(&keys[..keys.len().min(most)]);
        let bytes = if self.overdue == 0 { bytes.min(self.bytes) } else { bytes };
        Room { keys, bytes }
    }
}
