//! Which keys a picture has rows for.

use crate::answer::Refusal;
use crate::library::Loaded;
use intendant_analysis::KeyCounts;
use intendant_core::Key;
use intendant_trace::Filter;
use serde::Deserialize;
use std::cmp::Reverse;

/// The most keys that are tested one by one for a sample. In larger models, only keys with events are tested.
const TRIED_MAX: u64 = 1 << 22;

/// How rows are chosen among the keys of the focus, which are the keys that the question names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Choose {
    /// Spread evenly.
    #[default]
    Even,
    /// Those that move most.
    Moved,
    /// Those with most replicas.
    Replicated,
    /// Those with most remote accesses.
    Remote,
}

/// The keys of a picture.
#[derive(Debug)]
pub(super) struct Selection {
    /// Ascending.
    pub(super) keys: Vec<u64>,
    /// Number of keys of the focus, among which `keys` were chosen.
    pub(super) total: u64,
}

/// The keys that a text names. An empty text names all keys.
pub(super) fn filter(text: &str) -> Result<Filter, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        Ok(Filter::All)
    } else {
        text.parse().map_err(|error| Refusal::wrong(format!("{error}")))
    }
}

/// Chooses at most `rows` of the keys that `filter` accepts.
pub(super) fn select(run: &Loaded, filter: &Filter, rows: usize, choose: Choose) -> Selection {
    let keys = run.allocation.keys();
    match filter {
        Filter::All => chosen(run, filter, rows, choose, keys.len(), |at| keys.nth(at)),
        Filter::Keys(ranges) => {
            // By range: the number of keys of the focus before it, and the number of all keys before its
            // first key.
            let mut before = Vec::new();
            let mut total = 0u64;
            for range in ranges {
                before.push((total, keys.count_in(0..range.start)));
                total = total.saturating_add(keys.count_in(range.clone()));
            }
            chosen(run, filter, rows, choose, total, |at| {
                let range = before.partition_point(|(before, _)| *before <= at).checked_sub(1)?;
                let (within, first) = before[range];
                keys.nth(first.saturating_add(at - within))
            })
        }
        Filter::Sample(_) => {
            let accepts = |key: &u64| filter.accepts(Key(*key));
            let sample: Vec<u64> = if keys.len() <= TRIED_MAX {
                keys.iter().filter(accepts).collect()
            } else {
                run.allocation.active().iter().copied().filter(accepts).collect()
            };
            chosen(run, filter, rows, choose, sample.len() as u64, |at| {
                sample.get(usize::try_from(at).ok()?).copied()
            })
        }
    }
}

fn chosen(
    run: &Loaded,
    filter: &Filter,
    rows: usize,
    choose: Choose,
    total: u64,
    nth: impl Fn(u64) -> Option<u64>,
) -> Selection {
    let even = || {
        let count = (rows as u64).min(total);
        // Keys at equal distances, beginning with the first.
        let at = |row: u64| (u128::from(row) * u128::from(total) / u128::from(count.max(1))) as u64;
        (0..count).filter_map(|row| nth(at(row))).collect()
    };
    let value = |counts: &KeyCounts| match choose {
        Choose::Even => 0,
        Choose::Moved => counts.relocations,
        Choose::Replicated => counts.replicas,
        Choose::Remote => counts.remote,
    };
    let most = || {
        let counts = run.allocation.counts().iter();
        let mut found: Vec<(Reverse<u32>, u64)> = counts
            .filter(|counts| value(counts) > 0 && filter.accepts(Key(counts.key)))
            .map(|counts| (Reverse(value(counts)), counts.key))
            .collect();
        if rows < found.len() {
            found.select_nth_unstable(rows);
            found.truncate(rows);
        }
        let mut keys: Vec<u64> = found.into_iter().map(|(_, key)| key).collect();
        keys.sort_unstable();
        keys
    };
    let keys = match choose {
        Choose::Even => even(),
        Choose::Moved | Choose::Replicated | Choose::Remote => {
            let keys = most();
            // If there is no such key, the picture shows evenly spread keys.
            if keys.is_empty() { even() } else { keys }
        }
    };
    Selection { keys, total }
}
