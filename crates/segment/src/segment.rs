//! Words that threads, processes and network cards share.

use crate::SegmentError;
use crate::copy;
use crate::memory;
use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::alloc::Layout;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words per cache line. The number of words of a segment is a multiple of this number, and a segment is
/// aligned to a line.
const LINE_WORDS: usize = 8;
const WORD_BYTES: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * WORD_BYTES;

/// Magic number of tmpfs, to which memfd files belong. Memory of huge pages belongs to another file system:
/// if the machine lacks a page of it, the process that touches the page is killed.
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// Memory of a whole number of cache lines, counted in words of 8 bytes (`u64`, in the byte order of the
/// machine). Any thread, any process that has the descriptor, and any network card with which the memory is
/// registered may read and write any word at any time.
///
/// Cheap to clone: clones share the same memory, which is released when the last of them is dropped.
#[derive(Clone)]
pub struct Segment {
    /// Points into `memory`, which keeps it valid.
    words: NonNull<AtomicU64>,
    count: usize,
    memory: Arc<Memory>,
}

/// Where the words are, and how they are released.
struct Memory {
    at: NonNull<AtomicU64>,
    bytes: usize,
    /// The descriptor of a mapping; memory without a descriptor is from the allocator.
    fd: Option<OwnedFd>,
}

// SAFETY: the words are atomic, neither they nor the release of the memory belong to a thread, and `Memory`
// has no other access to what it points at.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
// SAFETY: `words` points into `memory`, which may be sent.
unsafe impl Send for Segment {}
// SAFETY: `words` is only used for atomic accesses.
unsafe impl Sync for Segment {}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.fd.is_some() {
            // SAFETY: `at` and `bytes` are those of a mapping that this value alone owns. Segments keep this
            // value alive, so no reference into the mapping is left.
            let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
            debug_assert!(unmapped.is_ok(), "unmapping a segment: {unmapped:?}");
        } else if let Ok(layout) = Layout::from_size_align(self.bytes, LINE_BYTES) {
            // SAFETY: `at` was allocated with this layout (`Segment::new`), and is freed only here.
            unsafe { std::alloc::dealloc(self.at.as_ptr().cast(), layout) };
        }
    }
}

impl Segment {
    /// Memory of this process, zeroed: at least `words` words, rounded up to a multiple of 8.
    ///
    /// # Errors
    /// If `words` is 0 or more than the machine, or a control group around this process, has left.
    pub fn new(words: usize) -> Result<Self, SegmentError> {
        let layout = layout(words)?;
        memory::check(layout.size() as u64)?;
        // SAFETY: the layout has a size above 0 (`layout`).
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(at) = NonNull::new(at.cast()) else {
            return Err(system("allocating memory", layout.size(), Errno::NOMEM));
        };
        Ok(Self::of(at, layout.size(), None))
    }

    /// Memory that other processes can open, zeroed: at least `words` words, rounded up to a multiple of 8.
    /// It is a memfd: it has no name in any file system and ends with the last descriptor and mapping of it.
    /// It is sealed against growing and shrinking, so that no process can take mapped words away.
    ///
    /// This call takes all of the memory at once, so that a lack of memory is an error here and does not kill
    /// the process that first writes to it.
    ///
    /// # Errors
    /// If `words` is 0 or more than the machine, or a control group around this process, has left, or if the
    /// operating system refuses the memory or the mapping.
    pub fn shared(words: usize) -> Result<Self, SegmentError> {
        Self::make(words, SealFlags::empty())
    }

    /// Shared memory with the additional seals `seals`, which do not affect the returned mapping.
    fn make(words: usize, seals: SealFlags) -> Result<Self, SegmentError> {
        let bytes = layout(words)?.size();
        memory::check(bytes as u64)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("intendant-segment", flags)
            .map_err(|error| system("memfd_create", bytes, error))?;
        retry(|| rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes as u64))
            .map_err(|error| system("reserving memory (fallocate)", bytes, error))?;
        let seal = |fd: BorrowedFd<'_>, seals| {
            rustix::fs::fcntl_add_seals(fd, seals).map_err(|error| system("sealing memory", bytes, error))
        };
        seal(fd.as_fd(), SealFlags::GROW | SealFlags::SHRINK)?;
        let segment = Self::map(fd, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        if let Some(fd) = segment.fd() {
            seal(fd, seals | SealFlags::SEAL)?;
        }
        Ok(segment)
    }

    /// As [`Self::shared`], for memory that only this process writes: other processes can map it only for
    /// reading, by [`View::open`].
    ///
    /// # Errors
    /// As [`Self::shared`].
    pub fn published(words: usize) -> Result<Self, SegmentError> {
        Self::make(words, SealFlags::FUTURE_WRITE)
    }

    /// Maps the memory of another process, whose descriptor it has sent.
    ///
    /// This call checks the descriptor: the memory must be a memfd of normal pages that is sealed against
    /// growing and shrinking, so that no word of it is taken away. The caller must check what the words
    /// contain. The caller must also trust the process that sent the descriptor not to do harm on purpose:
    /// that process can release pages of the memory (`fallocate`), and an access takes them anew, which fails
    /// if no memory is left.
    ///
    /// # Errors
    /// If the descriptor is not one of a memfd, if it lacks the seals or cannot be written, if its length is
    /// 0, no multiple of 64 bytes or more than the machine has, or if it cannot be mapped.
    pub fn open(fd: OwnedFd) -> Result<Self, SegmentError> {
        let (seals, bytes) = check(&fd)?;
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(SegmentError::ReadOnly { what: "it is sealed against writing" });
        }
        let mode = rustix::fs::fcntl_getfl(&fd).map_err(|error| system("fcntl", 0, error))?;
        if mode & OFlags::RWMODE != OFlags::RDWR {
            return Err(SegmentError::ReadOnly { what: "it was not opened for reading and writing" });
        }
        Self::map(fd, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps all `bytes` bytes of sealed memory.
    fn map(fd: OwnedFd, bytes: usize, access: ProtFlags) -> Result<Self, SegmentError> {
        // SAFETY: without a requested address, a new mapping replaces no other mapping. The memory is a memfd
        // of at least `bytes` bytes and sealed against shrinking (`make`, `check`), so that the whole mapping
        // stays valid until it is unmapped.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &fd, 0) }
            .map_err(|error| system("mapping memory", bytes, error))?;
        let at = NonNull::new(at.cast()).ok_or_else(|| system("mapping memory", bytes, Errno::NOMEM))?;
        Ok(Self::of(at, bytes, Some(fd)))
    }

    /// Memory that is valid for `bytes` bytes, a multiple of a line, and aligned to a line: from the
    /// allocator if there is no descriptor, else a mapping of it.
    fn of(at: NonNull<AtomicU64>, bytes: usize, fd: Option<OwnedFd>) -> Self {
        debug_assert!(at.as_ptr().addr().is_multiple_of(LINE_BYTES) && bytes.is_multiple_of(LINE_BYTES));
        Self { words: at, count: bytes / WORD_BYTES, memory: Arc::new(Memory { at, bytes, fd }) }
    }

    /// The descriptor to send to other processes; none if the memory belongs to this process only.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.memory.fd.as_ref().map(AsFd::as_fd)
    }

    /// Number of words, a multiple of 8.
    #[must_use]
    pub fn words(&self) -> usize {
        self.count
    }

    /// The address of the first word, to register the memory with network cards. It is valid as long as a
    /// clone of the segment exists.
    #[must_use]
    pub fn address(&self) -> NonNull<AtomicU64> {
        self.words
    }

    #[inline(always)]
    fn all(&self) -> &[AtomicU64] {
        // SAFETY: `words` points at `count` words that `memory` keeps valid for as long as `self` lives:
        // memory that was allocated zeroed, or a mapping that cannot shrink (`map`). Every value of 64 bits
        // is a valid word, and all accesses of this process are atomic, because no other reference to the
        // memory is ever made. What other processes do with their mapping of it, and what network cards
        // write, lies outside of Rust's memory model. It is sound as far as the machine's model goes: both
        // write to memory that this process reads by atomic loads only, about whose values the compiler
        // assumes nothing.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// Reads word `at`.
    ///
    /// # Panics
    /// If the segment has no such word, or if `order` is not valid for a load.
    #[inline]
    #[must_use]
    pub fn load(&self, at: usize, order: Ordering) -> u64 {
        self.all()[at].load(order)
    }

    /// Writes word `at`.
    ///
    /// # Panics
    /// If the segment has no such word, or if `order` is not valid for a store.
    #[inline]
    pub fn store(&self, at: usize, value: u64, order: Ordering) {
        self.all()[at].store(value, order);
    }

    /// Writes word `at` and returns its previous value, as one atomic step.
    ///
    /// Do not use this for words that network cards change by their own atomic operations: those are not
    /// atomic in relation to the processor's.
    ///
    /// # Panics
    /// If the segment has no such word.
    #[inline]
    pub fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.all()[at].swap(value, order)
    }

    /// Sets the bits of `value` in word `at`, and returns the word's previous value, as one atomic step. As
    /// with [`Self::swap`], do not use this for words that network cards change.
    ///
    /// # Panics
    /// If the segment has no such word.
    #[inline]
    pub fn fetch_or(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.all()[at].fetch_or(value, order)
    }

    /// Copies the words from `at` on, each by a relaxed load: words that are written meanwhile may be of
    /// different times.
    ///
    /// # Panics
    /// If the segment does not have these words.
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u64]) {
        copy::load(self.part(at, into.len()), bytemuck::cast_slice_mut(into));
    }

    /// Writes the words from `at` on, each by a relaxed store: readers may see some of them before others.
    ///
    /// # Panics
    /// If the segment does not have these words.
    #[inline]
    pub fn write(&self, at: usize, from: &[u64]) {
        copy::store(self.part(at, from.len()), bytemuck::cast_slice(from));
    }

    /// Copies the words from `at` on into `into`, as [`Self::read`] does: each word as its 8 bytes in the
    /// order of the machine.
    ///
    /// # Panics
    /// If `into` is no whole number of words, or if the segment does not have these words.
    #[inline]
    pub fn read_bytes(&self, at: usize, into: &mut [u8]) {
        copy::load_ahead(self.part(at, whole_words(into.len())), into);
    }

    /// Writes the words from `at` on, as [`Self::write`] does, from their bytes in the order of the machine.
    /// Many bytes go to memory without passing through this core's caches, on processors that can do so.
    ///
    /// # Panics
    /// If `from` is no whole number of words, or if the segment does not have these words.
    #[inline]
    pub fn write_bytes(&self, at: usize, from: &[u8]) {
        copy::store_long(self.part(at, whole_words(from.len())), from);
    }

    /// Copies `words` words from word `at` of `from` to word `to` of this segment, each by a relaxed load and
    /// a relaxed store. If both are parts of one segment and overlap, the values of the words are unspecified
    /// afterwards.
    ///
    /// # Panics
    /// If one of the segments does not have these words.
    #[inline]
    pub fn copy(&self, to: usize, from: &Self, at: usize, words: usize) {
        copy::copy(self.part(to, words), from.part(at, words));
    }

    #[inline(always)]
    fn part(&self, at: usize, words: usize) -> &[AtomicU64] {
        let part = at.checked_add(words).and_then(|end| self.all().get(at..end));
        part.unwrap_or_else(|| self.outside(at, words))
    }

    #[cold]
    #[inline(never)]
    fn outside(&self, at: usize, words: usize) -> ! {
        panic!("{words} words from word {at} on are not within a segment of {} words", self.count)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Segment").field("words", &self.count).field("fd", &self.memory.fd).finish()
    }
}

/// Read-only access to memory of this or another process: the memory may be written at any time, but not
/// through this value.
///
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct View {
    /// Possibly a mapping that cannot be written: no method that writes to it may be called.
    segment: Segment,
}

impl View {
    /// A view of memory of this process, or of one that this process has mapped.
    #[must_use]
    pub fn of(segment: &Segment) -> Self {
        Self { segment: segment.clone() }
    }

    /// Maps the memory of another process to read it, as [`Segment::open`] does to read and write it. The
    /// memory may be sealed against writing by this process ([`Segment::published`]).
    ///
    /// # Errors
    /// As [`Segment::open`], except that the memory need not be writable.
    pub fn open(fd: OwnedFd) -> Result<Self, SegmentError> {
        let (_, bytes) = check(&fd)?;
        Ok(Self { segment: Segment::map(fd, bytes, ProtFlags::READ)? })
    }

    /// Number of words, a multiple of 8.
    #[must_use]
    pub fn words(&self) -> usize {
        self.segment.words()
    }

    /// Reads word `at` by a relaxed load: for memory that cannot be written, Rust allows no other load. A
    /// fence may follow.
    ///
    /// # Panics
    /// If the memory has no such word.
    #[inline]
    #[must_use]
    pub fn load(&self, at: usize) -> u64 {
        self.segment.load(at, Ordering::Relaxed)
    }

    /// Copies words, as [`Segment::read_bytes`] does.
    ///
    /// # Panics
    /// If `into` is no whole number of words, or if the memory does not have these words.
    #[inline]
    pub fn read_bytes(&self, at: usize, into: &mut [u8]) {
        self.segment.read_bytes(at, into);
    }

    /// The `N` words from `at` on, and the `words` words after them. They are for relaxed loads only.
    #[inline(always)]
    pub(crate) fn place<const N: usize>(&self, at: usize, words: usize) -> (&[AtomicU64; N], &[AtomicU64]) {
        let place = self.segment.part(at, N.saturating_add(words));
        place.split_first_chunk().unwrap_or_else(|| self.segment.outside(at, words))
    }

    /// Copies as many bytes as `into` has, each word by a relaxed load.
    #[inline(always)]
    pub(crate) fn copy(words: &[AtomicU64], into: &mut [u8]) {
        copy::load_some(words, into);
    }
}

/// Checks that a descriptor refers to sealed memory. Returns its seals and its bytes.
fn check(fd: &OwnedFd) -> Result<(SealFlags, usize), SegmentError> {
    // Only memory can have seals.
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|error| SegmentError::NotMemory {
        what: if error == Errno::INVAL { "it has no seals".to_owned() } else { error.to_string() },
    })?;
    let system_of = rustix::fs::fstatfs(fd).map_err(|error| system("fstatfs", 0, error))?.f_type;
    #[allow(clippy::unnecessary_cast, reason = "the type of the field differs between architectures")]
    if system_of as i128 != TMPFS_MAGIC {
        return Err(SegmentError::NotMemory { what: "it is of huge pages, or of a file system".to_owned() });
    }
    if !seals.contains(SealFlags::GROW | SealFlags::SHRINK) {
        return Err(SegmentError::Unsealed);
    }
    let length = rustix::fs::fstat(fd).map_err(|error| system("fstat", 0, error))?.st_size;
    let length = u64::try_from(length).unwrap_or(0);
    if length == 0 || !length.is_multiple_of(LINE_BYTES as u64) {
        return Err(SegmentError::Length { bytes: length });
    }
    memory::check_total(length)?;
    let bytes = usize::try_from(length).map_err(|_| SegmentError::Length { bytes: length })?;
    Ok((seals, bytes))
}

/// The number of words in `bytes` bytes.
#[inline(always)]
fn whole_words(bytes: usize) -> usize {
    assert!(
        bytes.is_multiple_of(WORD_BYTES),
        "{bytes} bytes are no whole number of words of {WORD_BYTES} bytes"
    );
    bytes / WORD_BYTES
}

/// The layout of at least `words` words.
fn layout(words: usize) -> Result<Layout, SegmentError> {
    if words == 0 {
        return Err(SegmentError::Empty);
    }
    let bytes = words.checked_next_multiple_of(LINE_WORDS).and_then(|words| words.checked_mul(WORD_BYTES));
    let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, LINE_BYTES).ok());
    layout.ok_or(SegmentError::TooLong { words })
}

/// Repeats a system call that a signal has interrupted.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn system(action: &'static str, bytes: usize, error: Errno) -> SegmentError {
    SegmentError::System { action, bytes: bytes as u64, source: error.into() }
}
