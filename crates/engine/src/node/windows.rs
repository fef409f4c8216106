//! Publication windows: nodes of one host read values in each other's memory.
//!
//! Each node has a *window*: memory of its own that the other nodes of its host can read. The owner of a key
//! mirrors the value there ([`mirror`]) when a worker of such a node has asked for it, and the mirror follows
//! the value: whoever changes the value changes the mirror under the same latch. A worker that pulls a key
//! that is not here looks into the window of the node to which it would send the request.
//!
//! | actor | condition | action |
//! | --- | --- | --- |
//! | owner's channel | serves a pull of a node of its host; role `Owner` | mirrors the value, lent some writes ([`WindowConfig`]) |
//! | owner | a write of a mirrored key, by whatever path | the mirror follows, or ends if the loan is used up |
//! | owner | the key leaves, or gets replicas elsewhere | the mirror ends before that |
//! | worker | pull; role `Absent`; no operation of its own on the key outstanding | looks into the window |
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
//! Owners do not learn of such reads. So they do not count as accesses to the key, and a mirror that nobody
//! reads costs as many copies per request as it was lent.
//!
//! With bounded staleness there are no windows: a read without a copy makes one, and many reads follow.
//!
//! Readers trust nothing in a window. A place of the wrong key, or one that changes all the time, is no value;
//! a wrong value is what the same node could have sent in a message.

use super::Shared;
use super::local::Local;
use intendant_core::{Element, Key, Layout, NodeId};
use intendant_segment::mirror::{self, Rewritten};
use intendant_segment::{Segment, View};
use intendant_store::{Entry, Mirror, Row};
use intendant_techniques::{NextHop, Policy, Replicas, Role, SlotState, StaticReplicas};
use intendant_wire::AccessKind;
use std::sync::Arc;

/// The size of windows and of loans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Bytes of a window at most, except that each shard has a place for each value length. If values need
    /// more, keys share places. The same on all nodes.
    pub bytes_max: usize,
    /// How many writes a mirror follows before the value must be asked for again.
    pub lent: u64,
}

impl Default for WindowConfig {
    /// 64 MiB. 32 writes: one that is not read costs tens of nanoseconds, and a request costs both nodes about
    /// a microsecond together.
    fn default() -> Self {
        Self { bytes_max: 64 << 20, lent: 32 }
    }
}

/// The places of the keys of one value length.
struct Region {
    /// First word.
    start: usize,
    /// Words of a place.
    words: usize,
    /// Places per shard: keys of different latches have different places.
    places: usize,
}

/// Where keys are in a window: the same for all nodes of a cluster.
pub(crate) struct Places {
    layout: Arc<Layout>,
    /// By class of value lengths.
    regions: Vec<Region>,
    /// Of the window.
    words: usize,
}

impl Places {
    fn new(layout: &Arc<Layout>, element_bytes: usize, bytes_max: usize) -> Self {
        let shards = layout.shards();
        // By class, the most keys that one shard has.
        let mut keys = vec![0; layout.lens().len()];
        for range in layout.ranges() {
            let count = range.keys.end - range.keys.start;
            keys[layout.class(Key(range.keys.start))] += count.div_ceil(shards as u64) as usize;
        }
        let words = |len: &usize| mirror::words(len * element_bytes);
        let wanted: usize = keys.iter().zip(layout.lens()).map(|(keys, len)| keys * words(len) * shards).sum();
        let share = (bytes_max as f64 / (8.0 * wanted as f64)).min(1.0);
        let mut start = 0;
        let regions = keys
            .iter()
            .zip(layout.lens())
            .map(|(keys, len)| {
                let region = Region {
                    start,
                    words: words(len),
                    places: ((*keys as f64 * share) as usize).clamp(1, u32::MAX as usize),
                };
                start += region.places * region.words * shards;
                region
            })
            .collect();
        Self { layout: Arc::clone(layout), regions, words: start }
    }

    /// The first word of the place of `key`.
    #[inline]
    fn of(&self, key: Key) -> usize {
        let region = &self.regions[self.layout.class(key)];
        // Narrow numbers are divided faster.
        let place = self.layout.position(key) as u32 % region.places as u32;
        region.start + (self.layout.shard(key) * region.places + place as usize) * region.words
    }
}

/// The windows that a node has mapped.
pub struct Windows {
    places: Places,
    /// This node's.
    own: Segment,
    /// By node; none for this node and for nodes of other hosts.
    others: Box<[Option<View>]>,
    /// See [`WindowConfig`].
    lent: u64,
}

/// Why a window is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the window of node {node} has {words} words, and the layout needs {needed}")]
pub struct WindowsError {
    /// The node.
    pub node: NodeId,
    /// Words that its window has.
    pub words: usize,
    /// Words that it should have.
    pub needed: usize,
}

impl Windows {
    /// Whether a technique reads in windows. All nodes have the same technique.
    #[must_use]
    pub fn are_used(policy: &Policy) -> bool {
        !policy.replicas.is_some_and(Replicas::is_clocked) && policy.static_replicas != Some(StaticReplicas::All)
    }

    /// Words of a window for the keys of `layout`, with values of elements `E`.
    #[must_use]
    pub fn words<E: Element>(layout: &Arc<Layout>, config: WindowConfig) -> usize {
        Places::new(layout, size_of::<E>(), config.bytes_max).words
    }

    /// The windows of `node`: its own one, and, by node, those that it can read.
    ///
    /// # Errors
    /// If one of them has fewer words than [`Windows::words`].
    pub fn new<E: Element>(
        layout: &Arc<Layout>,
        config: WindowConfig,
        node: NodeId,
        own: Segment,
        others: Vec<Option<View>>,
    ) -> Result<Self, WindowsError> {
        let places = Places::new(layout, size_of::<E>(), config.bytes_max);
        let check = |node, words| {
            if words < places.words {
                return Err(WindowsError { node, words, needed: places.words });
            }
            Ok(())
        };
        check(node, own.words())?;
        for (at, view) in others.iter().enumerate() {
            view.as_ref().map_or(Ok(()), |view| check(NodeId(at as u16), view.words()))?;
        }
        Ok(Self { places, own, others: others.into(), lent: config.lent })
    }

    /// The window of another node, if it can be read.
    #[inline]
    fn other(&self, node: NodeId) -> Option<&View> {
        self.others.get(node.index())?.as_ref()
    }

    fn publish<E: Element>(&self, key: Key, value: &[E]) {
        mirror::publish(&self.own, self.places.of(key), key.0, self.lent, bytemuck::cast_slice(value));
    }

    fn rewrite<E: Element>(&self, key: Key, value: &[E]) -> Rewritten {
        mirror::rewrite(&self.own, self.places.of(key), key.0, bytemuck::cast_slice(value))
    }
}

impl<E: Element> Mirror<E> for Windows {
    fn mirror(&self, key: Key, value: &[E]) {
        // If the mirror has ended, the next one who latches the key finds out.
        self.rewrite(key, value);
    }
}

impl<E: Element> Shared<E> {
    /// Reads and is read in `windows` from now on. Without them, every access to a key that is elsewhere is a
    /// message.
    ///
    /// # Panics
    /// If the technique does not use windows ([`Windows::are_used`]).
    #[must_use]
    pub fn with_windows(mut self, windows: Windows) -> Self {
        assert!(Windows::are_used(&self.policy), "technique {} has no windows", self.policy.name);
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
        let (view, at) = (View::of(&windows.own), windows.places.of(key));
        mirror::read(&view, at, key.0, bytemuck::cast_slice_mut(&mut value)).then_some(value)
    }

    /// Reads the value of `entry`'s key, which this node does not serve, in the window of another node. Returns
    /// whether it was read. The latch of this node is held meanwhile, so that the key does not arrive.
    #[inline(never)]
    pub(super) fn read_elsewhere(
        &self,
        local: &mut Local<E>,
        entry: Entry<'_, SlotState, E>,
        value: &mut [E],
    ) -> bool {
        let (key, state) = (entry.key(), entry.state());
        let Some(windows) = &self.windows else { return false };
        if state.role != Role::Absent || local.has_outstanding(self.layout.shard(key), key) {
            return false;
        }
        let NextHop::To(node) = self.directory.first_hop(key, &state) else { return false };
        let Some(view) = windows.other(node) else { return false };
        let read = mirror::read(view, windows.places.of(key), key.0, bytemuck::cast_slice_mut(value));
        if read {
            local.count_window();
        }
        read
    }

    /// The value of `entry`'s key, which may be mirrored, has changed.
    #[inline(never)]
    pub(super) fn republish(&self, mut entry: Entry<'_, SlotState, E>) {
        self.follow(&mut entry);
    }

    fn follow(&self, entry: &mut Entry<'_, SlotState, E>) {
        if let (Some(windows), Some(value)) = (&self.windows, entry.value())
            && windows.rewrite(entry.key(), value) == Rewritten::Ended
        {
            entry.state_mut().set_published(false);
        }
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
            && (entry.state().is_published()
                || kind == AccessKind::Pull && windows.other(origin).is_some())
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
            self.follow(entry);
        } else if entry.state().role == Role::Owner && windows.other(origin).is_some() {
            let (key, published) = (entry.key(), entry.state().is_published());
            if published && mirror::renew(&windows.own, windows.places.of(key), key.0, windows.lent) {
                return;
            }
            if let Some(value) = entry.value() {
                windows.publish(key, value);
                entry.state_mut().set_published(true);
            }
        }
    }

    /// The key is about to leave, or to get replicas elsewhere: its mirror ends.
    pub(crate) fn withdraw(&self, entry: &mut Entry<'_, SlotState, E>) {
        if entry.state().is_published() {
            if let Some(windows) = &self.windows {
                mirror::withdraw(&windows.own, windows.places.of(entry.key()), entry.key().0);
            }
            entry.state_mut().set_published(false);
        }
    }
}
