//! Replicas that nodes synchronise through the owner.
//!
//! | field | of a replica request | of a replica update |
//! | --- | --- | --- |
//! | tag | its kind | its kind |
//! | flags | how often it was forwarded | 1 if counters follow |
//! | node | holder | |
//! | argument | | clock |
//! | count | keys | keys |
//! | then | keys, generations | keys, generations |
//! | | to ask, clocks; of a delta, delta numbers | unless dropped, delta numbers and versions |
//! | | | if flagged, counters |
//! | | of a delta, elements | of a set-up or refresh, elements |
//!
//! The worker is zero. Messages with bfloat16 elements have tags of their own.

use crate::frame::{Body, Header, KEY_BYTES, NUMBER_BYTES, Payload};
use crate::{HeaderField, MessageClass, WireError};
use bytes::Bytes;
use intendant_core::{Key, NodeId, Precision, strict_assert};

/// What the holder of a replica asks of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReplicaRequestKind {
    /// A copy, or a fresher one.
    Ask = 0,
    /// To merge the updates of its copy.
    Delta = 1,
    /// To drop its copy.
    Drop = 2,
}

/// The tag of a delta whose elements are bfloat16.
const DELTA_BF16: u8 = 3;

impl ReplicaRequestKind {
    fn from_tag(value: u8) -> Result<(Self, Precision), WireError> {
        match value {
            0 => Ok((Self::Ask, Precision::Exact)),
            1 => Ok((Self::Delta, Precision::Exact)),
            2 => Ok((Self::Drop, Precision::Exact)),
            DELTA_BF16 => Ok((Self::Delta, Precision::Bf16)),
            value => Err(WireError::UnknownTag { field: "kind of a replica request", value }),
        }
    }

    fn tag(self, precision: Precision) -> u8 {
        match (self, precision) {
            (Self::Delta, Precision::Bf16) => DELTA_BF16,
            (Self::Ask | Self::Delta | Self::Drop, _) => self as u8,
        }
    }

    /// Whether there is a number per key.
    fn numbered(self) -> bool {
        match self {
            Self::Ask | Self::Delta => true,
            Self::Drop => false,
        }
    }

    /// Whether there are elements.
    fn valued(self) -> bool {
        match self {
            Self::Delta => true,
            Self::Ask | Self::Drop => false,
        }
    }

    /// Bytes that a key takes in a frame, in addition to its elements.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        KEY_BYTES + NUMBER_BYTES * (1 + usize::from(self.numbered()))
    }
}

/// From a holder of replicas to the owners of the keys; forwarded like a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRequest {
    /// What the holder asks for.
    pub kind: ReplicaRequestKind,
    /// The node that holds the replicas: the owner sends updates directly to it.
    pub holder: NodeId,
    /// How often it has been forwarded.
    pub hops: u8,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, the generation of the holder's registration.
    pub generations: Vec<u32>,
    /// Per key: of an ask, the worker clock up to which the copy must have every update (0: any copy will
    /// do); of a delta, its number within the generation, from 1. Empty for a drop.
    pub numbers: Vec<u32>,
    /// How the elements of a delta are written. Exact for other kinds.
    pub precision: Precision,
    /// Of a delta, the elements of all keys, little-endian, concatenated. Empty for other kinds.
    pub values: Bytes,
}

impl Payload for ReplicaRequest {
    fn class(&self) -> MessageClass {
        MessageClass::ReplicaRequest
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { kind, holder, hops, keys, generations, numbers, precision, values } = self;
        let numbered = if kind.numbered() { keys.len() } else { 0 };
        strict_assert!(generations.len() == keys.len(), "a generation per key");
        strict_assert!(numbers.len() == numbered, "a number per key, except to drop");
        let plain = values.is_empty() && *precision == Precision::Exact;
        strict_assert!(kind.valued() || plain, "only a delta has elements");
        let header = Header {
            tag: kind.tag(*precision),
            flags: *hops,
            node: holder.0,
            ..Header::new(self.class(), keys.len())
        };
        header.frame_of_keys(keys, &[generations, numbers], room)
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        let (kind, precision) = ReplicaRequestKind::from_tag(header.tag)?;
        header.unused([HeaderField::Worker, HeaderField::Argument])?;
        let count = header.count;
        body.need(count * kind.key_bytes())?;
        Ok(Self {
            kind,
            holder: NodeId(header.node),
            hops: header.flags,
            keys: body.keys(count),
            generations: body.numbers(count),
            numbers: body.numbers(if kind.numbered() { count } else { 0 }),
            precision,
            values: body.values_if(kind.valued())?,
        })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }

    fn values(&self) -> &Bytes {
        &self.values
    }
}

/// What the owner sends to the holder of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReplicaUpdateKind {
    /// The first value of a registration.
    SetUp = 0,
    /// A newer value.
    Refresh = 1,
    /// The owner has merged the delta, and the main copy has not changed otherwise: no value.
    Acknowledged = 2,
    /// The registration has been dropped.
    Dropped = 3,
}

/// The tags of updates whose elements are bfloat16.
const SET_UP_BF16: u8 = 4;
const REFRESH_BF16: u8 = 5;

impl ReplicaUpdateKind {
    fn from_tag(value: u8) -> Result<(Self, Precision), WireError> {
        match value {
            0 => Ok((Self::SetUp, Precision::Exact)),
            1 => Ok((Self::Refresh, Precision::Exact)),
            2 => Ok((Self::Acknowledged, Precision::Exact)),
            3 => Ok((Self::Dropped, Precision::Exact)),
            SET_UP_BF16 => Ok((Self::SetUp, Precision::Bf16)),
            REFRESH_BF16 => Ok((Self::Refresh, Precision::Bf16)),
            value => Err(WireError::UnknownTag { field: "kind of a replica update", value }),
        }
    }

    fn tag(self, precision: Precision) -> u8 {
        match (self, precision) {
            (Self::SetUp, Precision::Bf16) => SET_UP_BF16,
            (Self::Refresh, Precision::Bf16) => REFRESH_BF16,
            (Self::SetUp | Self::Refresh | Self::Acknowledged | Self::Dropped, _) => self as u8,
        }
    }

    /// Whether there are a delta number and a version per key.
    fn numbered(self) -> bool {
        match self {
            Self::SetUp | Self::Refresh | Self::Acknowledged => true,
            Self::Dropped => false,
        }
    }

    /// Whether there are elements.
    fn valued(self) -> bool {
        match self {
            Self::SetUp | Self::Refresh => true,
            Self::Acknowledged | Self::Dropped => false,
        }
    }

    /// Bytes that a key takes in a frame, in addition to its elements; `counted` if relocation counters are
    /// sent.
    #[must_use]
    pub fn key_bytes(self, counted: bool) -> usize {
        KEY_BYTES + NUMBER_BYTES * (1 + 2 * usize::from(self.numbered()) + usize::from(counted))
    }
}

/// From the owner of keys to a holder of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaUpdate {
    /// What the owner sends.
    pub kind: ReplicaUpdateKind,
    /// With bounded staleness, the worker clock up to which the owner has every update; else 0.
    pub clock: u32,
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, the generation of the registration that this is about.
    pub generations: Vec<u32>,
    /// Per key, the number of the holder's last merged delta. Empty when dropped.
    pub seqs: Vec<u32>,
    /// Per key, the version of the main copy. Empty when dropped.
    pub versions: Vec<u32>,
    /// With location caches, per key, the relocation counter that it had when the sender owned it. Empty
    /// without location caches.
    pub counters: Vec<u32>,
    /// How the elements of a set-up or refresh are written. Exact for other kinds.
    pub precision: Precision,
    /// Of a set-up or refresh, the elements of all keys, little-endian, concatenated. Empty for other kinds.
    pub values: Bytes,
}

impl Payload for ReplicaUpdate {
    fn class(&self) -> MessageClass {
        MessageClass::ReplicaUpdate
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { kind, clock, keys, generations, seqs, versions, counters, precision, values } = self;
        let numbered = if kind.numbered() { keys.len() } else { 0 };
        strict_assert!(generations.len() == keys.len(), "a generation per key");
        strict_assert!(
            seqs.len() == numbered && versions.len() == numbered,
            "numbers per key, unless dropped"
        );
        let plain = values.is_empty() && *precision == Precision::Exact;
        strict_assert!(kind.valued() || plain, "only set-ups and refreshes have elements");
        let header = Header {
            tag: kind.tag(*precision),
            flags: u8::from(!counters.is_empty()),
            argument: *clock,
            ..Header::new(self.class(), keys.len())
        };
        header.frame_of_keys(keys, &[generations, seqs, versions, counters], room)
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        let (kind, precision) = ReplicaUpdateKind::from_tag(header.tag)?;
        header.unused([HeaderField::Node, HeaderField::Worker])?;
        let (count, counters) = (header.count, header.counters("flags of a replica update")?);
        let numbered = if kind.numbered() { count } else { 0 };
        body.need(count * kind.key_bytes(counters > 0))?;
        Ok(Self {
            kind,
            clock: header.argument,
            keys: body.keys(count),
            generations: body.numbers(count),
            seqs: body.numbers(numbered),
            versions: body.numbers(numbered),
            counters: body.numbers(counters),
            precision,
            values: body.values_if(kind.valued())?,
        })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }

    fn values(&self) -> &Bytes {
        &self.values
    }
}
