//! What channel engines say to each other.

use bytes::Bytes;
use intendant_core::{Key, NodeId, WorkerId};

/// An operation of a worker; unique among the outstanding ones of that worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpId(pub u32);

/// Who waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The node of the worker: answers go straight there.
    pub node: NodeId,
    /// The worker.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
}

/// What is done to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// Read.
    Pull = 0,
    /// Add.
    Push = 1,
    /// Overwrite.
    Set = 2,
}

/// Access to values, on its way to their owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who waits for it.
    pub origin: Origin,
    /// What to do.
    pub kind: AccessKind,
    /// How often it has been forwarded.
    pub hops: u8,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its position in the worker's call; answers name keys by it.
    pub positions: Vec<u32>,
    /// For a push or set, the elements of all keys, little-endian, concatenated. Empty for a pull.
    pub values: Bytes,
}

/// The owner's answer to (a part of) a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The worker.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// What was done.
    pub kind: AccessKind,
    /// For which positions of the worker's call.
    pub positions: Vec<u32>,
    /// With location caches, per position the relocation counter of the key: the sender owned it when the counter was this.
    /// Empty without.
    pub counters: Vec<u32>,
    /// For a pull, the elements of all these positions. Empty for a push or set.
    pub values: Bytes,
}

/// Asks the home of keys to move them to the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Localize {
    /// The keys.
    pub keys: Vec<Key>,
}

/// The home tells the owner of keys to hand them over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocate {
    /// The next owner.
    pub to: NodeId,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter once it has moved.
    pub counters: Vec<u32>,
}

/// Values, and the responsibility for them, from the old owner to the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter from now on.
    pub counters: Vec<u32>,
    /// The elements of all values, little-endian, concatenated.
    pub values: Bytes,
}

/// The sender tells the home of keys that it owns them now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter.
    pub counters: Vec<u32>,
}

/// Where a snapshot stream continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Shard.
    pub shard: u32,
    /// Position within the shard.
    pub position: u64,
}

/// Asks a node for the next part of the values that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Who waits for it.
    pub origin: Origin,
    /// First key wanted.
    pub start: Key,
    /// End of the keys wanted, excluded.
    pub end: Key,
    /// Where to continue.
    pub cursor: Cursor,
    /// Values in bytes after which the part ends.
    pub bytes_max: u32,
}

/// A part of the values that a node owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPart {
    /// The worker that asked.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// Where the next part starts, or `None` if this is the last one.
    pub next: Option<Cursor>,
    /// The keys of this part.
    pub keys: Vec<Key>,
    /// Their elements.
    pub values: Bytes,
}

/// A message of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Towards an owner.
    Request(Request),
    /// Back to the requester.
    Response(Response),
    /// Towards an owner.
    SnapshotRequest(SnapshotRequest),
    /// Back to the requester.
    SnapshotPart(SnapshotPart),
    /// Requester to home.
    Localize(Localize),
    /// Home to owner.
    Relocate(Relocate),
    /// Old owner to new owner.
    HandOver(HandOver),
    /// New owner to home.
    Moved(Moved),
}
