//! Messages to frames and back: what keeps copies in step, and the hand-over, which tells who has copies.

use crate::frame::{
    CLOCK, HAND_OVER, HEADER_BYTES, Header, KEY_BYTES, NUMBER_BYTES, REDUCE, REPLICA_REQUEST, REPLICA_UPDATE,
    WireError, end, keyed, keys, need, numbers, put_keys, put_numbers,
};
use crate::message::{
    Clock, ClockScope, HandOver, HolderRow, Reduce, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate,
    ReplicaUpdateKind,
};
use bytes::{Buf, BufMut, Bytes};
use intendant_core::{NodeId, limits, strict_assert};

impl ReplicaRequestKind {
    fn from_tag(value: u8) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::Ask),
            1 => Ok(Self::Delta),
            2 => Ok(Self::Drop),
            value => Err(WireError::UnknownTag { field: "kind of a sync", value }),
        }
    }

    /// Whether there is a number per key.
    fn numbered(self) -> bool {
        match self {
            Self::Ask | Self::Delta => true,
            Self::Drop => false,
        }
    }

    /// Bytes that a key takes in a frame, besides its elements.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        KEY_BYTES + NUMBER_BYTES * (1 + usize::from(self.numbered()))
    }

    /// Whether there are elements.
    fn valued(self) -> bool {
        match self {
            Self::Delta => true,
            Self::Ask | Self::Drop => false,
        }
    }
}

impl ReplicaUpdateKind {
    fn from_tag(value: u8) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::SetUp),
            1 => Ok(Self::Refresh),
            2 => Ok(Self::Acknowledged),
            3 => Ok(Self::Dropped),
            value => Err(WireError::UnknownTag { field: "kind of news", value }),
        }
    }

    /// Whether there are the number of a delta and a version per key.
    fn numbered(self) -> bool {
        match self {
            Self::SetUp | Self::Refresh | Self::Acknowledged => true,
            Self::Dropped => false,
        }
    }

    /// Bytes that a key takes in a frame, besides its elements; `counted` if relocation counters follow.
    #[must_use]
    pub fn key_bytes(self, counted: bool) -> usize {
        KEY_BYTES + NUMBER_BYTES * (1 + 2 * usize::from(self.numbered()) + usize::from(counted))
    }

    /// Whether there are elements.
    fn valued(self) -> bool {
        match self {
            Self::SetUp | Self::Refresh => true,
            Self::Acknowledged | Self::Dropped => false,
        }
    }
}

impl ClockScope {
    fn from_tag(value: u8) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::Node),
            1 => Ok(Self::Global),
            2 => Ok(Self::Resumed),
            value => Err(WireError::UnknownTag { field: "scope of a clock", value }),
        }
    }
}

impl HandOver {
    /// Bytes that a key takes in a frame, besides its elements and rows of holders.
    pub const KEY_BYTES: usize = KEY_BYTES + NUMBER_BYTES;
}

impl HolderRow {
    /// Bytes that a row takes in a frame.
    pub const BYTES: usize = 2 + 4 * NUMBER_BYTES;
}

/// What is left of the frame: elements if there are any, else nothing.
fn values(frame: Bytes, valued: bool) -> Result<Bytes, WireError> {
    if valued {
        Ok(frame)
    } else {
        end(&frame)?;
        Ok(Bytes::new())
    }
}

pub(crate) fn sync(message: &ReplicaRequest, room: usize) -> Vec<u8> {
    let ReplicaRequest { kind, holder, hops, keys, generations, numbers, values } = message;
    strict_assert!(generations.len() == keys.len(), "a generation per key");
    strict_assert!(
        numbers.len() == if kind.numbered() { keys.len() } else { 0 },
        "a number per key, except to drop"
    );
    strict_assert!(kind.valued() || values.is_empty(), "only a delta has elements");
    let header =
        Header { node: holder.0, ..Header::tagged(REPLICA_REQUEST, *kind as u8, *hops, 0, keys.len()) };
    keyed(&header, keys, &[generations, numbers], room)
}

pub(crate) fn read_sync(header: &Header, mut frame: Bytes) -> Result<ReplicaRequest, WireError> {
    let (count, total) = (header.count, HEADER_BYTES + frame.len());
    let kind = ReplicaRequestKind::from_tag(header.access)?;
    header.all_unused("unused field of a sync", [header.worker.into(), header.op])?;
    let numbered = if kind.numbered() { count } else { 0 };
    need(&frame, total, count * kind.key_bytes())?;
    Ok(ReplicaRequest {
        kind,
        holder: NodeId(header.node),
        hops: header.hops,
        keys: keys(&mut frame, total, count)?,
        generations: numbers(&mut frame, total, count)?,
        numbers: numbers(&mut frame, total, numbered)?,
        values: values(frame, kind.valued())?,
    })
}

pub(crate) fn news(message: &ReplicaUpdate, room: usize) -> Vec<u8> {
    let ReplicaUpdate { kind, clock, keys, generations, seqs, versions, counters, values } = message;
    let numbered = if kind.numbered() { keys.len() } else { 0 };
    strict_assert!(generations.len() == keys.len(), "a generation per key");
    strict_assert!(seqs.len() == numbered && versions.len() == numbered, "numbers per key, unless dropped");
    strict_assert!(kind.valued() || values.is_empty(), "only set-ups and refreshes have elements");
    let header =
        Header::tagged(REPLICA_UPDATE, *kind as u8, u8::from(!counters.is_empty()), *clock, keys.len());
    keyed(&header, keys, &[generations, seqs, versions, counters], room)
}

pub(crate) fn read_news(header: &Header, mut frame: Bytes) -> Result<ReplicaUpdate, WireError> {
    let (count, total) = (header.count, HEADER_BYTES + frame.len());
    let kind = ReplicaUpdateKind::from_tag(header.access)?;
    header.all_unused("unused field of news", [header.node.into(), header.worker.into()])?;
    let counted = match header.hops {
        0 => 0,
        // Without keys there are no counters either.
        1 if count > 0 => count,
        value => return Err(WireError::UnknownTag { field: "counters of news", value }),
    };
    let numbered = if kind.numbered() { count } else { 0 };
    need(&frame, total, count * kind.key_bytes(counted > 0))?;
    Ok(ReplicaUpdate {
        kind,
        clock: header.op,
        keys: keys(&mut frame, total, count)?,
        generations: numbers(&mut frame, total, count)?,
        seqs: numbers(&mut frame, total, numbered)?,
        versions: numbers(&mut frame, total, numbered)?,
        counters: numbers(&mut frame, total, counted)?,
        values: values(frame, kind.valued())?,
    })
}

pub(crate) fn clock(message: &Clock) -> Vec<u8> {
    strict_assert!(message.scope != ClockScope::Resumed || message.clock == 0, "no clock: {message:?}");
    keyed(&Header::tagged(CLOCK, message.scope as u8, 0, message.clock, 0), &[], &[], 0)
}

pub(crate) fn read_clock(header: &Header, frame: Bytes) -> Result<Clock, WireError> {
    let scope = ClockScope::from_tag(header.access)?;
    header.unused("hops of a clock", header.hops)?;
    header.all_unused(
        "unused field of a clock",
        [header.node.into(), header.worker.into(), header.count as u32],
    )?;
    if scope == ClockScope::Resumed {
        header.all_unused("clock of those who come from a meeting", [header.op])?;
    }
    end(&frame)?;
    Ok(Clock { scope, clock: header.op })
}

pub(crate) fn reduce(message: &Reduce, room: usize) -> Vec<u8> {
    let Reduce { round, step, last, indices, .. } = message;
    strict_assert!(ascend("indices of a reduce", indices.iter()).is_ok(), "indices ascend: {indices:?}");
    let mut frame = Vec::with_capacity(HEADER_BYTES + indices.len() * NUMBER_BYTES + room);
    Header::tagged(REDUCE, *step, u8::from(*last), *round, indices.len()).write(&mut frame);
    put_numbers(&mut frame, indices);
    frame
}

pub(crate) fn read_reduce(header: &Header, mut frame: Bytes) -> Result<Reduce, WireError> {
    let (count, total) = (header.count, HEADER_BYTES + frame.len());
    header.all_unused("unused field of a reduce", [header.node.into(), header.worker.into()])?;
    let last = match header.hops {
        0 => false,
        1 => true,
        value => return Err(WireError::UnknownTag { field: "end of a reduce", value }),
    };
    let indices = numbers(&mut frame, total, count)?;
    ascend("indices of a reduce", indices.iter())?;
    Ok(Reduce { round: header.op, step: header.access, last, indices, values: frame })
}

pub(crate) fn hand_over(message: &HandOver, room: usize) -> Vec<u8> {
    let HandOver { keys, counters, holders, .. } = message;
    strict_assert!(counters.len() == keys.len(), "a counter per key");
    strict_assert!(holders.len() <= limits::FRAME_KEYS_MAX, "senders split what is too long");
    strict_assert!(check(holders, keys.len()).is_ok(), "holders are ordered and of keys: {holders:?}");
    let bytes = keys.len() * HandOver::KEY_BYTES + holders.len() * HolderRow::BYTES + room;
    let mut frame = Vec::with_capacity(HEADER_BYTES + bytes);
    Header::tagged(HAND_OVER, 0, 0, holders.len() as u32, keys.len()).write(&mut frame);
    put_keys(&mut frame, keys);
    put_numbers(&mut frame, counters);
    for HolderRow { at, version, node, generation, seq } in holders {
        put_numbers(&mut frame, &[*at, *version]);
        frame.put_u16_le(node.0);
        put_numbers(&mut frame, &[*generation, *seq]);
    }
    frame
}

pub(crate) fn read_hand_over(header: &Header, mut frame: Bytes) -> Result<HandOver, WireError> {
    let (count, rows, total) = (header.count, header.op as usize, HEADER_BYTES + frame.len());
    header.unused("access kind of a hand-over", header.access)?;
    header.unused("hops of a hand-over", header.hops)?;
    header.all_unused("unused field of a hand-over", [header.node.into(), header.worker.into()])?;
    if rows > limits::FRAME_KEYS_MAX {
        return Err(WireError::TooManyHolders { rows });
    }
    need(&frame, total, count * HandOver::KEY_BYTES + rows * HolderRow::BYTES)?;
    let keys = keys(&mut frame, total, count)?;
    let counters = numbers(&mut frame, total, count)?;
    let holders: Vec<HolderRow> = (0..rows)
        .map(|_| HolderRow {
            at: frame.get_u32_le(),
            version: frame.get_u32_le(),
            node: NodeId(frame.get_u16_le()),
            generation: frame.get_u32_le(),
            seq: frame.get_u32_le(),
        })
        .collect();
    check(&holders, count)?;
    Ok(HandOver { keys, counters, holders, values: frame })
}

/// Every row is of one of `keys` keys, and there is one per key and node.
fn check(holders: &[HolderRow], keys: usize) -> Result<(), WireError> {
    if let Some(row) = holders.iter().position(|holder| holder.at as usize >= keys) {
        return Err(WireError::NoSuchKey { row, at: holders[row].at, keys });
    }
    ascend("holders of a hand-over", holders.iter().map(|holder| (holder.at, holder.node)))
}

fn ascend<T: PartialOrd>(
    field: &'static str,
    items: impl Iterator<Item = T> + Clone,
) -> Result<(), WireError> {
    let next = items.clone().skip(1);
    match items.zip(next).position(|(item, next)| item >= next) {
        Some(at) => Err(WireError::Unordered { field, at: at + 1 }),
        None => Ok(()),
    }
}
