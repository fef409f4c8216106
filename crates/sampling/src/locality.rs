//! What the sampling manager sees of its node.

use crate::NearKeys;
use intendant_core::{Key, Tick};

/// What the sampling manager sees of its node. The manager calls these methods while it prepares and draws
/// samples. Answers may be outdated at once.
pub trait Locality {
    /// Whether this node can access the key without a message.
    fn is_local(&self, key: Key) -> bool;

    /// This node's part of the key, in N-th parts, where N is [`Locality::nodes`]. The parts of all nodes add
    /// up to one, except while copies are set up, dropped or moved. So if each node draws a key in proportion
    /// to its part, all nodes together draw it as often as one node that holds all keys.
    fn part(&self, key: Key) -> u32;

    /// [`Locality::part`] of each of `keys`, written to the same position of `parts`.
    fn find_parts(&self, keys: &[Key], parts: &mut [u32]) {
        keys.iter().zip(parts).for_each(|(key, part)| *part = self.part(*key));
    }

    /// The keys that this node may draw, if it keeps a list of them. If it does not, the manager draws from π
    /// until it finds keys of which the node has a part, which takes N draws on N nodes.
    fn near(&self) -> Option<&NearKeys> {
        None
    }

    /// Number of nodes, N.
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

    fn part(&self, _key: Key) -> u32 {
        1
    }

    fn nodes(&self) -> u32 {
        1
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}
