//! The channel's record of one replica that its node holds, and the generations of registrations.

use crate::channel::effects::Access;
use bytes::Bytes;
use intendant_core::{Element, Tick};
use intendant_techniques::is_newer;
use intendant_techniques::replication::Replica;
use std::collections::VecDeque;

/// What a replica that stays must send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urge {
    /// Its updates since the last delta, if there are any. The remainder that rounding has left out is sent
    /// with them.
    Updates,
    /// The same, and the remainder even if there are no updates.
    Remainder,
}

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
    /// What waits for it; `None` if nothing ever has, as for most replicas.
    waiting: Option<Box<Waiting>>,
}

/// What waits for a replica.
#[derive(Default)]
struct Waiting {
    asked: Asked,
    /// Accesses that wait until the replica is set up or dropped.
    queue: VecDeque<(Access, Bytes)>,
}

impl<E: Element> Held<E> {
    /// The record of a replica that is asked for at `now`.
    pub(crate) fn new(generation: u32, now: Tick) -> Self {
        Self {
            replica: Replica::ask(generation),
            since: now,
            allowance: 0,
            listed: false,
            wanted: true,
            closed: false,
            waiting: None,
        }
    }

    /// Whether the replica is to be dropped.
    pub(crate) fn ends(&self) -> bool {
        !self.wanted || self.closed
    }

    /// Notes that the owner is asked for clock `need`. Returns whether it had not been asked for this clock
    /// before.
    pub(crate) fn ask(&mut self, need: u32) -> bool {
        need > 0 && self.waiting.get_or_insert_default().asked.insert(need)
    }

    /// The owner has reached `clock`.
    pub(crate) fn reached(&mut self, clock: u32) {
        if let Some(waiting) = &mut self.waiting {
            waiting.asked.reached(clock);
        }
    }

    /// An access waits until the replica is set up or dropped.
    pub(crate) fn queue(&mut self, access: Access, operand: Bytes) {
        self.waiting.get_or_insert_default().queue.push_back((access, operand));
    }

    /// Takes the accesses that wait.
    pub(crate) fn take_queue(&mut self) -> VecDeque<(Access, Bytes)> {
        self.waiting.as_mut().map_or_else(VecDeque::new, |waiting| std::mem::take(&mut waiting.queue))
    }
}

/// Clocks that the owner was asked for and has not reached, as far as this node knows. Kept one by one, so
/// that a slow worker's request does not wait for a faster one's.
#[derive(Default)]
struct Asked {
    /// In no order. There are at most as many as workers wait.
    clocks: Vec<u32>,
}

impl Asked {
    fn insert(&mut self, need: u32) -> bool {
        let new = !self.clocks.contains(&need);
        if new {
            self.clocks.push(need);
        }
        new
    }

    fn reached(&mut self, clock: u32) {
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
        let mut held: Held<f32> = Held::new(1, Tick(0));
        assert!(!held.ask(0) && held.waiting.is_none(), "every owner has reached 0");
        assert!(held.ask(3) && !held.ask(3) && held.ask(5) && held.ask(4));
        held.reached(4);
        assert!(held.ask(4) && !held.ask(5));
    }

    #[test]
    fn a_replica_of_any_age_is_revived_under_a_generation_that_its_owner_accepts() {
        for others in [0, 1, 7, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX] {
            let (mut generations, mut hub) = (Generations::default(), Hub::default());
            let old = generations.fresh();
            assert_eq!(hub.ask(NodeId(1), old), AskOutcome::New);
            // Meanwhile the node replicates `others` other keys.
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
