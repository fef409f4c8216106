//! The steps of an all-reduce.
//!
//! | field | of a reduce |
//! | --- | --- |
//! | tag | step |
//! | flags | 1 if this is the last part of the step |
//! | argument | round |
//! | count | indices |
//! | then | indices, the elements of these keys |
//!
//! Node and worker are zero.

use crate::frame::{Body, Header, NUMBER_BYTES, Payload, check_ascending, put_numbers};
use crate::{HeaderField, MessageClass, WireError};
use bytes::Bytes;
use intendant_core::strict_assert;

/// A part of what a node sends to another in one step of an all-reduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// Which all-reduce.
    pub round: u32,
    /// Which step of it.
    pub step: u8,
    /// Whether this is the last part of the step.
    pub last: bool,
    /// Indices into the list of static keys, ascending.
    pub indices: Vec<u32>,
    /// The elements of these keys, little-endian, concatenated.
    pub values: Bytes,
}

impl Payload for Reduce {
    fn class(&self) -> MessageClass {
        MessageClass::Reduce
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { round, step, last, indices, values: _ } = self;
        strict_assert!(check_indices(indices).is_ok(), "indices ascend: {indices:?}");
        let header = Header {
            tag: *step,
            flags: u8::from(*last),
            argument: *round,
            ..Header::new(self.class(), indices.len())
        };
        let mut frame = header.frame(indices.len() * NUMBER_BYTES + room);
        put_numbers(&mut frame, indices);
        frame
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        header.unused([HeaderField::Node, HeaderField::Worker])?;
        let last = match header.flags {
            0 => false,
            1 => true,
            value => return Err(WireError::UnknownTag { field: "flags of a reduce", value }),
        };
        body.need(header.count * NUMBER_BYTES)?;
        let indices = body.numbers(header.count);
        check_indices(&indices)?;
        Ok(Self { round: header.argument, step: header.tag, last, indices, values: body.values() })
    }

    fn key_count(&self) -> usize {
        self.indices.len()
    }

    fn values(&self) -> &Bytes {
        &self.values
    }
}

fn check_indices(indices: &[u32]) -> Result<(), WireError> {
    check_ascending("indices of a reduce", indices.iter())
}
