//! Events, and how they are written: records of 32 bytes.

use intendant_core::{ChannelId, Key, NodeId, Tick};
use std::fmt;

/// The key in the record of an event without a key.
const NO_KEY: u64 = u64::MAX;

/// Something that happened at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the node's own clock.
    pub at: Tick,
    /// The channel that noticed it.
    pub channel: ChannelId,
    /// The key; `None` if the event concerns no key.
    pub key: Option<Key>,
    /// What happened.
    pub what: What,
}

/// How a worker accesses a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads the value.
    Pull,
    /// It adds to the value.
    Push,
    /// It replaces the value.
    Set,
}

/// Why an owner hands a key over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The next owner has asked for it.
    Asked,
    /// The active intent of this node has begun.
    Began(NodeId),
    /// The active intent of this node has ended.
    Ended(NodeId),
    /// The key's home, or the caller, has ordered it.
    Ordered,
}

/// A milestone of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An epoch has ended. The event has the number of the epoch, from 1.
    Epoch,
    /// A checkpoint was made. The event has the number of the checkpoint.
    Checkpoint,
}

/// What happened at a node. An event concerns a key, unless its variant says otherwise. Durations are in
/// microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The first active intent of this node has begun.
    IntentBegan,
    /// The last active intent of this node has ended.
    IntentEnded,
    /// This node has asked for the key to move here.
    Asked,
    /// The key was owned here and moves to another node.
    Left {
        /// The next owner.
        to: NodeId,
        /// Why.
        cause: Cause,
    },
    /// The key is owned here from now on.
    Arrived {
        /// The previous owner.
        from: NodeId,
        /// The time since this node asked for the key; 0 if it did not ask.
        after: u64,
    },
    /// A replica was set up here.
    ReplicaSetUp,
    /// The replica here was dropped.
    ReplicaDropped,
    /// This owner has registered a replica elsewhere.
    HolderAdded {
        /// The node that holds the replica.
        holder: NodeId,
    },
    /// Another node no longer has a replica of a key that this node owns.
    HolderRemoved {
        /// The node that held the replica.
        holder: NodeId,
    },
    /// This node is the home of the key and has ordered the key to move to another node.
    Ordered {
        /// The next owner.
        to: NodeId,
    },
    /// Another node served an access of a worker of this node. The access has no other event.
    Remote {
        /// The kind of access.
        access: Access,
        /// The node that answered.
        by: NodeId,
        /// The time since this node first handled the access.
        after: u64,
    },
    /// This node served an access of its own worker, but not at once: the key or a copy was on its way, or
    /// the copy was too old.
    Waited {
        /// The kind of access.
        access: Access,
        /// The time since this node first handled the access.
        after: u64,
    },
    /// A worker has accessed a key that this node had asked for and that has left again.
    Conflict,
    /// In one turn of a channel, this node has sent, received or agreed on updates of copies; about no key.
    Synced {
        /// The number of values.
        values: u64,
    },
    /// This node has sent the other nodes the clock that all its workers have reached; about no key.
    Clock {
        /// The clock.
        clock: u32,
    },
    /// This node has sent messages to another node since the last such event; about no key.
    Sent {
        /// The node.
        to: NodeId,
        /// The number of bytes of the messages' contents.
        bytes: u64,
    },
    /// This node has come to a meeting of all nodes (a barrier); about no key. No node goes on before all
    /// nodes have come.
    Came {
        /// The number of the meeting.
        meeting: u64,
    },
    /// This node goes on after a meeting of all nodes; about no key.
    WentOn {
        /// The number of the meeting.
        meeting: u64,
    },
    /// A milestone of the run; about no key.
    Marked {
        /// The kind of milestone.
        mark: Mark,
        /// Its number.
        number: u64,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntentBegan => f.write_str("intent here begins"),
            Self::IntentEnded => f.write_str("intent here is over"),
            Self::Asked => f.write_str("is asked for"),
            Self::Left { to, cause } => {
                write!(f, "moves to node {to}, ")?;
                match cause {
                    Cause::Asked => f.write_str("which has asked for it"),
                    Cause::Began(_) => f.write_str("whose intent has begun"),
                    Cause::Ended(node) => {
                        write!(f, "the only one with intent: that of node {node} is over")
                    }
                    Cause::Ordered => f.write_str("as its home has ordered"),
                }
            }
            Self::Arrived { from, .. } => write!(f, "comes from node {from}"),
            Self::ReplicaSetUp => f.write_str("is replicated here"),
            Self::ReplicaDropped => f.write_str("is not replicated here any more"),
            Self::HolderAdded { holder } => write!(f, "node {holder} gets a replica"),
            Self::HolderRemoved { holder } => write!(f, "node {holder} gives its replica up"),
            Self::Ordered { to } => write!(f, "is ordered to node {to}, the only one with intent"),
            Self::Remote { access, by, after } => {
                write!(f, "{access}: node {by} answers after {}", Micros(*after))
            }
            Self::Waited { access, after } => write!(f, "{access}: waits for {}", Micros(*after)),
            Self::Conflict => f.write_str("is gone again before it is accessed"),
            Self::Synced { values } => write!(f, "{values} values are synchronised"),
            Self::Clock { clock } => write!(f, "all workers here have reached clock {clock}"),
            Self::Sent { to, bytes } => write!(f, "{bytes} bytes were sent to node {to}"),
            Self::Came { meeting } => write!(f, "this node comes to meeting {meeting}"),
            Self::WentOn { meeting } => write!(f, "this node goes on after meeting {meeting}"),
            Self::Marked { mark: Mark::Epoch, number } => write!(f, "epoch {number} ends"),
            Self::Marked { mark: Mark::Checkpoint, number } => write!(f, "checkpoint {number} is made"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Set => "set",
        })
    }
}

/// The parts of a record that differ from kind to kind.
#[derive(Clone, Copy, Default)]
struct Parts {
    kind: u8,
    variant: u8,
    peer: u16,
    detail: u64,
}

impl Access {
    const ALL: [Self; 3] = [Self::Pull, Self::Push, Self::Set];
}

impl Cause {
    /// The cause as the variant and the detail of a record.
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Asked => (0, 0),
            Self::Began(node) => (1, node.0.into()),
            Self::Ended(node) => (2, node.0.into()),
            Self::Ordered => (3, 0),
        }
    }

    fn of(variant: usize, detail: u64) -> Option<Self> {
        let node = NodeId(u16::try_from(detail).ok()?);
        match variant {
            0 => Some(Self::Asked),
            1 => Some(Self::Began(node)),
            2 => Some(Self::Ended(node)),
            3 => Some(Self::Ordered),
            _ => None,
        }
    }
}

impl Mark {
    const ALL: [Self; 2] = [Self::Epoch, Self::Checkpoint];
}

/// The position of `variant` in `all`.
fn place<T: PartialEq>(all: &[T], variant: &T) -> u8 {
    all.iter().position(|other| other == variant).map_or(u8::MAX, |at| at as u8)
}

impl What {
    fn parts(self) -> Parts {
        let plain = |kind| Parts { kind, ..Parts::default() };
        let peer = |kind, node: NodeId| Parts { kind, peer: node.0, ..Parts::default() };
        match self {
            Self::IntentBegan => plain(1),
            Self::IntentEnded => plain(2),
            Self::Asked => plain(3),
            Self::Left { to, cause } => {
                let (variant, detail) = cause.parts();
                Parts { variant, detail, ..peer(4, to) }
            }
            Self::Arrived { from, after } => Parts { detail: after, ..peer(5, from) },
            Self::ReplicaSetUp => plain(6),
            Self::ReplicaDropped => plain(7),
            Self::HolderAdded { holder } => peer(8, holder),
            Self::HolderRemoved { holder } => peer(9, holder),
            Self::Ordered { to } => peer(10, to),
            Self::Remote { access, by, after } => {
                Parts { variant: place(&Access::ALL, &access), detail: after, ..peer(11, by) }
            }
            Self::Waited { access, after } => {
                Parts { variant: place(&Access::ALL, &access), detail: after, ..plain(12) }
            }
            Self::Conflict => plain(13),
            Self::Synced { values } => Parts { detail: values, ..plain(14) },
            Self::Sent { to, bytes } => Parts { detail: bytes, ..peer(15, to) },
            Self::Came { meeting } => Parts { detail: meeting, ..plain(16) },
            Self::WentOn { meeting } => Parts { detail: meeting, ..plain(17) },
            Self::Clock { clock } => Parts { detail: clock.into(), ..plain(19) },
            Self::Marked { mark, number } => {
                Parts { variant: place(&Mark::ALL, &mark), detail: number, ..plain(18) }
            }
        }
    }

    /// `None` if there is no such kind or variant.
    fn of(parts: Parts) -> Option<Self> {
        let Parts { kind, variant, peer, detail } = parts;
        let (node, variant) = (NodeId(peer), usize::from(variant));
        let access = Access::ALL.get(variant).copied();
        Some(match kind {
            1 => Self::IntentBegan,
            2 => Self::IntentEnded,
            3 => Self::Asked,
            4 => Self::Left { to: node, cause: Cause::of(variant, detail)? },
            5 => Self::Arrived { from: node, after: detail },
            6 => Self::ReplicaSetUp,
            7 => Self::ReplicaDropped,
            8 => Self::HolderAdded { holder: node },
            9 => Self::HolderRemoved { holder: node },
            10 => Self::Ordered { to: node },
            11 => Self::Remote { access: access?, by: node, after: detail },
            12 => Self::Waited { access: access?, after: detail },
            13 => Self::Conflict,
            14 => Self::Synced { values: detail },
            15 => Self::Sent { to: node, bytes: detail },
            16 => Self::Came { meeting: detail },
            17 => Self::WentOn { meeting: detail },
            18 => Self::Marked { mark: *Mark::ALL.get(variant)?, number: detail },
            19 => Self::Clock { clock: u32::try_from(detail).ok()? },
            _ => return None,
        })
    }
}

impl Event {
    /// Bytes of a record.
    pub const BYTES: usize = 32;

    /// Encodes the event as a record. The last two bytes of the record are 0; a reader of several files may
    /// use them, for instance for the node.
    #[must_use]
    pub fn to_record(self) -> [u8; Self::BYTES] {
        let Parts { kind, variant, peer, detail } = self.what.parts();
        let mut record = [0; Self::BYTES];
        record[..8].copy_from_slice(&self.at.0.to_le_bytes());
        record[8..16].copy_from_slice(&self.key.map_or(NO_KEY, |key| key.0).to_le_bytes());
        record[16..24].copy_from_slice(&detail.to_le_bytes());
        record[24..26].copy_from_slice(&[kind, variant]);
        record[26..28].copy_from_slice(&self.channel.0.to_le_bytes());
        record[28..30].copy_from_slice(&peer.to_le_bytes());
        record
    }

    /// Decodes a record, and ignores its last two bytes. Returns `None` if there is no such kind of event.
    #[must_use]
    pub fn of_record(record: &[u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| record[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let short = |at: usize| record[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let parts = Parts { kind: record[24], variant: record[25], peer: short(28), detail: number(16) };
        let key = Some(number(8)).filter(|key| *key != NO_KEY).map(Key);
        Some(Self { at: Tick(number(0)), channel: ChannelId(short(26)), key, what: What::of(parts)? })
    }
}

/// A duration in microseconds, displayed in a readable unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us @ ..1_000 => write!(f, "{us} us"),
            us @ ..1_000_000 => write!(f, "{:.2} ms", us as f64 / 1e3),
            us => write!(f, "{:.2} s", us as f64 / 1e6),
        }
    }
}
