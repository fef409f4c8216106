//! Mirrors as their users see them: the life of a place, values of all lengths, memory of another process.

use intendant_segment::mirror::{self, Rewritten};
use intendant_segment::{Segment, SegmentError, View};
use std::sync::atomic::Ordering::Relaxed;

const KEY: u64 = 5;

fn read(segment: &Segment, at: usize, key: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut value = vec![0; bytes];
    mirror::read(&View::of(segment), at, key, &mut value).then_some(value)
}

#[test]
fn values_of_all_lengths_are_read_as_they_were_written() {
    for bytes in (0..=40).chain([63, 64, 65, 127, 128, 512, 520, 4096]) {
        let words = mirror::words(bytes);
        assert!(words.is_multiple_of(8) && 8 * words >= 8 * mirror::HEADER + bytes, "{bytes}");
        let segment = Segment::new(2 * words).expect("memory");
        let value = |seed: usize| -> Vec<u8> { (0..bytes).map(|at| (at * 7 + seed) as u8).collect() };
        for at in [0, words] {
            mirror::publish(&segment, at, KEY + at as u64, 9, &value(at));
        }
        assert_eq!(mirror::rewrite(&segment, 0, KEY, &value(3)), Rewritten::Mirrored);
        assert_eq!(read(&segment, 0, KEY, bytes), Some(value(3)), "{bytes} bytes");
        let other = KEY + words as u64;
        assert_eq!(
            read(&segment, words, other, bytes),
            Some(value(words)),
            "{bytes} bytes, beside the other"
        );
    }
}

#[test]
fn a_place_has_one_key() {
    let segment = Segment::new(mirror::words(4)).expect("memory");
    assert_eq!(read(&segment, 0, KEY, 4), None, "nothing yet");
    assert_eq!(mirror::rewrite(&segment, 0, KEY, &[9; 4]), Rewritten::Ended);
    mirror::publish(&segment, 0, KEY, 9, &[1; 4]);
    assert_eq!((read(&segment, 0, KEY, 4), read(&segment, 0, KEY + 1, 4)), (Some(vec![1; 4]), None));
    mirror::publish(&segment, 0, KEY + 1, 9, &[2; 4]);
    assert_eq!((read(&segment, 0, KEY, 4), read(&segment, 0, KEY + 1, 4)), (None, Some(vec![2; 4])));
    // The key that had the place before changes nothing.
    assert_eq!(mirror::rewrite(&segment, 0, KEY, &[9; 4]), Rewritten::Ended);
    mirror::withdraw(&segment, 0, KEY);
    assert!(!mirror::renew(&segment, 0, KEY, 9));
    assert_eq!(read(&segment, 0, KEY + 1, 4), Some(vec![2; 4]));
    mirror::withdraw(&segment, 0, KEY + 1);
    assert_eq!(read(&segment, 0, KEY + 1, 4), None);
}

#[test]
fn a_mirror_ends_after_the_writes_that_it_was_lent() {
    let segment = Segment::new(mirror::words(4)).expect("memory");
    mirror::publish(&segment, 0, KEY, 2, &[1; 4]);
    assert_eq!(mirror::rewrite(&segment, 0, KEY, &[2; 4]), Rewritten::Mirrored);
    assert_eq!(mirror::rewrite(&segment, 0, KEY, &[3; 4]), Rewritten::Mirrored);
    assert_eq!(read(&segment, 0, KEY, 4), Some(vec![3; 4]));
    assert!(mirror::renew(&segment, 0, KEY, 1));
    assert_eq!(mirror::rewrite(&segment, 0, KEY, &[4; 4]), Rewritten::Mirrored);
    assert_eq!(mirror::rewrite(&segment, 0, KEY, &[5; 4]), Rewritten::Ended);
    assert_eq!(read(&segment, 0, KEY, 4), None, "an old value");
}

/// A writer that terminated during a write, or meaningless words: the reader neither waits nor trusts them.
#[test]
fn a_place_that_is_being_written_for_ever_is_not_read() {
    let segment = Segment::new(mirror::words(4)).expect("memory");
    mirror::publish(&segment, 0, KEY, 2, &[1; 4]);
    segment.store(0, 3, Relaxed);
    assert_eq!(read(&segment, 0, KEY, 4), None);
    segment.store(0, u64::MAX, Relaxed);
    assert_eq!(read(&segment, 0, KEY, 4), None);
}

#[test]
fn published_memory_can_be_read_by_others_and_written_by_its_maker_only() {
    let made = Segment::published(16).expect("shared memory");
    let sent = || made.fd().expect("shared").try_clone_to_owned().expect("a descriptor");
    let refused = Segment::open(sent()).expect_err("it is sealed against writing");
    assert!(matches!(refused, SegmentError::ReadOnly { .. }), "{refused}");
    let view = View::open(sent()).expect("to be read");
    assert_eq!(view.words(), 16);
    made.store(3, 7, Relaxed);
    assert_eq!(view.load(3), 7);
    let mapped = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let access = mapped.lines().filter(|line| line.contains("intendant-segment"));
    assert!(access.clone().any(|line| line.contains(" r--s ")), "{mapped}");
    drop(made);
    assert_eq!(view.load(3), 7);
}

#[test]
fn views_refuse_what_is_no_sealed_memory() {
    let file = std::fs::File::open(std::env::current_exe().expect("this test")).expect("this test");
    View::open(file.into()).expect_err("a file");
    let shared = Segment::shared(8).expect("shared memory");
    let fd = shared.fd().expect("shared").try_clone_to_owned().expect("a descriptor");
    assert_eq!(View::open(fd).expect("memory that can be written, too").words(), 8);
}

#[test]
#[should_panic(expected = "not within a segment")]
fn places_end_within_the_memory() {
    let segment = Segment::new(8).expect("memory");
    mirror::publish(&segment, 0, KEY, 1, &[0; 64]);
}
