//! Which keys an analysis is about.

use intendant_core::Key;
use intendant_trace::Filter;
use std::ops::Range;

/// Keys that are tried one by one at most: more are not listed.
const TRIED_MAX: u64 = 1 << 26;

/// Ranges that a search may find at most: they take 24 bytes each.
const FOUND_MAX: usize = 1 << 21;

/// A set of keys, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Ascending; none overlaps another one.
    ranges: Vec<Range<u64>>,
    /// By range, the number of keys before it.
    before: Vec<u64>,
    len: u64,
}

impl Keys {
    fn of_ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut keys = Self { ranges: Vec::new(), before: Vec::new(), len: 0 };
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            keys.before.push(keys.len);
            keys.len = keys.len.saturating_add(range.end - range.start);
            match keys.ranges.last_mut() {
                Some(last) if last.end == range.start => {
                    last.end = range.end;
                    keys.before.pop();
                }
                Some(_) | None => keys.ranges.push(range),
            }
        }
        keys
    }

    /// The keys of an ascending list.
    pub(crate) fn of_list(list: &[u64]) -> Self {
        Self::of_ranges(list.iter().map(|key| *key..key.saturating_add(1)))
    }

    /// The keys of a model with `all` keys that `filters` accept: also those without events, which stayed at
    /// their homes. If they are too many to try or to list, the keys that have `events`.
    pub(crate) fn of_model(all: u64, filters: [&Filter; 2], events: &[u64]) -> Self {
        let mut ranges: Vec<Range<u64>> = std::iter::once(0..all).collect();
        let mut tried: Vec<&Filter> = Vec::new();
        for filter in filters {
            match filter {
                Filter::All => {}
                Filter::Keys(named) => ranges = intersect(&ranges, named),
                Filter::Sample(_) => tried.push(filter),
            }
        }
        let named = Self::of_ranges(ranges);
        if tried.is_empty() {
            return named;
        }
        if named.len > TRIED_MAX {
            return Self::of_list(events);
        }
        let accepted = named.iter().filter(|key| tried.iter().all(|filter| filter.accepts(Key(*key))));
        let mut found: Vec<Range<u64>> = Vec::new();
        for key in accepted {
            let is_full = found.len() == FOUND_MAX;
            match found.last_mut() {
                Some(last) if last.end == key => last.end += 1,
                Some(_) | None if is_full => return Self::of_list(events),
                Some(_) | None => found.push(key..key + 1),
            }
        }
        Self::of_ranges(found)
    }

    /// The keys of ranges `[from, end)` in any order, which may overlap.
    pub(crate) fn of_any(ranges: &[[u64; 2]]) -> Self {
        let mut ranges: Vec<Range<u64>> = ranges.iter().map(|[from, end]| *from..*end).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut last = 0;
        Self::of_ranges(ranges.into_iter().map(|range| {
            let rest = range.start.max(last)..range.end;
            last = last.max(range.end);
            rest
        }))
    }

    pub(crate) fn iter_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }

    /// Number of ranges of consecutive keys.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The key at a position, from 0.
    #[must_use]
    pub fn nth(&self, at: u64) -> Option<u64> {
        let range = self.before.partition_point(|before| *before <= at).checked_sub(1)?;
        let key = self.ranges[range].start + (at - self.before[range]);
        self.ranges[range].contains(&key).then_some(key)
    }

    /// Whether a key is one of them.
    #[must_use]
    pub fn contains(&self, key: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= key);
        after.checked_sub(1).is_some_and(|at| self.ranges[at].contains(&key))
    }

    /// How many of them are in a range.
    #[must_use]
    pub fn count_in(&self, range: Range<u64>) -> u64 {
        self.below(range.end).saturating_sub(self.below(range.start))
    }

    /// How many of them are below a key.
    fn below(&self, key: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.start < key);
        after.checked_sub(1).map_or(0, |at| {
            let range = &self.ranges[at];
            self.before[at] + (range.end.min(key) - range.start)
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().cloned().flatten()
    }

    /// At most `count` of them, as evenly spread as possible: the first and every so many after it.
    #[must_use]
    pub fn spread(&self, count: u64) -> Vec<u64> {
        let count = count.min(self.len);
        let at = |row: u64| (u128::from(row) * u128::from(self.len) / u128::from(count.max(1))) as u64;
        (0..count).filter_map(|row| self.nth(at(row))).collect()
    }
}

/// Both lists ascend, and have no overlaps.
fn intersect(a: &[Range<u64>], b: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut i, mut j, mut both) = (0, 0, Vec::new());
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        both.push(one.start.max(other.start)..one.end.min(other.end));
        if one.end <= other.end {
            i += 1;
        } else {
            j += 1;
        }
    }
    both
}
