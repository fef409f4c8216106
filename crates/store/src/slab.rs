//! Values of one length, in chunks with free lists.
//!
//! A store has a slab per value length, which all shards share. A shard takes a chunk when its free list is
//! empty, and keeps a [`Book`], behind its latch, of what it has handed out; values never move. A *place* is
//! the index of a value in the slab plus one; 0 means "no value". Chunks are found in tables, each as long as
//! all before it together: tables are added, never replaced, so that they can be read without a latch. The
//! first has room for all chunks if it is known how many there will be.

use crate::memory::{Block, HUGE, HUGE_MIN, LINE};
use crate::prefetch::prefetch_run;
use crate::sync::{AtomicPtr, AtomicU32, FIRST_CHUNKS, Ordering};
use intendant_core::lock;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

/// Chunks are about this large: big enough to make the table short, small enough to follow what a shard
/// holds.
const CHUNK_BYTES: usize = 16 << 10;
/// Larger chunks, each of which is a single value, are not cut from huge pages: what is left of such a page
/// would be lost.
const CUT_BYTES_MAX: usize = HUGE / 32;
/// Tables: each doubles the number of chunks, of which there are fewer than 2³².
const TABLES: usize = 33;

/// The pointer to a chunk; null until the chunk is allocated.
type Chunk<E> = AtomicPtr<E>;

/// What a shard knows of the chunks that it took from a slab.
#[derive(Default)]
pub(crate) struct Book {
    /// What has not been handed out yet of the chunk taken last: indexes of values.
    fresh: std::ops::Range<u32>,
    /// The place that was given back last, 0 if there is none. In its memory is the one before, and so on:
    /// the memory is needed anyway when a place is handed out again.
    free: u32,
    /// Values in use.
    held: usize,
}

impl Book {
    /// Values in use.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The place that is handed out next, 0 if it needs a chunk first.
    pub(crate) fn next(&self) -> u32 {
        if self.free != 0 { self.free } else { self.fresh.clone().next().map_or(0, |index| index + 1) }
    }
}

/// All values of one length of a store.
pub(crate) struct Slab<E> {
    len: usize,
    chunk_bits: u32,
    /// Values of a chunk, less one.
    chunk_mask: u32,
    /// Chunks in the first table, a power of two.
    first: u32,
    tables: [AtomicPtr<Chunk<E>>; TABLES],
    /// Chunks taken so far.
    taken: AtomicU32,
    memory: Mutex<Memory>,
    owns: PhantomData<E>,
}

/// The memory of the chunks.
#[derive(Default)]
struct Memory {
    blocks: Vec<Block>,
    /// Bytes of all blocks together.
    bytes: usize,
    /// What is left of the last block, if that is a huge page.
    left: usize,
}

impl Memory {
    /// Memory for a chunk. It is freed with all other memory.
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        if self.bytes < HUGE_MIN || bytes > CUT_BYTES_MAX {
            return self.push(Block::common(bytes), bytes);
        }
        // Each chunk starts at a line. If chunks were as long as a way of the nearest cache, their first
        // values, which may be the most used ones of all shards, would be in the same few sets.
        let lines = bytes.div_ceil(LINE);
        let bytes = (lines | 1) * LINE;
        if self.left < bytes {
            self.left = HUGE;
            self.push(Block::huge(HUGE), HUGE);
        }
        let at = HUGE - self.left;
        self.left -= bytes;
        let page = self.blocks.last().expect("taken just now, or before").as_ptr();
        page.wrapping_add(at)
    }

    fn push(&mut self, block: Block, bytes: usize) -> *mut u8 {
        let at = block.as_ptr();
        self.blocks.push(block);
        self.bytes += bytes;
        at
    }
}

impl<E: bytemuck::Pod> Slab<E> {
    /// The memory of every value that is given back holds the place of another one.
    const LINK: () = assert!(size_of::<E>() >= size_of::<u32>() && align_of::<E>() >= align_of::<u32>());

    /// A slab for values of `len` elements, of which each shard will never have more than `values_max` says
    /// for it (if that is known).
    pub(crate) fn new(len: usize, values_max: Option<&[usize]>) -> Self {
        let per_chunk = (CHUNK_BYTES / (len * size_of::<E>()).max(1)).max(1);
        let mut chunk_bits = per_chunk.ilog2();
        if let Some(most) = values_max.and_then(|of_shards| of_shards.iter().copied().max()) {
            // Of a huge page, also what no value uses takes memory.
            let unused = |bits: u32| most.next_multiple_of(1 << bits) - most;
            while chunk_bits > 0 && unused(chunk_bits) > most / 8 {
                chunk_bits -= 1;
            }
        }
        let first = values_max.map_or(FIRST_CHUNKS, |of_shards| {
            of_shards.iter().map(|values| values.div_ceil(1 << chunk_bits)).sum::<usize>()
        });
        let first = u32::try_from(first.max(1).next_power_of_two()).unwrap_or(1 << (u32::BITS - 1));
        let tables = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let chunk_mask = (1 << chunk_bits) - 1;
        let (taken, memory) = (AtomicU32::new(0), Mutex::default());
        let slab = Self { len, chunk_bits, chunk_mask, first, tables, taken, memory, owns: PhantomData };
        slab.table(0);
        slab
    }

    /// Elements of a value.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number and length of the table that has `chunk`, and the first chunk in it.
    #[inline]
    fn table_of(&self, chunk: u32) -> (usize, u32, u32) {
        if chunk < self.first {
            return (0, self.first, 0);
        }
        // As long as all tables before it together, which is a power of two.
        let begin = 1 << chunk.ilog2();
        ((chunk.ilog2() - self.first.ilog2() + 1) as usize, begin, begin)
    }

    /// The table with `chunk` in it, and the chunk's place in that; the table is made if it is not there.
    fn table(&self, chunk: u32) -> (*mut Chunk<E>, usize) {
        let (number, len, begin) = self.table_of(chunk);
        let (table, at) = (&self.tables[number], (chunk - begin) as usize);
        // Acquire: what is in the table was written before it was put there.
        let there = table.load(Ordering::Acquire);
        if !there.is_null() {
            return (there, at);
        }
        let made: Box<[Chunk<E>]> = (0..len).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let made = Box::into_raw(made);
        // Release: see above. Acquire: another shard may have been faster.
        match table.compare_exchange(ptr::null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => (made.cast(), at),
            Err(faster) => {
                // SAFETY: it came from a box just now, and no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                (faster, at)
            }
        }
    }

    /// Address of the value at `place`.
    ///
    /// # Safety
    /// The caller holds the latch of the shard to which `place` was handed out by [`Slab::take`]. A place
    /// that was given back stays with its shard.
    #[inline]
    pub(crate) unsafe fn value(&self, place: u32) -> *mut E {
        let index = place - 1;
        let chunk = index >> self.chunk_bits;
        let (number, _, begin) = self.table_of(chunk);
        // Relaxed: the thread that took the chunk found its table there, under the latch that the caller
        // holds now.
        let table = self.tables[number].load(Ordering::Relaxed);
        // SAFETY: the place was handed out, so that the table has the chunk.
        let chunk = unsafe { &*table.add((chunk - begin) as usize) };
        let offset = (index & self.chunk_mask) as usize * self.len;
        // SAFETY: the chunk holds `1 << chunk_bits` values of `len` elements. Relaxed: it was written under
        // the latch.
        unsafe { chunk.load(Ordering::Relaxed).add(offset) }
    }

    /// Prefetches the value at `place`, which may be stale, if it is in one of the chunks that were expected;
    /// needs no latch.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: u32) {
        let index = place.wrapping_sub(1);
        let chunk = index >> self.chunk_bits;
        if chunk < self.first && place != 0 {
            // Relaxed: the first table is there from the start.
            let table = self.tables[0].load(Ordering::Relaxed);
            // SAFETY: the first table has so many chunks, and is never replaced.
            let chunk = unsafe { &*table.add(chunk as usize) };
            let offset = (index & self.chunk_mask) as usize * self.len;
            // Relaxed: the value read is only a hint.
            let at = chunk.load(Ordering::Relaxed).wrapping_add(offset);
            prefetch_run(at.cast(), self.len * size_of::<E>());
        }
    }

    /// Hands out a place, and whether a value has been there before; if not, it is zero.
    ///
    /// # Panics
    /// If there would be room for 2³² values.
    ///
    /// # Safety
    /// The caller holds the latch of the shard whose book of this slab `book` is.
    pub(crate) unsafe fn take(&self, book: &mut Book) -> (u32, bool) {
        book.held += 1;
        let place = book.free;
        if place != 0 {
            // SAFETY: the caller holds the latch of the book's shard, to which the place was handed out. The
            // memory of a value holds a `u32`, see `LINK`, and `give` wrote one there; no slot names the
            // place, so that nothing was written since.
            book.free = unsafe { self.value(place).cast::<u32>().read() };
            return (place, true);
        }
        if book.fresh.is_empty() {
            book.fresh = self.chunk();
        }
        let index = book.fresh.start;
        book.fresh.start += 1;
        (index + 1, false)
    }

    /// Makes a chunk; the indexes of its values.
    fn chunk(&self) -> std::ops::Range<u32> {
        // Relaxed: nothing but the number matters.
        let chunk = self.taken.fetch_add(1, Ordering::Relaxed);
        let end = (u64::from(chunk) + 1) << self.chunk_bits;
        // Places are one more.
        let end = u32::try_from(end)
            .ok()
            .filter(|end| *end < u32::MAX)
            .expect("a node has room for fewer than 2^32 values of one length");
        let memory = lock(&self.memory).cut((self.len << self.chunk_bits) * size_of::<E>());
        let (table, at) = self.table(chunk);
        // SAFETY: tables are never replaced, and this one has the chunk.
        let entry = unsafe { &*table.add(at) };
        // Relaxed: a thread that dereferences the address holds the latch; a prefetch does not care.
        entry.store(memory.cast(), Ordering::Relaxed);
        end - (1 << self.chunk_bits)..end
    }

    /// Takes a place back.
    ///
    /// # Safety
    /// The caller holds the latch of the shard whose book of this slab `book` is; `place` came from
    /// [`Slab::take`] with the same book, and is not used afterwards.
    pub(crate) unsafe fn give(&self, book: &mut Book, place: u32) {
        // Relaxed: the caller knows of the chunk.
        let taken = u64::from(self.taken.load(Ordering::Relaxed)) << self.chunk_bits;
        intendant_core::strict_assert!(
            place > 0 && u64::from(place) <= taken && book.held > 0,
            "place {place} was never handed out"
        );
        book.held -= 1;
        let () = Self::LINK;
        // SAFETY: the caller holds the latch, the place is handed out and not used afterwards. The memory of
        // a value holds a `u32`.
        unsafe { self.value(place).cast::<u32>().write(book.free) };
        book.free = place;
    }
}

impl<E> Drop for Slab<E> {
    fn drop(&mut self) {
        let mut len = self.first;
        for (number, table) in self.tables.iter().enumerate() {
            // Relaxed: no other thread has the slab any more.
            let table = table.load(Ordering::Relaxed);
            if number > 1 {
                len = len.wrapping_mul(2);
            }
            if table.is_null() {
                continue;
            }
            // SAFETY: it was made in `table` with this length, as a box, and is not used afterwards.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(table, len as usize)) });
        }
    }
}
