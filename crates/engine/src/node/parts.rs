//! This node's part of each key, for samplers: one byte per key, which samplers read without a latch.
//!
//! Local sampling looks at several keys for each sample. Taking a latch is a locked instruction, and no later
//! load begins before it completes. So a sampler that took latches would wait for the memory of one key after
//! the other. One byte per key also stays in a nearer cache than slots, which have 16 bytes.
//!
//! The channel that changes the role of a key, or the number of its holders, sets the byte under the latch,
//! and informs [`NearKeys`], from which samplers draw. ([`super::Shared::part`] defines the term *part*.)

use intendant_core::Key;
use intendant_sampling::NearKeys;
use intendant_techniques::{Role, SlotState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// This node's parts of all keys, in N-ths for N nodes.
pub(super) struct Parts {
    nodes: u8,
    parts: Box<[AtomicU8]>,
    /// The keys that samplers may draw; set once the distributions are known.
    pub(super) near: OnceLock<NearKeys>,
}

impl Parts {
    /// No parts of any key; `None` if there are more nodes than a byte can count.
    pub(super) fn new(keys: u64, nodes: usize) -> Option<Self> {
        let nodes = u8::try_from(nodes).ok()?;
        let parts = (0..keys).map(|_| AtomicU8::new(0)).collect();
        Some(Self { nodes, parts, near: OnceLock::new() })
    }

    /// The node's part of the key at `index`. It may be outdated.
    ///
    /// # Panics
    /// If there is no such key.
    #[inline(always)]
    pub(super) fn of(&self, index: usize) -> u32 {
        // Relaxed: because of this answer, callers read nothing except under a latch.
        self.parts[index].load(Ordering::Relaxed).into()
    }

    /// Notes that the slot of `key` is now `state`. The caller holds the latch of `key`.
    #[inline]
    pub(super) fn set(&self, key: Key, state: &SlotState) {
        let part = part(state, self.nodes.into()).unwrap_or(0);
        self.parts[key.index()].store(part as u8, Ordering::Relaxed);
        if let Some(near) = self.near.get() {
            near.set(key, part);
        }
    }
}

/// The part, in N-ths for N = `nodes`, of a key whose slot has this state; `None` if no copy is here.
pub(super) fn part(state: &SlotState, nodes: u32) -> Option<u32> {
    match state.role {
        Role::Owner => Some(nodes),
        // With bounded staleness, owners do not count holders, and readers make replicas of all keys.
        Role::Hub => Some(nodes.saturating_sub(state.side)),
        // A closed replica serves no access any more.
        Role::Replica if state.is_closed() => None,
        Role::Replica | Role::Static => Some(1),
        Role::Absent | Role::Arriving | Role::Leaving => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_parts() {
        let parts = Parts::new(3, 4).expect("few nodes");
        let mut state = SlotState::default();
        let mut set = |role, side| {
            (state.role, state.side) = (role, side);
            parts.set(Key(1), &state);
            [0, 1, 2].map(|index| parts.of(index))
        };
        assert_eq!(set(Role::Owner, 0), [0, 4, 0]);
        assert_eq!(set(Role::Hub, 3), [0, 1, 0]);
        assert_eq!(set(Role::Replica, 900), [0, 1, 0]);
        assert_eq!(set(Role::Absent, 900), [0, 0, 0]);
        (state.role, state.side) = (Role::Replica, 1);
        state.set_closed(true);
        assert_eq!(part(&state, 4), None);
        assert!(Parts::new(3, 255).is_some() && Parts::new(3, 256).is_none());
    }
}
