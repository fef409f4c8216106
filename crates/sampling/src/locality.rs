//! What the sampling manager sees of its node.

use intendant_core::{Key, Tick};

/// What the sampling manager sees of its node. Asked while samples are prepared and drawn; answers may be
/// outdated at once.
pub trait Locality {
    /// Whether this node can access the key without a message.
    fn is_local(&self, key: Key) -> bool;

    /// Whether this node has the main copy of the key. At any time, this holds on one node at most; it holds
    /// on none while the key is on its way.
    fn owns(&self, key: Key) -> bool;

    /// Number of nodes among which the keys are divided.
    fn nodes(&self) -> u32;

    /// The time on this node, in microseconds.
    fn now(&self) -> Tick;
}

/// A node that holds all keys: shared memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Locality for Everything {
    fn is_local(&self, _key: Key) -> bool {
        true
    }

    fn owns(&self, _key: Key) -> bool {
        true
    }

    fn nodes(&self) -> u32 {
        1
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}
