//! Latched shards of slots and values.

use crate::latch::{Latch, LatchGuard};
use crate::noted::Noted;
use crate::prefetch::prefetch;
use crate::slab::Slab;
use crate::sync::{AtomicU32, Ordering};
use hashbrown::HashMap;
use intendant_core::{Element, Key, Layout};
use std::cell::UnsafeCell;
use std::hash::BuildHasher;
use std::mem::offset_of;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// A key's place in a shard: the state that the user of the store keeps, and where the value is.
#[derive(Debug, Default)]
pub struct Slot<S> {
    state: UnsafeCell<S>,
    /// Place in the slab of the key's length, 0 if no value is held. Written under the latch; read without it to prefetch.
    place: AtomicU32,
}

enum Slots<S> {
    /// One slot per key of the shard, by position.
    Dense(Box<[Slot<S>]>),
    /// Slots of the keys that have a state or a value.
    Sparse(UnsafeCell<HashMap<u64, Box<Slot<S>>, Hash>>),
}

/// Always the same hasher, so that a map has nothing to remember of it and stays on its shard's first line.
#[derive(Clone, Copy, Default)]
struct Hash;

impl BuildHasher for Hash {
    type Hasher = foldhash::fast::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        foldhash::fast::FixedState::default().build_hasher()
    }
}

/// Two lines: the spatial prefetcher of common processors fetches pairs. Fields stay in this order: the first line has what
/// every access uses, the second what few do, so that who only looks whether keys were noted does not take the first one away.
#[repr(C, align(128))]
struct Shard<S, E> {
    latch: Latch,
    /// One per value length of the layout.
    slabs: Box<[Slab<E>]>,
    slots: Slots<S>,
    noted: Noted,
}

/// Where in a shard that ends what every access uses, and where that begins what few use.
#[allow(dead_code, reason = "asserted in `lib.rs`, which model checking leaves out")]
pub(crate) const SHARD_PARTS: (usize, usize) =
    (offset_of!(Shard<u32, u32>, slots) + size_of::<Slots<u32>>(), offset_of!(Shard<u32, u32>, noted));

// SAFETY: everything behind an `UnsafeCell` in a shard (slot states, the sparse map, slab books, values, noted keys) is
// reached only through an `Entry`, `scan`, `held` or `take_noted`, which hold the shard's latch. What is read without the
// latch are atomics and, for dense shards, boxes that do not change after construction.
unsafe impl<S: Send, E: Send> Sync for Shard<S, E> {}
// SAFETY: a shard owns its slots, chunks and values; the raw pointers in its slabs are not shared with anything else.
unsafe impl<S: Send, E: Send> Send for Shard<S, E> {}

/// The parameters of a node: per key a slot of state `S` and, if held, a value.
///
/// `S` is zero-cost to copy and `S::default()` means "nothing known"; the slot is 16 bytes if `S` has 12. A *dense* store has
/// a slot for every key of the layout; a *sparse* one only for keys that were given a state or a value.
pub struct Store<S, E> {
    layout: Arc<Layout>,
    shards: Box<[Shard<S, E>]>,
}

impl<S: Copy + Default + PartialEq + Send, E: Element> Store<S, E> {
    /// A store with a slot for every key.
    #[must_use]
    pub fn dense(layout: Arc<Layout>) -> Self {
        let shards = (0..layout.shards())
            .map(|shard| {
                let keys = layout.shard_keys(shard);
                let mut per_class = vec![0; layout.lens().len()];
                for range in layout.ranges() {
                    // Keys of the range that are `shard` modulo the number of shards.
                    let shards = layout.shards() as u64;
                    let below = |end: u64| end.saturating_sub(shard as u64).div_ceil(shards);
                    let count = below(range.keys.end) - below(range.keys.start);
                    per_class[layout.class(Key(range.keys.start))] += count as usize;
                }
                Shard {
                    latch: Latch::new(),
                    slots: Slots::Dense((0..keys).map(|_| Slot::default()).collect()),
                    slabs: layout
                        .lens()
                        .iter()
                        .zip(&per_class)
                        .map(|(l, n)| Slab::new(*l, Some(*n)))
                        .collect(),
                    noted: Noted::default(),
                }
            })
            .collect();
        Self { layout, shards }
    }

    /// A store that takes memory only for keys that it is told about.
    #[must_use]
    pub fn sparse(layout: Arc<Layout>) -> Self {
        let shards = (0..layout.shards())
            .map(|_| Shard {
                latch: Latch::new(),
                slots: Slots::Sparse(UnsafeCell::default()),
                slabs: layout.lens().iter().map(|len| Slab::new(*len, None)).collect(),
                noted: Noted::default(),
            })
            .collect();
        Self { layout, shards }
    }

    /// The layout that the store was made for.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Latches the shard of `key`. A thread must not hold two entries at once.
    ///
    /// # Panics
    /// If the layout has no such key: callers check keys when they arrive.
    #[inline(always)]
    pub fn latch(&self, key: Key) -> Entry<'_, S, E> {
        assert!(self.layout.contains(key), "{key:?} is outside of the layout");
        let shard = &self.shards[self.layout.shard(key)];
        let guard = shard.latch.lock();
        let slot = match &shard.slots {
            Slots::Dense(slots) => Some(&slots[self.layout.position(key)]),
            // SAFETY: the latch is held; the map is not changed while the returned entry borrows a slot of it, except by
            // the entry itself.
            Slots::Sparse(map) => unsafe { &*map.get() }.get(&key.0).map(|slot| &**slot),
        };
        let class = self.layout.class(key);
        Entry { shard, slab: &shard.slabs[class], len: self.layout.lens()[class], slot, key, _guard: guard }
    }

    /// First hint that `key` is about to be latched: fetches its slot.
    #[inline(always)]
    pub fn prefetch_slot(&self, key: Key) {
        let shard = &self.shards[self.layout.shard(key)];
        if let Slots::Dense(slots) = &shard.slots {
            if let Some(slot) = slots.get(self.layout.position(key)) {
                prefetch(slot);
            }
        } else {
            prefetch(shard);
        }
    }

    /// Second hint, a few keys later: fetches the value, if the slot has one and the store is dense.
    #[inline(always)]
    pub fn prefetch_value(&self, key: Key) {
        let shard = &self.shards[self.layout.shard(key)];
        if let Slots::Dense(slots) = &shard.slots
            && let Some(slot) = slots.get(self.layout.position(key))
        {
            // Relaxed: a stale place costs a useless prefetch.
            shard.slabs[self.layout.class(key)].prefetch(slot.place.load(Ordering::Relaxed));
        }
    }

    /// Visits, under the latch, the keys of `shard` at `positions` that hold a value, in ascending order, until `visit` breaks.
    /// Returns the position after the last visited key, or `None` at the end of the positions.
    pub fn scan(
        &self,
        shard: usize,
        positions: Range<usize>,
        mut visit: impl FnMut(Key, &S, &[E]) -> ControlFlow<()>,
    ) -> Option<usize> {
        let latched = &self.shards[shard];
        let _guard = latched.latch.lock();
        let mut one = |position: usize, slot: &Slot<S>| {
            let key = self.layout.key_at(shard, position);
            // Relaxed: written under the latch, which is held.
            let place = slot.place.load(Ordering::Relaxed);
            if place == 0 {
                return ControlFlow::Continue(());
            }
            let class = self.layout.class(key);
            // SAFETY: the latch is held, so nobody changes the state, and the place is handed out.
            let (state, value) = unsafe {
                let value = latched.slabs[class].value(place);
                (&*slot.state.get(), std::slice::from_raw_parts(value, self.layout.lens()[class]))
            };
            visit(key, state, value)
        };
        match &latched.slots {
            Slots::Dense(slots) => {
                for (position, slot) in slots.iter().enumerate().take(positions.end).skip(positions.start) {
                    if one(position, slot).is_break() {
                        return Some(position + 1);
                    }
                }
            }
            Slots::Sparse(map) => {
                // SAFETY: the latch is held and `visit` cannot reach the map.
                let map = unsafe { &*map.get() };
                #[expect(clippy::disallowed_methods, reason = "sorted right below")]
                let mut held: Vec<usize> = map
                    .iter()
                    .map(|(key, _)| self.layout.position(Key(*key)))
                    .filter(|p| positions.contains(p))
                    .collect();
                held.sort_unstable();
                for position in held {
                    let key = self.layout.key_at(shard, position);
                    if let Some(slot) = map.get(&key.0)
                        && one(position, slot).is_break()
                    {
                        return Some(position + 1);
                    }
                }
            }
        }
        None
    }

    /// Whether keys of `shard` have been noted since they were last taken. Needs no latch, so that it may just not be true any
    /// more, or a key noted a moment ago is not seen yet: who needs certainty calls [`Store::take_noted`].
    #[inline]
    pub fn has_noted(&self, shard: usize) -> bool {
        self.shards[shard].noted.any()
    }

    /// Moves the noted keys of `shard` to the end of `keys`, in the order in which they were noted. Latches the shard; memory is
    /// taken, if at all, after that. If `keys` is empty, its memory is the shard's from now on, and the other way round: whoever
    /// looks through shards with one vector leaves memory for what will be noted.
    pub fn take_noted(&self, shard: usize, keys: &mut Vec<Key>) {
        let shard = &self.shards[shard];
        let mut taken = if keys.is_empty() { std::mem::take(keys) } else { Vec::new() };
        {
            let _guard = shard.latch.lock();
            // SAFETY: the latch is held.
            unsafe { shard.noted.exchange(&mut taken) };
        }
        if keys.is_empty() {
            *keys = taken;
        } else {
            keys.append(&mut taken);
        }
    }

    /// Number of values held. Latches one shard after the other: exact only when nobody changes the store.
    pub fn held(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                let _guard = shard.latch.lock();
                // SAFETY: the latch is held.
                shard.slabs.iter().map(|slab| unsafe { slab.held() }).sum::<usize>()
            })
            .sum()
    }
}

/// A latched key: its state and, if held, its value. Dropping it releases the latch.
pub struct Entry<'a, S, E> {
    shard: &'a Shard<S, E>,
    slab: &'a Slab<E>,
    len: usize,
    slot: Option<&'a Slot<S>>,
    key: Key,
    _guard: LatchGuard<'a>,
}

impl<'a, S: Copy + Default + PartialEq + Send, E: Element> Entry<'a, S, E> {
    /// The key.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The state; the default if nothing is known of the key.
    #[inline]
    pub fn state(&self) -> S {
        // SAFETY: the entry holds the latch; `&self` keeps `state_mut` away.
        self.slot.map_or_else(S::default, |slot| unsafe { *slot.state.get() })
    }

    #[inline]
    fn slot(&mut self) -> &'a Slot<S> {
        match self.slot {
            Some(slot) => slot,
            None => self.insert(),
        }
    }

    #[cold]
    fn insert(&mut self) -> &'a Slot<S> {
        let Slots::Sparse(map) = &self.shard.slots else { unreachable!("dense shards have all slots") };
        // SAFETY: the entry holds the latch and borrows no slot of the map yet. Slots are boxed: they stay where they are
        // when the map grows.
        let slot: &'a Slot<S> = unsafe { &mut *map.get() }.entry(self.key.0).or_default();
        self.slot = Some(slot);
        slot
    }

    /// The state, to be changed.
    #[inline]
    pub fn state_mut(&mut self) -> &mut S {
        let slot = self.slot();
        // SAFETY: the entry holds the latch, and `&mut self` makes this the only reference.
        unsafe { &mut *slot.state.get() }
    }

    #[inline]
    fn place(&self) -> u32 {
        // Relaxed: written under the latch, which is held.
        self.slot.map_or(0, |slot| slot.place.load(Ordering::Relaxed))
    }

    /// Appends the key to the noted keys of its shard, see [`Store::take_noted`]. It is appended as often as this is called: a
    /// caller that wants it there once keeps a flag in the state. It stays noted whatever becomes of the key.
    #[inline]
    pub fn note(&mut self) {
        // SAFETY: the entry holds the latch.
        unsafe { self.shard.noted.push(self.key) };
    }

    /// The value, if one is held.
    #[inline]
    pub fn value(&self) -> Option<&[E]> {
        let place = self.place();
        // SAFETY: the entry holds the latch and the place is handed out; values of this slab have `len` elements.
        (place != 0).then(|| unsafe { std::slice::from_raw_parts(self.slab.value(place), self.len) })
    }

    /// The value, to be changed, if one is held.
    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut [E]> {
        let place = self.place();
        // SAFETY: as in `value`; `&mut self` makes this the only reference.
        (place != 0).then(|| unsafe { std::slice::from_raw_parts_mut(self.slab.value(place), self.len) })
    }

    /// Makes room for a value and returns it, zeroed; a value that is already held is zeroed.
    pub fn allocate(&mut self) -> &mut [E] {
        let slot = self.slot();
        if self.place() == 0 {
            // SAFETY: the entry holds the latch.
            let place = unsafe { self.slab.take() };
            // Relaxed: see `Slot::place`.
            slot.place.store(place, Ordering::Relaxed);
        } else if let Some(value) = self.value_mut() {
            value.fill(E::ZERO);
        }
        let place = self.place();
        // SAFETY: as in `value_mut`.
        unsafe { std::slice::from_raw_parts_mut(self.slab.value(place), self.len) }
    }

    /// Gives the value's memory back, if one is held; the state stays.
    pub fn release(&mut self) {
        let place = self.place();
        if let (Some(slot), true) = (self.slot, place != 0) {
            // Relaxed: see `Slot::place`.
            slot.place.store(0, Ordering::Relaxed);
            // SAFETY: the entry holds the latch, the place was handed out and no slot names it any more.
            unsafe { self.slab.give(place) };
        }
    }

    /// Forgets the key: gives back its value and, in a sparse store, its slot.
    pub fn remove(mut self) {
        self.release();
        match &self.shard.slots {
            Slots::Dense(_) => *self.state_mut() = S::default(),
            Slots::Sparse(map) => {
                self.slot = None;
                // SAFETY: the entry holds the latch and no longer refers to the slot.
                unsafe { &mut *map.get() }.remove(&self.key.0);
            }
        }
    }
}
