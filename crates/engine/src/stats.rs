//! What managing keys took.

use intendant_core::Histogram;

/// Counts of one channel, or sums over several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagementStats {
    /// Keys that arrived here.
    pub relocations: u64,
    /// Replicas that were set up here, through the owner.
    pub replica_setups: u64,
    /// Of these, replicas that were given up or became the main copy.
    pub replica_drops: u64,
    /// Rounds in which copies here were brought in step: all-reduces of static replicas, rounds of deltas and news, or flushes at
    /// clocks.
    pub sync_rounds: u64,
    /// Keys whose updates this node sent or received in such rounds.
    pub synced_keys: u64,
    /// Reads that waited for the staleness bound.
    pub stale_reads: u64,
    /// Keys of intents that were acted on here.
    pub intents: u64,
    /// Accesses of this node's workers that were sent away although the node had localized the key: another node wanted it as
    /// well, and has it.
    pub localization_conflicts: u64,
    /// Accesses that waited here for their key to arrive.
    pub queued: u64,
    /// Accesses of other nodes that were served here, by how often they had been forwarded: never, once, twice, more often.
    pub forwards: [u64; 4],
    /// Relocation time per key, in µs: from the worker's call to the arrival. Only of relocations that this node asked for.
    pub relocation: Histogram,
    /// Blocking time per access that waited here, in µs.
    pub blocking: Histogram,
}

impl ManagementStats {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        // What other processes tell may be nonsense; it must not stop this one.
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut self.relocations, other.relocations);
        add(&mut self.replica_setups, other.replica_setups);
        add(&mut self.replica_drops, other.replica_drops);
        add(&mut self.sync_rounds, other.sync_rounds);
        add(&mut self.synced_keys, other.synced_keys);
        add(&mut self.stale_reads, other.stale_reads);
        add(&mut self.intents, other.intents);
        add(&mut self.localization_conflicts, other.localization_conflicts);
        add(&mut self.queued, other.queued);
        for (count, more) in self.forwards.iter_mut().zip(other.forwards) {
            add(count, more);
        }
        self.relocation.merge(&other.relocation);
        self.blocking.merge(&other.blocking);
    }

    /// What came after `before`, an earlier state of these counts.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut forwards = self.forwards;
        for (count, earlier) in forwards.iter_mut().zip(before.forwards) {
            *count = count.saturating_sub(earlier);
        }
        Self {
            relocations: self.relocations.saturating_sub(before.relocations),
            replica_setups: self.replica_setups.saturating_sub(before.replica_setups),
            replica_drops: self.replica_drops.saturating_sub(before.replica_drops),
            sync_rounds: self.sync_rounds.saturating_sub(before.sync_rounds),
            synced_keys: self.synced_keys.saturating_sub(before.synced_keys),
            stale_reads: self.stale_reads.saturating_sub(before.stale_reads),
            intents: self.intents.saturating_sub(before.intents),
            localization_conflicts: self.localization_conflicts.saturating_sub(before.localization_conflicts),
            queued: self.queued.saturating_sub(before.queued),
            forwards,
            relocation: self.relocation.since(&before.relocation),
            blocking: self.blocking.since(&before.blocking),
        }
    }

    /// An access of another node was served that had been forwarded so often.
    pub(crate) fn served(&mut self, hops: u8) {
        let last = self.forwards.len() - 1;
        self.forwards[usize::from(hops).min(last)] += 1;
    }
}
