//! Slots and mirrors under loom: every interleaving of a writer and a reader, with stores that become visible
//! late. The tests compile the shipped source of the protocols a second time, on memory of loom's atomic
//! words.

mod sync {
    pub(crate) use loom::sync::atomic::{Ordering, fence};
}

mod segment {
    use loom::sync::atomic::{AtomicU64, Ordering};

    /// Like the shipped segment, but each of its words is an atomic word of loom.
    pub(crate) struct Segment(Vec<AtomicU64>);

    impl Segment {
        pub(crate) fn new(words: usize) -> Self {
            Self((0..words).map(|_| AtomicU64::new(0)).collect())
        }

        pub(crate) fn words(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn load(&self, at: usize, order: Ordering) -> u64 {
            self.0[at].load(order)
        }

        pub(crate) fn store(&self, at: usize, value: u64, order: Ordering) {
            self.0[at].store(value, order);
        }

        pub(crate) fn read(&self, at: usize, into: &mut [u64]) {
            for (place, value) in (at..).zip(into) {
                *value = self.load(place, Ordering::Relaxed);
            }
        }

        pub(crate) fn write(&self, at: usize, from: &[u64]) {
            for (place, value) in (at..).zip(from) {
                self.store(place, *value, Ordering::Relaxed);
            }
        }

        pub(crate) fn write_bytes(&self, at: usize, from: &[u8]) {
            let words = from.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
            self.write(at, &words.collect::<Vec<_>>());
        }
    }

    /// Like the shipped view.
    pub(crate) struct View(pub(crate) loom::sync::Arc<Segment>);

    impl View {
        pub(crate) fn place<const N: usize>(
            &self,
            at: usize,
            words: usize,
        ) -> (&[AtomicU64; N], &[AtomicU64]) {
            self.0.0[at..at + N + words].split_first_chunk().expect("N words")
        }

        pub(crate) fn copy(words: &[AtomicU64], into: &mut [u8]) {
            for (word, bytes) in words.iter().zip(into.chunks_mut(8)) {
                let value = word.load(Ordering::Relaxed).to_ne_bytes();
                bytes.copy_from_slice(&value[..bytes.len()]);
            }
        }
    }
}

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the module is public in its crate, and the test uses a part of it"
)]
#[path = "../src/slot.rs"]
mod slot;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the module is public in its crate, and the test uses a part of it"
)]
#[path = "../src/mirror.rs"]
mod mirror;

use loom::sync::Arc;
use loom::thread;
use mirror::Rewritten;
use segment::{Segment, View};
use slot::Torn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const INCARNATION: u64 = 7;
const KEY: u64 = 42;
/// Two words can differ; more words add only equivalent interleavings.
const VALUE_WORDS: usize = 2;

fn value(clock: u64) -> [u64; VALUE_WORDS] {
    [clock * 10, clock * 10 + 1]
}

/// All interleavings in which a thread loses its core at most three times.
fn bounded(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

fn set(segment: &Segment, clock: u64) {
    slot::set(segment, 0, INCARNATION, KEY, clock, &value(clock)).expect("clocks grow");
}

/// What happened in at least one of the interleavings.
#[derive(Default)]
struct Reached {
    unset: AtomicBool,
    changed: AtomicBool,
    clocks: [AtomicBool; 3],
}

impl Reached {
    /// One attempt to read. A value must be that of its clock, and no older than `least`.
    fn get(&self, segment: &Segment, least: u64) -> u64 {
        let mut read = [0; VALUE_WORDS];
        match slot::get(segment, 0, INCARNATION, KEY, &mut read) {
            Ok(clock) => {
                assert_eq!(read, value(clock), "the value is not that of clock {clock}");
                assert!(clock >= least, "clock {clock} after clock {least}");
                self.clocks[clock as usize].store(true, Relaxed);
                clock
            }
            Err(Torn::Unset) => {
                assert_eq!(least, 0, "no value after clock {least}");
                self.unset.store(true, Relaxed);
                least
            }
            Err(Torn::Changed) => {
                self.changed.store(true, Relaxed);
                least
            }
            Err(Torn::Foreign) => panic!("the slot is of no other key"),
        }
    }
}

#[test]
fn a_reader_sees_values_as_they_were_set_in_their_order_or_none() {
    let reached = std::sync::Arc::new(Reached::default());
    let found = std::sync::Arc::clone(&reached);
    bounded(move || {
        let segment = Arc::new(Segment::new(slot::words(VALUE_WORDS)));
        let written = Arc::clone(&segment);
        let writer = thread::spawn(move || {
            set(&written, 1);
            set(&written, 2);
        });
        let (read, other) = (Arc::clone(&segment), std::sync::Arc::clone(&found));
        let reader = thread::spawn(move || {
            let first = other.get(&read, 0);
            other.get(&read, first)
        });
        writer.join().expect("the writer ends");
        let first = reader.join().expect("the reader ends");
        assert_eq!(found.get(&segment, first), 2, "a reader that has synchronised with the writer");
    });
    let seen = [&reached.unset, &reached.changed, &reached.clocks[1], &reached.clocks[2]];
    assert_eq!(seen.map(|seen| seen.load(Relaxed)), [true; 4], "unset, changed, clock 1, clock 2");
}

#[test]
fn two_readers_agree_with_each_set() {
    let reached = std::sync::Arc::new(Reached::default());
    let found = std::sync::Arc::clone(&reached);
    bounded(move || {
        let segment = Arc::new(Segment::new(slot::words(VALUE_WORDS)));
        set(&segment, 1);
        let (written, read, other) =
            (Arc::clone(&segment), Arc::clone(&segment), std::sync::Arc::clone(&found));
        let writer = thread::spawn(move || set(&written, 2));
        let reader = thread::spawn(move || other.get(&read, 0));
        found.get(&segment, 1);
        writer.join().expect("the writer ends");
        reader.join().expect("the reader ends");
    });
    assert!(
        reached.changed.load(Relaxed) && reached.clocks[1].load(Relaxed) && reached.clocks[2].load(Relaxed)
    );
}

/// Two bytes more than a word; their value depends on `number`.
fn mirrored(number: u8) -> [u8; 10] {
    [number; 10]
}

/// One attempt of a reader to read `key`, whose values have the numbers `numbers`. Returns the number of the
/// value.
fn look(view: &View, key: u64, numbers: std::ops::RangeInclusive<u8>) -> Option<u8> {
    let mut value = [0; 10];
    mirror::read(view, 0, key, &mut value).then(|| {
        let number = value[0];
        assert_eq!(value, mirrored(number), "a torn value");
        assert!(numbers.contains(&number), "{number} is not among {numbers:?} of key {key}");
        number
    })
}

/// What happened in at least one of the interleavings.
fn reached<const N: usize>(flags: &[AtomicBool; N]) -> [bool; N] {
    std::array::from_fn(|at| flags[at].load(Relaxed))
}

#[test]
fn a_reader_of_mirrors_sees_values_in_their_order() {
    let seen = std::sync::Arc::new([const { AtomicBool::new(false) }; 3]);
    let found = std::sync::Arc::clone(&seen);
    bounded(move || {
        let segment = Arc::new(Segment::new(mirror::words(10)));
        mirror::publish(&segment, 0, KEY, 1, &mirrored(1));
        let written = Arc::clone(&segment);
        let writer = thread::spawn(move || {
            assert_eq!(mirror::rewrite(&written, 0, KEY, &mirrored(2)), Rewritten::Mirrored);
        });
        let view = View(Arc::clone(&segment));
        match look(&view, KEY, 1..=2) {
            Some(number) => found[usize::from(number)].store(true, Relaxed),
            None => found[0].store(true, Relaxed),
        }
        writer.join().expect("the writer ends");
        assert_eq!(look(&view, KEY, 1..=2), Some(2));
    });
    assert_eq!(reached(&seen)[1..], [true; 2], "the old value, the new one");
}

#[test]
fn a_place_that_another_key_takes_is_never_read_for_the_first_one() {
    let seen = std::sync::Arc::new([const { AtomicBool::new(false) }; 2]);
    let found = std::sync::Arc::clone(&seen);
    bounded(move || {
        let segment = Arc::new(Segment::new(mirror::words(10)));
        mirror::publish(&segment, 0, KEY, 1, &mirrored(1));
        let written = Arc::clone(&segment);
        let writer = thread::spawn(move || mirror::publish(&written, 0, KEY + 1, 1, &mirrored(3)));
        let view = View(Arc::clone(&segment));
        let first = look(&view, KEY, 1..=1);
        found[usize::from(first.is_some())].store(true, Relaxed);
        writer.join().expect("the writer ends");
        assert_eq!((look(&view, KEY, 1..=1), look(&view, KEY + 1, 3..=3)), (None, Some(3)));
    });
    assert_eq!(reached(&seen), [true; 2], "gone, still there");
}

/// A thread that learns by any means that a mirror has ended does not find the mirror.
#[test]
fn a_mirror_that_was_withdrawn_is_found_by_none_who_knows_of_it() {
    bounded(|| {
        let segment = Arc::new(Segment::new(mirror::words(10)));
        mirror::publish(&segment, 0, KEY, 1, &mirrored(1));
        let gone = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let (written, told) = (Arc::clone(&segment), Arc::clone(&gone));
        let writer = thread::spawn(move || {
            mirror::withdraw(&written, 0, KEY);
            told.store(true, loom::sync::atomic::Ordering::Release);
        });
        let view = View(Arc::clone(&segment));
        let knows = gone.load(loom::sync::atomic::Ordering::Acquire);
        let seen = look(&view, KEY, 1..=1);
        assert!(!knows || seen.is_none(), "a mirror after its end");
        writer.join().expect("the writer ends");
    });
}
