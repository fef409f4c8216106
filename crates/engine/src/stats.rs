//! Counts of accesses, of parameter management and of messages: one type for each, with
//! [`merge`](AccessStats::merge) and [`since`](AccessStats::since).
//!
//! A new counter is a field here, and the place that counts: reports, metrics and the tables of `docs/` are
//! made of these declarations. Simulated runs and the control plane use these types as well.

use intendant_core::{Histogram, Shown, statistics};
use serde::{Deserialize, Serialize};

statistics! {
    /// Accesses of a worker, in keys. `local + remote = pull_keys + push_keys`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    AccessStats {
        /// Keys pulled; a key that occurs twice in a batch counts twice.
        pull_keys: u64 => Shown::count("intendant_pulled_keys_total", "keys"),
        /// Keys pushed or set.
        push_keys: u64 => Shown::count("intendant_pushed_keys_total", "keys"),
        /// Accesses that completed without waiting for a message between nodes.
        local: u64 => Shown::count("intendant_local_accesses_total", "keys"),
        /// All other accesses; with `ssp` and `essp`, also reads that wait for other workers' clocks, even on
        /// one node.
        remote: u64 => Shown::count("intendant_remote_accesses_total", "keys"),
        /// Part of the remote accesses: keys read in the window of a node of the same host, without a
        /// message.
        windows: u64 => Shown::count("intendant_window_accesses_total", "keys"),
        /// Part of the keys pulled: those that the sampling manager chose.
        sampled: u64 => Shown::count("intendant_sampled_keys_total", "keys"),
    }
}

statistics! {
    /// Messages of the data plane that a node has sent to others.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    NetworkStats {
        /// Data-plane messages sent to other nodes.
        messages: u64 => Shown::count("intendant_sent_messages_total", "messages"),
        /// Bytes of these messages, without those of sockets and below.
        bytes: u64 => Shown::count("intendant_sent_bytes_total", "bytes"),
        /// Bytes that these messages would have if they were not packed.
        unpacked_bytes: u64 => Shown::count("intendant_sent_unpacked_bytes_total", "bytes"),
        /// Bytes that packing saved because keys or positions are evenly spaced, and travel as first number
        /// and step.
        saved_by_runs: u64 => saved("runs"),
        /// Bytes that packing saved because a frame refers to a list of keys that the connection has carried
        /// before (`--key-caching`).
        saved_by_key_lists: u64 => saved("key_lists"),
        /// Bytes that compression saved (`--compress`).
        saved_by_compression: u64 => saved("compression"),
        /// Part of the bytes: those that went over Unix sockets or shared memory, between nodes of one host.
        unix_bytes: u64 => Shown::count("intendant_sent_unix_bytes_total", "bytes"),
    }
}

const fn saved(by: &'static str) -> Shown {
    Shown::part(("intendant_saved_bytes_total", "Bytes that packing saved, by what"), "bytes", ("by", by))
}

statistics! {
    /// What managing keys took: counts of one channel, or sums over several.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    ManagementStats as ReportedManagement {
        /// Main copies that moved, counted where they arrived.
        relocations: u64 => Shown::count("intendant_relocations_total", "keys"),
        /// Replicas that were created through the owner of the key.
        replica_setups: u64 => Shown::count("intendant_replica_setups_total", "keys"),
        /// Such replicas that were dropped, or became the main copy.
        replica_drops: u64 => Shown::count("intendant_replica_drops_total", "keys"),
        /// Rounds in which a channel synchronised replicas: all-reduces of static replicas, exchanges with
        /// owners, or flushes at clocks.
        sync_rounds: u64 => Shown::count("intendant_sync_rounds_total", "rounds"),
        /// Keys whose updates were sent or received in such rounds.
        synced_keys: u64 => Shown::count("intendant_synced_keys_total", "keys"),
        /// Deltas that were held back because they were not significant (`--significant`); a delta counts in
        /// each round, and when it is urgent.
        held_back: u64 => Shown::count("intendant_held_back_deltas_total", "deltas"),
        /// Updates of workers per delta of a replica through its owner (not `ssp`, `essp`).
        unsent: Histogram as "unsent_updates" => Shown::counts("intendant_unsent_updates", "updates"),
        /// By how much of its norm each of these deltas changed the replica.
        drift: Histogram => Shown::thousandths("intendant_drift_ratio"),
        /// Reads that waited because the value was staler than `--staleness` allows (`ssp`, `essp`).
        stale_reads: u64 => Shown::count("intendant_stale_reads_total", "keys"),
        /// Keys of intents that nodes acted on.
        intents: u64 => Shown::count("intendant_intent_keys_total", "keys"),
        /// Remote accesses to keys that the node had localized: another node localized them as well, and has
        /// them.
        localization_conflicts: u64 => Shown::count("intendant_localization_conflicts_total", "keys"),
        /// Accesses that waited for a key that was arriving.
        queued: u64 => Shown::count("intendant_queued_accesses_total", "keys"),
        /// Accesses served for other nodes, by number of forwards: none, one, two, more.
        forwards: [u64; 4] =>
            Shown::each("intendant_forwarded_accesses_total", "keys", "forwards", &["0", "1", "2", "more"]),
        /// Time from a node's request for a key to its arrival.
        relocation: Histogram as "relocation_ms" => Shown::durations("intendant_relocation_seconds"),
        /// Time that an access waited for a key that was arriving.
        blocking: Histogram as "blocking_ms" => Shown::durations("intendant_blocking_seconds"),
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
