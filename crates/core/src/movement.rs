//! Whether keys come to the nodes that use them.

/// Whether keys come to the nodes that use them, and what brings them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Movement {
    /// Keys stay where they are.
    Never,
    /// A key moves to the node that requested it last. Keys that several nodes use go back and forth.
    Requested,
    /// The system moves a key to a node that intends to use it, or gives copies to several such nodes. A
    /// single node always has all keys, which looks the same to a worker.
    Intended,
}
