//! Mailboxes under loom: senders against a node that takes hints and sleeps. The source is that of the
//! product, compiled a second time with memory of loom's atomic words.

mod sync {
    pub(crate) use crate::memory::Segment;
    pub(crate) use loom::sync::atomic::{Ordering, fence};

    /// One group, whose first two words of hints the tests use.
    pub(crate) const GROUPS: usize = 1;
}

/// A stand-in for the product's segment, with loom's atomic words.
mod memory {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    /// The words that the tests use; access to another word panics.
    const PLACES: [usize; 5] = [0, 8, 16, 24, 25];

    #[derive(Clone, Debug)]
    pub(crate) struct Segment(Arc<[AtomicU64; 5]>);

    impl Segment {
        pub(crate) fn new() -> Self {
            Self(Arc::new(PLACES.map(|_| AtomicU64::new(0))))
        }

        pub(crate) fn words(&self) -> usize {
            usize::MAX
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

        pub(crate) fn fetch_or(&self, at: usize, value: u64, order: Ordering) -> u64 {
            self.word(at).fetch_or(value, order)
        }
    }
}

#[allow(dead_code, reason = "the test uses a part of it")]
#[path = "../src/mailbox.rs"]
mod mailbox;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use mailbox::Mailbox;
use memory::Segment;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Checks all interleavings with at most `times` preemptions.
fn bounded(times: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(times);
    model.check(check);
}

fn taken(mailbox: &Mailbox) -> Vec<usize> {
    let mut taken = Vec::new();
    mailbox.take(|hint| taken.push(hint));
    taken
}

#[test]
fn no_hint_is_lost_and_each_comes_after_what_was_written_before_it() {
    bounded(3, || {
        let mailbox = Mailbox::new(Segment::new());
        let written = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (senders, values) = (mailbox.clone(), Arc::clone(&written));
        // One hint in each of the two words.
        let sender = thread::spawn(move || {
            for (at, hint) in [3, 65].into_iter().enumerate() {
                values[at].store(1, Ordering::Relaxed);
                let _ = senders.send(hint);
            }
        });
        let (receivers, values) = (mailbox.clone(), Arc::clone(&written));
        let receiver = thread::spawn(move || {
            let taken = taken(&receivers);
            for hint in &taken {
                assert_eq!(values[hint / 64].load(Ordering::Relaxed), 1, "hint {hint} came before its value");
            }
            taken
        });
        sender.join().expect("the sender ends");
        let mut all = receiver.join().expect("the receiver ends");
        all.extend(taken(&mailbox));
        all.sort_unstable();
        assert_eq!(all, [3, 65]);
    });
}

#[test]
fn a_hint_that_comes_after_others_were_taken_is_not_lost() {
    bounded(3, || {
        let mailbox = Mailbox::new(Segment::new());
        let _ = mailbox.send(3);
        let senders = mailbox.clone();
        // This hint has the same word and the same group as the hint that is being taken.
        let sender = thread::spawn(move || {
            let _ = senders.send(4);
        });
        let receivers = mailbox.clone();
        let receiver = thread::spawn(move || taken(&receivers));
        sender.join().expect("the sender ends");
        let mut all = receiver.join().expect("the receiver ends");
        all.extend(taken(&mailbox));
        assert_eq!(all, [3, 4]);
    });
}

#[test]
fn a_node_that_sleeps_is_woken_by_one_of_the_senders() {
    let seen = std::sync::Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let cases = std::sync::Arc::clone(&seen);
    bounded(2, move || {
        let mailbox = Mailbox::new(Segment::new());
        let senders: Vec<_> = [3, 4]
            .into_iter()
            .map(|hint| {
                let mailbox = mailbox.clone();
                thread::spawn(move || mailbox.send(hint))
            })
            .collect();
        let sleeper = mailbox.clone();
        let sleeper = thread::spawn(move || sleeper.fall_asleep());
        let woken = senders.into_iter().map(|sender| sender.join().expect("a sender ends"));
        let woken = woken.filter(|woken| *woken).count();
        let sleeps = sleeper.join().expect("the node ends");
        if sleeps {
            // Otherwise the node would sleep with a hint in its mailbox.
            assert_eq!(woken, 1, "one sender wakes a node that sleeps");
        }
        assert_eq!(taken(&mailbox), [3, 4]);
        cases[usize::from(sleeps)].store(true, Relaxed);
    });
    assert!(seen.iter().all(|case| case.load(Relaxed)), "the node has slept, and has found a hint in time");
}
