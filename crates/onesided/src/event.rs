//! What a window reports.

/// Number of different hints.
pub const HINTS: u32 = 1 << 16;

/// An event of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The operation with this id has ended, and its memory is the caller's again. A write counts as done
    /// when the window no longer needs this node's memory; the other node may see it a little later.
    Done(u64),
    /// The operation with this id has not completed, and its memory is the caller's again. A part of it may
    /// have been copied.
    Failed {
        /// The id that the caller gave.
        id: u64,
        /// The other node.
        node: usize,
        /// Why.
        reason: String,
    },
    /// Another node has written something to this node's segment, and has sent this hint with it.
    Hint(u32),
    /// A node has ended or has dropped its window, or cannot be reached any more. Its hints come before this
    /// event.
    Closed {
        /// The node.
        node: usize,
        /// Why, as far as this node knows.
        reason: String,
    },
}
