//! One owner per key. Under static allocation it is the key's home, for ever.

use super::Finding;
use intendant_core::{Element, Key, Layout, NodeId};
use intendant_engine::{Shared, Storage};
use intendant_techniques::Role;
use std::sync::Arc;

/// Looks at one key on one node per step in turn, and at everything when the cluster rests: a look latches the key.
pub(crate) struct Owners {
    lazy: bool,
    homes: Vec<NodeId>,
    /// Key and node of the next look.
    next: (usize, usize),
}

impl Owners {
    pub(crate) fn new(layout: &Layout, storage: Storage) -> Self {
        let homes = (0..layout.keys()).map(|key| layout.home(Key(key))).collect();
        Self { lazy: storage == Storage::Sparse, homes, next: (0, 0) }
    }

    /// Whether stores make values only when they are touched.
    pub(crate) fn lazy(&self) -> bool {
        self.lazy
    }

    /// Looks at the next key and node.
    #[inline]
    pub(crate) fn step<E: Element>(&mut self, nodes: &[Arc<Shared<E>>]) -> Result<(), Finding> {
        let (key, node) = self.next;
        self.next = match (key + 1 == self.homes.len(), node + 1 == nodes.len()) {
            (false, _) => (key + 1, node),
            (true, false) => (0, node + 1),
            (true, true) => (0, 0),
        };
        self.check(&nodes[node], key)
    }

    /// Looks at all keys on all nodes.
    pub(crate) fn all<E: Element>(&self, nodes: &[Arc<Shared<E>>]) -> Result<(), Finding> {
        nodes.iter().try_for_each(|node| (0..self.homes.len()).try_for_each(|key| self.check(node, key)))
    }

    #[inline]
    fn check<E: Element>(&self, node: &Shared<E>, key: usize) -> Result<(), Finding> {
        let home = self.homes[key];
        let key = Key(key as u64);
        let at_home = node.node() == home;
        let wrong = match node.inspect(key) {
            (Role::Owner, true) if at_home => return Ok(()),
            // The home of a key that nobody touched yet owns it without having made its value.
            (Role::Absent, false) if !at_home || self.lazy => return Ok(()),
            (Role::Owner, true) => "owns it as well",
            (Role::Owner, false) => "owns it without a value",
            (Role::Absent, true) => "holds a value without owning it",
            (Role::Absent, false) => "lost it",
            (Role::Arriving | Role::Leaving, _) => "waits for it",
        };
        Err(("owners", format!("{key:?} belongs to its home {home:?}, but {:?} {wrong}", node.node())))
    }
}
