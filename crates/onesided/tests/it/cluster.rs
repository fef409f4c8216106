//! Windows of all kinds, for tests that apply to all kinds.

use intendant_onesided::{Event, Host, MappedWindow, Name, Secret, Window, in_process};
use intendant_segment::Segment;
use std::thread;
use std::time::Duration;

pub(crate) const SECRET: Secret = Secret::new([9; 32]);
/// Long enough for any machine. No test should last that long.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The most wake-ups before one event.
const WAITS_MAX: usize = 30;

/// Windows of threads, then windows like those of processes of one host.
pub(crate) fn both(nodes: usize, words: usize) -> [Vec<MappedWindow>; 2] {
    [in_process(nodes, words).expect("windows in this process"), host(nodes, words)]
}

/// Windows of all kinds: as [`both`], and over RDMA where there is a card.
pub(crate) fn all(nodes: usize, words: usize) -> Vec<Vec<Box<dyn Window>>> {
    fn boxed<W: Window + 'static>(windows: Vec<W>) -> Vec<Box<dyn Window>> {
        windows.into_iter().map(|window| Box::new(window) as Box<dyn Window>).collect()
    }
    let kinds = both(nodes, words).into_iter().map(boxed);
    #[cfg(feature = "verbs")]
    let kinds = kinds.chain(crate::verbs::windows(nodes, words).map(boxed));
    kinds.collect()
}

/// Windows like those of processes of one host, although all belong to this process.
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

/// Whether node `node` has closed, according to these events.
pub(crate) fn has_closed(events: &[Event], node: usize) -> bool {
    events.iter().any(|event| matches!(event, Event::Closed { node: of, .. } if *of == node))
}

pub(crate) fn polled(window: &mut impl Window) -> Vec<Event> {
    let mut events = Vec::new();
    window.poll(&mut events);
    events
}

/// The ids of the next `count` operations that end, in ascending order. No other event may happen.
pub(crate) fn done(window: &mut impl Window, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    while ids.len() < count {
        ids.extend(next(window).into_iter().map(|event| match event {
            Event::Done(id) => id,
            event @ (Event::Failed { .. } | Event::Hint(_) | Event::Closed { .. }) => panic!("{event:?}"),
        }));
    }
    ids.sort_unstable();
    ids
}

/// The next events; there must be at least one.
pub(crate) fn next(window: &mut impl Window) -> Vec<Event> {
    // A wake-up may belong to an event that was polled before.
    for _ in 0..WAITS_MAX {
        let events = polled(window);
        if !events.is_empty() {
            return events;
        }
        assert!(window.wait(LONG).expect("the system waits"), "no event, and no wake-up");
    }
    panic!("{WAITS_MAX} wake-ups without an event");
}
