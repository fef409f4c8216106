//! Allocation at moments, for replays.

use super::Allocation;
use super::rows::{MOVING, UNKNOWN};
use crate::track::{owner_of, switch_of};
use serde::Serialize;

/// Where a key is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Instant {
    /// The node that owns the key, [`MOVING`] or [`UNKNOWN`].
    pub owner: i32,
    /// Number of replicas.
    pub replicas: u32,
}

impl Allocation {
    /// Where a key is at each of `times`, which must ascend. Like [`Allocation::moment`], but for many
    /// moments in one pass over the changes of one key.
    #[must_use]
    pub fn instants(&self, key: u64, times: &[u64]) -> Vec<Instant> {
        let home = self.run().home(key).map_or(UNKNOWN, i32::from);
        let fixed =
            self.run().is_static_replica(key).then(|| u32::from(self.run().header().nodes).saturating_sub(1));
        let position = self.position(key);
        let (moved_at, owners) = position.map_or((&[][..], &[][..]), |at| self.owners.of(at));
        let (set_at, switches) = position.map_or((&[][..], &[][..]), |at| self.replicas.of(at));
        let mut moves = moved_at.iter().zip(owners).peekable();
        let mut sets = set_at.iter().zip(switches).peekable();
        let mut now = Instant { owner: home, replicas: fixed.unwrap_or(0) };
        let mut instants = Vec::with_capacity(times.len());
        for time in times {
            while let Some((_, code)) = moves.next_if(|(at, _)| *at <= time) {
                now.owner = owner_of(*code).map_or(MOVING, i32::from);
            }
            while let Some((_, code)) = sets.next_if(|(at, _)| *at <= time && fixed.is_none()) {
                let count = now.replicas;
                now.replicas = if switch_of(*code).1 { count + 1 } else { count.saturating_sub(1) };
            }
            instants.push(now);
        }
        instants
    }
}
