//! The intents that one worker has signalled on one channel.

use intendant_core::Key;
use std::collections::BTreeMap;

/// A worker will use `keys` while its clock is in `start..end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The keys, each of which counts as often as it occurs.
    pub keys: Box<[Key]>,
    /// The first clock.
    pub start: u32,
    /// The first clock at which they are not used any more.
    pub end: u32,
}

/// The intents of one worker that are not over, by when they begin and end. A key may be in any number of
/// them.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Not begun, by start.
    ahead: BTreeMap<u32, Vec<Intent>>,
    /// Begun, by end.
    begun: BTreeMap<u32, Vec<Box<[Key]>>>,
}

impl Schedule {
    /// Takes an intent in.
    pub fn add(&mut self, intent: Intent) {
        self.ahead.entry(intent.start).or_default().push(intent);
    }

    /// The worker's clock is `clock`: intents that start at or before it, or before `until`, begin, and
    /// `begin` gets their keys. Those that are over before they have begun are forgotten.
    pub fn begin(&mut self, clock: u32, until: u32, mut begin: impl FnMut(&[Key])) {
        while let Some(entry) = self.ahead.first_entry()
            && (*entry.key() <= clock || *entry.key() < until)
        {
            for Intent { keys, end, start } in entry.remove() {
                if end > clock && end > start {
                    begin(&keys);
                    self.begun.entry(end).or_default().push(keys);
                }
            }
        }
    }

    /// The worker's clock is `clock`: intents that have begun and are over end, and `over` gets their keys.
    pub fn end(&mut self, clock: u32, mut over: impl FnMut(&[Key])) {
        while let Some(entry) = self.begun.first_entry()
            && *entry.key() <= clock
        {
            entry.remove().iter().for_each(|keys| over(keys));
        }
    }

    /// Whether there are no intents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.begun.is_empty()
    }

    /// Intents that have not begun, and that have.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.ahead.values().map(Vec::len).sum(), self.begun.values().map(Vec::len).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn intent(key: u64, start: u32, end: u32) -> Intent {
        Intent { keys: vec![Key(key)].into(), start, end }
    }

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
        schedule.add(intent(1, 2, 5));
        schedule.add(intent(1, 2, 5));
        schedule.add(intent(1, 4, 9));
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
        // It is extended while it is active.
        schedule.add(intent(1, 6, 20));
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
        schedule.add(intent(1, 2, 5));
        schedule.add(intent(2, 1, 4));
        schedule.add(intent(3, 6, 6));
        schedule.add(intent(4, 7, 3));
        counts.round(&mut schedule, 4, 8);
        assert_eq!([1, 2, 3, 4].map(|key| counts.of(key)), [1, 0, 0, 0]);
        assert_eq!(schedule.len(), (0, 1));
        // Not even for an instant, between the beginnings and the ends of a round.
        schedule.add(intent(5, 3, 4));
        schedule.begin(4, 8, |keys| panic!("{keys:?}"));
    }
}
