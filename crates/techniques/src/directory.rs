//! Who knows where a key is.
//!
//! The home of a key is static ([`Layout::home`]) and always knows the owner. A hint in a slot is what this node last heard;
//! it may be stale, which costs a forward and nothing else.

use crate::{Role, SlotState};
use intendant_core::{Key, Layout, NodeId};
use std::sync::Arc;

/// A request is forwarded at most so often. Relocations during its flight would add to this; nothing relocates yet: one hop
/// to where a stale hint points, one to the home, and one in reserve.
pub const HOPS_MAX: u8 = 3;

/// Where a request goes that cannot be served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// To this node.
    To(NodeId),
    /// Nowhere: this node is the key's home and does not know its owner. The state of the cluster is broken.
    Lost,
}

/// The location knowledge of a node.
#[derive(Clone, Debug)]
pub struct Directory {
    node: NodeId,
    layout: Arc<Layout>,
}

impl Directory {
    /// The directory of `node`.
    #[must_use]
    pub fn new(node: NodeId, layout: Arc<Layout>) -> Self {
        Self { node, layout }
    }

    /// The home of `key`.
    #[inline]
    pub fn home(&self, key: Key) -> NodeId {
        self.layout.home(key)
    }

    /// Where this node's own request for `key` goes: to the hint if there is one, else home.
    #[inline]
    pub fn first_hop(&self, key: Key, state: &SlotState) -> NextHop {
        intendant_core::strict_assert!(state.role == Role::Absent, "{key:?} is here: {state:?}");
        match state.hint() {
            Some(hint) if hint != self.node => NextHop::To(hint),
            _ => self.next_hop(key, state),
        }
    }

    /// Where somebody else's request for `key` goes that came here by a stale hint: home, which knows.
    #[inline]
    pub fn next_hop(&self, key: Key, state: &SlotState) -> NextHop {
        intendant_core::strict_assert!(state.role == Role::Absent, "{key:?} is here: {state:?}");
        match self.home(key) {
            home if home == self.node => NextHop::Lost,
            home => NextHop::To(home),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_tried_first_and_home_next() {
        let layout = Arc::new(Layout::builder().range("k", 90, 1).nodes(3).build().unwrap());
        let key = (0..90).map(Key).find(|k| layout.home(*k) == NodeId(1)).unwrap();
        let mut state = SlotState::default();
        let at = |node| Directory::new(NodeId(node), Arc::clone(&layout));
        assert_eq!(at(0).first_hop(key, &state), NextHop::To(NodeId(1)));
        state.learn(NodeId(2), 0);
        assert_eq!(at(0).first_hop(key, &state), NextHop::To(NodeId(2)));
        assert_eq!(at(2).first_hop(key, &state), NextHop::To(NodeId(1)), "a hint to oneself is no use");
        assert_eq!(at(0).next_hop(key, &state), NextHop::To(NodeId(1)));
        assert_eq!(at(1).next_hop(key, &state), NextHop::Lost);
    }
}
