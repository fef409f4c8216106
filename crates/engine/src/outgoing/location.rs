//! Outgoing messages about where keys are, and broadcasts.

use super::groups::Groups;
use super::requests::Requests;
use crate::input::Action;
use intendant_core::{Key, NodeId};
use intendant_techniques::location::Void as VoidBroadcasts;
use intendant_wire::{Locate, Located, Message, Void};
use std::mem;

/// Messages of the current turn about where keys are.
#[derive(Default)]
pub(crate) struct LocationMessages {
    /// By home.
    locate: Groups<NodeId, Vec<Key>>,
    /// By asking node and owner.
    located: Groups<(NodeId, NodeId), Vec<Key>>,
    /// By node whose broadcasts are void.
    void: Groups<NodeId, Void>,
    /// Accesses for all other nodes. Their routes lead to this node; the mechanism of locations numbers and
    /// sends them.
    pub(crate) requests: Requests,
    /// Keys that this node asks all others for.
    wanted: Vec<Key>,
}

impl LocationMessages {
    /// Asks `home` where `key` is.
    pub(crate) fn locate(&mut self, home: NodeId, key: Key) {
        self.locate.entry(home, Vec::new).push(key);
    }

    /// Tells `to` that `key` is at `at`.
    pub(crate) fn located(&mut self, to: NodeId, at: NodeId, key: Key) {
        self.located.entry((to, at), Vec::new).push(key);
    }

    /// Tells a node which of its broadcasts about `key` are void.
    pub(crate) fn void(&mut self, key: Key, void: VoidBroadcasts) {
        let VoidBroadcasts { node, after, upto } = void;
        let new = || Void { keys: Vec::new(), after: Vec::new(), upto: Vec::new() };
        let message = self.void.entry(node, new);
        message.keys.push(key);
        message.after.push(after);
        message.upto.push(upto);
    }

    /// Asks all other nodes for `key`.
    pub(crate) fn want(&mut self, key: Key) {
        self.wanted.push(key);
    }

    /// The keys that this node asks all others for.
    pub(crate) fn take_wanted(&mut self) -> Vec<Key> {
        mem::take(&mut self.wanted)
    }

    /// Sends everything but broadcasts. All keys of a message came from one call or one frame, so they fit
    /// into one frame.
    pub(crate) fn flush(&mut self, actions: &mut Vec<Action>) {
        while let Some((to, keys)) = self.locate.pop_first() {
            actions.push(Action::Send { to, message: Message::Locate(Locate { keys }) });
        }
        while let Some(((to, at), keys)) = self.located.pop_first() {
            actions.push(Action::Send { to, message: Message::Located(Located { at, keys }) });
        }
        while let Some((to, void)) = self.void.pop_first() {
            actions.push(Action::Send { to, message: Message::Void(void) });
        }
    }
}
