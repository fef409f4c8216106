//! What the sampling manager sees of its node.

use intendant_core::{Key, Tick};

/// What the sampling manager sees of its node. Asked while samples are prepared and drawn; answers may be
/// outdated at once.
pub trait Locality {
    /// Whether this node can access the key without a message.
    fn is_local(&self, key: Key) -> bool;

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

    fn now(&self) -> Tick {
        Tick(0)
    }
}
