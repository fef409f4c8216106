//! Slots: a slot holds the value of a key with its clock, such that readers detect a value that was written
//! while they read it.
//!
//! A slot begins at a multiple of 8 words with a header of [`HEADER`] words; the value follows
//! [Lapser §3.2.1, with the two differences below]. There are two detectors:
//!
//! | detector | slots | readers |
//! | --- | --- | --- |
//! | the sequence lock ([`set`], [`get`]) | of the process that owns the segment | map the segment |
//! | the checksum ([`encode`], [`decode`]) | that a window copies, in either direction | have an image |
//!
//! The sequence lock is exact. It relies on the order in which a processor makes its stores visible [Boehm
//! 2012, Fig. 6]. An RDMA operation does not order its own accesses, so its target relies on the checksum,
//! which fails to detect a torn image with a probability of 2⁻⁶⁴. [`set`] stores both sequence and checksum.
//!
//! In the source of the design, a slot has clock, checksum and bytes. Here, a slot also has the key, and the
//! checksum covers the key and the *incarnation* (a number of the run that made the segment), so that a
//! reader does not take a slot of another layout or run for a value.

use crate::segment::Segment;
use crate::sync::{Ordering, fence};
use xxhash_rust::xxh3::xxh3_64;

/// Words of a slot before its value: sequence, clock, checksum, key.
pub const HEADER: usize = 4;

/// Twice the number of times that [`set`] has written the slot; odd while it writes. 0 in images that
/// [`encode`] makes.
const SEQUENCE: usize = 0;
/// The clock of the value, from 1.
const CLOCK: usize = 1;
const CHECKSUM: usize = 2;
/// The key, mixed with the incarnation.
const KEY: usize = 3;

/// Slots begin at multiples of a cache line.
const LINE_WORDS: usize = 8;

/// Why a read of a slot returned no value. The contents of the reader's buffer then have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Torn {
    /// The slot was never written.
    #[error("the slot was never written")]
    Unset,
    /// The slot was written while it was read: read it again.
    #[error("the slot was written while it was read")]
    Changed,
    /// The slot belongs to another key or incarnation: reading again does not help.
    #[error("the slot is of another key or of another run")]
    Foreign,
}

/// Why [`set`] has not written the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The clock of a slot's values grows, from 1.
    #[error("clock {clock} follows clock {last} of the same slot: clocks must grow, from 1")]
    Clock {
        /// Clock of the new value.
        clock: u64,
        /// Clock of the value that is there; 0 if there is none.
        last: u64,
    },
    /// The slot has a value of another key or incarnation.
    #[error("the slot is of another key or of another run: the layouts differ, or the segment is not new")]
    Foreign,
    /// The sequence is odd.
    #[error("another thread writes the same slot, or ended while it did: a slot has one writer")]
    Busy,
    /// The words of the slot are not those that its writer has left there ([`set_known`]).
    #[error("another thread, or another node, has written this slot, which has one writer")]
    Overwritten,
}

/// What the writer of a slot knows of it, so that the writer need not trust words that others can write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    sequence: u64,
    clock: u64,
}

impl Written {
    /// The clock of the value that was written last; 0 if there is none.
    #[must_use]
    pub const fn clock(&self) -> u64 {
        self.clock
    }
}

/// Words of a slot whose value has `value_words` words: header and value, rounded up to a multiple of 8.
///
/// # Panics
/// If that is more than `usize` can count.
#[must_use]
pub const fn words(value_words: usize) -> usize {
    match value_words.checked_add(HEADER) {
        Some(words) => match words.checked_next_multiple_of(LINE_WORDS) {
            Some(words) => words,
            None => panic!("a slot of more words than can be counted"),
        },
        None => panic!("a slot of more words than can be counted"),
    }
}

/// The word [`KEY`] of a slot. For each incarnation, keys have different words; the factor (2⁶⁴ divided by
/// the golden ratio) keeps small keys and small incarnations apart.
const fn key_word(incarnation: u64, key: u64) -> u64 {
    key ^ incarnation.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The hash of everything that a reader relies on. Two hashes of plain slices are faster than one hash of
/// several pieces.
fn checksum(incarnation: u64, key: u64, clock: u64, value: &[u64]) -> u64 {
    let value_hash = xxh3_64(bytemuck::cast_slice(value));
    let all = [incarnation, key, clock, value.len() as u64, value_hash];
    xxh3_64(bytemuck::cast_slice(&all))
}

/// Makes the image of a slot, as a window sends it. It fills the first [`words`]`(value.len())` words of
/// `image`.
///
/// # Panics
/// If `image` is shorter, or if `clock` is 0, which no value has.
pub fn encode(incarnation: u64, key: u64, clock: u64, value: &[u64], image: &mut [u64]) {
    assert!(clock > 0, "the clock of a value is at least 1");
    let image = &mut image[..words(value.len())];
    image[SEQUENCE] = 0;
    image[CLOCK] = clock;
    image[CHECKSUM] = checksum(incarnation, key, clock, value);
    image[KEY] = key_word(incarnation, key);
    let (head, rest) = image[HEADER..].split_at_mut(value.len());
    head.copy_from_slice(value);
    rest.fill(0);
}

/// Checks an image of a slot by its checksum. Returns the clock; the value is
/// `image[HEADER..HEADER + value_words]`.
///
/// # Errors
/// If the slot was never written or was written meanwhile, or if it belongs to another key or incarnation.
///
/// # Panics
/// If `image` has fewer than `HEADER + value_words` words.
pub fn decode(incarnation: u64, key: u64, value_words: usize, image: &[u64]) -> Result<u64, Torn> {
    let (header, value) = image[..HEADER + value_words].split_at(HEADER);
    check(incarnation, key, header, value)
}

/// Copies the value of the slot at word `at` and checks it by its checksum, as [`decode`] does. Returns the
/// clock. For a reader that must detect words that [`set`] has not written.
///
/// # Errors
/// As for [`decode`].
///
/// # Panics
/// If the slot is not within the segment.
pub fn read(
    segment: &Segment,
    at: usize,
    incarnation: u64,
    key: u64,
    value: &mut [u64],
) -> Result<u64, Torn> {
    check_within(segment, at, value.len());
    let mut header = [0; HEADER];
    segment.read(at, &mut header);
    segment.read(at + HEADER, value);
    check(incarnation, key, &header, value)
}

/// The clock of the slot at word `at` at the moment, for a check that reads only one word. Only a read of the
/// slot shows whether the clock is valid.
///
/// # Panics
/// If the segment does not have the slot's header.
#[inline]
#[must_use]
pub fn peek_clock(segment: &Segment, at: usize) -> u64 {
    // Relaxed: a read of the slot decides.
    segment.load(at + CLOCK, Ordering::Relaxed)
}

fn check(incarnation: u64, key: u64, header: &[u64], value: &[u64]) -> Result<u64, Torn> {
    let clock = header[CLOCK];
    if clock == 0 && header[CHECKSUM] == 0 && header[KEY] == 0 {
        return Err(Torn::Unset);
    }
    let (wanted, found) = (key_word(incarnation, key), header[KEY]);
    // A slot keeps its key: another key is not the sign of a write, except before the first write is
    // complete.
    if found != wanted && found != 0 {
        return Err(Torn::Foreign);
    }
    if clock == 0 || found != wanted || header[CHECKSUM] != checksum(incarnation, key, clock, value) {
        return Err(Torn::Changed);
    }
    Ok(clock)
}

/// Writes the slot at word `at` of a segment that no other process writes.
///
/// One thread at a time may write a slot. Readers on this machine use [`get`]; [`decode`] checks images of
/// the slot that a window copies.
///
/// # Errors
/// If `clock` does not exceed that of the value that is there, or if the slot belongs to another key or
/// incarnation. The slot then stays unchanged.
///
/// # Panics
/// If the slot is not within the segment.
#[inline]
pub fn set(
    segment: &Segment,
    at: usize,
    incarnation: u64,
    key: u64,
    clock: u64,
    value: &[u64],
) -> Result<(), SetError> {
    check_within(segment, at, value.len());
    // Relaxed, all three: this thread, or one that has synchronised with it, was the last to write them.
    let sequence = segment.load(at + SEQUENCE, Ordering::Relaxed);
    if !sequence.is_multiple_of(2) {
        return Err(SetError::Busy);
    }
    let last = segment.load(at + CLOCK, Ordering::Relaxed);
    if sequence > 0 && segment.load(at + KEY, Ordering::Relaxed) != key_word(incarnation, key) {
        return Err(SetError::Foreign);
    }
    if clock <= last {
        return Err(SetError::Clock { clock, last });
    }
    store(segment, at, sequence, (incarnation, key), clock, value);
    Ok(())
}

/// Writes as [`set`] does, for a writer that remembers what it has written: it does not trust the slot's own
/// words, because other nodes can write them.
///
/// # Errors
/// If `clock` does not exceed that of the last value, or if the header is not the one that the writer has
/// left. The slot then stays unchanged.
///
/// # Panics
/// If the slot is not within the segment.
pub fn set_known(
    segment: &Segment,
    at: usize,
    (incarnation, key): (u64, u64),
    known: &mut Written,
    clock: u64,
    value: &[u64],
) -> Result<(), SetError> {
    check_within(segment, at, value.len());
    let Written { sequence, clock: last } = *known;
    if clock <= last {
        return Err(SetError::Clock { clock, last });
    }
    let key_there = if sequence == 0 { 0 } else { key_word(incarnation, key) };
    // Relaxed: this thread was the last one to write them, or there is an error.
    let there = [SEQUENCE, CLOCK, KEY].map(|word| segment.load(at + word, Ordering::Relaxed));
    if there != [sequence, last, key_there] {
        return Err(SetError::Overwritten);
    }
    store(segment, at, sequence, (incarnation, key), clock, value);
    *known = Written { sequence: sequence.wrapping_add(2), clock };
    Ok(())
}

/// Writes a slot whose sequence is `sequence`.
#[inline(always)]
fn store(
    segment: &Segment,
    at: usize,
    sequence: u64,
    (incarnation, key): (u64, u64),
    clock: u64,
    value: &[u64],
) {
    let checksum = checksum(incarnation, key, clock, value);
    let key_word = key_word(incarnation, key);
    segment.store(at + SEQUENCE, sequence.wrapping_add(1), Ordering::Relaxed);
    // Release: pairs with the Acquire fence in `get`. A reader that sees one of the stores below sees the odd
    // sequence, or a later one, when it looks again.
    fence(Ordering::Release);
    segment.store(at + CLOCK, clock, Ordering::Relaxed);
    segment.store(at + CHECKSUM, checksum, Ordering::Relaxed);
    segment.store(at + KEY, key_word, Ordering::Relaxed);
    segment.write(at + HEADER, value);
    // Release: pairs with the Acquire load in `get`. A reader that sees this sequence sees the stores above.
    segment.store(at + SEQUENCE, sequence.wrapping_add(2), Ordering::Release);
}

/// Reads the slot at word `at` of a segment, which another thread or process writes by [`set`]. Returns the
/// clock. It makes one attempt and does not wait.
///
/// It does not compute the checksum. A slot that was written by a window (an image of [`encode`]) has no
/// sequence, and is [`Torn::Unset`] here: copy it, and use [`decode`].
///
/// # Errors
/// If the slot was never written or was written meanwhile, or if it belongs to another key or incarnation.
///
/// # Panics
/// If the slot is not within the segment.
#[inline]
pub fn get(segment: &Segment, at: usize, incarnation: u64, key: u64, value: &mut [u64]) -> Result<u64, Torn> {
    check_within(segment, at, value.len());
    // Acquire: pairs with the last Release store of `set`.
    let sequence = segment.load(at + SEQUENCE, Ordering::Acquire);
    if sequence == 0 {
        return Err(Torn::Unset);
    }
    if !sequence.is_multiple_of(2) {
        return Err(Torn::Changed);
    }
    let clock = segment.load(at + CLOCK, Ordering::Relaxed);
    let found = segment.load(at + KEY, Ordering::Relaxed);
    segment.read(at + HEADER, value);
    // Acquire: pairs with the Release fence in `set`. If one of the loads above saw a store of a later `set`,
    // the load below sees its odd sequence or a later one.
    fence(Ordering::Acquire);
    if segment.load(at + SEQUENCE, Ordering::Relaxed) != sequence {
        return Err(Torn::Changed);
    }
    if found != key_word(incarnation, key) { Err(Torn::Foreign) } else { Ok(clock) }
}

#[inline(always)]
fn check_within(segment: &Segment, at: usize, value_words: usize) {
    let end = value_words.checked_add(HEADER).and_then(|words| words.checked_add(at));
    assert!(
        end.is_some_and(|end| end <= segment.words()),
        "a slot at word {at} with a value of {value_words} words is not within a segment of {} words",
        segment.words(),
    );
}
