//! Reads, writes, hints and ends, with windows of all kinds.

use crate::cluster::{LONG, all, both, done, has_closed, next, polled};
use intendant_onesided::{Event, HINTS, Window, WindowError, in_process};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

fn pair<W>(mut windows: Vec<W>) -> (W, W) {
    let second = windows.pop().expect("two windows");
    (windows.pop().expect("two windows"), second)
}

#[test]
fn each_node_reads_and_writes_the_memory_of_each_other() {
    for mut windows in all(4, 64) {
        for (rank, window) in windows.iter_mut().enumerate() {
            assert_eq!((window.rank(), window.nodes(), window.local().words()), (rank, 4, 64));
            window.local().write(0, &[100 + rank as u64, 200 + rank as u64]);
        }
        for (rank, window) in windows.iter_mut().enumerate() {
            for node in (0..4).filter(|node| *node != rank) {
                // Reads the other node's second word to a place for each node; writes the own words to a
                // place for each rank.
                window.read(node, 1, 8 + node, 1, node as u64).expect("these words exist");
                window.write(node, 0, 16 + 2 * rank, 2, None, 10 + node as u64).expect("these words exist");
            }
            let ids =
                |from: u64| (0..4).filter(move |node| *node != rank as u64).map(move |node| from + node);
            assert_eq!(done(window, 6), ids(0).chain(ids(10)).collect::<Vec<_>>());
            assert_eq!(polled(window), [], "each event is reported once");
        }
        for (rank, window) in windows.iter().enumerate() {
            for node in (0..4).filter(|node| *node != rank) {
                assert_eq!(window.local().load(8 + node, Relaxed), 200 + node as u64);
                let mut written = [0; 2];
                window.local().read(16 + 2 * node, &mut written);
                assert_eq!(written, [100 + node as u64, 200 + node as u64]);
            }
        }
    }
}

#[test]
fn the_memory_of_other_nodes_is_read_in_place() {
    for windows in both(3, 8) {
        for (rank, window) in windows.iter().enumerate() {
            window.local().store(0, 100 + rank as u64, Relaxed);
        }
        for (rank, window) in windows.iter().enumerate() {
            for node in (0..3).filter(|node| *node != rank) {
                assert_eq!(window.mapped(node).expect("another node").load(0, Relaxed), 100 + node as u64);
            }
            assert!(window.mapped(rank).is_none() && window.mapped(3).is_none());
        }
    }
}

/// More hints than any window has room for, while the node does not look.
#[test]
fn hints_to_a_node_that_does_not_look_coalesce_and_none_is_lost() {
    const DIFFERENT: u32 = 1000;
    /// More than any machine needs.
    const LOOKS_MAX: u32 = 20_000;
    for windows in all(2, 8) {
        let (mut a, mut b) = pair(windows);
        for count in 0..3 * DIFFERENT {
            while a.write(1, 0, 0, 1, Some(count % DIFFERENT), u64::from(count)).is_err() {
                assert!(a.wait(LONG).expect("the system waits"));
                polled(&mut a).into_iter().for_each(|event| assert!(matches!(event, Event::Done(_))));
            }
        }
        let (mut hints, mut looks) = (BTreeSet::new(), 0);
        while hints.len() < DIFFERENT as usize {
            looks += 1;
            assert!(looks < LOOKS_MAX, "{} hints only", hints.len());
            polled(&mut a);
            b.wait(Duration::from_millis(1)).expect("the system waits");
            let events = polled(&mut b).into_iter();
            hints.extend(events.map(|event| match event {
                Event::Hint(hint) => hint,
                event @ (Event::Done(_) | Event::Failed { .. } | Event::Closed { .. }) => panic!("{event:?}"),
            }));
        }
        assert!(hints.into_iter().eq(0..DIFFERENT));
    }
}

#[test]
fn hints_coalesce_and_each_is_taken_once() {
    for windows in both(3, 8) {
        let mut windows = windows;
        let mut c = windows.pop().expect("three windows");
        for (node, hint) in [(0, 7), (1, 70_000 % HINTS), (0, 7), (1, 0), (1, HINTS - 1)] {
            windows[node].write(2, 0, 0, 0, Some(hint), 1).expect("a hint alone");
        }
        let hints = [0, 7, 70_000 % HINTS, HINTS - 1].map(Event::Hint);
        assert_eq!(polled(&mut c), hints);
        assert_eq!(polled(&mut c), []);
        windows[0].write(2, 0, 0, 0, Some(7), 1).expect("a hint alone");
        assert_eq!(polled(&mut c), [Event::Hint(7)], "a hint that was taken can come again");
        assert!(polled(&mut windows[1]).iter().all(|event| *event == Event::Done(1)), "hints reach one node");
    }
}

#[test]
fn all_hints_are_told_apart() {
    let (mut a, mut b) = pair(in_process(2, 8).expect("windows"));
    for hint in 0..HINTS {
        a.write(1, 0, 0, 0, Some(hint), 1).expect("a hint alone");
        assert_eq!(polled(&mut b), [Event::Hint(hint)]);
    }
}

#[test]
fn words_that_do_not_exist_are_refused_and_nothing_is_begun() {
    for windows in all(2, 64) {
        let (mut a, mut b) = pair(windows);
        let outside = |node, at, words| Err(WindowError::Outside { node, at, words, segment_words: 64 });
        for (at, words) in
            [(64, 1), (0, 65), (63, 2), (usize::MAX, 1), (1, usize::MAX), (usize::MAX, usize::MAX)]
        {
            assert_eq!(a.read(1, at, 0, words, 1), outside(1, at, words));
            assert_eq!(a.write(1, 0, at, words, Some(1), 1), outside(1, at, words));
            if words <= 64 {
                assert_eq!(a.read(1, 0, at, words, 1), outside(0, at, words));
                assert_eq!(a.write(1, at, 0, words, Some(1), 1), outside(0, at, words));
            }
        }
        for node in [2, usize::MAX] {
            assert_eq!(a.read(node, 0, 0, 1, 1), Err(WindowError::Node { node, nodes: 2 }));
            assert_eq!(a.write(node, 0, 0, 1, None, 1), Err(WindowError::Node { node, nodes: 2 }));
        }
        assert_eq!(a.read(0, 0, 0, 1, 1), Err(WindowError::Own { node: 0 }));
        for hint in [HINTS, u32::MAX] {
            assert_eq!(a.write(1, 0, 0, 1, Some(hint), 1), Err(WindowError::Hint { hint }));
        }
        assert_eq!((polled(&mut a), polled(&mut b)), (vec![], vec![]));
        // The ends of the segments exist.
        assert_eq!((a.read(1, 0, 0, 64, 1), a.write(1, 64, 64, 0, None, 2)), (Ok(()), Ok(())));
        assert_eq!(done(&mut a, 2), [1, 2]);
    }
    let error = WindowError::Outside { node: 3, at: 60, words: 8, segment_words: 64 }.to_string();
    assert_eq!(error, "8 words from word 60 on are not within the segment of node 3, which has 64 words");
}

/// Each node waits for the other's hint, and answers it: most of the time, one of them sleeps.
#[test]
fn a_node_that_waits_is_woken_by_a_hint_and_finds_what_was_written() {
    const ROUNDS: u64 = 2000;
    fn send(window: &mut impl Window, value: u64) {
        window.local().store(0, value, Relaxed);
        window.write(1 - window.rank(), 0, 1, 1, Some(3), value).expect("these words exist");
    }
    fn receive(window: &mut impl Window) -> u64 {
        while !next(window).contains(&Event::Hint(3)) {}
        window.local().load(1, Relaxed)
    }
    for windows in all(2, 8) {
        let (mut a, mut b) = pair(windows);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    assert_eq!(receive(&mut b), 2 * round, "the hint came before the value");
                    send(&mut b, 2 * round + 1);
                }
            });
            for round in 1..=ROUNDS {
                send(&mut a, 2 * round);
                assert_eq!(receive(&mut a), 2 * round + 1, "the hint came before the value");
            }
        });
    }
}

#[test]
fn a_wait_without_an_event_ends() {
    for windows in all(2, 8) {
        let (mut a, _b) = pair(windows);
        for millis in [0, 1, 5] {
            assert!(
                !a.wait(Duration::from_millis(millis)).expect("the system waits"),
                "no node has woken this one"
            );
        }
        assert_eq!(polled(&mut a), []);
        // With an event to report, it does not wait.
        a.read(1, 0, 0, 1, 5).expect("these words exist");
        assert!(a.wait(LONG).expect("the system waits"));
        assert_eq!(polled(&mut a), [Event::Done(5)]);
    }
}

#[test]
fn the_end_of_a_node_is_reported_once_after_its_hints_and_later_operations_fail() {
    for windows in all(3, 8) {
        let [mut a, mut b, c] = <[_; 3]>::try_from(windows).ok().expect("three windows");
        let mut c = c;
        c.write(0, 0, 0, 1, Some(11), 1).expect("these words exist");
        drop(c);
        let mut events = Vec::new();
        while !has_closed(&events, 2) {
            events.extend(next(&mut a));
        }
        let reason = match events.pop() {
            Some(Event::Closed { node: 2, reason }) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason.contains("ended"), "{reason}");
        assert_eq!(events, [Event::Hint(11)]);
        a.read(2, 0, 0, 1, 20).expect("the words existed");
        a.write(2, 0, 0, 1, Some(1), 21).expect("the words existed");
        let failed = |id| Event::Failed { id, node: 2, reason: "node 2 has ended".to_owned() };
        assert_eq!(polled(&mut a), [failed(20), failed(21)]);
        // The others go on, and see the end of node 2 as well.
        a.write(1, 0, 0, 1, Some(12), 22).expect("these words exist");
        assert_eq!(done(&mut a, 1), [22]);
        let mut events = Vec::new();
        while events.len() < 2 {
            events.extend(next(&mut b));
        }
        assert!(events.contains(&Event::Hint(12)) && has_closed(&events, 2), "{events:?}");
    }
}

/// `poll` alone notices the end as well, if it is called often enough.
#[test]
fn a_node_that_only_polls_notices_the_end_of_another() {
    for windows in all(2, 8) {
        let (mut a, b) = pair(windows);
        drop(b);
        // A process that another test is starting holds the socket for a moment, too.
        let polls = (0..10_000_000).take_while(|_| polled(&mut a).is_empty()).count();
        assert!(polls < 10_000_000, "no event after {polls} polls");
    }
}

#[test]
fn windows_of_no_or_too_many_nodes_are_refused() {
    assert!(in_process(0, 8).expect_err("no nodes").to_string().contains("0 nodes"));
    assert!(in_process(1 << 20, 8).expect_err("too many").to_string().contains("at most 4096"));
    assert!(in_process(2, 0).expect_err("no words").to_string().contains("node 0"));
}
