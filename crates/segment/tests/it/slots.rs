//! Slots: images against their checksum, and the sequence lock from one thread.

use intendant_segment::Segment;
use intendant_segment::slot::{self, HEADER, SetError, Torn};
use proptest::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

fn image(incarnation: u64, key: u64, clock: u64, value: &[u64]) -> Vec<u64> {
    let mut image = vec![u64::MAX; slot::words(value.len())];
    slot::encode(incarnation, key, clock, value, &mut image);
    image
}

#[test]
fn slots_are_whole_lines() {
    assert_eq!([0, 1, 4, 5, 12, 13, 60].map(slot::words), [8, 8, 8, 16, 16, 24, 64]);
}

#[test]
fn what_was_set_is_read_in_both_ways() {
    let segment = Segment::new(64).expect("memory");
    for (clock, value) in [(1, [5, 6, 7]), (2, [8, 9, 10]), (u64::MAX, [0, 0, 0])] {
        slot::set(&segment, 16, 3, 9, clock, &value).expect("clocks grow");
        let mut read = [0; 3];
        assert_eq!(slot::get(&segment, 16, 3, 9, &mut read), Ok(clock));
        assert_eq!(read, value);
        let mut image = [0; 8];
        segment.read(16, &mut image);
        assert_eq!(slot::decode(3, 9, 3, &image), Ok(clock));
        assert_eq!(image[HEADER..7], value);
    }
    let mut around = [0; 64];
    segment.read(0, &mut around);
    assert!(around[..16].iter().chain(&around[24..]).all(|word| *word == 0), "only the slot was written");
}

#[test]
fn a_slot_that_was_never_written_is_unset() {
    let segment = Segment::new(8).expect("memory");
    assert_eq!(slot::get(&segment, 0, 0, 0, &mut [0; 4]), Err(Torn::Unset));
    assert_eq!(slot::decode(0, 0, 4, &[0; 8]), Err(Torn::Unset));
    // The value of a first write has arrived, but its header has not.
    assert_eq!(slot::decode(0, 0, 4, &[0, 0, 0, 0, 1, 2, 3, 4]), Err(Torn::Unset));
    // Key 0 of incarnation 0 with value 0 is a value nevertheless.
    slot::set(&segment, 0, 0, 0, 1, &[0; 4]).expect("a first value");
    assert_eq!(slot::get(&segment, 0, 0, 0, &mut [1; 4]), Ok(1));
    assert_eq!(slot::decode(0, 0, 4, &image(0, 0, 1, &[0; 4])), Ok(1));
}

#[test]
fn clocks_grow() {
    let segment = Segment::new(8).expect("memory");
    let set = |clock, value| slot::set(&segment, 0, 1, 1, clock, &[value]);
    assert_eq!(set(0, 1), Err(SetError::Clock { clock: 0, last: 0 }));
    assert_eq!(set(5, 5), Ok(()));
    for clock in [0, 4, 5] {
        assert_eq!(set(clock, clock), Err(SetError::Clock { clock, last: 5 }));
    }
    let mut read = [0];
    assert_eq!(
        (slot::get(&segment, 0, 1, 1, &mut read), read),
        (Ok(5), [5]),
        "a refused value changes nothing"
    );
    assert_eq!(set(7, 7), Ok(()));
}

#[test]
fn slots_of_other_keys_and_runs_are_foreign() {
    let segment = Segment::new(8).expect("memory");
    slot::set(&segment, 0, 1, 1, 1, &[0]).expect("a first value");
    for (incarnation, key) in [(1, 2), (2, 1), (0, 1), (1, 0)] {
        assert_eq!(slot::get(&segment, 0, incarnation, key, &mut [0]), Err(Torn::Foreign));
        assert_eq!(slot::set(&segment, 0, incarnation, key, 2, &[0]), Err(SetError::Foreign));
        assert_eq!(slot::decode(incarnation, key, 1, &image(1, 1, 1, &[0])), Err(Torn::Foreign));
    }
}

#[test]
fn a_writer_that_is_at_work_is_noticed() {
    let segment = Segment::new(8).expect("memory");
    slot::set(&segment, 0, 1, 1, 1, &[0]).expect("a first value");
    segment.store(0, segment.load(0, Relaxed) + 1, Relaxed);
    assert_eq!(slot::get(&segment, 0, 1, 1, &mut [0]), Err(Torn::Changed));
    assert_eq!(slot::set(&segment, 0, 1, 1, 2, &[0]), Err(SetError::Busy));
}

#[test]
fn a_writer_that_remembers_its_slot_believes_only_itself() {
    let segment = Segment::new(16).expect("memory");
    let mut known = slot::Written::default();
    let set = |known: &mut slot::Written, clock| slot::set_known(&segment, 8, (1, 2), known, clock, &[clock]);
    assert_eq!(set(&mut known, 0), Err(SetError::Clock { clock: 0, last: 0 }));
    assert_eq!((set(&mut known, 3), known.clock()), (Ok(()), 3));
    assert_eq!(slot::set(&segment, 8, 1, 2, 4, &[4]), Ok(()), "another writer");
    assert_eq!((set(&mut known, 9), known.clock()), (Err(SetError::Overwritten), 3));
    let mut read = [0];
    assert_eq!((slot::get(&segment, 8, 1, 2, &mut read), read), (Ok(4), [4]), "the slot is as it was");
    // A changed clock makes neither an older value acceptable nor a newer one late.
    let mut known = slot::Written::default();
    segment.write(8, &[0; 8]);
    set(&mut known, 3).expect("a first value");
    for changed in [1, 7] {
        segment.store(9, changed, Relaxed);
        assert_eq!(set(&mut known, 5), Err(SetError::Overwritten));
        assert_eq!(slot::peek_clock(&segment, 8), changed);
        assert_eq!(slot::read(&segment, 8, 1, 2, &mut read), Err(Torn::Changed));
    }
    segment.store(9, 3, Relaxed);
    assert_eq!((slot::read(&segment, 8, 1, 2, &mut read), read), (Ok(3), [3]));
    assert_eq!((set(&mut known, 5), slot::read(&segment, 8, 1, 2, &mut read), read), (Ok(()), Ok(5), [5]));
}

#[test]
#[should_panic(expected = "a slot at word 4 with a value of 1 words is not within a segment of 8 words")]
fn slots_end_within_the_segment() {
    let _ = slot::get(&Segment::new(8).expect("memory"), 4, 1, 1, &mut [0]);
}

#[test]
#[should_panic(expected = "the clock of a value is at least 1")]
fn images_have_a_clock() {
    slot::encode(1, 1, 0, &[0], &mut [0; 8]);
}

proptest! {
    #[test]
    fn images_return_what_was_encoded(
        incarnation: u64, key: u64, clock in 1u64.., value in prop::collection::vec(any::<u64>(), 0..600),
    ) {
        let made = image(incarnation, key, clock, &value);
        prop_assert_eq!(slot::decode(incarnation, key, value.len(), &made), Ok(clock));
        prop_assert_eq!(&made[HEADER..HEADER + value.len()], &value[..]);
        prop_assert!(made[HEADER + value.len()..].iter().all(|word| *word == 0));
    }

    /// Any mixture of the words of two versions in which not all words are from one version.
    #[test]
    fn mixtures_of_two_versions_are_torn(
        versions in (1usize..200).prop_flat_map(|words| prop::collection::vec(
            prop::collection::vec(any::<u64>(), words), 2)),
        clocks in (1u64..1000, 1u64..1000),
        chosen in prop::collection::vec(any::<bool>(), 256),
        lines: bool,
    ) {
        let (older, newer) = (clocks.0, clocks.0 + clocks.1);
        let images = [image(1, 2, older, &versions[0]), image(1, 2, newer, &versions[1])];
        // By line, as RDMA mixes them, or by word, as any other copy may.
        let choice = |at: usize| chosen[if lines { at / 8 } else { at }];
        let mixed: Vec<u64> = (0..images[0].len()).map(|at| images[usize::from(choice(at))][at]).collect();
        let found = slot::decode(1, 2, versions[0].len(), &mixed);
        let content = |image: &[u64]| image[1..HEADER + versions[0].len()].to_vec();
        if content(&mixed) == content(&images[0]) {
            prop_assert_eq!(found, Ok(older));
        } else if content(&mixed) == content(&images[1]) {
            prop_assert_eq!(found, Ok(newer));
        } else {
            prop_assert_eq!(found, Err(Torn::Changed));
        }
    }

    /// The checksum detects a word that another node has changed by mistake. (A malicious node can make valid
    /// slots: the checksum uses no secret key.)
    #[test]
    fn one_changed_bit_is_noticed(
        value in prop::collection::vec(any::<u64>(), 0..40),
        clock in 1u64..,
        at: prop::sample::Index,
        bit in 0..64u32,
    ) {
        let mut made = image(3, 4, clock, &value);
        // Neither the sequence, which images do not use, nor the words after the value.
        let at = 1 + at.index(HEADER - 1 + value.len());
        made[at] ^= 1u64 << bit;
        let found = slot::decode(3, 4, value.len(), &made);
        prop_assert!(matches!(found, Err(Torn::Changed | Torn::Foreign)), "{found:?}");
    }

    #[test]
    fn a_length_that_differs_is_noticed(
        value in prop::collection::vec(any::<u64>(), 1..40), less in 1usize..40,
    ) {
        let made = image(3, 4, 1, &value);
        let shorter = value.len().saturating_sub(less);
        prop_assert_eq!(slot::decode(3, 4, shorter, &made), Err(Torn::Changed));
    }
}
