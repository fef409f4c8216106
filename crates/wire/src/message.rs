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
    /// Who holds replicas of these keys: at most one row per key and node, ascending by key, then node.
    pub holders: Vec<HolderRow>,
    /// The elements of all values, little-endian, concatenated.
    pub values: Bytes,
}

/// Who holds a replica of a key that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderRow {
    /// Which of the keys of the message, from 0.
    pub at: u32,
    /// Version of the main copy.
    pub version: u32,
    /// The holder.
    pub node: NodeId,
    /// Generation of its registration.
    pub generation: u32,
    /// Number of its last delta that was merged.
    pub seq: u32,
}

/// The sender tells the home of keys that it owns them now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter.
    pub counters: Vec<u32>,
}

/// A node tells the home of keys of intents of its workers, where homes decide what comes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentReport {
    /// Keys for which intents have become active.
    pub begun: Vec<Key>,
    /// Keys for which intents are over, maybe some that this message has begun.
    pub over: Vec<Key>,
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

/// What the holder of a replica wants from the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReplicaRequestKind {
    /// A copy, or a fresher one.
    Ask = 0,
    /// That the updates of its copy are merged.
    Delta = 1,
    /// To give up its copy.
    Drop = 2,
}

/// From a holder of replicas to the owners of the keys; forwarded like a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRequest {
    /// What it is about.
    pub kind: ReplicaRequestKind,
    /// The node that holds the replicas: news go straight there.
    pub holder: NodeId,
    /// How often it has been forwarded.
    pub hops: u8,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, the generation of the holder's registration.
    pub generations: Vec<u32>,
    /// Per key: to ask, the worker clock up to which the copy must have every update (0: any copy will do); of a delta, its
    /// number within the generation, from 1. Empty to drop.
    pub numbers: Vec<u32>,
    /// Of a delta, the elements of all keys, little-endian, concatenated. Else empty.
    pub values: Bytes,
}

/// What the owner tells the holder of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReplicaUpdateKind {
    /// The first value of a registration.
    SetUp = 0,
    /// A newer value.
    Refresh = 1,
    /// The delta was merged and nothing else has happened, so no value.
    Acknowledged = 2,
    /// The registration is gone.
    Dropped = 3,
}

/// From the owner of keys to a holder of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaUpdate {
    /// What it is about.
    pub kind: ReplicaUpdateKind,
    /// With bounded staleness, the worker clock up to which the owner has every update; else 0.
    pub clock: u32,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, the generation of the registration that this is about.
    pub generations: Vec<u32>,
    /// Per key, the number of the holder's last delta that was merged. Empty when dropped.
    pub seqs: Vec<u32>,
    /// Per key, the version of the main copy. Empty when dropped.
    pub versions: Vec<u32>,
    /// With location caches, per key its relocation counter: the sender owned it when the counter was this. Empty without.
    pub counters: Vec<u32>,
    /// Of a set-up or refresh, the elements of all keys, little-endian, concatenated. Else empty.
    pub values: Bytes,
}

/// Whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ClockScope {
    /// The slowest worker of the sending node; all updates from before that clock were sent before this message.
    Node = 0,
    /// The slowest node, as far as the sender knows; all its news from before that clock were sent before this message.
    Global = 1,
    /// All workers: they came from a meeting. What the sender's workers added before it was sent before this message; the clock
    /// with which they came follows.
    Resumed = 2,
}

/// How far workers have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Which workers.
    pub scope: ClockScope,
    /// Clock of the slowest of them; `u32::MAX` if nobody is working. 0 for those who come from a meeting.
    pub clock: u32,
}

/// A part of what a node sends to another in one step of an all-reduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// Which all-reduce.
    pub round: u32,
    /// Which step of it.
    pub step: u8,
    /// Whether this is the last part of the step.
    pub last: bool,
    /// Indices into the list of static keys, ascending.
    pub indices: Vec<u32>,
    /// The elements of these keys, little-endian, concatenated.
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
    /// Holder of replicas to owner.
    ReplicaRequest(ReplicaRequest),
    /// Owner to holder of replicas.
    ReplicaUpdate(ReplicaUpdate),
    /// Node to node.
    Clock(Clock),
    /// Node to node, within an all-reduce.
    Reduce(Reduce),
    /// Node to home.
    IntentReport(IntentReport),
}
