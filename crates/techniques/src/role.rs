//! What a node is to a key.

use intendant_core::NodeId;

/// What this node is to a key, right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Role {
    /// The value is elsewhere.
    #[default]
    Absent,
    /// The main copy is here: every access is served at once.
    Owner,
}

/// The state in a key's slot. With the place of the value a slot is 16 bytes.
///
/// `counter` and `side` belong to the slot's layout from the start because widening it later would cost every user memory:
/// location knowledge carries the relocation counter of the time it was true (0 as long as nothing moves), and queues,
/// bases and holder tables of keys that need them are found by `side` (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotState {
    /// What this node is to the key.
    pub role: Role,
    /// Whether `hint` means something.
    pub hinted: bool,
    /// Where the key was when this node last heard of it.
    pub hint: NodeId,
    /// Relocation counter that the role or the hint belongs to; older knowledge never overwrites newer.
    pub counter: u32,
    /// Index into the side table of the shard, plus one.
    pub side: u32,
}

// The store adds a place of 4 bytes.
const _: () = assert!(size_of::<SlotState>() == 12);

impl SlotState {
    /// The state of a key that is owned here and never moved.
    #[must_use]
    pub const fn owner() -> Self {
        Self { role: Role::Owner, hinted: false, hint: NodeId(0), counter: 0, side: 0 }
    }

    /// The hint, if there is one.
    #[inline]
    pub fn hint(&self) -> Option<NodeId> {
        self.hinted.then_some(self.hint)
    }

    /// Remembers that the key was at `node` when its relocation counter was `counter`. Older knowledge is ignored.
    pub fn learn(&mut self, node: NodeId, counter: u32) {
        if self.role == Role::Absent && (!self.hinted || counter >= self.counter) {
            (self.hinted, self.hint, self.counter) = (true, node, counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_location_knowledge_is_ignored() {
        let mut state = SlotState::default();
        assert_eq!(state.hint(), None);
        state.learn(NodeId(3), 5);
        state.learn(NodeId(4), 4);
        assert_eq!(state.hint(), Some(NodeId(3)));
        state.learn(NodeId(5), 6);
        assert_eq!(state.hint(), Some(NodeId(5)));
    }

    #[test]
    fn an_owner_needs_no_hint() {
        let mut state = SlotState::owner();
        state.learn(NodeId(3), 5);
        assert_eq!(state, SlotState::owner());
    }
}
