//! Lists that both ends of a connection remember.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Bytes of lists that each end of a connection remembers, per direction; each list counts as [`LIST_BYTES`]
/// more. The lists of a frame with the most keys have 12 MiB.
const REMEMBERED_BYTES_MAX: usize = 8 << 20;

/// What a list costs in addition to its bytes.
const LIST_BYTES: usize = 64;

/// Shorter lists are not remembered: a reference has 4 bytes, and a remembered list replaces others.
const BYTES_MIN: usize = 32;

/// Longer lists are not remembered: they would replace all others.
const BYTES_MAX: usize = REMEMBERED_BYTES_MAX / 4;

/// Bytes of a reference.
pub(super) const AGE_BYTES: usize = 4;

/// Remembered lists: the newest ones, of a limited total size. Both ends of a connection have the same lists
/// after each frame. They need no message for this: the frames determine which lists are inserted and which
/// are forgotten.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// The oldest list is first.
    lists: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Dictionary {
    /// Remembers a list.
    pub(super) fn insert(&mut self, list: &[u8]) {
        self.insert_and(list, |_| ());
    }

    /// Remembers a list; `forget` gets each list that is forgotten, from the oldest on.
    fn insert_and(&mut self, list: &[u8], mut forget: impl FnMut(&[u8])) {
        self.bytes += list.len() + LIST_BYTES;
        self.lists.push_back(list.into());
        while self.bytes > REMEMBERED_BYTES_MAX
            && let Some(oldest) = self.lists.pop_front()
        {
            self.bytes -= oldest.len() + LIST_BYTES;
            forget(&oldest);
        }
    }

    /// The list after which `age` others were inserted.
    pub(super) fn get(&self, age: u32) -> Option<&[u8]> {
        let at = self.lists.len().checked_sub(age as usize + 1)?;
        Some(&self.lists[at])
    }
}

/// The dictionary at the sender, which finds lists in it.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    dictionary: Dictionary,
    /// The numbers of the lists, by their hashes. Lists are numbered in the order of their insertion.
    numbers: HashTable<u64>,
    /// The number of the oldest list.
    first: u64,
}

fn hash(list: &[u8]) -> u64 {
    FixedState::default().hash_one(list)
}

impl Remembered {
    /// Whether a list is worth remembering.
    pub(super) fn takes(list: &[u8]) -> bool {
        (BYTES_MIN..=BYTES_MAX).contains(&list.len())
    }

    /// How many lists were inserted after `list`, if it is remembered.
    pub(super) fn find(&self, list: &[u8]) -> Option<u32> {
        let lists = &self.dictionary.lists;
        let at = |number: u64| (number - self.first) as usize;
        let number = *self.numbers.find(hash(list), |number| *lists[at(*number)] == *list)?;
        Some((lists.len() - 1 - at(number)) as u32)
    }

    /// Remembers a list that was not remembered, and that [`Remembered::takes`].
    pub(super) fn insert(&mut self, list: &[u8]) {
        let Self { dictionary, numbers, first } = self;
        dictionary.insert_and(list, |oldest| {
            let entry = numbers.find_entry(hash(oldest), |number| *number == *first);
            entry.expect("a list that is remembered has an entry").remove();
            *first += 1;
        });
        let (lists, first) = (&dictionary.lists, *first);
        let number = first + lists.len() as u64 - 1;
        numbers.insert_unique(hash(list), number, |number| hash(&lists[(number - first) as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of `bytes` bytes that has the number `id`.
    fn list(id: u64, bytes: usize) -> Vec<u8> {
        let mut list = vec![0; bytes];
        list[..8].copy_from_slice(&id.to_le_bytes());
        list
    }

    #[test]
    fn both_ends_remember_the_same_lists_and_forget_the_oldest() {
        let (mut sender, mut receiver) = (Remembered::default(), Dictionary::default());
        let bytes = 100_000;
        let kept = (REMEMBERED_BYTES_MAX / (bytes + LIST_BYTES)) as u64;
        for id in 0..3 * kept {
            let new = list(id, bytes);
            assert_eq!(sender.find(&new), None);
            sender.insert(&new);
            receiver.insert(&new);
            let oldest = (id + 1).saturating_sub(kept);
            for id in oldest..=id {
                let age = sender.find(&list(id, bytes)).expect("it is remembered");
                assert_eq!(receiver.get(age), Some(&*list(id, bytes)));
            }
            assert_eq!(oldest.checked_sub(1).and_then(|id| sender.find(&list(id, bytes))), None);
            assert_eq!(receiver.get((id + 1 - oldest) as u32), None);
        }
        assert_eq!(sender.numbers.len() as u64, kept);
        assert!(receiver.bytes <= REMEMBERED_BYTES_MAX);
    }

    #[test]
    fn a_receiver_is_limited_whatever_it_is_sent() {
        let mut receiver = Dictionary::default();
        for _ in 0..REMEMBERED_BYTES_MAX / LIST_BYTES + 10 {
            receiver.insert(&[]);
        }
        assert!(receiver.lists.len() <= REMEMBERED_BYTES_MAX / LIST_BYTES);
        receiver.insert(&vec![0; REMEMBERED_BYTES_MAX + 1]);
        assert_eq!((receiver.bytes, receiver.get(0)), (0, None));
    }
}
