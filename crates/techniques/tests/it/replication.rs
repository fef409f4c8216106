//! Replicas through the owner without engines: what a holder and an owner do about each message.

use intendant_core::{Combine, Element, NodeId, Precision, SharedRule, Updates};
use intendant_techniques::combine;
use intendant_techniques::replication::{AskOutcome, Collected, Dropped, Hub, Merge, Replica, Stage};
use intendant_techniques::rules::Decay;
use proptest::prelude::*;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

/// Updates are added.
const SUM: Updates<'static> = Updates::Combined(Combine::Sum);

const EXACT: Precision = Precision::Exact;

/// Number and elements of the delta that is sent.
fn sent<E>(collected: Option<Collected<'_, E>>) -> Option<(u32, &[E])> {
    collected.and_then(|collected| collected.delta)
}

/// A holder with this version of a main copy of one element, and its copy.
fn held(version: u32, main: f32) -> (Replica<f32>, [f32; 1]) {
    let mut replica = Replica::ask(1);
    replica.set_up(version, [main].into());
    assert_eq!((replica.stage(), replica.version()), (Stage::Held, version));
    (replica, [main])
}

#[test]
fn an_owner_registers_by_epoch() {
    let mut hub = Hub::default();
    assert_eq!(hub.ask(A, 5), AskOutcome::New);
    assert!(hub.owes(A) && !hub.owes(B));
    assert_eq!(hub.tell(A, Some(EXACT)).map(|holder| (holder.generation, holder.seq)), Some((5, 0)));
    assert!(!hub.owes(A));
    assert_eq!(hub.ask(A, 5), AskOutcome::Again);
    assert_eq!(hub.ask(A, 4), AskOutcome::Stale);
    assert_eq!(hub.ask(A, 6), AskOutcome::New);
    assert!(hub.owes(A), "it has to be told anew");
    assert!(!hub.leave(A, 5) && hub.holders().len() == 1, "a ghost of the first registration");
    assert!(hub.leave(A, 6) && hub.holders().is_empty());
    assert_eq!(hub.ask(A, u32::MAX), AskOutcome::New);
    assert_eq!(hub.ask(A, 0), AskOutcome::New, "generations wrap");
}

#[test]
fn an_owner_merges_the_next_delta_of_the_epoch_and_nothing_else() {
    let mut hub = Hub::default();
    hub.ask(A, 5);
    hub.ask(B, 1);
    hub.tell(A, Some(EXACT));
    hub.tell(B, Some(EXACT));
    assert_eq!(hub.merge(A, 4, 1), Merge::Ghost);
    assert_eq!(hub.merge(A, 5, 2), Merge::Impossible);
    assert_eq!(hub.version(), 0, "nothing has changed");
    assert_eq!(hub.merge(A, 5, 1), Merge::Acknowledge);
    assert_eq!(hub.merge(A, 5, 1), Merge::Ghost);
    assert_eq!(hub.merge(A, 5, 2), Merge::Acknowledge, "it knows what it sent");
    assert_eq!((hub.version(), hub.behind().collect::<Vec<_>>()), (2, vec![B]));
    assert_eq!(hub.merge(B, 1, 1), Merge::Refresh, "it does not know what A sent");
    hub.tell(B, Some(EXACT));
    hub.touch();
    assert_eq!(hub.behind().collect::<Vec<_>>(), [A, B]);
    assert_eq!(hub.merge(A, 5, 3), Merge::Refresh);
}

#[test]
fn registrations_move_and_the_new_owner_supposes_that_no_holder_was_told() {
    let rows = [(B, 7, 3), (A, 2, 9)];
    let (mut hub, own) = Hub::arrived(A, 41, rows);
    assert_eq!((own, hub.version(), hub.holders().len()), (Some((2, 9)), 42, 1));
    assert!(hub.owes(B));
    assert_eq!(hub.merge(B, 7, 3), Merge::Ghost);
    assert_eq!(hub.merge(B, 7, 4), Merge::Refresh);
    let (hub, own) = Hub::arrived(NodeId(0), u32::MAX, rows);
    assert_eq!((own, hub.version()), (None, 0));
    assert_eq!(hub.holders().iter().map(|holder| holder.node).collect::<Vec<_>>(), [A, B]);
}

#[test]
fn a_holder_sends_one_delta_at_a_time() {
    let (mut replica, mut value) = held(0, 1.0);
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), None, "nothing has changed");
    value[0] += 0.5;
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), Some((1, &[0.5][..])));
    value[0] += 0.25;
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), None, "one is in flight");
    assert!(!replica.drop_out(), "the owner has to merge it first");
    assert!(!replica.acknowledged(SUM, 1, 2) && !replica.acknowledged(SUM, 2, 1) && replica.is_sending());
    assert!(replica.acknowledged(SUM, 1, 1));
    assert_eq!((replica.version(), replica.base(), value), (1, &[1.5][..], [1.75]));
    assert!(!replica.acknowledged(SUM, 2, 1), "once");
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), Some((2, &[0.25][..])));
}

#[test]
fn updates_that_cancel_are_not_sent() {
    let (mut replica, mut value) = held(0, 1.0);
    value[0] += 0.5;
    value[0] -= 0.5;
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), None);
    assert_eq!((replica.is_sending(), value), (false, [1.0]));
}

#[test]
fn news_contain_the_delta_in_flight_or_not() {
    for merged in [0, 1] {
        let (mut replica, mut value) = held(3, 1.0);
        value[0] += 2.0;
        replica.collect(SUM, EXACT, &mut value);
        value[0] += 4.0;
        assert!(!replica.refresh(SUM, (3, merged), &[100.0], &mut value, true), "known");
        assert!(!replica.refresh(SUM, (2, merged), &[100.0], &mut value, true), "old");
        let main = 10.0 + if merged == 1 { 2.0 } else { 0.0 };
        assert!(replica.refresh(SUM, (5, merged), &[main], &mut value, true));
        assert_eq!((value, replica.is_sending(), replica.base()), ([16.0], merged == 0, &[main][..]));
    }
}

#[test]
fn a_drop_ends_or_is_taken_back() {
    let (mut replica, mut value) = held(3, 1.0);
    assert_eq!(replica.dropped(1, false), Dropped::Stale, "the holder has not asked for that");
    assert!(replica.drop_out() && !replica.drop_out());
    assert_eq!(replica.dropped(0, false), Dropped::Stale);
    assert_eq!(replica.dropped(1, false), Dropped::Gone);
    value[0] += 0.5;
    assert_eq!(replica.dropped(1, true), Dropped::Updated);
    replica.revive(2);
    assert_eq!(replica.dropped(1, true), Dropped::Stale);
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), None, "the owner must know of it first");
    assert!(!replica.drop_out());
    // A new registration may begin at any version.
    assert!(replica.refresh(SUM, (0, 0), &[7.0], &mut value, true));
    assert_eq!((replica.stage(), replica.generation(), value), (Stage::Held, 2, [7.5]));
    assert_eq!(sent(replica.collect(SUM, EXACT, &mut value)), Some((1, &[0.5][..])));
}

#[test]
fn a_holder_that_becomes_owner_adds_what_the_main_copy_lacks() {
    // What the owner knew of the holder, the main copy of the hand-over, and the result without and with
    // updates since.
    let cases = [
        (Some((1, 1)), 12.0, 12.0, 16.0),
        (Some((1, 0)), 10.0, 12.0, 16.0),
        // The owner had forgotten the holder, or knew another generation.
        (None, 10.0, 12.0, 16.0),
        (Some((2, 1)), 10.0, 12.0, 16.0),
    ];
    for (known, main, without, with) in cases {
        for (updated, expected) in [(false, without), (true, with)] {
            let (mut replica, mut value) = held(3, 1.0);
            value[0] += 2.0;
            replica.collect(SUM, EXACT, &mut value);
            value[0] += if updated { 4.0 } else { 0.0 };
            replica.promote(SUM, known, &[main], &mut value, updated);
            assert_eq!(value, [expected], "{known:?}, updated: {updated}");
        }
    }
    let mut copy = [0.0];
    Replica::ask(1).promote(SUM, None, &[5.0_f32], &mut copy, false);
    assert_eq!(copy, [5.0]);
}

proptest! {
    /// An owner and a holder that exchange deltas and acknowledgements agree to the bit, with any numbers.
    #[test]
    fn acknowledged_copies_are_equal_to_the_bit(
        pushes in prop::collection::vec((-1e3_f32..1e3, -1e3_f32..1e3), 1..40),
    ) {
        let (mut hub, mut main) = (Hub::default(), 1.1_f32);
        hub.ask(A, 1);
        hub.tell(A, Some(EXACT));
        let (mut replica, mut value) = held(0, main);
        for (first, second) in pushes {
            value[0] += first;
            let delta = sent(replica.collect(SUM, EXACT, &mut value)).map(|(seq, delta)| (seq, delta[0]));
            value[0] += second;
            if let Some((seq, delta)) = delta {
                prop_assert_eq!(hub.merge(A, 1, seq), Merge::Acknowledge);
                main += delta;
                prop_assert!(replica.acknowledged(SUM, hub.version(), seq));
            }
            prop_assert_eq!(replica.base()[0].to_bits(), main.to_bits());
        }
        if let Some((_, delta)) = sent(replica.collect(SUM, EXACT, &mut value)) {
            main += delta[0];
        }
        prop_assert_eq!(value[0].to_bits(), main.to_bits());
    }

    /// The same with a rule whose result depends on the order of operands, and with which an operand of zero
    /// changes the value: the value halves before each operand.
    #[test]
    fn acknowledged_rows_are_equal_to_the_bit(
        pushes in prop::collection::vec((0..3u8, -1e3_f32..1e3), 1..40),
    ) {
        let rule = SharedRule::new(Decay::new(0.5).unwrap(), 1);
        let updates = Updates::Rule(&rule);
        let (mut hub, mut main) = (Hub::default(), [1.1_f32, 0.0]);
        hub.ask(A, 1);
        hub.tell(A, Some(EXACT));
        let mut replica = Replica::ask(1);
        replica.set_up(0, main.into());
        let mut row = main;
        for (kind, operand) in pushes {
            // The owner's own, the holder's, and one of the holder that is zero.
            match kind {
                0 => {
                    rule.push(&mut main, &[operand], false);
                    hub.touch();
                    let holder = hub.tell(A, Some(EXACT)).expect("it is registered");
                    let told = (hub.version(), holder.seq);
                    prop_assert!(replica.refresh(updates, told, &main, &mut row, false));
                }
                kind => {
                    rule.push(&mut row, &[if kind == 1 { operand } else { 0.0 }], true);
                    let (seq, delta) = sent(replica.collect(updates, EXACT, &mut row)).expect("an operand is to be sent");
                    let mut bytes = Vec::new();
                    intendant_core::copy_to_bytes(delta, &mut bytes);
                    prop_assert_eq!(hub.merge(A, 1, seq), Merge::Acknowledge);
                    combine::merge(updates, EXACT, &mut main, &bytes);
                    prop_assert!(replica.acknowledged(updates, hub.version(), seq));
                }
            }
            prop_assert_eq!(row.map(f32::to_bits), main.map(f32::to_bits));
            let base = [replica.base()[0], replica.base()[1]];
            prop_assert_eq!(base.map(f32::to_bits), main.map(f32::to_bits));
        }
    }
}

#[test]
fn a_remainder_survives_what_happens_to_the_copy_and_goes_with_the_next_delta() {
    let collect = |replica: &mut Replica<f32>, precision, value: &mut [f32; 1]| {
        sent(replica.collect(SUM, precision, value)).map(|(seq, delta)| (seq, delta[0]))
    };
    // 257 has nine bits; bfloat16 has eight.
    let (mut replica, mut value) = held(3, 1000.0);
    value[0] += 257.0;
    assert_eq!(collect(&mut replica, Precision::Bf16, &mut value), Some((1, 256.0)));
    assert_eq!((value, replica.has_remainder()), ([1257.0], true));
    // An acknowledgement.
    assert!(replica.acknowledged(SUM, 4, 1));
    assert_eq!((replica.base()[0], value), (1256.0, [1257.0]));
    assert!(!replica.drop_out(), "the owner lacks the remainder");
    // A refresh with a rounded value: 1300 becomes 1304.
    assert!(replica.refresh(SUM, (5, 1), &[1304.0], &mut value, false));
    assert_eq!((value, replica.has_remainder()), ([1305.0], true));
    // The next delta.
    value[0] += 1.0;
    assert_eq!(collect(&mut replica, Precision::Bf16, &mut value), Some((2, 2.0)));
    assert!(!replica.has_remainder());
    // A refresh while a delta with a remainder is in flight, which the value lacks or has.
    for (merged, expected) in [(2, 2000.0 + 257.0), (3, 2000.0 + 1.0)] {
        let (mut replica, mut value) = held(3, 1000.0);
        assert!(replica.refresh(SUM, (4, 0), &[1000.0], &mut value, false));
        for seq in 1..=2 {
            value[0] += 2.0;
            assert_eq!(collect(&mut replica, Precision::Bf16, &mut value), Some((seq, 2.0)));
            assert!(replica.acknowledged(SUM, 4 + seq, seq));
        }
        value[0] += 257.0;
        assert_eq!(collect(&mut replica, Precision::Bf16, &mut value), Some((3, 256.0)));
        assert!(replica.refresh(SUM, (9, merged), &[2000.0], &mut value, false));
        assert_eq!(value, [expected]);
        let mut main = [5000.0];
        let mut copy = value;
        replica.promote(SUM, Some((1, merged)), &main, &mut copy, false);
        assert_eq!(copy, [5000.0 + expected - 2000.0], "promotion, merged {merged}");
        main[0] = 0.0;
        assert_eq!(main, [0.0]);
    }
    // An exact delta leaves nothing.
    let (mut replica, mut value) = held(3, 1000.0);
    value[0] += 257.0;
    collect(&mut replica, Precision::Bf16, &mut value);
    assert!(replica.acknowledged(SUM, 4, 1));
    assert_eq!(collect(&mut replica, EXACT, &mut value), Some((2, 1.0)));
    assert!(!replica.has_remainder() && replica.acknowledged(SUM, 5, 2) && replica.drop_out());
}

#[test]
fn an_owner_remembers_which_holders_have_rounded_values() {
    let mut hub = Hub::default();
    hub.ask(A, 5);
    hub.ask(B, 1);
    assert!(!hub.has_rounded(), "they have none");
    hub.tell(A, Some(Precision::Bf16));
    hub.tell(B, Some(EXACT));
    assert_eq!(hub.holders().iter().map(|holder| holder.rounded).collect::<Vec<_>>(), [true, false]);
    assert_eq!(hub.merge(A, 5, 1), Merge::Acknowledge);
    hub.tell(A, None);
    assert!(hub.has_rounded(), "an acknowledgement carries no value");
    hub.touch();
    hub.tell(A, Some(EXACT));
    assert!(!hub.has_rounded());
    hub.tell(A, Some(Precision::Bf16));
    assert_eq!(hub.ask(A, 6), AskOutcome::New);
    assert!(!hub.has_rounded(), "a new registration has no value");
    hub.tell(A, Some(Precision::Bf16));
    assert!(hub.leave(A, 6) && !hub.has_rounded());
}

proptest! {
    /// Integers are added exactly, so any update that rounding, a refresh or an acknowledgement loses, or
    /// counts twice, would show: the main copy, the delta in flight and what the copy has in addition are all
    /// updates at all times, and an exact delta ends with the exact sum.
    #[test]
    fn no_update_is_lost_by_rounding(
        steps in prop::collection::vec((0..4u8, -3000..3000i32), 1..60),
    ) {
        let (mut hub, mut main, mut sum) = (Hub::default(), 0.0_f32, 0);
        hub.ask(A, 1);
        hub.tell(A, Some(Precision::Bf16));
        let (mut replica, mut value) = held(0, main);
        let round = |value: f32| f32::from_bf16(value.to_bf16());
        let mut in_flight = None;
        let merge = |hub: &mut Hub, main: &mut f32, replica: &mut Replica<f32>, value: &mut [f32; 1], delta| {
            let (seq, delta): (u32, f32) = delta;
            let outcome = hub.merge(A, 1, seq);
            *main += delta;
            match outcome {
                Merge::Acknowledge => {
                    hub.tell(A, None);
                    assert!(replica.acknowledged(SUM, hub.version(), seq));
                }
                Merge::Refresh => {
                    hub.tell(A, Some(Precision::Bf16));
                    assert!(replica.refresh(SUM, (hub.version(), seq), &[round(*main)], value, true));
                }
                Merge::Ghost | Merge::Impossible => panic!("{outcome:?}"),
            }
        };
        for (step, number) in steps {
            match step {
                // A worker of the holder.
                0 => {
                    value[0] += number as f32;
                    sum += number;
                }
                // A worker of the owner.
                1 => {
                    main += number as f32;
                    sum += number;
                    hub.touch();
                }
                2 if in_flight.is_none() => {
                    let collected = replica.collect(SUM, Precision::Bf16, &mut value);
                    in_flight = sent(collected).map(|(seq, delta)| (seq, delta[0]));
                }
                3 if hub.owes(A) => {
                    let seq = hub.tell(A, Some(Precision::Bf16)).expect("it is registered").seq;
                    assert!(replica.refresh(SUM, (hub.version(), seq), &[round(main)], &mut value, true));
                }
                _ => {
                    if let Some(delta) = in_flight.take() {
                        merge(&mut hub, &mut main, &mut replica, &mut value, delta);
                    }
                }
            }
            let flying = in_flight.map_or(0.0, |(_, delta)| delta);
            let since = value[0] - (replica.base()[0] + if replica.is_sending() { flying } else { 0.0 });
            prop_assert_eq!(main + flying + since, sum as f32);
        }
        if let Some(delta) = in_flight.take() {
            merge(&mut hub, &mut main, &mut replica, &mut value, delta);
        }
        if let Some((seq, delta)) = sent(replica.collect(SUM, EXACT, &mut value)) {
            main += delta[0];
            prop_assert!(seq > 0);
        }
        prop_assert_eq!(main, sum as f32);
    }
}
