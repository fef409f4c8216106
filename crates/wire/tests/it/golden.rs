//! The frames of this protocol version, byte by byte. A change here requires a new `PROTOCOL` version.

use bytes::Bytes;
use intendant_core::{Key, NodeId, Precision, WorkerId};
use intendant_wire::{
    AccessKind, Clock, ClockScope, Cursor, HandOver, HolderRow, IntentReport, Localize, Locate, Located,
    Message, MessageClass, Moved, OpId, Origin, PROTOCOL, Reduce, Relocate, ReplicaRequest,
    ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request, Response, SnapshotPart, SnapshotRequest,
    Void,
};
use std::collections::BTreeSet;

fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(4)
        .map(|c| c.iter().map(|b| format!("{b:02x}")).collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

const ORIGIN: Origin = Origin { node: NodeId(0x0102), worker: WorkerId(3), op: OpId(0x0405_0607) };

fn row(at: u32, node: u16, generation: u32) -> HolderRow {
    HolderRow { at, version: 0x15, node: NodeId(node), generation, seq: 0x20 }
}

fn cases() -> Vec<(Message, &'static str)> {
    let values = Bytes::from_static(&[0, 0, 128, 63, 0, 0, 0, 64]);
    let halves = Bytes::from_static(&[128, 63, 0, 64]);
    vec![
        (
            Message::Request(Request {
                origin: ORIGIN,
                kind: AccessKind::Push,
                hops: 2,
                keys: vec![Key(9), Key(1 << 40)],
                positions: vec![0, 5],
                values: values.clone(),
            }),
            "01010200 02010300 07060504 02000000 09000000 00000000 00000000 00010000 00000000 05000000 0000803f 00000040",
        ),
        (
            Message::Response(Response {
                worker: WorkerId(3),
                op: OpId(7),
                kind: AccessKind::Pull,
                positions: vec![1, 4],
                counters: vec![],
                values: values.clone(),
            }),
            "02000000 00000300 07000000 02000000 01000000 04000000 0000803f 00000040",
        ),
        (
            Message::SnapshotRequest(SnapshotRequest {
                origin: ORIGIN,
                start: Key(1),
                end: Key(100),
                cursor: Cursor { shard: 17, position: 2 },
                bytes_max: 1 << 20,
            }),
            "03000000 02010300 07060504 00000000 01000000 00000000 64000000 00000000 11000000 02000000 00000000 00001000",
        ),
        (
            Message::SnapshotPart(SnapshotPart {
                worker: WorkerId(3),
                op: OpId(7),
                next: Some(Cursor { shard: 18, position: 1 }),
                keys: vec![Key(2)],
                values: values.clone(),
            }),
            "04010000 00000300 07000000 01000000 12000000 01000000 00000000 02000000 00000000 0000803f 00000040",
        ),
        (
            Message::Response(Response {
                worker: WorkerId(3),
                op: OpId(7),
                kind: AccessKind::Push,
                positions: vec![1, 4],
                counters: vec![0, 9],
                values: Bytes::new(),
            }),
            "02010100 00000300 07000000 02000000 01000000 04000000 00000000 09000000",
        ),
        (
            Message::Localize(Localize {
                requester: NodeId(0x0102),
                hops: 3,
                keys: vec![Key(9), Key(1 << 40)],
            }),
            "05000300 02010000 00000000 02000000 09000000 00000000 00000000 00010000",
        ),
        (
            Message::Relocate(Relocate { to: NodeId(0x0102), keys: vec![Key(9)], counters: vec![7] }),
            "06000000 02010000 00000000 01000000 09000000 00000000 07000000",
        ),
        (
            Message::HandOver(HandOver {
                keys: vec![Key(9)],
                counters: vec![7],
                decided: vec![],
                holders: vec![],
                values: values.clone(),
            }),
            "07000000 00000000 00000000 01000000 09000000 00000000 07000000 0000803f 00000040",
        ),
        (
            Message::HandOver(HandOver {
                keys: vec![Key(9)],
                counters: vec![7],
                decided: vec![0, 0x0405_0607, 2],
                holders: vec![],
                values: values.clone(),
            }),
            "07000000 00000300 00000000 01000000 09000000 00000000 07000000 00000000 07060504 02000000 \
             0000803f 00000040",
        ),
        (
            Message::HandOver(HandOver {
                keys: vec![Key(9), Key(10)],
                counters: vec![7, 8],
                decided: vec![],
                holders: vec![row(0, 0x0102, 2), row(1, 0, 3), row(1, 0x0102, 4)],
                values: values.clone(),
            }),
            "07000000 00000000 03000000 02000000 09000000 00000000 0a000000 00000000 07000000 08000000 \
             00000000 15000000 02010200 00002000 00000100 00001500 00000000 03000000 20000000 01000000 \
             15000000 02010400 00002000 00000000 803f0000 0040",
        ),
        (
            Message::Moved(Moved { keys: vec![Key(9)], counters: vec![7] }),
            "08000000 00000000 00000000 01000000 09000000 00000000 07000000",
        ),
        (
            Message::IntentReport(IntentReport { begun: vec![Key(9)], over: vec![Key(1 << 40), Key(9)] }),
            "0d000000 00000000 02000000 01000000 09000000 00000000 00000000 00010000 09000000 00000000",
        ),
        (
            Message::Locate(Locate { keys: vec![Key(9), Key(1 << 40)] }),
            "0e000000 00000000 00000000 02000000 09000000 00000000 00000000 00010000",
        ),
        (
            Message::Located(Located { at: NodeId(0x0102), keys: vec![Key(9)] }),
            "0f000000 02010000 00000000 01000000 09000000 00000000",
        ),
        (
            Message::Void(Void { keys: vec![Key(9), Key(10)], after: vec![1, 2], upto: vec![3, 4] }),
            "10000000 00000000 00000000 02000000 09000000 00000000 0a000000 00000000 01000000 02000000 \
             03000000 04000000",
        ),
        (
            Message::ReplicaRequest(ReplicaRequest {
                kind: ReplicaRequestKind::Ask,
                holder: NodeId(0x0102),
                hops: 3,
                keys: vec![Key(9), Key(1 << 40)],
                generations: vec![1, 2],
                numbers: vec![0, 0x0405_0607],
                precision: Precision::Exact,
                values: Bytes::new(),
            }),
            "09000300 02010000 00000000 02000000 09000000 00000000 00000000 00010000 01000000 02000000 00000000 07060504",
        ),
        (
            Message::ReplicaRequest(ReplicaRequest {
                kind: ReplicaRequestKind::Delta,
                holder: NodeId(0x0102),
                hops: 0,
                keys: vec![Key(9)],
                generations: vec![1],
                numbers: vec![6],
                precision: Precision::Exact,
                values: values.clone(),
            }),
            "09010000 02010000 00000000 01000000 09000000 00000000 01000000 06000000 0000803f 00000040",
        ),
        (
            Message::ReplicaRequest(ReplicaRequest {
                kind: ReplicaRequestKind::Drop,
                holder: NodeId(0x0102),
                hops: 0,
                keys: vec![Key(9)],
                generations: vec![1],
                numbers: vec![],
                precision: Precision::Exact,
                values: Bytes::new(),
            }),
            "09020000 02010000 00000000 01000000 09000000 00000000 01000000",
        ),
        (
            Message::ReplicaUpdate(ReplicaUpdate {
                kind: ReplicaUpdateKind::SetUp,
                clock: 0x0405_0607,
                keys: vec![Key(9)],
                generations: vec![1],
                seqs: vec![2],
                versions: vec![3],
                counters: vec![4],
                precision: Precision::Exact,
                values: values.clone(),
            }),
            "0a000100 00000000 07060504 01000000 09000000 00000000 01000000 02000000 03000000 04000000 0000803f 00000040",
        ),
        (
            Message::ReplicaUpdate(ReplicaUpdate {
                kind: ReplicaUpdateKind::Refresh,
                clock: 0,
                keys: vec![Key(9), Key(10)],
                generations: vec![1, 2],
                seqs: vec![3, 4],
                versions: vec![5, 6],
                counters: vec![],
                precision: Precision::Exact,
                values: values.clone(),
            }),
            "0a010000 00000000 00000000 02000000 09000000 00000000 0a000000 00000000 01000000 02000000 03000000 04000000 \
             05000000 06000000 0000803f 00000040",
        ),
        (
            Message::ReplicaUpdate(ReplicaUpdate {
                kind: ReplicaUpdateKind::Acknowledged,
                clock: 1,
                keys: vec![Key(9)],
                generations: vec![1],
                seqs: vec![2],
                versions: vec![3],
                counters: vec![4],
                precision: Precision::Exact,
                values: Bytes::new(),
            }),
            "0a020100 00000000 01000000 01000000 09000000 00000000 01000000 02000000 03000000 04000000",
        ),
        (
            Message::ReplicaUpdate(ReplicaUpdate {
                kind: ReplicaUpdateKind::Dropped,
                clock: 1,
                keys: vec![Key(9)],
                generations: vec![1],
                seqs: vec![],
                versions: vec![],
                counters: vec![],
                precision: Precision::Exact,
                values: Bytes::new(),
            }),
            "0a030000 00000000 01000000 01000000 09000000 00000000 01000000",
        ),
        (
            Message::ReplicaRequest(ReplicaRequest {
                kind: ReplicaRequestKind::Delta,
                holder: NodeId(0x0102),
                hops: 0,
                keys: vec![Key(9)],
                generations: vec![1],
                numbers: vec![6],
                precision: Precision::Bf16,
                values: halves.clone(),
            }),
            "09030000 02010000 00000000 01000000 09000000 00000000 01000000 06000000 803f0040",
        ),
        (
            Message::ReplicaUpdate(ReplicaUpdate {
                kind: ReplicaUpdateKind::SetUp,
                clock: 0x0405_0607,
                keys: vec![Key(9)],
                generations: vec![1],
                seqs: vec![2],
                versions: vec![3],
                counters: vec![4],
                precision: Precision::Bf16,
                values: halves.clone(),
            }),
            "0a040100 00000000 07060504 01000000 09000000 00000000 01000000 02000000 03000000 04000000 803f0040",
        ),
        (
            Message::ReplicaUpdate(ReplicaUpdate {
                kind: ReplicaUpdateKind::Refresh,
                clock: 0,
                keys: vec![Key(9), Key(10)],
                generations: vec![1, 2],
                seqs: vec![3, 4],
                versions: vec![5, 6],
                counters: vec![],
                precision: Precision::Bf16,
                values: halves,
            }),
            "0a050000 00000000 00000000 02000000 09000000 00000000 0a000000 00000000 01000000 02000000 03000000 04000000 \
             05000000 06000000 803f0040",
        ),
        (Message::Clock(Clock { scope: ClockScope::Node, clock: 5 }), "0b000000 00000000 05000000 00000000"),
        (
            Message::Clock(Clock { scope: ClockScope::Global, clock: u32::MAX }),
            "0b010000 00000000 ffffffff 00000000",
        ),
        (
            Message::Clock(Clock { scope: ClockScope::Resumed, clock: 0 }),
            "0b020000 00000000 00000000 00000000",
        ),
        (
            Message::Reduce(Reduce { round: 0x0405_0607, step: 2, last: true, indices: vec![1, 4], values }),
            "0c020100 00000000 07060504 02000000 01000000 04000000 0000803f 00000040",
        ),
        (
            Message::Reduce(Reduce {
                round: 1,
                step: 255,
                last: false,
                indices: vec![],
                values: Bytes::new(),
            }),
            "0cff0000 00000000 01000000 00000000",
        ),
    ]
}

#[test]
fn frames_of_version_6() {
    // Nodes that do not know a class refuse its frames, so a new class requires a new version, too.
    assert_eq!((PROTOCOL, MessageClass::ALL.len()), (7, 16));
    for (message, golden) in cases() {
        assert_eq!(hex(&message.encode()), golden, "{message:?}");
        let (head, values) = message.encode_parts();
        assert_eq!(hex(&[head, values].concat()), golden, "in two parts: {message:?}");
        assert_eq!(Message::decode(message.encode()).as_ref(), Ok(&message));
    }
}

#[test]
fn every_class_has_a_frame() {
    let classes: BTreeSet<MessageClass> = cases().iter().map(|(message, _)| message.class()).collect();
    assert!(classes.into_iter().eq(MessageClass::ALL), "a class has no frame here");
}

#[test]
fn every_shorter_frame_is_refused_or_says_less() {
    for (message, _) in cases() {
        let frame = message.encode();
        for end in 0..frame.len() {
            // Values reach to the end of the frame: a frame that is cut off there is another message, and the
            // engine compares lengths.
            if let Ok(other) = Message::decode(frame.slice(..end)) {
                assert_ne!(other, message);
                assert_eq!(other.encode(), frame.slice(..end));
            }
        }
    }
}
