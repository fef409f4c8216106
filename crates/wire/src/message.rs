//! The messages that channel engines send to each other, and their frames.

use crate::frame::{Header, Payload};
use crate::{
    Clock, HandOver, IntentReport, Localize, Locate, Located, MessageClass, Moved, Reduce, Relocate,
    ReplicaRequest, ReplicaUpdate, Request, Response, SnapshotPart, SnapshotRequest, Void, WireError,
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
    /// Requester to home, or to the owner.
    Localize(Localize),
    /// Home to owner.
    Relocate(Relocate),
    /// Old owner to new owner.
    HandOver(HandOver),
    /// New owner to home, or to all nodes.
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
    /// Requester to home.
    Locate(Locate),
    /// Back to the requester.
    Located(Located),
    /// New owner to node.
    Void(Void),
}

impl Message {
    fn payload(&self) -> &dyn Payload {
        match self {
            Self::Request(message) => message,
            Self::Response(message) => message,
            Self::SnapshotRequest(message) => message,
            Self::SnapshotPart(message) => message,
            Self::Localize(message) => message,
            Self::Relocate(message) => message,
            Self::HandOver(message) => message,
            Self::Moved(message) => message,
            Self::ReplicaRequest(message) => message,
            Self::ReplicaUpdate(message) => message,
            Self::Clock(message) => message,
            Self::Reduce(message) => message,
            Self::IntentReport(message) => message,
            Self::Locate(message) => message,
            Self::Located(message) => message,
            Self::Void(message) => message,
        }
    }

    /// What the message is, for statistics and traces.
    #[must_use]
    pub fn class(&self) -> MessageClass {
        self.payload().class()
    }

    /// The keys that the message names, in the order of its frame. There are none for a [`Response`], which
    /// names positions, a [`Reduce`], which names indices, and a [`SnapshotRequest`], which names a range.
    pub fn keys(&self) -> impl Iterator<Item = Key> + Clone + '_ {
        self.payload().keys().into_iter().flatten().copied()
    }

    /// The number of keys that the message is about, even if it names them by position or index.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.payload().key_count()
    }

    /// The elements that the message carries, in bytes.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.payload().values().len()
    }

    /// The frame of this message, without length prefix.
    ///
    /// # Panics
    /// In debug builds, if the message exceeds the limits of a frame or its keys and positions differ in
    /// number: senders split messages that are too long.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let payload = self.payload();
        let values = payload.values();
        let mut frame = payload.head(values.len());
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
        let payload = self.payload();
        let (head, values) = (payload.head(0), payload.values().clone());
        check_length(head.len() + values.len());
        (Bytes::from(head), values)
    }

    /// Reads a frame that is not packed. Values are not copied: they stay slices of the frame. To read the
    /// frames of a connection, use its [`Unpacker`](crate::Unpacker).
    ///
    /// # Errors
    /// If the frame is not exactly one message.
    pub fn decode(frame: Bytes) -> Result<Self, WireError> {
        Self::decode_parts(frame, Bytes::new())
    }

    /// Reads a frame that is `head` followed by `rest`. `head` contains at least the header.
    pub(crate) fn decode_parts(head: Bytes, rest: Bytes) -> Result<Self, WireError> {
        let (header, body) = Header::read(head, rest)?;
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
            MessageClass::Locate => Locate::read(&header, body).map(Self::Locate),
            MessageClass::Located => Located::read(&header, body).map(Self::Located),
            MessageClass::Void => Void::read(&header, body).map(Self::Void),
        }
    }
}

fn check_length(bytes: usize) {
    intendant_core::strict_assert!(bytes <= limits::FRAME_BYTES_MAX, "a frame of {} bytes", bytes);
}
