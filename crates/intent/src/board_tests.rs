//! The board in one thread. (These tests are not in the board's own file, which is also compiled against
//! other primitives.)

use crate::{Board, FINISHED, Signalled};
use intendant_core::{ChannelId, Key};

/// Signals an intent for one key.
fn signal(board: &Board, worker: usize, channel: usize, key: u64) -> bool {
    board.signal(worker, channel, std::iter::once(Key(key)), 3..4)
}

/// The keys of the intents that have been signalled.
fn take(board: &Board, worker: usize, channel: usize) -> Vec<Key> {
    let mut taken = Signalled::default();
    board.take(worker, channel, &mut taken);
    taken.iter().flat_map(|(keys, ..)| keys).copied().collect()
}

#[test]
fn sleepers_are_woken_once_by_what_they_wait_for() {
    let board = Board::new(2, 2);
    assert!(!signal(&board, 0, 1, 1), "it is awake");
    assert!(!board.sleep(1, |_| None), "something was announced before");
    assert_eq!(take(&board, 0, 1), [Key(1)]);
    assert!(!board.signal(0, 1, std::iter::empty(), 3..4), "nothing");
    assert!(take(&board, 0, 1).is_empty());
    assert!(board.sleep(1, |worker| (worker == 1).then_some(5)));
    assert_eq!(board.advance(0, 100), [], "no channel waits for this worker");
    assert_eq!(board.advance(1, 4), []);
    assert_eq!(board.advance(1, 5), [ChannelId(1)]);
    assert_eq!(board.advance(1, 6), [], "it is awake by now");
    assert!(!board.sleep(1, |_| Some(6)), "the clock is there already");
    assert!(board.sleep(1, |_| Some(1_000)));
    assert!(!signal(&board, 1, 0, 2), "another channel");
    assert!(signal(&board, 1, 1, 2));
    assert!(!signal(&board, 1, 1, 3));
}

#[test]
fn every_worker_has_intents_of_its_own_on_every_channel() {
    let (workers, channels) = (3, 4);
    let board = Board::new(workers, channels);
    assert_eq!(board.workers(), workers);
    let all = || (0..workers).flat_map(|worker| (0..channels).map(move |channel| (worker, channel)));
    for (worker, channel) in all() {
        assert!(!signal(&board, worker, channel, (10 * worker + channel) as u64));
    }
    for (worker, channel) in all() {
        assert_eq!(take(&board, worker, channel), [Key((10 * worker + channel) as u64)]);
    }
}

#[test]
fn an_intent_announced_while_the_cluster_rests_wakes_no_channel() {
    let board = Board::new(2, 2);
    board.hold(1);
    assert_eq!([0, 1].map(|channel| board.is_held(channel)), [false, true]);
    assert_eq!([0, 1].map(|channel| board.is_asleep(channel)), [false, true]);
    assert!(!signal(&board, 0, 1, 1));
    assert_eq!(board.resume(), [ChannelId(1)]);
    assert_eq!(board.resume(), []);
    assert!(!board.sleep(1, |_| None), "it has not been taken");
    board.hold(0);
    assert_eq!(board.advance(1, 0), [ChannelId(0)], "a worker that advances its clock goes on");
    assert!(!board.is_asleep(0));
}

#[test]
fn a_finished_worker_wakes_the_channel_that_waits_for_its_clock() {
    let board = Board::new(1, 1);
    assert!(board.sleep(0, |_| Some(7)));
    assert_eq!(board.advance(0, FINISHED), [ChannelId(0)]);
    assert_eq!(board.advance(0, 3), []);
    assert_eq!(board.clock(0), FINISHED, "clocks do not go back");
}
