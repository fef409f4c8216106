//! Clocks of bounded staleness.
//!
//! | field | of a clock |
//! | --- | --- |
//! | tag | scope |
//! | argument | clock; zero if the scope is resumed |
//!
//! The other fields are zero, and nothing follows the header.

use crate::frame::{Body, Header, Payload};
use crate::{HeaderField, MessageClass, WireError};
use intendant_core::strict_assert;

/// The workers to which a clock belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ClockScope {
    /// The slowest worker of the sending node; all updates from before that clock were sent before this
    /// message.
    Node = 0,
    /// The slowest node, as far as the sender knows; all replica updates from before that clock were sent
    /// before this message.
    Global = 1,
    /// All workers: they have returned from a meeting. The sender has already sent the updates that its
    /// workers made before the meeting. The clock with which the workers returned follows in another message.
    Resumed = 2,
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

/// The clock of the slowest of some workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Which workers.
    pub scope: ClockScope,
    /// Clock of the slowest of them; `u32::MAX` if none is working. 0 for workers that return from a meeting.
    pub clock: u32,
}

impl Payload for Clock {
    fn class(&self) -> MessageClass {
        MessageClass::Clock
    }

    fn head(&self, _room: usize) -> Vec<u8> {
        strict_assert!(self.scope != ClockScope::Resumed || self.clock == 0, "no clock: {self:?}");
        Header { tag: self.scope as u8, argument: self.clock, ..Header::new(self.class(), 0) }.frame(0)
    }

    fn read(header: &Header, body: Body) -> Result<Self, WireError> {
        let scope = ClockScope::from_tag(header.tag)?;
        header.unused([HeaderField::Flags, HeaderField::Node, HeaderField::Worker, HeaderField::Count])?;
        if scope == ClockScope::Resumed {
            header.unused([HeaderField::Argument])?;
        }
        body.end()?;
        Ok(Self { scope, clock: header.argument })
    }
}
