//! Packed frames: unpacking restores what was packed, frames that should become shorter do, and frames that
//! no packer makes are refused.

use crate::fuzz::{Content, random_of};
use bytes::Bytes;
use intendant_core::{Key, NodeId, WorkerId};
use intendant_wire::{
    AccessKind, HEADER_BYTES, Message, MessageClass, OpId, Origin, Packer, Packing, Request, Saved, Unpacker,
    WireError,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

const PACKINGS: [Packing; 4] = [
    Packing { key_lists: false, compress: false },
    Packing { key_lists: true, compress: false },
    Packing { key_lists: false, compress: true },
    Packing { key_lists: true, compress: true },
];

fn pack(packer: &mut Packer, message: &Message) -> (Bytes, Bytes) {
    packer.pack(message, &mut Saved::default())
}

/// The fourth byte of a header.
const AT: usize = 3;

/// `count` numbers, ascending so that any message may have them: a progression, or not.
fn numbers(rng: &mut Pcg64Mcg, count: usize) -> Vec<u32> {
    let (mut number, step) = (rng.random_range(0..1_000u32), rng.random_range(1..9));
    let even: bool = rng.random();
    (0..count)
        .map(|_| {
            number += if even { step } else { rng.random_range(1..9) };
            number
        })
        .collect()
}

fn content(rng: &mut Pcg64Mcg) -> Content {
    let count = match rng.random_range(0..4) {
        0 => rng.random_range(0..8),
        1..3 => rng.random_range(8..200),
        _ => rng.random_range(200..3_000),
    };
    let keys = match rng.random() {
        true => numbers(rng, count).into_iter().map(|number| Key(number.into())).collect(),
        false => (0..count).map(|_| Key(rng.random())).collect(),
    };
    let values: Vec<u8> = match rng.random_range(0..3) {
        0 => (0..rng.random_range(0..100)).map(|_| rng.random()).collect(),
        1 => (0..rng.random_range(0..20_000)).map(|_| rng.random()).collect(),
        // Whole numbers in single precision.
        _ => (0..rng.random_range(0..5_000))
            .flat_map(|_| (rng.random_range(0..50) as f32).to_le_bytes())
            .collect(),
    };
    Content { keys, numbers: [(); 5].map(|()| numbers(rng, count)), values: values.into() }
}

fn clone(content: &Content) -> Content {
    Content { keys: content.keys.clone(), numbers: content.numbers.clone(), values: content.values.clone() }
}

/// Packs and unpacks the frames of several thousand messages. Many of them have lists in common.
#[test]
fn what_is_packed_is_unpacked() {
    for packing in PACKINGS {
        for width in [4, 8] {
            let mut rng = Pcg64Mcg::seed_from_u64(7);
            let (mut packer, mut unpacker) = (Packer::new(packing, width), Unpacker::new(width));
            let known: Vec<Content> = (0..40).map(|_| content(&mut rng)).collect();
            let (mut plain, mut sent, mut kinds) = (0, 0, BTreeMap::<u8, usize>::new());
            let mut saved = Saved::default();
            for _ in 0..3_000 {
                let content = match rng.random_range(0..3) {
                    0 => content(&mut rng),
                    _ => clone(&known[rng.random_range(0..known.len())]),
                };
                let message = random_of(&mut rng, content);
                let (head, values) = packer.pack(&message, &mut saved);
                *kinds.entry(head[AT]).or_default() += 1;
                (plain, sent) = (plain + message.encode().len(), sent + head.len() + values.len());
                assert_eq!(unpacker.unpack([head, values].concat().into()), Ok(message));
            }
            let by_all = saved.runs + saved.key_lists + saved.compression;
            assert_eq!(saved.unpacked, plain as u64);
            // `saved` does not count the bytes that name forms.
            let marks = sent as u64 + by_all - saved.unpacked;
            assert!(marks <= 5 * 3_000, "{marks} bytes beside {saved:?}");
            assert!(saved.runs > 0 && (saved.key_lists > 0) == packing.key_lists, "{saved:?}");
            assert_eq!(saved.compression > 0, packing.compress, "{saved:?}");
            assert_eq!(kinds.contains_key(&2), packing.compress, "{kinds:?}");
            assert!(kinds[&0] > 100 && kinds[&1] > 100, "one-sided: {kinds:?}");
        }
    }
}

/// The packer finds the lists in messages of every class that has some.
#[test]
fn every_list_of_every_class_is_packed() {
    let mut rng = Pcg64Mcg::seed_from_u64(8);
    let runs = |step: u32| (0..1_000).map(|at| 7 + at * step).collect::<Vec<u32>>();
    let mut seen = BTreeMap::new();
    for _ in 0..3_000 {
        let keys = runs(3).into_iter().map(|number| Key(u64::from(number) << 33)).collect();
        let numbers = [1, 2, 3, 4, 0].map(runs);
        let message = random_of(&mut rng, Content { keys, numbers, values: Bytes::new() });
        let class = message.class();
        let plain = message.encode().len();
        let (head, values) = pack(&mut Packer::new(Packing::default(), 4), &message);
        // The rows of holders and the broadcast numbers of a hand-over are in no list.
        let rows = if let Message::HandOver(hand_over) = &message {
            hand_over.holders.len() * 18 + hand_over.decided.len() * 4
        } else {
            0
        };
        assert!(values.is_empty());
        let bytes = head.len() - rows;
        // One list of an intent report may be so short that a run of 16 bytes saves too little.
        let most = if class == MessageClass::IntentReport {
            HEADER_BYTES + 2 + 16 + (8_000 / 32 + 16)
        } else {
            HEADER_BYTES + 5 * 17
        };
        let listed = !matches!(
            class,
            MessageClass::SnapshotRequest | MessageClass::SnapshotPart | MessageClass::Clock
        );
        if listed {
            assert!(bytes <= most, "{class}: {bytes} of {plain} bytes");
        } else {
            assert_eq!(bytes, plain);
        }
        assert_eq!(Unpacker::new(4).unpack(head), Ok(message));
        *seen.entry(class).or_insert(0) += 1;
    }
    assert!(MessageClass::ALL.iter().all(|class| seen.contains_key(class)), "{seen:?}");
}

fn pull(keys: Vec<Key>) -> Message {
    let positions = (0..keys.len() as u32).rev().map(|at| at * at).collect();
    let origin = Origin { node: NodeId(1), worker: WorkerId(2), op: OpId(3) };
    Message::Request(Request {
        origin,
        kind: AccessKind::Pull,
        hops: 0,
        keys,
        positions,
        values: Bytes::new(),
    })
}

fn scattered(seed: u64) -> Vec<Key> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    (0..500).map(|_| Key(rng.random())).collect()
}

#[test]
fn a_list_that_was_carried_before_is_a_reference() {
    let packing = Packing { key_lists: true, compress: false };
    let (mut packer, mut unpacker) = (Packer::new(packing, 4), Unpacker::new(4));
    let mut bytes = Vec::new();
    for seed in [1, 2, 1, 2, 3, 1] {
        let message = pull(scattered(seed));
        let (head, _) = pack(&mut packer, &message);
        bytes.push(head.len());
        assert_eq!(unpacker.unpack(head), Ok(message));
    }
    // All of them have the same positions.
    let (first, other, again) =
        (HEADER_BYTES + 2 + 500 * 12, HEADER_BYTES + 2 + 500 * 8 + 4, HEADER_BYTES + 10);
    assert_eq!(bytes, [first, other, again, again, other, again]);
}

#[test]
fn short_frames_and_progressions_among_long_values_stay_as_they_are() {
    let all = Packing { key_lists: true, compress: true };
    let few = pull((0..2).map(Key).collect());
    assert_eq!(pack(&mut Packer::new(all, 4), &few), few.encode_parts());
    let Message::Request(request) = pull((0..100).map(Key).collect()) else { unreachable!() };
    // The positions are no progression, and the 800 bytes of keys are less than one in 32 bytes.
    let values = Bytes::from(vec![1; 40_000]);
    let push = Message::Request(Request { kind: AccessKind::Push, values, ..request });
    assert_eq!(pack(&mut Packer::new(Packing::default(), 4), &push), push.encode_parts());
}

#[test]
fn what_does_not_get_shorter_is_not_compressed() {
    let packing = Packing { key_lists: false, compress: true };
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let Message::Request(request) = pull(scattered(1)) else { unreachable!() };
    let noise: Vec<u8> = (0..100_000).map(|_| rng.random()).collect();
    let push = Message::Request(Request { kind: AccessKind::Push, values: noise.into(), ..request });
    let mut saved = Saved::default();
    assert_eq!(Packer::new(packing, 4).pack(&push, &mut saved), push.encode_parts());
    assert_eq!(saved, Saved { unpacked: push.encode().len() as u64, ..Saved::default() });
}

/// The frames of one message, by packing; `tests/it/golden.rs` has the unpacked frames.
#[test]
fn packed_frames_of_version_6() {
    let hex = |frame: &[u8]| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let packing = Packing { key_lists: true, compress: true };
    let mut packer = Packer::new(packing, 4);
    let Message::Request(request) = pull((0..8).map(|at| Key(at * 3 + 5)).collect()) else { unreachable!() };
    let positions: Vec<u32> = (0..8).collect();
    let run = Message::Request(Request { positions, ..request.clone() });
    let header = "01000001010002000300000008000000";
    let (head, _) = pack(&mut packer, &run);
    assert_eq!(hex(&head), format!("{header}0105000000000000000300000000000000010000000001000000"));
    let keys: Vec<Key> = [3, 1, 4, 1, 5, 9, 2, 6].map(Key).into();
    let listed = Message::Request(Request { keys: keys.clone(), positions: vec![], ..request });
    let Message::Request(listed) = listed else { unreachable!() };
    let listed = Message::Request(Request { positions: vec![2, 7, 1, 8, 2, 8, 1, 8], ..listed });
    let raw: Vec<u8> = keys.iter().flat_map(|key| key.0.to_le_bytes()).collect();
    let positions = "020200000007000000010000000800000002000000080000000100000008000000";
    let (head, _) = pack(&mut packer, &listed);
    assert_eq!(hex(&head), format!("{header}02{}{positions}", hex(&raw)));
    let (head, _) = pack(&mut packer, &listed);
    assert_eq!(hex(&head), format!("{header}03010000000300000000"));
    let Message::Request(request) = run else { unreachable!() };
    let values = Bytes::from(vec![0; 8_000]);
    let push = Message::Request(Request { kind: AccessKind::Push, values, ..request });
    let (head, _) = pack(&mut packer, &push);
    assert_eq!(&head[..HEADER_BYTES], [1, 1, 0, 2, 1, 0, 2, 0, 3, 0, 0, 0, 8, 0, 0, 0]);
    assert!(head.len() < 160, "{} bytes for 2,000 zeros", head.len());
}

/// Frames that no packer makes are refused or mean something; none panics.
#[test]
fn mutated_frames_are_refused_or_mean_something() {
    let mut rng = Pcg64Mcg::seed_from_u64(10);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..400 {
        let packing = PACKINGS[round % 4];
        let (mut packer, mut unpacker) = (Packer::new(packing, 4), Unpacker::new(4));
        for _ in 0..40 {
            let content = content(&mut rng);
            let message = random_of(&mut rng, content);
            let (head, values) = pack(&mut packer, &message);
            let mut frame = [head, values].concat();
            let near = frame.len().min(200);
            for _ in 0..rng.random_range(1..3) {
                let at = rng.random_range(0..near);
                match rng.random_range(0..5) {
                    0 => frame[at] = rng.random(),
                    1 => frame[at] ^= 1 << rng.random_range(0..8),
                    2 => frame.truncate(at.max(1)),
                    3 => frame.insert(at, rng.random()),
                    _ => frame[AT.min(near - 1)] = rng.random_range(0..4),
                }
                if frame.len() < near {
                    break;
                }
            }
            match unpacker.unpack(frame.into()) {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > 1_000 && refused > 1_000, "one-sided: {accepted} accepted, {refused} refused");
}

/// What a frame announces is checked.
#[test]
fn frames_that_announce_too_much_are_refused() {
    let unpack = |frame: &[u8]| Unpacker::new(4).unpack(Bytes::copy_from_slice(frame));
    let header = |packing: u8, count: u32| {
        let mut head = pull(vec![]).encode().to_vec();
        head[AT] = packing;
        head[12..].copy_from_slice(&count.to_le_bytes());
        head
    };
    let many = (1 << 20) + 1;
    assert_eq!(unpack(&header(1, many)), Err(WireError::TooManyKeys { keys: many as usize }));
    let reference = [header(1, 8), vec![3, 9, 0, 0, 0]].concat();
    assert_eq!(unpack(&reference), Err(WireError::NoSuchList { age: 9, bytes: 64 }));
    assert_eq!(
        unpack(&[header(1, 8), vec![4]].concat()),
        Err(WireError::UnknownTag { field: "form of a list", value: 4 })
    );
    assert_eq!(unpack(&header(3, 0)), Err(WireError::UnknownTag { field: "packing", value: 3 }));
    assert_eq!(unpack(&header(1, 8)), Err(WireError::Truncated { bytes: 0, needed: 1 }));
    let whole = [header(2, 8), (16u32 << 20).to_le_bytes().to_vec(), vec![0; 100]].concat();
    assert_eq!(unpack(&whole), Err(WireError::Decompressed { bytes: 16 << 20, from: 100 }));
    // A reference to a list of another length.
    let (mut packer, mut unpacker) =
        (Packer::new(Packing { key_lists: true, compress: false }, 4), Unpacker::new(4));
    let (head, _) = pack(&mut packer, &pull(scattered(1)));
    assert!(unpacker.unpack(head).is_ok());
    let reference = [header(1, 8), vec![3, 1, 0, 0, 0]].concat();
    assert_eq!(unpacker.unpack(reference.into()), Err(WireError::NoSuchList { age: 1, bytes: 64 }));
}
