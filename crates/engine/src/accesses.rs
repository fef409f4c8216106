//! Accesses: what workers could not serve, what other nodes ask for, and the answers. See the table in
//! [`intendant_techniques::access`].

use crate::batch::Route;
use crate::buffers::Room;
use crate::channel::{Channel, Link};
use crate::input::{Action, Completion, Kind};
use crate::relocations::Waiting;
use crate::shared::Shared;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, WorkerId};
use intendant_store::Entry;
use intendant_techniques::{NextHop, Order, Replicas, Role, SlotState, access};
use intendant_wire::{AccessKind, Origin, Request, Response};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// An access to one key, apart from its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) origin: Origin,
    pub(crate) kind: AccessKind,
    /// How often it has been forwarded.
    pub(crate) hops: u8,
    pub(crate) position: u32,
    /// The worker's clock; of another node's worker: 0.
    pub(crate) clock: u32,
    /// The clock that what a pull reads must have reached; of another node's worker: 0.
    pub(crate) need: u32,
}

impl<E: Element> Channel<E> {
    pub(crate) fn submit_accesses(
        &mut self,
        access: Access,
        keys: &[Key],
        positions: &[u32],
        values: &Bytes,
    ) -> Result<(), String> {
        let Access { origin, kind, clock, need, .. } = access;
        let shared = Arc::clone(&self.shared);
        let chained = shared.policy().order == Order::Chain;
        // Twice an even share for each of the others.
        let share = |whole: usize| whole.min(2 * whole / shared.layout().nodes().saturating_sub(1).max(1));
        self.batch.expect(Room { keys: share(keys.len()), bytes: share(values.len()) });
        let mut offset = 0;
        for (at, (key, position)) in keys.iter().zip(positions).enumerate() {
            shared.prefetch_slots(keys, at);
            let operand = self.operand(kind, *key, offset);
            offset = operand.end;
            if chained {
                if let Some(waiting) = self.chains.get_mut(&(origin.worker, *key)) {
                    let operand = values.slice(operand);
                    waiting.push_back(Link {
                        op: origin.op,
                        kind,
                        position: *position,
                        operand,
                        clock,
                        need,
                    });
                    self.staleness.waits(&access);
                    continue;
                }
                self.chains.insert((origin.worker, *key), VecDeque::new());
            }
            let access = Access { position: *position, ..access };
            self.access(&shared, access, *key, values, operand)?;
        }
        Ok(())
    }

    /// Where the operand of a key is, if the one before it ended at `offset`.
    fn operand(&self, kind: AccessKind, key: Key, offset: usize) -> Range<usize> {
        match kind {
            AccessKind::Pull => offset..offset,
            AccessKind::Push | AccessKind::Set => offset..offset + self.value_bytes(key),
        }
    }

    /// Serves an access if the key is here, queues it if the key is coming, else sends it on.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        shared: &Shared<E>,
        access: Access,
        key: Key,
        values: &Bytes,
        operand: Range<usize>,
    ) -> Result<(), String> {
        let (entry, role) = shared.latch(key);
        // Mostly it is another node's, for a key that is owned here and has no copies.
        if role == Role::Owner && access.need == 0 {
            self.serve(shared, entry, access, values, operand);
            return Ok(());
        }
        self.access_otherwise(shared, entry, access, values, operand)
    }

    /// Serves an access to a key that is here.
    #[inline(always)]
    fn serve(
        &mut self,
        shared: &Shared<E>,
        mut entry: Entry<'_, SlotState, E>,
        access: Access,
        values: &Bytes,
        operand: Range<usize>,
    ) {
        let Access { origin, kind, hops, position, .. } = access;
        let (key, state) = (entry.key(), entry.state());
        let counter = shared.policy().caches.then_some(state.counter);
        let value = entry.value_mut().expect("who serves a key has its value");
        self.replies.served(origin, kind, position, counter, |read| {
            access::apply(kind, value, &values[operand], read);
        });
        if state.role == Role::Hub {
            self.after_access(&mut entry, kind != AccessKind::Pull, origin.node);
        } else if kind != AccessKind::Pull {
            Shared::mark(&mut entry);
        }
        if origin.node != shared.node() {
            self.stats.served(hops);
        } else if hops > 0 {
            self.came_back(key);
        }
    }

    /// What else may become of an access: see the table in [`intendant_techniques::access`].
    #[inline(never)]
    fn access_otherwise(
        &mut self,
        shared: &Shared<E>,
        entry: Entry<'_, SlotState, E>,
        access: Access,
        values: &Bytes,
        operand: Range<usize>,
    ) -> Result<(), String> {
        let Access { origin, kind, hops, position, .. } = access;
        let (key, role) = (entry.key(), entry.state().role);
        // Neither another node's nor one that was sent away before.
        let own = origin.node == shared.node() && hops == 0;
        match role {
            Role::Owner | Role::Hub
                if own && kind == AccessKind::Pull && !shared.is_fresh(key, &entry.state(), access.need) =>
            {
                let state = entry.state();
                drop(entry);
                self.park(key, &state, access)?;
            }
            Role::Replica if own => return self.access_replica(shared, entry, access, values, operand),
            Role::Static if !own => {
                return Err(format!("it accesses {key:?}, of which it has a static replica"));
            }
            Role::Owner | Role::Hub | Role::Static => self.serve(shared, entry, access, values, operand),
            Role::Arriving => {
                drop(entry);
                let (operand, since) = (values.slice(operand), self.now);
                let arrival = self.arrivals.get_mut(&key).expect("a key that arrives has a queue");
                arrival.queue().push_back(Waiting::Access { access, operand, since });
                self.stats.queued += 1;
            }
            Role::Absent | Role::Leaving | Role::Replica => {
                let state = entry.state();
                drop(entry);
                if own && shared.policy().replicas.is_some_and(Replicas::is_clocked) {
                    // A read makes a replica; what comes after it waits for that.
                    if kind == AccessKind::Pull {
                        self.want(key, &state, access.need)?;
                    }
                    if self.holding.held.contains_key(&key) {
                        self.queue(key, access, values.slice(operand));
                        return Ok(());
                    }
                }
                let next = if own {
                    self.stats.localization_conflicts += u64::from(state.is_localized());
                    shared.directory().first_hop(key, &state)
                } else if hops >= shared.directory().hops_max() {
                    return Err(format!("its request for {key:?} was forwarded {hops} times"));
                } else {
                    shared.directory().next_hop(key, &state)
                };
                let NextHop::To(to) = next else {
                    return Err(format!("this node is home of {key:?} and does not know its owner"));
                };
                let hops = hops + u8::from(origin.node != shared.node() || hops > 0);
                let bytes = self.value_bytes(key);
                if own {
                    self.sent_away(key);
                }
                self.batch.add(Route { to, origin, kind, hops }, key, position, values, operand, bytes);
            }
        }
        Ok(())
    }

    /// An access of this node's worker to a replica here.
    fn access_replica(
        &mut self,
        shared: &Shared<E>,
        entry: Entry<'_, SlotState, E>,
        access: Access,
        values: &Bytes,
        operand: Range<usize>,
    ) -> Result<(), String> {
        let (key, state, kind) = (entry.key(), entry.state(), access.kind);
        if state.is_closed() {
            drop(entry);
            self.queue(key, access, values.slice(operand));
        } else if kind == AccessKind::Set {
            // The owner executes it. Until then the copy has updates that came before it, and afterwards it lacks it.
            self.close(entry)?;
            self.queue(key, access, values.slice(operand));
        } else if kind == AccessKind::Pull && !shared.is_fresh(key, &state, access.need) {
            drop(entry);
            self.park(key, &state, access)?;
        } else {
            self.serve(shared, entry, access, values, operand);
        }
        Ok(())
    }

    /// Operations of a worker on `keys` are done: the next one of each chain goes on.
    pub(crate) fn release(&mut self, worker: WorkerId, keys: &[Key]) -> Result<(), String> {
        if self.shared.policy().order != Order::Chain {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        for key in keys {
            let Some(waiting) = self.chains.get_mut(&(worker, *key)) else {
                return Err(format!("{key:?} of {worker:?} completed without being outstanding"));
            };
            match waiting.pop_front() {
                Some(Link { op, kind, position, operand, clock, need }) => {
                    let origin = Origin { node: shared.node(), worker, op };
                    let access = Access { origin, kind, hops: 0, position, clock, need };
                    self.staleness.waited(&access);
                    self.access(&shared, access, *key, &operand, 0..operand.len())?;
                }
                None => {
                    self.chains.remove(&(worker, *key));
                }
            }
        }
        Ok(())
    }

    /// Another node's access, or one of this node's own that came back here, where the key is now.
    pub(crate) fn on_request(&mut self, request: &Request) -> Result<(), String> {
        self.check_request(request)?;
        let Request { origin, kind, hops, keys, positions, values } = request;
        let shared = Arc::clone(&self.shared);
        let room = match kind {
            AccessKind::Pull => self.room(keys),
            AccessKind::Push | AccessKind::Set => Room { keys: keys.len(), bytes: 0 },
        };
        self.replies.expect(room);
        let mut offset = 0;
        for (at, (key, position)) in keys.iter().zip(positions).enumerate() {
            shared.prefetch(keys, at);
            let operand = self.operand(*kind, *key, offset);
            offset = operand.end;
            let (origin, kind, hops, position) = (*origin, *kind, *hops, *position);
            let access = Access { origin, kind, hops, position, clock: 0, need: 0 };
            self.access(&shared, access, *key, values, operand)?;
        }
        Ok(())
    }

    pub(crate) fn on_response(
        &mut self,
        from: NodeId,
        response: Response,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let Response { worker, op, kind, positions, counters, values } = response;
        let keys = self.settle(worker, op, Kind::Access(kind), &positions)?;
        let expected = match kind {
            AccessKind::Pull => keys.iter().map(|key| self.value_bytes(*key)).sum(),
            AccessKind::Push | AccessKind::Set => 0,
        };
        if values.len() != expected {
            return Err(format!("its answer carries {} bytes of values instead of {expected}", values.len()));
        }
        let counted = if self.shared.policy().caches { keys.len() } else { 0 };
        if counters.len() != counted {
            return Err(format!("its answer carries {} counters instead of {counted}", counters.len()));
        }
        for (key, counter) in keys.iter().zip(counters) {
            self.learn(*key, from, counter);
        }
        actions.push(Action::Complete { worker, completion: Completion { op, positions, values } });
        if self.holding.awaits_answers() {
            for key in &keys {
                self.came_back(*key);
                self.end_if_due(*key)?;
            }
        }
        self.release(worker, &keys)
    }
}
