//! The frames of this protocol version, byte by byte. A change here is a new `PROTOCOL` version.

use bytes::Bytes;
use intendant_core::{Key, NodeId, WorkerId};
use intendant_wire::{
    AccessKind, Cursor, HandOver, Localize, Message, Moved, OpId, Origin, PROTOCOL, Relocate, Request,
    Response, SnapshotPart, SnapshotRequest,
};

fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(4)
        .map(|c| c.iter().map(|b| format!("{b:02x}")).collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

const ORIGIN: Origin = Origin { node: NodeId(0x0102), worker: WorkerId(3), op: OpId(0x0405_0607) };

fn cases() -> Vec<(Message, &'static str)> {
    let values = Bytes::from_static(&[0, 0, 128, 63, 0, 0, 0, 64]);
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
            Message::Localize(Localize { keys: vec![Key(9), Key(1 << 40)] }),
            "05000000 00000000 00000000 02000000 09000000 00000000 00000000 00010000",
        ),
        (
            Message::Relocate(Relocate { to: NodeId(0x0102), keys: vec![Key(9)], counters: vec![7] }),
            "06000000 02010000 00000000 01000000 09000000 00000000 07000000",
        ),
        (
            Message::HandOver(HandOver { keys: vec![Key(9)], counters: vec![7], values }),
            "07000000 00000000 00000000 01000000 09000000 00000000 07000000 0000803f 00000040",
        ),
        (
            Message::Moved(Moved { keys: vec![Key(9)], counters: vec![7] }),
            "08000000 00000000 00000000 01000000 09000000 00000000 07000000",
        ),
    ]
}

#[test]
fn frames_of_version_2() {
    assert_eq!(PROTOCOL, 2);
    for (message, golden) in cases() {
        assert_eq!(hex(&message.encode()), golden, "{message:?}");
        assert_eq!(Message::decode(message.encode()).as_ref(), Ok(&message));
    }
}

#[test]
fn every_shorter_frame_is_refused_or_says_less() {
    for (message, _) in cases() {
        let frame = message.encode();
        for end in 0..frame.len() {
            // Values reach to the end of the frame: a cut there is another message, and the engine compares lengths.
            if let Ok(other) = Message::decode(frame.slice(..end)) {
                assert_ne!(other, message);
                assert_eq!(other.encode(), frame.slice(..end));
            }
        }
    }
}
