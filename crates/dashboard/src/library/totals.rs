//! Totals of the events of a run up to a position. Charts of millions of events are differences of totals.

use intendant_analysis::{Run, Stamped};
use intendant_trace::What;

/// The number of events between two totals that are kept.
const EVERY: usize = 1 << 12;

/// Counts of events. Numbers in files may have 64 bits, so their sums have 128 bits, and differences of sums
/// are exact.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) remote: u64,
    pub(crate) remote_wait_us: u128,
    /// Accesses that waited for a key or a replica, which was on its way.
    pub(crate) waited: u64,
    pub(crate) waited_us: u128,
    pub(crate) relocations: u64,
    pub(crate) replica_setups: u64,
    pub(crate) conflicts: u64,
    pub(crate) bytes: u128,
}

impl Totals {
    /// Counts an event. Returns whether it is in a chart.
    pub(crate) fn add(&mut self, event: &Stamped) -> bool {
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events are in no chart")]
        match event.what {
            What::Remote { after, .. } => {
                self.remote += 1;
                self.remote_wait_us += u128::from(after);
            }
            What::Waited { after, .. } => {
                self.waited += 1;
                self.waited_us += u128::from(after);
            }
            What::Arrived { .. } => self.relocations += 1,
            What::ReplicaSetUp => self.replica_setups += 1,
            What::Conflict => self.conflicts += 1,
            What::Sent { bytes, .. } => self.bytes += u128::from(bytes),
            _ => return false,
        }
        true
    }

    /// These totals minus those of `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        Self {
            remote: self.remote.saturating_sub(other.remote),
            remote_wait_us: self.remote_wait_us.saturating_sub(other.remote_wait_us),
            waited: self.waited.saturating_sub(other.waited),
            waited_us: self.waited_us.saturating_sub(other.waited_us),
            relocations: self.relocations.saturating_sub(other.relocations),
            replica_setups: self.replica_setups.saturating_sub(other.replica_setups),
            conflicts: self.conflicts.saturating_sub(other.conflicts),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// The sum of both totals.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            remote: self.remote + other.remote,
            remote_wait_us: self.remote_wait_us + other.remote_wait_us,
            waited: self.waited + other.waited,
            waited_us: self.waited_us + other.waited_us,
            relocations: self.relocations + other.relocations,
            replica_setups: self.replica_setups + other.replica_setups,
            conflicts: self.conflicts + other.conflicts,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// The totals of a run at regular intervals of events, and the positions of the events of keys that charts
/// show.
#[derive(Debug)]
pub(crate) struct Index {
    totals: Vec<Totals>,
    charted: Vec<u32>,
}

impl Index {
    pub(super) fn of(run: &Run) -> Self {
        let mut totals = Totals::default();
        let mut index = Self { totals: vec![totals], charted: Vec::new() };
        for (at, event) in run.events().enumerate() {
            if totals.add(&event) && event.key.is_some() {
                index.charted.push(at as u32);
            }
            if (at + 1) % EVERY == 0 {
                index.totals.push(totals);
            }
        }
        index.charted.shrink_to_fit();
        index
    }

    /// The totals of the first `count` events of the run.
    pub(crate) fn before(&self, run: &Run, count: usize) -> Totals {
        let at = (count / EVERY).min(self.totals.len() - 1);
        let mut totals = self.totals[at];
        for event in (at * EVERY..count).filter_map(|event| run.event(event)) {
            totals.add(&event);
        }
        totals
    }

    /// The positions in the run of the events of keys that charts show.
    pub(crate) fn charted(&self) -> &[u32] {
        &self.charted
    }
}
