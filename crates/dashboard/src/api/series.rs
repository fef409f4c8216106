//! Counts of events over time.

use super::{question, selection};
use crate::answer::Refusal;
use crate::library::{Loaded, Totals};
use intendant_analysis::{Run, Window};
use intendant_trace::Filter;
use serde::{Deserialize, Serialize};
use std::thread;

/// The most threads that search the events of a focus.
const THREADS_MAX: usize = 8;

/// The fewest events that are worth a thread.
const EVENTS_PER_THREAD: usize = 1 << 17;

/// The most keys, and the most events of all these keys, that are read key by key.
const KEYS_MAX: usize = 1 << 12;
const EVENTS_MAX: usize = 1 << 18;

#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    keys: String,
    columns: u32,
    from: Option<u64>,
    to: Option<u64>,
}

impl Default for Question {
    fn default() -> Self {
        Self { keys: String::new(), columns: 200, from: None, to: None }
    }
}

/// Numbers per bin of time. The bytes are those of all keys.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    from_us: u64,
    to_us: u64,
    bins: usize,
    remote: Vec<u64>,
    remote_wait_us: Vec<u64>,
    waited: Vec<u64>,
    waited_us: Vec<u64>,
    relocations: Vec<u64>,
    replica_setups: Vec<u64>,
    conflicts: Vec<u64>,
    bytes: Vec<u64>,
}

pub(super) fn of(run: &Loaded, question: &Question) -> Result<Series, Refusal> {
    let window = question::window(run, question.from, question.to, question.columns)?;
    let filter = selection::filter(&question.keys)?;
    let bins = if filter == Filter::All { all(run, window) } else { of_keys(run, window, &filter) };
    let list = |number: fn(&Totals) -> u64| bins.iter().map(number).collect();
    Ok(Series {
        from_us: window.from_us(),
        to_us: window.to_us(),
        bins: bins.len(),
        remote: list(|bin| bin.remote),
        remote_wait_us: list(|bin| whole(bin.remote_wait_us)),
        waited: list(|bin| bin.waited),
        waited_us: list(|bin| whole(bin.waited_us)),
        relocations: list(|bin| bin.relocations),
        replica_setups: list(|bin| bin.replica_setups),
        conflicts: list(|bin| bin.conflicts),
        bytes: list(|bin| whole(bin.bytes)),
    })
}

/// Saturates: a real run has no larger sums.
fn whole(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// The bins of all keys: the differences of totals.
fn all(run: &Loaded, window: Window) -> Vec<Totals> {
    let events = run.allocation.run();
    // The last bin includes the end of the window.
    let borders = (0..=window.pixels()).map(|column| {
        let last = column == window.pixels();
        let count =
            position(events, |at| if last { at <= window.to_us() } else { is_before(window, at, column) });
        run.totals.before(events, count)
    });
    let borders: Vec<Totals> = borders.collect();
    borders.windows(2).map(|pair| pair[1].without(&pair[0])).collect()
}

/// Whether a time is before a column.
fn is_before(window: Window, at_us: u64, column: u32) -> bool {
    at_us < window.from_us() || window.pixel(at_us) < column
}

/// The number of events whose time satisfies `is_so`. These events come first in the run.
fn position(run: &Run, is_so: impl Fn(u64) -> bool) -> usize {
    let (mut low, mut high) = (0, run.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if run.event(middle).is_some_and(|event| is_so(event.at_us)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The bins of some keys: from the events of each key if these are few, otherwise from all events that charts
/// show.
fn of_keys(run: &Loaded, window: Window, filter: &Filter) -> Vec<Totals> {
    let mut bins = few(run, window, filter).unwrap_or_else(|| many(run, window, filter));
    let all = all(run, window);
    bins.iter_mut().zip(&all).for_each(|(bin, all)| bin.bytes = all.bytes);
    bins
}

/// Reads the events of each key, if there are few keys and events. The events of a key lie apart in memory,
/// so reading more of them would take longer than [`many`].
fn few(run: &Loaded, window: Window, filter: &Filter) -> Option<Vec<Totals>> {
    let active = run.allocation.active();
    let keys: Vec<u64> = match filter {
        Filter::Keys(ranges) => {
            let at = |key: u64| active.partition_point(|other| *other < key);
            ranges
                .iter()
                .flat_map(|range| &active[at(range.start)..at(range.end)])
                .copied()
                .take(KEYS_MAX + 1)
                .collect()
        }
        Filter::All | Filter::Sample(_) => return None,
    };
    let events = keys.iter().map(|key| run.allocation.positions_of(*key).len()).sum::<usize>();
    if keys.len() > KEYS_MAX || events > EVENTS_MAX {
        return None;
    }
    let mut bins = vec![Totals::default(); window.pixels() as usize];
    for key in keys {
        for event in run.events_between(key, window.from_us(), window.to_us()) {
            bins[window.pixel(event.at_us) as usize].add(&event);
        }
    }
    Some(bins)
}

/// Reads all events that charts show, on several threads.
fn many(run: &Loaded, window: Window, filter: &Filter) -> Vec<Totals> {
    let events = run.allocation.run();
    let first = position(events, |at| at < window.from_us()) as u32;
    let end = position(events, |at| at <= window.to_us()) as u32;
    let charted = run.totals.charted();
    let charted =
        &charted[charted.partition_point(|at| *at < first)..charted.partition_point(|at| *at < end)];
    let count = |positions: &[u32]| {
        let mut bins = vec![Totals::default(); window.pixels() as usize];
        for event in positions.iter().filter_map(|at| events.event(*at as usize)) {
            if event.key.is_some_and(|key| filter.accepts(key)) {
                bins[window.pixel(event.at_us) as usize].add(&event);
            }
        }
        bins
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    thread::scope(|scope| {
        let mut parts = charted.chunks(charted.len().div_ceil(threads).max(EVENTS_PER_THREAD));
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| scope.spawn(|| count(part))).collect();
        let mut bins = count(first);
        for other in others {
            // A panic continues in the thread of the request.
            let part = other.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            bins.iter_mut().zip(&part).for_each(|(bin, part)| *bin = bin.and(part));
        }
        bins
    })
}
