//! The keys that a node may draw as local samples, by weight: a draw and an update take constant time.
//!
//! A node draws key k with a probability in proportion to π(k) times its part of the key. An alias table
//! cannot follow parts, which change whenever a key moves or a replica comes or goes, and a node that draws
//! from π until it finds a key that is here draws N times on N nodes. Here keys lie in *cells*: the
//! probabilities of a cell's keys are within a factor of two of each other, and so are their parts. A draw
//! chooses a cell with a probability in proportion to its number of keys and its bounds, and then any key of
//! the cell. It accepts the key with a probability of the key's own weight over the bounds, which is at least
//! a quarter (one half for most keys, whose parts are the bounds of their groups). This is rejection
//! sampling, and its cost depends neither on the number of nodes nor on the number of keys.
//!
//! Keys of one class of probabilities are neighbours in one array, in the order of the groups of their parts.
//! A key that changes its group is exchanged with the key at the border. Draws take no lock. An entry is one
//! word, so that a draw sees a key with its weight. A draw may see a key that moves between two groups in
//! both groups or in none. Such an answer is no more outdated than any other answer about the location of
//! keys.

use crate::alias::Alias;
use crate::{Distribution, DistributionId, Sampler, Scheme};
use intendant_core::{Key, lock};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum number of classes of probabilities: keys that are less probable than the most probable key by more
/// than this power of two share the last class.
const CLASSES_MAX: u32 = 24;

/// The bits of a key's probability, relative to the bound of its class.
const RELATIVE_BITS: u32 = 24;
const RELATIVE_MAX: u32 = (1 << RELATIVE_BITS) - 1;

/// The scale of sums of weights: probabilities are 64-bit integers, so that sums do not drift.
const UNIT: f64 = (1u64 << 48) as f64;

/// Maximum number of candidates that are drawn before the first of them is used.
const BLOCK: usize = 64;

/// A draw gives up after this many candidates without an accepted one: if each is accepted with a probability
/// of a quarter, it gives up with a probability of 10⁻¹⁶.
const REJECTED_MAX: usize = 128;

/// A thread draws up to this many samples from the cells that it has found, even if parts have changed
/// meanwhile.
const OUTDATED_MAX: usize = 256;

/// A thread keeps the cells that it has found for this many distributions. A thread of a node draws from one
/// or two distributions; the only thread of a simulation draws from those of all nodes in turn.
const FOUND: usize = 256;

/// The group of keys that are elsewhere. It lies between the keys of which this node has one part and those
/// that it owns, because keys come from elsewhere and go there.
const ELSEWHERE: usize = 1;

/// The keys that a node may draw, for each distribution that is drawn locally ([`Scheme::Local`]).
#[derive(Debug)]
pub struct NearKeys(Box<[Option<Near>]>);

impl NearKeys {
    /// The keys of one of `nodes` nodes, which has no key yet.
    ///
    /// # Panics
    /// If there are more than 255 nodes, or none.
    #[must_use]
    pub fn new(sampler: &Sampler, nodes: u32) -> Self {
        let nodes = u8::try_from(nodes).expect("a node counts parts in a byte");
        let near = sampler.entries().iter().map(|entry| {
            let is_local = entry.scheme == Scheme::Local && nodes > 1;
            if is_local { Near::new(&entry.distribution, nodes) } else { None }
        });
        Self(near.collect())
    }

    /// Whether no distribution is drawn locally.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The keys that may be drawn locally from some distribution.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().flatten().map(|near| near.keys.clone())
    }

    /// The node's part of `key` is `part` from now on, in N-th parts for N nodes. Only one thread at a time
    /// may call this for a key.
    pub fn set(&self, key: Key, part: u32) {
        for near in self.0.iter().flatten().filter(|near| near.keys.contains(&key.0)) {
            near.set(key, part);
        }
    }

    /// The part of `key` that was set last, for each distribution that draws the key locally with a
    /// probability above 0: for checks.
    pub fn parts(&self, key: Key) -> impl Iterator<Item = u32> {
        self.0.iter().flatten().filter_map(move |near| near.part(key))
    }

    /// The probability that a key that is drawn from the distribution belongs to this node, in proportion to
    /// the node's part of the key; `None` if the distribution is not drawn locally. The shares of all nodes
    /// add up to one.
    #[must_use]
    pub fn share(&self, distribution: DistributionId) -> Option<f64> {
        self.of(distribution).map(Near::share)
    }

    pub(crate) fn of(&self, distribution: DistributionId) -> Option<&Near> {
        self.0.get(distribution.index())?.as_ref()
    }
}

/// Numbers the distributions, so that a thread knows to which distribution the cells belong that it has
/// found.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The keys of one distribution.
#[derive(Debug)]
pub(crate) struct Near {
    number: u64,
    keys: Range<u64>,
    nodes: u8,
    /// How many groups of parts there are.
    groups: usize,
    classes: Box<[Class]>,
    /// Indexed by place. A class has neighbouring places, and so has a group of a class.
    entries: Box<[AtomicU64]>,
    /// The end of each group of each class.
    ends: Box<[AtomicU32]>,
    /// The place of each key; [`NOWHERE`] if its probability is 0. A thread holds the lock while it changes
    /// places.
    places: Mutex<Box<[u32]>>,
    /// Sum of the probabilities of all keys times their parts.
    weight: AtomicU64,
    /// How often a part has changed.
    changes: AtomicU32,
}

const NOWHERE: u32 = u32::MAX;

/// Keys whose probabilities are within a factor of two.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// The first place.
    start: u32,
    /// The largest probability.
    bound: f64,
}

/// A key with its weight, in one word.
#[derive(Clone, Copy)]
struct Entry {
    /// Its position within the range of keys.
    index: u32,
    /// Its probability, relative to the bound of its class, in units of 2⁻²⁴.
    relative: u32,
    part: u8,
}

impl Entry {
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.relative) << 8 | u64::from(self.part)
    }

    #[inline]
    fn unpack(word: u64) -> Self {
        Self { index: (word >> 32) as u32, relative: word as u32 >> 8, part: word as u8 }
    }
}

/// The cells that have keys, as the draws of a thread see them.
#[derive(Debug, Default)]
struct Cells {
    /// The number of their distribution, and how often its parts had changed when the cells were found.
    of: u64,
    changes: u32,
    /// Samples drawn from them.
    drawn: usize,
    /// Chooses a cell in proportion to its number of keys times their largest weight; `None` if there is no
    /// cell.
    table: Option<Alias>,
    cells: Vec<Cell>,
    /// Memory for candidates.
    candidates: Vec<Candidate>,
    /// The average number of candidates per sample: the sum of the weights that the keys would have if each
    /// had the bounds of its cell, over the sum of their actual weights.
    candidates_each: f64,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    start: u32,
    keys: u32,
    /// The largest part of the group.
    part: u32,
}

/// What a thread remembers between draws.
#[derive(Debug, Default)]
struct Found {
    /// By the number of the distribution, modulo [`FOUND`].
    cells: Vec<Cells>,
    /// The distribution of the last draw.
    last: u64,
}

thread_local! {
    static CELLS: RefCell<Found> = RefCell::default();
}

impl Near {
    /// `None` if there are more keys than places.
    fn new(distribution: &Distribution, nodes: u8) -> Option<Self> {
        let keys = distribution.keys();
        let count = u32::try_from(keys.end - keys.start).ok().filter(|count| *count < NOWHERE)?;
        let probabilities = distribution.probabilities();
        let most = probabilities.iter().copied().fold(0.0, f64::max);
        let class_of = |probability: f64| ((most / probability).log2() as u32).min(CLASSES_MAX - 1);
        let of_key = |index: u32| {
            let probability = probabilities[index as usize];
            (probability > 0.0).then(|| (class_of(probability), index))
        };
        let mut order: Vec<(u32, u32)> = (0..count).filter_map(of_key).collect();
        order.sort_unstable();
        let mut places = vec![NOWHERE; count as usize];
        let (mut classes, mut entries) = (Vec::new(), Vec::with_capacity(order.len()));
        for class in order.chunk_by(|a, b| a.0 == b.0) {
            let probability = |(_, index): &(u32, u32)| probabilities[*index as usize];
            let bound = class.iter().map(probability).fold(0.0, f64::max);
            classes.push(Class { start: entries.len() as u32, bound });
            for of_key @ (_, index) in class {
                places[*index as usize] = entries.len() as u32;
                let relative = (probability(of_key) / bound * f64::from(RELATIVE_MAX)).round() as u32;
                let entry = Entry { index: *index, relative: relative.max(1), part: 0 };
                entries.push(AtomicU64::new(entry.pack()));
            }
        }
        // The groups are: one part; elsewhere; then all parts, and fewer parts by powers of two, down to two.
        let groups = 3 + (nodes / 2).max(1).ilog2() as usize;
        let class_end = |class: usize| classes.get(class + 1).map_or(entries.len() as u32, |next| next.start);
        let end =
            |class: usize, group| if group < ELSEWHERE { classes[class].start } else { class_end(class) };
        let pairs = (0..classes.len()).flat_map(|class| (0..groups).map(move |group| (class, group)));
        let ends = pairs.map(|(class, group)| AtomicU32::new(end(class, group))).collect();
        Some(Self {
            // Relaxed: nothing but the number matters.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            keys,
            nodes,
            groups,
            classes: classes.into(),
            entries: entries.into(),
            ends,
            places: Mutex::new(places.into()),
            weight: AtomicU64::new(0),
            changes: AtomicU32::new(0),
        })
    }

    /// The group of a part.
    fn group(&self, part: u8) -> usize {
        match part {
            0 => ELSEWHERE,
            1 => 0,
            part => ELSEWHERE + 1 + (self.nodes / part).max(1).ilog2() as usize,
        }
    }

    /// The largest part of a group.
    fn group_bound(&self, group: usize) -> u32 {
        match group {
            0 => 1,
            ELSEWHERE => 0,
            group => (self.nodes >> (group - ELSEWHERE - 1)).into(),
        }
    }

    /// The end of a group of a class.
    #[inline]
    fn end(&self, class: usize, group: usize) -> &AtomicU32 {
        &self.ends[class * self.groups + group]
    }

    /// The probability of a key of a class, in [`UNIT`].
    fn weight_of(&self, class: usize, entry: Entry) -> u64 {
        let of_bound = f64::from(entry.relative) / f64::from(RELATIVE_MAX);
        (of_bound * self.classes[class].bound * UNIT) as u64
    }

    /// Moves the key to the group of its part.
    fn set(&self, key: Key, part: u32) {
        let part = part.min(self.nodes.into()) as u8;
        let mut places = lock(&self.places);
        let index = (key.0 - self.keys.start) as usize;
        let mut place = places[index];
        if place == NOWHERE {
            return;
        }
        // Relaxed, here and below: a thread that writes has the lock, and readers need no order of writes.
        let entry = Entry::unpack(self.entries[place as usize].load(Ordering::Relaxed));
        if entry.part == part {
            return;
        }
        let class = self.classes.partition_point(|class| class.start <= place) - 1;
        let end = |group| self.end(class, group);
        let (mut group, target) = (self.group(entry.part), self.group(part));
        while group != target {
            let (border, other) = if group < target {
                // The last place of the group becomes the first place of the next group.
                let border = end(group).load(Ordering::Relaxed) - 1;
                (border, group + 1)
            } else {
                (end(group - 1).load(Ordering::Relaxed), group - 1)
            };
            let moved = self.entries[border as usize].load(Ordering::Relaxed);
            self.entries[place as usize].store(moved, Ordering::Relaxed);
            places[Entry::unpack(moved).index as usize] = place;
            place = border;
            if group < target {
                end(group).store(border, Ordering::Relaxed);
            } else {
                end(other).store(border + 1, Ordering::Relaxed);
            }
            group = other;
            let passing = Entry { part: 0, ..entry }.pack();
            self.entries[place as usize].store(passing, Ordering::Relaxed);
        }
        places[index] = place;
        self.entries[place as usize].store(Entry { part, ..entry }.pack(), Ordering::Relaxed);
        let (each, before) = (self.weight_of(class, entry), self.weight.load(Ordering::Relaxed));
        let weight = before - each * u64::from(entry.part) + each * u64::from(part);
        self.weight.store(weight, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn part(&self, key: Key) -> Option<u32> {
        let places = lock(&self.places);
        let index = usize::try_from(key.0.checked_sub(self.keys.start)?).ok()?;
        let place = places.get(index).filter(|place| **place != NOWHERE)?;
        Some(Entry::unpack(self.entries[*place as usize].load(Ordering::Relaxed)).part.into())
    }

    /// See [`NearKeys::share`].
    pub(crate) fn share(&self) -> f64 {
        self.weight.load(Ordering::Relaxed) as f64 / (UNIT * f64::from(self.nodes))
    }

    /// Makes sure that `found` has the cells of this distribution that have keys. The cells are current or,
    /// if the draw `goes_on`, at most [`OUTDATED_MAX`] samples old. A draw goes on if the thread's last draw
    /// was from this distribution, too.
    fn find_cells(&self, found: &mut Cells, goes_on: bool) {
        // Relaxed: see `set`.
        let changes = self.changes.load(Ordering::Relaxed);
        if found.of == self.number {
            if !goes_on {
                found.drawn = 0;
            }
            // If there is no cell, there are no samples: then the next change counts.
            let is_young = goes_on && found.table.is_some() && found.drawn < OUTDATED_MAX;
            if found.changes == changes || is_young {
                return;
            }
        }
        let Cells { cells, .. } = found;
        cells.clear();
        let mut weights = Vec::with_capacity(self.ends.len());
        for (class, ends) in self.classes.iter().zip(self.ends.chunks(self.groups)) {
            let mut start = class.start;
            for (group, end) in ends.iter().enumerate() {
                let end = end.load(Ordering::Relaxed);
                // While a key moves, a group may seem to end before it starts.
                let keys = end.saturating_sub(start);
                if keys > 0 && group != ELSEWHERE {
                    let part = self.group_bound(group);
                    weights.push(f64::from(keys) * class.bound * f64::from(part));
                    cells.push(Cell { start, keys, part });
                }
                start = end;
            }
        }
        let sum = weights.iter().sum::<f64>();
        found.candidates_each = sum * UNIT / self.weight.load(Ordering::Relaxed).max(1) as f64;
        found.table = (!weights.is_empty()).then(|| Alias::new(weights));
        (found.of, found.changes, found.drawn) = (self.number, changes, 0);
    }

    /// Appends up to `samples` samples to `keys`. There are fewer if no key is here, or only keys of nearly
    /// no probability.
    #[inline(never)]
    pub(crate) fn draw(&self, rng: &mut Pcg64Mcg, samples: usize, keys: &mut Vec<Key>) {
        CELLS.with_borrow_mut(|Found { cells, last }| {
            if cells.is_empty() {
                cells.resize_with(FOUND, Cells::default);
            }
            let goes_on = std::mem::replace(last, self.number) == self.number;
            let found = &mut cells[(self.number % FOUND as u64) as usize];
            self.find_cells(found, goes_on);
            let (end, mut rejected) = (keys.len() + samples, 0);
            while keys.len() < end
                && rejected < REJECTED_MAX
                && let Some(table) = &found.table
            {
                let wanted = end - keys.len();
                // Accepted keys beyond the wanted number are thrown away.
                let count = (wanted as f64 * found.candidates_each) as usize;
                let count = count.clamp(wanted.min(BLOCK), BLOCK);
                // The loop first chooses all places, and then loads all entries: these come from memory, and
                // no load waits for another one.
                found.candidates.clear();
                found.candidates.extend((0..count).map(|_| {
                    let cell = found.cells[table.draw(rng.next_u64()) as usize];
                    cell.candidate(rng)
                }));
                let mut next = keys.len();
                keys.resize(next + count, Key(0));
                for candidate in &found.candidates {
                    let word = self.entries[candidate.place as usize].load(Ordering::Relaxed);
                    let entry = Entry::unpack(word);
                    keys[next] = Key(self.keys.start + u64::from(entry.index));
                    // There is no branch, because no processor could predict it.
                    next += usize::from(candidate.accepts(entry));
                }
                let accepted = next - (end - wanted);
                keys.truncate(next.min(end));
                found.drawn += accepted;
                rejected = if accepted > 0 { 0 } else { rejected + count };
                if accepted == 0 {
                    // The keys may have left.
                    found.drawn = OUTDATED_MAX;
                    self.find_cells(found, true);
                }
            }
        });
    }
}

/// A key that may be drawn.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: u32,
    /// A random number, and the largest part of the group: they decide whether it is drawn.
    fraction: u32,
    part: u32,
}

impl Candidate {
    #[inline(always)]
    fn accepts(self, entry: Entry) -> bool {
        let weight = (u64::from(entry.relative) * u64::from(entry.part)) << (32 - RELATIVE_BITS);
        u64::from(self.fraction) * u64::from(self.part) < weight
    }
}

impl Cell {
    #[inline(always)]
    fn candidate(self, rng: &mut Pcg64Mcg) -> Candidate {
        // The integer part of the product is the key, its fraction decides whether it is accepted.
        let product = u128::from(rng.next_u64()) * u128::from(self.keys);
        Candidate {
            place: self.start + (product >> 64) as u32,
            fraction: (product >> 32) as u32,
            part: self.part,
        }
    }
}
