//! Publication windows: nodes of one host read values in each other's memory.
//!
//! Each node has a *window*: memory of its own that the other nodes of its host can read ([`Windows`]). The
//! owner of a key mirrors the value there when a worker of such a node has pulled it, and the mirror follows
//! the value: each write of the value changes the mirror under the same latch. A worker that pulls a key that
//! is not here looks into the window of the node to which it would send the request.
//!
//! | actor | condition | action |
//! | --- | --- | --- |
//! | owner | serves a pull of a node of its host; role `Owner` | mirrors it for some writes (the *loan*) |
//! | owner | a write of a mirrored key, by any path | the mirror follows, or ends if the loan is used up |
//! | owner | the key leaves, or gets replicas elsewhere | the mirror ends before that |
//! | worker | pull; role `Absent`; none of its operations on the key outstanding | looks into the window |
//! | worker | nothing there | defers the key to its channel |
//!
//! A mirror stands for the main copy: the two are equal whenever the latch of the key is free, and the mirror
//! exists only while its node owns the key. So a read of a mirror is atomic, and takes effect between the
//! accesses that the owner serves before it and after it:
//!
//! - *Own writes*: none of the worker's operations is outstanding, so the owner has served all of them, and
//!   has mirrored their effect before it answered.
//! - *Later reads*: a worker sees in a window only values that the owner has written under the latch. All
//!   values that the owner serves or hands over later are at least as new. So is a replica, even if its
//!   holder asked for it earlier: its value dates from the moment at which the owner registers the holder,
//!   and from then on there is no mirror until all holders are gone.
//! - *Earlier reads*: a node that has received a message of the owner also sees what the owner did before it
//!   sent the message, including new mirrors and ended ones. So a window is at least as new as all messages
//!   that its reader has received.
//!
//! Owners do not learn of such reads. So these reads do not count as accesses to the key. For each request, a
//! mirror that no node reads costs up to as many copies of the value as its loan has writes.
//!
//! With bounded staleness there are no windows: a read of a key without a copy sets up a replica, which
//! serves many later reads.
//!
//! Readers do not trust the contents of a window. A reader takes no value from a place of another key, or
//! from a place that changes all the time. A wrong value does no more harm than the same value in a message
//! of that node.

use super::Shared;
use super::local::Local;
use crate::windows::Windows;
use intendant_core::{Element, Key, NodeId};
use intendant_segment::mirror::Rewritten;
use intendant_store::{Entry, Row};
use intendant_techniques::{NextHop, Role, SlotState};
use intendant_wire::AccessKind;

impl<E: Element> Shared<E> {
    /// From now on this node reads in the windows of other nodes, and they read in its own. Without windows,
    /// every access to a key that is elsewhere takes a message.
    ///
    /// # Panics
    /// If the technique does not use windows ([`Windows::are_used`]).
    #[must_use]
    pub fn with_windows(mut self, windows: Windows) -> Self {
        assert!(
            Windows::are_used(&self.policy, &self.layout),
            "technique {} has no windows",
            self.policy.name
        );
        self.windows = Some(windows);
        self
    }

    /// Reads the value of `key`, which this node does not serve and whose slot is `state`, in the window of
    /// another node. Returns whether it was read. The caller holds the latch, so that the key does not arrive
    /// meanwhile.
    #[inline(never)]
    pub(super) fn read_elsewhere(
        &self,
        local: &mut Local<E>,
        key: Key,
        state: &SlotState,
        value: &mut [E],
    ) -> bool {
        let Some(windows) = &self.windows else { return false };
        if state.role != Role::Absent || local.has_outstanding(self.layout.shard(key), key) {
            return false;
        }
        let NextHop::To(node) = self.directory.first_hop(key, state) else { return false };
        let Some(view) = windows.other(node) else { return false };
        let read = windows.read(view, key, value);
        if read {
            local.count_window();
        }
        read
    }

    /// Writes the new value of `key` to its mirror, if there is one. Returns whether there still is a mirror.
    /// The caller holds the latch.
    #[inline(never)]
    pub(super) fn republish(&self, key: Key, value: &[E]) -> bool {
        let windows = self.windows.as_ref();
        windows.is_some_and(|windows| windows.rewrite(key, value) == Rewritten::Mirrored)
    }

    /// Lends the value of `entry`'s key, which may be mirrored.
    #[inline(never)]
    pub(super) fn lend_published<'a>(&'a self, entry: Entry<'a, SlotState, E>) -> Option<Row<'a, E>> {
        let (key, windows) = (entry.key(), self.windows.as_ref());
        let row = entry.into_row()?;
        Some(match windows {
            Some(windows) => row.mirrored(windows, key),
            None => row,
        })
    }

    /// The channel has served an access of a worker of `origin`. Mirrors the value if a node of this host has
    /// read it. Updates the mirror, if there is one, if the access has written the value.
    #[inline(always)]
    pub(crate) fn after_access(&self, entry: &mut Entry<'_, SlotState, E>, kind: AccessKind, origin: NodeId) {
        if let Some(windows) = &self.windows
            && (entry.state().is_published() || kind == AccessKind::Pull && windows.other(origin).is_some())
        {
            self.after_access_in(windows, entry, kind, origin);
        }
    }

    #[inline(never)]
    fn after_access_in(
        &self,
        windows: &Windows,
        entry: &mut Entry<'_, SlotState, E>,
        kind: AccessKind,
        origin: NodeId,
    ) {
        if kind != AccessKind::Pull {
            let follows = entry.value().is_some_and(|value| self.republish(entry.key(), value));
            entry.state_mut().set_published(follows);
        } else if entry.state().role == Role::Owner
            && windows.other(origin).is_some()
            && entry.value().is_some_and(|value| windows.publish(entry.key(), value))
        {
            entry.state_mut().set_published(true);
        }
    }

    /// Ends the mirror of a key that is about to leave, or to get replicas elsewhere.
    pub(crate) fn withdraw(&self, entry: &mut Entry<'_, SlotState, E>) {
        if entry.state().is_published() {
            if let Some(windows) = &self.windows {
                windows.withdraw(entry.key());
            }
            entry.state_mut().set_published(false);
        }
    }
}
