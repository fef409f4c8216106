//! Thrift's compact protocol, checked before the library reads it.
//!
//! A structure is a sequence of fields, followed by a zero. A field is a byte and a value; the byte has the
//! type of the value and the distance of the field's number from that of the previous field.
//!
//! The library reads the fields that it knows without checking their types, and uses the last of several
//! fields with the same number. A check is only valid if it sees the same values as the library. So the
//! numbers of fields must ascend, and known fields must have the types of Parquet, which a [`Shape`]
//! describes.

use std::fmt;

/// The most levels of nested structures and lists. Ours have six.
const DEPTH_MAX: usize = 8;

/// Types of values. Booleans are 1 and 2 in structures, and a byte each in lists.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const STRUCT: u8 = 12;
}

/// The most elements of a list whose shape is not known.
const LIST_MAX: u64 = 64;

/// The type that a value must have.
#[derive(Debug)]
pub(super) enum Shape {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    /// Elements, at most this many.
    List(&'static Self, u64),
    /// Fields by number. There may be other fields, too, which the library skips.
    Struct(&'static [(i16, Self)]),
}

impl Shape {
    /// The shape of a field of a structure; `None` if the library does not know the field.
    pub(super) fn field(&self, number: i16) -> Option<&Self> {
        let fields = if let Self::Struct(fields) = self { fields } else { &[][..] };
        fields.iter().find(|(known, _)| *known == number).map(|(_, shape)| shape)
    }

    fn fits(&self, kind: u8) -> bool {
        match self {
            Self::Bool => kind == kind::TRUE || kind == kind::FALSE,
            Self::Byte => kind == kind::BYTE,
            Self::I16 => kind == kind::I16,
            Self::I32 => kind == kind::I32,
            Self::I64 => kind == kind::I64,
            Self::Double => kind == kind::DOUBLE,
            Self::Binary => kind == kind::BINARY,
            Self::List(..) => kind == kind::LIST,
            Self::Struct(_) => kind == kind::STRUCT,
        }
    }
}

/// What is wrong, in words that follow "its footer" or "the header of a page".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

pub(super) type Checked<T> = Result<T, Malformed>;

const CUT_OFF: Malformed = Malformed("ends too early");

/// A field: its number, and the type of its value, which follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: i16,
    kind: u8,
}

/// A walk over bytes.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field of a structure; `None` after the last. Its number must be above `before`, the number of
    /// the previous field, which is 0 before the first. Sets `before` to its number.
    pub(super) fn field(&mut self, before: &mut i16) -> Checked<Option<Field>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        let number = match byte >> 4 {
            0 => self.signed()?,
            distance => i64::from(*before) + i64::from(distance),
        };
        let number = i16::try_from(number).ok().filter(|number| *number > *before);
        *before = number.ok_or(Malformed("has a field twice, or its fields in another order"))?;
        Ok(Some(Field { number: *before, kind: byte & 15 }))
    }

    /// Skips the value of a field. The field belongs to a structure of the shape `of`, at the depth `depth`.
    pub(super) fn value(&mut self, of: &Shape, field: Field, depth: usize) -> Checked<()> {
        self.skip(of.field(field.number), field.kind, depth)
    }

    /// The value of a field that must be an integer of 32 bits, and not negative.
    pub(super) fn count(&mut self, field: Field) -> Checked<u64> {
        let value = if field.kind == kind::I32 { self.signed()? } else { -1 };
        i32::try_from(value)
            .ok()
            .and_then(|value| u64::try_from(value).ok())
            .ok_or(Malformed("has a number that cannot be"))
    }

    /// The number of elements of a field that must be a list of structures.
    pub(super) fn structures(&mut self, field: Field) -> Checked<u64> {
        let (kind, elements) = if field.kind == kind::LIST { self.list_start()? } else { (0, 0) };
        if kind != kind::STRUCT {
            return Err(WRONG_TYPE);
        }
        Ok(elements)
    }

    /// Begins a field that must be a structure.
    pub(super) fn structure(&mut self, field: Field) -> Checked<()> {
        if field.kind == kind::STRUCT { Ok(()) } else { Err(WRONG_TYPE) }
    }

    fn skip(&mut self, shape: Option<&Shape>, kind: u8, depth: usize) -> Checked<()> {
        if depth > DEPTH_MAX {
            return Err(Malformed("is nested too deeply"));
        }
        if shape.is_some_and(|shape| !shape.fits(kind)) {
            return Err(WRONG_TYPE);
        }
        match kind {
            kind::TRUE | kind::FALSE => Ok(()),
            kind::BYTE => self.take(1),
            kind::I16 => self.bounded(u16::MAX.into()),
            kind::I32 => self.bounded(u32::MAX.into()),
            kind::I64 => self.bounded(u64::MAX),
            kind::DOUBLE => self.take(8),
            kind::BINARY => {
                let bytes = self.varint()?;
                self.take(bytes)
            }
            kind::LIST | kind::SET => self.list(shape, depth),
            kind::STRUCT => {
                let mut number = 0;
                while let Some(field) = self.field(&mut number)? {
                    let shape = shape.and_then(|shape| shape.field(field.number));
                    self.skip(shape, field.kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(WRONG_TYPE),
        }
    }

    fn list(&mut self, shape: Option<&Shape>, depth: usize) -> Checked<()> {
        let (of, elements_max) = match shape {
            Some(Shape::List(of, elements_max)) => (Some(*of), *elements_max),
            Some(_) | None => (None, LIST_MAX),
        };
        let (kind, elements) = self.list_start()?;
        if elements > elements_max {
            return Err(Malformed("has a list that is too long"));
        }
        for _ in 0..elements {
            match kind {
                kind::TRUE | kind::FALSE if of.is_none_or(|of| of.fits(kind)) => self.take(1)?,
                kind => self.skip(of, kind, depth + 1)?,
            }
        }
        Ok(())
    }

    /// The type and the number of the elements of a list.
    fn list_start(&mut self) -> Checked<(u8, u64)> {
        let byte = self.byte()?;
        let elements = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
        Ok((byte & 15, elements))
    }

    fn byte(&mut self) -> Checked<u8> {
        let (byte, rest) = self.rest.split_first().ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn take(&mut self, bytes: u64) -> Checked<()> {
        self.rest = usize::try_from(bytes).ok().and_then(|bytes| self.rest.get(bytes..)).ok_or(CUT_OFF)?;
        Ok(())
    }

    fn bounded(&mut self, most: u64) -> Checked<()> {
        if self.varint()? <= most { Ok(()) } else { Err(TOO_LONG) }
    }

    /// A signed integer, whose sign is the lowest bit (zigzag encoding).
    fn signed(&mut self) -> Checked<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// An integer: seven bits per byte, the lowest bits first.
    fn varint(&mut self) -> Checked<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(TOO_LONG)
    }
}

const WRONG_TYPE: Malformed = Malformed("has a value of another type than Parquet has there");
const TOO_LONG: Malformed = Malformed("has an integer that is too long");

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Shape =
        Shape::Struct(&[(1, Shape::I32), (2, Shape::Binary), (5, Shape::List(&Shape::I16, 3))]);

    /// Skips all fields of a structure.
    fn walk(bytes: &[u8]) -> Checked<()> {
        let (mut walk, mut number) = (Walk::new(bytes), 0);
        while let Some(field) = walk.field(&mut number)? {
            walk.value(&NAMES, field, 1)?;
        }
        if walk.rest.is_empty() { Ok(()) } else { Err(Malformed("goes on")) }
    }

    #[test]
    fn a_structure_with_the_right_fields_passes() {
        // 1: 3, 2: "a", 5: [1, 2], and an unknown field 40 that is true.
        assert_eq!(walk(&[0x15, 6, 0x18, 1, b'a', 0x39, 0x24, 2, 4, 0x01, 80, 0]), Ok(()));
    }

    #[test]
    fn fields_that_the_library_would_read_otherwise_are_refused() {
        let order = Err(Malformed("has a field twice, or its fields in another order"));
        // Numbers that are the same, descend, are negative, or are 1 only in their lower 16 bits.
        assert_eq!(walk(&[0x15, 6, 0x05, 2, 8, 0]), order);
        assert_eq!(walk(&[0x28, 0, 0x05, 2, 8, 0]), order);
        assert_eq!(walk(&[0x05, 1, 8, 0]), order);
        assert_eq!(walk(&[0x05, 0x82, 0x80, 0x08, 8, 0]), order);
        // Known fields and elements of other types.
        for wrong in [&[0x18, 0, 0][..], &[0x25, 0, 0], &[0x59, 0x15, 2, 0], &[0x5a, 0x04, 0], &[0x1d, 0]] {
            assert_eq!(walk(wrong), Err(WRONG_TYPE), "{wrong:x?}");
        }
        // Integers that have more bits than their type.
        assert_eq!(walk(&[0x15, 0x80, 0x80, 0x80, 0x80, 0x10, 0]), Err(TOO_LONG));
        assert_eq!(walk(&[[0x36].as_slice(), &[0xff; 9], &[0x02, 0]].concat()), Err(TOO_LONG));
        assert_eq!(walk(&[0x59, 0x44, 0, 0, 0, 0, 0]), Err(Malformed("has a list that is too long")));
    }

    #[test]
    fn structures_within_structures_end_somewhere() {
        let deep = [[0x3c].repeat(5000), [0].repeat(5001)].concat();
        assert_eq!(walk(&deep), Err(Malformed("is nested too deeply")));
        assert_eq!(walk(&[0x15]), Err(CUT_OFF));
        assert_eq!(walk(&[0x28, 9, b'a', 0]), Err(CUT_OFF));
    }
}
