//! Numbers of a small run that were counted by hand.

use crate::made::header;
use intendant_analysis::{Allocation, By, Comparison, Durations, Link, Run, Summary, Why};
use intendant_core::{ChannelId, Key, NodeId, Tick};
use intendant_trace::{Access, Cause, Event, Filter, Header, Mark, Trace, What};
use std::sync::Arc;

/// The run of these events: time, node, key, and what happened.
fn run(events: &[(u64, u16, Option<u64>, What)], headers: impl Fn(u16) -> Header) -> Arc<Run> {
    let trace = |node: u16| Trace {
        header: headers(node),
        events: events
            .iter()
            .filter(|(_, at, ..)| *at == node)
            .map(|(at, _, key, what)| Event {
                at: Tick(*at),
                channel: ChannelId(0),
                key: key.map(Key),
                what: *what,
            })
            .collect(),
        dropped: 0,
        unknown: 0,
        lost_bytes: 0,
        damaged_bytes: 0,
    };
    Arc::new(Run::of_traces((0..3).map(trace).collect()).unwrap())
}

fn left(to: u16) -> What {
    What::Left { to: NodeId(to), cause: Cause::Asked }
}

fn arrived(from: u16, after: u64) -> What {
    What::Arrived { from: NodeId(from), after }
}

fn remote(by: u16, after: u64) -> What {
    What::Remote { access: Access::Pull, by: NodeId(by), after }
}

/// Where key 3 is at the beginning, and the two other nodes.
fn nodes() -> (u16, u16, u16) {
    let home = crate::made::layout().home(Key(3)).0;
    (home, (home + 1) % 3, (home + 2) % 3)
}

fn example() -> Arc<Run> {
    let (home, a, b) = nodes();
    let sent = |to: u16, bytes| What::Sent { to: NodeId(to), bytes };
    let marked = |number| What::Marked { mark: Mark::Epoch, number };
    let waited = What::Waited { access: Access::Push, after: 40 };
    let events = [
        (0, 0, None, marked(0)),
        (100, a, Some(3), What::Asked),
        (110, home, Some(3), left(a)),
        (120, a, Some(3), arrived(home, 20)),
        (200, b, Some(3), What::ReplicaSetUp),
        (300, b, Some(3), What::ReplicaDropped),
        // b accesses it 10 us after its replica was dropped.
        (350, b, Some(3), remote(a, 40)),
        (400, a, Some(3), left(home)),
        (420, home, Some(3), arrived(a, 0)),
        // a wants it back; it asks at 500, and accesses at 510, which takes until 550.
        (500, a, Some(3), What::Asked),
        (520, home, Some(3), left(a)),
        (545, a, Some(3), arrived(home, 45)),
        (550, a, Some(3), waited),
        (560, a, Some(3), left(b)),
        (580, b, Some(3), arrived(a, 0)),
        // a finds that it is gone: a conflict.
        (600, a, Some(3), What::Conflict),
        (700, a, Some(3), remote(b, 100)),
        // An access to a key that never moved.
        (710, (crate::made::layout().home(Key(1)).0 + 1) % 3, Some(1), remote(0, 1)),
        (720, 0, None, sent(1, 1000)),
        (730, 0, None, sent(1, 500)),
        (740, 2, None, sent(0, 7)),
        (750, 1, None, What::Synced { values: 9 }),
        (850, 1, None, What::Synced { values: 1 }),
        (900, 0, None, marked(1)),
        (1000, 0, None, marked(2)),
    ];
    run(&events, header)
}

#[test]
fn a_summary_has_the_numbers_of_the_events() {
    let (home, a, b) = nodes();
    let allocation = Allocation::of(&example(), &Filter::All);
    let summary = Summary::of(&allocation, 10);
    assert_eq!((summary.relocations, summary.replicas, summary.conflicts), (4, 1, 1));
    assert_eq!((summary.keys, summary.traced_keys, summary.active_keys), (6, 6, 2));
    assert_eq!(summary.remote, Durations { count: 3, mean_us: 47.0, p99_us: 99.5, max_us: 100 });
    assert_eq!(summary.waited, Durations { count: 1, mean_us: 40.0, p99_us: 40.0, max_us: 40 });
    assert_eq!(summary.relocation.count, 2, "only arrivals after asking");
    assert_eq!(summary.links, [Link { from: 0, to: 1, bytes: 1500 }, Link { from: 2, to: 0, bytes: 7 }]);
    assert_eq!(summary.bytes(), 1507);
    assert_eq!(summary.epochs.iter().map(|mark| mark.at_us).collect::<Vec<_>>(), [0, 900, 1000]);
    assert_eq!(summary.epoch_us(), Some(500));
    let kinds: u64 = summary.events.iter().map(|kinds| kinds.count).sum();
    assert_eq!(kinds as usize, allocation.run().len());
    let left = summary.events.iter().find(|kinds| kinds.kind == "left").unwrap();
    let mut by_node = vec![0; 3];
    (by_node[usize::from(home)], by_node[usize::from(a)]) = (2, 2);
    assert_eq!((left.count, &left.by_node), (4, &by_node));
    let staleness = &summary.staleness[1];
    assert_eq!((staleness.rounds, staleness.values, staleness.pause.mean_us), (2, 10, 100.0));
    let management = summary.management;
    assert_eq!((management.both, management.stayed, management.relocated), (1, 5, 0));
    // One of six keys was on its way for 10 + 20 + 25 + 20 of 1000 us, and had a replica for 100.
    assert!((summary.roles.moving - 75.0 / 6000.0).abs() < 1e-9);
    assert!((summary.roles.with_replicas - 100.0 / 6000.0).abs() < 1e-9);
    let times = |of: u16| allocation.affinity(&[3])[0].share[usize::from(of)];
    // At home from 0 to 110 and from 420 to 520.
    assert!((times(home) - 0.21).abs() < 1e-9 && (times(b) - 0.42).abs() < 1e-9, "{}", times(b));
    // Only the keys that are looked at count.
    let one = Summary::of(&Allocation::of(&example(), &"1".parse().unwrap()), 10);
    assert_eq!((one.traced_keys, one.relocations, one.remote.count, one.bytes()), (1, 0, 1, 1507));
}

#[test]
fn waits_have_their_causes() {
    let (_, a, b) = nodes();
    let allocation = Allocation::of(&example(), &Filter::All);
    let waits = allocation.longest_waits(10);
    let facts: Vec<_> = waits.iter().map(|wait| (wait.key, wait.after_us, wait.why)).collect();
    let expected = [
        (3, 100, Why::MovedAway { to: b, before_us: 40, conflict: true }),
        (3, 40, Why::ReplicaDropped { before_us: 10 }),
        (3, 40, Why::AskedTooLate { before_us: 10 }),
        (1, 1, Why::NeverWanted),
    ];
    assert_eq!(facts, expected);
    assert_eq!(
        waits[0].text,
        format!(
            "pull of key 3 at node {a}: node {b} answered after 100 us; 40 us before, it moved away to node {b}, although it was \
             still wanted here"
        )
    );
    assert_eq!(allocation.longest_waits(2).len(), 2);
    let (causes, of) = allocation.causes();
    assert_eq!((causes.len(), of), (4, 4));
    assert_eq!(causes.iter().map(|causes| causes.us).sum::<u64>(), 181);
    // Waits of a node with intent.
    let events = [
        (10, a, Some(3), What::IntentBegan),
        (30, a, Some(3), remote(b, 5)),
        (40, a, Some(3), What::IntentEnded),
        (60, a, Some(3), remote(b, 5)),
        (70, a, Some(3), What::ReplicaSetUp),
        (80, a, Some(3), remote(b, 5)),
    ];
    let allocation = Allocation::of(&run(&events, header), &Filter::All);
    let whys: Vec<_> = allocation.history(3, 10).waits.iter().map(|wait| wait.why).collect();
    let expected = [Why::IntentTooLate { before_us: 15 }, Why::IntentOver { before_us: 15 }, Why::WasThere];
    assert_eq!(whys, expected);
}

#[test]
fn keys_are_sorted_by_what_happened_to_them() {
    let mut events = Vec::new();
    for (key, count) in [(0, 3), (1, 5), (2, 3), (4, 1)] {
        for at in 0..count {
            events.push((100 * key + at, 0, Some(key), What::Conflict));
        }
    }
    let allocation = Allocation::of(&run(&events, header), &Filter::All);
    let top = |count| -> Vec<u64> {
        allocation.top(By::Conflicts, count).iter().map(|counts| counts.key).collect()
    };
    assert_eq!((top(10), top(2), top(0)), (vec![1, 0, 2, 4], vec![1, 0], vec![]));
    assert!(allocation.top(By::Relocations, 10).is_empty());
}

#[test]
fn static_replicas_are_everywhere_all_the_time() {
    let headers = |node| Header { static_replicas: vec![[2, 4]], ..header(node) };
    let events = [(0, 0, Some(0), What::Conflict), (100, 0, Some(0), What::Conflict)];
    let allocation = Allocation::of(&run(&events, headers), &Filter::All);
    let (home, a, b) = nodes();
    assert_eq!(allocation.replicas_at(3, 50), {
        let mut others = vec![a, b];
        others.sort();
        others
    });
    assert_eq!(allocation.moment(&[3, 4], 50).replicas, [2, 0]);
    let affinity = &allocation.affinity(&[3])[0];
    assert_eq!((affinity.share[usize::from(home)], affinity.replica_share[usize::from(a)]), (1.0, 1.0));
    let summary = Summary::of(&allocation, 0);
    assert_eq!((summary.management.static_replicas, summary.management.stayed), (2, 4));
    assert!((summary.roles.with_replicas - 2.0 / 6.0).abs() < 1e-9);
}

#[test]
fn only_traced_keys_are_looked_at() {
    let of = |traced: &str, view: &str| {
        let headers = |node| Header { filter: traced.to_owned(), ..header(node) };
        let events = [(0, 0, Some(3), What::Conflict)];
        Allocation::of(&run(&events, headers), &view.parse().unwrap()).keys().iter().collect::<Vec<_>>()
    };
    assert_eq!(of("all", "all"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(of("1..4", "3..9"), [3]);
    assert_eq!(of("1,3,5", "all"), [1, 3, 5]);
    assert_eq!(of("sample:1/1", "2,4"), [2, 4]);
    let sampled = |key: &u64| "sample:1/2".parse::<Filter>().unwrap().accepts(Key(*key));
    assert_eq!(of("sample:1/2", "all"), (0..6).filter(sampled).collect::<Vec<_>>());
    let headers = |node| Header { filter: "1,3..5".to_owned(), ..header(node) };
    let allocation = Allocation::of(&run(&[], headers), &Filter::All);
    let keys = allocation.keys();
    assert_eq!([0, 1, 2, 3].map(|at| keys.nth(at)), [Some(1), Some(3), Some(4), None]);
    assert_eq!((keys.spread(2), keys.spread(9), keys.spread(0)), (vec![1, 3], vec![1, 3, 4], vec![]));
    assert!(keys.contains(4) && !keys.contains(2) && !keys.contains(5));
    assert_eq!(keys.count_in(0..4), 2);
}

#[test]
fn two_runs_are_compared_number_by_number() {
    let allocation = Allocation::of(&example(), &Filter::All);
    let other = |node| Header { task: "mf".to_owned(), filter: "3".to_owned(), ..header(node) };
    let empty = Allocation::of(&run(&[], other), &Filter::All);
    let comparison = Comparison::of(Summary::of(&empty, 0), Summary::of(&allocation, 0));
    let line = |what: &str| {
        let line = comparison.lines.iter().find(|line| line.what == what).unwrap();
        (line.a, line.b)
    };
    assert_eq!(line("remote accesses"), (Some(0.0), Some(3.0)));
    assert_eq!(line("remote accesses, mean"), (None, Some(47.0)));
    assert_eq!(line("relocations"), (Some(0.0), Some(4.0)));
    assert_eq!(line("sent"), (None, Some(0.001507)));
    assert_eq!(line("time per epoch"), (None, Some(0.0005)));
    assert_eq!(comparison.doubts.len(), 3, "{:?}", comparison.doubts);
}
