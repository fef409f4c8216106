//! A key has one owner, which alone holds its value; or its value is in flight, and no node holds it. At
//! rest, homes know the owners.

use super::{Finding, Ledger, knowledge};
use intendant_core::{Element, Key, Layout};
use intendant_engine::{Shared, Storage};
use intendant_techniques::Role;
use std::sync::Arc;

/// Looks when the cluster rests, at most: far more keys than any model of a simulated task has. Of a key
/// space that is larger (sparse), every rest looks at another part.
const LOOKS_AT_REST_MAX: u64 = 1 << 24;

/// Looks at one key on one node per step in turn, and at everything when the cluster rests: a look latches
/// the key.
pub(crate) struct Owners {
    layout: Arc<Layout>,
    lazy: bool,
    /// Whether nodes may hold replicas.
    replicas: bool,
    /// Keys of which every node has a copy; empty if there are none.
    fixed: Vec<bool>,
    /// Key and node of the next look.
    next: (u64, usize),
}

impl Owners {
    pub(crate) fn new(layout: &Arc<Layout>, storage: Storage, replicas: bool, fixed: Vec<bool>) -> Self {
        Self { layout: Arc::clone(layout), lazy: storage == Storage::Sparse, replicas, fixed, next: (0, 0) }
    }

    /// Whether every node has a copy of `key`.
    pub(crate) fn is_fixed(&self, key: Key) -> bool {
        self.fixed.get(key.index()).copied().unwrap_or(false)
    }

    /// Whether stores make values only when they are touched.
    pub(crate) fn lazy(&self) -> bool {
        self.lazy
    }

    /// Looks at the next key and node.
    #[inline]
    pub(crate) fn step<E: Element>(
        &mut self,
        nodes: &[Arc<Shared<E>>],
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let (key, node) = self.next;
        self.next = match (key + 1 == self.layout.keys(), node + 1 == nodes.len()) {
            (false, _) => (key + 1, node),
            (true, false) => (0, node + 1),
            (true, true) => (0, 0),
        };
        self.look(&nodes[node], Key(key), ledger)
    }

    /// Looks at all keys on all nodes, which rest.
    pub(crate) fn at_rest<E: Element>(
        &mut self,
        nodes: &[Arc<Shared<E>>],
        ledger: &Ledger,
    ) -> Result<(), Finding> {
        let looks = self.layout.keys().saturating_mul(nodes.len() as u64).min(LOOKS_AT_REST_MAX);
        for _ in 0..looks {
            if self.next.1 == 0 {
                let key = Key(self.next.0);
                ledger.settled(key)?;
                if ledger.last(key) > 0 {
                    let home = self.layout.home(key);
                    knowledge::at_rest(key, home, &nodes[home.index()].slot(key), ledger)?;
                }
            }
            self.step(nodes, ledger)?;
        }
        Ok(())
    }

    #[inline]
    fn look<E: Element>(&self, node: &Shared<E>, key: Key, ledger: &Ledger) -> Result<(), Finding> {
        let place = ledger.place(key);
        let here = place.node == node.node() && !place.flying;
        let wrong = match node.inspect(key) {
            (Role::Static, true) if self.is_fixed(key) => return Ok(()),
            _ if self.is_fixed(key) => "has no static replica",
            (Role::Static, _) => "has a static replica, and others have none",
            (Role::Replica, true) if !here && self.replicas => return Ok(()),
            (Role::Replica, _) => "has a replica that it should not have",
            (Role::Hub, true) if here && self.replicas => return Ok(()),
            (Role::Hub, _) => "believes that others have replicas of it",
            (Role::Owner, true) if here => return Ok(()),
            // The home of a key that was never accessed owns it without having made its value.
            (Role::Absent, false) if here && self.lazy && place.counter == 0 => return Ok(()),
            (Role::Absent, false) if !here => match ledger.awaited(key, node.node()) {
                0 => return Ok(()),
                _ => "does not wait for what it asked for",
            },
            (Role::Arriving | Role::Leaving, false) if !here => match ledger.awaited(key, node.node()) {
                0 => "waits for what it did not ask for",
                _ => return Ok(()),
            },
            (Role::Owner, true) => "owns it as well",
            (Role::Owner, false) => "owns it without a value",
            (Role::Absent, true) => "holds a value without owning it",
            (Role::Absent, false) => "lost it",
            (Role::Arriving | Role::Leaving, _) => "waits for what it has",
        };
        Err(("owners", format!("{key:?}: {place:?}, but {:?} {wrong}", node.node())))
    }
}
