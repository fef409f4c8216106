//! Tests of rings on the memory that the product uses; `tests/loom.rs` tests interleavings.

use crate::ring::{Reader, Writer, words};
use crate::sync::{Ordering, Segment};
use bytes::BytesMut;
use proptest::prelude::*;
use std::io::IoSlice;

/// The bytes of its memory that the ring leaves unused.
const WORD: usize = 8;

/// Bytes of the tests' ring: few, so that it is often full.
const CAPACITY: usize = 128;

fn ends(at: usize) -> (Writer, Reader, Segment) {
    let memory = Segment::new(at + words(CAPACITY)).expect("memory");
    (Writer::new(memory.clone(), at, CAPACITY), Reader::new(memory.clone(), at, CAPACITY), memory)
}

proptest! {
    #[test]
    fn the_stream_arrives_however_it_is_cut(
        steps in proptest::collection::vec((any::<bool>(), 0usize..200, 0usize..200), 1..200),
    ) {
        let (mut writer, mut reader, _) = ends(3);
        // The value of each byte follows from its place in the stream.
        let stream: Vec<u8> = (0..100_000usize).map(|place| (place % 251) as u8).collect();
        let (mut written, mut read) = (0, BytesMut::new());
        for (writes, first, second) in steps {
            if writes {
                let (first, second) = stream[written..written + first + second].split_at(first);
                let taken = writer.write(&[IoSlice::new(first), IoSlice::new(second)]).expect("in order");
                let room = CAPACITY - WORD - (written - read.len());
                prop_assert_eq!(taken, room.min(first.len() + second.len()));
                written += taken;
            } else {
                let before = read.len();
                let taken = reader.read(&mut read, first).expect("in order");
                prop_assert_eq!(read.len() - before, taken);
                // The reader looks again only once it has read all that it knows of.
                prop_assert!(taken > 0 || first == 0 || before == written);
            }
            prop_assert!(read == stream[..read.len()]);
        }
        while reader.read(&mut read, 64).expect("in order") > 0 {}
        prop_assert!(read == stream[..written]);
    }

    /// Whatever a peer writes, both ends stay within the ring or say what is wrong.
    #[test]
    fn a_peer_that_writes_anything_is_an_error_or_bytes(
        words in proptest::collection::vec((0usize..34, prop_oneof![0u64..300, any::<u64>()]), 1..40),
    ) {
        let (mut writer, mut reader, memory) = ends(0);
        let mut read = BytesMut::new();
        for (word, value) in words {
            memory.store(word, value, Ordering::Relaxed);
            if let Ok(taken) = writer.write(&[IoSlice::new(&[7; 50])]) {
                prop_assert!(taken <= 50);
            }
            let before = read.len();
            if let Ok(taken) = reader.read(&mut read, 1_000) {
                prop_assert!(taken <= CAPACITY - WORD && read.len() - before == taken);
            } else {
                prop_assert_eq!(read.len(), before);
            }
            let _ = (writer.must_wake(), writer.has_room(), writer.fall_asleep());
            let _ = (reader.must_wake(), reader.fall_asleep());
        }
    }
}
