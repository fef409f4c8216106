//! One owner per key. Under static allocation it is the key's home, for ever.

use super::Finding;
use intendant_core::{Element, Key, Layout};
use intendant_engine::{Shared, Storage};
use intendant_techniques::Role;
use std::sync::Arc;

/// Looks at one key per step in turn, and at all of them every so often: a look latches the key on every node.
pub(crate) struct Owners {
    lazy: bool,
    next: u64,
}

impl Owners {
    pub(crate) fn new(storage: Storage) -> Self {
        Self { lazy: storage == Storage::Sparse, next: 0 }
    }

    /// Whether stores make values only when they are touched.
    pub(crate) fn lazy(&self) -> bool {
        self.lazy
    }

    /// Looks at the next key.
    pub(crate) fn step<E: Element>(&mut self, layout: &Layout, nodes: &[Arc<Shared<E>>]) -> Result<(), Finding> {
        let key = Key(self.next);
        self.next = (self.next + 1) % layout.keys();
        self.check(layout, nodes, key)
    }

    /// Looks at all keys.
    pub(crate) fn all<E: Element>(&self, layout: &Layout, nodes: &[Arc<Shared<E>>]) -> Result<(), Finding> {
        (0..layout.keys()).try_for_each(|key| self.check(layout, nodes, Key(key)))
    }

    fn check<E: Element>(&self, layout: &Layout, nodes: &[Arc<Shared<E>>], key: Key) -> Result<(), Finding> {
        let home = layout.home(key);
        for node in nodes {
            let (role, held) = node.inspect(key);
            let at_home = node.node() == home;
            let wrong = match (role, held) {
                (Role::Owner, true) if at_home => continue,
                // The home of a key that nobody touched yet owns it without having made its value.
                (Role::Absent, false) if !at_home || self.lazy => continue,
                (Role::Owner, true) => "owns it as well",
                (Role::Owner, false) => "owns it without a value",
                (Role::Absent, true) => "holds a value without owning it",
                (Role::Absent, false) => "lost it",
            };
            return Err(("owners", format!("{key:?} belongs to its home {home:?}, but {:?} {wrong}", node.node())));
        }
        Ok(())
    }
}
