//! What the nodes of a program exchanged, and what they did in virtual time.

use intendant::NetworkStats;
use intendant_core::statistics;
use serde::{Deserialize, Serialize};

statistics! {
    /// What the nodes of a [`Program`](crate::Program) exchanged by one-sided communication, summed over all
    /// nodes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    Exchanged {
        /// Values set.
        sets: u64,
        /// Values got; those that a node computes itself are not asked for.
        gets: u64,
        /// Those of them that waited for a write or a read.
        gets_waited: u64,
        /// Writes to other nodes.
        writes: u64,
        /// Bytes of them: values, 32 bytes each, and what fills up whole lines of 64 bytes.
        written_bytes: u64,
        /// Reads from other nodes, those that were repeated included.
        reads: u64,
        /// Bytes of them.
        read_bytes: u64,
        /// Images, read or written, that were seen while they changed, and were looked at again.
        torn: u64,
        /// Reads that brought a value that was too old.
        stale: u64,
        /// Time that nodes spent with setting and getting, seconds: mean over the nodes.
        seconds: f64,
    }
}

statistics! {
    /// What the nodes of a [`Program`](crate::Program) did on a simulated cluster.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    VirtualTime {
        /// How long it lasted, nanoseconds.
        virtual_ns: u64,
        /// Time in which threads computed, summed over nodes, nanoseconds.
        compute_ns: u64,
        /// Operations between nodes.
        operations: u64,
        /// Bytes of the operations.
        bytes: u64,
        /// Events of the simulation.
        events: u64,
        /// Time in which the sending halves of the nodes' NICs were busy, summed over nodes, nanoseconds.
        nic_busy_ns: u64,
    }
}

impl VirtualTime {
    /// How long it lasted, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.virtual_ns as f64 / 1e9
    }

    /// The operations as traffic.
    pub(crate) fn traffic(&self) -> NetworkStats {
        let Self { operations: messages, bytes, .. } = *self;
        NetworkStats { messages, bytes, unpacked_bytes: bytes, ..NetworkStats::default() }
    }
}
