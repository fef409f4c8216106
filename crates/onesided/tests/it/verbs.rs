//! Windows over RDMA: tests beside those that apply to all kinds of windows. Without a card, they print that
//! and do nothing, or fail if `REQUIRE_VERBS` is set; `scripts/rxe.sh` sets it.

use crate::cluster::{done, has_closed, next, polled};
use crate::killed::counted;
use crate::process::{Process, rank, say, told};
use intendant_onesided::verbs::{Address, Card, DeviceError, Endpoint, VerbsError, VerbsWindow};
use intendant_onesided::{Event, Window, WindowError};
use intendant_segment::Segment;
use intendant_segment::slot::{self, Torn};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

const RUN: u64 = 71;
const KEY: u64 = 5;
/// 16 KiB: several packets, so that a read meets a writer between them.
const VALUE_WORDS: usize = 2048;
const SLOT: usize = slot::words(VALUE_WORDS);

fn card() -> Option<Card> {
    match Card::find(None, None) {
        Ok(card) => Some(card),
        Err(error) if std::env::var_os("REQUIRE_VERBS").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn endpoints(nodes: usize, words: usize) -> Option<Vec<Endpoint>> {
    let endpoint = |rank| {
        let segment = Segment::shared(words).expect("shared memory");
        Some(Endpoint::new(card()?, segment, rank, nodes, RUN).expect("a card has room"))
    };
    (0..nodes).map(endpoint).collect()
}

fn addresses(endpoints: &[Endpoint]) -> Vec<Address> {
    let sent = endpoints.iter().map(|endpoint| endpoint.address().to_bytes());
    sent.map(|bytes| Address::from_bytes(&bytes).expect("an address")).collect()
}

/// Windows of nodes of this process; `None` without a card.
pub(crate) fn windows(nodes: usize, words: usize) -> Option<Vec<VerbsWindow>> {
    let endpoints = endpoints(nodes, words)?;
    let addresses = addresses(&endpoints);
    let connected = endpoints.into_iter().map(|endpoint| endpoint.connect(&addresses).expect("it connects"));
    Some(connected.collect())
}

fn pair(words: usize) -> Option<(VerbsWindow, VerbsWindow)> {
    let mut windows = windows(2, words)?.into_iter();
    Some((windows.next()?, windows.next()?))
}

fn value(clock: u64) -> Vec<u64> {
    (0..VALUE_WORDS as u64).map(|at| clock.wrapping_mul(1_000_003) + at).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// In a process that was started, or in the test itself: connects when all addresses are known.
fn connect(endpoint: Endpoint, line: &str) -> VerbsWindow {
    let addresses: Vec<Address> =
        line.split(' ').map(|hex| Address::from_bytes(&bytes(hex)).expect("an address")).collect();
    endpoint.connect(&addresses).expect("it connects")
}

/// In a process that was started, one of two nodes.
fn started(words: usize) -> VerbsWindow {
    let segment = Segment::shared(words).expect("shared memory");
    let card = card().expect("the test has found one");
    let endpoint = Endpoint::new(card, segment, rank(), 2, RUN).expect("the card has room");
    say(hex(&endpoint.address().to_bytes()));
    let window = connect(endpoint, &told());
    say("connected");
    assert_eq!(told(), "begin");
    window
}

/// A process that runs a test as node 0, and the window of node 1.
fn with_process(test: &str, words: usize) -> Option<(Process, VerbsWindow)> {
    let card = card()?;
    let mut process = Process::start(test, 0);
    let segment = Segment::shared(words).expect("shared memory");
    let endpoint = Endpoint::new(card, segment, 1, 2, RUN).expect("the card has room");
    let line = format!("{} {}", process.hear(), hex(&endpoint.address().to_bytes()));
    process.tell(&line);
    let window = connect(endpoint, &line);
    assert_eq!(process.hear(), "connected");
    process.tell("begin");
    Some((process, window))
}

#[test]
fn parts_of_a_long_operation_arrive_in_their_places() {
    // More than two parts of 1 MiB, and a rest.
    const WORDS: usize = (2 << 17) + 24;
    let Some((mut a, b)) = pair(2 * WORDS) else { return };
    let numbers: Vec<u64> = (0..WORDS as u64).map(|at| at * 7 + 1).collect();
    a.local().write(0, &numbers);
    a.write(1, 0, 0, WORDS, None, 1).expect("these words exist");
    a.read(1, 0, WORDS, WORDS, 2).expect("these words exist");
    assert_eq!(done(&mut a, 2), [1, 2]);
    let mut read = vec![0; WORDS];
    for (window, at) in [(&b, 0), (&a, WORDS)] {
        window.local().read(at, &mut read);
        assert!(read == numbers);
    }
}

#[test]
fn each_operation_ends_once_however_many_are_begun() {
    let Some((mut a, b)) = pair(64) else { return };
    b.local().store(0, 33, Relaxed);
    let mut begun = 0;
    let full = loop {
        match a.read(1, 0, 8, 8, begun) {
            Ok(()) => begun += 1,
            Err(error) => break error,
        }
        assert!(begun < 100_000, "the window takes any number");
    };
    assert!(matches!(full, WindowError::Full { node: 1, .. }), "{full}");
    assert!(begun >= 1024, "{begun} operations only");
    assert!(a.is_behind(), "the card has no room for all of them");
    assert_eq!(done(&mut a, begun as usize), (0..begun).collect::<Vec<_>>());
    assert_eq!((polled(&mut a), a.local().load(8, Relaxed)), (vec![], 33));
    assert!(!a.is_behind());
}

/// A writer changes its own slot while a reader reads it.
#[test]
fn reads_beside_a_writer_are_right_or_noticed() {
    let Some((writer, mut reader)) = pair(2 * SLOT) else { return };
    slot::set(writer.local(), 0, RUN, KEY, 1, &value(1)).expect("a first value");
    let end = std::sync::atomic::AtomicBool::new(false);
    let (mut torn, mut right) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for clock in (2..).take_while(|_| !end.load(Relaxed)) {
                slot::set(writer.local(), 0, RUN, KEY, clock, &value(clock)).expect("clocks grow");
            }
        });
        let mut image = vec![0; SLOT];
        for id in 0..3000 {
            reader.read(0, 0, SLOT, SLOT, id).expect("these words exist");
            assert_eq!(done(&mut reader, 1), [id]);
            reader.local().read(SLOT, &mut image);
            match slot::decode(RUN, KEY, VALUE_WORDS, &image) {
                Ok(clock) => {
                    right += 1;
                    assert_eq!(
                        image[slot::HEADER..][..VALUE_WORDS],
                        value(clock),
                        "an undetected torn value"
                    );
                }
                Err(Torn::Changed) => torn += 1,
                Err(error @ (Torn::Unset | Torn::Foreign)) => panic!("{error}"),
            }
            if torn >= 20 && id >= 60 {
                break;
            }
        }
        end.store(true, Relaxed);
    });
    eprintln!("{torn} of {} reads were torn, and noticed", torn + right);
    assert!(torn > 0, "no read met the writer");
    // Once the writer has ended, a read is right.
    reader.read(0, 0, SLOT, SLOT, 1).expect("these words exist");
    assert_eq!(done(&mut reader, 1), [1]);
    let mut image = vec![0; SLOT];
    reader.local().read(SLOT, &mut image);
    assert!(slot::decode(RUN, KEY, VALUE_WORDS, &image).is_ok());
}

#[test]
fn a_node_of_which_the_caller_knows_that_it_has_ended_is_closed() {
    let Some((mut a, mut b)) = pair(64) else { return };
    for id in 0..100 {
        a.read(1, 0, 8, 8, id).expect("these words exist");
    }
    a.close(1);
    let mut ends = BTreeMap::new();
    let mut closed = false;
    while !closed {
        for event in next(&mut a) {
            match event {
                Event::Done(id) => assert_eq!(ends.insert(id, true), None),
                Event::Failed { id, node: 1, reason } => {
                    assert_eq!(reason, "node 1 has ended");
                    assert_eq!(ends.insert(id, false), None);
                }
                Event::Closed { node: 1, .. } => closed = true,
                event @ (Event::Failed { .. } | Event::Hint(_) | Event::Closed { .. }) => panic!("{event:?}"),
            }
        }
    }
    assert!(ends.into_keys().eq(0..100), "each operation has one event, before the end");
    a.close(1);
    a.close(0);
    a.close(7);
    a.read(1, 0, 8, 8, 100).expect("these words existed");
    assert_eq!(polled(&mut a), [Event::Failed { id: 100, node: 1, reason: "node 1 has ended".to_owned() }]);
    // The other node notices the end when it begins an operation, which fails because the first node's card
    // refuses it.
    b.read(0, 0, 8, 8, 1).expect("these words exist");
    let mut events = Vec::new();
    while !has_closed(&events, 0) {
        events.extend(next(&mut b));
    }
    assert!(
        matches!(&events[..], [Event::Failed { id: 1, node: 0, reason }, Event::Closed { node: 0, .. }]
        if reason.contains("cannot be reached")),
        "{events:?}"
    );
}

/// The test sleeps longer than the silence that ends a connection, and longer than the time after which a
/// window probes a node.
#[expect(clippy::disallowed_methods, reason = "what is tested is that nothing happens in this time")]
#[test]
fn a_node_that_does_not_look_for_long_takes_the_others_for_alive() {
    let Some((mut a, mut b)) = pair(64) else { return };
    let long = Duration::from_secs(11);
    a.read(1, 0, 8, 8, 1).expect("these words exist");
    thread::sleep(long);
    assert_eq!(polled(&mut a), [Event::Done(1)]);
    // A card answers the window's own probe while this thread does something else.
    assert_eq!(polled(&mut a), []);
    thread::sleep(long);
    for _ in 0..3 {
        assert_eq!((polled(&mut a), polled(&mut b)), (vec![], vec![]));
        thread::sleep(Duration::from_millis(200));
    }
    b.write(0, 0, 0, 8, Some(3), 2).expect("these words exist");
    assert_eq!(done(&mut b, 1), [2]);
    assert_eq!(next(&mut a), [Event::Hint(3)]);
}

/// Writes slots to node 1 until it is killed; the first half of the own segment is the source.
#[test]
#[ignore = "a process of `a_killed_writer_is_noticed_and_leaves_no_half_of_a_value`"]
fn write_without_end() {
    let mut window = started(2 * SLOT);
    let mut image = vec![0; SLOT];
    for clock in 1.. {
        slot::encode(RUN, KEY, clock, &value(clock), &mut image);
        window.local().write(0, &image);
        window.write(1, 0, SLOT, SLOT, Some(9), clock).expect("these words exist");
        assert_eq!(done(&mut window, 1), [clock]);
        if clock == 10 {
            say("writing");
        }
    }
}

#[test]
fn a_killed_writer_is_noticed_and_leaves_no_half_of_a_value() {
    for _ in 0..3 {
        let Some((mut node, mut window)) = with_process("verbs::write_without_end", 2 * SLOT) else { return };
        assert_eq!(node.hear(), "writing");
        node.kill();
        // Nothing is in flight: the window probes the node by itself.
        let mut events = Vec::new();
        while !has_closed(&events, 0) {
            events.extend(next(&mut window));
        }
        let Some(Event::Closed { node: 0, reason }) = events.pop() else {
            panic!("nothing comes after the end")
        };
        assert!(reason.starts_with("node 0 has ended or cannot be reached: "), "{reason}");
        assert!(events.iter().all(|event| *event == Event::Hint(9)), "{events:?}");
        let mut image = vec![0; SLOT];
        window.local().read(SLOT, &mut image);
        match slot::decode(RUN, KEY, VALUE_WORDS, &image) {
            Ok(clock) => {
                assert_eq!(image[slot::HEADER..][..VALUE_WORDS], value(clock), "an undetected torn value");
            }
            Err(Torn::Changed) => {}
            Err(error @ (Torn::Unset | Torn::Foreign)) => panic!("{error}"),
        }
        window.read(0, 0, 0, 1, 77).expect("the words existed");
        // The cause is still known.
        let failed = Event::Failed { id: 77, node: 0, reason };
        assert_eq!(polled(&mut window), [failed]);
    }
}

#[test]
#[ignore = "a process of `reads_from_a_killed_node_end_once` and `count_what_is_left`"]
fn stay() {
    let _window = started(SLOT);
    say("here");
    told();
}

#[test]
fn reads_from_a_killed_node_end_once() {
    let Some((mut node, mut window)) = with_process("verbs::stay", SLOT) else { return };
    assert_eq!(node.hear(), "here");
    let (mut begun, mut ends, mut failed, mut closed) = (0, BTreeMap::new(), 0, false);
    while !closed {
        while begun < ends.len() as u64 + 100 && failed == 0 {
            window.read(0, 0, 0, SLOT, begun).expect("these words exist");
            begun += 1;
        }
        if ends.len() > 200 {
            node.kill_once();
        }
        for event in next(&mut window) {
            match event {
                Event::Done(id) => assert_eq!(ends.insert(id, true), None),
                Event::Failed { id, node: 0, reason } => {
                    assert!(reason.starts_with("node 0 has ended or cannot be reached: "), "{reason}");
                    assert_eq!(ends.insert(id, false), None);
                    failed += 1;
                }
                Event::Closed { node: 0, .. } => closed = true,
                event @ (Event::Failed { .. } | Event::Hint(_) | Event::Closed { .. }) => panic!("{event:?}"),
            }
        }
    }
    assert!(failed > 0 && ends.into_keys().eq(0..begun), "each operation has one event, before the end");
}

/// The test needs a process of its own, because tests beside it open descriptors, too.
#[test]
fn nothing_is_left_of_windows() {
    if card().is_some() {
        Process::start("verbs::count_what_is_left", 0).succeed();
    }
}

#[test]
#[ignore = "a process of `nothing_is_left_of_windows`"]
fn count_what_is_left() {
    // The library reads its configuration once.
    drop(card());
    let before = counted();
    let mut windows = windows(3, 64).expect("the test has found a card");
    assert!(counted().0 > before.0);
    windows[0].write(1, 0, 0, 8, Some(1), 1).expect("these words exist");
    let last = windows.pop().expect("three windows");
    drop(last);
    while !has_closed(&next(&mut windows[0]), 2) {}
    drop(windows);
    assert_eq!(counted(), before);
    // Nodes that have not connected.
    drop(endpoints(3, 64));
    assert_eq!(counted(), before);
    // A window whose peer was killed.
    let (mut node, mut window) = with_process("verbs::stay", SLOT).expect("as before");
    node.kill();
    while !has_closed(&next(&mut window), 0) {}
    drop((window, node));
    assert_eq!(counted(), before);
}

#[test]
#[ignore = "a process of `memory_beyond_the_limit_is_refused_with_the_limit`"]
fn register_too_much() {
    // Root may lock any amount, because of a capability.
    let mut sets = capabilities(None).expect("the capabilities of this thread");
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(CapabilitySet::IPC_LOCK);
    }
    set_capabilities(None, sets).expect("a thread may give them up");
    let limit = Some(64 << 10);
    setrlimit(Resource::Memlock, Rlimit { current: limit, maximum: limit }).expect("a limit may be lowered");
    let segment = Segment::shared(1 << 17).expect("shared memory");
    let error =
        Endpoint::new(card().expect("the test has found one"), segment, 0, 2, RUN).expect_err("too much");
    assert!(matches!(error, VerbsError::Device(DeviceError::LockedMemory { .. })), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("registering 1048576 bytes of memory with "), "{text}");
    assert!(text.contains("may lock 65536 bytes. Raise the limit (ulimit -l unlimited"), "{text}");
    let _small = Endpoint::new(card().expect("as before"), Segment::shared(64).expect("memory"), 0, 2, RUN)
        .expect("this much may be locked");
}

#[test]
fn memory_beyond_the_limit_is_refused_with_the_limit() {
    if card().is_some() {
        Process::start("verbs::register_too_much", 0).succeed();
    }
}

#[test]
fn what_was_looked_for_is_said_when_there_is_no_such_device() {
    match Card::find(None, None) {
        Ok(card) => {
            let address = card.address();
            assert_eq!(Card::find(Some(card.name()), address).expect("the same card").address(), address);
            let error = Card::find(Some("none_0"), None).expect_err("no card has this name").to_string();
            assert!(error.contains("Looked for an active port of none_0"), "{error}");
            assert!(error.contains(&format!("{}: another device", card.name())), "{error}");
            if address.is_some() {
                let other = "192.0.2.1".parse().ok();
                let error = Card::find(None, other).expect_err("an address for documentation").to_string();
                assert!(error.contains("with the address 192.0.2.1") && error.contains("port 1"), "{error}");
            }
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("no RDMA device: looked in /sys/class/infiniband_verbs"), "{text}");
        }
    }
}

#[test]
fn addresses_that_do_not_fit_are_refused() {
    let refused = |change: fn(&mut Vec<Address>), part: &str| {
        let Some(mut ends) = endpoints(2, 64) else { return };
        let mut all = addresses(&ends);
        change(&mut all);
        let error = ends.remove(0).connect(&all).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(|all| all.swap(0, 1), "it is that of node 1");
    refused(|all| all.truncate(1), "1 addresses for 2 nodes");
    refused(
        |all| {
            let Some(card) = card() else { return };
            let segment = Segment::new(64).expect("memory");
            all[1] = Endpoint::new(card, segment, 1, 2, RUN + 1).expect("room").address().clone();
        },
        "it is of run 72, this node is of run 71",
    );
    refused(
        |all| {
            let Some(card) = card() else { return };
            let segment = Segment::new(64).expect("memory");
            all[1] = Endpoint::new(card, segment, 1, 3, RUN).expect("room").address().clone();
        },
        "it is one of 3 nodes, this one is one of 2",
    );
    refused(
        |all| {
            let Some(card) = card() else { return };
            let segment = Segment::new(64).expect("memory");
            all[0] = Endpoint::new(card, segment, 0, 2, RUN).expect("room").address().clone();
        },
        "not the one that this node has made",
    );
    if let Some(card) = card() {
        let segment = Segment::new(64).expect("memory");
        let error = Endpoint::new(card, segment, 2, 2, RUN).expect_err("no such node").to_string();
        assert!(error.contains("no node 2 among 2"), "{error}");
    }
}

/// The address of node 1 of 2, as version 1 writes it.
const ADDRESS: &str = "495444565242303100010310000000010100000002000000470000000000000000000000000000000000ffff0a090001\
    000010000000000040000000000000001100000012000000000020000000000013000000010000000000000000000000";

#[test]
fn bytes_that_are_no_address_are_refused() {
    let good = bytes(ADDRESS);
    let address = Address::from_bytes(&good).expect("an address");
    assert_eq!(address.to_bytes(), good);
    assert!(format!("{address:?}").contains("rank: 1"), "{address:?}");
    for length in 0..good.len() {
        let error = Address::from_bytes(&good[..length]).expect_err("a part of an address").to_string();
        assert!(
            error.starts_with(&format!("an address of {length} bytes is none of an endpoint: ")),
            "{error}"
        );
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(Address::from_bytes(&longer).is_err());
    for (at, byte, part) in
        [(0, b'X', "version"), (8, 1, "byte order"), (10, 6, "packet size"), (11, 0, "no read")]
    {
        let mut wrong = good.clone();
        wrong[at] = byte;
        let error = Address::from_bytes(&wrong).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut many = good;
    many[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Address::from_bytes(&many).is_err());
}
