//! Registers: values that workers overwrite, and what pulls of them may see.
//!
//! Every set writes a unique number into all elements of a value, so a pull shows which set it saw. Exact
//! consistency checks of such histories are hard in general. These rules are necessary conditions and cheap
//! to check: a pull is not torn, sees a set that was issued, and never returns to a set that its worker knows
//! to be overwritten.

use intendant_core::{Element, Key};
use std::collections::BTreeMap;

/// The number in initial values.
const INITIAL: u32 = 0;

/// A register value that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {key:?}, which {what}", worker.map_or("the final value of".to_owned(), |worker| format!("worker {worker} pulls")))]
pub struct BadRegister {
    /// The worker that pulled it; `None` for a final value.
    pub worker: Option<usize>,
    /// The key.
    pub key: Key,
    /// What is wrong.
    pub what: String,
    of_order: bool,
}

impl BadRegister {
    /// Whether only the order of operations is wrong: the value is one that was written.
    #[must_use]
    pub const fn is_of_order(&self) -> bool {
        self.of_order
    }
}

/// Identifies an outstanding pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadId(usize);

/// An operation on a register.
#[derive(Clone, Copy)]
enum Operation {
    /// The number that it wrote.
    Set(u32),
    /// The number that it saw; `None` while the pull is outstanding.
    Pull(Option<u32>),
}

/// Operations of all workers, in the order in which they were issued.
#[derive(Default)]
pub struct Registers {
    records: Vec<(usize, Key, Operation)>,
    /// The key of set `n` is at `n - 1`.
    sets: Vec<Key>,
}

/// A worker's knowledge of a key.
#[derive(Default)]
struct View {
    /// The number that it saw or wrote last.
    last: u32,
    /// Numbers that it knows to be overwritten.
    overwritten: Vec<u32>,
}

impl View {
    /// The worker saw or wrote `tag`, so the number before is overwritten.
    fn turn_to(&mut self, tag: u32) {
        if self.last != tag {
            self.overwritten.push(self.last);
            self.last = tag;
        }
    }
}

impl Registers {
    /// Fills an initial value.
    pub fn initial<E: Element>(value: &mut [E]) {
        value.fill(E::from_f64(f64::from(INITIAL)));
    }

    /// A worker issues a set of `key`; returns the number to write into all elements.
    pub fn set(&mut self, worker: usize, key: Key) -> u32 {
        self.sets.push(key);
        let tag = self.sets.len() as u32;
        self.records.push((worker, key, Operation::Set(tag)));
        tag
    }

    /// A worker issues a pull of `key`.
    pub fn pull(&mut self, worker: usize, key: Key) -> ReadId {
        self.records.push((worker, key, Operation::Pull(None)));
        ReadId(self.records.len() - 1)
    }

    /// Records the value of a completed pull.
    ///
    /// # Errors
    /// If the value is torn or was never written.
    ///
    /// # Panics
    /// If `id` is not from this object, or the value is empty.
    pub fn pulled<E: Element>(&mut self, id: ReadId, value: &[E]) -> Result<(), BadRegister> {
        let (worker, key, _) = self.records[id.0];
        let tag = self.decode(key, value).map_err(|what| BadRegister {
            worker: Some(worker),
            key,
            what,
            of_order: false,
        })?;
        self.records[id.0].2 = Operation::Pull(Some(tag));
        Ok(())
    }

    fn decode<E: Element>(&self, key: Key, value: &[E]) -> Result<u32, String> {
        let tag = value[0];
        if value.iter().any(|element| *element != tag) {
            return Err(format!("is torn: {value:?}"));
        }
        let number = tag.to_f64() as u32;
        let issued = number == INITIAL || self.sets.get(number as usize - 1) == Some(&key);
        if f64::from(number) == tag.to_f64() && issued {
            return Ok(number);
        }
        Err(format!("is {tag}, which was never written"))
    }

    /// Checks a final value.
    ///
    /// # Errors
    /// If it is not one of those that were written.
    ///
    /// # Panics
    /// If the value is empty.
    pub fn ended<E: Element>(&self, key: Key, value: &[E]) -> Result<(), BadRegister> {
        let bad = |what| BadRegister { worker: None, key, what, of_order: false };
        let tag = self.decode(key, value).map_err(bad)?;
        if tag == INITIAL && self.sets.contains(&key) {
            return Err(bad("has its initial value, although it was overwritten".to_owned()));
        }
        Ok(())
    }

    /// Checks that no worker sees an overwritten value again.
    ///
    /// # Errors
    /// The first pull that returns to an overwritten value.
    pub fn check(&self) -> Result<(), BadRegister> {
        let mut views: BTreeMap<(usize, Key), View> = BTreeMap::new();
        for (worker, key, operation) in &self.records {
            let tag = match operation {
                Operation::Set(tag) | Operation::Pull(Some(tag)) => *tag,
                Operation::Pull(None) => continue,
            };
            let view = views.entry((*worker, *key)).or_default();
            if view.overwritten.contains(&tag) {
                let what = format!("is {tag}, which the worker knows to be overwritten");
                return Err(BadRegister { worker: Some(*worker), key: *key, what, of_order: true });
            }
            view.turn_to(tag);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key(3);

    /// Worker 0 pulls the initial value and sets a, worker 1 sets b; then the given pulls follow.
    fn pulls(then: &[(usize, [f32; 2])]) -> Result<(), BadRegister> {
        let mut registers = Registers::default();
        let first = registers.pull(0, KEY);
        registers.pulled(first, &[0.0f32, 0.0])?;
        assert_eq!((registers.set(0, KEY), registers.set(1, KEY)), (1, 2));
        for (worker, value) in then {
            let id = registers.pull(*worker, KEY);
            registers.pulled(id, value)?;
        }
        registers.check()
    }

    #[test]
    fn overwritten_values_do_not_come_back() {
        assert_eq!(pulls(&[(0, [1.0, 1.0]), (0, [2.0, 2.0]), (1, [2.0, 2.0])]), Ok(()));
        assert_eq!(pulls(&[(1, [1.0, 1.0])]), Ok(()), "a may have come after b");
        assert!(pulls(&[(0, [0.0, 0.0])]).is_err(), "its own set came after the initial value");
        assert!(pulls(&[(0, [2.0, 2.0]), (0, [1.0, 1.0])]).is_err(), "b overwrote a");
        assert!(pulls(&[(1, [1.0, 2.0])]).is_err(), "torn");
        assert!(pulls(&[(1, [9.0, 9.0])]).is_err(), "9 was never written");
    }

    #[test]
    fn the_end_is_one_of_the_sets() {
        let mut registers = Registers::default();
        assert_eq!(registers.ended(KEY, &[0.0f64]), Ok(()));
        let tag = f64::from(registers.set(0, KEY));
        assert_eq!(registers.ended(KEY, &[tag]), Ok(()));
        assert!(registers.ended(KEY, &[0.0f64]).is_err(), "the set is lost");
        assert!(registers.ended(Key(4), &[tag]).is_err(), "that was another key");
    }
}
