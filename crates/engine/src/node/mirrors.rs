//! Publication windows: nodes of one host read values in each other's memory.
//!
//! Each node has a *window*: memory of its own that the other nodes of its host can read ([`Windows`]). The
//! owner of a key mirrors the value there when a worker of such a node has pulled it, and the mirror follows
//! the value: each write of the value changes the mirror under the same latch. A worker that pulls a key that
//! is not here looks into the window of the node to which it would send the request.
//!
//! | actor | condition | action |
//! | --- | --- | --- |
//! | owner | serves a pull of a node of its host; role `Owner` | mirrors the value, lent some writes |
//! | owner | a write of a mirrored key, by any path | the mirror follows, or ends if the loan is used up |
//! | owner | the key leaves, or gets replicas elsewhere | the mirror ends before that |
//! | worker | pull; role `Absent`; none of its operations on the key outstanding | looks into the window |
//! | worker | nothing there | defers the key to its channel |
//!
//! A mirror is the main copy: it equals it whenever the latch of the key is free, and exists only while the
//! key is owned. So such a read is atomic, and takes effect between the accesses that the owner serves before
//! it and after it:
//!
//! - *Own writes*: none of the worker's operations is outstanding, so the owner has served all of them, and
//!   has mirrored their effect before it answered.
//! - *Later reads*: what a worker has seen in a window, the owner had written under the latch. Whatever the
//!   owner serves or hands over later is as new. So is a replica, even if it was asked for earlier: its value
//!   is that of the moment at which the owner registers the holder, and from then on there is no mirror until
//!   all holders are gone.
//! - *Earlier reads*: a message brings what the owner did before it sent the message, mirrors and their ends
//!   included. So a window that a node looks into is as new as all messages that it has received.
//!
//! Owners do not learn of such reads. So reads do not count as accesses to the key, and a mirror that is not
//! read costs as many copies per request as it was lent.
//!
//! With bounded staleness there are no windows: a read without a copy makes one, and many reads follow.
//!
//! Readers trust nothing in a window. A place of the wrong key, or one that changes all the time, is no
//! value; a wrong value is what the same node could have sent in a message.

use super::Shared;
use super::local::Local;
use crate::windows::Windows;
use intendant_core::{Element, Key, NodeId};
use intendant_segment::mirror::Rewritten;
use intendant_store::{Entry, Row};
use intendant_techniques::{NextHop, Role, SlotState};
use intendant_wire::AccessKind;

impl<E: Element> Shared<E> {
    /// Reads and is read in `windows` from now on. Without them, every access to a key that is elsewhere is a
    /// message.
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

    /// The value of `key` in the window of this node, if it is mirrored. For invariant checks.
    ///
    /// # Panics
    /// If the key does not exist.
    #[must_use]
    pub fn mirrored(&self, key: Key) -> Option<Vec<E>> {
        let windows = self.windows.as_ref()?;
        let mut value = vec![E::ZERO; self.layout.len(key)];
        windows.read(&windows.own(), key, &mut value).then_some(value)
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

    /// `key`, which may be mirrored, has this value now. Returns whether there still is a mirror. The caller
    /// holds the latch.
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

    /// The channel has served an access of a worker of `origin`: the value is mirrored if it was read by a
    /// node of this host, and the mirror follows if it was written.
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

    /// The key is about to leave, or to get replicas elsewhere: its mirror ends.
    pub(crate) fn withdraw(&self, entry: &mut Entry<'_, SlotState, E>) {
        if entry.state().is_published() {
            if let Some(windows) = &self.windows {
                windows.withdraw(entry.key());
            }
            entry.state_mut().set_published(false);
        }
    }
}
