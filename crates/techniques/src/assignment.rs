//! Which keys are replicated and which are relocated: a static choice per key, made before training [thesis
//! §4.2].
//!
//! The application makes the choice key by key ([`Assignment::set_technique`]), from a file
//! ([`Assignment::parse`]), or from the access frequencies of the data set ([`Assignment::above`],
//! [`Assignment::top`]). Every node must make the same choice: all functions here depend on their arguments
//! only, and [`Assignment::digest`] distinguishes choices.
//!
//! This module neither computes frequencies nor reads files, and no choice changes during training.

use intendant_core::{Key, Layout, random};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// A key is replicated if it is accessed more than this many times as often as the mean key: the choice of
/// NuPS without tuning [thesis §4.4.1].
pub const FACTOR: f64 = 100.0;

/// Characters of a line that an error repeats.
const QUOTE_CHARS_MAX: usize = 40;

/// How a key is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyTechnique {
    /// Every node has a copy; see [`allreduce`](crate::allreduce).
    Replicate,
    /// One node has the main copy, which moves; see [`relocation`](crate::relocation).
    Relocate,
}

/// Why an assignment is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssignmentError {
    /// A line is neither a key nor a range.
    #[error("line {line}, '{text}': {wrong}; write a key, a range first..end without its end, first.., or *")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The line, or its beginning.
        text: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// The assignment names a key that the model does not have.
    #[error("key {key} is to be replicated, but the model has keys 0 to {last} only")]
    NoSuchKey {
        /// The smallest such key.
        key: Key,
        /// The last key that exists.
        last: Key,
    },
    /// There are more replicated keys than the all-reduce can number.
    #[error("{keys} keys are to be replicated; at most {} can be", u32::MAX)]
    TooManyKeys {
        /// Number of keys.
        keys: u64,
    },
}

/// The technique of every key. By default no key is replicated.
///
/// A range without an end contains all further keys of the model that the assignment is applied to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Replicated keys: first to last key of every range. Ranges neither overlap nor touch, so equal sets are
    /// equal maps.
    ranges: BTreeMap<u64, u64>,
}

impl Assignment {
    /// No key is replicated.
    #[must_use]
    pub const fn none() -> Self {
        Self { ranges: BTreeMap::new() }
    }

    /// Every key is replicated (full replication).
    #[must_use]
    pub fn all() -> Self {
        Self { ranges: BTreeMap::from([(0, u64::MAX)]) }
    }

    /// Replicates the keys that are accessed more than `factor` times as often as the mean of `keys` keys:
    /// the heuristic of NuPS with [`FACTOR`] [thesis §4.4.1]. Keys without a frequency are never accessed,
    /// several frequencies of one key are added up, and a frequency that is not a positive finite number
    /// counts as no access.
    #[must_use]
    pub fn above(frequencies: impl IntoIterator<Item = (Key, f64)>, keys: u64, factor: f64) -> Self {
        let frequencies = sums(frequencies);
        let mean = frequencies.iter().map(|(_, frequency)| frequency).sum::<f64>() / keys as f64;
        frequencies
            .into_iter()
            .filter(|(_, frequency)| *frequency > factor * mean)
            .map(|(key, _)| Key(key))
            .collect()
    }

    /// Replicates the `count` keys that are accessed most often. Of equally frequent keys, the lower key
    /// comes first. If fewer keys have a frequency, replicates all of them. Frequencies count as in
    /// [`Assignment::above`].
    #[must_use]
    pub fn top(frequencies: impl IntoIterator<Item = (Key, f64)>, count: usize) -> Self {
        let mut frequencies = sums(frequencies);
        frequencies.sort_by(|(a, left), (b, right)| right.total_cmp(left).then(a.cmp(b)));
        frequencies.into_iter().take(count).map(|(key, _)| Key(key)).collect()
    }

    /// Reads one key or range per line: `5`, `10..20` (20 excluded), `30..` (30 and all after it), `*` (all).
    /// `#` begins a comment. Empty lines are skipped, and ranges may overlap.
    ///
    /// # Errors
    /// [`AssignmentError::Line`] for the first line that is neither a key nor a range.
    pub fn parse(text: &str) -> Result<Self, AssignmentError> {
        let mut ranges = Vec::new();
        for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let entry = line.split_once('#').map_or(line, |(entry, _)| entry).trim();
            if entry.is_empty() {
                continue;
            }
            let range = parse_entry(entry).map_err(|wrong| {
                let text = entry.chars().take(QUOTE_CHARS_MAX).flat_map(char::escape_debug).collect();
                AssignmentError::Line { line: at + 1, text, wrong }
            })?;
            ranges.push(range);
        }
        Ok(Self::from_ranges(ranges))
    }

    /// The text that [`Assignment::parse`] reads back: ascending ranges.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (first, last) in &self.ranges {
            // Writing to a string cannot fail.
            let _ = match (*first, *last) {
                (0, u64::MAX) => writeln!(text, "*"),
                (first, u64::MAX) => writeln!(text, "{first}.."),
                (first, last) if first == last => writeln!(text, "{first}"),
                (first, last) => writeln!(text, "{first}..{}", last + 1),
            };
        }
        text
    }

    /// Chooses the technique of a key.
    pub fn set_technique(&mut self, key: Key, technique: KeyTechnique) {
        if self.technique(key) == technique {
            return;
        }
        let key = key.0;
        let (before, after) = (key.checked_sub(1), key.checked_add(1));
        match technique {
            KeyTechnique::Replicate => {
                let left = self.ranges.range(..key).next_back().map(|(first, last)| (*first, *last));
                let first = left.filter(|(_, last)| Some(*last) == before).map_or(key, |(first, _)| first);
                let last = after.and_then(|after| self.ranges.remove(&after)).unwrap_or(key);
                self.ranges.insert(first, last);
            }
            KeyTechnique::Relocate => {
                let found = self.ranges.range(..=key).next_back().map(|(first, last)| (*first, *last));
                let Some((first, last)) = found else { return };
                self.ranges.remove(&first);
                if let Some(before) = before.filter(|before| first <= *before) {
                    self.ranges.insert(first, before);
                }
                if let Some(after) = after.filter(|after| *after <= last) {
                    self.ranges.insert(after, last);
                }
            }
        }
    }

    /// The technique of a key.
    #[must_use]
    pub fn technique(&self, key: Key) -> KeyTechnique {
        match self.ranges.range(..=key.0).next_back() {
            Some((_, last)) if key.0 <= *last => KeyTechnique::Replicate,
            _ => KeyTechnique::Relocate,
        }
    }

    /// Whether no key is replicated.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Checks that the keys exist.
    ///
    /// # Errors
    /// [`AssignmentError::NoSuchKey`] for keys beyond the layout (a range without an end has none), and
    /// [`AssignmentError::TooManyKeys`] if it replicates more than 2³² − 1 keys of the layout.
    pub fn check(&self, layout: &Layout) -> Result<(), AssignmentError> {
        let keys = layout.keys();
        for (first, last) in &self.ranges {
            // The largest number stands for "no end", but as a single key it is a mistake.
            let ends = *last != u64::MAX || first == last;
            if *last >= keys && ends {
                let last = Key(keys.saturating_sub(1));
                return Err(AssignmentError::NoSuchKey { key: Key((*first).max(keys)), last });
            }
        }
        match self.count(layout) {
            keys if keys > u64::from(u32::MAX) => Err(AssignmentError::TooManyKeys { keys }),
            _ => Ok(()),
        }
    }

    fn ranges_of(&self, layout: &Layout) -> impl Iterator<Item = std::ops::Range<u64>> {
        let keys = layout.keys();
        self.ranges
            .iter()
            .take_while(move |(first, _)| **first < keys)
            .map(move |(first, last)| *first..last.saturating_add(1).min(keys))
    }

    /// Number of replicated keys of the layout.
    #[must_use]
    pub fn count(&self, layout: &Layout) -> u64 {
        self.ranges_of(layout).map(|range| range.end - range.start).sum()
    }

    /// The replicated keys of the layout, ascending.
    #[must_use]
    pub fn resolve(&self, layout: &Layout) -> Arc<[Key]> {
        self.ranges_of(layout).flatten().map(Key).collect()
    }

    /// A hash: equal assignments have the same hash, and different ones practically never do.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.ranges.iter().fold(0, |digest, (first, last)| random::stream(digest, &[*first, *last]))
    }

    fn from_ranges(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, before)) if first <= before.saturating_add(1) => *before = last.max(*before),
                _ => joined.push((first, last)),
            }
        }
        Self { ranges: joined.into_iter().collect() }
    }
}

/// The assignment that replicates exactly these keys.
impl FromIterator<Key> for Assignment {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        Self::from_ranges(keys.into_iter().map(|key| (key.0, key.0)).collect())
    }
}

/// One sum per key, by ascending key. Sorts before it adds, so the sums do not depend on the order of the
/// frequencies.
fn sums(frequencies: impl IntoIterator<Item = (Key, f64)>) -> Vec<(u64, f64)> {
    let usable = |frequency: f64| if frequency.is_finite() && frequency > 0.0 { frequency } else { 0.0 };
    let mut sums: Vec<_> = frequencies.into_iter().map(|(key, f)| (key.0, usable(f))).collect();
    sums.sort_unstable_by(|(a, left), (b, right)| a.cmp(b).then(left.total_cmp(right)));
    sums.dedup_by(|again, kept| {
        let same = again.0 == kept.0;
        if same {
            kept.1 += again.1;
        }
        same
    });
    sums
}

/// First and last key of an entry.
fn parse_entry(entry: &str) -> Result<(u64, u64), &'static str> {
    let number = |text: &str| {
        let text = text.trim();
        // `parse` would accept a sign.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("not a number");
        }
        text.parse::<u64>().map_err(|_| "larger than any key")
    };
    if entry == "*" {
        return Ok((0, u64::MAX));
    }
    let Some((first, end)) = entry.split_once("..") else {
        return number(entry).map(|key| (key, key));
    };
    let first = number(first)?;
    if end.trim().is_empty() {
        return Ok((first, u64::MAX));
    }
    match number(end)?.checked_sub(1).filter(|last| first <= *last) {
        Some(last) => Ok((first, last)),
        None => Err("the range is empty"),
    }
}
