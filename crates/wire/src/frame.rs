//! The parts of all frames: the header, and runs of keys and numbers. All numbers are little-endian.
//!
//! Every frame starts with the same 16 bytes: class, tag, flags, packing, node (u16), worker (u16), argument
//! (u32), count (u32). Each class documents, next to its layout, what it puts into these fields; the fields
//! that it does not use are zero. The header is followed, depending on the class, by fixed fields, runs of
//! keys (u64) or numbers (u32), and the elements up to the end of the frame.

use crate::{HeaderField, MessageClass, OpId, Origin, WireError};
use bytes::{Buf, BufMut, Bytes};
use intendant_core::{Key, NodeId, WorkerId, limits};

/// Bytes with which every frame starts.
pub const HEADER_BYTES: usize = 16;
pub(crate) const KEY_BYTES: usize = 8;
pub(crate) const NUMBER_BYTES: usize = 4;

/// A message that a frame can carry.
pub(crate) trait Payload {
    /// The class of the message.
    fn class(&self) -> MessageClass;

    /// The frame up to the values, with room for `room` more bytes.
    fn head(&self, room: usize) -> Vec<u8>;

    /// Reads what follows the header of a frame of this class.
    fn read(header: &Header, body: Body) -> Result<Self, WireError>
    where
        Self: Sized;

    /// The keys that the message names, in the order of its frame.
    fn keys(&self) -> [&[Key]; 2] {
        [&[], &[]]
    }

    /// The number of keys that the message is about, even if it names them by position or index.
    fn key_count(&self) -> usize {
        self.keys().iter().map(|keys| keys.len()).sum()
    }

    /// The elements with which the frame ends.
    fn values(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        &NONE
    }
}

/// The first 16 bytes of a frame.
pub(crate) struct Header {
    pub(crate) class: MessageClass,
    pub(crate) tag: u8,
    pub(crate) flags: u8,
    pub(crate) node: u16,
    pub(crate) worker: u16,
    pub(crate) argument: u32,
    pub(crate) count: usize,
}

impl Header {
    /// A header whose fields are zero, except for the number of keys, positions or indices that follow.
    pub(crate) fn new(class: MessageClass, count: usize) -> Self {
        Self { class, tag: 0, flags: 0, node: 0, worker: 0, argument: 0, count }
    }

    /// Starts a frame that is going to have `bytes` bytes after its header.
    pub(crate) fn frame(&self, bytes: usize) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + bytes);
        frame.put_u8(self.class as u8);
        frame.put_u8(self.tag);
        frame.put_u8(self.flags);
        frame.put_u8(0);
        frame.put_u16_le(self.node);
        frame.put_u16_le(self.worker);
        frame.put_u32_le(self.argument);
        frame.put_u32_le(self.count as u32);
        frame
    }

    /// A frame of `keys` and, in each list that is not empty, a number per key; with room for `room` more
    /// bytes.
    pub(crate) fn frame_of_keys(&self, keys: &[Key], lists: &[&[u32]], room: usize) -> Vec<u8> {
        intendant_core::strict_assert!(
            lists.iter().all(|list| list.is_empty() || list.len() == keys.len()),
            "a number per key"
        );
        let numbers: usize = lists.iter().map(|list| list.len()).sum();
        let mut frame = self.frame(keys.len() * KEY_BYTES + numbers * NUMBER_BYTES + room);
        put_keys(&mut frame, keys);
        lists.iter().for_each(|list| put_numbers(&mut frame, list));
        frame
    }

    /// Splits a frame, which is `frame` followed by `rest`, into its header and its body.
    pub(crate) fn read(mut frame: Bytes, rest: Bytes) -> Result<(Self, Body), WireError> {
        let bytes = frame.len() + rest.len();
        if bytes > limits::FRAME_BYTES_MAX {
            return Err(WireError::TooLong { bytes });
        }
        if frame.len() < HEADER_BYTES {
            return Err(WireError::Truncated { bytes: frame.len(), needed: HEADER_BYTES });
        }
        let value = frame.get_u8();
        let unknown = WireError::UnknownTag { field: "message class", value };
        let class = MessageClass::from_number(value).ok_or(unknown)?;
        let (tag, flags, packing) = (frame.get_u8(), frame.get_u8(), frame.get_u8());
        if packing != 0 {
            return Err(WireError::Packed { value: packing });
        }
        let (node, worker, argument) = (frame.get_u16_le(), frame.get_u16_le(), frame.get_u32_le());
        let count = frame.get_u32_le() as usize;
        if count > limits::FRAME_KEYS_MAX {
            return Err(WireError::TooManyKeys { keys: count });
        }
        Ok((Self { class, tag, flags, node, worker, argument, count }, Body { frame, rest }))
    }

    /// The operation of a worker that a request or its answer names.
    pub(crate) fn origin(&self) -> Origin {
        Origin { node: NodeId(self.node), worker: WorkerId(self.worker), op: OpId(self.argument) }
    }

    /// Checks that the fields that this class does not use are zero, so that every message has exactly one
    /// frame.
    pub(crate) fn unused<const N: usize>(&self, fields: [HeaderField; N]) -> Result<(), WireError> {
        for field in fields {
            let value = match field {
                HeaderField::Tag => self.tag.into(),
                HeaderField::Flags => self.flags.into(),
                HeaderField::Node => self.node.into(),
                HeaderField::Worker => self.worker.into(),
                HeaderField::Argument => self.argument,
                HeaderField::Count => self.count as u32,
            };
            if value != 0 {
                return Err(WireError::UnusedField { class: self.class, field, value });
            }
        }
        Ok(())
    }

    /// The number of relocation counters that the flags announce: one for each of the `count` keys, or none.
    /// `field` names the flags in the error.
    pub(crate) fn counters(&self, field: &'static str) -> Result<usize, WireError> {
        match (self.flags, self.count) {
            (0, _) => Ok(0),
            (1, 0) => Err(WireError::CountersWithoutKeys { class: self.class }),
            (1, count) => Ok(count),
            (value, _) => Err(WireError::UnknownTag { field, value }),
        }
    }
}

/// The unread part of a frame: `frame` followed by `rest`.
pub(crate) struct Body {
    frame: Bytes,
    rest: Bytes,
}

impl Body {
    /// Checks that the frame has `bytes` more bytes, before the caller allocates memory for them. Nothing may
    /// have been read from the body yet.
    pub(crate) fn need(&self, bytes: usize) -> Result<(), WireError> {
        let there = self.frame.len() + self.rest.len();
        if there < bytes {
            return Err(WireError::Truncated { bytes: HEADER_BYTES + there, needed: HEADER_BYTES + bytes });
        }
        Ok(())
    }

    /// Ensures that the next `bytes` bytes are in `frame`.
    fn reach(&mut self, bytes: usize) {
        if self.frame.len() < bytes {
            self.join();
        }
    }

    #[cold]
    fn join(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.frame = if self.frame.is_empty() { rest } else { [&self.frame[..], &rest].concat().into() };
    }

    /// `count` items of `N` bytes, which the frame must have. One pass over a slice compiles to a copy;
    /// reading them one by one would take as long as all other work on a key in this crate.
    fn run<const N: usize, T>(&mut self, count: usize, item: impl Fn([u8; N]) -> T) -> Vec<T> {
        self.reach(count * N);
        let (raw, _) = self.frame[..count * N].as_chunks();
        let items = raw.iter().map(|raw| item(*raw)).collect();
        self.frame.advance(count * N);
        items
    }

    /// The next `count` keys. The caller has checked that the frame has them; the same holds for the methods
    /// below.
    pub(crate) fn keys(&mut self, count: usize) -> Vec<Key> {
        self.run(count, |raw| Key(u64::from_le_bytes(raw)))
    }

    /// The next `count` positions, counters or other numbers of 32 bits.
    pub(crate) fn numbers(&mut self, count: usize) -> Vec<u32> {
        self.run(count, u32::from_le_bytes)
    }

    /// The next number of 16 bits.
    pub(crate) fn u16(&mut self) -> u16 {
        self.reach(2);
        self.frame.get_u16_le()
    }

    /// The next number of 32 bits.
    pub(crate) fn u32(&mut self) -> u32 {
        self.reach(4);
        self.frame.get_u32_le()
    }

    /// The next number of 64 bits.
    pub(crate) fn u64(&mut self) -> u64 {
        self.reach(8);
        self.frame.get_u64_le()
    }

    /// The elements with which the frame ends. They are not copied.
    pub(crate) fn values(mut self) -> Bytes {
        if !self.rest.is_empty() {
            self.join();
        }
        self.frame
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), WireError> {
        let extra = self.frame.len() + self.rest.len();
        if extra == 0 { Ok(()) } else { Err(WireError::TrailingBytes { extra }) }
    }

    /// The elements with which the frame ends if `valued`; otherwise checks that nothing is left.
    pub(crate) fn values_if(self, valued: bool) -> Result<Bytes, WireError> {
        if valued {
            return Ok(self.values());
        }
        self.end()?;
        Ok(Bytes::new())
    }
}

fn put_run<const N: usize, T>(frame: &mut Vec<u8>, items: &[T], raw: impl Fn(&T) -> [u8; N]) {
    let start = frame.len();
    frame.resize(start + items.len() * N, 0);
    let (places, _) = frame[start..].as_chunks_mut();
    places.iter_mut().zip(items).for_each(|(place, item)| *place = raw(item));
}

/// Appends keys.
pub(crate) fn put_keys(frame: &mut Vec<u8>, keys: &[Key]) {
    put_run(frame, keys, |key| key.0.to_le_bytes());
}

/// Appends numbers.
pub(crate) fn put_numbers(frame: &mut Vec<u8>, numbers: &[u32]) {
    put_run(frame, numbers, |number| number.to_le_bytes());
}

/// Checks that items ascend; `field` names them in the error.
pub(crate) fn check_ascending<T: PartialOrd>(
    field: &'static str,
    items: impl Iterator<Item = T> + Clone,
) -> Result<(), WireError> {
    let next = items.clone().skip(1);
    match items.zip(next).position(|(item, next)| item >= next) {
        Some(at) => Err(WireError::Unordered { field, at: at + 1 }),
        None => Ok(()),
    }
}
