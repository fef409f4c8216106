//! How a channel handles an access: the role of the key decides which mechanism serves, queues or forwards
//! it. See the table in [`intendant_techniques::access`].

use super::Channel;
use super::effects::Access;
use crate::access::{self, operand};
use crate::error::ProtocolError;
use crate::events::traced;
use crate::input::{Action, Completion, Kind};
use crate::node::Shared;
use crate::outgoing::replies::Answer;
use crate::outgoing::requests::Route;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, WorkerId};
use intendant_store::Entry;
use intendant_techniques::{Location, Role, SlotState};
use intendant_trace::What;
use intendant_wire::{AccessKind, Message, Origin, Request, Response};
use std::ops::Range;
use std::sync::Arc;

impl<E: Element> Channel<E> {
    /// The keys of a call that the worker's thread could not serve.
    #[expect(clippy::too_many_arguments, reason = "the fields of a submission")]
    pub(super) fn submit_accesses(
        &mut self,
        origin: Origin,
        kind: AccessKind,
        keys: &[Key],
        positions: &[u32],
        values: &Bytes,
        clock: u32,
        need: u32,
    ) -> Result<(), ProtocolError> {
        let shared = Arc::clone(&self.core.shared);
        let chained = access::is_chained(&self.core);
        let (since, late) = (self.core.now, !self.core.counts_late());
        access::expect_requests(&self.core, &mut self.out, keys.len(), values.len());
        let mut offset = 0;
        for (at, (key, position)) in keys.iter().copied().zip(positions.iter().copied()).enumerate() {
            shared.ahead().slots(keys, at);
            let operand = operand(&self.core, kind, key, offset);
            offset = operand.end;
            let access = Access { origin, kind, hops: 0, position, clock, need, late, since };
            if chained && !self.operations.may_start(key, &access, || values.slice(operand.clone())) {
                self.replication.staleness.waits(&access);
                continue;
            }
            self.access(&shared, access, key, values, operand)?;
        }
        Ok(())
    }

    /// A request of another node, or one of this node's own that came back here because the key has arrived
    /// meanwhile.
    pub(super) fn on_request(&mut self, request: &Request) -> Result<(), ProtocolError> {
        access::check_request(&self.core, request)?;
        access::expect_answer(&self.core, &mut self.out, request);
        let Request { origin, kind, hops, keys, positions, values } = request;
        let (origin, kind, hops) = (*origin, *kind, *hops);
        let since = if origin.node == self.core.node() {
            self.operations.since(origin.worker, origin.op).unwrap_or(self.core.now)
        } else {
            self.core.now
        };
        let shared = Arc::clone(&self.core.shared);
        let mut offset = 0;
        for (at, (key, position)) in keys.iter().copied().zip(positions.iter().copied()).enumerate() {
            shared.ahead().values(keys, at);
            let operand = operand(&self.core, kind, key, offset);
            offset = operand.end;
            let access = Access { origin, kind, hops, position, clock: 0, need: 0, late: true, since };
            self.access(&shared, access, key, values, operand)?;
        }
        Ok(())
    }

    /// Serves an access if the key is here, queues it if the key is on its way here, else sends it on.
    #[inline(always)]
    pub(super) fn access(
        &mut self,
        shared: &Shared<E>,
        access: Access,
        key: Key,
        values: &Bytes,
        operand: Range<usize>,
    ) -> Result<(), ProtocolError> {
        let (mut entry, role) = shared.latch(key);
        // Fast path: most often another node accesses a key that is owned here and has no copies.
        if role == Role::Owner && access.need == 0 && !self.core.has_rules {
            let counter = self.core.told_counter(&entry.state());
            self.out.serve_plainly(&self.core, counter, &mut entry, &access, &values[operand]);
            self.served(&mut entry, &access);
            return Ok(());
        }
        self.access_by_role(shared, entry, access, values, operand)
    }

    /// Serves an access to a key that is here.
    pub(super) fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, access: &Access, operand: &[u8]) {
        let counter = self.core.told_counter(&entry.state());
        self.out.serve(&self.core, counter, entry, access, operand);
        self.served(entry, access);
    }

    /// Does what follows from an access that was served.
    #[inline(always)]
    fn served(&mut self, entry: &mut Entry<'_, SlotState, E>, access: &Access) {
        self.core.shared.after_access(entry, access.kind, access.origin.node);
        if access.hops > 0 && access.origin.node == self.core.node() {
            self.replication.holder.came_back(entry.key());
        }
    }

    /// Serves an access to a key that has copies, and marks the key if the access changes it.
    fn serve_copy(&mut self, mut entry: Entry<'_, SlotState, E>, access: &Access, operand: &[u8]) {
        self.serve(&mut entry, access, operand);
        if entry.state().role == Role::Hub {
            let owner = &mut self.replication.owner;
            owner.after_access(&self.core, &mut entry, access.writes(), access.origin.node);
        } else if access.writes() {
            self.core.shared.mark(&mut entry);
        }
    }

    /// All cases of [`Channel::access`].
    #[inline(never)]
    fn access_by_role(
        &mut self,
        shared: &Shared<E>,
        entry: Entry<'_, SlotState, E>,
        access: Access,
        values: &Bytes,
        operand: Range<usize>,
    ) -> Result<(), ProtocolError> {
        let (key, state) = (entry.key(), entry.state());
        let own = access.is_own(shared.node());
        match state.role {
            Role::Owner | Role::Hub
                if own && !access.writes() && !shared.is_fresh(key, &state, access.need) =>
            {
                drop(entry);
                let (core, out, replication) = (&self.core, &mut self.out, &mut self.replication);
                let (staleness, access) = (&mut replication.staleness, access.late());
                replication.holder.park(core, out, staleness, key, &state, access);
            }
            Role::Replica if own => {
                let (core, out, replication) = (&self.core, &mut self.out, &mut self.replication);
                let staleness = &mut replication.staleness;
                let queued = || values.slice(operand.clone());
                let admitted = replication.holder.admit(core, out, staleness, entry, access.late(), queued);
                if let Some(entry) = admitted {
                    self.serve_copy(entry, &access, &values[operand]);
                }
            }
            Role::Static if !own => return Err(ProtocolError::AccessesStatic(key)),
            Role::Owner | Role::Hub | Role::Static => self.serve_copy(entry, &access, &values[operand]),
            Role::Arriving if own || self.core.policy().location.has_homes() => {
                drop(entry);
                let operand = values.slice(operand);
                self.relocation.queue_access(&self.core, &mut self.out, key, access.late(), operand);
            }
            Role::Absent | Role::Arriving | Role::Leaving | Role::Replica => {
                drop(entry);
                self.send_away(key, &state, access, values, operand)?;
            }
        }
        Ok(())
    }

    /// Sends an access on: to the key's owner, as far as this node knows.
    fn send_away(
        &mut self,
        key: Key,
        state: &SlotState,
        access: Access,
        values: &Bytes,
        operand: Range<usize>,
    ) -> Result<(), ProtocolError> {
        let (core, out) = (&self.core, &mut self.out);
        let Access { origin, kind, hops, position, .. } = access;
        let own = access.is_own(core.node());
        let queued = || values.slice(operand.clone());
        if own && self.replication.wait_for_replica(core, out, key, state, access.late(), queued) {
            return Ok(());
        }
        let to = if own {
            if state.is_localized() {
                out.stats.localization_conflicts += 1;
                out.events.note(core.now, key, What::Conflict);
            }
            self.replication.holder.sent_away(core, key);
            match core.policy().location {
                Location::BroadcastOperations => {
                    self.locations.broadcast(core, out, key, access.late(), values, operand);
                    return Ok(());
                }
                Location::Request if !core.shared.directory().is_home(key) => {
                    self.locations.locate(core, out, key, access.late(), queued());
                    return Ok(());
                }
                Location::Home { .. } | Location::Request | Location::BroadcastRelocations => {
                    core.first_hop(key, state)
                }
            }
        } else if hops >= core.shared.directory().hops_max() {
            return Err(ProtocolError::TooManyHops { what: "request".into(), key, hops });
        } else {
            core.next_hop(key, state)
        };
        let hops = hops + u8::from(!own);
        let (route, bytes) = (Route { to, origin, kind, hops }, core.operand_bytes(kind, key));
        out.outgoing.requests.add(route, key, position, values, operand, bytes);
        Ok(())
    }

    /// Sends one answer to another node, or completes the operation of this node's worker.
    pub(super) fn send_answer(
        &mut self,
        origin: Origin,
        kind: Kind,
        answer: Answer,
    ) -> Result<(), ProtocolError> {
        let Origin { node, worker, op } = origin;
        let Answer { positions, counters, values, late } = answer;
        let values = self.out.outgoing.replies.lend(values);
        if node == self.core.node() {
            let keys = self.operations.settle(worker, op, kind, &positions)?;
            let counts = matches!(kind, Kind::Access(_)) && self.core.counts_late();
            let completion = Completion { op, positions, values, late: counts.then_some(late) };
            self.out.actions.push(Action::Complete { worker, completion });
            if let Kind::Access(_) = kind {
                self.continue_chains(worker, &keys)?;
            }
        } else if let Kind::Access(kind) = kind {
            let response = Response { worker, op, kind, positions, counters, values };
            self.out.actions.push(Action::Send { to: node, message: Message::Response(response) });
        }
        Ok(())
    }

    /// An owner has answered (a part of) an operation of this node's worker.
    pub(super) fn on_response(&mut self, from: NodeId, response: Response) -> Result<(), ProtocolError> {
        let (worker, op) = (response.worker, response.op);
        let positions = if self.locations.awaits_answers() { response.positions.clone() } else { Vec::new() };
        let (core, out) = (&self.core, &mut self.out);
        let is_traced = out.events.are_traced();
        let since = is_traced.then(|| self.operations.since(worker, op)).flatten();
        let access = traced(response.kind);
        let (keys, counters) = self.operations.on_response(core, out, response)?;
        if let Some(since) = since {
            let after = core.now.0.saturating_sub(since.0);
            keys.iter()
                .for_each(|key| out.events.note(core.now, *key, What::Remote { access, by: from, after }));
        }
        self.locations.answered(worker, op, &keys, &positions);
        for (key, counter) in keys.iter().zip(counters) {
            self.relocation.learn(core, *key, from, counter);
        }
        self.replication.holder.answered(core, out, &keys);
        self.hand_on()?;
        self.continue_chains(worker, &keys)
    }

    /// Operations of a worker on `keys` are done: the next one of each chain starts.
    fn continue_chains(&mut self, worker: WorkerId, keys: &[Key]) -> Result<(), ProtocolError> {
        if !access::is_chained(&self.core) {
            return Ok(());
        }
        let shared = Arc::clone(&self.core.shared);
        for key in keys.iter().copied() {
            if let Some((access, operand)) = self.operations.next_in_chain(worker, key)? {
                self.replication.staleness.waited(&access);
                self.access(&shared, access, key, &operand, 0..operand.len())?;
            }
        }
        Ok(())
    }
}
