//! Values of one length in one shard, in chunks with a free list.
//!
//! A slab never moves a value and never doubles: it takes a chunk when the free list is empty. A *place* is the index of a
//! value in its slab plus one; 0 means "no value". The table of chunks can be read without the latch, if it was made for a
//! known number of values: then it is never replaced, and an address computed from a stale place is good enough to prefetch.

use crate::prefetch::prefetch_run;
use crate::sync::{AtomicPtr, Ordering};
use std::alloc;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr;

/// Chunks are about this large: big enough to make the table short, small enough to follow what a shard holds.
const CHUNK_BYTES: usize = 16 << 10;
/// Chunks start at a cache line, so that values of 64 bytes or a multiple never straddle one line more than they must.
const CHUNK_ALIGN: usize = 64;

struct Book {
    /// Values handed out from fresh chunk memory so far.
    used: u32,
    free: Vec<u32>,
}

pub(crate) struct Slab<E> {
    len: usize,
    chunk_bits: u32,
    /// Whether `table` has its final length.
    fixed: bool,
    table: UnsafeCell<Box<[AtomicPtr<E>]>>,
    book: UnsafeCell<Book>,
    owns: PhantomData<E>,
}

fn table<E>(chunks: usize) -> Box<[AtomicPtr<E>]> {
    (0..chunks).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

impl<E: bytemuck::Pod> Slab<E> {
    /// A slab for values of `len` elements, of which there will never be more than `values_max` (if that is known).
    pub(crate) fn new(len: usize, values_max: Option<usize>) -> Self {
        let per_chunk = (CHUNK_BYTES / (len * size_of::<E>()).max(1)).max(1);
        let per_chunk = values_max.map_or(per_chunk, |max| per_chunk.min(max.max(1).next_power_of_two()));
        let chunk_bits = per_chunk.ilog2();
        let chunks = values_max.map_or(0, |max| max.div_ceil(1 << chunk_bits));
        Self {
            len,
            chunk_bits,
            fixed: values_max.is_some(),
            table: UnsafeCell::new(table(chunks)),
            book: UnsafeCell::new(Book { used: 0, free: Vec::new() }),
            owns: PhantomData,
        }
    }

    fn chunk_layout(&self) -> alloc::Layout {
        let bytes = (self.len << self.chunk_bits) * size_of::<E>();
        alloc::Layout::from_size_align(bytes, CHUNK_ALIGN)
            .expect("a chunk is at most one value of bounded length")
    }

    /// Address of the value at `place`.
    ///
    /// # Safety
    /// The caller holds the latch of the shard, and `place` came from [`Slab::take`] and was not given back.
    #[inline]
    pub(crate) unsafe fn value(&self, place: u32) -> *mut E {
        let index = place - 1;
        // SAFETY: the table is replaced only under the latch, which the caller holds.
        let table = unsafe { &*self.table.get() };
        // Relaxed: written under the latch that the caller holds.
        let chunk = table[(index >> self.chunk_bits) as usize].load(Ordering::Relaxed);
        let offset = (index as usize & ((1 << self.chunk_bits) - 1)) * self.len;
        // SAFETY: the place was handed out, so its chunk exists and holds `1 << chunk_bits` values of `len` elements.
        unsafe { chunk.add(offset) }
    }

    /// Prefetches the value at `place`, which may be stale; needs no latch.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: u32) {
        if !self.fixed || place == 0 {
            return;
        }
        let index = place - 1;
        // SAFETY: the table of a slab with a fixed number of values is never replaced after construction.
        let table = unsafe { &*self.table.get() };
        if let Some(chunk) = table.get((index >> self.chunk_bits) as usize) {
            let offset = (index as usize & ((1 << self.chunk_bits) - 1)) * self.len;
            // Relaxed: whatever is read is only a hint.
            let at = chunk.load(Ordering::Relaxed).wrapping_add(offset);
            prefetch_run(at.cast(), self.len * size_of::<E>());
        }
    }

    /// Hands out a place. Its value is zero.
    ///
    /// # Safety
    /// The caller holds the latch of the shard.
    pub(crate) unsafe fn take(&self) -> u32 {
        // SAFETY: the book is used only under the latch, which the caller holds; no other reference to it is alive.
        let book = unsafe { &mut *self.book.get() };
        if let Some(place) = book.free.pop() {
            // SAFETY: the place was handed out before and given back; nobody else refers to it.
            unsafe { ptr::write_bytes(self.value(place), 0, self.len) };
            return place;
        }
        let index = book.used;
        book.used = index
            .checked_add(1)
            .filter(|used| *used < u32::MAX)
            .expect("a shard holds fewer than 2^32 values");
        let chunk = (index >> self.chunk_bits) as usize;
        if index & ((1 << self.chunk_bits) - 1) == 0 {
            // SAFETY: only the latch holder replaces the table.
            let chunks = unsafe { &*self.table.get() }.len();
            if chunk >= chunks {
                assert!(!self.fixed, "a dense shard hands out at most one value per key");
                let longer = table::<E>((chunk + 1).next_power_of_two());
                // SAFETY: as above; the slab is not fixed, so `prefetch` does not read the table.
                let old = unsafe { &mut *self.table.get() };
                for (to, from) in longer.iter().zip(old.iter()) {
                    // Relaxed: all under the latch.
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                *old = longer;
            }
            let layout = self.chunk_layout();
            // SAFETY: the layout has a size: values have at least one element.
            let memory = unsafe { alloc::alloc_zeroed(layout) };
            if memory.is_null() {
                alloc::handle_alloc_error(layout);
            }
            // SAFETY: only the latch holder replaces the table.
            let table = unsafe { &*self.table.get() };
            // Relaxed: whoever dereferences the address holds the latch; a prefetch does not care.
            table[chunk].store(memory.cast(), Ordering::Relaxed);
        }
        index + 1
    }

    /// Takes a place back.
    ///
    /// # Safety
    /// The caller holds the latch of the shard; `place` came from [`Slab::take`], and is not used afterwards.
    pub(crate) unsafe fn give(&self, place: u32) {
        // SAFETY: the book is used only under the latch, which the caller holds.
        let book = unsafe { &mut *self.book.get() };
        intendant_core::strict_assert!(place > 0 && place <= book.used, "place {place} was never handed out");
        book.free.push(place);
    }

    /// Values in use.
    ///
    /// # Safety
    /// The caller holds the latch of the shard.
    pub(crate) unsafe fn held(&self) -> usize {
        // SAFETY: the book is used only under the latch, which the caller holds.
        let book = unsafe { &*self.book.get() };
        book.used as usize - book.free.len()
    }
}

impl<E> Drop for Slab<E> {
    fn drop(&mut self) {
        let bytes = (self.len << self.chunk_bits) * size_of::<E>();
        let Ok(layout) = alloc::Layout::from_size_align(bytes, CHUNK_ALIGN) else { return };
        for chunk in self.table.get_mut().iter() {
            // Relaxed: nobody else has the slab any more.
            let chunk = chunk.load(Ordering::Relaxed);
            if !chunk.is_null() {
                // SAFETY: allocated in `take` with this layout, and freed only here.
                unsafe { alloc::dealloc(chunk.cast(), layout) };
            }
        }
    }
}
