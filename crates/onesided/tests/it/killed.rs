//! Processes that are killed in the middle of operations, and what remains of their windows.

use crate::cluster::{LONG, SECRET, has_closed, host, next, polled};
use crate::process::{Process, connect, introduce, say, told};
use intendant_onesided::{Event, Host, MappedWindow, Window, in_process};
use intendant_segment::Segment;
use intendant_segment::slot::{self, Torn};

const KEY: u64 = 5;
const INCARNATION: u64 = 1;
/// 16 KiB, so that a node is killed in the middle of a copy more often than not.
const VALUE_WORDS: usize = 2048;
const SLOT: usize = slot::words(VALUE_WORDS);

fn value(clock: u64) -> Vec<u64> {
    (0..VALUE_WORDS as u64).map(|at| clock.wrapping_mul(1_000_003) + at).collect()
}

/// Writes slots to node 1 until it is killed; the first half of the own segment is the source.
#[test]
#[ignore = "a process of `a_node_that_is_killed_in_the_middle_is_named_and_leaves_no_half_of_a_value`"]
fn write_without_end() {
    let mut window = connect(2 * SLOT);
    let mut image = vec![0; SLOT];
    for clock in 1.. {
        slot::encode(INCARNATION, KEY, clock, &value(clock), &mut image);
        window.local().write(0, &image);
        window.write(1, 0, SLOT, SLOT, Some(9), clock).expect("these words exist");
        for event in polled(&mut window) {
            assert!(!matches!(event, Event::Failed { .. } | Event::Closed { .. }), "{event:?}");
        }
        if clock == 10 {
            say("writing");
        }
    }
}

#[test]
fn a_node_that_is_killed_in_the_middle_is_named_and_leaves_no_half_of_a_value() {
    for _ in 0..3 {
        let mut nodes = [Process::start("killed::write_without_end", 0)];
        let host = Host::listen().expect("a socket");
        let names = introduce(&mut nodes, Some(host.name()));
        let segment = Segment::shared(2 * SLOT).expect("shared memory");
        let mut window = host.connect(segment, 1, &names, SECRET, LONG).expect("node 0 connects");
        assert_eq!(nodes[0].hear(), "writing");
        nodes[0].kill();
        let mut events = Vec::new();
        while !has_closed(&events, 0) {
            events.extend(next(&mut window));
        }
        assert!(has_closed(&events[events.len() - 1..], 0), "nothing comes after the end");
        let mut image = vec![0; SLOT];
        window.local().read(SLOT, &mut image);
        match slot::decode(INCARNATION, KEY, VALUE_WORDS, &image) {
            Ok(clock) => {
                assert_eq!(image[slot::HEADER..][..VALUE_WORDS], value(clock), "an undetected torn value")
            }
            Err(Torn::Changed) => {}
            Err(error @ (Torn::Unset | Torn::Foreign)) => panic!("{error}"),
        }
        window.read(0, 0, 0, 1, 77).expect("the words existed");
        window.write(0, 0, 0, 1, None, 78).expect("the words existed");
        let failed = |id| Event::Failed { id, node: 0, reason: "node 0 has ended".to_owned() };
        assert_eq!(polled(&mut window), [failed(77), failed(78)]);
    }
}

/// Reads from node 0 until node 0 has ended, and reports the end.
#[test]
#[ignore = "a process of `the_others_go_on_without_a_node_that_was_killed`"]
fn read_until_closed() {
    let mut window = connect(128);
    say("connected");
    let (mut id, mut events) = (0, Vec::new());
    while !has_closed(&events, 0) {
        events.retain(|event| !matches!(event, Event::Done(_)));
        id += 1;
        window.read(0, 0, 0, 64, id).expect("these words exist");
        window.poll(&mut events);
    }
    let closed = events.iter().filter(|event| matches!(event, Event::Closed { .. })).count();
    say(format!("closed {closed}"));
    // The other remaining node.
    let other = 3 - window.rank();
    window.local().store(72, 40 + window.rank() as u64, std::sync::atomic::Ordering::Relaxed);
    window.write(other, 72, 73, 1, Some(1), 0).expect("these words exist");
    // The hint may have come before this node noticed the end of node 0.
    while !events.contains(&Event::Hint(1)) {
        events.extend(next(&mut window));
    }
    say(window.local().load(73, std::sync::atomic::Ordering::Relaxed));
    assert_eq!(told(), "end");
}

#[test]
#[ignore = "a process of `the_others_go_on_without_a_node_that_was_killed`"]
fn stay() {
    let _window = connect(64);
    say("connected");
    told();
}

#[test]
fn the_others_go_on_without_a_node_that_was_killed() {
    let mut nodes = [
        Process::start("killed::stay", 0),
        Process::start("killed::read_until_closed", 1),
        Process::start("killed::read_until_closed", 2),
    ];
    introduce(&mut nodes, None);
    for node in &mut nodes {
        assert_eq!(node.hear(), "connected");
    }
    nodes[0].kill();
    for node in &mut nodes[1..] {
        assert_eq!(node.hear(), "closed 1");
    }
    let [_, mut first, mut second] = nodes;
    assert_eq!((first.hear(), second.hear()), ("42".to_owned(), "41".to_owned()));
    for mut node in [first, second] {
        node.tell("end");
        node.succeed();
    }
}

/// Descriptors and mappings of this process.
pub(crate) fn counted() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    (descriptors, maps.matches("intendant-segment").count())
}

/// The test needs a process of its own, because tests beside it open descriptors, too.
#[test]
fn nothing_is_left_of_windows() {
    Process::start("killed::count_what_is_left", 0).succeed();
}

#[test]
#[ignore = "a process of `nothing_is_left_of_windows`"]
fn count_what_is_left() {
    let before = counted();
    let make: [fn(usize, usize) -> Vec<MappedWindow>; 2] =
        [|nodes, words| in_process(nodes, words).expect("windows"), host];
    for make in make {
        let mut windows = make(4, 64);
        assert!(counted().0 > before.0);
        windows[0].write(1, 0, 0, 8, Some(1), 1).expect("these words exist");
        let last = windows.pop().expect("four windows");
        drop(last);
        while !has_closed(&next(&mut windows[0]), 3) {}
        drop(windows);
        assert_eq!(counted(), before);
    }
    // The window of a node whose peer was killed.
    let mut nodes = [Process::start("killed::stay", 0)];
    let host = Host::listen().expect("a socket");
    let names = introduce(&mut nodes, Some(host.name()));
    let segment = Segment::shared(64).expect("shared memory");
    let mut window = host.connect(segment, 1, &names, SECRET, LONG).expect("node 0 connects");
    nodes[0].kill();
    while !has_closed(&next(&mut window), 0) {}
    drop((window, nodes));
    assert_eq!(counted(), before);
    // Neither file nor name: the namespace of Unix sockets has no listener of these nodes.
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("sockets");
    for name in names {
        assert!(!sockets.contains(&name.to_string()), "{name} is left");
    }
}
