//! The channel's record of one replica that its node holds, and the generations of registrations.

use crate::channel::effects::Access;
use bytes::Bytes;
use intendant_core::Tick;
use intendant_techniques::is_newer;
use intendant_techniques::replication::Replica;
use std::collections::{BTreeSet, VecDeque};

/// A replica, or a request for one.
pub(crate) struct Held<E> {
    pub(crate) replica: Replica<E>,
    /// When it was last asked for.
    pub(crate) since: Tick,
    /// The allowance with which it began to count updates after the last delta, if replicas have one.
    pub(crate) allowance: u32,
    /// Whether it is to stay.
    pub(crate) wanted: bool,
    /// A worker set the key: the replica serves no access any more, and will be dropped.
    pub(crate) closed: bool,
    /// Clocks that the owner was asked for and has not reached, as far as this node knows. Kept one by one,
    /// so that a slow worker's request does not wait for a faster one's.
    pub(crate) asked: BTreeSet<u32>,
    /// Accesses that wait until the replica is set up or dropped.
    pub(crate) queue: VecDeque<(Access, Bytes)>,
}

impl<E> Held<E> {
    /// Whether the replica is to be dropped.
    pub(crate) fn ends(&self) -> bool {
        !self.wanted || self.closed
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
