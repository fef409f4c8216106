//! Publication windows: memory of this node that other nodes of its host read, and the windows of those
//! nodes. `node/mirrors.rs` says when values are mirrored there and when mirrors are read.

use intendant_core::{Element, Key, Layout, NodeId};
use intendant_segment::mirror::{self, Rewritten};
use intendant_segment::{Segment, View};
use intendant_store::Mirror;
use intendant_techniques::{Policy, Replicas, StaticReplicas};
use std::sync::Arc;

/// The size of windows and of loans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Bytes of a window at most. If values need more, keys share places. Values of a length are not mirrored
    /// if there is no room for one place per shard. The same on all nodes.
    pub bytes_max: usize,
    /// Largest number of places per shard and value length. The same on all nodes.
    pub places_max: u32,
    /// How many writes a mirror follows before the value must be asked for again.
    pub lent: u64,
}

impl WindowConfig {
    /// 64 MiB, and loans of 32 writes: updating a mirror that no node reads costs tens of nanoseconds per
    /// write, and a request costs both nodes together about a microsecond.
    pub const DEFAULT: Self = Self { bytes_max: 64 << 20, places_max: u32::MAX, lent: 32 };
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The places of the keys of one value length.
struct Region {
    /// First word.
    start: usize,
    /// Words of a place.
    words: usize,
    /// Places per shard: keys of different latches have different places. 0: values are not mirrored.
    places: u32,
}

/// Where keys are in a window: the same for all nodes of a cluster.
struct Places {
    layout: Arc<Layout>,
    /// By class of value lengths.
    regions: Vec<Region>,
    /// Words of the window.
    words: usize,
}

impl Places {
    fn new(layout: &Arc<Layout>, element_bytes: usize, config: WindowConfig) -> Self {
        let shards = layout.shards();
        // By class, the most keys that one shard has.
        let mut keys = vec![0; layout.lens().len()];
        for range in layout.ranges() {
            let count = range.keys.end - range.keys.start;
            keys[layout.class(Key(range.keys.start))] += count.div_ceil(shards as u64) as usize;
        }
        let words = |len: &usize| mirror::words(len * element_bytes);
        let wanted: usize =
            keys.iter().zip(layout.lens()).map(|(keys, len)| keys * words(len) * shards).sum();
        let share = (config.bytes_max as f64 / (8.0 * wanted as f64)).min(1.0);
        let mut start = 0;
        let regions = keys
            .iter()
            .zip(layout.lens())
            .map(|(keys, len)| {
                let region = Region {
                    start,
                    words: words(len),
                    places: ((*keys as f64 * share) as u32).min(config.places_max),
                };
                start += region.places as usize * region.words * shards;
                region
            })
            .collect();
        Self { layout: Arc::clone(layout), regions, words: start }
    }

    /// The first word of the place of `key`, if it has one.
    #[inline]
    fn of(&self, key: Key) -> Option<usize> {
        let region = &self.regions[self.layout.class(key)];
        // Narrow numbers are divided faster.
        let place = (self.layout.position(key) as u32).checked_rem(region.places)? as usize;
        let places = region.places as usize;
        Some(region.start + (self.layout.shard(key) * places + place) * region.words)
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

/// A window that is too small to be used.
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
    /// Whether a technique reads in windows. All nodes have the same technique and layout. Windows have room
    /// for values, not for the rows of rules.
    #[must_use]
    pub fn are_used(policy: &Policy, layout: &Layout) -> bool {
        !layout.has_rules()
            && !policy.replicas.is_some_and(Replicas::is_clocked)
            && policy.static_replicas != Some(StaticReplicas::All)
    }

    /// Words of a window for the keys of `layout`, with values of elements `E`.
    #[must_use]
    pub fn words<E: Element>(layout: &Arc<Layout>, config: WindowConfig) -> usize {
        Places::new(layout, size_of::<E>(), config).words
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
        let places = Places::new(layout, size_of::<E>(), config);
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

    /// The window of this node.
    pub(crate) fn own(&self) -> View {
        View::of(&self.own)
    }

    /// The window of another node, if it can be read.
    #[inline]
    pub(crate) fn other(&self, node: NodeId) -> Option<&View> {
        self.others.get(node.index())?.as_ref()
    }

    /// Mirrors a value, if it has a place. Returns whether it does.
    pub(crate) fn publish<E: Element>(&self, key: Key, value: &[E]) -> bool {
        let Some(at) = self.places.of(key) else { return false };
        if !mirror::renew(&self.own, at, key.0, self.lent) {
            mirror::publish(&self.own, at, key.0, self.lent, bytemuck::cast_slice(value));
        }
        true
    }

    /// The value of `key` has changed: its mirror follows, if there is one.
    pub(crate) fn rewrite<E: Element>(&self, key: Key, value: &[E]) -> Rewritten {
        match self.places.of(key) {
            Some(at) => mirror::rewrite(&self.own, at, key.0, bytemuck::cast_slice(value)),
            None => Rewritten::Ended,
        }
    }

    /// Ends the mirror of `key`, if there is one.
    pub(crate) fn withdraw(&self, key: Key) {
        if let Some(at) = self.places.of(key) {
            mirror::withdraw(&self.own, at, key.0);
        }
    }

    /// Reads the value of `key` in a window. Returns whether it is mirrored there.
    pub(crate) fn read<E: Element>(&self, view: &View, key: Key, value: &mut [E]) -> bool {
        let at = self.places.of(key);
        at.is_some_and(|at| mirror::read(view, at, key.0, bytemuck::cast_slice_mut(value)))
    }
}

impl<E: Element> Mirror<E> for Windows {
    fn mirror(&self, key: Key, value: &[E]) {
        // If the mirror has ended, the next thread that latches the key finds out.
        self.rewrite(key, value);
    }
}
