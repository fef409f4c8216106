//! Words, lengths and limits.

use intendant_segment::{Segment, SegmentError};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

fn both(words: usize) -> [Segment; 2] {
    [Segment::new(words).expect("memory"), Segment::shared(words).expect("shared memory")]
}

#[test]
fn segments_are_zeroed_and_a_whole_number_of_aligned_lines() {
    for (asked, given) in [(1, 8), (8, 8), (9, 16), (1000, 1000), (4097, 4104)] {
        for segment in both(asked) {
            assert_eq!(segment.words(), given);
            assert_eq!(segment.address().as_ptr().addr() % 64, 0);
            let mut words = vec![1; given];
            segment.read(0, &mut words);
            assert_eq!(words, vec![0; given]);
        }
    }
}

#[test]
fn words_keep_what_was_written_to_any_clone() {
    for segment in both(16) {
        let clone = segment.clone();
        segment.write(3, &[30, 40, 50]);
        segment.store(15, 150, Release);
        assert_eq!(clone.load(15, Acquire), 150);
        assert_eq!(clone.swap(15, 1, Relaxed), 150);
        assert_eq!(clone.fetch_or(15, 6, Relaxed), 1);
        assert_eq!(segment.load(15, Relaxed), 7);
        drop(segment);
        let mut words = [0; 5];
        clone.read(2, &mut words);
        assert_eq!(words, [0, 30, 40, 50, 0]);
        let other = Segment::new(8).expect("memory");
        other.copy(1, &clone, 3, 3);
        other.read(0, &mut words);
        assert_eq!(words, [0, 30, 40, 50, 0]);
    }
}

/// Whole lines and partial lines, at any place.
#[test]
fn every_length_at_every_place_is_copied_and_no_more() {
    let source: Vec<u64> = (1..=40).collect();
    for at in 0..10 {
        for words in 0..30 {
            let segment = Segment::new(48).expect("memory");
            segment.write(at, &source[..words]);
            let mut all = [9; 48];
            segment.read(0, &mut all);
            let expected =
                |place: usize| if (at..at + words).contains(&place) { source[place - at] } else { 0 };
            assert!(
                all.iter().enumerate().all(|(place, word)| *word == expected(place)),
                "{words} words at {at}"
            );
            let mut part = vec![0; words];
            segment.read(at, &mut part);
            assert_eq!(part, source[..words]);
            let other = Segment::new(48).expect("memory");
            other.copy(3, &segment, at, words);
            other.read(3, &mut part);
            assert_eq!(part, source[..words]);
            assert_eq!(other.load(2, Relaxed) + other.load(3 + words, Relaxed), 0, "{words} words from {at}");
        }
    }
}

#[test]
fn only_shared_segments_have_a_descriptor() {
    let [own, shared] = both(8);
    assert!(own.fd().is_none() && shared.fd().is_some());
}

#[test]
fn more_than_the_machine_has_is_refused_before_it_is_taken() {
    // 64 TiB, and lengths that no process can address.
    for words in [1 << 43, usize::MAX / 16, usize::MAX / 8, usize::MAX] {
        for made in [Segment::new(words), Segment::shared(words)] {
            let error = made.expect_err("that much memory");
            assert!(
                matches!(error, SegmentError::Memory { .. } | SegmentError::TooLong { .. }),
                "{words}: {error}"
            );
        }
    }
    let error = Segment::new(1 << 43).expect_err("64 TiB").to_string();
    assert!(error.contains("70368744177664 bytes does not fit") && error.contains("leaves"), "{error}");
}

#[test]
fn no_words_are_refused() {
    for made in [Segment::new(0), Segment::shared(0)] {
        assert!(matches!(made, Err(SegmentError::Empty)));
    }
}

#[test]
#[should_panic(expected = "2 words from word 7 on are not within a segment of 8 words")]
fn reads_end_within_the_segment() {
    Segment::new(8).expect("memory").read(7, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "1 words from word 18446744073709551615 on are not within a segment of 8 words")]
fn places_that_overflow_are_outside() {
    Segment::new(8).expect("memory").write(usize::MAX, &[0]);
}

#[test]
#[should_panic(expected = "9 words from word 0 on are not within a segment of 8 words")]
fn copies_end_within_both_segments() {
    let (small, large) = (Segment::new(8).expect("memory"), Segment::new(16).expect("memory"));
    large.copy(0, &small, 0, 9);
}

#[test]
fn bytes_are_those_of_the_words_in_the_order_of_the_machine() {
    for segment in both(40) {
        for (at, words) in (0..10).flat_map(|at| (0..20).map(move |words| (at, words))) {
            let bytes: Vec<u8> = (0..8 * words).map(|byte| (byte + at) as u8).collect();
            segment.write(0, &[u64::MAX; 40]);
            segment.write_bytes(at, &bytes);
            let mut all = [0; 40];
            segment.read(0, &mut all);
            for (place, word) in all.into_iter().enumerate() {
                let inside = (at..at + words).contains(&place);
                let part = inside.then(|| &bytes[8 * (place - at)..8 * (place - at) + 8]);
                assert_eq!(
                    part.unwrap_or(&[255; 8]),
                    word.to_ne_bytes(),
                    "word {place} of {words} from {at}"
                );
            }
            let mut read = vec![0; bytes.len()];
            segment.read_bytes(at, &mut read);
            assert_eq!(read, bytes, "{words} words from {at}");
        }
    }
}

/// Long runs bypass the caches. A write changes only the words that it was asked to write, wherever lines
/// begin.
#[test]
fn many_bytes_are_written_as_few_are() {
    const WORDS: usize = 600;
    for segment in both(WORDS) {
        for (at, words) in (0..10).flat_map(|at| [247, 255, 256, 257, 263, 400, 590].map(|words| (at, words)))
        {
            let bytes: Vec<u8> = (0..8 * words).map(|byte| (byte % 251 + at) as u8).collect();
            segment.write(0, &[u64::MAX; WORDS]);
            segment.write_bytes(at, &bytes);
            let mut all = vec![0; 8 * WORDS];
            segment.read_bytes(0, &mut all);
            assert!(all[..8 * at].iter().chain(&all[8 * (at + words)..]).all(|byte| *byte == 255));
            assert!(all[8 * at..8 * (at + words)] == bytes, "{words} words from {at}");
        }
    }
}

#[test]
#[should_panic(expected = "9 bytes are no whole number of words")]
fn a_part_of_a_word_is_refused() {
    Segment::new(8).expect("memory").write_bytes(0, &[0; 9]);
}

#[test]
#[should_panic(expected = "2 words from word 7 on are not within")]
fn bytes_beyond_the_end_are_refused() {
    Segment::new(8).expect("memory").read_bytes(7, &mut [0; 16]);
}
