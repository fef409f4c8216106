//! Random and mutated frames: no panic, no memory beyond the frame's own size, and what is accepted is canonical.

use bytes::Bytes;
use intendant_core::{Key, NodeId, WorkerId};
use intendant_wire::{
    AccessKind, Cursor, HandOver, Localize, Message, Moved, OpId, Origin, Relocate, Request, Response,
    SnapshotPart, SnapshotRequest, WireError,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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
            assert!(!error.to_string().is_empty());
            false
        }
    }
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
    match rng.random_range(0..8) {
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
        5 => Message::HandOver(HandOver { keys, counters, values }),
        6 => Message::Moved(Moved { keys, counters }),
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
            *kind %= 10;
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
    let long = Bytes::from(vec![0; intendant_core::limits::FRAME_BYTES_MAX + 1]);
    assert!(matches!(Message::decode(long), Err(WireError::TooLong { .. })));
}

proptest! {
    #[test]
    fn messages_round_trip(seed: u64) {
        let message = random(&mut Pcg64Mcg::seed_from_u64(seed));
        prop_assert_eq!(Message::decode(message.encode()), Ok(message));
    }
}
