//! What callers and peers can do wrong.

use intendant_core::{Key, NodeId};

/// A call that is refused as a whole: nothing was read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A key that the layout does not have.
    #[error("key {key} at position {position} does not exist: keys are 0 to {last}")]
    KeyOutOfRange {
        /// The key.
        key: Key,
        /// Its position in the call.
        position: usize,
        /// The last key that exists.
        last: Key,
    },
    /// Values that do not have the length that the layout gives them.
    #[error("{keys} keys have values of {expected} elements together, but the buffer has {found}")]
    ValueLength {
        /// Number of keys in the call.
        keys: usize,
        /// Elements of their values.
        expected: usize,
        /// Elements passed.
        found: usize,
    },
    /// More keys than one call may have.
    #[error("a call with {keys} keys; at most {max} are allowed, split it")]
    TooManyKeys {
        /// Number of keys in the call.
        keys: usize,
        /// The largest allowed number.
        max: usize,
    },
}

/// A peer broke the protocol. The link to it cannot be trusted any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {from} broke the protocol: {what}")]
pub struct Violation {
    /// The peer.
    pub from: NodeId,
    /// What it did.
    pub what: String,
}
