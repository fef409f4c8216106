//! What can be wrong with a frame.

use crate::MessageClass;
use intendant_core::limits;
use std::fmt;

/// A frame that is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The frame ends before the message does.
    #[error("frame of {bytes} bytes ends early: the message needs at least {needed}")]
    Truncated {
        /// Length of the frame.
        bytes: usize,
        /// Length that its own counts require.
        needed: usize,
    },
    /// The frame continues after the message.
    #[error("frame has {extra} bytes after the end of its message")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
    /// The frame is longer than any that a node sends.
    #[error("frame of {bytes} bytes is longer than the limit of {max}", max = limits::FRAME_BYTES_MAX)]
    TooLong {
        /// Length of the frame.
        bytes: usize,
    },
    /// The frame announces more keys than a node sends in one frame.
    #[error("frame announces {keys} keys; the limit is {max}", max = limits::FRAME_KEYS_MAX)]
    TooManyKeys {
        /// How many.
        keys: usize,
    },
    /// The frame announces more holders of replicas than a node sends in one frame.
    #[error("frame announces {rows} holders of replicas; the limit is {max}", max = limits::FRAME_KEYS_MAX)]
    TooManyHolders {
        /// How many.
        rows: usize,
    },
    /// A row of holders has an index that is not one of the frame's keys.
    #[error("row {row} of the holders is of key {at}, but the frame has {keys} keys")]
    NoSuchKey {
        /// Which row of the holders.
        row: usize,
        /// The index in it.
        at: u32,
        /// Keys of the frame.
        keys: usize,
    },
    /// The frame announces a relocation counter per key, but has no keys.
    #[error("frame of class {class} announces relocation counters, but has no keys")]
    CountersWithoutKeys {
        /// The class of the message.
        class: MessageClass,
    },
    /// Entries that must ascend do not ascend.
    #[error("{field} must ascend, but number {at} is not greater than the one before")]
    Unordered {
        /// What they are.
        field: &'static str,
        /// Which entry, from 0.
        at: usize,
    },
    /// A tag has a value that this version of the protocol does not know.
    #[error("{field} {value} is not known")]
    UnknownTag {
        /// What the tag says.
        field: &'static str,
        /// Its value.
        value: u8,
    },
    /// A packed frame, where the reader accepts only unpacked frames.
    #[error("packing of the frame is {value}, but must be 0 where frames are not packed")]
    Packed {
        /// Its value.
        value: u8,
    },
    /// A frame refers to a list that this connection does not remember, or that has another length.
    #[error("frame refers to a list of {bytes} bytes, {age} lists ago; there is none")]
    NoSuchList {
        /// How many lists were remembered after it.
        age: u32,
        /// The length that it must have.
        bytes: usize,
    },
    /// A compressed frame announces more bytes than its compressed bytes can hold.
    #[error("frame has {from} compressed bytes and announces {bytes} when they are decompressed")]
    Decompressed {
        /// How many it announces.
        bytes: usize,
        /// How many it has.
        from: usize,
    },
    /// The bytes of a compressed frame cannot be decompressed, or are not as many as it announces.
    #[error("{bytes} compressed bytes of a frame cannot be decompressed to what it announces")]
    Compressed {
        /// How many it has.
        bytes: usize,
    },
    /// A header field that this class of messages does not use is not zero.
    #[error("frame of class {class} does not use the field {field}, which must be 0, but is {value}")]
    UnusedField {
        /// The class of the message.
        class: MessageClass,
        /// The field.
        field: HeaderField,
        /// Its value.
        value: u32,
    },
}

/// A field of the header with which every frame starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeaderField {
    /// The kind of the message within its class.
    Tag,
    /// Flags, or the number of forwards.
    Flags,
    /// A node.
    Node,
    /// A worker.
    Worker,
    /// A number that belongs to the whole message.
    Argument,
    /// How many keys, positions or indices follow.
    Count,
}

impl fmt::Display for HeaderField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tag => "tag",
            Self::Flags => "flags",
            Self::Node => "node",
            Self::Worker => "worker",
            Self::Argument => "argument",
            Self::Count => "count",
        })
    }
}
