//! Reports of intents to homes that decide about keys.
//!
//! | field | of an intent report |
//! | --- | --- |
//! | argument | keys for which intents are over |
//! | count | keys for which intents have begun |
//! | then | keys for which intents have begun, then those for which intents are over |
//!
//! The other fields are zero.

use crate::frame::{Body, Header, KEY_BYTES, Payload, put_keys};
use crate::{HeaderField, MessageClass, WireError};
use intendant_core::{Key, limits};

/// A node reports intents of its workers to the home of the keys, if homes decide about keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentReport {
    /// Keys for which intents have become active.
    pub begun: Vec<Key>,
    /// Keys for which intents are over; `begun` may contain some of them.
    pub over: Vec<Key>,
}

impl Payload for IntentReport {
    fn class(&self) -> MessageClass {
        MessageClass::IntentReport
    }

    fn head(&self, _room: usize) -> Vec<u8> {
        let Self { begun, over } = self;
        let header = Header { argument: over.len() as u32, ..Header::new(self.class(), begun.len()) };
        let mut frame = header.frame((begun.len() + over.len()) * KEY_BYTES);
        put_keys(&mut frame, begun);
        put_keys(&mut frame, over);
        frame
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        header.unused([HeaderField::Tag, HeaderField::Flags, HeaderField::Node, HeaderField::Worker])?;
        let over = header.argument as usize;
        let keys = header.count.saturating_add(over);
        if keys > limits::FRAME_KEYS_MAX {
            return Err(WireError::TooManyKeys { keys });
        }
        body.need(keys * KEY_BYTES)?;
        let (begun, over) = (body.keys(header.count), body.keys(over));
        body.end()?;
        Ok(Self { begun, over })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.begun, &self.over]
    }
}
