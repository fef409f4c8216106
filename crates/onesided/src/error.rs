//! The errors of operations and connections.

use intendant_segment::SegmentError;
use std::io;

/// Why an operation was not begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// A number that no node has.
    #[error("there is no node {node}: the {nodes} nodes are numbered from 0")]
    Node {
        /// The number.
        node: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// An operation of a node with itself.
    #[error("node {node} is this node: use its own segment")]
    Own {
        /// This node.
        node: usize,
    },
    /// The memory of the node is not mapped here.
    #[error("node {node} is not on this host, or not in its network namespace: its memory cannot be mapped")]
    Elsewhere {
        /// The node.
        node: usize,
    },
    /// Words that a segment does not have.
    #[error(
        "{words} words from word {at} on are not within the segment of node {node}, which has {segment_words} words"
    )]
    Outside {
        /// The node whose segment it is: the other one, or this one.
        node: usize,
        /// First word.
        at: usize,
        /// Number of words.
        words: usize,
        /// Words of the segment.
        segment_words: usize,
    },
    /// A hint that a window does not carry.
    #[error("hint {hint} is not below {hints}", hints = crate::HINTS)]
    Hint {
        /// The hint.
        hint: u32,
    },
    /// The window already has as many operations in flight as it can have.
    #[error("{operations} operations with node {node} are under way: poll before another one is begun")]
    Full {
        /// The node.
        node: usize,
        /// Operations under way.
        operations: usize,
    },
}

/// The operating system refuses to wait.
#[derive(Debug, thiserror::Error)]
#[error("waiting for other nodes: {source}")]
pub struct WaitError {
    /// Why.
    #[from]
    source: io::Error,
}

/// Why windows were not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There must be a node.
    #[error("a window of 0 nodes was asked for")]
    NoNodes,
    /// More nodes than messages can number.
    #[error("{nodes} nodes were asked for; windows of memory connect at most {nodes_max}")]
    TooManyNodes {
        /// The number of nodes.
        nodes: usize,
        /// The limit.
        nodes_max: usize,
    },
    /// The number of this node is not that of any name.
    #[error("this node has number {rank}, but there are names of {nodes} nodes, from number 0")]
    Rank {
        /// The number.
        rank: usize,
        /// The number of names.
        nodes: usize,
    },
    /// The name of this node is not where its number says.
    #[error(
        "the name of node {rank}, which is this node, is not the one at which it listens: the names are mixed up"
    )]
    OwnName {
        /// This node.
        rank: usize,
    },
    /// The name of a socket is not one.
    #[error("'{text}' is no name of a node's socket: it needs 32 hexadecimal digits")]
    Name {
        /// The text.
        text: String,
    },
    /// The process that listens belongs to another user.
    #[error(
        "the process that listens at the name of node {node} belongs to user {theirs}, this one to user {ours}"
    )]
    User {
        /// The node.
        node: usize,
        /// User of this process.
        ours: u32,
        /// User of the other process.
        theirs: u32,
    },
    /// A node has sent something that is no introduction.
    #[error("node {node} has not introduced itself: {what}")]
    Introduction {
        /// The node.
        node: usize,
        /// What is wrong.
        what: String,
    },
    /// A node has ended before all were connected.
    #[error("node {node} has ended, or has refused this node, before all nodes were connected")]
    Ended {
        /// The node.
        node: usize,
    },
    /// A node knows the secret, but does not belong to this run.
    #[error("a node has called that does not belong to this run: {what}")]
    Mixed {
        /// What does not fit.
        what: String,
    },
    /// The segment of this node has no descriptor.
    #[error("the segment of this node is memory of its process only: make it by Segment::shared")]
    NotShared,
    /// The memory of a node cannot be made or mapped.
    #[error("the memory of node {node}: {source}")]
    Memory {
        /// The node.
        node: usize,
        /// Why.
        source: SegmentError,
    },
    /// Not all nodes came in time.
    #[error(
        "after {seconds} s, node {node} has not connected: it stands still, or its machine is overloaded; look \
         at its output"
    )]
    Late {
        /// One of the missing nodes.
        node: usize,
        /// How long this node has waited, seconds.
        seconds: u64,
    },
    /// The caller has given up.
    #[error("connecting was given up while node {node} was missing")]
    GivenUp {
        /// A node that has not connected.
        node: usize,
    },
    /// The operating system refused.
    #[error("{action}: {source}")]
    System {
        /// What the operating system was asked for.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}
