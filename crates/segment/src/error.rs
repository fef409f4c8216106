//! What can be wrong with a segment.

use std::io;

/// Why a segment was not made or not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// A segment of no words.
    #[error("a segment of 0 words was asked for: ask for at least 1")]
    Empty,
    /// More words than a process can address.
    #[error("a segment of {words} words was asked for, which is more than a process can address")]
    TooLong {
        /// Words that were asked for.
        words: usize,
    },
    /// More bytes than are available.
    #[error("a segment of {bytes} bytes does not fit: {limit} leaves {available} bytes")]
    Memory {
        /// Bytes of the segment.
        bytes: u64,
        /// Bytes that are left.
        available: u64,
        /// What limits them.
        limit: String,
    },
    /// The descriptor is not one of memory that can be sealed.
    #[error("the descriptor of a segment is not a memfd: {what}")]
    NotMemory {
        /// What it is instead, as far as is known.
        what: String,
    },
    /// The memory could grow or shrink while it is mapped.
    #[error(
        "the memfd of a segment is not sealed against growing and shrinking (F_SEAL_GROW, F_SEAL_SHRINK): \
         the process that made it must seal it"
    )]
    Unsealed,
    /// The memory cannot be written.
    #[error("the memfd of a segment cannot be written: {what}")]
    ReadOnly {
        /// What forbids it.
        what: &'static str,
    },
    /// The length of the memory is not one of a segment.
    #[error("the memfd of a segment has {bytes} bytes, which is not a positive multiple of 64")]
    Length {
        /// Bytes of the memory.
        bytes: u64,
    },
    /// The operating system refused.
    #[error("{action} for a segment of {bytes} bytes: {source}")]
    System {
        /// What the operating system was asked for.
        action: &'static str,
        /// Bytes of the segment.
        bytes: u64,
        /// Why it refused.
        source: io::Error,
    },
}
