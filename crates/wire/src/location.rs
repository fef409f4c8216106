//! Finding main copies.
//!
//! | class | node | count | then |
//! | --- | --- | --- | --- |
//! | locate | | keys | keys |
//! | located | owner | keys | keys |
//! | void | | keys | keys, numbers after which broadcasts are void, numbers up to which they are |
//!
//! The other fields are zero.

use crate::frame::{Body, Header, KEY_BYTES, NUMBER_BYTES, Payload};
use crate::{HeaderField, MessageClass, WireError};
use intendant_core::{Key, NodeId};

/// Asks the home of keys where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locate {
    /// The keys.
    pub keys: Vec<Key>,
}

/// The home of keys says where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The node that has them, or gets them next.
    pub at: NodeId,
    /// The keys.
    pub keys: Vec<Key>,
}

/// A new owner of keys tells a node which of that node's broadcasts no owner has executed or will execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Void {
    /// The keys.
    pub keys: Vec<Key>,
    /// Per key, the number of the receiver's last broadcast that an owner has decided; the void ones come
    /// after it.
    pub after: Vec<u32>,
    /// Per key, the number of the receiver's last broadcast that is void.
    pub upto: Vec<u32>,
}

impl Payload for Locate {
    fn class(&self) -> MessageClass {
        MessageClass::Locate
    }

    fn head(&self, room: usize) -> Vec<u8> {
        Header::new(self.class(), self.keys.len()).frame_of_keys(&self.keys, &[], room)
    }

    fn read(header: &Header, body: Body) -> Result<Self, WireError> {
        header.unused([HeaderField::Node])?;
        Ok(Self { keys: only_keys(header, body)? })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }
}

impl Payload for Located {
    fn class(&self) -> MessageClass {
        MessageClass::Located
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { at, keys } = self;
        Header { node: at.0, ..Header::new(self.class(), keys.len()) }.frame_of_keys(keys, &[], room)
    }

    fn read(header: &Header, body: Body) -> Result<Self, WireError> {
        Ok(Self { at: NodeId(header.node), keys: only_keys(header, body)? })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }
}

impl Payload for Void {
    fn class(&self) -> MessageClass {
        MessageClass::Void
    }

    fn head(&self, room: usize) -> Vec<u8> {
        let Self { keys, after, upto } = self;
        Header::new(self.class(), keys.len()).frame_of_keys(keys, &[after, upto], room)
    }

    fn read(header: &Header, mut body: Body) -> Result<Self, WireError> {
        unused(header)?;
        header.unused([HeaderField::Node])?;
        let count = header.count;
        body.need(count * (KEY_BYTES + 2 * NUMBER_BYTES))?;
        let (keys, after, upto) = (body.keys(count), body.numbers(count), body.numbers(count));
        body.end()?;
        Ok(Self { keys, after, upto })
    }

    fn keys(&self) -> [&[Key]; 2] {
        [&self.keys, &[]]
    }
}

/// Checks the fields that no message of this family uses.
fn unused(header: &Header) -> Result<(), WireError> {
    header.unused([HeaderField::Tag, HeaderField::Flags, HeaderField::Worker, HeaderField::Argument])
}

/// A body that consists of keys.
fn only_keys(header: &Header, mut body: Body) -> Result<Vec<Key>, WireError> {
    unused(header)?;
    body.need(header.count * KEY_BYTES)?;
    let keys = body.keys(header.count);
    body.end()?;
    Ok(keys)
}
