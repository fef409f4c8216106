//! Mirrors: values that a process keeps elsewhere, copied to places where other processes read them.
//!
//! A place begins at a multiple of 8 words with a header of [`HEADER`] words; the value follows. A place has
//! the value of one key, or of none. Its writer holds a lock of its own (a latch) for the value and the place
//! together, so that the place changes with the value. Readers take no lock. A sequence lock [Boehm 2012]
//! tells them that the place was written meanwhile, and the key tells them that it has the value of another
//! key.
//!
//! A mirror costs its writer a copy per write, and the writer does not learn whether the mirror is read. So a
//! mirror is *lent* a number of writes. After that many writes, it ends by itself, until a node asks for the
//! value again.
//!
//! Readers have a [`View`], which gives read-only access to the writer's memory. Keys are numbers below
//! `u64::MAX`, which marks a place without a value.

use crate::segment::{Segment, View};
use crate::sync::{Ordering, fence};

/// Words of a place before its value: sequence, key, writes that are left, and one without content.
pub const HEADER: usize = 4;

/// Twice the number of writes of the place; odd during one.
const SEQUENCE: usize = 0;
/// The key and 1; 0 if there is none.
const KEY: usize = 1;
/// The number of writes after which the mirror ends. Readers do not look at it.
const LEFT: usize = 2;

/// Places begin at multiples of a cache line.
const LINE_WORDS: usize = 8;
const WORD_BYTES: usize = 8;

/// How often a reader tries before it gives up: a write takes as long as a read.
const ATTEMPTS: u32 = 4;

/// Words of a place whose value has `bytes` bytes.
///
/// # Panics
/// If that is more than `usize` can count.
#[must_use]
pub const fn words(bytes: usize) -> usize {
    match bytes.div_ceil(WORD_BYTES).checked_add(HEADER) {
        Some(words) => match words.checked_next_multiple_of(LINE_WORDS) {
            Some(words) => words,
            None => panic!("a mirror of more words than can be counted"),
        },
        None => panic!("a mirror of more words than can be counted"),
    }
}

/// What a write of a mirrored value has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// The mirror has the new value.
    Mirrored,
    /// There is no mirror of the key: another key has taken its place, or no write is left of those that it
    /// was lent.
    Ended,
}

/// Mirrors `value` as that of `key`, for the next `lent` writes. A value of another key that was there is no
/// longer mirrored.
///
/// One thread at a time may write a place.
///
/// # Panics
/// If the place is not within the segment.
#[inline]
pub fn publish(segment: &Segment, at: usize, key: u64, lent: u64, value: &[u8]) {
    write(segment, at, |segment| {
        segment.store(at + KEY, key.wrapping_add(1), Ordering::Relaxed);
        segment.store(at + LEFT, lent, Ordering::Relaxed);
        write_value(segment, at, value);
    });
}

/// The value of `key` is `value` from now on. If `key` is mirrored, the mirror follows, or ends.
///
/// # Panics
/// If the place is not within the segment.
#[inline]
pub fn rewrite(segment: &Segment, at: usize, key: u64, value: &[u8]) -> Rewritten {
    if !is_of(segment, at, key) {
        return Rewritten::Ended;
    }
    // Relaxed: only this thread, or one that has synchronised with it, writes the place.
    let left = segment.load(at + LEFT, Ordering::Relaxed);
    if left == 0 {
        end(segment, at);
        return Rewritten::Ended;
    }
    write(segment, at, |segment| {
        segment.store(at + LEFT, left - 1, Ordering::Relaxed);
        write_value(segment, at, value);
    });
    Rewritten::Mirrored
}

/// Lends a mirror `lent` writes from now on. Returns whether `key` is mirrored.
///
/// # Panics
/// If the place is not within the segment.
#[inline]
pub fn renew(segment: &Segment, at: usize, key: u64, lent: u64) -> bool {
    let mirrored = is_of(segment, at, key);
    if mirrored {
        segment.store(at + LEFT, lent, Ordering::Relaxed);
    }
    mirrored
}

/// Ends the mirror of `key`, if it is mirrored.
///
/// # Panics
/// If the place is not within the segment.
#[inline]
pub fn withdraw(segment: &Segment, at: usize, key: u64) {
    if is_of(segment, at, key) {
        end(segment, at);
    }
}

/// Reads the value of `key` if it is mirrored. Returns whether it was read; if not, the contents of `value`
/// have no meaning.
///
/// # Panics
/// If the place is not within the segment.
#[inline]
pub fn read(view: &View, at: usize, key: u64, value: &mut [u8]) -> bool {
    // One check of bounds for all accesses.
    let (header, words) = view.place::<HEADER>(at, value.len().div_ceil(WORD_BYTES));
    let mark = key.wrapping_add(1);
    let mut attempts = 0;
    loop {
        // Relaxed, all loads: see `View::load`.
        let sequence = header[SEQUENCE].load(Ordering::Relaxed);
        // Acquire: pairs with the last Release store of `write`.
        fence(Ordering::Acquire);
        if sequence.is_multiple_of(2) {
            if header[KEY].load(Ordering::Relaxed) != mark {
                return false;
            }
            View::copy(words, value);
            // Acquire: pairs with the Release fence in `write`. If one of the loads above saw a store of a
            // later write, the load below sees its odd sequence or a later one.
            fence(Ordering::Acquire);
            if header[SEQUENCE].load(Ordering::Relaxed) == sequence {
                return true;
            }
        }
        attempts += 1;
        // A writer that loses its core, or terminates, leaves an odd sequence.
        if attempts == ATTEMPTS {
            return false;
        }
        std::hint::spin_loop();
    }
}

/// Whether the place has the value of `key`; for its writer.
#[inline]
fn is_of(segment: &Segment, at: usize, key: u64) -> bool {
    // Relaxed: as in `rewrite`.
    segment.load(at + KEY, Ordering::Relaxed) == key.wrapping_add(1)
}

fn end(segment: &Segment, at: usize) {
    write(segment, at, |segment| segment.store(at + KEY, 0, Ordering::Relaxed));
}

/// Lets `act` write the place.
#[inline(always)]
fn write(segment: &Segment, at: usize, act: impl FnOnce(&Segment)) {
    // Relaxed: as in `rewrite`.
    let sequence = segment.load(at + SEQUENCE, Ordering::Relaxed);
    segment.store(at + SEQUENCE, sequence.wrapping_add(1), Ordering::Relaxed);
    // Release: pairs with the Acquire fence in `read`. A reader that sees one of the stores of `act` sees the
    // odd sequence, or a later one, when it looks again.
    fence(Ordering::Release);
    act(segment);
    // Release: pairs with the Acquire load in `read`. A reader that sees this sequence sees the stores above.
    segment.store(at + SEQUENCE, sequence.wrapping_add(2), Ordering::Release);
}

/// A value need not be a whole number of words: the rest of its last word has no meaning.
#[inline(always)]
fn write_value(segment: &Segment, at: usize, value: &[u8]) {
    let (words, rest) = value.split_at(value.len() / WORD_BYTES * WORD_BYTES);
    segment.write_bytes(at + HEADER, words);
    if !rest.is_empty() {
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let at = at + HEADER + words.len() / WORD_BYTES;
        segment.store(at, u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}
