//! Copies between words and plain memory.
//!
//! A copy of relaxed loads moves 8 bytes per instruction: the compiler joins no atomic accesses. On x86-64,
//! the instructions are written out here, and move 16 bytes each.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD_BYTES: usize = 8;
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * WORD_BYTES;

/// Copies words to as many bytes, in the byte order of the machine.
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

/// Copies words to bytes, as far as there are any: the last word may have more.
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

/// Copies bytes to as many words, in the byte order of the machine.
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

/// Copies words to as many others.
///
/// # Panics
/// If there are not as many.
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
        // SAFETY: both are 64 valid bytes, and `bytes` is no other thread's. To the compiler, the block may
        // be eight relaxed loads of the words; it assumes nothing of what they find. The processor moves
        // each aligned half of 16 bytes at once, and keeps these loads in order with those of other
        // instructions, as it does with all loads of memory that is written back.
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
