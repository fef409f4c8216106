//! Tests which nodes connect, which do not, and what refusals say.

use crate::cluster::{LONG, SECRET, polled};
use intendant_onesided::{ConnectError, Host, MappedWindow, Name, Window, WindowError};
use intendant_segment::Segment;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// Long enough for a node that is about to be refused.
const SHORT: Duration = Duration::from_millis(300);

fn segment() -> Segment {
    Segment::shared(8).expect("shared memory")
}

fn hosts(nodes: usize) -> (Vec<Host>, Vec<Name>) {
    let hosts: Vec<Host> = (0..nodes).map(|_| Host::listen().expect("a socket")).collect();
    let names = hosts.iter().map(Host::name).collect();
    (hosts, names)
}

#[test]
fn nodes_of_other_hosts_are_elsewhere() {
    let (hosts, mut names) = hosts(2);
    // Names at which no process listens: those of other hosts, in the places of the first and the last node.
    names.insert(0, "0123456789abcdef0123456789abcdef".parse().expect("a name"));
    names.push("f123456789abcdef0123456789abcdef".parse().expect("a name"));
    let mut windows: Vec<MappedWindow> = thread::scope(|scope| {
        let connect = |(at, host): (usize, Host)| {
            let names = &names;
            scope.spawn(move || {
                host.connect(segment(), at + 1, names, SECRET, LONG).expect("the other connects")
            })
        };
        let threads: Vec<_> = hosts.into_iter().enumerate().map(connect).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for window in &mut windows {
        let other = 3 - window.rank();
        for node in [0, 3] {
            assert_eq!(window.read(node, 0, 0, 1, 1), Err(WindowError::Elsewhere { node }));
            assert!(window.mapped(node).is_none());
        }
        assert_eq!(window.read(other, 0, 0, 1, 1), Ok(()));
        assert_eq!(polled(window).len(), 1);
    }
}

#[test]
fn a_node_that_does_not_come_is_named() {
    let (mut hosts, names) = hosts(3);
    let last = hosts.pop().expect("three nodes");
    let error = last.connect(segment(), 2, &names, SECRET, SHORT).expect_err("no node calls").to_string();
    assert!(error.starts_with("after 0 s, node 0 has not connected: "), "{error}");
}

#[test]
fn a_caller_can_give_up() {
    let (mut hosts, names) = hosts(2);
    let last = hosts.pop().expect("two nodes");
    let asked = std::cell::Cell::new(0);
    let goes_on = || asked.replace(asked.get() + 1) < 4;
    let error = last.connect_while(segment(), 1, &names, SECRET, LONG, &goes_on).expect_err("no node calls");
    assert!(matches!(error, ConnectError::GivenUp { node: 0 }), "{error}");
    assert_eq!(asked.get(), 5);
}

#[test]
fn numbers_and_names_must_fit() {
    let connect = |rank: usize, names: fn(Name) -> Vec<Name>, segment| {
        let host = Host::listen().expect("a socket");
        let names = names(host.name());
        host.connect(segment, rank, &names, SECRET, SHORT).expect_err("this does not fit").to_string()
    };
    assert!(connect(0, |_| Vec::new(), segment()).contains("0 nodes"));
    assert!(connect(1, |own| vec![own], segment()).contains("number 1, but there are names of 1 nodes"));
    let other: fn(Name) -> Vec<Name> = |_| vec!["00000000000000000000000000000001".parse().expect("a name")];
    assert!(connect(0, other, segment()).contains("names are mixed up"));
    let private = Segment::new(8).expect("memory");
    assert!(connect(0, |own| vec![own], private).contains("Segment::shared"));
}

#[test]
fn secrets_are_not_printed() {
    assert_eq!(format!("{SECRET:?}"), "Secret(..)");
}

#[test]
fn names_are_32_hexadecimal_digits() {
    let name = Host::listen().expect("a socket").name();
    assert_eq!(name.to_string().parse::<Name>().expect("its own text"), name);
    for text in
        ["", "12", "+0000000000000000000000000000001", "0000000000000000000000000000000g", &"0".repeat(33)]
    {
        let error = text.parse::<Name>().expect_err("no name").to_string();
        assert!(error.contains(text) && error.contains("32 hexadecimal digits"), "{error}");
    }
}

#[test]
fn many_nodes_connect_at_once() {
    let mut windows = crate::cluster::host(9, 64);
    for window in &mut windows {
        let rank = window.rank();
        window.local().write(0, &[rank as u64 + 1]);
        for node in (0..9).filter(|node| *node != rank) {
            window.write(node, 0, 8 + rank, 1, None, 0).expect("these words exist");
        }
    }
    for window in &windows {
        let mut words = [0; 9];
        window.local().read(8, &mut words);
        let expected: Vec<u64> =
            (0..9).map(|node| if node == window.rank() { 0 } else { node as u64 + 1 }).collect();
        assert_eq!(words[..], expected);
    }
}

/// Four nodes: the first is elsewhere, the third takes no part, the others read each other's memory.
#[test]
fn nodes_of_a_host_share_memory_to_be_read() {
    let (hosts, names) = hosts(2);
    let elsewhere = "0123456789abcdef0123456789abcdef".parse().expect("a name");
    let names = [Some(elsewhere), Some(names[0]), None, Some(names[1])];
    let memory = [5, 6].map(|value| {
        let segment = Segment::published(8).expect("shared memory");
        segment.store(3, value, Relaxed);
        segment
    });
    let read: Vec<Vec<Option<u64>>> = thread::scope(|scope| {
        let share = |((host, rank), segment): ((Host, usize), Segment)| {
            scope.spawn(move || {
                let views =
                    host.share(&segment, rank, &names, SECRET, LONG, &|| true).expect("the other does, too");
                views.iter().map(|view| view.as_ref().map(|view| view.load(3))).collect()
            })
        };
        let threads: Vec<_> = hosts.into_iter().zip([1, 3]).zip(memory).map(share).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(read, [[None, None, None, Some(6)], [None, Some(5), None, None]]);
}
