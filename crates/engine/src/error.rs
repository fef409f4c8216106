//! What callers and peers can do wrong.

use crate::input::Kind;
use intendant_core::{ChannelId, Key, NodeId, WorkerId};
use intendant_techniques::allreduce::AllReduceError;
use intendant_techniques::{Role, SlotState};
use intendant_wire::{HolderRow, OpId, ReplicaRequestKind};

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
    /// A row in place, of a key whose value changes by a rule.
    #[error(
        "key {key} has a rule, so its row cannot be changed in place: pull the value and push an operand"
    )]
    RowOfRule {
        /// The key.
        key: Key,
    },
    /// A set of a static replica whose value changes by a rule.
    #[error(
        "key {key} has a static replica and a rule, so it cannot be set: all-reduces add operands, and a set is none; push \
         an operand, or choose a technique without static replicas"
    )]
    SetsStatic {
        /// The key.
        key: Key,
    },
}

/// A peer broke the protocol. Its link cannot be trusted any more: the caller ends the run.
///
/// The channel does not undo what it did for earlier keys of the same message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {from} broke the protocol: {what}")]
pub struct Violation {
    /// The peer.
    pub from: NodeId,
    /// What it did.
    pub what: ProtocolError,
}

/// What a peer's message did wrong. The texts continue a sentence whose subject is the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A key that the layout does not have.
    #[error("it names {0:?}, which does not exist")]
    UnknownKey(Key),
    /// A key of another channel.
    #[error("it names {key:?} of {right:?} on {wrong:?}")]
    WrongChannel {
        /// The key.
        key: Key,
        /// The channel of the key.
        right: ChannelId,
        /// The channel of the message.
        wrong: ChannelId,
    },
    /// A message that the technique does not have.
    #[error("it {what}, which technique {technique} does not do")]
    NotInTechnique {
        /// What the message does.
        what: &'static str,
        /// Name of the technique.
        technique: &'static str,
    },
    /// Values of the wrong size.
    #[error("its {message} carries {found} bytes of values instead of {expected}")]
    ValueBytes {
        /// The message.
        message: String,
        /// Bytes that it carries.
        found: usize,
        /// Bytes that its keys have.
        expected: usize,
    },
    /// Elements of replicas that are rounded, in a cluster that does not round them.
    #[error("it sends elements of replicas as bf16, but all nodes have agreed on exact ones")]
    Rounded,
    /// Too many or too few relocation counters.
    #[error("its {message} carries {found} counters instead of {expected}")]
    Counters {
        /// The message.
        message: String,
        /// Counters that it carries.
        found: usize,
        /// Counters that it should carry.
        expected: usize,
    },
    /// A message that asks for more than an answer should carry.
    #[error("it asks for {bytes} bytes of values in one frame")]
    AsksTooMuch {
        /// Bytes of values.
        bytes: usize,
    },
    /// A replica request about more than an answer should carry.
    #[error("its {kind:?} is of {bytes} bytes of values in one frame")]
    ReplicaRequestTooLarge {
        /// What the request wants.
        kind: ReplicaRequestKind,
        /// Bytes of values.
        bytes: usize,
    },
    /// A request of a node that does not exist, or of the receiver itself.
    #[error("a request of node {of} came to node {to}")]
    RequestOrigin {
        /// The node in whose name the request is.
        of: NodeId,
        /// The receiver.
        to: NodeId,
    },
    /// A message in the name of another node.
    #[error("it sends a {what} in the name of node {node}")]
    InTheNameOf {
        /// What the peer sends.
        what: String,
        /// The other node.
        node: NodeId,
    },
    /// A request that was forwarded too often.
    #[error("its {what} for {key:?} was forwarded {hops} times")]
    TooManyHops {
        /// What was forwarded.
        what: String,
        /// The key.
        key: Key,
        /// How often.
        hops: u8,
    },
    /// A forwarded message, although keys do not move.
    #[error("it forwards a {kind:?}, but keys stay where they are")]
    NeedlessForward {
        /// What the request wants.
        kind: ReplicaRequestKind,
    },
    /// A message about a key that only the key's home may get.
    #[error("it {what} {key:?} to node {to}, which is not its home")]
    NotHome {
        /// What the peer says of the key.
        what: &'static str,
        /// The key.
        key: Key,
        /// The receiver.
        to: NodeId,
    },
    /// An order that only the key's home may give.
    #[error("it orders the relocation of {0:?}, whose home it is not")]
    OrderedByStranger(Key),
    /// An order to hand keys to a node that does not exist, or to the receiver itself.
    #[error("it orders node {here} to hand keys over to node {to}")]
    HandOverTarget {
        /// The receiver.
        here: NodeId,
        /// The target.
        to: NodeId,
    },
    /// An order to hand over a key that is not here.
    #[error("it orders the relocation of {key:?} with counter {counter}, while it is {state:?} here")]
    OrderedAbsent {
        /// The key.
        key: Key,
        /// Its counter after the relocation.
        counter: u32,
        /// The slot here.
        state: SlotState,
    },
    /// A request for a key that the peer already has, or is about to get.
    #[error("it asks for {0:?}, which it has or gets already")]
    AsksForOwnKey(Key),
    /// A hand-over that this node does not expect.
    #[error("it hands over {key:?} with counter {counter}, while it is {state:?} here")]
    UnexpectedHandOver {
        /// The key.
        key: Key,
        /// Its counter.
        counter: u32,
        /// The slot here.
        state: SlotState,
    },
    /// A hand-over that says nonsense about broadcasts.
    #[error(
        "it hands over keys with the numbers of {found} nodes' broadcasts; they are none, or one of each node, and at most as many as that node has sent"
    )]
    Broadcasts {
        /// How many numbers it has.
        found: usize,
    },
    /// The location of a key that this node did not ask for, or that is impossible.
    #[error(
        "it says that {key:?} is at node {at}, which this node did not ask for, or which is itself or no node of the cluster"
    )]
    LocatesUnasked {
        /// The key.
        key: Key,
        /// Where the key is said to be.
        at: NodeId,
    },
    /// A row of a hand-over that describes no possible holder.
    #[error("it hands over a nonsensical holder: {0:?}")]
    HolderRow(HolderRow),
    /// An access to a key with a static replica.
    #[error("it accesses {0:?}, of which it has a static replica")]
    AccessesStatic(Key),
    /// A replica request for a key in a role that has no replicas.
    #[error("it sends a {kind:?} for {key:?}, which is {role:?} here")]
    ReplicaRequestRole {
        /// What the request wants.
        kind: ReplicaRequestKind,
        /// The key.
        key: Key,
        /// What this node is to the key.
        role: Role,
    },
    /// A delta whose predecessors are missing.
    #[error("it sends delta {seq} of {key:?}, and those before are missing")]
    MissingDeltas {
        /// The key.
        key: Key,
        /// Number of the delta.
        seq: u32,
    },
    /// A replica for a key of which this node can have none.
    #[error("it sets up a replica of {key:?}, which is {role:?} here")]
    SetUpRole {
        /// The key.
        key: Key,
        /// What this node is to the key.
        role: Role,
    },
    /// A node that waits for the value of a key as of more clocks than it can have workers.
    #[error("it waits for {0:?} as of more clocks than a node can have workers")]
    TooManyClocks(Key),
    /// The end of an intent that has not begun.
    #[error("it ends an intent for {0:?} that it has not reported")]
    UnknownIntent(Key),
    /// An answer to an operation that nothing waits for.
    #[error("it answered {op:?} of {worker:?}, which waits for nothing")]
    AnswersNothing {
        /// The worker.
        worker: WorkerId,
        /// The operation.
        op: OpId,
    },
    /// An answer to an operation of another kind.
    #[error("it answered {asked} {op:?} of {worker:?} as {answered}")]
    AnswersKind {
        /// What the operation does.
        asked: Kind,
        /// The worker.
        worker: WorkerId,
        /// The operation.
        op: OpId,
        /// The kind of operation that the answer is for.
        answered: Kind,
    },
    /// A second answer.
    #[error("it answered position {position} of {op:?} of {worker:?} twice")]
    AnswersTwice {
        /// The position in the worker's call.
        position: u32,
        /// The worker.
        worker: WorkerId,
        /// The operation.
        op: OpId,
    },
    /// An answer to an access to a key of which the worker has no outstanding operation.
    #[error("it answered {key:?} of {worker:?}, which was not outstanding")]
    NotOutstanding {
        /// The key.
        key: Key,
        /// The worker.
        worker: WorkerId,
    },
    /// An answer to a position that this channel did not ask for.
    #[error("it answered position {position} of {op:?} of {worker:?}, not asked for")]
    AnswersUnasked {
        /// The position in the worker's call.
        position: u32,
        /// The worker.
        worker: WorkerId,
        /// The operation.
        op: OpId,
    },
    /// A part of a snapshot that nothing waits for.
    #[error("it sent a snapshot part for {op:?} of {worker:?}, not asked for")]
    UnaskedPart {
        /// The worker.
        worker: WorkerId,
        /// The operation.
        op: OpId,
    },
    /// A part of a snapshot with a key outside of the range.
    #[error("its snapshot part has {0:?}, not asked for")]
    UnaskedKey(Key),
    /// A request for snapshot parts that are too large.
    #[error("it asks for parts of {0} bytes")]
    PartTooLarge(u32),
    /// A part of an all-reduce whose bytes are no whole elements.
    #[error("it sends {bytes} bytes of static replicas, whose elements have {element}")]
    PartialElement {
        /// Bytes sent.
        bytes: usize,
        /// Bytes of an element.
        element: usize,
    },
    /// A part of an all-reduce on a channel without static replicas.
    #[error("it sends updates of static replicas, of which {channel:?} has none with technique {technique}")]
    NoStaticReplicas {
        /// The channel.
        channel: ChannelId,
        /// Name of the technique.
        technique: &'static str,
    },
    /// A part of an all-reduce that does not fit into it.
    #[error(transparent)]
    AllReduce(#[from] AllReduceError),
}

impl ProtocolError {
    /// Checks how many bytes of values `message` carries.
    pub(crate) fn unless_bytes(
        message: impl FnOnce() -> String,
        found: usize,
        expected: usize,
    ) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        Err(Self::ValueBytes { message: message(), found, expected })
    }
}
