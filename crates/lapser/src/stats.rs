//! Counts of what a node has done.

/// Counts of one node since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Values set.
    pub sets: u64,
    /// Sets that waited until the writes of the item's previous value had ended.
    pub sets_waited: u64,
    /// Gets, own items included.
    pub gets: u64,
    /// Gets that were answered at once.
    pub gets_at_once: u64,
    /// Writes to consumers.
    pub writes: u64,
    /// Reads from producers, including repeated reads.
    pub reads: u64,
    /// Reads of an item for a waiting get that an earlier read had not answered.
    pub rereads: u64,
    /// Reads whose image was torn.
    pub torn_reads: u64,
    /// Reads whose image was whole, but older than a get needed.
    pub stale_reads: u64,
    /// Looks that found the image in a pushed slot torn.
    pub torn_looks: u64,
    /// Hints received.
    pub hints: u64,
    /// Hints that ended no get.
    pub hints_in_vain: u64,
    /// Gets that found their value at a timed look, without a hint.
    pub late_looks: u64,
}
