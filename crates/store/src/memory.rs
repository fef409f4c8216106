//! Memory for values and slots: aligned to lines, and on huge pages where that pays.
//!
//! An access to a random row of a large model misses the address translation as well as the cache line. With
//! pages of 2 MiB, translations fit into the nearest caches. The system provides such pages on request
//! (`madvise`); if it does not, the memory stays on common pages.

use std::alloc;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Memory starts at a cache line, so that values of 64 bytes or a multiple never occupy more lines than
/// necessary.
pub(crate) const LINE: usize = 64;
/// A huge page of x86-64, and of AArch64 with a granule of 4 KiB.
pub(crate) const HUGE: usize = 2 << 20;
/// Smaller blocks stay on common pages. Processors keep about a thousand translations or more, which cover 4
/// MiB, and a huge page that is used only in part wastes memory.
pub(crate) const HUGE_MIN: usize = 4 << 20;

/// Zeroed memory that is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    at: NonNull<u8>,
    layout: alloc::Layout,
}

// SAFETY: a block owns its memory, which does not belong to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block only gives out its address.
unsafe impl Sync for Block {}

impl Block {
    /// `bytes` bytes on common pages.
    ///
    /// # Panics
    /// If `bytes` is 0, or more than an address space has.
    pub(crate) fn common(bytes: usize) -> Self {
        let layout = layout(bytes, LINE);
        // SAFETY: the layout has a size.
        Self::own(unsafe { alloc::alloc_zeroed(layout) }, layout)
    }

    /// `bytes` bytes that start at a huge page. If the system has no huge pages for them, they are on common
    /// ones.
    ///
    /// # Panics
    /// As [`Block::common`].
    pub(crate) fn huge(bytes: usize) -> Self {
        let layout = layout(bytes, HUGE);
        // SAFETY: the layout has a size.
        let block = Self::own(unsafe { alloc::alloc(layout) }, layout);
        advise(block.at.as_ptr(), bytes);
        // The allocator does not zero the memory, because it would write to the pages before the advice.
        // SAFETY: the block has `bytes` bytes.
        unsafe { block.at.as_ptr().write_bytes(0, bytes) };
        block
    }

    /// # Panics
    /// As [`Block::common`].
    fn new(bytes: usize) -> Self {
        if bytes >= HUGE_MIN { Self::huge(bytes) } else { Self::common(bytes) }
    }

    fn own(at: *mut u8, layout: alloc::Layout) -> Self {
        Self { at: NonNull::new(at).unwrap_or_else(|| alloc::handle_alloc_error(layout)), layout }
    }

    /// The address of the first byte.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

fn layout(bytes: usize, align: usize) -> alloc::Layout {
    assert!(bytes > 0, "a block has bytes");
    alloc::Layout::from_size_align(bytes, align).expect("a block fits into an address space")
}

/// Asks for huge pages, for the part of the block that fills them: the page after that part belongs to other
/// memory as well.
#[cfg(target_os = "linux")]
fn advise(at: *mut u8, bytes: usize) {
    // SAFETY: this advice changes which pages the system takes, not what is in them. A system that refuses
    // leaves them as they are.
    _ = unsafe { rustix::mm::madvise(at.cast(), bytes / HUGE * HUGE, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_at: *mut u8, _bytes: usize) {}

/// A slice that does not grow, in a block of its own.
pub(crate) struct Array<T> {
    at: NonNull<T>,
    len: usize,
    /// Owns the memory; `None` without elements.
    _block: Option<Block>,
}

// SAFETY: an array owns its elements, as a box does.
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: a shared array gives only shared access to its elements.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T> Array<T> {
    /// `len` elements, each from `make`.
    ///
    /// # Panics
    /// If the address space does not have enough room.
    pub(crate) fn new(len: usize, mut make: impl FnMut() -> T) -> Self {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= LINE) };
        let bytes = len.checked_mul(size_of::<T>()).expect("an array fits into an address space");
        let block = (bytes > 0).then(|| Block::new(bytes));
        let at = block.as_ref().map_or(NonNull::dangling(), |block| block.at.cast());
        let mut array = Self { at, len: 0, _block: block };
        while array.len < len {
            // SAFETY: the block has room for `len` elements, and this one has none yet. If `make` panics,
            // those before it are dropped.
            unsafe { array.at.add(array.len).write(make()) };
            array.len += 1;
        }
        array
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the block has `len` elements, or there are none.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            // SAFETY: the elements are not used afterwards; the block only frees their memory.
            unsafe { std::ptr::drop_in_place(&raw mut **self) };
        }
    }
}
