//! Candidates for heavy hitters: the items of a part of the stream that may be frequent.
//!
//! A summary of capacity `m`, over a part with `n` items (counts included), keeps counts of at most `m`
//! items. Each count is at most `n / (m + 1)` too low [Misra 1982], so that every item that occurs more often
//! is kept. Merging the summaries of several parts keeps this bound for the sum of their items [Agarwal
//! 2012]. So, however the stream is divided among workers, every item that occurs more than `N / (m + 1)`
//! times is a candidate.

use hashbrown::HashTable;
use intendant_core::random::mix;
use intendant_task::Reduction;
use std::cmp::Reverse;
use std::fmt::Write;

/// An item with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    x: u64,
    count: u64,
    name: Box<[u8]>,
}

/// A summary; see the module documentation.
#[derive(Clone, Debug)]
pub struct Summary {
    capacity: usize,
    entries: Vec<Entry>,
    /// Places among the entries, found by the items' numbers.
    found: HashTable<u32>,
}

impl Summary {
    /// An empty summary that keeps `capacity` items.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, entries: Vec::new(), found: HashTable::new() }
    }

    /// Counts an item.
    pub fn add(&mut self, x: u64, count: u64, name: &[u8]) {
        if self.capacity == 0 {
            return;
        }
        let (hash, entries) = (mix(x), &mut self.entries);
        if let Some(place) = self.found.find(hash, |place| entries[*place as usize].x == x) {
            entries[*place as usize].count += count;
            return;
        }
        self.found.insert_unique(hash, entries.len() as u32, |place| mix(entries[*place as usize].x));
        entries.push(Entry { x, count, name: name.into() });
        // This room distributes the cost of pruning over many items.
        if entries.len() > 2 * self.capacity {
            self.prune();
        }
    }

    /// Keeps the `capacity` most frequent items, and subtracts the count of the next one from all counts.
    fn prune(&mut self) {
        if self.entries.len() <= self.capacity {
            return;
        }
        let (_, next, _) =
            self.entries.select_nth_unstable_by_key(self.capacity, |entry| Reverse(entry.count));
        let least = next.count;
        self.entries.truncate(self.capacity);
        self.entries.retain_mut(|entry| {
            entry.count -= least;
            entry.count > 0
        });
        self.found.clear();
        for (place, entry) in (0..).zip(&self.entries) {
            self.found.insert_unique(mix(entry.x), place, |place| mix(self.entries[*place as usize].x));
        }
    }

    /// Merges the summary with the one in `sums`, writes the result there, and starts anew.
    pub(crate) fn settle(&mut self, sums: &mut Reduction, number: impl Fn(&[u8]) -> Option<u64>) {
        for (name, count) in taken(sums) {
            if let Some(x) = number(&name) {
                self.add(x, count as u64, &name);
            }
        }
        self.prune();
        self.found.clear();
        for entry in self.entries.drain(..) {
            sums.add(&written(&entry.name), entry.count as f64);
        }
    }

    /// Items, with counts.
    #[cfg(test)]
    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.entries.iter().map(|entry| (entry.x, entry.count)).collect();
        all.sort_unstable();
        all
    }
}

/// The prefixes of names of candidates in a [`Reduction`]. The item's name follows, as text or in hexadecimal
/// digits.
const TEXT: &str = "candidate.text.";
const BYTES: &str = "candidate.bytes.";

fn written(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => format!("{TEXT}{text}"),
        Err(_) => name.iter().fold(BYTES.to_owned(), |mut all, byte| {
            // Writing to a string does not fail.
            let _ = write!(all, "{byte:02x}");
            all
        }),
    }
}

fn read(name: &str) -> Option<Vec<u8>> {
    if let Some(text) = name.strip_prefix(TEXT) {
        return Some(text.as_bytes().to_vec());
    }
    let digits = name.strip_prefix(BYTES)?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

/// The names of all candidates of some sums.
pub(crate) fn names(sums: &Reduction) -> impl Iterator<Item = Vec<u8>> + '_ {
    sums.sums.keys().filter_map(|name| read(name))
}

/// Removes all candidates from some sums; returns them with their counts.
fn taken(sums: &mut Reduction) -> Vec<(Vec<u8>, f64)> {
    let mut all = Vec::new();
    sums.sums.retain(|name, count| match read(name) {
        Some(name) => {
            all.push((name, *count));
            false
        }
        None => true,
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(x: u64) -> Vec<u8> {
        x.to_string().into_bytes()
    }

    fn number(name: &[u8]) -> Option<u64> {
        std::str::from_utf8(name).ok()?.parse().ok()
    }

    proptest! {
        /// However a stream is divided, and however often the summaries of its parts are merged, counts are
        /// too low by at most N / (m + 1), and never too high.
        #[test]
        fn no_frequent_item_is_lost(
            items in proptest::collection::vec((0u64..30, 1u64..20, 0usize..3), 0..200),
            capacity in 1usize..12,
            every in 1usize..50,
        ) {
            let mut truth = BTreeMap::new();
            let mut workers = vec![(Summary::new(capacity), Reduction::default()); 3];
            for (at, (x, count, worker)) in items.iter().enumerate() {
                *truth.entry(*x).or_insert(0) += count;
                let (summary, sums) = &mut workers[*worker];
                summary.add(*x, *count, &name(*x));
                if at % every == 0 {
                    summary.settle(sums, number);
                }
            }
            let mut all = Reduction::default();
            for (summary, sums) in &mut workers {
                summary.settle(sums, number);
                prop_assert!(sums.sums.len() <= capacity);
                all.merge(sums);
            }
            // A run that continues gives the sums of all workers to one worker.
            let mut merged = Summary::new(capacity);
            let before = all.clone();
            merged.settle(&mut all, number);
            prop_assert!(all.sums.len() <= capacity);
            let total: u64 = items.iter().map(|(_, count, _)| count).sum();
            for sums in [before, all] {
                let kept = taken(&mut sums.clone()).into_iter();
                let kept = kept.map(|(name, count)| (number(&name).unwrap(), count as u64));
                let kept: BTreeMap<u64, u64> = kept.collect();
                for (x, count) in &truth {
                    let found = kept.get(x).copied().unwrap_or(0);
                    prop_assert!(found <= *count, "{} of {}", found, count);
                    let missing = count - found;
                    prop_assert!(missing * (capacity as u64 + 1) <= total, "{} of {}", missing, total);
                }
            }
        }
    }

    #[test]
    fn names_of_any_bytes_are_written_and_read() {
        for name in [&b"a"[..], b"", b"a b\t\"c", b"\xff\0x", "\u{e9}".as_bytes(), b"candidate.text."] {
            assert_eq!(read(&written(name)).as_deref(), Some(name));
        }
        assert_eq!((read("loss"), read("candidate.bytes.0g")), (None, None));
    }

    #[test]
    fn other_sums_stay() {
        let mut sums = Reduction::default();
        sums.add("loss", 2.0);
        let mut summary = Summary::new(2);
        (0..5).for_each(|x| summary.add(x, 1 + x, &name(x)));
        summary.settle(&mut sums, number);
        assert_eq!((sums.get("loss"), sums.sums.len()), (2.0, 3));
        assert_eq!((sums.get("candidate.text.4"), sums.get("candidate.text.3")), (2.0, 1.0));
        assert_eq!(summary.sorted(), []);
        let mut none = Summary::new(0);
        none.add(1, 1, b"1");
        assert_eq!(none.sorted(), []);
    }
}
