//! The location of a key, as far as this node knows it.
//!
//! The home of a key is static ([`Layout::home`]). If requesters start relocations, the home orders them and
//! so knows the owner before any other node. If owners start relocations, the home learns of them afterwards.
//! A hint in a slot is the owner of which this node learned last. A stale hint costs a forward and is
//! otherwise harmless. [`crate::location`] has the other strategies.

use crate::{Initiator, Location, Policy, Role, SlotState};
use intendant_core::{Key, Layout, NodeId};
use std::sync::Arc;

/// Largest number of forwards of a request, if the home always knows the owner: one from the node of a stale
/// hint to the home, one from the home to the owner. If the key has not arrived there yet, that node queues
/// the request; and a request that the home forwards arrives before any later order of the home to hand the
/// key over.
const HOPS_MAX: u8 = 2;

/// Largest number of forwards if requests follow the key from owner to owner: each relocation during the
/// flight may add one. There is no known bound, but a request with this many forwards goes in circles.
const HOPS_MAX_AFTER_KEY: u8 = 250;

/// The destination of a request that this node cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// To this node.
    To(NodeId),
    /// Nowhere: this node is the key's home and does not know its owner. The state of the cluster is broken
    /// then.
    Lost,
}

/// The location knowledge of a node.
#[derive(Clone, Debug)]
pub struct Directory {
    node: NodeId,
    layout: Arc<Layout>,
    relocation: Option<Initiator>,
    location: Location,
}

impl Directory {
    /// The directory of `node`.
    #[must_use]
    pub fn new(node: NodeId, layout: Arc<Layout>, policy: &Policy) -> Self {
        Self { node, layout, relocation: policy.relocation, location: policy.location }
    }

    /// The home of `key`.
    #[inline]
    pub fn home(&self, key: Key) -> NodeId {
        self.layout.home(key)
    }

    /// Whether this node is the home of `key`.
    #[inline]
    pub fn is_home(&self, key: Key) -> bool {
        self.home(key) == self.node
    }

    /// Whether this node is the home of `key` and orders its relocations.
    #[inline]
    pub fn orders(&self, key: Key) -> bool {
        self.location.has_homes() && self.is_home(key)
    }

    /// Whether requests follow the key from owner to owner, because an old owner knows a newer location than
    /// the sender.
    #[inline]
    #[must_use]
    pub const fn follows(&self) -> bool {
        matches!(self.relocation, Some(Initiator::Owner))
            || matches!(self.location, Location::BroadcastRelocations)
    }

    /// How often nodes may forward a request.
    #[must_use]
    pub const fn hops_max(&self) -> u8 {
        if self.follows() { HOPS_MAX_AFTER_KEY } else { HOPS_MAX }
    }

    /// Whether this node stores where `key`, whose slot has this state, is: routing depends on it, now or
    /// when the key leaves.
    #[must_use]
    pub fn stores(&self, key: Key, state: &SlotState) -> bool {
        let (owned, at_home) = (state.role.is_owner(), self.is_home(key));
        let hinted = state.hint().is_some();
        match self.location {
            _ if self.relocation.is_none() => false,
            Location::BroadcastOperations => false,
            Location::BroadcastRelocations => owned || hinted,
            Location::Home { .. } | Location::Request if at_home => owned || hinted,
            Location::Home { caches } => !owned && hinted && (caches || self.follows()),
            Location::Request => false,
        }
    }

    fn hint(&self, state: &SlotState) -> Option<NodeId> {
        intendant_core::strict_assert!(
            !state.role.is_owner() && state.role != Role::Static,
            "it is here: {state:?}"
        );
        state.hint().filter(|hint| *hint != self.node)
    }

    /// The node to which this node sends its own request for `key`: the cached location if there is one, else
    /// the home.
    #[inline]
    pub fn first_hop(&self, key: Key, state: &SlotState) -> NextHop {
        match self.hint(state) {
            Some(hint) if self.caches() && state.role != Role::Leaving => NextHop::To(hint),
            _ => self.next_hop(key, state),
        }
    }

    const fn caches(&self) -> bool {
        matches!(self.location, Location::Home { caches: true })
    }

    /// The node to which this node forwards a request for `key`: the home forwards to the owner, another node
    /// to the home. If requests follow the key, this node knows a newer location than the sender did, and
    /// forwards to that; the first owner of a key is its home.
    #[inline]
    pub fn next_hop(&self, key: Key, state: &SlotState) -> NextHop {
        let home = self.home(key);
        match self.hint(state) {
            Some(hint) if home == self.node || self.follows() => NextHop::To(hint),
            _ if home == self.node => NextHop::Lost,
            _ => NextHop::To(home),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Technique, relocation};

    fn key_at_home(layout: &Layout) -> Key {
        (0..90).map(Key).find(|k| layout.home(*k) == NodeId(1)).unwrap()
    }

    #[test]
    fn a_cached_location_is_tried_first_and_home_next() {
        let layout = Arc::new(Layout::builder().range("k", 90, 1).nodes(3).build().unwrap());
        let key = key_at_home(&layout);
        let mut state = SlotState::default();
        let at = |node, caches| {
            let policy = Technique::Lapse.policy().with(None, Some(caches));
            Directory::new(NodeId(node), Arc::clone(&layout), &policy)
        };
        assert_eq!(at(0, true).first_hop(key, &state), NextHop::To(NodeId(1)));
        state.learn(NodeId(2), 0);
        assert_eq!(at(0, true).first_hop(key, &state), NextHop::To(NodeId(2)));
        assert_eq!(at(0, false).first_hop(key, &state), NextHop::To(NodeId(1)), "no caches");
        assert_eq!(at(2, true).first_hop(key, &state), NextHop::To(NodeId(1)), "a hint to oneself is no use");
        assert_eq!(at(0, true).next_hop(key, &state), NextHop::To(NodeId(1)), "the home knows better");
        assert_eq!(at(1, true).next_hop(key, &SlotState::default()), NextHop::Lost);
    }

    #[test]
    fn a_home_sends_to_the_owner_and_an_owner_that_gave_it_away_follows_it() {
        let layout = Arc::new(Layout::builder().range("k", 90, 1).nodes(3).build().unwrap());
        let key = key_at_home(&layout);
        let mut state = SlotState::default();
        relocation::depart(&mut state, NodeId(2), 1);
        let by = |initiator| Policy { relocation: Some(initiator), ..Technique::Lapse.policy() };
        let hop = |node, initiator| {
            Directory::new(NodeId(node), Arc::clone(&layout), &by(initiator)).next_hop(key, &state)
        };
        assert_eq!(hop(1, Initiator::Requester), NextHop::To(NodeId(2)), "the home");
        assert_eq!(hop(0, Initiator::Requester), NextHop::To(NodeId(1)), "an old owner");
        assert_eq!(
            hop(0, Initiator::Owner),
            NextHop::To(NodeId(2)),
            "an old owner, whose home may not know yet"
        );
    }
}
