//! Where keys are, according to their traced events. The cluster compares this with the roles of slots after
//! every input.

use intendant_core::{Key, NodeId};
use intendant_techniques::{Role, SlotState};
use intendant_trace::{Event, What};

/// Where all keys are, according to the events so far.
pub(crate) struct Book {
    /// By key: the owner; `None` while the key is on its way.
    owners: Vec<Option<usize>>,
    /// By key and node: whether the node holds a replica.
    replicas: Vec<Vec<bool>>,
}

impl Book {
    /// Every key is at its home.
    pub(crate) fn new(nodes: usize, homes: impl Iterator<Item = NodeId>) -> Self {
        let owners: Vec<_> = homes.map(|home| Some(home.index())).collect();
        Self { replicas: vec![vec![false; nodes]; owners.len()], owners }
    }

    /// An event of a node.
    pub(crate) fn hear(&mut self, node: usize, event: Event) {
        let Some(key) = event.key.map(Key::index) else { return };
        #[expect(clippy::wildcard_enum_match_arm, reason = "most events are not about where keys are")]
        match event.what {
            What::Arrived { from, .. } => {
                assert_eq!(self.owners[key], None, "key {key} arrives at {node} and is owned");
                assert_ne!(from.index(), node, "key {key} comes from another node");
                self.owners[key] = Some(node);
                self.replicas[key][node] = false;
            }
            What::Left { to, .. } => {
                assert_eq!(self.owners[key], Some(node), "key {key} leaves {node} for {to}");
                self.owners[key] = None;
            }
            What::ReplicaSetUp => {
                assert!(!std::mem::replace(&mut self.replicas[key][node], true), "key {key} twice at {node}");
            }
            What::ReplicaDropped => {
                assert!(std::mem::replace(&mut self.replicas[key][node], false), "no key {key} at {node}");
            }
            _ => {}
        }
    }

    /// Compares with the slot of a key at a node.
    pub(crate) fn check(&self, node: usize, key: Key, slot: SlotState) {
        let (owned, held) = (self.owners[key.index()] == Some(node), self.replicas[key.index()][node]);
        assert_eq!(
            owned,
            slot.role.is_owner(),
            "{key:?} at node {node}: {slot:?}, and its trace says {owned}"
        );
        assert_eq!(held, slot.role == Role::Replica, "{key:?} at node {node}: {slot:?}, traced {held}");
    }
}
