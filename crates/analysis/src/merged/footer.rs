//! The footer of a Parquet file, checked before the library reads it.
//!
//! The library takes memory for as many elements as a list claims to have, and reads nested columns by
//! recursion. A footer of a few kilobytes can therefore end the process. This check passes over the bytes
//! once. Footers that pass have short lists, shallow structures, and a schema as flat as ours.

use super::thrift::{Malformed, Shape, Walk};
use std::fmt;

/// The most elements of a list, other than the lists of row groups and of columns of the schema. Our longest
/// list has as many elements as the schema has columns.
const LIST_MAX: u64 = 64;

/// The most row groups of a file. Each of ours except the last has a million rows.
const GROUPS_MAX: u64 = 1 << 14;

/// The field of the file's structure that contains the schema.
const SCHEMA: i16 = 2;
/// The field of an element of the schema that says how many of the following elements belong to it.
const CHILDREN: i16 = 5;

const FILE: Shape = Shape::Struct(&[
    (1, Shape::I32),
    (SCHEMA, Shape::List(&ELEMENT, LIST_MAX)),
    (3, Shape::I64),
    (4, Shape::List(&GROUP, GROUPS_MAX)),
    (5, Shape::List(&KEY_VALUE, LIST_MAX)),
    (6, Shape::Binary),
    // How the values of a column are ordered.
    (7, Shape::List(&Shape::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]), LIST_MAX)),
]);
const ELEMENT: Shape = Shape::Struct(&[
    (1, Shape::I32),
    (2, Shape::I32),
    (3, Shape::I32),
    (4, Shape::Binary),
    (CHILDREN, Shape::I32),
    (6, Shape::I32),
    (7, Shape::I32),
    (8, Shape::I32),
    (9, Shape::I32),
    (10, LOGICAL_TYPE),
]);
const EMPTY: Shape = Shape::Struct(&[]);
const TIME: Shape =
    Shape::Struct(&[(1, Shape::Bool), (2, Shape::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);
const LOGICAL_TYPE: Shape = Shape::Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Shape::Struct(&[(1, Shape::I32), (2, Shape::I32)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Shape::Struct(&[(1, Shape::Byte), (2, Shape::Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Shape::Struct(&[(1, Shape::Byte)])),
    (17, Shape::Struct(&[(1, Shape::Binary)])),
    (18, Shape::Struct(&[(1, Shape::Binary), (2, Shape::I32)])),
    (19, EMPTY),
]);
const KEY_VALUE: Shape = Shape::Struct(&[(1, Shape::Binary), (2, Shape::Binary)]);
const GROUP: Shape = Shape::Struct(&[
    (1, Shape::List(&COLUMN, LIST_MAX)),
    (2, Shape::I64),
    (3, Shape::I64),
    (4, Shape::List(&Shape::Struct(&[(1, Shape::I32), (2, Shape::Bool), (3, Shape::Bool)]), LIST_MAX)),
    (5, Shape::I64),
    (6, Shape::I64),
    (7, Shape::I16),
]);
const COLUMN: Shape = Shape::Struct(&[
    (1, Shape::Binary),
    (2, Shape::I64),
    (3, COLUMN_META),
    (4, Shape::I64),
    (5, Shape::I32),
    (6, Shape::I64),
    (7, Shape::I32),
]);
const COLUMN_META: Shape = Shape::Struct(&[
    (1, Shape::I32),
    (2, Shape::List(&Shape::I32, LIST_MAX)),
    (3, Shape::List(&Shape::Binary, LIST_MAX)),
    (4, Shape::I32),
    (5, Shape::I64),
    (6, Shape::I64),
    (7, Shape::I64),
    (8, Shape::List(&KEY_VALUE, LIST_MAX)),
    (9, Shape::I64),
    (10, Shape::I64),
    (11, Shape::I64),
    (12, STATISTICS),
    (13, Shape::List(&Shape::Struct(&[(1, Shape::I32), (2, Shape::I32), (3, Shape::I32)]), LIST_MAX)),
    (14, Shape::I64),
    (15, Shape::I32),
    (16, SIZES),
    (17, Shape::Struct(&[(1, BOX), (2, Shape::List(&Shape::I32, LIST_MAX))])),
]);
pub(super) const STATISTICS: Shape = Shape::Struct(&[
    (1, Shape::Binary),
    (2, Shape::Binary),
    (3, Shape::I64),
    (4, Shape::I64),
    (5, Shape::Binary),
    (6, Shape::Binary),
    (7, Shape::Bool),
    (8, Shape::Bool),
    (9, Shape::I64),
]);
const SIZES: Shape = Shape::Struct(&[
    (1, Shape::I64),
    (2, Shape::List(&Shape::I64, LIST_MAX)),
    (3, Shape::List(&Shape::I64, LIST_MAX)),
]);
const BOX: Shape = Shape::Struct(&[
    (1, Shape::Double),
    (2, Shape::Double),
    (3, Shape::Double),
    (4, Shape::Double),
    (5, Shape::Double),
    (6, Shape::Double),
    (7, Shape::Double),
    (8, Shape::Double),
]);

/// What is wrong with a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The footer may be valid, but the file has other columns than a merged file.
    Foreign,
    /// The file does not end like a Parquet file.
    NoEnd,
    /// The footer would have this many bytes.
    Bytes(u64),
    /// The content of the footer is malformed.
    Malformed(Malformed),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is a Parquet file, but no merged trace: it has other columns"),
            Self::NoEnd => f.write_str("it has no end: it was cut off, or is being written"),
            Self::Bytes(bytes) => write!(f, "its footer would have {bytes} bytes"),
            Self::Malformed(reason) => write!(f, "its footer {reason}"),
        }
    }
}

impl From<Malformed> for Fault {
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

/// Checks the footer of a file whose schema must have `columns` columns.
pub(super) fn check(footer: &[u8], columns: u64) -> Result<(), Fault> {
    let (mut walk, mut number) = (Walk::new(footer), 0);
    while let Some(field) = walk.field(&mut number)? {
        if field.number == SCHEMA {
            let elements = walk.structures(field)?;
            check_schema(&mut walk, elements, columns)?;
        } else {
            walk.value(&FILE, field, 1)?;
        }
    }
    Ok(())
}

/// Checks the schema: it must have a root and one element per column.
fn check_schema(walk: &mut Walk<'_>, elements: u64, columns: u64) -> Result<(), Fault> {
    if elements != columns + 1 {
        return Err(Fault::Foreign);
    }
    for element in 0..elements {
        let wanted = if element == 0 { columns } else { 0 };
        let (mut number, mut children) = (0, 0);
        while let Some(field) = walk.field(&mut number)? {
            if field.number == CHILDREN {
                children = walk.count(field)?;
            } else {
                walk.value(&ELEMENT, field, 3)?;
            }
        }
        if children != wanted {
            return Err(Fault::Foreign);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The structure of a file whose list in field `field` has `elements` copies of `element` and claims to
    /// have `claimed` elements.
    fn with_list(field: u8, claimed: u32, element: &[u8], elements: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, (field - 1) << 4 | 9, 0xf0 | 12];
        let mut rest = claimed;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes.extend(element.repeat(elements));
        bytes.push(0);
        bytes
    }

    #[test]
    fn what_would_end_the_process_is_refused() {
        let malformed = |reason| Err(Fault::Malformed(Malformed(reason)));
        // A column within a column within a column.
        let nested = [0x48, 1, b'a', 0x15, 2, 0];
        assert_eq!(check(&with_list(2, 5000, &nested, 5000), 11), Err(Fault::Foreign));
        assert_eq!(check(&with_list(2, 12, &nested, 12), 11), Err(Fault::Foreign));
        // Lists that only claim to be long.
        assert_eq!(check(&with_list(4, u32::MAX, &[], 0), 11), malformed("has a list that is too long"));
        assert_eq!(check(&with_list(5, 65, &[0], 65), 11), malformed("has a list that is too long"));
        assert_eq!(check(&with_list(4, 9, &[0], 8), 11), malformed("ends too early"));
        assert_eq!(check(&with_list(4, 9, &[0], 9), 11), Ok(()));
        // A list of row groups that claims to be a text, within which the library would read.
        let disguised = [0x15, 2, 0x38, 4, 0xfc, 0xff, 0xff, 0x03, 0];
        assert_eq!(check(&disguised, 11), malformed("has a value of another type than Parquet has there"));
        // A second schema.
        let mut twice = with_list(4, 0, &[], 0);
        twice.splice(twice.len() - 1.., [0x09, 4, 0xfc, 0xff, 0xff, 0x03, 0]);
        assert_eq!(check(&twice, 11), malformed("has a field twice, or its fields in another order"));
    }
}
