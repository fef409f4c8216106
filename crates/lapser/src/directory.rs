//! Where every item lies in the segments of its producer and of its consumers.

use crate::{Declaration, DirectoryError, Item};
use intendant_segment::slot;
use std::collections::BTreeMap;
use std::ops::Range;

/// The most words of a value: 128 MiB.
pub const WORDS_MAX: usize = 1 << 24;

/// The hint for several items that were set together, and for a farewell. If there is no other hint, it is
/// also the hint of each item.
pub(crate) const ANY: u32 = 0;

/// The hint of the consumed item `index`, if there are `hints` different hints.
const fn hint_of(index: u32, hints: u32) -> u32 {
    if hints == 1 { ANY } else { 1 + index % (hints - 1) }
}

/// The items of a node, from 0 to `items`, that have this hint.
pub(crate) fn hinted(hint: u32, hints: u32, items: usize) -> impl Iterator<Item = usize> {
    let first = if (1..hints).contains(&hint) { hint as usize - 1 } else { items };
    (first..items).step_by((hints as usize - 1).max(1))
}

/// The most different hints.
const HINTS_MAX: u32 = 1 << 16;

/// The most nodes.
const NODES_MAX: usize = 1 << 16;

/// Segments are aligned to lines of this many words, and so are the slots in them.
const LINE_WORDS: usize = 8;

/// How values reach their consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A set writes the value to every consumer, whatever the slacks are [Lapser §3.2.2.A].
    Push,
    /// A set writes the value to those consumers whose copy would otherwise be older than their declared
    /// slack permits. A get that needs a newer value than was pushed reads it. The source does not have this
    /// variant.
    PushBySlack,
    /// A get reads the value if its copy is too old; a set writes to no consumer [Lapser §3.2.2.B].
    Pull,
}

impl Variant {
    /// Whether sets write to consumers.
    #[must_use]
    pub const fn pushes(self) -> bool {
        match self {
            Self::Push | Self::PushBySlack => true,
            Self::Pull => false,
        }
    }

    /// Whether gets read from producers.
    #[must_use]
    pub const fn reads(self) -> bool {
        match self {
            Self::Push => false,
            Self::PushBySlack | Self::Pull => true,
        }
    }
}

/// The settings on which all nodes must agree, besides their declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How values reach their consumers.
    pub variant: Variant,
    /// Number of different hints, 1 to 65,536, which windows support. The first hint says that any item may
    /// have come; items share the others. The source has 32,768 hints [Lapser §3.3.2].
    pub hints: u32,
    /// Words at the start of every segment that are left to the window; a multiple of 8.
    pub head_words: usize,
}

impl Settings {
    /// 32,768 hints, as in the source, and no words for the window.
    #[must_use]
    pub const fn new(variant: Variant) -> Self {
        Self { variant, hints: 1 << 15, head_words: 0 }
    }
}

/// The layout of the segments of all nodes. Every node computes the same layout from the declarations of all
/// nodes, in order of rank; there is no other initialisation [Lapser §3.2.3 reserves places by atomic
/// operations on node 0].
///
/// A segment has, in this order: the words of the window ([`Settings::head_words`]), the slots of the items
/// that the node produces, the *copies* of those that it consumes, each in the order of the keys, and, if
/// there are several nodes, one line per node for its *farewell*, with which that node tells that it has
/// finished. A copy is a slot for pushes, a slot for reads, or, for [`Variant::PushBySlack`], both. Slots
/// begin at multiples of 8 words.
///
/// Consumers are listed per item: an item takes 40 bytes, and each of its consumers 32 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    settings: Settings,
    nodes: Vec<Layout>,
    /// The items by key.
    items: Vec<Entry>,
    /// The consumers by item, then by node.
    consumers: Vec<Consumer>,
}

/// The segment of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    incarnation: u64,
    words: usize,
    /// Place of the farewells.
    farewells: usize,
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) item: Item,
    pub(crate) producer: usize,
    /// Place of its slot in the producer's segment.
    pub(crate) at: usize,
    /// Where its consumers are in `Directory::consumers`.
    first_consumer: u32,
    consumers: u32,
}

/// A consumer of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub(crate) node: usize,
    pub(crate) slack: u64,
    /// Place of the copy in its segment.
    pub(crate) copy: usize,
    /// The hint that a push of the item gives to this node.
    pub(crate) hint: u32,
}

/// The slots of a copy, by their places in the consumer's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySlots {
    /// The slot that the producer writes.
    pub pushed: Option<usize>,
    /// The slot where reads land.
    pub landing: Option<usize>,
}

impl Directory {
    /// The layout for `declarations`, those of all nodes in order of rank.
    ///
    /// # Errors
    /// If an item has two producers, or is consumed but not produced; if declarations differ in the length of
    /// an item's value, or a length is 0 or above [`WORDS_MAX`]; if a setting is out of range; or if there
    /// are more nodes, items or consumers than can be numbered.
    pub fn new(settings: Settings, declarations: &[Declaration]) -> Result<Self, DirectoryError> {
        check(settings, declarations)?;
        let produced = producers(declarations)?;
        let mut wanted = wants(declarations, &produced)?;
        let mut nodes: Vec<Layout> = declarations
            .iter()
            .map(|declared| Layout {
                incarnation: declared.incarnation,
                words: settings.head_words,
                farewells: 0,
            })
            .collect();
        let mut items = Vec::with_capacity(produced.len());
        for (item, producer) in produced.into_values() {
            let at = nodes[producer].words;
            nodes[producer].words += slot::words(item.words);
            items.push(Entry { item, producer, at, first_consumer: 0, consumers: 0 });
        }
        // Sorted by key, then node: copies of a node are in the order of the keys.
        wanted.sort_unstable();
        // The lowest slack comes first among duplicates.
        wanted.dedup_by_key(|want| (want.key, want.node));
        numbered("items", items.len())?;
        numbered("consumers of items", wanted.len())?;
        let (mut consumers, mut at) = (Vec::with_capacity(wanted.len()), 0);
        let mut consumed = vec![0; nodes.len()];
        for want in wanted {
            while items[at].item.key != want.key {
                at += 1;
            }
            let entry = &mut items[at];
            if entry.consumers == 0 {
                entry.first_consumer = consumers.len() as u32;
            }
            entry.consumers += 1;
            let node = &mut nodes[want.node];
            let hint = hint_of(consumed[want.node], settings.hints);
            consumed[want.node] += 1;
            consumers.push(Consumer { node: want.node, slack: want.slack, copy: node.words, hint });
            node.words += settings.variant.copy_slots() * slot::words(entry.item.words);
        }
        let farewells = if nodes.len() > 1 { nodes.len() * slot::words(0) } else { 0 };
        for node in &mut nodes {
            node.farewells = node.words;
            node.words += farewells;
        }
        Ok(Self { settings, nodes, items, consumers })
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        self.settings
    }

    /// Number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Number of items.
    #[must_use]
    pub const fn items(&self) -> usize {
        self.items.len()
    }

    /// Words that the segment of node `rank` must have, a multiple of 8; `None` if there is no such node. A
    /// node without items needs none beyond the head.
    #[must_use]
    pub fn words(&self, rank: usize) -> Option<usize> {
        self.nodes.get(rank).map(|node| node.words)
    }

    /// The incarnation that node `rank` has declared.
    #[must_use]
    pub fn incarnation(&self, rank: usize) -> Option<u64> {
        self.nodes.get(rank).map(|node| node.incarnation)
    }

    /// The node that produces `key`.
    #[must_use]
    pub fn producer(&self, key: u64) -> Option<usize> {
        Some(self.entry(key)?.producer)
    }

    /// Words of the values of `key`.
    #[must_use]
    pub fn value_words(&self, key: u64) -> Option<usize> {
        Some(self.entry(key)?.item.words)
    }

    /// Place of the slot of `key` in the segment of its producer.
    #[must_use]
    pub fn produced_at(&self, key: u64) -> Option<usize> {
        Some(self.entry(key)?.at)
    }

    /// The consumers of `key`, in ascending order, each with its declared slack.
    pub fn consumers(&self, key: u64) -> impl Iterator<Item = (usize, u64)> {
        let consumers = self.entry(key).map_or(&[][..], |entry| self.consumers_of(entry));
        consumers.iter().map(|consumer| (consumer.node, consumer.slack))
    }

    /// The slots of the copy of `key` at node `rank`; `None` if the node does not consume the item.
    #[must_use]
    pub fn copy_at(&self, key: u64, rank: usize) -> Option<CopySlots> {
        let entry = self.entry(key)?;
        let consumers = self.consumers_of(entry);
        let at = consumers.binary_search_by_key(&rank, |consumer| consumer.node).ok()?;
        Some(self.settings.variant.copy(consumers[at].copy, entry.item.words))
    }

    /// The place, in the segment of node `rank`, of the farewell of node `of`: a slot without a value. In the
    /// segment of `of` itself, it is the source from which the node writes to the others. `None` if there is
    /// no such node, or only one.
    #[must_use]
    pub fn farewell_at(&self, of: usize, rank: usize) -> Option<usize> {
        let several = self.nodes.len() > 1 && of < self.nodes.len();
        self.nodes.get(rank).filter(|_| several).map(|node| node.farewells + of * slot::words(0))
    }

    /// All items, in ascending order of key.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.items
    }

    pub(crate) fn consumers_of(&self, entry: &Entry) -> &[Consumer] {
        let first = entry.first_consumer as usize;
        &self.consumers[Range { start: first, end: first + entry.consumers as usize }]
    }

    fn entry(&self, key: u64) -> Option<&Entry> {
        let at = self.items.binary_search_by_key(&key, |entry| entry.item.key).ok()?;
        Some(&self.items[at])
    }
}

impl Variant {
    /// Slots of a copy.
    const fn copy_slots(self) -> usize {
        self.pushes() as usize + self.reads() as usize
    }

    /// The slots of a copy that begins at `at`, of values with `value_words` words.
    pub(crate) const fn copy(self, at: usize, value_words: usize) -> CopySlots {
        match self {
            Self::Push => CopySlots { pushed: Some(at), landing: None },
            Self::PushBySlack => CopySlots { pushed: Some(at), landing: Some(at + slot::words(value_words)) },
            Self::Pull => CopySlots { pushed: None, landing: Some(at) },
        }
    }
}

/// An item that a node consumes. The order of fields is the order of consumers in the directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    key: u64,
    node: usize,
    slack: u64,
}

fn check(settings: Settings, declarations: &[Declaration]) -> Result<(), DirectoryError> {
    let refuse = |what: String| Err(DirectoryError::Settings { what });
    if !(1..=NODES_MAX).contains(&declarations.len()) {
        return Err(DirectoryError::Nodes { nodes: declarations.len() });
    }
    if !(1..=HINTS_MAX).contains(&settings.hints) {
        return refuse(format!("{} different hints; there must be 1 to {HINTS_MAX}", settings.hints));
    }
    let head = settings.head_words;
    if !head.is_multiple_of(LINE_WORDS) || head > WORDS_MAX {
        return refuse(format!("{head} words for the window; it must be a multiple of 8 up to {WORDS_MAX}"));
    }
    Ok(())
}

fn numbered(what: &'static str, count: usize) -> Result<(), DirectoryError> {
    if u32::try_from(count).is_err() { Err(DirectoryError::Many { what, count }) } else { Ok(()) }
}

/// The producer of every item, by key.
fn producers(declarations: &[Declaration]) -> Result<BTreeMap<u64, (Item, usize)>, DirectoryError> {
    let mut produced: BTreeMap<u64, (Item, usize)> = BTreeMap::new();
    for (node, declared) in declarations.iter().enumerate() {
        for item in &declared.produce {
            let Item { key, words } = *item;
            if !(1..=WORDS_MAX).contains(&words) {
                return Err(DirectoryError::Length { key, node, words });
            }
            let (first, producer) = *produced.entry(key).or_insert((*item, node));
            if producer != node {
                return Err(DirectoryError::TwoProducers { key, first: producer, second: node });
            }
            same_length(key, (node, words), (producer, first.words))?;
        }
    }
    Ok(produced)
}

/// The items that nodes consume and do not produce themselves.
fn wants(
    declarations: &[Declaration],
    produced: &BTreeMap<u64, (Item, usize)>,
) -> Result<Vec<Wanted>, DirectoryError> {
    let mut wanted = Vec::new();
    for (node, declared) in declarations.iter().enumerate() {
        for want in &declared.consume {
            let Item { key, words } = want.item;
            let Some((item, producer)) = produced.get(&key) else {
                return Err(DirectoryError::NoProducer { key, node });
            };
            same_length(key, (node, words), (*producer, item.words))?;
            if *producer != node {
                wanted.push(Wanted { key, node, slack: want.slack });
            }
        }
    }
    Ok(wanted)
}

fn same_length(
    key: u64,
    (node, words): (usize, usize),
    (other, other_words): (usize, usize),
) -> Result<(), DirectoryError> {
    if words == other_words {
        return Ok(());
    }
    Err(DirectoryError::Sizes { key, node, words, other, other_words })
}
