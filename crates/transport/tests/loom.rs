//! Rings under loom: a writer against a reader, which sleep and wait for room. The source is that of the
//! product, compiled a second time with memory of loom's atomic words.

mod sync {
    pub(crate) use crate::memory::Segment;
    pub(crate) use loom::sync::atomic::{Ordering, fence};
}

/// A stand-in for the product's segment, with loom's atomic words.
mod memory {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    /// The words that the tests use: positions, announcements, and two words of bytes.
    const PLACES: [usize; 6] = [0, 8, 16, 24, 32, 33];

    #[derive(Clone, Debug)]
    pub(crate) struct Segment(Arc<[AtomicU64; 6]>);

    impl Segment {
        pub(crate) fn new() -> Self {
            Self(Arc::new(PLACES.map(|_| AtomicU64::new(0))))
        }

        pub(crate) fn words(&self) -> usize {
            PLACES[5] + 1
        }

        fn word(&self, at: usize) -> &AtomicU64 {
            let index = PLACES.iter().position(|place| *place == at);
            &self.0[index.unwrap_or_else(|| panic!("word {at} is not used by these tests"))]
        }

        pub(crate) fn load(&self, at: usize, order: Ordering) -> u64 {
            self.word(at).load(order)
        }

        pub(crate) fn store(&self, at: usize, value: u64, order: Ordering) {
            self.word(at).store(value, order);
        }

        pub(crate) fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
            self.word(at).swap(value, order)
        }

        pub(crate) fn read_bytes(&self, at: usize, into: &mut [u8]) {
            for (word, bytes) in into.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&self.load(at + word, Ordering::Relaxed).to_ne_bytes());
            }
        }

        pub(crate) fn write_bytes(&self, at: usize, from: &[u8]) {
            for (word, bytes) in from.as_chunks::<8>().0.iter().enumerate() {
                self.store(at + word, u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
        }
    }
}

#[allow(dead_code, reason = "the test uses a part of it")]
#[path = "../src/ring.rs"]
mod ring;

use bytes::BytesMut;
use loom::thread;
use memory::Segment;
use ring::{Reader, Writer};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Two words, of which one can be used.
const CAPACITY: usize = 16;

/// Checks all interleavings with at most `times` preemptions.
fn bounded(times: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(times);
    model.check(check);
}

fn ends() -> (Writer, Reader) {
    let memory = Segment::new();
    (Writer::new(memory.clone(), 0, CAPACITY), Reader::new(memory, 0, CAPACITY))
}

/// The stream's bytes are 1, 2, 3 …, so that the value of each byte shows its place.
fn stream(from: u8, bytes: usize) -> Vec<u8> {
    (from..).take(bytes).collect()
}

#[test]
fn bytes_arrive_in_order_while_words_are_begun_and_used_again() {
    bounded(3, || {
        let (mut writer, mut reader) = ends();
        let writing = thread::spawn(move || {
            let mut written = 0;
            // Lengths that end within words, and together more than the ring holds.
            for bytes in [3, 4, 6, 5] {
                let wanted = stream(1 + written as u8, bytes);
                written += writer.write(&[IoSlice::new(&wanted)]).expect("a reader in order");
            }
            written
        });
        let mut read = BytesMut::new();
        for _ in 0..3 {
            reader.read(&mut read, 5).expect("a writer in order");
        }
        let written = writing.join().expect("the writer ends");
        while reader.read(&mut read, 64).expect("a writer in order") > 0 {}
        assert_eq!(read, stream(1, written));
    });
}

#[test]
fn a_reader_that_sleeps_is_woken() {
    let seen = std::sync::Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let cases = std::sync::Arc::clone(&seen);
    bounded(3, move || {
        let (mut writer, mut reader) = ends();
        let writing = thread::spawn(move || {
            writer.write(&[IoSlice::new(&[1])]).expect("a reader in order");
            writer.must_wake()
        });
        let sleeps = reader.fall_asleep().expect("a writer in order");
        let woken = writing.join().expect("the writer ends");
        // Otherwise the reader would sleep, and nothing would wake it.
        assert!(woken || !sleeps);
        cases[usize::from(sleeps)].store(true, Relaxed);
    });
    assert!(seen.iter().all(|case| case.load(Relaxed)), "both cases happen");
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    let seen = std::sync::Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let cases = std::sync::Arc::clone(&seen);
    bounded(3, move || {
        let (mut writer, mut reader) = ends();
        assert_eq!(writer.write(&[IoSlice::new(&stream(1, 20))]), Ok(8));
        let reading = thread::spawn(move || {
            let (mut read, mut woken) = (BytesMut::new(), false);
            // The first read alone leaves too little room.
            for most in [2, 6] {
                reader.read(&mut read, most).expect("a writer in order");
                woken |= reader.must_wake();
            }
            woken
        });
        let sleeps = writer.fall_asleep().expect("a reader in order");
        let woken = reading.join().expect("the reader ends");
        assert!(woken || !sleeps);
        assert_eq!(writer.has_room(), Ok(true));
        cases[usize::from(sleeps)].store(true, Relaxed);
    });
    assert!(seen.iter().all(|case| case.load(Relaxed)), "both cases happen");
}
