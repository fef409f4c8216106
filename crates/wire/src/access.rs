//! Access to values at their owners.
//!
//! | field | of a request | of a response |
//! | --- | --- | --- |
//! | tag | access kind | access kind |
//! | flags | how often it was forwarded | 1 if counters follow |
//! | node | of the origin | |
//! | worker | of the origin | of the origin |
//! | argument | operation | operation |
//! | count | keys | positions |
//! | then | keys, positions; unless a pull, elements | positions; if flagged, counters; of a pull, elements |

use crate::frame::{Body, Header, KEY_BYTES, NUMBER_BYTES, Payload, put_numbers};
use crate::{HeaderField, MessageClass, OpId, Origin, WireError};
use bytes::Bytes;
use intendant_core::{Key, WorkerId, strict_assert};

/// What is done to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// Read.
    Pull = 0,
    /// Add.
    Push = 1,
    /// Overwrite.
    Set = 2,
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

/// Access to values, on the route to their owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation that waits for the answer.
    pub origin: Origin,
    /// What to do.
    pub kind: AccessKind,
    /// How often it has been forwarded.
    pub hops: u8,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its position in the worker's call; answers name keys by their positions.
    pub positions: Vec<u32>,
    /// For a push or set, the elements of all keys, little-endian, concatenated. Empty for a pull.
    pub values: Bytes,
}

impl Payload for Request {
    fn class(&self) -> MessageClass {
        MessageClass::Request
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { origin, kind, hops, keys, positions, values: _ } = self;
        strict_assert!(keys.len() == positions.len(), "a position per key");
        let header = Header {
            tag: *kind as u8,
            flags: *hops,
            node: origin.node.0,
            worker: origin.worker.0,
            argument: origin.op.0,
            ..Header::new(self.class(), keys.len())
        };
        header.frame_of_keys(keys, &[positions], room)
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        let kind = AccessKind::from_tag(header.tag)?;
        body.need(header.count * (KEY_BYTES + NUMBER_BYTES))?;
        Ok(Self {
            origin: header.origin(),
            kind,
            hops: header.flags,
            keys: body.keys(header.count),
            positions: body.numbers(header.count),
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

/// The owner's answer to (a part of) a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The worker.
    pub worker: WorkerId,
    /// Its operation.
    pub op: OpId,
    /// What was done.
    pub kind: AccessKind,
    /// The positions of the worker's call that are answered.
    pub positions: Vec<u32>,
    /// With location caches, per position, the relocation counter that the key had when the sender owned it.
    /// Empty without location caches.
    pub counters: Vec<u32>,
    /// For a pull, the elements of all these positions. Empty for a push or set.
    pub values: Bytes,
}

impl Payload for Response {
    fn class(&self) -> MessageClass {
        MessageClass::Response
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { worker, op, kind, positions, counters, values: _ } = self;
        strict_assert!(counters.is_empty() || counters.len() == positions.len(), "a counter per position");
        let header = Header {
            tag: *kind as u8,
            flags: u8::from(!counters.is_empty()),
            worker: worker.0,
            argument: op.0,
            ..Header::new(self.class(), positions.len())
        };
        let mut frame = header.frame((positions.len() + counters.len()) * NUMBER_BYTES + room);
        put_numbers(&mut frame, positions);
        put_numbers(&mut frame, counters);
        frame
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        let kind = AccessKind::from_tag(header.tag)?;
        header.unused([HeaderField::Node])?;
        let counters = header.counters("flags of a response")?;
        body.need((header.count + counters) * NUMBER_BYTES)?;
        let Origin { worker, op, .. } = header.origin();
        Ok(Self {
            worker,
            op,
            kind,
            positions: body.numbers(header.count),
            counters: body.numbers(counters),
            values: body.values(),
        })
    }

    fn key_count(&self) -> usize {
        self.positions.len()
    }

    fn values(&self) -> &Bytes {
        &self.values
    }
}
