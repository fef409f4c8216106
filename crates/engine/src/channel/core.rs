//! What every mechanism of a channel reads and none changes: the channel's id, the node, the time of the
//! input.

use crate::LocalAccess;
use crate::error::ProtocolError;
use crate::node::{Shared, elements_of};
use crate::outgoing::buffers::Room;
use intendant_core::{ChannelId, Element, Key, NodeId, Precision, Tick};
use intendant_store::Entry;
use intendant_techniques::{NextHop, Policy, Role, SlotState};
use intendant_wire::AccessKind;
use std::sync::Arc;

/// The hash function of the engine's tables: fast, and the same in every run.
pub(crate) type Hash = foldhash::fast::FixedState;

/// Read by all mechanisms.
pub(crate) struct Core<E> {
    pub(crate) id: ChannelId,
    /// Whether pushes change values by rules.
    pub(crate) has_rules: bool,
    pub(crate) shared: Arc<Shared<E>>,
    /// When the current input happens.
    pub(crate) now: Tick,
}

/// Keys that were noted. The lists are empty between uses, and keep their memory for the next use.
#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) keys: Vec<Key>,
    of_shard: Vec<Key>,
}

impl<E: Element> Core<E> {
    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.shared.node()
    }

    /// Whether channels count which accesses of this node's workers were late, because the workers do not
    /// look for keys themselves.
    pub(crate) fn counts_late(&self) -> bool {
        self.shared.access() == LocalAccess::Queue
    }

    /// The technique.
    pub(crate) fn policy(&self) -> &Policy {
        self.shared.policy()
    }

    /// Bytes of an access to `key`: of the value that a pull returns, or of the operand of a push or set.
    #[inline(always)]
    pub(crate) fn operand_bytes(&self, kind: AccessKind, key: Key) -> usize {
        elements_of(self.shared.layout(), kind, key) * size_of::<E>()
    }

    /// Bytes of an access to `keys`.
    pub(crate) fn operands_bytes(&self, kind: AccessKind, keys: &[Key]) -> usize {
        match self.shared.layout().uniform() {
            Some(len) => keys.len() * len * size_of::<E>(),
            None => keys.iter().map(|key| self.operand_bytes(kind, *key)).sum(),
        }
    }

    /// How elements of directed replicas travel, unless they must be exact.
    pub(crate) fn precision(&self) -> Precision {
        self.shared.replication().precision
    }

    /// Checks that a peer writes elements of replicas with a precision that this cluster allows.
    ///
    /// # Errors
    /// If the peer rounds elements that must be exact.
    pub(crate) fn check_precision(&self, precision: Precision) -> Result<(), ProtocolError> {
        match (self.precision(), precision) {
            (Precision::Exact, Precision::Bf16) => Err(ProtocolError::Rounded),
            (Precision::Exact | Precision::Bf16, _) => Ok(()),
        }
    }

    /// Bytes of the row of `key`: of its value, and of all else that is stored with it.
    pub(crate) fn value_bytes(&self, key: Key) -> usize {
        self.shared.layout().len(key) * size_of::<E>()
    }

    /// Bytes of the rows of `keys`.
    pub(crate) fn values_bytes(&self, keys: &[Key]) -> usize {
        match self.shared.layout().uniform() {
            Some(len) => keys.len() * len * size_of::<E>(),
            None => keys.iter().map(|key| self.value_bytes(*key)).sum(),
        }
    }

    /// Memory that `keys` and their values need.
    pub(crate) fn room(&self, keys: &[Key]) -> Room {
        Room { keys: keys.len(), bytes: self.values_bytes(keys) }
    }

    /// Memory for one other node's share of `keys` and their values, if they are distributed evenly.
    pub(crate) fn share(&self, keys: &[Key]) -> Room {
        let others = (self.shared.layout().nodes() - 1).max(1);
        Room { keys: keys.len().div_ceil(others), bytes: self.values_bytes(keys).div_ceil(others) }
    }

    /// The relocation counter that an answer carries for a key with this slot state: none, unless nodes
    /// remember locations.
    pub(crate) fn told_counter(&self, state: &SlotState) -> Option<u32> {
        self.policy().caches().then_some(state.counter)
    }

    /// A copy of the slot state of `key`; the latch is released.
    pub(crate) fn state(&self, key: Key) -> SlotState {
        self.shared.latch(key).0.state()
    }

    /// The node to which this node first sends its own message about `key`.
    ///
    /// # Panics
    /// If this node is the home of `key` and does not know its owner: the node's own state is then broken.
    pub(crate) fn first_hop(&self, key: Key, state: &SlotState) -> NodeId {
        known(key, self.shared.directory().first_hop(key, state))
    }

    /// The node to which this node forwards another node's message about `key`.
    ///
    /// # Panics
    /// As [`Core::first_hop`].
    pub(crate) fn next_hop(&self, key: Key, state: &SlotState) -> NodeId {
        known(key, self.shared.directory().next_hop(key, state))
    }

    /// Moves the keys that workers have marked as changed since the last call to `noted`.
    pub(crate) fn take_noted(&self, noted: &mut Noted) {
        let (store, layout) = (self.shared.store(), self.shared.layout());
        for shard in (self.id.index()..layout.shards()).step_by(layout.channels()) {
            if store.has_noted(shard) {
                // The shard's list takes over the memory.
                store.take_noted(shard, &mut noted.of_shard);
                noted.keys.append(&mut noted.of_shard);
            }
        }
    }

    /// The entry of a noted key and its role, if its mark is still set. The caller clears or keeps the mark.
    pub(crate) fn changed(&self, key: Key) -> Option<(Entry<'_, SlotState, E>, Role)> {
        let (entry, role) = self.shared.latch(key);
        entry.state().is_dirty().then_some((entry, role))
    }

    /// Checks that all keys exist and belong to this channel.
    pub(crate) fn check_keys(&self, keys: &[Key]) -> Result<(), ProtocolError> {
        let layout = self.shared.layout();
        for key in keys {
            if !layout.contains(*key) {
                return Err(ProtocolError::UnknownKey(*key));
            }
            let right = layout.channel(*key);
            if right != self.id {
                return Err(ProtocolError::WrongChannel { key: *key, right, wrong: self.id });
            }
        }
        Ok(())
    }

    /// Checks that the home of `key` is here. `what` is what the peer's message says of the key.
    pub(crate) fn check_home(&self, key: Key, what: &'static str) -> Result<(), ProtocolError> {
        if self.shared.directory().is_home(key) {
            return Ok(());
        }
        Err(ProtocolError::NotHome { what, key, to: self.node() })
    }

    /// The error for a message that the technique does not have.
    pub(crate) fn not_in_technique(&self, what: &'static str) -> ProtocolError {
        ProtocolError::NotInTechnique { what, technique: self.policy().name }
    }
}

fn known(key: Key, hop: NextHop) -> NodeId {
    match hop {
        NextHop::To(node) => node,
        NextHop::Lost => panic!("this node is home of {key:?} and does not know its owner"),
    }
}
