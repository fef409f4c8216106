//! What a channel remembers of the replicas that its node holds; [`crate::holders`] says what happens to them.

use crate::accesses::Access;
use crate::channel::Hash;
use crate::key_set::KeySet;
use bytes::Bytes;
use hashbrown::HashMap;
use intendant_core::{Key, Tick};
use intendant_techniques::is_newer;
use intendant_techniques::replication::Replica;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A replica, or one to come.
pub(crate) struct Held<E> {
    pub(crate) replica: Replica<E>,
    /// When it was asked for last.
    pub(crate) since: Tick,
    /// Whether it shall stay.
    pub(crate) wanted: bool,
    /// Nothing is served until it is gone: somebody overwrites the main copy.
    pub(crate) closed: bool,
    /// Clocks that the owner was asked for and has not reached, as far as is known here. Slower workers must not wait for faster
    /// ones.
    pub(crate) asked: BTreeSet<u32>,
    /// Accesses that wait until it has come or gone.
    pub(crate) queue: VecDeque<(Access, Bytes)>,
}

impl<E> Held<E> {
    pub(crate) fn ends(&self) -> bool {
        !self.wanted || self.closed
    }
}

/// The replicas that a node holds of a channel's keys.
pub(crate) struct Holding<E> {
    pub(crate) held: HashMap<Key, Held<E>, Hash>,
    /// Generation given out so far.
    generations: u32,
    /// Keys whose updates have not been sent (if their slots still say so).
    pub(crate) dirty: KeySet,
    /// Reads that wait for fresher copies, also of keys that are owned here.
    pub(crate) parked: BTreeMap<Key, VecDeque<Access>>,
    /// By key, accesses of this node's workers that were sent away and are not answered. The owner must know of the replica as
    /// long as there are any: what it answers must be in the copy.
    pub(crate) away: HashMap<Key, usize, Hash>,
    /// Clocks and keys of replicas that are to be dropped when too old; the clocks may have grown meanwhile.
    pub(crate) aging: BTreeSet<(u32, Key)>,
}

impl<E> Default for Holding<E> {
    fn default() -> Self {
        Self {
            held: HashMap::default(),
            generations: 0,
            dirty: KeySet::default(),
            parked: BTreeMap::new(),
            away: HashMap::default(),
            aging: BTreeSet::new(),
        }
    }
}

impl<E> Holding<E> {
    /// Whether something may have to be done when accesses that were sent away are answered.
    pub(crate) fn awaits_answers(&self) -> bool {
        !self.away.is_empty() || !self.held.is_empty()
    }

    /// A generation for a key of which this node has no replica.
    pub(crate) fn fresh_generation(&mut self) -> u32 {
        self.generations = self.generations.wrapping_add(1);
        self.generations
    }

    /// A generation for a replica that is registered under `old`, perhaps for so long that the generations given out to other keys have
    /// come around: the owner listens to newer ones only.
    pub(crate) fn generation_after(&mut self, old: u32) -> u32 {
        let fresh = self.fresh_generation();
        if is_newer(fresh, old) { fresh } else { old.wrapping_add(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::NodeId;
    use intendant_techniques::replication::{AskOutcome, Hub};

    #[test]
    fn a_replica_of_any_age_is_revived_under_an_epoch_that_its_owner_hears() {
        for others in [0, 1, 7, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX] {
            let (mut holding, mut hub) = (Holding::<f32>::default(), Hub::default());
            let old = holding.fresh_generation();
            assert_eq!(hub.ask(NodeId(1), old), AskOutcome::New);
            // So many other keys were replicated meanwhile.
            holding.generations = holding.generations.wrapping_add(others);
            let mut last = old;
            for _ in 0..3 {
                let next = holding.generation_after(last);
                assert_eq!(hub.ask(NodeId(1), next), AskOutcome::New, "{next} after {last}, {others} later");
                last = next;
            }
        }
    }
}
