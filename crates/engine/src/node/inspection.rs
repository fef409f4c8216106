//! What observers may see of a node: the role, the location and the value of each key.

use super::{ReplicationConfig, Shared};
use intendant_core::{Element, Key, NodeId};
use intendant_sampling::NearKeys;
use intendant_techniques::{Policy, Role, SlotState};

/// A view of a node that changes nothing that a worker or a channel could notice. Its answers have no order
/// with respect to workers' operations and may be outdated at once: they are for invariant checks, reports
/// and tests.
pub struct Inspection<'a, E>(&'a Shared<E>);

impl<E> Clone for Inspection<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Inspection<'_, E> {}

impl<E: Element> Shared<E> {
    /// The view of observers.
    pub fn inspect(&self) -> Inspection<'_, E> {
        Inspection(self)
    }
}

impl<'a, E: Element> Inspection<'a, E> {
    /// The node.
    pub fn node(self) -> NodeId {
        self.0.node
    }

    /// The technique.
    pub fn policy(self) -> &'a Policy {
        &self.0.policy
    }

    /// How copies are kept.
    pub fn replication(self) -> &'a ReplicationConfig {
        &self.0.replication
    }

    /// The state of a key's slot. A lazy store makes no value.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn slot(self, key: Key) -> SlotState {
        self.0.store.latch(key).state()
    }

    /// The role of the node for `key`, and whether the node holds a value for it. A lazy store makes no
    /// value, and an untouched key is `Absent` even at home.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(never)]
    pub fn role(self, key: Key) -> (Role, bool) {
        let entry = self.0.store.latch(key);
        (entry.state().role, entry.value().is_some())
    }

    /// The node's part of `key`: see [`Shared::part`].
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn part(self, key: Key) -> u32 {
        self.0.part(key)
    }

    /// The keys that samplers may draw: see [`Shared::near`].
    pub fn near(self) -> Option<&'a NearKeys> {
        self.0.near()
    }

    /// Number of keys whose location this node stores, apart from locations that follow from the layout.
    #[inline(never)]
    pub fn locations(self) -> u64 {
        let stores = |key: &Key| self.0.directory.stores(*key, &self.slot(*key));
        (0..self.0.layout.keys()).map(Key).filter(stores).count() as u64
    }

    /// Number of values that this node holds.
    #[inline(never)]
    pub fn held(self) -> usize {
        self.0.store.held()
    }

    /// The value of `key` if this node owns it, or is the home of a key with static replicas. A lazy store
    /// makes the value of an untouched key.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(never)]
    pub fn value(self, key: Key) -> Option<Vec<E>> {
        let mut value = Vec::new();
        self.value_into(key, &mut value).then_some(value)
    }

    /// Appends the value of `key` to `values`, if [`Inspection::value`] reads it. Returns whether it does.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(never)]
    pub fn value_into(self, key: Key, values: &mut Vec<E>) -> bool {
        let (entry, role) = self.0.latch(key);
        let value = if self.0.is_main(key, role) { entry.value() } else { None };
        value.map(|value| values.extend_from_slice(value)).is_some()
    }

    /// The value of this node's copy of `key`, of any kind: see [`Inspection::value`].
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(never)]
    pub fn copy(self, key: Key) -> Option<Vec<E>> {
        let (entry, role) = self.0.latch(key);
        if role.is_copy() { entry.value().map(<[E]>::to_vec) } else { None }
    }

    /// The value of `key` in the window of this node, if it is mirrored.
    ///
    /// # Panics
    /// If the key does not exist.
    #[must_use]
    pub fn mirrored(self, key: Key) -> Option<Vec<E>> {
        let windows = self.0.windows.as_ref()?;
        let mut value = vec![E::ZERO; self.0.layout.len(key)];
        windows.read(&windows.own(), key, &mut value).then_some(value)
    }
}
