//! Which keys exist, how long their values are, and the shard, channel and home of a key.
//!
//! The home of a key must not follow from its shard: otherwise a node would use only a fraction of its
//! latches. A key's *shard* is its lowest bits: neighbouring keys, which are often hot together, get
//! different latches. The remaining bits are the key's position within the shard. A key's *channel* is the
//! shard modulo the number of channels, so a channel's thread latches only its own shards. A key's *home*
//! follows from the key's position in its key range, directly or after a seeded permutation, or from a hash
//! of the key ([`KeyOrder`]).

use crate::rule::{Rule, SharedRule, Timing};
use crate::{ChannelId, Combine, ElementType, Key, NodeId, UnknownName, Updates, by_name, limits, random};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

/// Neighbouring keys whose values have the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// What the keys stand for, e.g. `entity`; used in messages and exports.
    pub name: String,
    /// The keys, end excluded.
    pub keys: Range<u64>,
    /// Elements per row: those of a value, and with a rule those of state and pending operands behind it.
    pub len: usize,
    /// How pushes change the values; without a rule, pushes add.
    pub rule: Option<SharedRule>,
}

impl KeyRange {
    /// A range without a rule.
    #[must_use]
    pub fn new(name: &str, keys: Range<u64>, len: usize) -> Self {
        Self { name: name.to_owned(), keys, len, rule: None }
    }

    /// Elements per value: of a pull or a set.
    #[inline]
    pub fn visible(&self) -> usize {
        self.rule.as_ref().map_or(self.len, SharedRule::visible)
    }

    /// Elements per push.
    #[inline]
    pub fn operand(&self) -> usize {
        self.rule.as_ref().map_or(self.len, SharedRule::operand)
    }
}

/// How homes are assigned to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeyOrder {
    /// Node `i` of `n` is home to the `i`-th of `n` equal parts of every key range.
    Range,
    /// A fixed hash of the key.
    Hash,
    /// The parts of [`KeyOrder::Range`] after a seeded permutation of each range: balanced, and without the
    /// hot spots that a meaningful order of keys puts on one node. The published classic baselines assigned
    /// keys like this [thesis §3.2.1, footnote 9].
    #[default]
    Random,
    /// Consistent hashing: nodes have points on a ring, and the home of a key is the node whose point follows
    /// the key's. When a node joins or leaves, only its own keys change their home [OSDI'14 §4.2].
    Ring,
}

impl fmt::Display for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Range => "range",
            Self::Hash => "hash",
            Self::Random => "random",
            Self::Ring => "ring",
        })
    }
}

impl FromStr for KeyOrder {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("an order of keys", name, [Self::Range, Self::Hash, Self::Random, Self::Ring])
    }
}

/// Why a layout is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A range without keys.
    #[error("key range '{name}' is empty; give it at least one key")]
    EmptyRange {
        /// Name of the range.
        name: String,
    },
    /// A range whose values have no elements or too many.
    #[error("values of key range '{name}' have {len} elements; allowed are 1 to {len_max}")]
    ValueLength {
        /// Name of the range.
        name: String,
        /// Elements asked for.
        len: usize,
        /// Elements allowed.
        len_max: usize,
    },
    /// A range that ends beyond the largest key.
    #[error("key range '{name}' ends beyond the largest key")]
    TooManyKeys {
        /// Name of the range.
        name: String,
    },
    /// An odd number of elements, in values that hold as many accumulators as parameters.
    #[error(
        "values of key range '{name}' have {len} elements; with updates combined by {combine} there are as many accumulators as \
         parameters: give them an even number"
    )]
    OddLength {
        /// Name of the range.
        name: String,
        /// Elements asked for.
        len: usize,
        /// The rule that divides the value.
        combine: Combine,
    },
    /// A rule whose operands have no elements, or whose rows have too many.
    #[error(
        "with rule {rule}, key range '{name}' has operands of {operand} and rows of {row} elements; an operand has at least 1, \
         and a row at most {len_max}"
    )]
    RowLength {
        /// Name of the range.
        name: String,
        /// The rule's id.
        rule: String,
        /// Elements of an operand.
        operand: usize,
        /// Elements of a row.
        row: usize,
        /// Elements allowed.
        len_max: usize,
    },
    /// A range with a rule, in a layout that combines updates in another way.
    #[error(
        "key range '{name}' has rule {rule}, and the layout combines updates by {combine}: use one of them"
    )]
    TwoRules {
        /// Name of the range.
        name: String,
        /// The rule's id.
        rule: String,
        /// How the layout combines updates.
        combine: Combine,
    },
    /// A rule for values whose length differs from that of the range.
    #[error("key range '{name}' has values of {len} elements, and its rule {rule} is for {visible}")]
    RuleLength {
        /// The range.
        name: String,
        /// Elements of its values.
        len: usize,
        /// The rule.
        rule: String,
        /// Elements of the values that the rule is for.
        visible: usize,
    },
    /// No range at all.
    #[error("a layout needs at least one key range")]
    NoRanges,
    /// A count outside of its limits.
    #[error("{what} is {value}; allowed are 1 to {max}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The count asked for.
        value: usize,
        /// The largest allowed count.
        max: usize,
    },
    /// The number of shards is not a power of two.
    #[error("{shards} shards: the number must be a power of two")]
    ShardsNotPowerOfTwo {
        /// The number asked for.
        shards: usize,
    },
}

/// The layout of a model over a cluster; equal on all its nodes (the handshake compares [`Layout::digest`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    ranges: Vec<KeyRange>,
    /// Number of keys.
    keys: u64,
    /// The length of all values; 0 if they differ or there are rules. Most models have a single length, and
    /// every access looks it up.
    uniform: usize,
    /// Whether a range has a rule.
    rules: bool,
    /// Distinct value lengths, ascending: the store keeps one slab for each.
    lens: Vec<usize>,
    /// Index into `lens` per range.
    classes: Vec<u16>,
    nodes: usize,
    shard_bits: u32,
    /// The bits of a key that are its shard.
    shard_mask: u64,
    channels: usize,
    order: KeyOrder,
    seed: u64,
    combine: Combine,
    permutations: Vec<random::Permutation>,
    /// The homes of all keys, if there are few keys and computing a home takes long.
    homes: Option<Arc<[u8]>>,
    /// The names of the nodes, by rank.
    names: Arc<[u64]>,
    /// With [`KeyOrder::Ring`], the nodes of its equal sections; else empty.
    ring: Arc<[u16]>,
}

/// Sections of a ring of homes, as a power of two: keys in one section have the same home.
const SECTION_BITS: u32 = 12;

/// Points of a node on the ring: the more points, the more equal the nodes' shares.
const POINTS: u64 = 512;

/// The node of each section of a ring on which the nodes with these names have their points.
fn ring(names: &[u64], seed: u64) -> Arc<[u16]> {
    let points = |(rank, name): (usize, &u64)| {
        let name = *name;
        (0..POINTS).map(move |point| (random::stream(seed, &[name, point]), rank as u16))
    };
    let mut points: Vec<(u64, u16)> = names.iter().enumerate().flat_map(points).collect();
    points.sort_unstable();
    let sections = 0..1u64 << SECTION_BITS;
    let node = |section: u64| {
        let at = section << (u64::BITS - SECTION_BITS);
        let next = points.partition_point(|(point, _)| *point < at);
        points[next % points.len()].1
    };
    sections.map(node).collect()
}

/// Maximum number of keys whose homes a layout stores in a table: the table should fit into a cache.
/// Computing a home takes about as long as all other work for a key that moves.
const HOMES_MAX: u64 = 1 << 20;

/// Collects the parts of a [`Layout`].
#[derive(Clone, Debug)]
pub struct LayoutBuilder {
    ranges: Vec<Part>,
    nodes: usize,
    names: Option<Arc<[u64]>>,
    shards: usize,
    channels: usize,
    order: KeyOrder,
    seed: u64,
    combine: Combine,
}

/// A key range that is not built yet: its name, its number of keys, the elements of a value, and its rule.
type Part = (String, u64, usize, Option<SharedRule>);

impl LayoutBuilder {
    /// Appends `keys` keys with values of `len` elements; keys are numbered in order of these calls, from 0.
    #[must_use]
    pub fn range(mut self, name: &str, keys: u64, len: usize) -> Self {
        self.ranges.push((name.to_owned(), keys, len, None));
        self
    }

    /// Appends `keys` keys with values of `len` elements, which pushes change by `rule`. This call asks the
    /// rule for its lengths.
    #[must_use]
    pub fn range_with_rule(mut self, name: &str, keys: u64, len: usize, rule: impl Rule) -> Self {
        // `build` refuses longer values, and a rule should not have to compute with such lengths.
        let rule = SharedRule::new(rule, len.min(limits::VALUE_BYTES_MAX));
        self.ranges.push((name.to_owned(), keys, len, Some(rule)));
        self
    }

    /// As [`LayoutBuilder::range`], with a rule if one is given. It must be a rule for values of `len`
    /// elements.
    #[must_use]
    pub fn range_by(mut self, name: &str, keys: u64, len: usize, rule: Option<SharedRule>) -> Self {
        self.ranges.push((name.to_owned(), keys, len, rule));
        self
    }

    /// Number of nodes; 1 unless set.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self.names = None;
        self
    }

    /// The names of the nodes, by rank. A node keeps its name when others join or leave: with
    /// [`KeyOrder::Ring`], only keys of the nodes that join or leave then change their home. The names are
    /// the ranks unless set.
    #[must_use]
    pub fn names(mut self, names: &[u64]) -> Self {
        self.nodes = names.len();
        self.names = Some(names.into());
        self
    }

    /// Number of latched shards per node, a power of two; [`limits::SHARDS_DEFAULT`] unless set.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Number of channels; 1 unless set.
    #[must_use]
    pub fn channels(mut self, channels: usize) -> Self {
        self.channels = channels;
        self
    }

    /// How homes are assigned.
    #[must_use]
    pub fn order(mut self, order: KeyOrder) -> Self {
        self.order = order;
        self
    }

    /// Seed of [`KeyOrder::Random`].
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How the updates of several copies of a value are combined; [`Combine::Sum`] unless set.
    #[must_use]
    pub fn combine(mut self, combine: Combine) -> Self {
        self.combine = combine;
        self
    }

    /// Checks everything and builds the layout.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn build(self) -> Result<Layout, LayoutError> {
        let count = |what, value, max| match value {
            v if (1..=max).contains(&v) => Ok(()),
            value => Err(LayoutError::Count { what, value, max }),
        };
        count("number of nodes", self.nodes, limits::NODES_MAX)?;
        count("number of shards", self.shards, limits::SHARDS_MAX)?;
        count("number of channels", self.channels, limits::CHANNELS_MAX.min(self.shards))?;
        if !self.shards.is_power_of_two() {
            return Err(LayoutError::ShardsNotPowerOfTwo { shards: self.shards });
        }
        if self.ranges.is_empty() {
            return Err(LayoutError::NoRanges);
        }
        count("number of key ranges", self.ranges.len(), limits::RANGES_MAX)?;
        // Limits are the same for both element types, so that `--float` never decides whether a layout is
        // valid.
        let len_max = limits::VALUE_BYTES_MAX / ElementType::F64.bytes();
        let (mut ranges, mut start) = (Vec::with_capacity(self.ranges.len()), 0u64);
        for (name, keys, len, rule) in self.ranges {
            if keys == 0 {
                return Err(LayoutError::EmptyRange { name });
            }
            if !(1..=len_max).contains(&len) {
                return Err(LayoutError::ValueLength { name, len, len_max });
            }
            if let Some(rule) = &rule {
                if rule.visible() != len {
                    let (rule, visible) = (rule.id().to_owned(), rule.visible());
                    return Err(LayoutError::RuleLength { name, len, rule, visible });
                }
                let row = rule.row();
                if rule.operand() == 0 || row > len_max {
                    let (rule, operand) = (rule.id().to_owned(), rule.operand());
                    return Err(LayoutError::RowLength { name, rule, operand, row, len_max });
                }
                if self.combine != Combine::Sum {
                    let (rule, combine) = (rule.id().to_owned(), self.combine);
                    return Err(LayoutError::TwoRules { name, rule, combine });
                }
            }
            let len = rule.as_ref().map_or(len, SharedRule::row);
            if self.combine == Combine::AdaGrad && !len.is_multiple_of(2) {
                return Err(LayoutError::OddLength { name, len, combine: self.combine });
            }
            let Some(end) = start.checked_add(keys).filter(|end| *end < 1 << 62) else {
                return Err(LayoutError::TooManyKeys { name });
            };
            ranges.push(KeyRange { name, keys: start..end, len, rule });
            start = end;
        }
        let mut lens: Vec<usize> = ranges.iter().map(|r| r.len).collect();
        lens.sort_unstable();
        lens.dedup();
        let classes =
            ranges.iter().map(|r| lens.iter().position(|l| *l == r.len).unwrap_or_default() as u16).collect();
        let permutations = ranges
            .iter()
            .map(|r| {
                random::Permutation::new(
                    r.keys.end - r.keys.start,
                    random::stream(self.seed, &[r.keys.start]),
                )
            })
            .collect();
        let rules = ranges.iter().any(|range| range.rule.is_some());
        let names = self.names.unwrap_or_else(|| (0..self.nodes as u64).collect());
        let ring = if self.order == KeyOrder::Ring { ring(&names, self.seed) } else { Arc::default() };
        let mut layout = Layout {
            ranges,
            keys: start,
            uniform: if lens.len() == 1 && !rules { lens[0] } else { 0 },
            rules,
            lens,
            classes,
            nodes: self.nodes,
            shard_bits: self.shards.trailing_zeros(),
            shard_mask: self.shards as u64 - 1,
            channels: self.channels,
            order: self.order,
            seed: self.seed,
            combine: self.combine,
            permutations,
            homes: None,
            names,
            ring,
        };
        let few = layout.keys <= HOMES_MAX && (2..=1 << u8::BITS).contains(&layout.nodes);
        if few && layout.order == KeyOrder::Random {
            layout.homes = Some((0..layout.keys).map(|key| layout.home(Key(key)).0 as u8).collect());
        }
        Ok(layout)
    }
}

impl Layout {
    /// Starts a layout without keys for one node.
    #[must_use]
    pub fn builder() -> LayoutBuilder {
        LayoutBuilder {
            ranges: Vec::new(),
            nodes: 1,
            names: None,
            shards: limits::SHARDS_DEFAULT,
            channels: 1,
            order: KeyOrder::default(),
            seed: 0,
            combine: Combine::Sum,
        }
    }

    /// The same model with another number of nodes, channels or shards, or with another key order. Nodes keep
    /// their names if their number stays the same.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn redistribute(
        &self,
        nodes: usize,
        channels: usize,
        shards: usize,
        order: KeyOrder,
        seed: u64,
    ) -> Result<Self, LayoutError> {
        let part = |r: &KeyRange| (r.name.clone(), r.keys.end - r.keys.start, r.visible(), r.rule.clone());
        let ranges = self.ranges.iter().map(part).collect();
        let names = (nodes == self.nodes).then(|| Arc::clone(&self.names));
        LayoutBuilder { ranges, nodes, names, shards, channels, order, seed, combine: self.combine }.build()
    }

    /// The same model over nodes with these names.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn over(&self, names: &[u64]) -> Result<Self, LayoutError> {
        let part = |r: &KeyRange| (r.name.clone(), r.keys.end - r.keys.start, r.visible(), r.rule.clone());
        let ranges = self.ranges.iter().map(part).collect();
        let (shards, channels, order, seed) = (self.shards(), self.channels, self.order, self.seed);
        let (nodes, names, combine) = (names.len(), Some(names.into()), self.combine);
        LayoutBuilder { ranges, nodes, names, shards, channels, order, seed, combine }.build()
    }

    /// The names of the nodes, by rank.
    pub fn names(&self) -> &[u64] {
        &self.names
    }

    /// The key ranges, ascending and without gaps.
    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    /// The range called `name`.
    pub fn range(&self, name: &str) -> Option<&KeyRange> {
        self.ranges.iter().find(|r| r.name == name)
    }

    /// Number of keys; they are `0..keys()`.
    #[inline]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Number of elements of all values together.
    pub fn elements(&self) -> u64 {
        self.ranges.iter().map(|r| (r.keys.end - r.keys.start) * r.len as u64).sum()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        1 << self.shard_bits
    }

    /// How homes are assigned.
    pub fn order(&self) -> KeyOrder {
        self.order
    }

    /// Seed of [`KeyOrder::Random`].
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How the updates of several copies of a value are combined.
    #[inline]
    pub fn combine(&self) -> Combine {
        self.combine
    }

    /// The distinct lengths of rows, ascending.
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// The common length of all values, pushes and rows. There is one if all ranges have the same length, and
    /// none has a rule.
    #[inline]
    pub fn uniform(&self) -> Option<usize> {
        (self.uniform > 0).then_some(self.uniform)
    }

    /// Whether pushes change any values by a rule.
    #[inline]
    pub fn has_rules(&self) -> bool {
        self.rules
    }

    /// Whether the key exists.
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        key.0 < self.keys()
    }

    #[inline]
    fn range_index(&self, key: Key) -> usize {
        match self.ranges.len() {
            1 => 0,
            // Models have a handful of ranges: a linear scan beats a binary search.
            n if n <= 8 => self.ranges.iter().position(|r| key.0 < r.keys.end).unwrap_or(n - 1),
            n => self.ranges.partition_point(|r| r.keys.end <= key.0).min(n - 1),
        }
    }

    /// Whether a rule applies pushes at clocks.
    pub fn has_clock_rules(&self) -> bool {
        let timing = |range: &KeyRange| range.rule.as_ref().map(SharedRule::timing);
        self.rules && self.ranges.iter().any(|range| timing(range) == Some(Timing::Clock))
    }

    /// Elements of the row of `key`: of its value or, with a rule, of everything that is stored for the key.
    /// For a key beyond the last range, it is the length of the last key.
    #[inline]
    pub fn len(&self, key: Key) -> usize {
        if self.uniform > 0 { self.uniform } else { self.ranges[self.range_index(key)].len }
    }

    /// Elements of the value of `key`, which a pull returns and a set overwrites. For a key beyond the last
    /// range, it is the length of the last key.
    #[inline(always)]
    pub fn visible(&self, key: Key) -> usize {
        if self.uniform > 0 { self.uniform } else { self.visible_of_range(key) }
    }

    #[inline(never)]
    fn visible_of_range(&self, key: Key) -> usize {
        self.ranges[self.range_index(key)].visible()
    }

    /// Elements of a push of `key`. For a key beyond the last range, it is the length of the last key.
    #[inline(always)]
    pub fn operand(&self, key: Key) -> usize {
        if self.uniform > 0 { self.uniform } else { self.operand_of_range(key) }
    }

    #[inline(never)]
    fn operand_of_range(&self, key: Key) -> usize {
        self.ranges[self.range_index(key)].operand()
    }

    /// The rule by which pushes change the value of `key`, if there is one.
    #[inline]
    pub fn rule(&self, key: Key) -> Option<&SharedRule> {
        if self.rules { self.ranges[self.range_index(key)].rule.as_ref() } else { None }
    }

    /// How pushes change the value of `key`.
    #[inline]
    pub fn updates(&self, key: Key) -> Updates<'_> {
        self.rule(key).map_or(Updates::Combined(self.combine), Updates::Rule)
    }

    /// Index of the row length of `key` in [`Layout::lens`].
    #[inline]
    pub fn class(&self, key: Key) -> usize {
        if self.uniform > 0 { 0 } else { self.classes[self.range_index(key)] as usize }
    }

    /// The shard of `key`.
    #[inline]
    pub fn shard(&self, key: Key) -> usize {
        (key.0 & self.shard_mask) as usize
    }

    /// The position of `key` among the keys of its shard.
    #[inline]
    pub fn position(&self, key: Key) -> usize {
        (key.0 >> self.shard_bits) as usize
    }

    /// The key at a position of a shard: the inverse of [`Layout::shard`] and [`Layout::position`].
    #[inline]
    pub fn key_at(&self, shard: usize, position: usize) -> Key {
        Key(((position as u64) << self.shard_bits) | shard as u64)
    }

    /// Number of keys of a shard.
    pub fn shard_keys(&self, shard: usize) -> usize {
        let (keys, shards) = (self.keys(), self.shards() as u64);
        (keys / shards + u64::from((shard as u64) < keys % shards)) as usize
    }

    /// The channel of `key`.
    #[inline]
    pub fn channel(&self, key: Key) -> ChannelId {
        if self.channels == 1 {
            return ChannelId(0);
        }
        // The division of narrow integers is faster.
        ChannelId((self.shard(key) as u32 % self.channels as u32) as u16)
    }

    /// The place of `key` among those of its channel: a number below [`Layout::places`] that no other key of
    /// the channel has.
    #[inline]
    pub fn place(&self, key: Key) -> usize {
        if self.channels == 1 {
            return key.0 as usize;
        }
        // The division of narrow integers is faster.
        let shard = self.shard(key) as u32 / self.channels as u32;
        self.position(key) * self.shards().div_ceil(self.channels) + shard as usize
    }

    /// Number of places of a channel's keys.
    pub fn places(&self) -> usize {
        if self.channels == 1 {
            return self.keys as usize;
        }
        self.shard_keys(0) * self.shards().div_ceil(self.channels)
    }

    /// The home of `key`: the node that is responsible for knowing its owner.
    ///
    /// # Panics
    /// May panic if the key does not exist.
    #[inline]
    pub fn home(&self, key: Key) -> NodeId {
        if self.nodes == 1 {
            return NodeId(0);
        }
        if let Some(homes) = &self.homes {
            return NodeId(homes[key.index()].into());
        }
        let at = self.range_index(key);
        let (range, nodes) = (&self.ranges[at].keys, self.nodes as u64);
        // The 128-bit division takes as long as everything else here. Only more keys than memory holds need
        // it.
        let part = |rank: u64, len: u64| {
            let part = match rank.checked_mul(nodes) {
                Some(scaled) => scaled / len,
                None => (u128::from(rank) * u128::from(nodes) / u128::from(len)) as u64,
            };
            NodeId(part as u16)
        };
        let len = range.end - range.start;
        match self.order {
            KeyOrder::Range => part(key.0 - range.start, len),
            KeyOrder::Hash => NodeId((random::mix(key.0) % nodes) as u16),
            KeyOrder::Random => part(self.permutations[at].apply(key.0 - range.start), len),
            KeyOrder::Ring => NodeId(self.ring[(random::mix(key.0) >> (u64::BITS - SECTION_BITS)) as usize]),
        }
    }

    /// A number that differs, for all practical purposes, between layouts that cannot work together.
    pub fn digest(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for range in &self.ranges {
            hasher.update(&(range.name.len() as u64).to_le_bytes());
            hasher.update(range.name.as_bytes());
            for number in [range.keys.start, range.keys.end, range.len as u64] {
                hasher.update(&number.to_le_bytes());
            }
            if let Some(rule) = &range.rule {
                hasher.update(&(rule.visible() as u64).to_le_bytes());
                hasher.update(&(rule.id().len() as u64).to_le_bytes());
                hasher.update(rule.id().as_bytes());
            }
        }
        let order = match self.order {
            KeyOrder::Range => 0,
            KeyOrder::Hash => 1,
            KeyOrder::Random => 2,
            KeyOrder::Ring => 3,
        };
        if self.order == KeyOrder::Ring {
            self.names.iter().for_each(|name| hasher.update(&name.to_le_bytes()));
        }
        let combine = match self.combine {
            Combine::Sum => 0,
            Combine::AdaGrad => 1,
        };
        let (nodes, shards, channels) = (self.nodes as u64, self.shards() as u64, self.channels as u64);
        for number in [nodes, shards, channels, order, self.seed, combine] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.digest()
    }
}

#[cfg(test)]
mod tests;
