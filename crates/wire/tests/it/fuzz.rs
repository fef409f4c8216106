//! Random and mutated frames: no panic, no memory beyond the frame's own size, and what is accepted is canonical.

use bytes::Bytes;
use intendant_core::{Key, NodeId, WorkerId};
use intendant_wire::{
    AccessKind, Clock, ClockScope, Cursor, HandOver, HolderRow, IntentReport, Localize, Message, Moved, OpId,
    Origin, Reduce, Relocate, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request,
    Response, SnapshotPart, SnapshotRequest, WireError,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Counts what this thread allocates, so that a frame that talks the decoder into taking memory is noticed.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: forwards to the system's allocator; the counter is a plain thread-local number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|a| a.set(a.get() + layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

fn check(frame: Bytes) -> bool {
    let bytes = frame.len();
    let before = ALLOCATED.with(Cell::get);
    let decoded = Message::decode(frame.clone());
    let taken = ALLOCATED.with(Cell::get) - before;
    assert!(taken <= 2 * bytes + 256, "{taken} bytes taken for a frame of {bytes}");
    match decoded {
        Ok(message) => {
            assert_eq!(message.encode(), frame, "two frames for one message: {message:?}");
            true
        }
        Err(error) => {
            if matches!(error, WireError::Truncated { .. }) {
                // Sharing the frame takes a little.
                assert!(taken <= 64, "{taken} bytes taken for a part of a message: {error}");
            }
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Messages about copies, of every kind.
fn random_copies(rng: &mut Pcg64Mcg, keys: Vec<Key>, values: Bytes) -> Message {
    let count = keys.len();
    let mut numbers =
        |wanted: bool| -> Vec<u32> { (0..if wanted { count } else { 0 }).map(|_| rng.random()).collect() };
    let [generations, first, second, counters] = [true; 4].map(&mut numbers);
    match rng.random_range(0..9) {
        0 => {
            let scope = [ClockScope::Node, ClockScope::Global, ClockScope::Resumed][rng.random_range(0..3)];
            let clock = if scope == ClockScope::Resumed { 0 } else { rng.random() };
            Message::Clock(Clock { scope, clock })
        }
        1 | 2 => {
            let indices: BTreeSet<u32> = first.into_iter().collect();
            Message::Reduce(Reduce {
                round: rng.random(),
                step: rng.random(),
                last: rng.random(),
                indices: indices.into_iter().collect(),
                values,
            })
        }
        3..=5 => {
            let kind = [ReplicaRequestKind::Ask, ReplicaRequestKind::Delta, ReplicaRequestKind::Drop]
                [rng.random_range(0..3)];
            Message::ReplicaRequest(ReplicaRequest {
                kind,
                holder: NodeId(rng.random()),
                hops: rng.random(),
                keys,
                generations,
                numbers: if kind == ReplicaRequestKind::Drop { vec![] } else { first },
                values: if kind == ReplicaRequestKind::Delta { values } else { Bytes::new() },
            })
        }
        _ => {
            let kinds = [
                ReplicaUpdateKind::SetUp,
                ReplicaUpdateKind::Refresh,
                ReplicaUpdateKind::Acknowledged,
                ReplicaUpdateKind::Dropped,
            ];
            let kind = kinds[rng.random_range(0..4)];
            let numbered = kind != ReplicaUpdateKind::Dropped;
            Message::ReplicaUpdate(ReplicaUpdate {
                kind,
                clock: rng.random(),
                keys,
                generations,
                seqs: if numbered { first } else { vec![] },
                versions: if numbered { second } else { vec![] },
                counters: if rng.random() { counters } else { vec![] },
                values: if matches!(kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh) {
                    values
                } else {
                    Bytes::new()
                },
            })
        }
    }
}

/// Up to three holders of each key.
fn random_holders(rng: &mut Pcg64Mcg, keys: usize) -> Vec<HolderRow> {
    let mut holders = Vec::new();
    for at in 0..keys as u32 {
        let nodes: BTreeSet<u16> = (0..rng.random_range(0..4)).map(|_| rng.random()).collect();
        let version = rng.random();
        for node in nodes {
            let (node, generation, seq) = (NodeId(node), rng.random(), rng.random());
            holders.push(HolderRow { at, version, node, generation, seq });
        }
    }
    holders
}

fn random(rng: &mut Pcg64Mcg) -> Message {
    let origin =
        Origin { node: NodeId(rng.random()), worker: WorkerId(rng.random()), op: OpId(rng.random()) };
    let kind = [AccessKind::Pull, AccessKind::Push, AccessKind::Set][rng.random_range(0..3)];
    let count = rng.random_range(0..6);
    let keys: Vec<Key> = (0..count).map(|_| Key(rng.random())).collect();
    let positions = (0..count).map(|_| rng.random()).collect();
    let values: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
    let (values, cursor) = (Bytes::from(values), Cursor { shard: rng.random(), position: rng.random() });
    let counters: Vec<u32> = (0..count).map(|_| rng.random()).collect();
    match rng.random_range(0..15) {
        0 => Message::Request(Request { origin, kind, hops: rng.random(), keys, positions, values }),
        1 => {
            let counters = if rng.random() { counters } else { Vec::new() };
            Message::Response(Response {
                worker: origin.worker,
                op: origin.op,
                kind,
                positions,
                counters,
                values,
            })
        }
        2 => Message::SnapshotRequest(SnapshotRequest {
            origin,
            start: Key(rng.random()),
            end: Key(rng.random()),
            cursor,
            bytes_max: rng.random(),
        }),
        3 => Message::Localize(Localize { keys }),
        4 => Message::Relocate(Relocate { to: origin.node, keys, counters }),
        5 | 6 => {
            let holders = random_holders(rng, keys.len());
            Message::HandOver(HandOver { keys, counters, holders, values })
        }
        7 => Message::Moved(Moved { keys, counters }),
        9..14 => random_copies(rng, keys, values),
        14.. => {
            let mut begun = keys;
            let over = begun.split_off(rng.random_range(0..=begun.len()));
            Message::IntentReport(IntentReport { begun, over })
        }
        _ => Message::SnapshotPart(SnapshotPart {
            worker: origin.worker,
            op: origin.op,
            next: rng.random::<bool>().then_some(cursor),
            keys,
            values,
        }),
    }
}

#[test]
fn a_million_mutated_frames() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (mut accepted, mut refused) = (0u32, 0u32);
    for _ in 0..1_000_000 {
        let mut frame = random(&mut rng).encode().to_vec();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..frame.len().max(1));
            match rng.random_range(0..5) {
                0 if !frame.is_empty() => frame[at] = rng.random(),
                1 if !frame.is_empty() => frame[at] ^= 1 << rng.random_range(0..8),
                2 => frame.truncate(at),
                3 => frame.insert(at.min(frame.len()), rng.random()),
                _ => frame.extend((0..rng.random_range(0..9)).map(|_| rng.random::<u8>())),
            }
        }
        if check(Bytes::from(frame)) { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted > 10_000 && refused > 10_000, "one-sided: {accepted} accepted, {refused} refused");
}

#[test]
fn half_a_million_random_frames() {
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    for _ in 0..500_000 {
        let mut frame: Vec<u8> = (0..rng.random_range(0..80)).map(|_| rng.random()).collect();
        if let Some(kind) = frame.first_mut() {
            *kind %= 14;
        }
        check(Bytes::from(frame));
    }
}

#[test]
fn announced_counts_do_not_take_memory() {
    let mut frame = Message::Response(Response {
        worker: WorkerId(0),
        op: OpId(0),
        kind: AccessKind::Pull,
        positions: vec![],
        counters: vec![],
        values: Bytes::new(),
    })
    .encode()
    .to_vec();
    frame[12..16].copy_from_slice(&(1u32 << 20).to_le_bytes());
    assert!(matches!(Message::decode(Bytes::from(frame.clone())), Err(WireError::Truncated { .. })));
    check(Bytes::from(frame.clone()));
    frame[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Message::decode(Bytes::from(frame)), Err(WireError::TooManyKeys { keys: u32::MAX as usize }));
    // Every kind, with as many keys or rows as are allowed and a body that has room for a part of them.
    for (kind, access) in (1..=12).flat_map(|kind| (0..4).map(move |access| (kind, access))) {
        for (op, count) in [(0, 1u32 << 20), (1 << 20, 0), (1 << 20, 1 << 20)] {
            let mut frame = vec![0; 16 + (8 << 20)];
            (frame[0], frame[1]) = (kind, access);
            frame[8..12].copy_from_slice(&u32::to_le_bytes(op));
            frame[12..16].copy_from_slice(&count.to_le_bytes());
            for bytes in [16, 1016, frame.len()] {
                let frame = Bytes::from(frame.clone()).slice(..bytes);
                check(frame);
            }
        }
    }
    let long = Bytes::from(vec![0; intendant_core::limits::FRAME_BYTES_MAX + 1]);
    assert!(matches!(Message::decode(long), Err(WireError::TooLong { .. })));
}

/// Changes one place of a frame and tells what its decoder says.
fn broken(message: &Message, at: usize, bytes: &[u8]) -> Result<Message, WireError> {
    let mut frame = message.encode().to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    Message::decode(Bytes::from(frame))
}

/// Offsets of the header's fields.
const ACCESS: usize = 1;
const HOPS: usize = 2;
const RESERVED: usize = 3;
const NODE: usize = 4;
const WORKER: usize = 6;
const OPERATION: usize = 8;
const COUNT: usize = 12;

#[test]
fn fields_that_a_message_about_copies_does_not_use_are_zero() {
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    for _ in 0..10_000 {
        let keys = (0..rng.random_range(0..3)).map(|_| Key(rng.random())).collect();
        let message = random_copies(&mut rng, keys, Bytes::new());
        // By kind: more fields that it does not use, and fields with the first value that is not known.
        let (unused, tags): (&[usize], &[(usize, u8)]) = match message.encode()[0] {
            9 => (&[OPERATION, OPERATION + 3], &[(ACCESS, 3)]),
            10 => (&[NODE, NODE + 1], &[(ACCESS, 4), (HOPS, 2)]),
            11 => (&[HOPS, NODE, NODE + 1, COUNT, COUNT + 2], &[(ACCESS, 3)]),
            12 => (&[NODE, NODE + 1], &[(HOPS, 2)]),
            kind => unreachable!("kind {kind} is not about copies"),
        };
        for at in [RESERVED, WORKER, WORKER + 1].iter().chain(unused) {
            let is = broken(&message, *at, &[1]);
            assert!(matches!(is, Err(WireError::UnknownTag { .. })), "byte {at} of {message:?}: {is:?}");
        }
        for (at, from) in tags {
            for value in *from..=255 {
                let is = broken(&message, *at, &[value]);
                assert!(matches!(is, Err(WireError::UnknownTag { value: v, .. }) if v == value), "{is:?}");
            }
        }
    }
    let hand_over =
        Message::HandOver(HandOver { keys: vec![], counters: vec![], holders: vec![], values: Bytes::new() });
    for at in [ACCESS, HOPS, RESERVED, NODE, NODE + 1, WORKER, WORKER + 1] {
        let is = broken(&hand_over, at, &[1]);
        assert!(matches!(is, Err(WireError::UnknownTag { .. })), "byte {at}: {is:?}");
    }
}

#[test]
fn kinds_without_elements_have_none() {
    let (keys, generations, values) = (vec![Key(1)], vec![2], Bytes::new());
    let sync = |kind, numbers| {
        let (keys, generations, values) = (keys.clone(), generations.clone(), values.clone());
        Message::ReplicaRequest(ReplicaRequest {
            kind,
            holder: NodeId(0),
            hops: 0,
            keys,
            generations,
            numbers,
            values,
        })
    };
    let news = |kind, numbers: Vec<u32>| {
        let (keys, generations, values) = (keys.clone(), generations.clone(), values.clone());
        let (seqs, versions, counters) = (numbers.clone(), numbers, vec![]);
        Message::ReplicaUpdate(ReplicaUpdate {
            kind,
            clock: 0,
            keys,
            generations,
            seqs,
            versions,
            counters,
            values,
        })
    };
    let without = [
        sync(ReplicaRequestKind::Ask, vec![3]),
        sync(ReplicaRequestKind::Drop, vec![]),
        news(ReplicaUpdateKind::Acknowledged, vec![3]),
        news(ReplicaUpdateKind::Dropped, vec![]),
        Message::Clock(Clock { scope: ClockScope::Node, clock: 3 }),
    ];
    for message in without {
        let mut frame = message.encode().to_vec();
        frame.extend([0; 4]);
        assert_eq!(
            Message::decode(Bytes::from(frame)),
            Err(WireError::TrailingBytes { extra: 4 }),
            "{message:?}"
        );
    }
    let with = [
        sync(ReplicaRequestKind::Delta, vec![3]),
        news(ReplicaUpdateKind::SetUp, vec![3]),
        news(ReplicaUpdateKind::Refresh, vec![3]),
        Message::Reduce(Reduce { round: 0, step: 0, last: true, indices: vec![1], values: Bytes::new() }),
    ];
    for message in with {
        let mut frame = message.encode().to_vec();
        frame.extend([0; 4]);
        assert!(Message::decode(Bytes::from(frame)).is_ok(), "{message:?}");
    }
}

#[test]
fn holders_are_of_keys_of_the_frame_and_ordered() {
    const ROWS: usize = 16 + 2 * (8 + 4);
    const ROW: usize = 18;
    let row = |at, node| HolderRow { at, version: 1, node: NodeId(node), generation: 2, seq: 3 };
    let message = Message::HandOver(HandOver {
        keys: vec![Key(5), Key(6)],
        counters: vec![1, 1],
        holders: vec![row(0, 1), row(0, 2), row(1, 1)],
        values: Bytes::new(),
    });
    assert_eq!(Message::decode(message.encode()).as_ref(), Ok(&message));
    let at = broken(&message, ROWS + 2 * ROW, &[2]);
    assert_eq!(at, Err(WireError::NoSuchKey { row: 2, at: 2, keys: 2 }));
    let field = "holders of a hand-over";
    // The same holder twice, a smaller holder, a smaller key.
    assert_eq!(broken(&message, ROWS + ROW + 8, &[1]), Err(WireError::Unordered { field, at: 1 }));
    assert_eq!(broken(&message, ROWS + ROW + 8, &[0]), Err(WireError::Unordered { field, at: 1 }));
    assert_eq!(broken(&message, ROWS, &[1]), Err(WireError::Unordered { field, at: 1 }));
    assert_eq!(broken(&message, ROWS + 2 * ROW, &[0]), Err(WireError::Unordered { field, at: 2 }));
    let rows = intendant_core::limits::FRAME_KEYS_MAX + 1;
    let many = broken(&message, OPERATION, &(rows as u32).to_le_bytes());
    assert_eq!(many, Err(WireError::TooManyHolders { rows }));
    let more = broken(&message, OPERATION, &4u32.to_le_bytes());
    assert_eq!(more, Err(WireError::Truncated { bytes: ROWS + 3 * ROW, needed: ROWS + 4 * ROW }));
}

#[test]
fn indices_of_a_reduce_ascend() {
    let (indices, values) = (vec![1, 4, 9], Bytes::new());
    let message = Message::Reduce(Reduce { round: 1, step: 2, last: false, indices, values });
    let field = "indices of a reduce";
    assert_eq!(broken(&message, 20, &[1]), Err(WireError::Unordered { field, at: 1 }));
    assert_eq!(broken(&message, 20, &[9]), Err(WireError::Unordered { field, at: 2 }));
    assert!(broken(&message, 20, &[8]).is_ok());
}

proptest! {
    #[test]
    fn messages_round_trip(seed: u64) {
        let message = random(&mut Pcg64Mcg::seed_from_u64(seed));
        prop_assert_eq!(Message::decode(message.encode()), Ok(message));
    }
}
