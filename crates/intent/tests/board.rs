//! The board under loom: in every interleaving, with every value that weak memory orders let a thread read, a
//! channel that sleeps is woken by what it waits for. The source is compiled a second time, against loom's
//! primitives, as in the tests of `intendant-store`.

/// The contents of `src/sync.rs`, made of loom's primitives.
mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
}

mod schedule {
    pub(crate) use intendant_intent::Signalled;
}

#[allow(dead_code, unreachable_pub, reason = "a program uses a part of it")]
#[path = "../src/board.rs"]
mod board;

use board::{Board, FINISHED};
use intendant_core::Key;
use intendant_intent::Signalled;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

fn signal(board: &Board, worker: usize, start: u32) -> bool {
    board.signal(worker, 0, std::iter::once(Key(1)), start..start + 1)
}

/// Number of intents that have been signalled.
fn take(board: &Board) -> usize {
    let mut taken = Signalled::default();
    board.take(0, 0, &mut taken);
    taken.iter().count()
}

/// A channel that looks at clocks and signals, and then sleeps until a clock reaches `wake` or a worker
/// signals an intent.
struct Look {
    clock: u32,
    taken: usize,
    asleep: bool,
}

fn look(board: &Board, wake: u32) -> Look {
    let clock = board.clock(0);
    let taken = take(board);
    Look { clock, taken, asleep: board.sleep(0, |_| Some(wake)) }
}

/// A worker acts while a channel goes to sleep: either the channel has seen the action, or it stays awake, or
/// the worker has been told to wake it.
fn model(act: fn(&Board) -> usize, seen: fn(&Look) -> bool) {
    loom::model(move || {
        let board = Arc::new(Board::new(1, 1));
        let woken = Arc::new(AtomicUsize::new(0));
        let worker = {
            let (board, woken) = (Arc::clone(&board), Arc::clone(&woken));
            thread::spawn(move || {
                woken.fetch_add(act(&board), Ordering::Relaxed);
            })
        };
        let look = look(&board, 5);
        worker.join().unwrap();
        let woken = woken.load(Ordering::Relaxed);
        assert!(woken <= 1, "once is enough");
        assert!(seen(&look) || !look.asleep || woken == 1, "the channel sleeps, and no thread wakes it");
        assert!(look.asleep || woken == 0 || seen(&look) || !board.is_asleep(0));
        // Awake or woken, the channel finds everything now.
        let again = self::look(&board, FINISHED);
        assert!(seen(&again) || seen(&look));
        assert!(again.taken + look.taken <= 1, "nothing is taken twice");
    });
}

#[test]
fn a_signal_is_not_overlooked() {
    model(|board| usize::from(signal(board, 0, 3)), |look| look.taken > 0);
}

#[test]
fn a_clock_is_not_overlooked() {
    model(|board| board.advance(0, 5).len(), |look| look.clock >= 5);
}

#[test]
fn a_worker_that_finishes_is_not_overlooked() {
    model(|board| board.advance(0, FINISHED).len(), |look| look.clock == FINISHED);
}

/// An intent that was signalled before a clock advances is visible to a thread that has seen the clock;
/// otherwise the intent would begin late for no reason.
#[test]
fn who_sees_a_clock_finds_what_was_announced_before() {
    loom::model(|| {
        let board = Arc::new(Board::new(1, 1));
        let worker = {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                let woken = signal(&board, 0, 1);
                assert!(!woken && board.advance(0, 1).is_empty(), "no channel sleeps");
            })
        };
        let clock = board.clock(0);
        let taken = take(&board);
        assert!(clock == 0 || taken == 1);
        worker.join().unwrap();
    });
}

/// Two workers continue while their channel is held: no wake-up is lost.
#[test]
fn a_channel_that_is_held_goes_on_once() {
    loom::model(|| {
        let board = Arc::new(Board::new(2, 1));
        board.hold(0);
        let other = {
            let board = Arc::clone(&board);
            thread::spawn(move || usize::from(signal(&board, 1, 1)) + board.advance(1, 1).len())
        };
        let mine = board.resume().len();
        let woken = mine + other.join().unwrap();
        assert_eq!((woken, board.is_asleep(0)), (1, false));
    });
}
