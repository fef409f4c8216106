//! Messages to frames and back. All numbers are little-endian.
//!
//! Every frame starts with the same 16 bytes: kind, access kind, hops, a zero byte, node (u16), worker (u16), operation
//! (u32), count (u32). Then follow, depending on the kind, fixed fields, `count` keys (u64), `count` positions or counters
//! (u32), and the elements up to the end of the frame.

use crate::message::{
    AccessKind, Cursor, HandOver, Localize, Message, Moved, OpId, Origin, Relocate, Request, Response,
    SnapshotPart, SnapshotRequest,
};
use bytes::{Buf, BufMut, Bytes};
use intendant_core::{Key, NodeId, WorkerId, limits};

const HEADER_BYTES: usize = 16;
const KEY_BYTES: usize = 8;
const POSITION_BYTES: usize = 4;
const CURSOR_BYTES: usize = 12;

const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
const SNAPSHOT_REQUEST: u8 = 3;
const SNAPSHOT_PART: u8 = 4;
const LOCALIZE: u8 = 5;
const RELOCATE: u8 = 6;
const HAND_OVER: u8 = 7;
const MOVED: u8 = 8;

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
    /// A tag that this version does not know.
    #[error("{field} {value} is not known")]
    UnknownTag {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u8,
    },
}

impl AccessKind {
    fn from_tag(value: u8) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::Pull),
            1 => Ok(Self::Push),
            2 => Ok(Self::Set),
            value => Err(WireError::UnknownTag { field: "access kind", value }),
        }
    }
}

struct Header {
    kind: u8,
    access: u8,
    hops: u8,
    node: u16,
    worker: u16,
    op: u32,
    count: usize,
}

impl Header {
    /// Of a message without an operation.
    fn of_keys(kind: u8, node: u16, count: usize) -> Self {
        Self { kind, access: 0, hops: 0, node, worker: 0, op: 0, count }
    }

    /// Of a message without an operation; only `node` may be used.
    fn only_keys(&self) -> Result<(), WireError> {
        self.unused("access kind of a relocation message", self.access)?;
        self.unused("hops of a relocation message", self.hops)?;
        self.unused("worker of a relocation message", self.worker.min(255) as u8)?;
        self.unused("operation of a relocation message", self.op.min(255) as u8)
    }

    /// As [`Header::only_keys`], and no node either.
    fn no_node(&self) -> Result<(), WireError> {
        self.only_keys()?;
        self.unused("node of a relocation message", self.node.min(255) as u8)
    }

    fn write(&self, frame: &mut Vec<u8>) {
        frame.put_u8(self.kind);
        frame.put_u8(self.access);
        frame.put_u8(self.hops);
        frame.put_u8(0);
        frame.put_u16_le(self.node);
        frame.put_u16_le(self.worker);
        frame.put_u32_le(self.op);
        frame.put_u32_le(self.count as u32);
    }

    fn read(frame: &mut Bytes) -> Result<Self, WireError> {
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

    fn origin(&self) -> Origin {
        Origin { node: NodeId(self.node), worker: WorkerId(self.worker), op: OpId(self.op) }
    }

    /// A kind that uses a field less must not carry anything in it, so that every message has one frame only.
    fn unused(&self, field: &'static str, value: u8) -> Result<(), WireError> {
        if value == 0 { Ok(()) } else { Err(WireError::UnknownTag { field, value }) }
    }
}

fn need(frame: &Bytes, total: usize, bytes: usize) -> Result<(), WireError> {
    if frame.len() < bytes {
        return Err(WireError::Truncated { bytes: total, needed: total - frame.len() + bytes });
    }
    Ok(())
}

fn keys(frame: &mut Bytes, total: usize, count: usize) -> Result<Vec<Key>, WireError> {
    need(frame, total, count * KEY_BYTES)?;
    Ok((0..count).map(|_| Key(frame.get_u64_le())).collect())
}

/// `count` positions or counters.
fn numbers(frame: &mut Bytes, total: usize, count: usize) -> Result<Vec<u32>, WireError> {
    need(frame, total, count * POSITION_BYTES)?;
    Ok((0..count).map(|_| frame.get_u32_le()).collect())
}

/// `count` keys, then a counter for each. Both are checked against the frame before memory is taken.
fn counted_keys(frame: &mut Bytes, total: usize, count: usize) -> Result<(Vec<Key>, Vec<u32>), WireError> {
    need(frame, total, count * (KEY_BYTES + POSITION_BYTES))?;
    Ok((keys(frame, total, count)?, numbers(frame, total, count)?))
}

/// The frame of a message without an operation.
fn relocation(header: Header, keys: &[Key], counters: &[u32], values: &[u8]) -> Vec<u8> {
    intendant_core::strict_assert!(counters.is_empty() || counters.len() == keys.len(), "a counter per key");
    let bytes = HEADER_BYTES + keys.len() * KEY_BYTES + counters.len() * POSITION_BYTES + values.len();
    let mut frame = Vec::with_capacity(bytes);
    header.write(&mut frame);
    keys.iter().for_each(|key| frame.put_u64_le(key.0));
    counters.iter().for_each(|counter| frame.put_u32_le(*counter));
    frame.extend_from_slice(values);
    frame
}

fn end(frame: &Bytes) -> Result<(), WireError> {
    if frame.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes { extra: frame.len() }) }
}

impl Message {
    /// The frame of this message, without length prefix.
    ///
    /// # Panics
    /// In debug builds, if the message exceeds the limits of a frame or its keys and positions differ in number: senders
    /// split what is too long.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut frame;
        match self {
            Self::Request(Request { origin, kind, hops, keys, positions, values }) => {
                intendant_core::strict_assert!(keys.len() == positions.len(), "a position per key");
                let bytes = HEADER_BYTES + keys.len() * (KEY_BYTES + POSITION_BYTES) + values.len();
                frame = Vec::with_capacity(bytes);
                Header {
                    kind: REQUEST,
                    access: *kind as u8,
                    hops: *hops,
                    node: origin.node.0,
                    worker: origin.worker.0,
                    op: origin.op.0,
                    count: keys.len(),
                }
                .write(&mut frame);
                keys.iter().for_each(|key| frame.put_u64_le(key.0));
                positions.iter().for_each(|position| frame.put_u32_le(*position));
                frame.extend_from_slice(values);
            }
            Self::Response(Response { worker, op, kind, positions, counters, values }) => {
                intendant_core::strict_assert!(
                    counters.is_empty() || counters.len() == positions.len(),
                    "a counter per position"
                );
                let numbers = positions.len() + counters.len();
                frame = Vec::with_capacity(HEADER_BYTES + numbers * POSITION_BYTES + values.len());
                Header {
                    kind: RESPONSE,
                    access: *kind as u8,
                    hops: u8::from(!counters.is_empty()),
                    node: 0,
                    worker: worker.0,
                    op: op.0,
                    count: positions.len(),
                }
                .write(&mut frame);
                positions.iter().chain(counters).for_each(|number| frame.put_u32_le(*number));
                frame.extend_from_slice(values);
            }
            Self::SnapshotRequest(SnapshotRequest { origin, start, end, cursor, bytes_max }) => {
                frame = Vec::with_capacity(HEADER_BYTES + 2 * KEY_BYTES + CURSOR_BYTES + 4);
                Header {
                    kind: SNAPSHOT_REQUEST,
                    access: 0,
                    hops: 0,
                    node: origin.node.0,
                    worker: origin.worker.0,
                    op: origin.op.0,
                    count: 0,
                }
                .write(&mut frame);
                frame.put_u64_le(start.0);
                frame.put_u64_le(end.0);
                frame.put_u32_le(cursor.shard);
                frame.put_u64_le(cursor.position);
                frame.put_u32_le(*bytes_max);
            }
            Self::SnapshotPart(SnapshotPart { worker, op, next, keys, values }) => {
                frame =
                    Vec::with_capacity(HEADER_BYTES + CURSOR_BYTES + keys.len() * KEY_BYTES + values.len());
                Header {
                    kind: SNAPSHOT_PART,
                    access: u8::from(next.is_some()),
                    hops: 0,
                    node: 0,
                    worker: worker.0,
                    op: op.0,
                    count: keys.len(),
                }
                .write(&mut frame);
                if let Some(cursor) = next {
                    frame.put_u32_le(cursor.shard);
                    frame.put_u64_le(cursor.position);
                }
                keys.iter().for_each(|key| frame.put_u64_le(key.0));
                frame.extend_from_slice(values);
            }
            Self::Localize(Localize { keys }) => {
                frame = relocation(Header::of_keys(LOCALIZE, 0, keys.len()), keys, &[], &[]);
            }
            Self::Relocate(Relocate { to, keys, counters }) => {
                frame = relocation(Header::of_keys(RELOCATE, to.0, keys.len()), keys, counters, &[]);
            }
            Self::HandOver(HandOver { keys, counters, values }) => {
                frame = relocation(Header::of_keys(HAND_OVER, 0, keys.len()), keys, counters, values);
            }
            Self::Moved(Moved { keys, counters }) => {
                frame = relocation(Header::of_keys(MOVED, 0, keys.len()), keys, counters, &[]);
            }
        }
        intendant_core::strict_assert!(
            frame.len() <= limits::FRAME_BYTES_MAX,
            "a frame of {} bytes",
            frame.len()
        );
        Bytes::from(frame)
    }

    /// Reads a frame. Values are not copied: they stay slices of the frame.
    ///
    /// # Errors
    /// If the frame is not exactly one message.
    pub fn decode(mut frame: Bytes) -> Result<Self, WireError> {
        let total = frame.len();
        if total > limits::FRAME_BYTES_MAX {
            return Err(WireError::TooLong { bytes: total });
        }
        let header = Header::read(&mut frame)?;
        match header.kind {
            REQUEST => {
                let kind = AccessKind::from_tag(header.access)?;
                let keys = keys(&mut frame, total, header.count)?;
                let positions = numbers(&mut frame, total, header.count)?;
                let request = Request {
                    origin: header.origin(),
                    kind,
                    hops: header.hops,
                    keys,
                    positions,
                    values: frame,
                };
                Ok(Self::Request(request))
            }
            RESPONSE => {
                let kind = AccessKind::from_tag(header.access)?;
                header.unused("node of a response", header.node.min(255) as u8)?;
                let counted = match header.hops {
                    0 => 0,
                    // Without positions there are no counters either.
                    1 if header.count > 0 => header.count,
                    value => return Err(WireError::UnknownTag { field: "counters of a response", value }),
                };
                need(&frame, total, (header.count + counted) * POSITION_BYTES)?;
                let positions = numbers(&mut frame, total, header.count)?;
                let counters = numbers(&mut frame, total, counted)?;
                let Origin { worker, op, .. } = header.origin();
                Ok(Self::Response(Response { worker, op, kind, positions, counters, values: frame }))
            }
            SNAPSHOT_REQUEST => {
                header.unused("access kind of a snapshot request", header.access)?;
                header.unused("hops of a snapshot request", header.hops)?;
                header.unused("keys of a snapshot request", header.count.min(255) as u8)?;
                need(&frame, total, 2 * KEY_BYTES + CURSOR_BYTES + 4)?;
                let (start, stop) = (Key(frame.get_u64_le()), Key(frame.get_u64_le()));
                let cursor = Cursor { shard: frame.get_u32_le(), position: frame.get_u64_le() };
                let bytes_max = frame.get_u32_le();
                end(&frame)?;
                let request =
                    SnapshotRequest { origin: header.origin(), start, end: stop, cursor, bytes_max };
                Ok(Self::SnapshotRequest(request))
            }
            SNAPSHOT_PART => {
                header.unused("hops of a snapshot part", header.hops)?;
                header.unused("node of a snapshot part", header.node.min(255) as u8)?;
                let next = match header.access {
                    0 => None,
                    1 => {
                        need(&frame, total, CURSOR_BYTES)?;
                        Some(Cursor { shard: frame.get_u32_le(), position: frame.get_u64_le() })
                    }
                    value => {
                        return Err(WireError::UnknownTag {
                            field: "continuation of a snapshot part",
                            value,
                        });
                    }
                };
                let keys = keys(&mut frame, total, header.count)?;
                let Origin { worker, op, .. } = header.origin();
                Ok(Self::SnapshotPart(SnapshotPart { worker, op, next, keys, values: frame }))
            }
            LOCALIZE => {
                header.no_node()?;
                let keys = keys(&mut frame, total, header.count)?;
                end(&frame)?;
                Ok(Self::Localize(Localize { keys }))
            }
            RELOCATE => {
                header.only_keys()?;
                let (keys, counters) = counted_keys(&mut frame, total, header.count)?;
                end(&frame)?;
                Ok(Self::Relocate(Relocate { to: NodeId(header.node), keys, counters }))
            }
            HAND_OVER => {
                header.no_node()?;
                let (keys, counters) = counted_keys(&mut frame, total, header.count)?;
                Ok(Self::HandOver(HandOver { keys, counters, values: frame }))
            }
            MOVED => {
                header.no_node()?;
                let (keys, counters) = counted_keys(&mut frame, total, header.count)?;
                end(&frame)?;
                Ok(Self::Moved(Moved { keys, counters }))
            }
            value => Err(WireError::UnknownTag { field: "frame kind", value }),
        }
    }
}
