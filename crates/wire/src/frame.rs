//! What all frames are made of: the header, runs of keys and numbers, and what can be wrong with them. All numbers are
//! little-endian.
//!
//! Every frame starts with the same 16 bytes: kind, access kind, hops, a zero byte, node (u16), worker (u16), operation
//! (u32), count (u32). Kinds that have no such thing put something else there, or zero. Then follow, depending on the kind,
//! fixed fields, runs of `count` keys (u64) or numbers (u32), and the elements up to the end of the frame.

use crate::message::{OpId, Origin};
use bytes::{Buf, BufMut, Bytes};
use intendant_core::{Key, NodeId, WorkerId, limits};

/// Bytes with which every frame starts.
pub const HEADER_BYTES: usize = 16;
pub(crate) const KEY_BYTES: usize = 8;
pub(crate) const NUMBER_BYTES: usize = 4;
pub(crate) const CURSOR_BYTES: usize = 12;

pub(crate) const REQUEST: u8 = 1;
pub(crate) const RESPONSE: u8 = 2;
pub(crate) const SNAPSHOT_REQUEST: u8 = 3;
pub(crate) const SNAPSHOT_PART: u8 = 4;
pub(crate) const LOCALIZE: u8 = 5;
pub(crate) const RELOCATE: u8 = 6;
pub(crate) const HAND_OVER: u8 = 7;
pub(crate) const MOVED: u8 = 8;
pub(crate) const REPLICA_REQUEST: u8 = 9;
pub(crate) const REPLICA_UPDATE: u8 = 10;
pub(crate) const CLOCK: u8 = 11;
pub(crate) const REDUCE: u8 = 12;
pub(crate) const INTENT_REPORT: u8 = 13;

/// A frame that is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The frame ends before the message does.
    #[error("frame of {bytes} bytes ends early: the message needs at least {needed}")]
    Truncated {
        /// Length of the frame.
        bytes: usize,
        /// Length that its own counts ask for.
        needed: usize,
    },
    /// The frame goes on after the message.
    #[error("frame has {extra} bytes after the end of its message")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
    /// A longer frame than any node sends.
    #[error("frame of {bytes} bytes is longer than the limit of {max}", max = limits::FRAME_BYTES_MAX)]
    TooLong {
        /// Length of the frame.
        bytes: usize,
    },
    /// More keys than any node sends at once.
    #[error("frame announces {keys} keys; the limit is {max}", max = limits::FRAME_KEYS_MAX)]
    TooManyKeys {
        /// How many.
        keys: usize,
    },
    /// More holders of replicas than any node hands over at once.
    #[error("frame announces {rows} holders of replicas; the limit is {max}", max = limits::FRAME_KEYS_MAX)]
    TooManyHolders {
        /// How many.
        rows: usize,
    },
    /// An index of a key that the frame does not have.
    #[error("row {row} of the holders is of key {at}, but the frame has {keys} keys")]
    NoSuchKey {
        /// Which row of the holders.
        row: usize,
        /// The index in it.
        at: u32,
        /// Keys of the frame.
        keys: usize,
    },
    /// Entries that must ascend do not.
    #[error("{field} must ascend, but number {at} is not greater than the one before")]
    Unordered {
        /// What they are.
        field: &'static str,
        /// Which entry, from 0.
        at: usize,
    },
    /// A tag that this version does not know.
    #[error("{field} {value} is not known")]
    UnknownTag {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u8,
    },
}

pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) access: u8,
    pub(crate) hops: u8,
    pub(crate) node: u16,
    pub(crate) worker: u16,
    pub(crate) op: u32,
    pub(crate) count: usize,
}

impl Header {
    /// Of a message without an operation.
    pub(crate) fn of_keys(kind: u8, node: u16, count: usize) -> Self {
        Self { kind, access: 0, hops: 0, node, worker: 0, op: 0, count }
    }

    /// Of a message that is neither to be forwarded nor of a node.
    pub(crate) fn tagged(kind: u8, access: u8, hops: u8, op: u32, count: usize) -> Self {
        Self { kind, access, hops, node: 0, worker: 0, op, count }
    }

    /// Of a message without an operation; only `node` may be used.
    pub(crate) fn only_keys(&self) -> Result<(), WireError> {
        self.unused("access kind of a relocation message", self.access)?;
        self.unused("hops of a relocation message", self.hops)?;
        self.unused("worker of a relocation message", self.worker.min(255) as u8)?;
        self.unused("operation of a relocation message", self.op.min(255) as u8)
    }

    /// As [`Header::only_keys`], and no node either.
    pub(crate) fn no_node(&self) -> Result<(), WireError> {
        self.only_keys()?;
        self.unused("node of a relocation message", self.node.min(255) as u8)
    }

    pub(crate) fn write(&self, frame: &mut Vec<u8>) {
        frame.put_u8(self.kind);
        frame.put_u8(self.access);
        frame.put_u8(self.hops);
        frame.put_u8(0);
        frame.put_u16_le(self.node);
        frame.put_u16_le(self.worker);
        frame.put_u32_le(self.op);
        frame.put_u32_le(self.count as u32);
    }

    pub(crate) fn read(frame: &mut Bytes) -> Result<Self, WireError> {
        if frame.len() < HEADER_BYTES {
            return Err(WireError::Truncated { bytes: frame.len(), needed: HEADER_BYTES });
        }
        let (kind, access, hops, zero) = (frame.get_u8(), frame.get_u8(), frame.get_u8(), frame.get_u8());
        if zero != 0 {
            return Err(WireError::UnknownTag { field: "reserved byte", value: zero });
        }
        let (node, worker, op) = (frame.get_u16_le(), frame.get_u16_le(), frame.get_u32_le());
        let count = frame.get_u32_le() as usize;
        if count > limits::FRAME_KEYS_MAX {
            return Err(WireError::TooManyKeys { keys: count });
        }
        Ok(Self { kind, access, hops, node, worker, op, count })
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin { node: NodeId(self.node), worker: WorkerId(self.worker), op: OpId(self.op) }
    }

    /// As [`Header::unused`] for wider fields, several at once.
    pub(crate) fn all_unused<const N: usize>(
        &self,
        field: &'static str,
        values: [u32; N],
    ) -> Result<(), WireError> {
        values.into_iter().try_for_each(|value| self.unused(field, value.min(255) as u8))
    }

    /// A kind that uses a field less must not carry anything in it, so that every message has one frame only.
    pub(crate) fn unused(&self, field: &'static str, value: u8) -> Result<(), WireError> {
        if value == 0 { Ok(()) } else { Err(WireError::UnknownTag { field, value }) }
    }
}

pub(crate) fn need(frame: &Bytes, total: usize, bytes: usize) -> Result<(), WireError> {
    if frame.len() < bytes {
        return Err(WireError::Truncated { bytes: total, needed: total - frame.len() + bytes });
    }
    Ok(())
}

/// `count` items of `N` bytes, in one go, which compiles to a copy: taken one by one, each would cost what all the rest of a key
/// does here.
fn run<const N: usize, T>(
    frame: &mut Bytes,
    total: usize,
    count: usize,
    item: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, WireError> {
    need(frame, total, count * N)?;
    let (raw, _) = frame[..count * N].as_chunks();
    let items = raw.iter().map(|raw| item(*raw)).collect();
    frame.advance(count * N);
    Ok(items)
}

fn put_run<const N: usize, T>(frame: &mut Vec<u8>, items: &[T], raw: impl Fn(&T) -> [u8; N]) {
    let start = frame.len();
    frame.resize(start + items.len() * N, 0);
    let (places, _) = frame[start..].as_chunks_mut();
    places.iter_mut().zip(items).for_each(|(place, item)| *place = raw(item));
}

pub(crate) fn keys(frame: &mut Bytes, total: usize, count: usize) -> Result<Vec<Key>, WireError> {
    run(frame, total, count, |raw| Key(u64::from_le_bytes(raw)))
}

/// `count` positions, counters or whatever else is a `u32` per key.
pub(crate) fn numbers(frame: &mut Bytes, total: usize, count: usize) -> Result<Vec<u32>, WireError> {
    run(frame, total, count, u32::from_le_bytes)
}

/// Writes all keys.
pub(crate) fn put_keys(frame: &mut Vec<u8>, keys: &[Key]) {
    put_run(frame, keys, |key| key.0.to_le_bytes());
}

/// Writes all numbers.
pub(crate) fn put_numbers(frame: &mut Vec<u8>, numbers: &[u32]) {
    put_run(frame, numbers, |number| number.to_le_bytes());
}

/// The frame of keys and numbers of several kinds for each of them, with room for `room` more bytes.
pub(crate) fn keyed(header: &Header, keys: &[Key], lists: &[&[u32]], room: usize) -> Vec<u8> {
    let numbers: usize = lists.iter().map(|list| list.len()).sum();
    intendant_core::strict_assert!(
        lists.iter().all(|list| list.is_empty() || list.len() == keys.len()),
        "a number per key"
    );
    let bytes = HEADER_BYTES + keys.len() * KEY_BYTES + numbers * NUMBER_BYTES + room;
    let mut frame = Vec::with_capacity(bytes);
    header.write(&mut frame);
    put_keys(&mut frame, keys);
    lists.iter().for_each(|list| put_numbers(&mut frame, list));
    frame
}

/// `count` keys, then a number for each. Both are checked against the frame before memory is taken.
pub(crate) fn counted_keys(
    frame: &mut Bytes,
    total: usize,
    count: usize,
) -> Result<(Vec<Key>, Vec<u32>), WireError> {
    need(frame, total, count * (KEY_BYTES + NUMBER_BYTES))?;
    Ok((keys(frame, total, count)?, numbers(frame, total, count)?))
}

pub(crate) fn end(frame: &Bytes) -> Result<(), WireError> {
    if frame.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes { extra: frame.len() }) }
}
