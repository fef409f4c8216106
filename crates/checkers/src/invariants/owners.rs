//! Owners: a key has one owner, which alone holds its main copy; or the main copy is in flight and no node
//! holds it. At rest, homes know the owners.

use super::{Ledger, knowledge};
use intendant_core::{Element, Key, Layout};
use intendant_engine::{Inspection, Storage};
use intendant_sim::Finding;
use intendant_sim::cluster::Nodes;
use intendant_techniques::{Location, Role};
use std::sync::Arc;

/// Upper bound of the (key, node) pairs checked at rest: more than any model of a simulated task has. Of a
/// larger, sparse key space, each check at rest covers a different part.
const CHECKS_AT_REST_MAX: u64 = 1 << 24;

/// Checks one key on one node per event, in turn, and all of them at rest: each check latches the key.
pub(crate) struct Owners {
    layout: Arc<Layout>,
    lazy: bool,
    /// Whether nodes may hold replicas.
    replicas: bool,
    /// Per key, whether it has static replicas; empty if none has.
    static_replicas: Vec<bool>,
    /// Key and node of the next check.
    next: (u64, usize),
}

impl Owners {
    pub(crate) fn new(
        layout: &Arc<Layout>,
        storage: Storage,
        replicas: bool,
        static_replicas: Vec<bool>,
    ) -> Self {
        Self {
            layout: Arc::clone(layout),
            lazy: storage == Storage::Sparse,
            replicas,
            static_replicas,
            next: (0, 0),
        }
    }

    /// Whether `key` has static replicas.
    pub(crate) fn has_static_replicas(&self, key: Key) -> bool {
        self.static_replicas.get(key.index()).copied().unwrap_or(false)
    }

    /// Whether stores create a value at its first access.
    pub(crate) fn lazy(&self) -> bool {
        self.lazy
    }

    /// Checks the next key on the next node.
    #[inline]
    pub(crate) fn step<E: Element>(&mut self, nodes: Nodes<'_, E>, ledger: &Ledger) -> Result<(), Finding> {
        let (key, node) = self.next;
        self.next = match (key + 1 == self.layout.keys(), node + 1 == nodes.count()) {
            (false, _) => (key + 1, node),
            (true, false) => (0, node + 1),
            (true, true) => (0, 0),
        };
        self.check_key(nodes.at(node), Key(key), ledger)
    }

    /// Checks all keys on all nodes of a cluster at rest.
    pub(crate) fn at_rest<E: Element>(
        &mut self,
        nodes: Nodes<'_, E>,
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let checks = self.layout.keys().saturating_mul(nodes.count() as u64).min(CHECKS_AT_REST_MAX);
        for _ in 0..checks {
            if self.next.1 == 0 {
                let key = Key(self.next.0);
                ledger.settled(key)?;
                if ledger.last(key) > 0 {
                    self.known_at_rest(nodes, key, ledger)?;
                }
            }
            self.step(nodes, ledger)?;
        }
        Ok(())
    }

    /// Checks that the nodes that must know the location of `key`, which has moved, know it.
    fn known_at_rest<E: Element>(
        &self,
        nodes: Nodes<'_, E>,
        key: Key,
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let home = self.layout.home(key);
        let know = |node: &Inspection<'_, E>| match node.policy().location {
            Location::Home { .. } | Location::Request => node.node() == home,
            Location::BroadcastRelocations => true,
            Location::BroadcastOperations => false,
        };
        let mut knowing = nodes.iter().filter(know);
        knowing.try_for_each(|node| knowledge::at_rest(key, node.node(), &node.slot(key), ledger))
    }

    #[inline]
    fn check_key<E: Element>(
        &self,
        node: Inspection<'_, E>,
        key: Key,
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let place = ledger.place(key);
        let here = place.node == node.node() && !place.in_flight;
        let wrong = match node.role(key) {
            (Role::Static, true) if self.has_static_replicas(key) => return Ok(()),
            _ if self.has_static_replicas(key) => "has no static replica",
            (Role::Static, _) => "has a static replica of a key without static replicas",
            (Role::Replica, true) if !here && self.replicas => return Ok(()),
            (Role::Replica, _) => "has a replica that it should not have",
            (Role::Hub, true) if here && self.replicas => return Ok(()),
            (Role::Hub, _) => "has registered holders that it should not have",
            (Role::Owner, true) if here => return Ok(()),
            // The home owns a key that was never accessed, without having created its value.
            (Role::Absent, false) if here && self.lazy && place.counter == 0 => return Ok(()),
            (Role::Absent, false) if !here => match ledger.awaited(key, node.node()) {
                0 => return Ok(()),
                _ => "has requested it and does not wait for it",
            },
            (Role::Arriving | Role::Leaving, false) if !here => match ledger.awaited(key, node.node()) {
                0 => "waits for it without having requested it",
                _ => return Ok(()),
            },
            (Role::Owner, true) => "is a second owner",
            (Role::Owner, false) => "owns it without a value",
            (Role::Absent, true) => "holds a value without owning it",
            (Role::Absent, false) => "lost it",
            (Role::Arriving | Role::Leaving, _) => "waits for a key that it owns",
        };
        Err(("owners", format!("{key:?}: {place:?}, but {:?} {wrong}", node.node())))
    }
}
