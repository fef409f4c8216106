//! Relocation of main copies.
//!
//! | class | flags | node | worker | argument | count | then |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | localize | forwards | requester | | | keys | keys |
//! | relocate | | next owner | | | keys | keys, counters |
//! | hand-over | | | broadcast numbers | rows of holders | keys | keys, counters, numbers, rows, elements |
//! | moved | | | | | keys | keys, counters |
//!
//! The tag is zero. A row of holders has 18 bytes: index of the key (u32), version (u32),
//! holder (u16), generation (u32), number of the last merged delta (u32).

use crate::frame::{Body, Header, KEY_BYTES, NUMBER_BYTES, Payload, check_ascending, put_numbers};
use crate::{HeaderField, MessageClass, WireError};
use bytes::{BufMut, Bytes};
use intendant_core::{Key, NodeId, limits, strict_assert};

/// Asks the home of keys, or their owner, to move them to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Localize {
    /// The node that wants the keys.
    pub requester: NodeId,
    /// How often the message has been forwarded; 0 where homes order relocations.
    pub hops: u8,
    /// The keys.
    pub keys: Vec<Key>,
}

impl Payload for Localize {
    fn class(&self) -> MessageClass {
        MessageClass::Localize
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { requester, hops, keys } = self;
        let header = Header { node: requester.0, flags: *hops, ..Header::new(self.class(), keys.len()) };
        header.frame_of_keys(keys, &[], room)
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        header.unused([HeaderField::Tag, HeaderField::Worker, HeaderField::Argument])?;
        body.need(header.count * KEY_BYTES)?;
        let keys = body.keys(header.count);
        body.end()?;
        Ok(Self { requester: NodeId(header.node), hops: header.flags, keys })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }
}

/// The home orders the owner of keys to hand them over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocate {
    /// The next owner.
    pub to: NodeId,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter once it has moved.
    pub counters: Vec<u32>,
}

impl Payload for Relocate {
    fn class(&self) -> MessageClass {
        MessageClass::Relocate
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { to, keys, counters } = self;
        let header = Header { node: to.0, ..Header::new(self.class(), keys.len()) };
        header.frame_of_keys(keys, &[counters], room)
    }

    fn read(header: &Header, body: Body) -> Result<Self, WireError> {
        only_keys(header)?;
        let (keys, counters) = counted_keys(header, body)?;
        Ok(Self { to: NodeId(header.node), keys, counters })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }
}

/// The old owner passes values, and the responsibility for them, to the new owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter from now on.
    pub counters: Vec<u32>,
    /// Where nodes broadcast operations, per node, the number of its broadcasts that all these keys have been
    /// through. Empty otherwise.
    pub decided: Vec<u32>,
    /// The holders of replicas of these keys: at most one row per key and node, ascending by key, then node.
    pub holders: Vec<HolderRow>,
    /// The elements of all values, little-endian, concatenated.
    pub values: Bytes,
}

impl HandOver {
    /// Bytes that a key takes in a frame, in addition to its elements and rows of holders.
    pub const KEY_BYTES: usize = KEY_BYTES + NUMBER_BYTES;
}

/// A node that holds a replica of a key that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderRow {
    /// The index of its key among the keys of the message, from 0.
    pub at: u32,
    /// Version of the main copy.
    pub version: u32,
    /// The holder.
    pub node: NodeId,
    /// Generation of its registration.
    pub generation: u32,
    /// Number of its last merged delta.
    pub seq: u32,
}

impl HolderRow {
    /// Bytes that a row takes in a frame.
    pub const BYTES: usize = 2 + 4 * NUMBER_BYTES;

    fn put(&self, frame: &mut Vec<u8>) {
        let Self { at, version, node, generation, seq } = self;
        put_numbers(frame, &[*at, *version]);
        frame.put_u16_le(node.0);
        put_numbers(frame, &[*generation, *seq]);
    }

    fn read(body: &mut Body) -> Self {
        Self {
            at: body.u32(),
            version: body.u32(),
            node: NodeId(body.u16()),
            generation: body.u32(),
            seq: body.u32(),
        }
    }

    /// Checks that every row belongs to one of `keys` keys, that there is at most one row per key and node,
    /// and that the rows are in order.
    fn check(rows: &[Self], keys: usize) -> Result<(), WireError> {
        if let Some(row) = rows.iter().position(|holder| holder.at as usize >= keys) {
            return Err(WireError::NoSuchKey { row, at: rows[row].at, keys });
        }
        check_ascending("holders of a hand-over", rows.iter().map(|holder| (holder.at, holder.node)))
    }
}

impl Payload for HandOver {
    fn class(&self) -> MessageClass {
        MessageClass::HandOver
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { keys, counters, decided, holders, values: _ } = self;
        strict_assert!(counters.len() == keys.len(), "a counter per key");
        strict_assert!(holders.len() <= limits::FRAME_KEYS_MAX, "senders split what is too long");
        strict_assert!(HolderRow::check(holders, keys.len()).is_ok(), "rows in order: {holders:?}");
        let more = decided.len() * NUMBER_BYTES + holders.len() * HolderRow::BYTES;
        let header = Header {
            worker: decided.len() as u16,
            argument: holders.len() as u32,
            ..Header::new(self.class(), keys.len())
        };
        let mut frame = header.frame_of_keys(keys, &[counters], more + room);
        put_numbers(&mut frame, decided);
        holders.iter().for_each(|row| row.put(&mut frame));
        frame
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        let (count, rows) = (header.count, header.argument as usize);
        let numbers = usize::from(header.worker);
        header.unused([HeaderField::Tag, HeaderField::Flags, HeaderField::Node])?;
        if rows > limits::FRAME_KEYS_MAX {
            return Err(WireError::TooManyHolders { rows });
        }
        body.need(count * Self::KEY_BYTES + numbers * NUMBER_BYTES + rows * HolderRow::BYTES)?;
        let (keys, counters, decided) = (body.keys(count), body.numbers(count), body.numbers(numbers));
        let holders: Vec<HolderRow> = (0..rows).map(|_| HolderRow::read(&mut body)).collect();
        HolderRow::check(&holders, count)?;
        Ok(Self { keys, counters, decided, holders, values: body.values() })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }

    fn values(&self) -> &Bytes {
        &self.values
    }
}

/// The sender reports to the home of keys that it owns them now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, its relocation counter.
    pub counters: Vec<u32>,
}

impl Payload for Moved {
    fn class(&self) -> MessageClass {
        MessageClass::Moved
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { keys, counters } = self;
        Header::new(self.class(), keys.len()).frame_of_keys(keys, &[counters], room)
    }

    fn read(header: &Header, body: Body) -> Result<Self, WireError> {
        only_keys(header)?;
        header.unused([HeaderField::Node])?;
        let (keys, counters) = counted_keys(header, body)?;
        Ok(Self { keys, counters })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }
}

/// Checks the fields that relocate and moved do not use.
fn only_keys(header: &Header) -> Result<(), WireError> {
    header.unused([HeaderField::Tag, HeaderField::Flags, HeaderField::Worker, HeaderField::Argument])
}

/// A body of keys and a counter for each.
fn counted_keys(header: &Header, mut body: Body) -> Result<(Vec<Key>, Vec<u32>), WireError> {
    body.need(header.count * (KEY_BYTES + NUMBER_BYTES))?;
    let (keys, counters) = (body.keys(header.count), body.numbers(header.count));
    body.end()?;
    Ok((keys, counters))
}
