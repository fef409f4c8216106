//! The keys that an analysis covers.

use intendant_core::Key;
use intendant_trace::Filter;
use std::ops::Range;

/// The most keys that are tested one by one. Larger sets are not listed.
const TRIED_MAX: u64 = 1 << 26;

/// The most ranges that a search may find. Each takes 24 bytes.
const FOUND_MAX: usize = 1 << 21;

/// A set of keys, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Ascending, without overlaps.
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

    /// The keys of a model with `all` keys that `filters` accept, including those without events, which
    /// stayed at their homes. If these keys are too many to test or to list, the keys that have `events`.
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

    /// Whether the set is empty.
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

    /// Whether the set contains a key.
    #[must_use]
    pub fn contains(&self, key: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= key);
        after.checked_sub(1).is_some_and(|at| self.ranges[at].contains(&key))
    }

    /// The number of keys of the set in a range.
    #[must_use]
    pub fn count_in(&self, range: Range<u64>) -> u64 {
        self.below(range.end).saturating_sub(self.below(range.start))
    }

    /// The number of keys of the set below a key.
    fn below(&self, key: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.start < key);
        after.checked_sub(1).map_or(0, |at| {
            let range = &self.ranges[at];
            self.before[at] + (range.end.min(key) - range.start)
        })
    }

    /// All keys of the set.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().cloned().flatten()
    }

    /// At most `count` keys of the set, spread as evenly as possible and beginning with the first.
    #[must_use]
    pub fn spread(&self, count: u64) -> Vec<u64> {
        let count = count.min(self.len);
        let at = |row: u64| (u128::from(row) * u128::from(self.len) / u128::from(count.max(1))) as u64;
        (0..count).filter_map(|row| self.nth(at(row))).collect()
    }
}

/// The intersection of two lists, both of which ascend and have no overlaps.
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
