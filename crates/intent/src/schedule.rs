//! The intents that one worker has signalled on one channel.
//!
//! A batch may have as few as two keys, and each batch has its own intent. So intents are not separate
//! objects: their keys lie one after the other, in memory that is reused.

use intendant_core::Key;
use std::collections::{BTreeMap, VecDeque};

/// Intents in the order in which they were signalled. Each intent says that a worker will use some keys while
/// its clock is in `start..end`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signalled {
    keys: Vec<Key>,
    windows: Vec<Window>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    keys: usize,
    start: u32,
    end: u32,
}

impl Signalled {
    /// Appends an intent for `keys`, each of which counts as often as it occurs. `start` is the first clock,
    /// `end` the first at which they are not used any more. Returns whether there are any keys; if not,
    /// nothing is appended.
    pub fn push(&mut self, keys: impl Iterator<Item = Key>, start: u32, end: u32) -> bool {
        let before = self.keys.len();
        self.keys.extend(keys);
        let keys = self.keys.len() - before;
        if keys > 0 {
            self.windows.push(Window { keys, start, end });
        }
        keys > 0
    }

    /// Whether there are no intents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Removes all intents. Their memory is kept for others.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.windows.clear();
    }

    /// Keys, start and end of each intent.
    pub fn iter(&self) -> impl Iterator<Item = (&[Key], u32, u32)> {
        let mut rest = &*self.keys;
        self.windows.iter().map(move |window| {
            let (keys, others) = rest.split_at(window.keys);
            rest = others;
            (keys, window.start, window.end)
        })
    }
}

/// The intents of one worker that are not over, ordered by their start or end. A key may be in any number of
/// them.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Intents that have not begun, by start, with their ends.
    ahead: Lane,
    /// Intents that have begun, by end, with their starts.
    begun: Lane,
}

impl Schedule {
    /// Adds an intent: the worker will use `keys` while its clock is in `start..end`.
    pub fn add(&mut self, keys: &[Key], start: u32, end: u32) {
        self.ahead.add(keys, start, end);
    }

    /// The worker's clock is `clock`: intents that start at or before it, or before `until`, begin, and
    /// `begin` gets their keys. Intents that are over before they have begun are dropped.
    pub fn begin(&mut self, clock: u32, until: u32, mut begin: impl FnMut(&[Key])) {
        let Self { ahead, begun } = self;
        let is_due = |start| start <= clock || start < until;
        ahead.take(is_due, |keys, start, end| {
            if end > clock && end > start {
                begin(keys);
                begun.add(keys, end, start);
            }
        });
    }

    /// The worker's clock is `clock`: intents that have begun and are over end, and `over` gets their keys.
    pub fn end(&mut self, clock: u32, mut over: impl FnMut(&[Key])) {
        let is_over = |end| end <= clock;
        self.begun.take(is_over, |keys, _, _| over(keys));
    }

    /// Whether there are no intents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// The number of intents that have not begun, and of those that have.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.ahead.len(), self.begun.len())
    }
}

/// Intents by one of their clocks, start or end. They usually come in the order of this clock: a worker's
/// loader signals batch after batch.
#[derive(Debug, Default)]
struct Lane {
    /// The keys of intents that came in order. The keys before `first` were taken.
    keys: Vec<Key>,
    first: usize,
    runs: VecDeque<Run>,
    /// Intents that came after intents with later clocks, by their clock.
    late: BTreeMap<u32, Vec<Late>>,
}

#[derive(Debug)]
struct Late {
    other: u32,
    keys: Box<[Key]>,
}

/// An intent: the number of its keys, the clock by which intents are ordered, and the other clock.
#[derive(Clone, Copy, Debug)]
struct Run {
    keys: usize,
    clock: u32,
    other: u32,
}

impl Lane {
    fn add(&mut self, keys: &[Key], clock: u32, other: u32) {
        if self.runs.back().is_some_and(|last| last.clock > clock) {
            self.late.entry(clock).or_default().push(Late { other, keys: keys.into() });
            return;
        }
        self.keys.extend_from_slice(keys);
        self.runs.push_back(Run { keys: keys.len(), clock, other });
    }

    /// Takes the intents whose clock is due: `take` gets their keys, this clock and the other one.
    fn take(&mut self, is_due: impl Fn(u32) -> bool, mut take: impl FnMut(&[Key], u32, u32)) {
        while let Some(Run { keys, clock, other }) = self.runs.pop_front_if(|run| is_due(run.clock)) {
            take(&self.keys[self.first..self.first + keys], clock, other);
            self.first += keys;
        }
        // The keys that are left move to the front if they are fewer than those that were taken: a key moves
        // once, on average.
        if self.first > self.keys.len() / 2 {
            self.keys.drain(..self.first);
            self.first = 0;
        }
        while let Some(entry) = self.late.first_entry()
            && is_due(*entry.key())
        {
            let clock = *entry.key();
            entry.remove().iter().for_each(|late| take(&late.keys, clock, late.other));
        }
    }

    fn len(&self) -> usize {
        self.runs.len() + self.late.values().map(Vec::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Counts(BTreeMap<Key, i32>);

    impl Counts {
        fn round(&mut self, schedule: &mut Schedule, clock: u32, until: u32) {
            schedule
                .begin(clock, until, |keys| keys.iter().for_each(|k| *self.0.entry(*k).or_default() += 1));
            schedule.end(clock, |keys| keys.iter().for_each(|k| *self.0.entry(*k).or_default() -= 1));
        }

        fn of(&self, key: u64) -> i32 {
            self.0.get(&Key(key)).copied().unwrap_or(0)
        }
    }

    #[test]
    fn intents_overlap_extend_and_repeat() {
        let (mut schedule, mut counts) = (Schedule::default(), Counts::default());
        schedule.add(&[Key(1)], 2, 5);
        schedule.add(&[Key(1)], 2, 5);
        schedule.add(&[Key(1)], 4, 9);
        assert_eq!((schedule.len(), schedule.is_empty()), ((3, 0), false));
        counts.round(&mut schedule, 0, 2);
        assert_eq!(counts.of(1), 0, "it starts at 2, which is not before 2");
        counts.round(&mut schedule, 0, 3);
        assert_eq!(counts.of(1), 2);
        assert_eq!(schedule.len(), (1, 2));
        counts.round(&mut schedule, 4, 4);
        assert_eq!(counts.of(1), 3, "what has started begins, however near the horizon");
        counts.round(&mut schedule, 5, 6);
        assert_eq!(counts.of(1), 1, "the end is excluded");
        // Another intent extends the use of the key while one is active.
        schedule.add(&[Key(1)], 6, 20);
        counts.round(&mut schedule, 9, 10);
        assert_eq!(counts.of(1), 1);
        assert_eq!((schedule.len(), schedule.is_empty()), ((0, 1), false));
        counts.round(&mut schedule, 20, 30);
        assert_eq!(counts.of(1), 0);
        assert!(schedule.is_empty());
    }

    #[test]
    fn late_intents_begin_and_past_and_empty_ones_do_not() {
        let (mut schedule, mut counts) = (Schedule::default(), Counts::default());
        schedule.add(&[Key(1)], 2, 5);
        schedule.add(&[Key(2)], 1, 4);
        schedule.add(&[Key(3)], 6, 6);
        schedule.add(&[Key(4)], 7, 3);
        counts.round(&mut schedule, 4, 8);
        assert_eq!([1, 2, 3, 4].map(|key| counts.of(key)), [1, 0, 0, 0]);
        assert_eq!(schedule.len(), (0, 1));
        // It does not begin even for an instant, between the beginnings and the ends of a round.
        schedule.add(&[Key(5)], 3, 4);
        schedule.begin(4, 8, |keys| panic!("{keys:?}"));
    }

    #[test]
    fn intents_may_come_in_any_order() {
        let (mut schedule, mut counts) = (Schedule::default(), Counts::default());
        for (key, start, end) in [(1, 5, 9), (2, 3, 20), (3, 6, 7), (4, 3, 4), (5, 6, 30), (6, 1, 6)] {
            schedule.add(&[Key(key)], start, end);
        }
        let mut at = |clock| {
            counts.round(&mut schedule, clock, clock + 1);
            ([1, 2, 3, 4, 5, 6].map(|key| counts.of(key)), schedule.len())
        };
        assert_eq!(at(0), ([0; 6], (6, 0)));
        assert_eq!(at(3), ([0, 1, 0, 1, 0, 1], (3, 3)));
        assert_eq!(at(5), ([1, 1, 0, 0, 0, 1], (2, 3)));
        assert_eq!(at(6), ([1, 1, 1, 0, 1, 0], (0, 4)));
        assert_eq!(at(9), ([0, 1, 0, 0, 1, 0], (0, 2)));
        assert_eq!(at(30), ([0; 6], (0, 0)));
    }

    #[test]
    fn signalled_intents_keep_their_order_and_none_is_empty() {
        let mut intents = Signalled::default();
        assert!(intents.push([Key(2), Key(1)].into_iter(), 3, 5));
        assert!(!intents.push(std::iter::empty(), 4, 6));
        assert!(intents.push([Key(7)].into_iter(), 1, 2));
        let all: Vec<_> = intents.iter().map(|(keys, start, end)| (keys.to_vec(), start, end)).collect();
        assert_eq!(all, [(vec![Key(2), Key(1)], 3, 5), (vec![Key(7)], 1, 2)]);
        intents.clear();
        assert!(intents.is_empty() && intents.iter().next().is_none());
    }
}
