//! Two processes that write and read slots of one segment as fast as they can.
//!
//! A test ends when each combination of detector, size and direction has seen torn slots: detectors that were
//! never needed were not tested. If each process has a core, the test goes on until 100,000 reads and 100
//! torn ones. The bounds limit work, not time.

use intendant_segment::slot::{self, HEADER, Torn};
use intendant_segment::{Segment, SegmentError};
use rustix::process::{Pid, getppid};
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Release};

/// A process that is killed when its handle is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts this program again, to run the ignored test `name` with a descriptor as its standard input.
    pub(crate) fn start(name: &str, input: Stdio) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]).stdin(input);
        Self(command.spawn().expect("the program starts"))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child of this process").is_some()
    }

    pub(crate) fn succeed(mut self) {
        let status = self.0.wait().expect("a child of this process");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended; `succeed` has then waited for it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the ignored test `name` in a process without other threads of tests.
pub(crate) fn alone(name: &str) {
    Process::start(name, Stdio::null()).succeed();
}

/// How slots are written and read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Detector {
    /// `set` and `get`.
    Lock,
    /// `set`, and a copy that `decode` checks: a pull.
    Copied,
    /// A copy of the image that `encode` made, and a copy that `decode` checks: a push.
    Sent,
}

/// One slot, written by one of the processes.
#[derive(Debug)]
struct Phase {
    detector: Detector,
    value_words: usize,
    parent_writes: bool,
    /// Place of the slot. By the line before it, the reader tells the writer that it has seen enough.
    at: usize,
}

const INCARNATION: u64 = 0x5e9;
/// From 64 bytes to 16 KiB.
const VALUE_WORDS: [usize; 5] = [8, 32, 128, 512, 2048];
/// What a phase must have seen.
const TORN_MIN: u64 = 1;
const CLOCKS_MIN: u64 = 25;
/// What a phase goes on for if there are two cores.
const TORN_WANTED: u64 = 100;
const READS_WANTED: u64 = 100_000;
/// Attempts after which a phase goes on no longer: the cores have other work, and processes that take turns
/// on a core seldom cause torn reads.
const READS_ENOUGH: u64 = 2_000_000;
/// Attempts of one phase. Hundreds are needed if each process has a core, far more if they share one.
const READS_MAX: u64 = 200_000_000;
/// Attempts without a new clock after which a reader offers its core to the writer, which may have none.
const STALE_READS_MAX: u64 = 256;
/// Writes after which a writer checks whether the reader's process still runs.
const SETS_PER_LOOK: u64 = 4096;

fn phases() -> (Vec<Phase>, usize) {
    let (mut phases, mut words) = (Vec::new(), 0);
    for detector in [Detector::Lock, Detector::Copied, Detector::Sent] {
        for value_words in VALUE_WORDS {
            for parent_writes in [true, false] {
                let at = words + 8;
                phases.push(Phase { detector, value_words, parent_writes, at });
                words = at + slot::words(value_words);
            }
        }
    }
    (phases, words)
}

/// A word of the only value of `clock`: each word differs from those of all other clocks.
fn word(clock: u64, place: usize) -> u64 {
    clock.wrapping_mul(0x0001_0000_0001).wrapping_add(place as u64)
}

impl Phase {
    fn key(&self) -> u64 {
        self.at as u64
    }

    fn write(&self, segment: &Segment, mut peer_has_ended: impl FnMut() -> bool) {
        let mut value = vec![0; self.value_words];
        let mut image = vec![0; slot::words(self.value_words)];
        let mut clock = 0;
        // Acquire: pairs with the Release in `read`.
        while segment.load(self.at - 8, Acquire) == 0 {
            clock += 1;
            value.iter_mut().enumerate().for_each(|(place, value)| *value = word(clock, place));
            if self.detector == Detector::Sent {
                slot::encode(INCARNATION, self.key(), clock, &value, &mut image);
                segment.write(self.at, &image);
            } else {
                slot::set(segment, self.at, INCARNATION, self.key(), clock, &value).expect("clocks grow");
            }
            assert!(
                !clock.is_multiple_of(SETS_PER_LOOK) || !peer_has_ended(),
                "the reader of {self:?} has ended"
            );
        }
    }

    #[expect(
        clippy::print_stdout,
        reason = "what a run has seen is of interest, not only that it has passed"
    )]
    fn read(&self, segment: &Segment) {
        let mut image = vec![0; slot::words(self.value_words)];
        let (mut last, mut clocks, mut torn) = (0, 0, 0);
        let (mut reads, mut stale) = (0, 0u64);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted =
            |reads, torn| cores > 1 && reads < READS_ENOUGH && (reads < READS_WANTED || torn < TORN_WANTED);
        while clocks < CLOCKS_MIN || torn < TORN_MIN || wanted(reads, torn) {
            reads += 1;
            assert!(reads < READS_MAX, "{self:?}: {torn} torn reads and {clocks} clocks after {reads} reads");
            let value = HEADER..HEADER + self.value_words;
            let found = if self.detector == Detector::Lock {
                slot::get(segment, self.at, INCARNATION, self.key(), &mut image[value.clone()])
            } else {
                segment.read(self.at, &mut image);
                slot::decode(INCARNATION, self.key(), self.value_words, &image)
            };
            match found {
                Ok(clock) => {
                    let whole = image[value].iter().enumerate().all(|(at, found)| *found == word(clock, at));
                    assert!(whole, "{self:?}: an undetected torn read of clock {clock}, after {reads} reads");
                    assert!(clock >= last, "{self:?}: clock {clock} after clock {last}");
                    if clock > last {
                        (clocks, stale) = (clocks + 1, 0);
                    }
                    last = clock;
                }
                Err(Torn::Changed) => torn += 1,
                Err(Torn::Unset) => {
                    assert_eq!(last, 0, "{self:?}: no value after clock {last}");
                }
                Err(Torn::Foreign) => panic!("{self:?}: a slot of another key"),
            }
            stale += 1;
            if stale.is_multiple_of(STALE_READS_MAX) {
                std::thread::yield_now();
            }
        }
        println!("{self:?}: {reads} reads, {clocks} clocks, {torn} torn");
        // Release: pairs with the Acquire in `write`.
        segment.store(self.at - 8, 1, Release);
    }
}

#[test]
fn two_processes_detect_every_torn_slot() {
    let (phases, words) = phases();
    let segment = Segment::shared(words).expect("shared memory");
    let sent = segment.fd().expect("shared").try_clone_to_owned().expect("a descriptor");
    let mut child = Process::start("processes::the_other_of_two_processes", Stdio::from(sent));
    for phase in &phases {
        if phase.parent_writes {
            phase.write(&segment, || child.has_ended());
        } else {
            phase.read(&segment);
        }
    }
    child.succeed();
}

#[test]
#[ignore = "a process of `two_processes_detect_every_torn_slot`"]
fn the_other_of_two_processes() {
    let parent: Option<Pid> = getppid();
    let segment = opened_input().expect("the segment of the parent");
    for phase in phases().0 {
        if phase.parent_writes {
            phase.read(&segment);
        } else {
            phase.write(&segment, || getppid() != parent);
        }
    }
}

/// The segment whose descriptor is the standard input.
fn opened_input() -> Result<Segment, SegmentError> {
    Segment::open(io::stdin().as_fd().try_clone_to_owned().expect("a descriptor"))
}
