//! How another node can break the protocol of the all-reduce.

use intendant_core::NodeId;

/// A message that another node must not send. The text continues a sentence whose subject is that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllReduceError {
    /// The sender does not exchange messages with the receiver in this step.
    #[error("it sent step {step} of an all-reduce to node {node}, which is not its to send")]
    NotItsStep {
        /// The step.
        step: u8,
        /// The receiver.
        node: NodeId,
    },
    /// The receiver cannot receive this message in its state, with any messages in flight.
    #[error(
        "it sent step {step} of all-reduce {round}, while node {node} {state} {at}",
        state = if *.running { "is in" } else { "has not started" }
    )]
    OutOfTurn {
        /// Round of the message.
        round: u32,
        /// Its step.
        step: u8,
        /// The receiver.
        node: NodeId,
        /// Whether a round is running there.
        running: bool,
        /// The round that is running there, or that starts next.
        at: u32,
    },
    /// The message has ended already.
    #[error("it sent more of step {step} of all-reduce {round} after its end")]
    AfterEnd {
        /// Round of the message.
        round: u32,
        /// Its step.
        step: u8,
    },
    /// A call carries nothing.
    #[error("it calls for all-reduce {round} with updates")]
    CallWithUpdates {
        /// Round of the call.
        round: u32,
    },
    /// The updates do not fit the static keys.
    #[error("it sent {part} in step {step} of all-reduce {round}")]
    Malformed {
        /// Round of the message.
        round: u32,
        /// Its step.
        step: u8,
        /// What is wrong with the updates.
        part: PartError,
    },
}

/// What is wrong with the updates of a part of a message, as an object of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// There is no such static key.
    #[error("index {index} of {keys} static keys")]
    NoSuchKey {
        /// The index.
        index: u32,
        /// How many static keys there are.
        keys: usize,
    },
    /// Indices must ascend, over all parts of a message.
    #[error("index {index} after {after}")]
    Unordered {
        /// The index.
        index: u32,
        /// The index before it.
        after: u32,
    },
    /// The number of elements is not that of the keys.
    #[error("{elements} elements for keys of {expected}")]
    Elements {
        /// How many there are.
        elements: usize,
        /// How many the keys have.
        expected: usize,
    },
}
