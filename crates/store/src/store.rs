//! Latched shards of slots and values.

use crate::bias::{Bias, Favour};
use crate::latch::{Latch, LatchGuard};
use crate::memory::Array;
use crate::noted::Noted;
use crate::prefetch::prefetch;
use crate::row::Row;
use crate::slab::{Book, Expected, Slab};
use crate::sync::{AtomicU32, Ordering};
use hashbrown::HashMap;
use intendant_core::{Element, Key, Layout};
use std::cell::UnsafeCell;
use std::hash::BuildHasher;
use std::mem::offset_of;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// What the store keeps of a key: the state that belongs to the user of the store, and the place of the
/// value.
#[derive(Debug, Default)]
pub struct Slot<S> {
    state: UnsafeCell<S>,
    /// Place in the slab of the key's length, 0 if no value is held. Written under the latch; read without it
    /// to prefetch.
    place: AtomicU32,
}

/// Decides whether [`Store::lend_favoured`] lends a value. (The compiler inlines implementations of this
/// trait, but not closures.)
pub trait Lends<S> {
    /// Whether the store lends the value of a key in this state. It may change the state.
    fn lends(self, state: &mut S) -> bool;
}

/// Always builds the same hasher, so that a map stores nothing about it and fits on its shard's first line.
#[derive(Clone, Copy, Default)]
struct Hash;

impl BuildHasher for Hash {
    type Hasher = foldhash::fast::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        foldhash::fast::FixedState::default().build_hasher()
    }
}

/// A shard has two cache lines, because the spatial prefetcher of common processors fetches pairs of lines.
/// Every access uses the first line, and few use the second one, so that polling for noted keys does not
/// evict the first one.
#[repr(C, align(128))]
struct Shard<S> {
    latch: Latch,
    /// The slots of a sparse store.
    map: UnsafeCell<HashMap<u64, Box<Slot<S>>, Hash>>,
    rare: Rare,
}

#[derive(Default)]
#[repr(align(64))]
struct Rare {
    noted: Noted,
}

impl<S> Default for Shard<S> {
    fn default() -> Self {
        Self { latch: Latch::new(), map: UnsafeCell::default(), rare: Rare::default() }
    }
}

/// The part of a slab that belongs to a shard.
#[derive(Default)]
#[repr(align(64))]
struct Part {
    /// The place that the book hands out next, 0 if it is a new one. Written under the latch of the shard;
    /// read without it to prefetch.
    next: AtomicU32,
    book: UnsafeCell<Book>,
}

/// How many slots ahead a scan prefetches. These slots are often in the same set of the nearest cache, which
/// has about a dozen lines.
const SCAN_AHEAD: usize = 8;

/// The end of the part of a shard that every access uses, and the start of the part that few use.
#[allow(dead_code, reason = "asserted in `lib.rs`, which model checking leaves out")]
pub(crate) const SHARD_PARTS: (usize, usize) = (
    offset_of!(Shard<u32>, map) + size_of::<HashMap<u64, Box<Slot<u32>>, Hash>>(),
    offset_of!(Shard<u32>, rare),
);

/// The parameters of a node: per key a slot of state `S` and, if held, a value.
///
/// `S` is zero-cost to copy and `S::default()` means "nothing known"; the slot is 16 bytes if `S` has 12. A
/// *dense* store has a slot for every key of the layout; a *sparse* one only for keys that were given a state
/// or a value.
///
/// A dense store computes the address of a slot from the key, and the address of a value from its place. So
/// neither computation waits for a load from the shard, which holds the latch.
pub struct Store<S, E> {
    layout: Arc<Layout>,
    shards: Box<[Shard<S>]>,
    /// A slot per key, indexed by key. Empty in a sparse store, where each shard has the slots of its keys
    /// that have a state or a value.
    slots: Array<Slot<S>>,
    /// One per value length of the layout.
    slabs: Box<[Slab<E>]>,
    /// Shard by shard, one per slab.
    parts: Box<[Part]>,
    bias: Bias,
}

// SAFETY: everything behind an `UnsafeCell` (slot states, the maps and books of shards, noted keys) and all
// values are reached only through an `Entry`, a `Row`, `lend_favoured`, `scan`, `held` or `take_noted`, which
// hold the latch of the shard that they belong to, or the bias, which excludes all holders of latches.
// Threads read without the latch only atomics, and arrays and tables that do not change after they were made.
unsafe impl<S: Send, E: Send> Sync for Store<S, E> {}
// SAFETY: a store owns its slots, blocks and values; the raw pointers in its slabs are not shared with
// anything else.
unsafe impl<S: Send, E: Send> Send for Store<S, E> {}

impl<S: Copy + Default + PartialEq + Send, E: Element> Store<S, E> {
    /// A store with a slot for every key. It has room for fewer than 2³² values of one length; creating one
    /// more panics.
    #[must_use]
    pub fn dense(layout: Arc<Layout>) -> Self {
        // Per value length, how many keys have it.
        let mut counts = vec![0; layout.lens().len()];
        for range in layout.ranges() {
            counts[layout.class(Key(range.keys.start))] += (range.keys.end - range.keys.start) as usize;
        }
        let expected = |most: usize| Expected { most, first: most.div_ceil(layout.nodes()) };
        let slabs = layout.lens().iter().zip(counts);
        let slabs = slabs.map(|(len, keys)| Slab::new(*len, Some(expected(keys)))).collect();
        let slots = Array::new(layout.keys() as usize, Slot::default);
        Self::new(layout, slots, slabs)
    }

    /// A store that takes memory only for keys that get a state or a value, and has room for as many values
    /// as [`Store::dense`].
    #[must_use]
    pub fn sparse(layout: Arc<Layout>) -> Self {
        let slabs = layout.lens().iter().map(|len| Slab::new(*len, None)).collect();
        Self::new(layout, Array::new(0, Slot::default), slabs)
    }

    fn new(layout: Arc<Layout>, slots: Array<Slot<S>>, slabs: Box<[Slab<E>]>) -> Self {
        let shards = (0..layout.shards()).map(|_| Shard::default()).collect();
        let parts = (0..layout.shards() * slabs.len()).map(|_| Part::default()).collect();
        Self { layout, shards, slots, slabs, parts, bias: Bias::new() }
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
        // SAFETY: the latch of the key's shard is held, and no thread is inside without a latch.
        unsafe { self.entry(key, shard, self.lock(shard)) }
    }

    /// The right to enter the store without latches while no other thread takes one, for a thread that
    /// accesses it much more often than others: see [`Store::latch_favoured`]. `None` if the store has given
    /// it before, or if the system does not support it.
    #[must_use]
    pub fn favour(&self) -> Option<Favour> {
        self.bias.give()
    }

    /// As [`Store::latch`], for the thread that has the store's [`Favour`]. The entry excludes all other
    /// threads, as a latch does.
    ///
    /// # Panics
    /// As [`Store::latch`], or if the thread holds another entry.
    #[inline(always)]
    pub fn latch_favoured(&self, favour: &Favour, key: Key) -> Entry<'_, S, E> {
        assert!(self.layout.contains(key), "{key:?} is outside of the layout");
        let shard = &self.shards[self.layout.shard(key)];
        let guard = match self.bias.enter(favour) {
            Some(guard) => guard,
            None => self.lock_unfavoured(favour, shard),
        };
        // SAFETY: this thread is inside without a latch, so that every other thread that has taken one waits
        // for it; or it holds the latch of the key's shard.
        unsafe { self.entry(key, shard, guard) }
    }

    /// Lends the value of `key` to the thread that has the favour, if `lends` permits it for the state of the
    /// key. This has the same effect as [`Store::latch_favoured`] and [`Entry::into_row`], in a few
    /// instructions. It also returns `None` if the thread is not favoured at the moment, if the store is
    /// sparse, or if it has no such key or no value of it.
    ///
    /// # Panics
    /// If the thread holds another entry.
    #[inline(always)]
    pub fn lend_favoured(&self, favour: &Favour, key: Key, lends: impl Lends<S>) -> Option<Row<'_, E>> {
        let slot = self.slots.get(key.index())?;
        let guard = self.bias.enter(favour)?;
        // Relaxed: the thread that wrote it excluded this one.
        let place = slot.place.load(Ordering::Relaxed);
        // SAFETY: this thread is inside without a latch, so that every other thread that has taken one waits
        // for it; this is the only reference to the state.
        if place == 0 || !lends.lends(unsafe { &mut *slot.state.get() }) {
            return None;
        }
        // SAFETY: the place is handed out, and the row takes the guard over.
        Some(unsafe { row(self.slab(key), place, guard) })
    }

    #[inline(never)]
    fn lock_unfavoured<'a>(&'a self, favour: &Favour, shard: &'a Shard<S>) -> LatchGuard<'a> {
        let are_free = || self.shards.iter().all(|shard| shard.latch.is_free());
        if self.bias.count(favour, are_free)
            && let Some(guard) = self.bias.enter(favour)
        {
            return guard;
        }
        self.lock(shard)
    }

    /// Latches a shard. No thread is inside without a latch as long as the guard lives.
    #[inline(always)]
    fn lock<'a>(&'a self, shard: &'a Shard<S>) -> LatchGuard<'a> {
        let guard = shard.latch.lock();
        self.bias.end();
        guard
    }

    /// # Safety
    /// As long as `guard` lives, no other thread accesses what the latch of `shard`, the shard of `key`,
    /// protects.
    #[inline(always)]
    unsafe fn entry<'a>(&'a self, key: Key, shard: &'a Shard<S>, guard: LatchGuard<'a>) -> Entry<'a, S, E> {
        let slot = match self.slots.get(key.index()) {
            // SAFETY: the caller's promise; the map is not changed while the returned entry borrows a slot of
            // it, except by the entry itself.
            None => unsafe { &*shard.map.get() }.get(&key.0).map(|slot| &**slot),
            dense => dense,
        };
        Entry { store: self, shard, slab: self.slab(key), slot, key, guard }
    }

    /// The slab that has the value of `key`.
    #[inline(always)]
    fn slab(&self, key: Key) -> &Slab<E> {
        match &*self.slabs {
            [slab] => slab,
            _ => self.slab_of_class(key),
        }
    }

    /// [`Store::slab`] for a store with several slabs. It is not inlined, so that its callers need few
    /// registers.
    #[inline(never)]
    fn slab_of_class(&self, key: Key) -> &Slab<E> {
        &self.slabs[self.layout.class(key)]
    }

    /// First hint that `key` is about to be latched: fetches its latch and its slot.
    #[inline(always)]
    pub fn prefetch_slot(&self, key: Key) {
        prefetch(self.shards.as_ptr().wrapping_add(self.layout.shard(key)));
        self.prefetch_favoured_slot(key);
    }

    /// As [`Store::prefetch_slot`], for the thread that has the favour, which needs no latch most of the
    /// time.
    #[inline(always)]
    pub fn prefetch_favoured_slot(&self, key: Key) {
        if let Some(slot) = self.slots.get(key.index()) {
            prefetch(slot);
        }
    }

    /// Second hint, a few keys later: fetches the value, if the slot has one and the store is dense.
    #[inline(always)]
    pub fn prefetch_value(&self, key: Key) {
        if let Some(slot) = self.slots.get(key.index()) {
            // Relaxed: a stale place costs a useless prefetch.
            let place = slot.place.load(Ordering::Relaxed);
            self.slab(key).prefetch(place);
        }
    }

    /// Whether a value of `key` is held. It takes no latch, so the answer may be outdated, and it is always
    /// true for a sparse store.
    ///
    /// # Panics
    /// If the layout has no such key.
    #[inline]
    pub fn seems_held(&self, key: Key) -> bool {
        assert!(self.layout.contains(key), "{key:?} is outside of the layout");
        // Relaxed: no read depends on the answer.
        self.slots.get(key.index()).is_none_or(|slot| slot.place.load(Ordering::Relaxed) != 0)
    }

    /// The part of the slab for the value of `key` that belongs to the key's shard.
    #[inline]
    fn part(&self, key: Key) -> &Part {
        &self.parts[self.layout.shard(key) * self.slabs.len() + self.layout.class(key)]
    }

    /// First hint that a value is about to be made for `key`: fetches the part that determines its place.
    #[inline]
    pub fn prefetch_slab(&self, key: Key) {
        prefetch(self.part(key));
    }

    /// Second hint, a few keys later: fetches the value's place, unless another key of the shard takes that
    /// place first.
    #[inline]
    pub fn prefetch_place(&self, key: Key) {
        let slab = self.slab(key);
        // Relaxed: only a hint.
        let next = self.part(key).next.load(Ordering::Relaxed);
        slab.prefetch(if next == 0 { slab.fresh() } else { next });
    }

    /// Visits, under the latch, the keys of `shard` at `positions` that hold a value, in ascending order,
    /// until `visit` breaks. Returns the position after the last visited key, or `None` at the end of the
    /// positions.
    pub fn scan(
        &self,
        shard: usize,
        positions: Range<usize>,
        mut visit: impl FnMut(Key, &S, &[E]) -> ControlFlow<()>,
    ) -> Option<usize> {
        let latched = &self.shards[shard];
        let _guard = self.lock(latched);
        let mut one = |position: usize, slot: &Slot<S>| {
            let key = self.layout.key_at(shard, position);
            // Relaxed: written under the latch, which is held.
            let place = slot.place.load(Ordering::Relaxed);
            if place == 0 {
                return ControlFlow::Continue(());
            }
            let slab = self.slab(key);
            // SAFETY: the latch is held, so no other thread changes the state, and the place is handed out.
            let (state, value) = unsafe {
                let value = slab.value(place);
                (&*slot.state.get(), std::slice::from_raw_parts(value, slab.len()))
            };
            visit(key, state, value)
        };
        if self.slots.is_empty() {
            // SAFETY: the latch is held and `visit` cannot reach the map.
            let map = unsafe { &*latched.map.get() };
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
            return None;
        }
        for position in positions.start..positions.end.min(self.layout.shard_keys(shard)) {
            // Slots of a shard are far from each other, and so are its values.
            let ahead = |by| self.layout.key_at(shard, position.saturating_add(by));
            self.prefetch_slot(ahead(SCAN_AHEAD));
            self.prefetch_value(ahead(SCAN_AHEAD / 2));
            let slot = &self.slots[self.layout.key_at(shard, position).index()];
            if one(position, slot).is_break() {
                return Some(position + 1);
            }
        }
        None
    }

    /// Whether keys of `shard` have been noted since they were last taken. It takes no latch, so the answer
    /// may be outdated: another thread may have taken the keys since, and a key noted a moment ago may not be
    /// visible yet. [`Store::take_noted`] is exact.
    #[inline]
    pub fn has_noted(&self, shard: usize) -> bool {
        self.shards[shard].rare.noted.any()
    }

    /// Moves the noted keys of `shard` to the end of `keys`, in the order in which they were noted. Latches
    /// the shard. If it allocates memory, it does so after that. If `keys` is empty, it exchanges memory with
    /// the shard's list: a caller that polls shards with one vector leaves memory for keys noted later.
    pub fn take_noted(&self, shard: usize, keys: &mut Vec<Key>) {
        let shard = &self.shards[shard];
        let mut taken = if keys.is_empty() { std::mem::take(keys) } else { Vec::new() };
        {
            let _guard = self.lock(shard);
            // SAFETY: the latch is held.
            unsafe { shard.rare.noted.exchange(&mut taken) };
        }
        if keys.is_empty() {
            *keys = taken;
        } else {
            keys.append(&mut taken);
        }
    }

    /// Number of values held. Latches one shard after the other: exact only while no thread changes the
    /// store.
    pub fn held(&self) -> usize {
        let parts = self.parts.chunks(self.slabs.len());
        self.shards
            .iter()
            .zip(parts)
            .map(|(shard, parts)| {
                let _guard = self.lock(shard);
                // SAFETY: the latch is held.
                parts.iter().map(|part| unsafe { &*part.book.get() }.held()).sum::<usize>()
            })
            .sum()
    }
}

/// The value at `place`, with the guard that excludes other threads from it.
///
/// # Safety
/// `slab` has handed the place out, and as long as `guard` lives, no other thread accesses what the latch of
/// the place's shard protects. The slab outlives the row.
#[inline(always)]
unsafe fn row<'a, E: Element>(slab: &Slab<E>, place: u32, guard: LatchGuard<'a>) -> Row<'a, E> {
    // SAFETY: every access to a value holds the latch of its shard, or excludes all threads that hold it.
    // Values of this slab have `len` elements.
    unsafe { Row::latched(slab.value(place), slab.len(), guard) }
}

/// A latched key: its state and, if held, its value. Dropping it releases the latch.
pub struct Entry<'a, S, E> {
    store: &'a Store<S, E>,
    shard: &'a Shard<S>,
    slab: &'a Slab<E>,
    slot: Option<&'a Slot<S>>,
    key: Key,
    guard: LatchGuard<'a>,
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
            None => {
                // SAFETY: the entry holds the latch, and borrows no slot of the map yet. (Not a method of the
                // entry: the compiler keeps an entry in registers if no code takes its address.)
                let slot = unsafe { insert(self.shard, self.key) };
                self.slot = Some(slot);
                slot
            }
        }
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

    /// Appends the key to the noted keys of its shard, see [`Store::take_noted`]. Each call appends it again:
    /// a caller that wants it there once keeps a flag in the state. It stays noted even if the entry is
    /// removed.
    #[inline]
    pub fn note(&mut self) {
        // SAFETY: the entry holds the latch.
        unsafe { self.shard.rare.noted.push(self.key) };
    }

    /// The value, if one is held.
    #[inline]
    pub fn value(&self) -> Option<&[E]> {
        let place = self.place();
        // SAFETY: the entry holds the latch and the place is handed out; values of this slab have `len`
        // elements.
        (place != 0).then(|| unsafe { std::slice::from_raw_parts(self.slab.value(place), self.slab.len()) })
    }

    /// The value, to be changed, if one is held.
    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut [E]> {
        let place = self.place();
        // SAFETY: as in `value`; `&mut self` makes this the only reference.
        (place != 0)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.slab.value(place), self.slab.len()) })
    }

    /// The value, if one is held. The row takes the latch over from the entry, and releases it.
    #[inline]
    pub fn into_row(self) -> Option<Row<'a, E>> {
        let place = self.place();
        // SAFETY: the entry holds the latch, which the row takes over, and the place is handed out.
        if place == 0 { None } else { Some(unsafe { row(self.slab, place, self.guard) }) }
    }

    /// Lets `act` use the slab and the book that the shard has of it.
    #[inline]
    fn with_book<R>(&mut self, act: impl FnOnce(&Slab<E>, &mut Book) -> R) -> R {
        let part = self.store.part(self.key);
        // SAFETY: the entry holds the latch, and `&mut self` makes this the only reference.
        let book = unsafe { &mut *part.book.get() };
        let result = act(self.slab, book);
        // Relaxed: a hint.
        part.next.store(book.next(), Ordering::Relaxed);
        result
    }

    /// The value, for callers that overwrite all of its elements: they have the contents of an earlier value.
    /// Makes room for the value if none is held.
    #[inline]
    pub fn overwrite(&mut self) -> &mut [E] {
        self.room();
        let place = self.place();
        // SAFETY: as in `value_mut`.
        let value = unsafe { std::slice::from_raw_parts_mut(self.slab.value(place), self.slab.len()) };
        if cfg!(debug_assertions) {
            // Elements that the caller does not overwrite become noticeable.
            value.fill(E::from_f64(f64::NAN));
        }
        value
    }

    /// Makes room for a value and returns it, zeroed; a value that is already held is zeroed.
    pub fn allocate(&mut self) -> &mut [E] {
        let stale = self.room();
        let place = self.place();
        // SAFETY: as in `value_mut`.
        let value = unsafe { std::slice::from_raw_parts_mut(self.slab.value(place), self.slab.len()) };
        if stale {
            value.fill(E::ZERO);
        }
        value
    }

    /// Makes room for a value if none is held. Returns whether a value was there before.
    #[inline]
    fn room(&mut self) -> bool {
        let slot = self.slot();
        if self.place() != 0 {
            return true;
        }
        // SAFETY: the entry holds the latch.
        let (place, stale) = self.with_book(|slab, book| unsafe { slab.take(book) });
        // Relaxed: see `Slot::place`.
        slot.place.store(place, Ordering::Relaxed);
        stale
    }

    /// Gives the value's memory back, if one is held; the state stays.
    pub fn release(&mut self) {
        let place = self.place();
        if let (Some(slot), true) = (self.slot, place != 0) {
            // Relaxed: see `Slot::place`.
            slot.place.store(0, Ordering::Relaxed);
            // SAFETY: the entry holds the latch, the place was handed out and no slot names it any more.
            self.with_book(|slab, book| unsafe { slab.give(book, place) });
        }
    }

    /// Forgets the key: gives back its value and, in a sparse store, its slot.
    pub fn remove(mut self) {
        self.release();
        if self.store.slots.is_empty() {
            self.slot = None;
            // SAFETY: the entry holds the latch and no longer refers to the slot.
            unsafe { &mut *self.shard.map.get() }.remove(&self.key.0);
        } else {
            *self.state_mut() = S::default();
        }
    }
}

/// Makes a slot for a key of a sparse store.
///
/// # Safety
/// The caller holds the latch of the shard, and no reference into its map.
#[cold]
unsafe fn insert<S: Default>(shard: &Shard<S>, key: Key) -> &Slot<S> {
    // SAFETY: as above. Slots are boxed: they stay where they are when the map grows.
    unsafe { &mut *shard.map.get() }.entry(key.0).or_default()
}
