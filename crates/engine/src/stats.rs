//! Counts of accesses, of parameter management and of messages: one type for each, with
//! [`merge`](AccessStats::merge) and [`since`](AccessStats::since).
//!
//! A new counter is a field here, and the place that counts; `docs/extending.md` lists what reports need.
//! Reports, simulated runs and the control plane use these types.

use intendant_core::{Histogram, statistics};
use serde::{Deserialize, Serialize};

statistics! {
    /// Accesses of a worker, in keys. `local + remote = pull_keys + push_keys`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    AccessStats {
        /// Keys pulled.
        pull_keys: u64,
        /// Keys pushed or set.
        push_keys: u64,
        /// Keys served without waiting for a message.
        local: u64,
        /// The others.
        remote: u64,
        /// Of the others, keys that were read in the window of a node of the same host, without a message.
        #[serde(default)]
        windows: u64,
        /// Pulled keys that were samples.
        sampled: u64,
    }
}

statistics! {
    /// Messages of the data plane that a node has sent to others.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    NetworkStats {
        /// How many messages.
        messages: u64,
        /// Their bytes, without the transport's own.
        bytes: u64,
        /// The bytes that they would have if they were not packed (`intendant_wire::Packer`).
        #[serde(default)]
        unpacked_bytes: u64,
        /// Of the difference, what progressions of keys and positions saved.
        #[serde(default)]
        saved_by_runs: u64,
        /// What references to lists of keys saved.
        #[serde(default)]
        saved_by_key_lists: u64,
        /// What compression saved.
        #[serde(default)]
        saved_by_compression: u64,
        /// Those of the bytes that went over Unix sockets or shared memory, to nodes of the same host.
        #[serde(default)]
        unix_bytes: u64,
    }
}

statistics! {
    /// What managing keys took: counts of one channel, or sums over several.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    ManagementStats {
        /// Keys that arrived here.
        relocations: u64,
        /// Replicas that were set up here, through the owner.
        replica_setups: u64,
        /// Of these, replicas that were dropped or became the main copy.
        replica_drops: u64,
        /// Rounds that synchronised copies here: all-reduces of static replicas, rounds of deltas and
        /// updates, or flushes at clocks.
        sync_rounds: u64,
        /// Keys whose updates this node sent or received in such rounds.
        synced_keys: u64,
        /// Deltas that rounds held back because they were not significant.
        #[serde(default)]
        held_back: u64,
        /// Updates of workers in each delta, of replicas that intents or the caller direct.
        unsent: Histogram,
        /// By how much each of these deltas changed the copy, in thousandths of its norm.
        drift: Histogram,
        /// Reads that waited for the staleness bound.
        stale_reads: u64,
        /// Keys of intents that this node acted on.
        intents: u64,
        /// Accesses of this node's workers that were sent away although the node had localized the key:
        /// another node localized it as well, and has it.
        localization_conflicts: u64,
        /// Accesses that waited here for their key to arrive.
        queued: u64,
        /// Accesses of other nodes that were served here, by how often they had been forwarded: never, once,
        /// twice, more often.
        forwards: [u64; 4],
        /// Relocation time per key, in µs: from the worker's call to the arrival. Only of relocations that
        /// this node asked for.
        relocation: Histogram,
        /// Blocking time per access that waited here, in µs.
        blocking: Histogram,
    }
}

impl ManagementStats {
    /// Counts a delta of so many updates, which change the copy by `change` of its norm.
    pub(crate) fn drifted(&mut self, updates: u32, change: f64) {
        self.unsent.record(updates.into());
        self.drift.record((change * 1000.0) as u64);
    }

    /// Counts an access of another node that was served after `hops` forwards.
    pub(crate) fn served(&mut self, hops: u8) {
        let last = self.forwards.len() - 1;
        self.forwards[usize::from(hops).min(last)] += 1;
    }
}
