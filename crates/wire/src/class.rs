//! The classes of messages. The class is the first byte of a frame; statistics count messages by class.

use std::fmt;

/// What a message is, without its content. The number of a class is the first byte of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageClass {
    /// [`Request`](crate::Request).
    Request = 1,
    /// [`Response`](crate::Response).
    Response = 2,
    /// [`SnapshotRequest`](crate::SnapshotRequest).
    SnapshotRequest = 3,
    /// [`SnapshotPart`](crate::SnapshotPart).
    SnapshotPart = 4,
    /// [`Localize`](crate::Localize).
    Localize = 5,
    /// [`Relocate`](crate::Relocate).
    Relocate = 6,
    /// [`HandOver`](crate::HandOver).
    HandOver = 7,
    /// [`Moved`](crate::Moved).
    Moved = 8,
    /// [`ReplicaRequest`](crate::ReplicaRequest).
    ReplicaRequest = 9,
    /// [`ReplicaUpdate`](crate::ReplicaUpdate).
    ReplicaUpdate = 10,
    /// [`Clock`](crate::Clock).
    Clock = 11,
    /// [`Reduce`](crate::Reduce).
    Reduce = 12,
    /// [`IntentReport`](crate::IntentReport).
    IntentReport = 13,
    /// [`Locate`](crate::Locate).
    Locate = 14,
    /// [`Located`](crate::Located).
    Located = 15,
    /// [`Void`](crate::Void).
    Void = 16,
}

/// The mechanism that a class of messages belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageFamily {
    /// Pull, push and set at the owner.
    Access,
    /// Reading what a node owns.
    Snapshot,
    /// Moving main copies.
    Relocation,
    /// Replicas through the owner.
    Replica,
    /// Clocks of bounded staleness.
    Clock,
    /// Static replicas.
    AllReduce,
    /// Reports of intents to homes that decide about keys.
    Intent,
    /// Finding main copies.
    Location,
}

impl MessageClass {
    /// All classes, by number.
    pub const ALL: [Self; 16] = [
        Self::Request,
        Self::Response,
        Self::SnapshotRequest,
        Self::SnapshotPart,
        Self::Localize,
        Self::Relocate,
        Self::HandOver,
        Self::Moved,
        Self::ReplicaRequest,
        Self::ReplicaUpdate,
        Self::Clock,
        Self::Reduce,
        Self::IntentReport,
        Self::Locate,
        Self::Located,
        Self::Void,
    ];

    /// The name, as statistics and traces show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::SnapshotRequest => "snapshot request",
            Self::SnapshotPart => "snapshot part",
            Self::Localize => "localize",
            Self::Relocate => "relocate",
            Self::HandOver => "hand-over",
            Self::Moved => "moved",
            Self::ReplicaRequest => "replica request",
            Self::ReplicaUpdate => "replica update",
            Self::Clock => "clock",
            Self::Reduce => "reduce",
            Self::IntentReport => "intent report",
            Self::Locate => "locate",
            Self::Located => "located",
            Self::Void => "void",
        }
    }

    /// The mechanism.
    #[must_use]
    pub const fn family(self) -> MessageFamily {
        match self {
            Self::Request | Self::Response => MessageFamily::Access,
            Self::SnapshotRequest | Self::SnapshotPart => MessageFamily::Snapshot,
            Self::Localize | Self::Relocate | Self::HandOver | Self::Moved => MessageFamily::Relocation,
            Self::ReplicaRequest | Self::ReplicaUpdate => MessageFamily::Replica,
            Self::Clock => MessageFamily::Clock,
            Self::Reduce => MessageFamily::AllReduce,
            Self::IntentReport => MessageFamily::Intent,
            Self::Locate | Self::Located | Self::Void => MessageFamily::Location,
        }
    }

    pub(crate) fn from_number(value: u8) -> Option<Self> {
        Self::ALL.get(usize::from(value).wrapping_sub(1)).copied()
    }
}

impl fmt::Display for MessageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does not compile without an arm for every class.
    fn next(class: MessageClass) -> Option<MessageClass> {
        match class {
            MessageClass::Request => Some(MessageClass::Response),
            MessageClass::Response => Some(MessageClass::SnapshotRequest),
            MessageClass::SnapshotRequest => Some(MessageClass::SnapshotPart),
            MessageClass::SnapshotPart => Some(MessageClass::Localize),
            MessageClass::Localize => Some(MessageClass::Relocate),
            MessageClass::Relocate => Some(MessageClass::HandOver),
            MessageClass::HandOver => Some(MessageClass::Moved),
            MessageClass::Moved => Some(MessageClass::ReplicaRequest),
            MessageClass::ReplicaRequest => Some(MessageClass::ReplicaUpdate),
            MessageClass::ReplicaUpdate => Some(MessageClass::Clock),
            MessageClass::Clock => Some(MessageClass::Reduce),
            MessageClass::Reduce => Some(MessageClass::IntentReport),
            MessageClass::IntentReport => Some(MessageClass::Locate),
            MessageClass::Locate => Some(MessageClass::Located),
            MessageClass::Located => Some(MessageClass::Void),
            MessageClass::Void => None,
        }
    }

    #[test]
    fn all_classes_are_all() {
        let chain: Vec<_> =
            std::iter::successors(Some(MessageClass::Request), |class| next(*class)).collect();
        assert_eq!(chain, MessageClass::ALL);
    }

    #[test]
    fn a_class_is_found_by_its_number() {
        for class in MessageClass::ALL {
            assert_eq!(MessageClass::from_number(class as u8), Some(class));
        }
        for value in [0, MessageClass::ALL.len() as u8 + 1, 255] {
            assert_eq!(MessageClass::from_number(value), None);
        }
    }
}
