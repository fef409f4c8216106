//! Messages to frames and back: the layout of accesses, snapshots and relocations. `copies` has the rest.

use crate::copies;
use crate::frame::{
    CLOCK, CURSOR_BYTES, HAND_OVER, HEADER_BYTES, Header, INTENT_REPORT, KEY_BYTES, LOCALIZE, MOVED,
    NUMBER_BYTES, REDUCE, RELOCATE, REPLICA_REQUEST, REPLICA_UPDATE, REQUEST, RESPONSE, SNAPSHOT_PART,
    SNAPSHOT_REQUEST, WireError, counted_keys, end, keyed, keys, need, numbers, put_keys, put_numbers,
};
use crate::message::{
    AccessKind, Cursor, HandOver, IntentReport, Localize, Message, Moved, Origin, Reduce, Relocate,
    ReplicaRequest, ReplicaUpdate, Request, Response, SnapshotPart, SnapshotRequest,
};
use bytes::{Buf, BufMut, Bytes};
use intendant_core::{Key, NodeId, limits};

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

fn check_length(bytes: usize) {
    intendant_core::strict_assert!(bytes <= limits::FRAME_BYTES_MAX, "a frame of {} bytes", bytes);
}

impl Message {
    /// The frame of this message, without length prefix.
    ///
    /// # Panics
    /// In debug builds, if the message exceeds the limits of a frame or its keys and positions differ in number: senders
    /// split what is too long.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let values = self.values();
        let mut frame = self.head(values.len());
        frame.extend_from_slice(values);
        check_length(frame.len());
        Bytes::from(frame)
    }

    /// The frame in two parts, the second one being the values, which are not copied.
    ///
    /// # Panics
    /// As [`Message::encode`].
    #[must_use]
    pub fn encode_parts(&self) -> (Bytes, Bytes) {
        let (head, values) = (self.head(0), self.values().clone());
        check_length(head.len() + values.len());
        (Bytes::from(head), values)
    }

    /// The values, with which every frame ends that has any.
    fn values(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        match self {
            Self::Request(Request { values, .. })
            | Self::Response(Response { values, .. })
            | Self::SnapshotPart(SnapshotPart { values, .. })
            | Self::HandOver(HandOver { values, .. })
            | Self::ReplicaRequest(ReplicaRequest { values, .. })
            | Self::ReplicaUpdate(ReplicaUpdate { values, .. })
            | Self::Reduce(Reduce { values, .. }) => values,
            Self::SnapshotRequest(_)
            | Self::Localize(_)
            | Self::Relocate(_)
            | Self::Moved(_)
            | Self::Clock(_)
            | Self::IntentReport(_) => &NONE,
        }
    }

    /// The frame up to the values, with room for `room` more bytes.
    fn head(&self, room: usize) -> Vec<u8> {
        let mut frame;
        match self {
            Self::Request(Request { origin, kind, hops, keys, positions, .. }) => {
                intendant_core::strict_assert!(keys.len() == positions.len(), "a position per key");
                let bytes = HEADER_BYTES + keys.len() * (KEY_BYTES + NUMBER_BYTES) + room;
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
                put_keys(&mut frame, keys);
                put_numbers(&mut frame, positions);
            }
            Self::Response(Response { worker, op, kind, positions, counters, .. }) => {
                intendant_core::strict_assert!(
                    counters.is_empty() || counters.len() == positions.len(),
                    "a counter per position"
                );
                let numbers = positions.len() + counters.len();
                frame = Vec::with_capacity(HEADER_BYTES + numbers * NUMBER_BYTES + room);
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
                put_numbers(&mut frame, positions);
                put_numbers(&mut frame, counters);
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
            Self::SnapshotPart(SnapshotPart { worker, op, next, keys, .. }) => {
                frame = Vec::with_capacity(HEADER_BYTES + CURSOR_BYTES + keys.len() * KEY_BYTES + room);
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
                put_keys(&mut frame, keys);
            }
            Self::Localize(Localize { keys }) => {
                frame = keyed(&Header::of_keys(LOCALIZE, 0, keys.len()), keys, &[], room);
            }
            Self::Relocate(Relocate { to, keys, counters }) => {
                frame = keyed(&Header::of_keys(RELOCATE, to.0, keys.len()), keys, &[counters], room);
            }
            Self::HandOver(hand_over) => frame = copies::hand_over(hand_over, room),
            Self::Moved(Moved { keys, counters }) => {
                frame = keyed(&Header::of_keys(MOVED, 0, keys.len()), keys, &[counters], room);
            }
            Self::ReplicaRequest(sync) => frame = copies::sync(sync, room),
            Self::ReplicaUpdate(news) => frame = copies::news(news, room),
            Self::Clock(clock) => frame = copies::clock(clock),
            Self::Reduce(reduce) => frame = copies::reduce(reduce, room),
            Self::IntentReport(IntentReport { begun, over }) => {
                frame = Vec::with_capacity(HEADER_BYTES + (begun.len() + over.len()) * KEY_BYTES);
                Header::tagged(INTENT_REPORT, 0, 0, over.len() as u32, begun.len()).write(&mut frame);
                put_keys(&mut frame, begun);
                put_keys(&mut frame, over);
            }
        }
        frame
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
                let (keys, positions) = counted_keys(&mut frame, total, header.count)?;
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
                need(&frame, total, (header.count + counted) * NUMBER_BYTES)?;
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
            HAND_OVER => copies::read_hand_over(&header, frame).map(Self::HandOver),
            MOVED => {
                header.no_node()?;
                let (keys, counters) = counted_keys(&mut frame, total, header.count)?;
                end(&frame)?;
                Ok(Self::Moved(Moved { keys, counters }))
            }
            REPLICA_REQUEST => copies::read_sync(&header, frame).map(Self::ReplicaRequest),
            REPLICA_UPDATE => copies::read_news(&header, frame).map(Self::ReplicaUpdate),
            CLOCK => copies::read_clock(&header, frame).map(Self::Clock),
            REDUCE => copies::read_reduce(&header, frame).map(Self::Reduce),
            INTENT_REPORT => {
                header.unused("access kind of a signal", header.access)?;
                header.unused("hops of a signal", header.hops)?;
                header.all_unused("unused field of a signal", [header.node.into(), header.worker.into()])?;
                let over = header.op as usize;
                if header.count.saturating_add(over) > limits::FRAME_KEYS_MAX {
                    return Err(WireError::TooManyKeys { keys: header.count.saturating_add(over) });
                }
                let begun = keys(&mut frame, total, header.count)?;
                let over = keys(&mut frame, total, over)?;
                end(&frame)?;
                Ok(Self::IntentReport(IntentReport { begun, over }))
            }
            value => Err(WireError::UnknownTag { field: "frame kind", value }),
        }
    }
}
