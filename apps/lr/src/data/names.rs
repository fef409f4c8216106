//! The names of features: libsvm's numbers, or names that are hashed.

use intendant_formats::{NameIndex, Names};
use xxhash_rust::xxh3::xxh3_64;

/// The slot of a name among 2 to the power of `bits`: the low bits of its XXH3 hash. The function stays the
/// same in all versions, because exported models depend on it.
///
/// # Panics
/// If there are more than 32 bits.
#[must_use]
pub fn slot(name: &str, bits: u8) -> u32 {
    assert!(bits <= 32, "{bits} bits");
    (xxh3_64(name.as_bytes()) & ((1 << bits) - 1)) as u32
}

/// Maximum number of distinct names that are kept for exports.
pub(super) const NAMES_MAX: usize = 1 << 22;

/// How the features of a data set are named.
#[derive(Clone, Debug)]
pub enum Naming {
    /// The name of feature i is the number i + 1.
    Numbers,
    /// Features are slots of a hash.
    Hashed(Hashed),
}

/// Names whose hashes are features.
#[derive(Clone, Debug)]
pub struct Hashed {
    bits: u8,
    names: Names,
    /// The slot of each name.
    slots: Vec<u32>,
    /// Whether there were more names than the maximum that is kept.
    is_full: bool,
}

impl Hashed {
    /// A naming without names yet.
    pub(super) fn new(bits: u8) -> Self {
        Self { bits, names: Names::default(), slots: Vec::new(), is_full: false }
    }

    /// Bits of a slot.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The number of distinct names, and the number of those that share a slot with an earlier one. `None` if
    /// there were too many to count.
    pub fn collisions(&self) -> Option<(usize, usize)> {
        let mut slots = self.slots.clone();
        slots.sort_unstable();
        slots.dedup();
        (!self.is_full).then_some((self.names.len(), self.names.len() - slots.len()))
    }

    /// The slot of `name`; remembers the name.
    pub(super) fn intern(&mut self, index: &mut NameIndex, name: &str) -> u32 {
        let known = self.names.len();
        if let Some(id) = index.find(&self.names, name) {
            return self.slots[id as usize];
        }
        let slot = slot(name, self.bits);
        if known < NAMES_MAX && index.intern(&mut self.names, name).is_some() {
            self.slots.push(slot);
        } else {
            self.is_full = true;
        }
        slot
    }
}

impl Naming {
    /// The feature with the name `name`, if it can exist.
    pub fn find(&self, name: &str) -> Option<u32> {
        match self {
            Self::Numbers => name.parse::<u32>().ok()?.checked_sub(1),
            Self::Hashed(hashed) => {
                hashed.names.iter().any(|known| known == name).then(|| slot(name, hashed.bits))
            }
        }
    }

    /// The names of features, ascending by feature; empty if features are numbers. Names that share a slot
    /// are in the order in which they first occurred.
    pub fn names(&self) -> Vec<(u32, &str)> {
        match self {
            Self::Numbers => Vec::new(),
            Self::Hashed(hashed) => {
                let mut names: Vec<_> = hashed.slots.iter().copied().zip(hashed.names.iter()).collect();
                names.sort_by_key(|(slot, _)| *slot);
                names
            }
        }
    }

    /// The number of a feature in the data: libsvm's index, or the slot.
    pub const fn number(&self, feature: u32) -> u64 {
        match self {
            Self::Numbers => feature as u64 + 1,
            Self::Hashed(_) => feature as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_a_promise() {
        assert_eq!(
            ["", "age", "job=clerk", "é"].map(|name| slot(name, 20)),
            [234_690, 323_729, 1_041_534, 68_787]
        );
        // The hash of the empty text, from its specification.
        assert_eq!(slot("", 32), 0x38d3_94c2);
        assert_eq!(slot("age", 32) & 0xff, slot("age", 8));
        assert_eq!(slot("age", 0), 0);
    }

    #[test]
    fn names_that_share_a_slot_are_all_kept() {
        let (mut hashed, mut index) = (Hashed::new(1), NameIndex::default());
        let names = ["a", "b", "c", "a", "d"];
        let slots = names.map(|name| hashed.intern(&mut index, name));
        assert_eq!(slots, names.map(|name| slot(name, 1)));
        assert_eq!(hashed.collisions(), Some((4, 2)));
        let naming = Naming::Hashed(hashed);
        let found = naming.names();
        assert_eq!(found.len(), 4);
        assert!(found.is_sorted_by_key(|(slot, _)| *slot));
        assert!(names.iter().zip(slots).all(|(name, slot)| naming.find(name) == Some(slot)));
        assert_eq!(naming.find("e"), None);
    }

    #[test]
    fn numbers_begin_with_1() {
        assert_eq!(
            (Naming::Numbers.find("1"), Naming::Numbers.find("0"), Naming::Numbers.find("x")),
            (Some(0), None, None)
        );
        assert_eq!(Naming::Numbers.number(0), 1);
    }
}
