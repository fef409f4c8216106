//! The lists of a frame, and the forms that they can have.

use super::dictionary::{AGE_BYTES, Dictionary};
use crate::{MessageClass, ReplicaRequestKind, ReplicaUpdateKind, WireError};
use bytes::{Buf, Bytes};

/// Maximum number of lists of a frame.
pub(super) const LISTS_MAX: usize = 5;

/// Maximum number of bytes that forms add to a frame.
pub(super) const MARKS: usize = LISTS_MAX;

/// A list of `count` numbers of `width` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    width: usize,
    count: usize,
}

impl List {
    pub(super) fn bytes(&self) -> usize {
        self.width * self.count
    }
}

/// The lists that follow the header of a frame, in order, padded with empty ones.
pub(super) type Lists = [List; LISTS_MAX];

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    AsIs,
    Progression { first: u64, step: u64 },
    Remember,
    Remembered(u32),
}

const AS_IS: u8 = 0;
const PROGRESSION: u8 = 1;
const REMEMBER: u8 = 2;
const REMEMBERED: u8 = 3;

impl Form {
    /// Bytes that the form saves.
    pub(super) fn saves(self, list: List) -> usize {
        let bytes = match self {
            Self::AsIs | Self::Remember => list.bytes(),
            Self::Progression { .. } => 2 * list.width,
            Self::Remembered(_) => AGE_BYTES,
        };
        list.bytes().saturating_sub(bytes)
    }

    /// Appends a list whose numbers are `raw`.
    pub(super) fn put(self, packed: &mut Vec<u8>, list: List, raw: &[u8]) {
        match self {
            Self::AsIs | Self::Remember => {
                packed.push(if self == Self::AsIs { AS_IS } else { REMEMBER });
                packed.extend_from_slice(raw);
            }
            Self::Progression { first, step } => {
                packed.push(PROGRESSION);
                [first, step]
                    .iter()
                    .for_each(|part| packed.extend_from_slice(&part.to_le_bytes()[..list.width]));
            }
            Self::Remembered(age) => {
                packed.push(REMEMBERED);
                packed.extend_from_slice(&age.to_le_bytes());
            }
        }
    }
}

/// Appends the numbers of the next list of `body` to `head`.
pub(super) fn restore(
    head: &mut Vec<u8>,
    list: List,
    body: &mut Bytes,
    dictionary: &mut Dictionary,
) -> Result<(), WireError> {
    need(body, 1)?;
    match body.get_u8() {
        AS_IS => {
            need(body, list.bytes())?;
            head.extend_from_slice(&body.split_to(list.bytes()));
        }
        PROGRESSION => {
            need(body, 2 * list.width)?;
            let (first, step) = (body.get_uint_le(list.width), body.get_uint_le(list.width));
            head.reserve(list.bytes());
            let mut number = first;
            for _ in 0..list.count {
                head.extend_from_slice(&number.to_le_bytes()[..list.width]);
                number = number.wrapping_add(step);
            }
        }
        REMEMBER => {
            need(body, list.bytes())?;
            let raw = body.split_to(list.bytes());
            head.extend_from_slice(&raw);
            dictionary.insert(&raw);
        }
        REMEMBERED => {
            need(body, AGE_BYTES)?;
            let age = body.get_u32_le();
            match dictionary.get(age) {
                Some(raw) if raw.len() == list.bytes() => head.extend_from_slice(raw),
                _ => return Err(WireError::NoSuchList { age, bytes: list.bytes() }),
            }
        }
        value => return Err(WireError::UnknownTag { field: "form of a list", value }),
    }
    Ok(())
}

fn need(body: &Bytes, bytes: usize) -> Result<(), WireError> {
    if body.len() < bytes {
        return Err(WireError::Truncated { bytes: body.len(), needed: bytes });
    }
    Ok(())
}

/// The field `count` of a header.
pub(super) fn count(head: &[u8]) -> usize {
    number(head, 12)
}

fn number(head: &[u8], at: usize) -> usize {
    let (raw, _) = head[at..].split_first_chunk().expect("a header has all fields");
    u32::from_le_bytes(*raw) as usize
}

/// The lists of a frame that begins with the header `head`. For an invalid header, the result is arbitrary.
pub(super) fn lists(head: &[u8]) -> Lists {
    let (tag, flagged) = (head[1], head[2] == 1);
    let (count, argument) = (count(head), number(head, 8));
    let keys = |count| List { width: 8, count };
    let numbers = |there: bool| List { width: 4, count: if there { count } else { 0 } };
    let none = List::default();
    let Some(class) = MessageClass::from_number(head[0]) else { return [none; LISTS_MAX] };
    match class {
        MessageClass::Request | MessageClass::Relocate | MessageClass::HandOver | MessageClass::Moved => {
            [keys(count), numbers(true), none, none, none]
        }
        MessageClass::Response => [numbers(true), numbers(flagged), none, none, none],
        MessageClass::Localize | MessageClass::Locate | MessageClass::Located => {
            [keys(count), none, none, none, none]
        }
        MessageClass::ReplicaRequest => {
            let numbered = tag != ReplicaRequestKind::Drop as u8;
            [keys(count), numbers(true), numbers(numbered), none, none]
        }
        MessageClass::ReplicaUpdate => {
            let numbered = numbers(tag != ReplicaUpdateKind::Dropped as u8);
            [keys(count), numbers(true), numbered, numbered, numbers(flagged)]
        }
        MessageClass::Reduce => [numbers(true), none, none, none, none],
        MessageClass::IntentReport => [keys(count), keys(argument), none, none, none],
        MessageClass::Void => [keys(count), numbers(true), numbers(true), none, none],
        MessageClass::SnapshotRequest | MessageClass::SnapshotPart | MessageClass::Clock => [none; LISTS_MAX],
    }
}

/// The form of the list of the numbers `raw` as a progression, if it is one.
pub(super) fn progression(list: List, raw: &[u8]) -> Option<Form> {
    match list.width {
        8 => find(raw.as_chunks().0, u64::from_le_bytes, u64::wrapping_sub, u64::wrapping_add)
            .map(|(first, step)| Form::Progression { first, step }),
        _ => find(raw.as_chunks().0, u32::from_le_bytes, u32::wrapping_sub, u32::wrapping_add)
            .map(|(first, step)| Form::Progression { first: first.into(), step: step.into() }),
    }
}

fn find<T: Copy + PartialEq, const N: usize>(
    raw: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
    less: impl Fn(T, T) -> T,
    more: impl Fn(T, T) -> T,
) -> Option<(T, T)> {
    let [first, second, .., last] = raw else { return None };
    let (first, last) = (read(*first), read(*last));
    let step = less(read(*second), first);
    // Most lists are not progressions, and a few of their numbers show this.
    let middle = raw.len() / 2;
    if less(read(raw[middle]), read(raw[middle - 1])) != step || less(last, read(raw[raw.len() - 2])) != step
    {
        return None;
    }
    raw.windows(2).all(|pair| more(read(pair[0]), step) == read(pair[1])).then_some((first, step))
}
