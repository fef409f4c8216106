//! What the nodes of a program exchanged.

use serde::{Deserialize, Serialize};

/// What the nodes of a [`Program`](crate::Program) exchanged by one-sided communication, summed over all
/// nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchanged {
    /// Values set.
    pub sets: u64,
    /// Values got; those that a node computes itself are not asked for.
    pub gets: u64,
    /// Those of them that waited for a write or a read.
    pub gets_waited: u64,
    /// Writes to other nodes.
    pub writes: u64,
    /// Bytes of them: values, 32 bytes each, and what fills up whole lines of 64 bytes.
    pub written_bytes: u64,
    /// Reads from other nodes, those that were repeated included.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Images, read or written, that were seen while they changed, and were looked at again.
    pub torn: u64,
    /// Reads that brought a value that was too old.
    pub stale: u64,
    /// Time that nodes spent with setting and getting, seconds: mean over the nodes.
    pub seconds: f64,
}

impl Exchanged {
    /// The sum with what follows.
    #[must_use]
    pub fn plus(&self, next: &Self) -> Self {
        Self {
            sets: self.sets + next.sets,
            gets: self.gets + next.gets,
            gets_waited: self.gets_waited + next.gets_waited,
            writes: self.writes + next.writes,
            written_bytes: self.written_bytes + next.written_bytes,
            reads: self.reads + next.reads,
            read_bytes: self.read_bytes + next.read_bytes,
            torn: self.torn + next.torn,
            stale: self.stale + next.stale,
            seconds: self.seconds + next.seconds,
        }
    }

    /// The difference to an earlier state.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sets: self.sets - before.sets,
            gets: self.gets - before.gets,
            gets_waited: self.gets_waited - before.gets_waited,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            torn: self.torn - before.torn,
            stale: self.stale - before.stale,
            seconds: self.seconds - before.seconds,
        }
    }
}

/// An epoch on a simulated cluster, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualEpoch {
    /// How long it lasted, nanoseconds.
    pub virtual_ns: u64,
    /// Time in which threads computed, summed over nodes, nanoseconds.
    pub compute_ns: u64,
    /// Operations between nodes.
    pub operations: u64,
    /// Bytes of the operations.
    pub bytes: u64,
    /// Events of the simulation since its start.
    pub events: u64,
    /// Time in which the sending halves of the nodes' NICs were busy, summed over nodes, nanoseconds.
    pub nic_busy_ns: u64,
}

impl VirtualEpoch {
    /// Adds the next epoch.
    pub(crate) fn continues(&mut self, next: &Self) {
        self.virtual_ns += next.virtual_ns;
        self.compute_ns += next.compute_ns;
        self.operations += next.operations;
        self.bytes += next.bytes;
        self.events = next.events;
        self.nic_busy_ns += next.nic_busy_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_that_of_each_count() {
        let before =
            Exchanged { sets: 1, gets: 2, gets_waited: 3, writes: 4, written_bytes: 5, ..Default::default() };
        let before = Exchanged { reads: 6, read_bytes: 7, torn: 8, stale: 9, seconds: 0.5, ..before };
        let after =
            Exchanged { sets: 11, gets: 22, gets_waited: 33, writes: 44, written_bytes: 55, ..before };
        let after = Exchanged { reads: 66, read_bytes: 77, torn: 88, stale: 99, seconds: 2.0, ..after };
        let difference = after.since(&before);
        let counts = [difference.sets, difference.gets, difference.gets_waited, difference.writes];
        assert_eq!(counts, [10, 20, 30, 40]);
        let counts = [difference.written_bytes, difference.reads, difference.read_bytes, difference.torn];
        assert_eq!(counts, [50, 60, 70, 80]);
        assert_eq!((difference.stale, difference.seconds), (90, 1.5));
        assert_eq!(before.plus(&difference), after);
    }
}
