//! Values of one length, one after the other in blocks of memory, with free lists.
//!
//! A store has a slab per value length, which all shards share. A *place* is the number of a value in the
//! slab, from 1; 0 means "no value". The slab hands places out in order, so that values that are made one
//! after the other are neighbours. Values never move. A shard keeps the places that it gave back in a
//! [`Book`], which its latch protects. Tables contain the addresses of the blocks. Each table is as long as
//! all tables before it together. The slab adds tables and never replaces them, so that threads can read them
//! without a latch. The first table has room for all blocks if their number is known.

use crate::memory::{Block, HUGE, LINE};
use crate::prefetch::prefetch_run;
use crate::sync::{AtomicPtr, AtomicU32, FIRST_BLOCKS, Ordering};
use intendant_core::lock;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

/// Blocks have at most this many bytes, unless a single value has more. Each access looks up its block: with
/// this size, the tables of models of some hundred MiB stay in the nearest cache, and no node takes much more
/// memory than its values need.
const BLOCK_BYTES: usize = HUGE / 32;
/// A store that knows how many values it will have has at least this many blocks.
const BLOCKS_MIN: usize = 16;
/// Number of tables: each table doubles the number of blocks, of which there are fewer than 2³².
const TABLES: usize = 33;

/// The pointer to a block; null until the block is made.
type Start<E> = AtomicPtr<E>;

/// What a shard knows of its values in a slab.
#[derive(Default)]
pub(crate) struct Book {
    /// The place that was given back last, 0 if there is none. Its memory contains the place that was given
    /// back before it, and so on. A place that is handed out again needs its memory anyway.
    free: u32,
    /// Values in use.
    held: usize,
}

impl Book {
    /// Values in use.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The place that is handed out next, 0 if it is a new one.
    pub(crate) fn next(&self) -> u32 {
        self.free
    }
}

/// All values of one length of a store.
pub(crate) struct Slab<E> {
    len: usize,
    block_bits: u32,
    /// Values of a block, minus one.
    block_mask: u32,
    /// Blocks in the first table, a power of two.
    first: u32,
    tables: [AtomicPtr<Start<E>>; TABLES],
    /// Places handed out so far.
    taken: AtomicU32,
    memory: Mutex<Memory>,
    owns: PhantomData<E>,
}

/// The memory of the blocks.
struct Memory {
    blocks: Vec<Block>,
    /// Bytes that the slab must still take on common pages before huge pages pay off.
    common: usize,
    /// Bytes that are left of the last block, if it is a huge page.
    left: usize,
    /// Memory that was taken for blocks of the slab that another shard had already made.
    spare: Vec<*mut u8>,
}

// SAFETY: it owns the blocks, and the pointers point into them.
unsafe impl Send for Memory {}

impl Memory {
    /// Memory for a block of the slab, of `bytes` bytes. It is freed with all other memory.
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        if let Some(spare) = self.spare.pop() {
            return spare;
        }
        // Longer values would leave too much of a huge page unused.
        if self.common > 0 || bytes > BLOCK_BYTES {
            self.common = self.common.saturating_sub(bytes);
            self.blocks.push(Block::common(bytes));
            return self.last();
        }
        // Each block starts at a line.
        let bytes = bytes.next_multiple_of(LINE);
        if self.left < bytes {
            self.left = HUGE;
            self.blocks.push(Block::huge(HUGE));
        }
        let at = HUGE - self.left;
        self.left -= bytes;
        self.last().wrapping_add(at)
    }

    fn last(&self) -> *mut u8 {
        self.blocks.last().expect("taken just now, or before").as_ptr()
    }
}

/// How many values a slab will have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// At most.
    pub(crate) most: usize,
    /// At the start.
    pub(crate) first: usize,
}

impl<E: bytemuck::Pod> Slab<E> {
    /// The memory of every value that is given back holds the place of another one.
    const LINK: () = assert!(size_of::<E>() >= size_of::<u32>() && align_of::<E>() >= align_of::<u32>());

    /// A slab for values of `len` elements; `expected` is their number, if it is known.
    pub(crate) fn new(len: usize, expected: Option<Expected>) -> Self {
        let bytes = len * size_of::<E>();
        let mut per_block = BLOCK_BYTES / bytes.max(1);
        let mut common = HUGE;
        if let Some(Expected { most, first }) = expected {
            per_block = per_block.min(most / BLOCKS_MIN);
            common = if first * bytes < HUGE { HUGE } else { 0 };
        }
        let block_bits = per_block.max(1).ilog2();
        let first = expected.map_or(FIRST_BLOCKS, |expected| expected.most.div_ceil(1 << block_bits));
        let first = u32::try_from(first.max(1).next_power_of_two()).unwrap_or(1 << (u32::BITS - 1));
        let tables = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let block_mask = (1 << block_bits) - 1;
        let memory = Mutex::new(Memory { blocks: Vec::new(), common, left: 0, spare: Vec::new() });
        let taken = AtomicU32::new(0);
        let slab = Self { len, block_bits, block_mask, first, tables, taken, memory, owns: PhantomData };
        slab.table(0);
        slab
    }

    /// Elements of a value.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number and length of the table that has `block`, and the first block in it.
    #[inline]
    fn table_of(&self, block: u32) -> (usize, u32, u32) {
        if block < self.first {
            return (0, self.first, 0);
        }
        // The table is as long as all tables before it together. This length is a power of two.
        let begin = 1 << block.ilog2();
        ((block.ilog2() - self.first.ilog2() + 1) as usize, begin, begin)
    }

    /// The entry of `block`. Makes the table if it does not exist. This code is not part of [`Slab::value`],
    /// so that the latter needs few registers.
    #[inline(never)]
    fn table(&self, block: u32) -> &Start<E> {
        let (number, len, begin) = self.table_of(block);
        let (table, at) = (&self.tables[number], (block - begin) as usize);
        // Acquire: the contents of the table were written before its address was stored.
        let mut start = table.load(Ordering::Acquire);
        if start.is_null() {
            let made: Box<[Start<E>]> = (0..len).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
            let made = Box::into_raw(made);
            start = made.cast();
            // Release: see above. Acquire: another shard may have been faster.
            let put = table.compare_exchange(ptr::null_mut(), start, Ordering::AcqRel, Ordering::Acquire);
            if let Err(faster) = put {
                // SAFETY: it came from a box just now, and no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                start = faster;
            }
        }
        // SAFETY: the table has an entry for the block, and is never replaced.
        unsafe { &*start.add(at) }
    }

    /// Address of the value at `place`.
    ///
    /// # Safety
    /// The caller holds the latch of the shard to which `place` was handed out by [`Slab::take`]. A place
    /// that was given back stays with its shard.
    #[inline(always)]
    pub(crate) unsafe fn value(&self, place: u32) -> *mut E {
        let index = place - 1;
        let block = index >> self.block_bits;
        let start = if block < self.first {
            // Relaxed: the first table is there from the start.
            let table = self.tables[0].load(Ordering::Relaxed);
            // SAFETY: the first table has an entry for the block.
            unsafe { &*table.add(block as usize) }
        } else {
            self.table(block)
        };
        let offset = (index & self.block_mask) as usize * self.len;
        // SAFETY: the block holds `1 << block_bits` values of `len` elements. Relaxed: the thread to which
        // the place was handed out found the block there, under the latch that the caller holds now.
        unsafe { start.load(Ordering::Relaxed).add(offset) }
    }

    /// Prefetches the value at `place`, which may be stale, if it is in one of the blocks that were expected.
    /// It takes no latch.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: u32) {
        let index = place.wrapping_sub(1);
        let block = index >> self.block_bits;
        if block < self.first && place != 0 {
            // Relaxed: the first table is there from the start.
            let table = self.tables[0].load(Ordering::Relaxed);
            // SAFETY: the first table has an entry for the block, and is never replaced.
            let start = unsafe { &*table.add(block as usize) };
            let offset = (index & self.block_mask) as usize * self.len;
            // Relaxed: the value read is only a hint.
            let at = start.load(Ordering::Relaxed).wrapping_add(offset);
            prefetch_run(at.cast(), self.len * size_of::<E>());
        }
    }

    /// The next place that was never handed out.
    pub(crate) fn fresh(&self) -> u32 {
        // Relaxed: only a hint.
        self.taken.load(Ordering::Relaxed).saturating_add(1)
    }

    /// Hands out a place. Also returns whether a value has been there before; if not, the memory is zero.
    ///
    /// # Panics
    /// If no place is left: a slab has fewer than 2³² places.
    ///
    /// # Safety
    /// `book` is a shard's book of this slab, and the caller holds the latch of that shard.
    pub(crate) unsafe fn take(&self, book: &mut Book) -> (u32, bool) {
        let place = book.free;
        if place != 0 {
            book.held += 1;
            // SAFETY: the caller holds the latch of the book's shard, to which the place was handed out. The
            // memory of a value holds a `u32`, see `LINK`, and `give` wrote one there; no slot names the
            // place, so that nothing was written since.
            book.free = unsafe { self.value(place).cast::<u32>().read() };
            return (place, true);
        }
        // Relaxed: nothing but the number matters. A place is its index plus one.
        let index = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < u32::MAX - 1).then(|| taken + 1)
            })
            .expect("a node has room for fewer than 2^32 values of one length");
        book.held += 1;
        let start = self.table(index >> self.block_bits);
        // Acquire: the contents of the block were written before its address was stored.
        if start.load(Ordering::Acquire).is_null() {
            self.make(start);
        }
        (index + 1, false)
    }

    /// Makes a block, if no other shard makes it meanwhile.
    #[cold]
    fn make(&self, start: &Start<E>) {
        let bytes = (self.len << self.block_bits) * size_of::<E>();
        let made = lock(&self.memory).cut(bytes);
        // Release: see `take`. Acquire: as there.
        let put = start.compare_exchange(ptr::null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire);
        if put.is_err() {
            lock(&self.memory).spare.push(made);
        }
    }

    /// Takes a place back.
    ///
    /// # Safety
    /// `book` is a shard's book of this slab, and the caller holds the latch of that shard; `place` came from
    /// [`Slab::take`] with the same book, and is not used afterwards.
    pub(crate) unsafe fn give(&self, book: &mut Book, place: u32) {
        intendant_core::strict_assert!(
            // Relaxed: the caller knows of the place.
            place > 0 && place <= self.taken.load(Ordering::Relaxed) && book.held > 0,
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
