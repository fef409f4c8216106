//! Flows of locations that involve several mechanisms: localizes that reach owners without homes, broadcasts,
//! and accesses whose key has been located.

use super::Channel;
use super::effects::Access;
use crate::access::{self, operand};
use crate::error::ProtocolError;
use crate::location::check_location;
use crate::outgoing::requests::Route;
use crate::relocation::check_initiator;
use intendant_core::{Element, Key, NodeId};
use intendant_techniques::location::Void;
use intendant_techniques::{Initiator, Location, Role};
use intendant_wire::{Localize, Located, Request};
use std::sync::Arc;

impl<E: Element> Channel<E> {
    /// A node asks for keys: the home orders their relocation, or the owner hands them over.
    pub(super) fn on_localize(&mut self, from: NodeId, localize: &Localize) -> Result<(), ProtocolError> {
        let (core, out) = (&self.core, &mut self.out);
        check_initiator(core, Initiator::Requester, "asks for keys")?;
        core.check_keys(&localize.keys)?;
        let requester = localize.requester;
        let follows = core.policy().location == Location::BroadcastRelocations;
        let possible = requester.index() < core.shared.layout().nodes() && requester != core.node();
        if !possible || !follows && (requester != from || localize.hops > 0) {
            return Err(ProtocolError::InTheNameOf { what: "localize".into(), node: requester });
        }
        out.outgoing.relocation.expect(core.room(&localize.keys));
        match core.policy().location {
            Location::Home { .. } | Location::Request => {
                self.relocation.on_localize(core, out, from, localize)
            }
            Location::BroadcastRelocations => self.relocation.on_localize_of_owner(core, out, localize),
            Location::BroadcastOperations => {
                let number = self.locations.receive(from);
                for (at, key) in localize.keys.iter().copied().enumerate() {
                    core.shared.ahead().departures(&localize.keys, at);
                    let (entry, role) = core.shared.latch(key);
                    if role == Role::Owner && !self.locations.is_decided(from, key, number) {
                        let decided = self.locations.decided(key);
                        self.relocation.give(core, out, entry, from, &decided);
                    }
                }
                self.locations.handled(from, number);
                Ok(())
            }
        }
    }

    /// Another node has broadcast accesses. Serves those to keys that are owned here, unless an earlier owner
    /// has decided them.
    pub(super) fn on_broadcast(&mut self, from: NodeId, request: &Request) -> Result<(), ProtocolError> {
        access::check_request(&self.core, request)?;
        let Request { origin, kind, hops, keys, positions, values } = request;
        if origin.node != from || *hops > 0 {
            return Err(ProtocolError::RequestOrigin { of: origin.node, to: self.core.node() });
        }
        let shared = Arc::clone(&self.core.shared);
        let number = self.locations.receive(from);
        let mut offset = 0;
        for (at, (key, position)) in keys.iter().copied().zip(positions.iter().copied()).enumerate() {
            shared.ahead().values(keys, at);
            let operand = operand(&self.core, *kind, key, offset);
            offset = operand.end;
            let (mut entry, role) = shared.latch(key);
            if role == Role::Static {
                return Err(ProtocolError::AccessesStatic(key));
            }
            if role == Role::Owner && !self.locations.is_decided(from, key, number) {
                let (origin, kind, since) = (*origin, *kind, self.core.now);
                let access = Access { origin, kind, hops: 0, position, clock: 0, need: 0, late: true, since };
                self.serve(&mut entry, &access, &values[operand]);
            }
        }
        self.locations.handled(from, number);
        Ok(())
    }

    /// A new owner says which of this node's broadcasts are void.
    pub(super) fn on_void(&mut self, void: &intendant_wire::Void) -> Result<(), ProtocolError> {
        check_location(&self.core, Location::BroadcastOperations, "says which broadcasts are void")?;
        self.core.check_keys(&void.keys)?;
        let node = self.core.node();
        for (key, (after, upto)) in void.keys.iter().zip(void.after.iter().zip(&void.upto)) {
            let void = Void { node, after: *after, upto: *upto };
            self.locations.restart(&mut self.out, *key, void);
        }
        Ok(())
    }

    /// The home of keys says where they are. Sends the accesses that waited for this there, unless this node
    /// has localized the key meanwhile.
    pub(super) fn on_located(&mut self, from: NodeId, located: &Located) -> Result<(), ProtocolError> {
        check_location(&self.core, Location::Request, "says where keys are")?;
        self.core.check_keys(&located.keys)?;
        let (shared, to) = (Arc::clone(&self.core.shared), located.at);
        for key in located.keys.iter().copied() {
            for (access, operand) in self.locations.located(&self.core, from, to, key)? {
                let (entry, role) = shared.latch(key);
                drop(entry);
                let range = 0..operand.len();
                if matches!(role, Role::Absent | Role::Leaving) {
                    let Access { origin, kind, hops, position, .. } = access;
                    let bytes = self.core.operand_bytes(kind, key);
                    let route = Route { to, origin, kind, hops };
                    self.out.outgoing.requests.add(route, key, position, &operand, range, bytes);
                } else {
                    self.access(&shared, access, key, &operand, range)?;
                }
            }
        }
        Ok(())
    }

    /// `key` has arrived from its previous owner `from`, because this node asked for it. Tells the nodes that
    /// must know.
    pub(super) fn arrived_without_home(&mut self, from: NodeId, key: Key, counter: u32, decided: &[u32]) {
        let (core, out) = (&self.core, &mut self.out);
        match core.policy().location {
            Location::Home { .. } | Location::Request => {}
            Location::BroadcastOperations => self.locations.arrived(out, core.node(), key, decided),
            Location::BroadcastRelocations => {
                let nodes = (0..core.shared.layout().nodes()).map(|node| NodeId(node as u16));
                for node in nodes.filter(|node| *node != core.node() && *node != from) {
                    out.outgoing.relocation.moved(node, key, counter);
                }
            }
        }
    }
}
