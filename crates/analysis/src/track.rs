//! Changes of keys, key by key, as compact columns.

use crate::replay::Place;

/// The changes of all keys, in the order of keys and, for each key, of time.
#[derive(Debug, Default)]
pub(crate) struct Track {
    /// By key, the index of its first change; one more entry at the end.
    start: Vec<u32>,
    at: Vec<u64>,
    code: Vec<u16>,
}

/// The code of an owner that is not known.
const UNKNOWN: u16 = u16::MAX;
/// The code of a key that is on its way.
const MOVING: u16 = u16::MAX - 1;
/// The bit of a code that says that the node holds a replica, or has an intent, from then on.
const ON: u16 = 1 << 15;

/// The owner as a code.
pub(crate) fn owner_code(place: Place) -> u16 {
    match place {
        Place::Unknown => UNKNOWN,
        Place::Moving { .. } => MOVING,
        Place::At { node } => node,
    }
}

pub(crate) fn owner_of(code: u16) -> Option<u16> {
    (code < MOVING).then_some(code)
}

pub(crate) fn switch_code((node, is_on): (u16, bool)) -> u16 {
    node | if is_on { ON } else { 0 }
}

/// The node, and whether it holds a replica (or has an intent) from then on.
pub(crate) fn switch_of(code: u16) -> (u16, bool) {
    (code & !ON, code & ON != 0)
}

impl Track {
    /// Begins the next key: later pushes belong to it.
    pub(crate) fn next_key(&mut self) {
        self.start.push(self.at.len() as u32);
    }

    pub(crate) fn push(&mut self, at: u64, code: u16) {
        self.at.push(at);
        self.code.push(code);
    }

    pub(crate) fn end(&mut self) {
        self.next_key();
        self.at.shrink_to_fit();
        self.code.shrink_to_fit();
    }

    /// The changes of the key at the position `key`: times and codes.
    pub(crate) fn of(&self, key: usize) -> (&[u64], &[u16]) {
        let bounds = self.start.get(key).zip(self.start.get(key + 1));
        let Some((from, to)) = bounds else { return (&[], &[]) };
        let range = *from as usize..*to as usize;
        (&self.at[range.clone()], &self.code[range])
    }

    /// The code that is valid at a time: that of the latest change until then.
    pub(crate) fn code_at(&self, key: usize, at_us: u64) -> Option<u16> {
        let (times, codes) = self.of(key);
        times.partition_point(|time| *time <= at_us).checked_sub(1).map(|last| codes[last])
    }
}
