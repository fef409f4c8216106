//! The messages that channel engines send to each other, and their frames.

use crate::frame::{Header, Payload};
use crate::{
    Clock, HandOver, IntentReport, Localize, MessageClass, Moved, Reduce, Relocate, ReplicaRequest,
    ReplicaUpdate, Request, Response, SnapshotPart, SnapshotRequest, WireError,
};
use bytes::Bytes;
use intendant_core::{Key, limits};

/// A message of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Towards an owner.
    Request(Request),
    /// Back to the requester.
    Response(Response),
    /// Towards an owner.
    SnapshotRequest(SnapshotRequest),
    /// Back to the requester.
    SnapshotPart(SnapshotPart),
    /// Requester to home.
    Localize(Localize),
    /// Home to owner.
    Relocate(Relocate),
    /// Old owner to new owner.
    HandOver(HandOver),
    /// New owner to home.
    Moved(Moved),
    /// Holder of replicas to owner.
    ReplicaRequest(ReplicaRequest),
    /// Owner to holder of replicas.
    ReplicaUpdate(ReplicaUpdate),
    /// Node to node.
    Clock(Clock),
    /// Node to node, within an all-reduce.
    Reduce(Reduce),
    /// Node to home.
    IntentReport(IntentReport),
}

impl Message {
    /// What the message is, for statistics and traces.
    #[must_use]
    pub const fn class(&self) -> MessageClass {
        match self {
            Self::Request(_) => MessageClass::Request,
            Self::Response(_) => MessageClass::Response,
            Self::SnapshotRequest(_) => MessageClass::SnapshotRequest,
            Self::SnapshotPart(_) => MessageClass::SnapshotPart,
            Self::Localize(_) => MessageClass::Localize,
            Self::Relocate(_) => MessageClass::Relocate,
            Self::HandOver(_) => MessageClass::HandOver,
            Self::Moved(_) => MessageClass::Moved,
            Self::ReplicaRequest(_) => MessageClass::ReplicaRequest,
            Self::ReplicaUpdate(_) => MessageClass::ReplicaUpdate,
            Self::Clock(_) => MessageClass::Clock,
            Self::Reduce(_) => MessageClass::Reduce,
            Self::IntentReport(_) => MessageClass::IntentReport,
        }
    }

    /// The keys that the message names, in the order of its frame. A [`Response`] names positions and a
    /// [`Reduce`] indices instead, and a [`SnapshotRequest`] a range: these have none.
    pub fn keys(&self) -> impl Iterator<Item = Key> + Clone + '_ {
        let (keys, more): (&[Key], &[Key]) = match self {
            Self::Request(Request { keys, .. })
            | Self::SnapshotPart(SnapshotPart { keys, .. })
            | Self::Localize(Localize { keys })
            | Self::Relocate(Relocate { keys, .. })
            | Self::HandOver(HandOver { keys, .. })
            | Self::Moved(Moved { keys, .. })
            | Self::ReplicaRequest(ReplicaRequest { keys, .. })
            | Self::ReplicaUpdate(ReplicaUpdate { keys, .. }) => (keys, &[]),
            Self::IntentReport(IntentReport { begun, over }) => (begun, over),
            Self::Response(_) | Self::SnapshotRequest(_) | Self::Clock(_) | Self::Reduce(_) => (&[], &[]),
        };
        keys.iter().chain(more).copied()
    }

    /// The number of keys that the message is about, also if it names them by position or index.
    #[must_use]
    pub fn key_count(&self) -> usize {
        match self {
            Self::Response(response) => response.positions.len(),
            Self::Reduce(reduce) => reduce.indices.len(),
            Self::IntentReport(report) => report.begun.len() + report.over.len(),
            Self::Request(Request { keys, .. })
            | Self::SnapshotPart(SnapshotPart { keys, .. })
            | Self::Localize(Localize { keys })
            | Self::Relocate(Relocate { keys, .. })
            | Self::HandOver(HandOver { keys, .. })
            | Self::Moved(Moved { keys, .. })
            | Self::ReplicaRequest(ReplicaRequest { keys, .. })
            | Self::ReplicaUpdate(ReplicaUpdate { keys, .. }) => keys.len(),
            Self::SnapshotRequest(_) | Self::Clock(_) => 0,
        }
    }

    /// The elements that the message carries, in bytes.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.values().len()
    }

    /// The elements with which the frame ends.
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
        match self {
            Self::Request(message) => message.head(room),
            Self::Response(message) => message.head(room),
            Self::SnapshotRequest(message) => message.head(room),
            Self::SnapshotPart(message) => message.head(room),
            Self::Localize(message) => message.head(room),
            Self::Relocate(message) => message.head(room),
            Self::HandOver(message) => message.head(room),
            Self::Moved(message) => message.head(room),
            Self::ReplicaRequest(message) => message.head(room),
            Self::ReplicaUpdate(message) => message.head(room),
            Self::Clock(message) => message.head(room),
            Self::Reduce(message) => message.head(room),
            Self::IntentReport(message) => message.head(room),
        }
    }

    /// The frame of this message, without length prefix.
    ///
    /// # Panics
    /// In debug builds, if the message exceeds the limits of a frame or its keys and positions differ in
    /// number: senders split what is too long.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let values = self.values();
        let mut frame = self.head(values.len());
        frame.extend_from_slice(values);
        check_length(frame.len());
        Bytes::from(frame)
    }

    /// The frame in two parts: the header with keys and numbers, and the values, which are not copied.
    ///
    /// # Panics
    /// As [`Message::encode`].
    #[must_use]
    pub fn encode_parts(&self) -> (Bytes, Bytes) {
        let (head, values) = (self.head(0), self.values().clone());
        check_length(head.len() + values.len());
        (Bytes::from(head), values)
    }

    /// Reads a frame. Values are not copied: they stay slices of the frame.
    ///
    /// # Errors
    /// If the frame is not exactly one message.
    pub fn decode(frame: Bytes) -> Result<Self, WireError> {
        let (header, body) = Header::read(frame)?;
        match header.class {
            MessageClass::Request => Request::read(&header, body).map(Self::Request),
            MessageClass::Response => Response::read(&header, body).map(Self::Response),
            MessageClass::SnapshotRequest => SnapshotRequest::read(&header, body).map(Self::SnapshotRequest),
            MessageClass::SnapshotPart => SnapshotPart::read(&header, body).map(Self::SnapshotPart),
            MessageClass::Localize => Localize::read(&header, body).map(Self::Localize),
            MessageClass::Relocate => Relocate::read(&header, body).map(Self::Relocate),
            MessageClass::HandOver => HandOver::read(&header, body).map(Self::HandOver),
            MessageClass::Moved => Moved::read(&header, body).map(Self::Moved),
            MessageClass::ReplicaRequest => ReplicaRequest::read(&header, body).map(Self::ReplicaRequest),
            MessageClass::ReplicaUpdate => ReplicaUpdate::read(&header, body).map(Self::ReplicaUpdate),
            MessageClass::Clock => Clock::read(&header, body).map(Self::Clock),
            MessageClass::Reduce => Reduce::read(&header, body).map(Self::Reduce),
            MessageClass::IntentReport => IntentReport::read(&header, body).map(Self::IntentReport),
        }
    }
}

fn check_length(bytes: usize) {
    intendant_core::strict_assert!(bytes <= limits::FRAME_BYTES_MAX, "a frame of {} bytes", bytes);
}
