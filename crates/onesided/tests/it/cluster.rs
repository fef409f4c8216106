//! Windows of both kinds, for tests that hold for both.

use intendant_onesided::{Event, Host, MappedWindow, Name, Secret, Window, in_process};
use intendant_segment::Segment;
use std::thread;
use std::time::Duration;

pub(crate) const SECRET: Secret = Secret::new([9; 32]);
/// Long enough for any machine. No test is to last that long.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Wake-ups for one event.
const WAITS_MAX: usize = 30;

/// Windows of threads, then windows as those of processes of one host.
pub(crate) fn both(nodes: usize, words: usize) -> [Vec<MappedWindow>; 2] {
    [in_process(nodes, words).expect("windows in this process"), host(nodes, words)]
}

/// Windows as those of processes of one host, although all are of this process.
pub(crate) fn host(nodes: usize, words: usize) -> Vec<MappedWindow> {
    let hosts: Vec<Host> = (0..nodes).map(|_| Host::listen().expect("a socket")).collect();
    let names: Vec<Name> = hosts.iter().map(Host::name).collect();
    thread::scope(|scope| {
        let connect = |(rank, host): (usize, Host)| {
            let segment = Segment::shared(words).expect("shared memory");
            let names = &names;
            scope.spawn(move || host.connect(segment, rank, names, SECRET, LONG).expect("all nodes connect"))
        };
        let threads: Vec<_> = hosts.into_iter().enumerate().map(connect).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

pub(crate) fn polled(window: &mut impl Window) -> Vec<Event> {
    let mut events = Vec::new();
    window.poll(&mut events);
    events
}

/// The next events; there will be some.
pub(crate) fn next(window: &mut impl Window) -> Vec<Event> {
    // A wake-up may be of an event that was polled before.
    for _ in 0..WAITS_MAX {
        let events = polled(window);
        if !events.is_empty() {
            return events;
        }
        assert!(window.wait(LONG).expect("the system waits"), "no event, and no wake-up");
    }
    panic!("{WAITS_MAX} wake-ups without an event");
}
