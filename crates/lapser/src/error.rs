//! The errors of the protocol.

use crate::WORDS_MAX;

/// Why bytes are not a [`Declaration`](crate::Declaration).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclarationError {
    /// The magic number is missing, or the version is another.
    #[error("{bytes} bytes are no declaration of items of this version; run the same version on all nodes")]
    Unknown {
        /// Number of bytes.
        bytes: usize,
    },
    /// The counts do not fit the number of bytes.
    #[error(
        "a declaration of {produced} items produced and {consumed} consumed has {bytes} bytes instead of \
         {wanted}; run the same version on all nodes"
    )]
    Length {
        /// Items produced, according to the head.
        produced: u64,
        /// Items consumed, according to the head.
        consumed: u64,
        /// Number of bytes.
        bytes: usize,
        /// Number of bytes that these counts require.
        wanted: u128,
    },
}

/// Why declarations do not match each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// No node, or more than can be numbered.
    #[error("{nodes} nodes; there must be 1 to 65,536")]
    Nodes {
        /// Number of declarations.
        nodes: usize,
    },
    /// A setting is out of range.
    #[error("{what}")]
    Settings {
        /// The setting, and its allowed values.
        what: String,
    },
    /// An item has two producers.
    #[error("nodes {first} and {second} both produce item {key}; an item has one producer")]
    TwoProducers {
        /// The item.
        key: u64,
        /// A node that produces it.
        first: usize,
        /// Another node that produces it.
        second: usize,
    },
    /// A node consumes an item that no node produces.
    #[error("node {node} consumes item {key}, which no node produces")]
    NoProducer {
        /// The item.
        key: u64,
        /// A node that consumes it.
        node: usize,
    },
    /// Two declarations of an item differ in the length of its value.
    #[error("item {key} has {words} words at node {node} and {other_words} words at node {other}")]
    Sizes {
        /// The item.
        key: u64,
        /// A node.
        node: usize,
        /// Words of the value that it declares.
        words: usize,
        /// Another node, or the same one.
        other: usize,
        /// Words of the value that it declares there.
        other_words: usize,
    },
    /// A value is empty or too long.
    #[error("item {key} has {words} words at node {node}; an item has 1 to {WORDS_MAX}")]
    Length {
        /// The item.
        key: u64,
        /// The node.
        node: usize,
        /// Words of the value that it declares.
        words: usize,
    },
    /// More items, or consumers of items, than can be numbered.
    #[error("{what}: {count}; there can be {}", u32::MAX)]
    Many {
        /// The kind of entry.
        what: &'static str,
        /// Their number.
        count: usize,
    },
}

/// Why a node does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The directory has no such node.
    #[error("node {rank} of {nodes} nodes; the last one is {}", nodes - 1)]
    Rank {
        /// The node.
        rank: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// The segment is too short.
    #[error("the segment of node {rank} has {words} words; its items need {needed}")]
    Segment {
        /// The node.
        rank: usize,
        /// Words of the segment.
        words: usize,
        /// Words that the directory requires.
        needed: usize,
    },
}

/// Why a set is refused. The item is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The node does not produce the item.
    #[error("this node does not produce item {key}; it must declare an item that it sets")]
    NotProduced {
        /// The item.
        key: u64,
    },
    /// The value has another length.
    #[error("a value of {words} words for item {key}, whose values have {expected}")]
    Length {
        /// The item.
        key: u64,
        /// Words of the value.
        words: usize,
        /// Words of the item's values.
        expected: usize,
    },
    /// Clocks of an item's values grow, from 1.
    #[error("clock {clock} for item {key}, which has clock {last}; clocks of an item grow, from 1")]
    Clock {
        /// The item.
        key: u64,
        /// The clock of the value.
        clock: u64,
        /// The clock of the last value; 0 if there is none.
        last: u64,
    },
    /// The item is set while an earlier set of it still waits.
    #[error("item {key} is set again before its previous set was answered")]
    Waiting {
        /// The item.
        key: u64,
    },
    /// The segment is not that of the node, or another thread or node has written the node's slots.
    #[error("the slot of item {key}: {source}")]
    Slot {
        /// The item.
        key: u64,
        /// What is wrong.
        source: intendant_segment::slot::SetError,
    },
    /// The node was told to finish.
    #[error("item {key} is set after this node was told to finish")]
    Finished {
        /// The item.
        key: u64,
    },
}

/// Why a get has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The node neither consumes nor produces the item.
    #[error("this node does not consume item {key}; it must declare an item that it gets")]
    NotConsumed {
        /// The item.
        key: u64,
    },
    /// A buffer has another length than the item's value.
    #[error("a buffer of {words} words for item {key}, whose values have {expected}")]
    Length {
        /// The item.
        key: u64,
        /// Words of the buffer.
        words: usize,
        /// Words of the item's values.
        expected: usize,
    },
    /// The producer is gone, and the newest value that this node has is too old.
    #[error(
        "node {node}, which produces item {key}, is gone ({reason}); clock {wanted} is needed, {clock} is known"
    )]
    PeerLost {
        /// The item.
        key: u64,
        /// Its producer.
        node: usize,
        /// Why it is gone.
        reason: String,
        /// The lowest clock that suffices.
        wanted: u64,
        /// Clock of the newest value that this node has.
        clock: u64,
    },
    /// The producer has finished, and its last value is too old.
    #[error(
        "node {node}, which produces item {key}, has finished at clock {clock} of it; this node needs clock \
         {wanted}, which will not come"
    )]
    ProducerFinished {
        /// The item.
        key: u64,
        /// Its producer.
        node: usize,
        /// The lowest clock that suffices.
        wanted: u64,
        /// Clock of the last value.
        clock: u64,
    },
    /// The slot of an own item is not as this node has left it.
    #[error("another node has written the slot of item {key}, which this node produces: {found}")]
    Overwritten {
        /// The item.
        key: u64,
        /// What is there.
        found: intendant_segment::slot::Torn,
    },
    /// The producer's memory contains no value of the item.
    #[error("node {node} has no readable item {key}: {reason}")]
    Unreadable {
        /// The item.
        key: u64,
        /// Its producer.
        node: usize,
        /// What the read has found instead.
        reason: String,
    },
    /// The node was told to finish.
    #[error("a get of item {key} when this node was told to finish")]
    Finished {
        /// The item.
        key: u64,
    },
}

/// Why nodes did not meet before the segment was released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// A node is gone before it has finished.
    #[error("node {node} is gone before it has finished: {reason}")]
    PeerLost {
        /// The node.
        node: usize,
        /// Why.
        reason: String,
    },
    /// The node was told to finish before.
    #[error("this node was told to finish before")]
    Twice,
}
