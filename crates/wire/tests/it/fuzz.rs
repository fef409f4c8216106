//! Random and mutated frames: the decoder does not panic, allocates no memory beyond the frame's own size,
//! and accepts only canonical frames.

use bytes::Bytes;
use intendant_core::{Key, NodeId, Precision, WorkerId};
use intendant_wire::{
    AccessKind, Clock, ClockScope, Cursor, HandOver, HeaderField, HolderRow, IntentReport, Localize, Locate,
    Located, Message, MessageClass, Moved, OpId, Origin, Reduce, Relocate, ReplicaRequest,
    ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request, Response, SnapshotPart, SnapshotRequest,
    Void, WireError,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Counts the bytes that this thread allocates, so that tests notice a decoder that allocates memory because
/// a frame announces it.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: this forwards to the system's allocator; the counter is a plain thread-local number.
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
                // Sharing the frame allocates a few bytes.
                assert!(taken <= 64, "{taken} bytes taken for a part of a message: {error}");
            }
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

const PRECISIONS: [Precision; 2] = [Precision::Exact, Precision::Bf16];

fn one_of<T: Copy, const N: usize>(rng: &mut Pcg64Mcg, choices: [T; N]) -> T {
    choices[rng.random_range(0..N)]
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

/// The lists and values from which messages are made.
pub(crate) struct Content {
    pub(crate) keys: Vec<Key>,
    /// Each list has as many numbers as there are keys.
    pub(crate) numbers: [Vec<u32>; 5],
    pub(crate) values: Bytes,
}

/// A short message of any class.
fn random(rng: &mut Pcg64Mcg) -> Message {
    let count = rng.random_range(0..6);
    let keys: Vec<Key> = (0..count).map(|_| Key(rng.random())).collect();
    let values: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
    let numbers = [(); 5].map(|()| (0..count).map(|_| rng.random()).collect());
    random_of(rng, Content { keys, numbers, values: values.into() })
}

/// A message of any class with this content.
pub(crate) fn random_of(rng: &mut Pcg64Mcg, content: Content) -> Message {
    let origin =
        Origin { node: NodeId(rng.random()), worker: WorkerId(rng.random()), op: OpId(rng.random()) };
    let kind = one_of(rng, [AccessKind::Pull, AccessKind::Push, AccessKind::Set]);
    let cursor = Cursor { shard: rng.random(), position: rng.random() };
    let Content { keys, numbers: [positions, counters, generations, first, second], values } = content;
    match one_of(rng, MessageClass::ALL) {
        MessageClass::Request => {
            Message::Request(Request { origin, kind, hops: rng.random(), keys, positions, values })
        }
        MessageClass::Response => Message::Response(Response {
            worker: origin.worker,
            op: origin.op,
            kind,
            positions,
            counters: if rng.random() { counters } else { vec![] },
            values,
        }),
        MessageClass::SnapshotRequest => Message::SnapshotRequest(SnapshotRequest {
            origin,
            start: Key(rng.random()),
            end: Key(rng.random()),
            cursor,
            bytes_max: rng.random(),
        }),
        MessageClass::SnapshotPart => Message::SnapshotPart(SnapshotPart {
            worker: origin.worker,
            op: origin.op,
            next: rng.random::<bool>().then_some(cursor),
            keys,
            values,
        }),
        MessageClass::Localize => {
            Message::Localize(Localize { requester: origin.node, hops: rng.random(), keys })
        }
        MessageClass::Relocate => Message::Relocate(Relocate { to: origin.node, keys, counters }),
        MessageClass::HandOver => {
            let holders = random_holders(rng, keys.len());
            let decided = (0..rng.random_range(0..4)).map(|_| rng.random()).collect();
            Message::HandOver(HandOver { keys, counters, decided, holders, values })
        }
        MessageClass::Moved => Message::Moved(Moved { keys, counters }),
        MessageClass::ReplicaRequest => {
            use ReplicaRequestKind::{Ask, Delta, Drop};
            let kind = one_of(rng, [Ask, Delta, Drop]);
            Message::ReplicaRequest(ReplicaRequest {
                kind,
                holder: origin.node,
                hops: rng.random(),
                keys,
                generations,
                numbers: if kind == Drop { vec![] } else { first },
                precision: if kind == Delta { one_of(rng, PRECISIONS) } else { Precision::Exact },
                values: if kind == Delta { values } else { Bytes::new() },
            })
        }
        MessageClass::ReplicaUpdate => {
            use ReplicaUpdateKind::{Acknowledged, Dropped, Refresh, SetUp};
            let kind = one_of(rng, [SetUp, Refresh, Acknowledged, Dropped]);
            let numbered = kind != Dropped;
            Message::ReplicaUpdate(ReplicaUpdate {
                kind,
                clock: rng.random(),
                keys,
                generations,
                seqs: if numbered { first } else { vec![] },
                versions: if numbered { second } else { vec![] },
                counters: if rng.random() { counters } else { vec![] },
                precision: if matches!(kind, SetUp | Refresh) {
                    one_of(rng, PRECISIONS)
                } else {
                    Precision::Exact
                },
                values: if matches!(kind, SetUp | Refresh) { values } else { Bytes::new() },
            })
        }
        MessageClass::Clock => {
            let scope = one_of(rng, [ClockScope::Node, ClockScope::Global, ClockScope::Resumed]);
            let clock = if scope == ClockScope::Resumed { 0 } else { rng.random() };
            Message::Clock(Clock { scope, clock })
        }
        MessageClass::Reduce => {
            let indices: BTreeSet<u32> = first.into_iter().collect();
            Message::Reduce(Reduce {
                round: rng.random(),
                step: rng.random(),
                last: rng.random(),
                indices: indices.into_iter().collect(),
                values,
            })
        }
        MessageClass::IntentReport => {
            let mut begun = keys;
            let over = begun.split_off(rng.random_range(0..=begun.len()));
            Message::IntentReport(IntentReport { begun, over })
        }
        MessageClass::Locate => Message::Locate(Locate { keys }),
        MessageClass::Located => Message::Located(Located { at: origin.node, keys }),
        MessageClass::Void => Message::Void(Void { keys, after: first, upto: second }),
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
        if let Some(class) = frame.first_mut() {
            // The known classes, and 0.
            *class %= MessageClass::ALL.len() as u8 + 1;
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
    for (class, tag) in MessageClass::ALL.into_iter().flat_map(|class| (0..4).map(move |tag| (class, tag))) {
        for (argument, count) in [(0, 1u32 << 20), (1 << 20, 0), (1 << 20, 1 << 20)] {
            let mut frame = vec![0; 16 + (8 << 20)];
            (frame[0], frame[1]) = (class as u8, tag);
            frame[8..12].copy_from_slice(&u32::to_le_bytes(argument));
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

/// Changes one place of a frame and decodes it.
fn broken(message: &Message, at: usize, bytes: &[u8]) -> Result<Message, WireError> {
    let mut frame = message.encode().to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    Message::decode(Bytes::from(frame))
}

/// Offsets and lengths of the header's fields.
const FIELDS: [(HeaderField, usize, usize); 6] = [
    (HeaderField::Tag, 1, 1),
    (HeaderField::Flags, 2, 1),
    (HeaderField::Node, 4, 2),
    (HeaderField::Worker, 6, 2),
    (HeaderField::Argument, ARGUMENT, 4),
    (HeaderField::Count, 12, 4),
];
const TAG: usize = 1;
const FLAGS: usize = 2;
const RESERVED: usize = 3;
const ARGUMENT: usize = 8;

/// By class: the fields that it does not use, and the fields that have unknown values, each with the smallest
/// such value.
fn fields(message: &Message) -> (Vec<HeaderField>, Vec<(usize, u8)>) {
    use HeaderField::{Argument, Count, Flags, Node, Tag, Worker};
    match message.class() {
        MessageClass::Request => (vec![], vec![(TAG, 3)]),
        MessageClass::Response => (vec![Node], vec![(TAG, 3), (FLAGS, 2)]),
        MessageClass::SnapshotRequest => (vec![Tag, Flags, Count], vec![]),
        MessageClass::SnapshotPart => (vec![Flags, Node], vec![(TAG, 2)]),
        MessageClass::Localize => (vec![Tag, Worker, Argument], vec![]),
        MessageClass::Moved | MessageClass::Locate | MessageClass::Void => {
            (vec![Tag, Flags, Node, Worker, Argument], vec![])
        }
        MessageClass::Relocate | MessageClass::Located => (vec![Tag, Flags, Worker, Argument], vec![]),
        MessageClass::HandOver => (vec![Tag, Flags, Node], vec![]),
        MessageClass::IntentReport => (vec![Tag, Flags, Node, Worker], vec![]),
        MessageClass::ReplicaRequest => (vec![Worker, Argument], vec![(TAG, 4)]),
        MessageClass::ReplicaUpdate => (vec![Node, Worker], vec![(TAG, 6), (FLAGS, 2)]),
        MessageClass::Clock => {
            let Message::Clock(clock) = message else { unreachable!("{message:?}") };
            let resumed = clock.scope == ClockScope::Resumed;
            let unused = [Flags, Node, Worker, Count].into_iter().chain(resumed.then_some(Argument));
            (unused.collect(), vec![(TAG, 3)])
        }
        MessageClass::Reduce => (vec![Node, Worker], vec![(FLAGS, 2)]),
    }
}

#[test]
fn a_field_that_a_class_does_not_use_must_be_zero() {
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut classes = BTreeSet::new();
    for _ in 0..10_000 {
        let message = random(&mut rng);
        let class = message.class();
        let (unused, tags) = fields(&message);
        classes.insert(class);
        for (field, at, bytes) in FIELDS.into_iter().filter(|(field, ..)| unused.contains(field)) {
            for byte in 0..bytes {
                let refused = Err(WireError::UnusedField { class, field, value: 1 << (8 * byte) });
                let is = broken(&message, at + byte, &[1]);
                if field == HeaderField::Count && byte == 3 {
                    assert_eq!(is, Err(WireError::TooManyKeys { keys: 1 << 24 }));
                } else {
                    assert_eq!(is, refused, "byte {byte} of {field} of {message:?}");
                }
            }
        }
        for value in [1, 255] {
            assert_eq!(broken(&message, RESERVED, &[value]), Err(WireError::Packed { value }));
        }
        for (at, from) in tags {
            for value in from..=255 {
                let is = broken(&message, at, &[value]);
                assert!(matches!(is, Err(WireError::UnknownTag { value: v, .. }) if v == value), "{is:?}");
            }
        }
    }
    assert!(classes.into_iter().eq(MessageClass::ALL), "a class was not drawn");
}

#[test]
fn errors_name_the_class_the_field_and_its_value() {
    let message = Message::Clock(Clock { scope: ClockScope::Node, clock: 3 });
    let text = |at: usize, value: u8| broken(&message, at, &[value]).unwrap_err().to_string();
    assert_eq!(
        text(FLAGS, 7),
        "frame of class clock does not use the field flags, which must be 0, but is 7"
    );
    assert_eq!(text(RESERVED, 9), "packing of the frame is 9, but must be 0 where frames are not packed");
    assert_eq!(text(TAG, 4), "scope of a clock 4 is not known");
    assert_eq!(text(0, 77), "message class 77 is not known");
}

#[test]
fn counters_need_keys() {
    let (worker, op, kind, values) = (WorkerId(0), OpId(0), AccessKind::Push, Bytes::new());
    let (positions, counters) = (vec![], vec![]);
    let response = Message::Response(Response { worker, op, kind, positions, counters, values });
    let class = MessageClass::Response;
    assert_eq!(broken(&response, FLAGS, &[1]), Err(WireError::CountersWithoutKeys { class }));
    let update = Message::ReplicaUpdate(ReplicaUpdate {
        kind: ReplicaUpdateKind::Dropped,
        clock: 0,
        keys: vec![],
        generations: vec![],
        seqs: vec![],
        versions: vec![],
        counters: vec![],
        precision: Precision::Exact,
        values: Bytes::new(),
    });
    let class = MessageClass::ReplicaUpdate;
    assert_eq!(broken(&update, FLAGS, &[1]), Err(WireError::CountersWithoutKeys { class }));
}

/// The class, keys and elements that messages report agree with their frames.
#[test]
fn messages_know_their_class_their_keys_and_their_elements() {
    let mut rng = Pcg64Mcg::seed_from_u64(4);
    for _ in 0..10_000 {
        let message = random(&mut rng);
        let frame = message.encode();
        assert_eq!(frame[0], message.class() as u8);
        let (head, values) = message.encode_parts();
        assert_eq!(message.value_bytes(), values.len(), "{message:?}");
        let number = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
        let over = if message.class() == MessageClass::IntentReport { number(ARGUMENT) } else { 0 };
        assert_eq!(message.key_count(), number(12) + over, "{message:?}");
        let keys: Vec<Key> = message.keys().collect();
        let class = message.class();
        let unnamed = [
            MessageClass::Response,
            MessageClass::Reduce,
            MessageClass::SnapshotRequest,
            MessageClass::Clock,
        ];
        if unnamed.contains(&class) {
            assert_eq!(keys, [], "{message:?}");
            continue;
        }
        assert_eq!(keys.len(), message.key_count(), "{message:?}");
        let cursor = class == MessageClass::SnapshotPart && frame[TAG] == 1;
        let at = 16 + if cursor { 12 } else { 0 };
        let raw = head[at..].chunks_exact(8).take(keys.len());
        let first = raw.map(|raw| Key(u64::from_le_bytes(raw.try_into().unwrap())));
        assert!(first.eq(keys.iter().copied()), "{message:?}");
    }
}

#[test]
fn kinds_without_elements_have_none() {
    let (keys, generations, values) = (vec![Key(1)], vec![2], Bytes::new());
    let request = |kind, numbers| {
        let (keys, generations, values) = (keys.clone(), generations.clone(), values.clone());
        Message::ReplicaRequest(ReplicaRequest {
            kind,
            holder: NodeId(0),
            hops: 0,
            keys,
            generations,
            numbers,
            precision: Precision::Exact,
            values,
        })
    };
    let update = |kind, numbers: Vec<u32>| {
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
            precision: Precision::Exact,
            values,
        })
    };
    let without = [
        request(ReplicaRequestKind::Ask, vec![3]),
        request(ReplicaRequestKind::Drop, vec![]),
        update(ReplicaUpdateKind::Acknowledged, vec![3]),
        update(ReplicaUpdateKind::Dropped, vec![]),
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
        request(ReplicaRequestKind::Delta, vec![3]),
        update(ReplicaUpdateKind::SetUp, vec![3]),
        update(ReplicaUpdateKind::Refresh, vec![3]),
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
        decided: vec![],
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
    let many = broken(&message, ARGUMENT, &(rows as u32).to_le_bytes());
    assert_eq!(many, Err(WireError::TooManyHolders { rows }));
    let more = broken(&message, ARGUMENT, &4u32.to_le_bytes());
    assert_eq!(more, Err(WireError::Truncated { bytes: ROWS + 3 * ROW, needed: ROWS + 4 * ROW }));
}

#[test]
fn both_lists_of_an_intent_report_count_towards_the_limit() {
    let max = intendant_core::limits::FRAME_KEYS_MAX;
    let keys = |count: usize| (0..count as u64).map(Key).collect::<Vec<_>>();
    let most = Message::IntentReport(IntentReport { begun: keys(max - 1), over: keys(1) });
    assert_eq!(Message::decode(most.encode()).as_ref(), Ok(&most));
    let many = Message::IntentReport(IntentReport { begun: keys(max - 1), over: keys(2) });
    assert_eq!(Message::decode(many.encode()), Err(WireError::TooManyKeys { keys: max + 1 }));
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

/// Bytes that `make` allocates, and its result.
fn allocated<T>(make: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATED.with(Cell::get);
    let made = make();
    (ALLOCATED.with(Cell::get) - before, made)
}

#[test]
fn a_frame_takes_memory_once_and_as_much_as_it_has_bytes() {
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    for _ in 0..10_000 {
        let message = random(&mut rng);
        let (taken, frame) = allocated(|| message.encode());
        assert_eq!(taken, frame.len(), "{message:?}");
        let (taken, (head, values)) = allocated(|| message.encode_parts());
        // Sharing the elements may allocate a few bytes, once.
        assert!(taken == head.len() || taken <= head.len() + 64 && !values.is_empty(), "{message:?}");
    }
}

proptest! {
    #[test]
    fn messages_round_trip(seed: u64) {
        let message = random(&mut Pcg64Mcg::seed_from_u64(seed));
        prop_assert_eq!(Message::decode(message.encode()), Ok(message));
    }
}
