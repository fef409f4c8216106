//! The channel's record of one replica that its node holds, and the generations of registrations.

use crate::channel::effects::Access;
use bytes::Bytes;
use intendant_core::Tick;
use intendant_techniques::is_newer;
use intendant_techniques::replication::Replica;
use std::collections::VecDeque;

/// A replica, or a request for one.
pub(crate) struct Held<E> {
    pub(crate) replica: Replica<E>,
    /// When it was last asked for.
    pub(crate) since: Tick,
    /// The allowance with which it began to count updates after the last delta, if replicas have one.
    pub(crate) allowance: u32,
    /// Whether it is in the list of replicas with unsent updates.
    pub(crate) listed: bool,
    /// Whether it is to stay.
    pub(crate) wanted: bool,
    /// A worker set the key: the replica serves no access any more, and will be dropped.
    pub(crate) closed: bool,
    pub(crate) asked: Asked,
    /// Accesses that wait until the replica is set up or dropped.
    pub(crate) queue: VecDeque<(Access, Bytes)>,
}

impl<E> Held<E> {
    /// Whether the replica is to be dropped.
    pub(crate) fn ends(&self) -> bool {
        !self.wanted || self.closed
    }
}

/// Clocks that the owner was asked for and has not reached, as far as this node knows. Kept one by one, so
/// that a slow worker's request does not wait for a faster one's. Without bounded staleness there are none,
/// and they take no memory.
#[derive(Default)]
pub(crate) struct Asked {
    /// In no order: as many as workers wait, at most.
    clocks: Vec<u32>,
}

impl Asked {
    /// The owner is asked for clock `need`; 0 is every clock.
    pub(crate) fn new(need: u32) -> Self {
        let mut asked = Self::default();
        asked.insert(need);
        asked
    }

    /// Notes that the owner is asked for clock `need`. Returns whether it was not before.
    pub(crate) fn insert(&mut self, need: u32) -> bool {
        let new = need > 0 && !self.clocks.contains(&need);
        if new {
            self.clocks.push(need);
        }
        new
    }

    /// The owner has reached `clock`.
    pub(crate) fn reached(&mut self, clock: u32) {
        self.clocks.retain(|need| *need > clock);
    }
}

/// Hands out generations. A registration of a replica has the generation under which the holder asked for it;
/// owners ignore messages with older ones.
#[derive(Default)]
pub(crate) struct Generations {
    last: u32,
}

impl Generations {
    /// A generation for a key of which this node has no replica.
    pub(crate) fn fresh(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// A generation for a replica that is registered under `old`. The registration may be so old that the
    /// generations given out to other keys have wrapped around meanwhile: the owner accepts only newer ones.
    pub(crate) fn after(&mut self, old: u32) -> u32 {
        let fresh = self.fresh();
        if is_newer(fresh, old) { fresh } else { old.wrapping_add(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::NodeId;
    use intendant_techniques::replication::{AskOutcome, Hub};

    #[test]
    fn an_owner_is_asked_for_a_clock_once_until_it_has_reached_it() {
        let mut asked = Asked::new(3);
        assert!(!asked.insert(3) && asked.insert(5) && asked.insert(4));
        assert!(!asked.insert(0), "an owner is always there");
        asked.reached(4);
        assert_eq!(asked.clocks, [5]);
        assert!(asked.insert(4) && !asked.insert(5));
        assert_eq!(Asked::new(0).clocks.capacity(), 0);
    }

    #[test]
    fn a_replica_of_any_age_is_revived_under_a_generation_that_its_owner_accepts() {
        for others in [0, 1, 7, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX] {
            let (mut generations, mut hub) = (Generations::default(), Hub::default());
            let old = generations.fresh();
            assert_eq!(hub.ask(NodeId(1), old), AskOutcome::New);
            // Meanwhile the node replicates so many other keys.
            generations.last = generations.last.wrapping_add(others);
            let mut last = old;
            for _ in 0..3 {
                let next = generations.after(last);
                assert_eq!(hub.ask(NodeId(1), next), AskOutcome::New, "{next} after {last}, {others} later");
                last = next;
            }
        }
    }
}
