//! Affinity of keys to nodes [Lapse demo §4.1]: how long they were at each node, and how often they moved
//! there.

use super::Allocation;
use crate::track::{owner_of, switch_of};
use serde::Serialize;

/// Affinity of a key to nodes. Shares are fractions of the time from the first to the last event of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Affinity {
    /// The key.
    pub key: u64,
    /// Its home; `None` if it is not known.
    pub home: Option<u16>,
    /// By node, the share of time for which the node owned it.
    pub share: Vec<f64>,
    /// The share of time for which it was on its way, or its owner is not known.
    pub moving_share: f64,
    /// By node, the share of time for which the node held a replica.
    pub replica_share: Vec<f64>,
    /// By node, how often it arrived there.
    pub relocations: Vec<u32>,
}

impl Allocation {
    /// The affinity of each of the keys.
    #[must_use]
    pub fn affinity(&self, keys: &[u64]) -> Vec<Affinity> {
        keys.iter().map(|key| self.affinity_of(*key)).collect()
    }

    fn affinity_of(&self, key: u64) -> Affinity {
        let run = self.run();
        let nodes = usize::from(run.header().nodes);
        let (start, end) = run.span_us();
        let home = run.home(key);
        let (mut owned, mut held, mut relocations) =
            (vec![0u64; nodes], vec![0u64; nodes], vec![0u32; nodes]);
        let position = self.position(key);
        let (times, codes) = position.map_or((&[][..], &[][..]), |at| self.owners.of(at));
        let (mut owner, mut since) = (home, start);
        for (at, code) in times.iter().zip(codes) {
            if let Some(total) = owner.and_then(|node| owned.get_mut(usize::from(node))) {
                *total += at - since;
            }
            (owner, since) = (owner_of(*code), *at);
            if let Some(count) = owner.and_then(|node| relocations.get_mut(usize::from(node))) {
                *count += 1;
            }
        }
        if let Some(total) = owner.and_then(|node| owned.get_mut(usize::from(node))) {
            *total += end - since;
        }
        let (times, codes) = position.map_or((&[][..], &[][..]), |at| self.replicas.of(at));
        let mut began = vec![None; nodes];
        for (at, code) in times.iter().zip(codes) {
            let (node, is_on) = switch_of(*code);
            if let (Some(began), Some(total)) =
                (began.get_mut(usize::from(node)), held.get_mut(usize::from(node)))
            {
                *total += began.take().map_or(0, |began| at - began);
                *began = is_on.then_some(*at);
            }
        }
        for (total, began) in held.iter_mut().zip(began) {
            *total += began.map_or(0, |began| end - began);
        }
        if run.is_static_replica(key) {
            let others = held.iter_mut().enumerate().filter(|(node, _)| home.map(usize::from) != Some(*node));
            others.for_each(|(_, total)| *total = end - start);
        }
        // If the run has no duration, the owner of the key has the whole share.
        let all = end - start;
        let share = |us: &u64| if all == 0 { 0.0 } else { *us as f64 / all as f64 };
        let mut shares: Vec<f64> = owned.iter().map(share).collect();
        if all == 0
            && let Some(share) = owner.and_then(|node| shares.get_mut(usize::from(node)))
        {
            *share = 1.0;
        }
        let known: u64 = owned.iter().sum();
        Affinity {
            key,
            home,
            moving_share: share(&all.saturating_sub(known)),
            share: shares,
            replica_share: held.iter().map(share).collect(),
            relocations,
        }
    }
}
