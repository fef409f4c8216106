//! Reading the values that a node owns, part by part.
//!
//! | field | of a snapshot request | of a snapshot part |
//! | --- | --- | --- |
//! | tag | | 1 if another part follows |
//! | node | of the origin | |
//! | worker | of the origin | of the origin |
//! | argument | operation | operation |
//! | count | | keys |
//! | then | range, cursor, bytes at most | if another part follows, its cursor; keys, elements |
//!
//! Flags are zero. A range consists of the first key (u64) and the end key (u64), and a cursor consists of
//! shard (u32) and position (u64). The number of bytes has 32 bits.

use crate::frame::{Body, Header, KEY_BYTES, NUMBER_BYTES, Payload, put_keys};
use crate::{HeaderField, MessageClass, OpId, Origin, WireError};
use bytes::{BufMut, Bytes};
use intendant_core::{Key, WorkerId};

/// The position at which a snapshot stream continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Shard.
    pub shard: u32,
    /// Position within the shard.
    pub position: u64,
}

impl Cursor {
    const BYTES: usize = 12;

    fn put(self, frame: &mut Vec<u8>) {
        frame.put_u32_le(self.shard);
        frame.put_u64_le(self.position);
    }

    fn read(body: &mut Body) -> Self {
        Self { shard: body.u32(), position: body.u64() }
    }
}

/// Asks a node for the next part of the values that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The operation that waits for the answer.
    pub origin: Origin,
    /// First key wanted.
    pub start: Key,
    /// End of the keys wanted, excluded.
    pub end: Key,
    /// The position at which to continue.
    pub cursor: Cursor,
    /// Bytes of values after which the part ends.
    pub bytes_max: u32,
}

impl SnapshotRequest {
    const BODY_BYTES: usize = 2 * KEY_BYTES + Cursor::BYTES + NUMBER_BYTES;
}

impl Payload for SnapshotRequest {
    fn class(&self) -> MessageClass {
        MessageClass::SnapshotRequest
    }

    fn head(&self, _room: usize) -> Vec<u8> {
        let Self { origin, start, end, cursor, bytes_max } = self;
        let header = Header {
            node: origin.node.0,
            worker: origin.worker.0,
            argument: origin.op.0,
            ..Header::new(self.class(), 0)
        };
        let mut frame = header.frame(Self::BODY_BYTES);
        put_keys(&mut frame, &[*start, *end]);
        cursor.put(&mut frame);
        frame.put_u32_le(*bytes_max);
        frame
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        header.unused([HeaderField::Tag, HeaderField::Flags, HeaderField::Count])?;
        body.need(Self::BODY_BYTES)?;
        let request = Self {
            origin: header.origin(),
            start: Key(body.u64()),
            end: Key(body.u64()),
            cursor: Cursor::read(&mut body),
            bytes_max: body.u32(),
        };
        body.end()?;
        Ok(request)
    }
}

/// A part of the values that a node owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPart {
    /// The worker that asked.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// The start of the next part, or `None` if this is the last one.
    pub next: Option<Cursor>,
    /// The keys of this part.
    pub keys: Vec<Key>,
    /// Their elements.
    pub values: Bytes,
}

impl Payload for SnapshotPart {
    fn class(&self) -> MessageClass {
        MessageClass::SnapshotPart
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { worker, op, next, keys, values: _ } = self;
        let header = Header {
            tag: u8::from(next.is_some()),
            worker: worker.0,
            argument: op.0,
            ..Header::new(self.class(), keys.len())
        };
        let cursor_bytes = if next.is_some() { Cursor::BYTES } else { 0 };
        let mut frame = header.frame(cursor_bytes + keys.len() * KEY_BYTES + room);
        if let Some(cursor) = next {
            cursor.put(&mut frame);
        }
        put_keys(&mut frame, keys);
        frame
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        header.unused([HeaderField::Flags, HeaderField::Node])?;
        let continues = match header.tag {
            0 => false,
            1 => true,
            value => return Err(WireError::UnknownTag { field: "tag of a snapshot part", value }),
        };
        body.need(header.count * KEY_BYTES + if continues { Cursor::BYTES } else { 0 })?;
        let Origin { worker, op, .. } = header.origin();
        Ok(Self {
            worker,
            op,
            next: continues.then(|| Cursor::read(&mut body)),
            keys: body.keys(header.count),
            values: body.values(),
        })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }

    fn values(&self) -> &Bytes {
        &self.values
    }
}
