//! A ring of bytes in memory that two processes share: one writes a stream, the other one reads it.
//!
//! Positions count the bytes of the stream from its start. Each side keeps its own position to itself and
//! publishes a copy. It accepts the other side's position only if the ring can hold the difference. So
//! whatever a peer writes into the memory, this side stays within the ring, and reads bytes that the caller
//! checks as it checks those of a socket.
//!
//! A side that has nothing to do announces that it sleeps, looks once more, and waits for a doorbell. The
//! other side moves its position and then rings only if it finds the announcement. Each side has a
//! sequentially consistent fence between its two steps, so at least one side sees what the other wrote.
//!
//! ```text
//! word 0   written: position of the writer          8   read: position of the reader
//!     16   the reader sleeps                       24   the writer sleeps
//!     32   the bytes, 8 per word, in the order of the machine
//! ```

use crate::sync::{Ordering, Segment, fence};
use bytes::BytesMut;
use std::fmt;
use std::io::{self, IoSlice};

const WORD: usize = 8;
/// Each of these words is in a cache line of its own, because different sides write them.
const WRITTEN: usize = 0;
const READ: usize = 8;
const READER_ASLEEP: usize = 16;
const WRITER_ASLEEP: usize = 24;
const DATA: usize = 32;

/// Bytes that are copied out of the ring at a time, on their way to a buffer: a part of the first-level
/// cache.
const BLOCK_BYTES: usize = 1 << 10;

/// Words of a ring of `capacity` bytes, a multiple of 8.
pub(crate) const fn words(capacity: usize) -> usize {
    DATA + capacity / WORD
}

/// The peer has published a position that no correct peer publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt {
    /// The position that the peer has published.
    position: u64,
    /// The position must be from `least` to `most`.
    least: u64,
    most: u64,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, least, most } = self;
        write!(f, "the peer says that it is at byte {position} of a ring, which must be in {least} to {most}")
    }
}

impl From<Corrupt> for io::Error {
    fn from(corrupt: Corrupt) -> Self {
        Self::new(io::ErrorKind::InvalidData, corrupt.to_string())
    }
}

/// Where a ring is.
#[derive(Clone, Debug)]
struct Place {
    segment: Segment,
    at: usize,
    capacity: usize,
}

impl Place {
    fn new(segment: Segment, at: usize, capacity: usize) -> Self {
        assert!(capacity > WORD && capacity.is_multiple_of(WORD), "a ring of {capacity} bytes");
        assert!(segment.words() >= at + words(capacity), "a ring of {capacity} bytes at word {at}");
        Self { segment, at, capacity }
    }

    /// The most bytes that the ring holds: one word less than its memory. So a word that the writer fills in
    /// several steps never holds bytes of the previous round that are still unread.
    fn usable(&self) -> u64 {
        (self.capacity - WORD) as u64
    }

    /// The offset in the ring of the byte at this position of the stream.
    fn byte(&self, position: u64) -> usize {
        (position % self.capacity as u64) as usize
    }

    fn sleeps(&self, flag: usize) -> bool {
        // Relaxed: the word protects nothing. Most of the time neither side sleeps, and a load leaves the
        // cache line shared.
        self.segment.load(self.at + flag, Ordering::Relaxed) != 0
            && self.segment.swap(self.at + flag, 0, Ordering::Relaxed) != 0
    }
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    place: Place,
    written: u64,
    /// The reader's position when this side last looked.
    read: u64,
    /// The word at `written`, if it is partly filled.
    begun: [u8; WORD],
}

impl Writer {
    /// The writer of a ring whose memory is zero.
    pub(crate) fn new(segment: Segment, at: usize, capacity: usize) -> Self {
        Self { place: Place::new(segment, at, capacity), written: 0, read: 0, begun: [0; WORD] }
    }

    /// Loads the reader's position.
    fn look(&mut self) -> Result<(), Corrupt> {
        // Acquire: pairs with the Release in `Reader::read`, so that bytes are overwritten only after they
        // were read.
        let position = self.place.segment.load(self.place.at + READ, Ordering::Acquire);
        if !(self.read..=self.written).contains(&position) {
            return Err(Corrupt { position, least: self.read, most: self.written });
        }
        self.read = position;
        Ok(())
    }

    fn used(&self) -> u64 {
        self.written - self.read
    }

    /// Writes as much of the slices, one after the other, as there is room for. Returns the number of bytes.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Corrupt> {
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.place.usable() - self.used() < wanted as u64 {
            self.look()?;
        }
        let all = wanted.min((self.place.usable() - self.used()) as usize);
        let mut left = all;
        for slice in slices {
            let bytes = slice.len().min(left);
            self.append(&slice[..bytes]);
            left -= bytes;
        }
        if all > 0 {
            // Release: pairs with the Acquire in `Reader::available`.
            self.place.segment.store(self.place.at + WRITTEN, self.written, Ordering::Release);
        }
        Ok(all)
    }

    /// Appends bytes for which there is room.
    fn append(&mut self, mut bytes: &[u8]) {
        let begun = self.place.byte(self.written) % WORD;
        if begun > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(WORD - begun));
            self.begun[begun..begun + head.len()].copy_from_slice(head);
            self.store_begun();
            self.written += head.len() as u64;
            bytes = rest;
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % WORD);
        let (start, data) = (self.place.byte(self.written), self.place.at + DATA);
        // `first` is empty only if `whole` is: there is always room before the end of the memory.
        let (first, second) = whole.split_at(whole.len().min(self.place.capacity - start));
        if !first.is_empty() {
            self.place.segment.write_bytes(data + start / WORD, first);
        }
        if !second.is_empty() {
            self.place.segment.write_bytes(data, second);
        }
        self.written += whole.len() as u64;
        if !rest.is_empty() {
            self.begun = [0; WORD];
            self.begun[..rest.len()].copy_from_slice(rest);
            self.store_begun();
            self.written += rest.len() as u64;
        }
    }

    /// Stores the word at `written`. The reader may read it meanwhile: the bytes that it may use do not
    /// change.
    fn store_begun(&self) {
        let at = self.place.at + DATA + self.place.byte(self.written) / WORD;
        self.place.segment.store(at, u64::from_ne_bytes(self.begun), Ordering::Relaxed);
    }

    /// After a write: whether the reader sleeps and must be woken. It is true once per sleep.
    #[must_use = "a reader that sleeps does not see what was written"]
    pub(crate) fn must_wake(&self) -> bool {
        // SeqCst: pairs with the fence in `Reader::fall_asleep`. Either the reader sees what was written, or
        // this side sees that the reader falls asleep.
        fence(Ordering::SeqCst);
        self.place.sleeps(READER_ASLEEP)
    }

    /// Whether a writer that found no room should go on: half of the ring is free, so that the two sides do
    /// not wake each other for every few bytes.
    pub(crate) fn has_room(&mut self) -> Result<bool, Corrupt> {
        self.look()?;
        Ok(self.used() <= self.place.usable() / 2)
    }

    /// Announces that the writer sleeps until there is room. Returns whether it may.
    #[must_use = "no reader wakes a writer for room that is there"]
    pub(crate) fn fall_asleep(&mut self) -> Result<bool, Corrupt> {
        self.place.segment.store(self.place.at + WRITER_ASLEEP, 1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `Reader::must_wake`.
        fence(Ordering::SeqCst);
        Ok(!self.has_room()?)
    }

    /// Takes back what [`Self::fall_asleep`] has announced.
    pub(crate) fn awake(&self) {
        self.place.segment.store(self.place.at + WRITER_ASLEEP, 0, Ordering::Relaxed);
    }
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    place: Place,
    read: u64,
    /// The writer's position when this side last looked.
    written: u64,
}

impl Reader {
    /// The reader of a ring whose memory was zero when it was made.
    pub(crate) fn new(segment: Segment, at: usize, capacity: usize) -> Self {
        Self { place: Place::new(segment, at, capacity), read: 0, written: 0 }
    }

    /// The number of bytes that can be read. Loads the writer's position if it knows of none.
    pub(crate) fn available(&mut self) -> Result<usize, Corrupt> {
        if self.written == self.read {
            // Acquire: pairs with the Release in `Writer::write`, so that the bytes are there.
            let position = self.place.segment.load(self.place.at + WRITTEN, Ordering::Acquire);
            let most = self.read + self.place.usable();
            if !(self.read..=most).contains(&position) {
                return Err(Corrupt { position, least: self.read, most });
            }
            self.written = position;
        }
        Ok((self.written - self.read) as usize)
    }

    /// Appends at most `most` bytes to `into`, and returns the number of bytes appended.
    pub(crate) fn read(&mut self, into: &mut BytesMut, most: usize) -> Result<usize, Corrupt> {
        let all = self.available()?.min(most);
        let mut block = [0; BLOCK_BYTES];
        let mut left = all;
        while left > 0 {
            // From the word that holds the first byte to the one that holds the last, within the memory.
            let (byte, begun) = (self.place.byte(self.read), self.read as usize % WORD);
            let start = byte - begun;
            let end = (begun + left).min(BLOCK_BYTES).min(self.place.capacity - start);
            let words = end.next_multiple_of(WORD);
            self.place.segment.read_bytes(self.place.at + DATA + start / WORD, &mut block[..words]);
            into.extend_from_slice(&block[begun..end]);
            self.read += (end - begun) as u64;
            left -= end - begun;
        }
        if all > 0 {
            // Release: pairs with the Acquire in `Writer::look`.
            self.place.segment.store(self.place.at + READ, self.read, Ordering::Release);
        }
        Ok(all)
    }

    /// After a read: whether the writer sleeps and must be woken, because half of the ring is free.
    #[must_use = "a writer that sleeps does not see that there is room"]
    pub(crate) fn must_wake(&self) -> bool {
        // SeqCst: pairs with the fence in `Writer::fall_asleep`.
        fence(Ordering::SeqCst);
        // A writer that sleeps writes nothing. So once this side has read everything that it knew of, the
        // writer's position that it knows is the current one.
        self.written - self.read <= self.place.usable() / 2 && self.place.sleeps(WRITER_ASLEEP)
    }

    /// Announces that the reader sleeps until something is written. Returns whether it may.
    #[must_use = "no writer wakes a reader for what is there already"]
    pub(crate) fn fall_asleep(&mut self) -> Result<bool, Corrupt> {
        self.place.segment.store(self.place.at + READER_ASLEEP, 1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `Writer::must_wake`.
        fence(Ordering::SeqCst);
        Ok(self.available()? == 0)
    }

    /// Takes back what [`Self::fall_asleep`] has announced.
    pub(crate) fn awake(&self) {
        self.place.segment.store(self.place.at + READER_ASLEEP, 0, Ordering::Relaxed);
    }
}
