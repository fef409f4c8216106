//! Copies between words and plain memory.
//!
//! A copy by relaxed loads moves 8 bytes per instruction, because the compiler does not merge atomic
//! accesses. On x86-64, this module contains the instructions in assembly, which move 16 bytes each.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD_BYTES: usize = 8;
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * WORD_BYTES;

/// From this many cache lines on, [`store_long`] bypasses the caches. Lines that another core has read are in
/// that core's cache, and a core that writes to its own cache must take them from there, one after the other.
/// For 64 KiB in a ring of 256 KiB, that took 8 to 38 µs, depending on how far the cores are from each other;
/// bypassing the caches took 2 to 5 µs. The reader then waits for memory instead of the writer's cache, 6 to
/// 8 µs instead of 5 to 7. If there are fewer lines, their transfers overlap.
const STREAMED_LINES_MIN: usize = 32;

/// How many lines ahead [`load_ahead`] prefetches: memory answers in the time that the copy of this many
/// lines takes.
const PREFETCH_LINES: usize = 16;

/// Copies words to bytes, in the byte order of the machine.
///
/// # Panics
/// If there are not 8 bytes per word.
#[inline(always)]
pub(crate) fn load(words: &[AtomicU64], into: &mut [u8]) {
    assert_eq!(words.len() * WORD_BYTES, into.len(), "8 bytes per word");
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (into_lines, into_rest) = into.as_chunks_mut::<LINE_BYTES>();
    for (line, bytes) in lines.iter().zip(into_lines) {
        load_line(line, bytes);
    }
    for (word, bytes) in rest.iter().zip(into_rest.as_chunks_mut::<WORD_BYTES>().0) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Copies words until `into` is full: it may end within the last word.
#[inline(always)]
pub(crate) fn load_some(words: &[AtomicU64], into: &mut [u8]) {
    let (into_lines, rest) = into.as_chunks_mut::<LINE_BYTES>();
    let (lines, _) = words.as_chunks::<LINE_WORDS>();
    let done = into_lines.len() * LINE_WORDS;
    for (line, bytes) in lines.iter().zip(into_lines) {
        load_line(line, bytes);
    }
    if rest.is_empty() {
        return;
    }
    for (word, bytes) in words.iter().skip(done).zip(rest.chunks_mut(WORD_BYTES)) {
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..bytes.len()]);
    }
}

/// Copies bytes to words, in the byte order of the machine.
///
/// # Panics
/// If there are not 8 bytes per word.
#[inline(always)]
pub(crate) fn store(words: &[AtomicU64], from: &[u8]) {
    assert_eq!(words.len() * WORD_BYTES, from.len(), "8 bytes per word");
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (from_lines, from_rest) = from.as_chunks::<LINE_BYTES>();
    for (line, bytes) in lines.iter().zip(from_lines) {
        store_line(line, bytes);
    }
    for (word, bytes) in rest.iter().zip(from_rest.as_chunks::<WORD_BYTES>().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

/// As [`load`], for runs that may be long and written by another core: prefetches lines.
///
/// # Panics
/// As [`load`].
#[inline(always)]
pub(crate) fn load_ahead(words: &[AtomicU64], into: &mut [u8]) {
    assert_eq!(words.len() * WORD_BYTES, into.len(), "8 bytes per word");
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    let (into_lines, into_rest) = into.as_chunks_mut::<LINE_BYTES>();
    for (line, bytes) in lines.iter().zip(into_lines) {
        prefetch(line.as_ptr().wrapping_add(PREFETCH_LINES * LINE_WORDS));
        load_line(line, bytes);
    }
    load(rest, into_rest);
}

/// As [`store`], but bypasses the caches if there are many words, on processors that can do so.
///
/// # Panics
/// As [`store`].
#[inline(always)]
pub(crate) fn store_long(words: &[AtomicU64], from: &[u8]) {
    assert_eq!(words.len() * WORD_BYTES, from.len(), "8 bytes per word");
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    if lines.len() < STREAMED_LINES_MIN {
        return store(words, from);
    }
    let (from_lines, from_rest) = from.as_chunks::<LINE_BYTES>();
    stream(lines, from_lines);
    store(rest, from_rest);
}

/// Copies words to equally many other words.
///
/// # Panics
/// If their numbers differ.
#[inline(always)]
pub(crate) fn copy(to: &[AtomicU64], from: &[AtomicU64]) {
    assert_eq!(to.len(), from.len(), "as many words");
    let (lines, rest) = to.as_chunks::<LINE_WORDS>();
    let (from_lines, from_rest) = from.as_chunks::<LINE_WORDS>();
    for (line, source) in lines.iter().zip(from_lines) {
        copy_line(line, source);
    }
    for (target, source) in rest.iter().zip(from_rest) {
        target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Prefetches the cache line at `at`. Any address is allowed, mapped or not.
#[inline(always)]
fn prefetch(at: *const AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it does not access memory in the sense of the language and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Copies lines until `lines` or `from` ends. It writes each word by a relaxed store that bypasses the
/// caches.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stream(lines: &[[AtomicU64; LINE_WORDS]], from: &[[u8; LINE_BYTES]]) {
    let count = lines.len().min(from.len());
    if count == 0 {
        return;
    }
    // SAFETY: the loop reads `count` lines from `from` and writes `count` lines to `lines`, which have as
    // many; the words may be written, because they are atomic. Each `movnti` stores a word of 8 bytes at an
    // address that is a multiple of 8, which is one step for all other cores. It may become visible before
    // stores that precede it, and later than stores that follow it. The first `sfence` makes the stores that
    // precede this block (the odd sequence of a mirror) visible before the words. The second one makes the
    // words visible before the stores that follow the block. So to other cores, the block is a sequence of
    // relaxed stores. It uses neither the stack nor other memory.
    unsafe {
        std::arch::asm!(
            "sfence",
            "2:",
            "mov {a}, [{from}]",
            "mov {b}, [{from} + 8]",
            "mov {c}, [{from} + 16]",
            "mov {d}, [{from} + 24]",
            "movnti [{to}], {a}",
            "movnti [{to} + 8], {b}",
            "movnti [{to} + 16], {c}",
            "movnti [{to} + 24], {d}",
            "mov {a}, [{from} + 32]",
            "mov {b}, [{from} + 40]",
            "mov {c}, [{from} + 48]",
            "mov {d}, [{from} + 56]",
            "movnti [{to} + 32], {a}",
            "movnti [{to} + 40], {b}",
            "movnti [{to} + 48], {c}",
            "movnti [{to} + 56], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {count}",
            "jnz 2b",
            "sfence",
            from = inout(reg) from.as_ptr() => _,
            to = inout(reg) lines.as_ptr() => _,
            count = inout(reg) count => _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            options(nostack),
        );
    }
}

/// On other processors, the stores go to the caches.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream(lines: &[[AtomicU64; LINE_WORDS]], from: &[[u8; LINE_BYTES]]) {
    lines.iter().zip(from).for_each(|(line, bytes)| store_line(line, bytes));
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod line {
    use super::{AtomicU64, LINE_BYTES, LINE_WORDS};
    use std::arch::asm;

    /// Moves 64 bytes. The loads come first, so that they overlap.
    macro_rules! move_line {
        ($from:expr, $to:expr) => {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) $from,
                to = in(reg) $to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            )
        };
    }

    #[inline(always)]
    pub(super) fn load_line(line: &[AtomicU64; LINE_WORDS], bytes: &mut [u8; LINE_BYTES]) {
        // SAFETY: both are 64 valid bytes, and no other thread has access to `bytes`. To the compiler, the
        // block may be eight relaxed loads of the words; it assumes nothing about the values that they read.
        // The processor keeps these loads in order with those of other instructions, as it does with all
        // loads of memory that is written back. Vendors promise that it moves aligned 16 bytes at once. They
        // promise nothing for a line that begins at an odd word, although no word crosses a cache line. No
        // caller relies on whole words there: checksums, sequence counts or positions tell which words may be
        // used.
        unsafe { move_line!(line.as_ptr(), bytes.as_mut_ptr()) }
    }

    #[inline(always)]
    pub(super) fn store_line(line: &[AtomicU64; LINE_WORDS], bytes: &[u8; LINE_BYTES]) {
        // SAFETY: both are 64 valid bytes, and only atomic words are written, which may be written through a
        // shared reference: to the compiler, the block may be eight relaxed stores. The processor keeps these
        // stores in order with those of other instructions.
        unsafe { move_line!(bytes.as_ptr(), line.as_ptr()) }
    }

    #[inline(always)]
    pub(super) fn copy_line(line: &[AtomicU64; LINE_WORDS], source: &[AtomicU64; LINE_WORDS]) {
        // SAFETY: as in `load_line` and in `store_line`.
        unsafe { move_line!(source.as_ptr(), line.as_ptr()) }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod line {
    use super::{AtomicU64, LINE_BYTES, LINE_WORDS, Ordering, WORD_BYTES};

    #[inline(always)]
    pub(super) fn load_line(line: &[AtomicU64; LINE_WORDS], bytes: &mut [u8; LINE_BYTES]) {
        let values: [u64; LINE_WORDS] = std::array::from_fn(|word| line[word].load(Ordering::Relaxed));
        for (value, bytes) in values.iter().zip(bytes.as_chunks_mut::<WORD_BYTES>().0) {
            *bytes = value.to_ne_bytes();
        }
    }

    #[inline(always)]
    pub(super) fn store_line(line: &[AtomicU64; LINE_WORDS], bytes: &[u8; LINE_BYTES]) {
        for (word, bytes) in line.iter().zip(bytes.as_chunks::<WORD_BYTES>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn copy_line(line: &[AtomicU64; LINE_WORDS], source: &[AtomicU64; LINE_WORDS]) {
        for (target, source) in line.iter().zip(source) {
            target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

use line::{copy_line, load_line, store_line};
