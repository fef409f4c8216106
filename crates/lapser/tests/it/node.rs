//! Transitions: the whole output of single calls. The name of a test states the rule.

use crate::pair::{KEY, OWN, PACE, Pair, got, set_done};
use intendant_lapser::{
    Answer, Declaration, Directory, Effect, FinishError, GetError, Item, Node, SetError, Settings,
    StartError, Variant, Want,
};
use intendant_segment::{Segment, slot};
use std::sync::atomic::Ordering::Relaxed;

fn lost(op: u64, wanted: u64, clock: u64) -> Effect {
    let error = GetError::PeerLost { key: KEY, node: 0, reason: "killed".to_owned(), wanted, clock };
    Effect::Answer(Answer::NotGot { op, error })
}

fn is_read(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Read { .. }])
}

#[test]
fn a_set_pushes_to_every_consumer_and_a_get_takes_what_was_pushed() {
    let mut pair = Pair::new(Variant::Push);
    let out = pair.set(1);
    let (at, words) = (pair.directory.produced_at(KEY).unwrap(), slot::words(3));
    let remote = pair.directory.copy_at(KEY, 1).unwrap().pushed.unwrap();
    let write = Effect::Write { to: 1, local: at, remote, words, hint: Some(1), id: 1 };
    assert_eq!(out, [write, set_done(1)]);
    assert_eq!(pair.get(1, 1, 0), []);
    assert_eq!(pair.hint(1), [], "the hint comes before the data");
    pair.copy(0, &out[0]);
    assert_eq!(pair.hint(7), [], "another item's hint");
    assert_eq!(pair.hint(1), [got(1, 1)]);
    assert_eq!(pair.value(), (1, [1; 3]));
}

#[test]
fn a_hint_looks_at_the_items_that_share_it() {
    // Five items with hints 1, 2, 1, 2, 1.
    let items: Vec<Item> = (10..15).map(|key| Item::new(key, 1)).collect();
    let consume = items.iter().map(|item| Want { item: *item, slack: 0 }).collect();
    let declarations = [
        Declaration { incarnation: 1, produce: items, consume: vec![] },
        Declaration { incarnation: 2, produce: vec![], consume },
    ];
    let settings = Settings { hints: 3, ..Settings::new(Variant::Push) };
    let directory = Directory::new(settings, &declarations).unwrap();
    let segments = [0, 1].map(|rank| Segment::new(directory.words(rank).unwrap()).unwrap());
    let mut node = Node::new(&directory, 1, &segments[1], PACE).unwrap();
    let mut out = Vec::new();
    for key in 10..15 {
        node.get(&segments[1], 0, key, key, 1, 0, &mut out).unwrap();
        let at = directory.copy_at(key, 1).unwrap().pushed.unwrap();
        slot::set(&segments[1], at, 1, key, 1, &[key]).unwrap();
    }
    let mut answered = |hint| {
        node.hint(&segments[1], hint, &mut out);
        let keys = out.drain(..).map(|effect| match effect {
            Effect::Answer(Answer::Got { key, .. }) => key,
            other @ (Effect::Answer(_)
            | Effect::Read { .. }
            | Effect::Write { .. }
            | Effect::Meet
            | Effect::Release) => panic!("{other:?}"),
        });
        keys.collect::<Vec<_>>()
    };
    assert_eq!([answered(2), answered(3), answered(u32::MAX)], [vec![11, 13], vec![], vec![]]);
    assert_eq!([answered(1), answered(1), answered(2)], [vec![10, 12, 14], vec![], vec![]]);
}

#[test]
fn a_batch_hints_once_at_all_that_it_sets() {
    // Node 1 consumes three items, and node 2 consumes the last of them.
    let items: Vec<Item> = (10..13).map(|key| Item::new(key, 1)).collect();
    let want = |item: &Item| Want { item: *item, slack: 0 };
    let declarations = [
        Declaration { incarnation: 1, produce: items.clone(), consume: vec![] },
        Declaration { incarnation: 2, produce: vec![], consume: items.iter().map(want).collect() },
        Declaration { incarnation: 3, produce: vec![], consume: vec![want(&items[2])] },
    ];
    let directory = Directory::new(Settings::new(Variant::Push), &declarations).unwrap();
    let segment = |rank| Segment::new(directory.words(rank).unwrap()).unwrap();
    let (segments, mut out) = ([segment(0), segment(1)], Vec::new());
    let node = |rank: usize| Node::new(&directory, rank, &segments[rank], PACE).unwrap();
    let [mut producer, mut consumer] = [node(0), node(1)];
    let write = |key, to, hint, id| Effect::Write {
        to,
        local: directory.produced_at(key).unwrap(),
        remote: directory.copy_at(key, to).unwrap().pushed.unwrap(),
        words: slot::words(1),
        hint,
        id,
    };
    let set = |key| Effect::Answer(Answer::Set { op: key });
    producer.begin_batch();
    for key in 10..13 {
        producer.set(&segments[0], key, key, 1, &[key], &mut out).unwrap();
    }
    let begun = [set(10), write(10, 1, None, 1), set(11), write(11, 1, None, 3), set(12)];
    assert_eq!(std::mem::take(&mut out), begun, "the last writes are held back");
    producer.end_batch(&mut out);
    let first = [write(12, 1, Some(0), 5), write(12, 2, Some(1), 7)];
    assert_eq!(std::mem::take(&mut out), first, "one item alone has its own hint");

    for key in 10..13 {
        consumer.get(&segments[1], 0, key, key, 1, 0, &mut out).unwrap();
        let at = directory.copy_at(key, 1).unwrap().pushed.unwrap();
        slot::set(&segments[1], at, 1, key, 1, &[key]).unwrap();
    }
    consumer.hint(&segments[1], 0, &mut out);
    let came = |key| Effect::Answer(Answer::Got { op: key, key, clock: 1 });
    assert_eq!(std::mem::take(&mut out), [came(10), came(11), came(12)], "and wakes all gets");

    // The second set of an item waits for the item's writes, one of which was held back.
    producer.done(&segments[0], 0, 5, &mut out);
    producer.done(&segments[0], 0, 7, &mut out);
    producer.begin_batch();
    producer.set(&segments[0], 20, 12, 2, &[0], &mut out).unwrap();
    assert_eq!(std::mem::take(&mut out), [set(20)]);
    producer.set(&segments[0], 21, 12, 3, &[0], &mut out).unwrap();
    assert_eq!(std::mem::take(&mut out), [write(12, 1, Some(1 + 2), 5), write(12, 2, Some(1), 7)]);
    producer.done(&segments[0], 0, 5, &mut out);
    producer.done(&segments[0], 0, 7, &mut out);
    assert_eq!(std::mem::take(&mut out), [set(21)]);
    // Finishing begins held-back writes, too.
    producer.finish(&segments[0], 22, &mut out).unwrap();
    assert_eq!(out, [write(12, 1, Some(1 + 2), 5), write(12, 2, Some(1), 7)]);
}

#[test]
fn a_lost_hint_only_costs_time() {
    let mut pair = Pair::new(Variant::Push);
    let out = pair.set(1);
    assert_eq!(pair.get(1, 1, 0), []);
    pair.copy(0, &out[0]);
    assert_eq!(pair.nodes[1].next_check(), Some(PACE.recheck_ns));
    assert_eq!(pair.check(PACE.recheck_ns - 1), []);
    assert_eq!(pair.check(PACE.recheck_ns), [got(1, 1)]);
    assert_eq!(pair.nodes[1].next_check(), None);
}

#[test]
fn a_set_waits_until_the_window_has_read_the_slot() {
    let mut pair = Pair::new(Variant::Push);
    let first = pair.set(1);
    assert_eq!(pair.set(2), []);
    let mut out = Vec::new();
    let again = pair.nodes[0].set(&pair.segments[0], 9, KEY, 3, &[3; 3], &mut out);
    assert_eq!(again, Err(SetError::Waiting { key: KEY }));
    let id = pair.copy(0, &first[0]);
    let second = pair.done(0, id);
    assert_eq!(second[1..], [set_done(2)]);
    assert_eq!(pair.get(1, 2, 1), [got(1, 1)], "the first value was whole");
    pair.copy(0, &second[0]);
    assert_eq!(pair.get(2, 2, 1), [got(2, 2)], "the newest one, although an older one would do");
}

#[test]
fn by_slack_a_push_is_left_out_while_the_copy_is_new_enough() {
    let mut pair = Pair::new(Variant::PushBySlack);
    // The slack is 2: a consumer at clock 3 needs clock 1.
    for clock in 1..=2 {
        assert_eq!(pair.set(clock), [set_done(clock)]);
    }
    let out = pair.set(3);
    assert!(matches!(out[..], [Effect::Write { .. }, Effect::Answer(_)]), "{out:?}");
    let id = pair.copy(0, &out[0]);
    pair.done(0, id);
    for clock in 4..=5 {
        assert_eq!(pair.set(clock), [set_done(clock)]);
    }
    assert_eq!(pair.get(1, 5, 2), [got(1, 3)]);
    // Clock 5 is not pushed; the next push is that of clock 6.
    let read = pair.get(2, 5, 0);
    assert!(is_read(&read), "{read:?}");
    let id = pair.copy(1, &read[0]);
    assert_eq!(pair.done(1, id), [got(2, 5)]);
    assert_eq!(pair.get(3, 6, 0), [], "this one is pushed");
    assert_eq!(pair.nodes[1].next_check(), Some(PACE.recheck_ns));
    let out = pair.set(6);
    pair.copy(0, &out[0]);
    assert_eq!(pair.hint(0), [got(3, 6)]);
}

#[test]
fn by_slack_the_first_values_are_read_at_once_and_a_push_can_tell_that_a_read_is_due() {
    let mut pair = Pair::new(Variant::PushBySlack);
    let [first, second] = [pair.get(1, 2, 0), pair.get(2, 5, 0)];
    assert!(is_read(&first), "clocks 1 and 2 are not pushed: {first:?}");
    assert_eq!(second, [], "a read is under way");
    for clock in 1..=2 {
        pair.set(clock);
    }
    let id = pair.copy(1, &first[0]);
    assert_eq!(pair.done(1, id), [got(1, 2)]);
    // The get of clock 5 waits for a push of clock 3 or later. The push comes, and clock 5 will not be
    // pushed.
    let out = pair.set(3);
    pair.copy(0, &out[0]);
    let read = pair.hint(0);
    assert!(is_read(&read), "{read:?}");
}

#[test]
fn a_pull_reads_only_what_is_too_old() {
    let mut pair = Pair::new(Variant::Pull);
    assert_eq!(pair.get(1, 4, 4), [got(1, 0)], "nothing was set, and nothing is needed");
    assert_eq!(pair.value(), (0, [0; 3]));
    assert_eq!(pair.set(1), [set_done(1)]);
    let read = pair.get(2, 5, 4);
    assert!(is_read(&read), "{read:?}");
    assert_eq!(pair.get(3, 5, 4), [], "one read at a time");
    let id = pair.copy(1, &read[0]);
    assert_eq!(pair.done(1, id), [got(2, 1), got(3, 1)]);
    assert_eq!(pair.get(4, 5, 4), [got(4, 1)], "no read for what is there");
}

#[test]
fn a_pull_reads_again_after_a_pause_that_doubles() {
    let mut pair = Pair::new(Variant::Pull);
    let mut read = pair.get(1, 1, 0);
    for pause in [10, 20, 40, 40] {
        assert!(is_read(&read), "{read:?}");
        let id = pair.copy(1, &read[0]);
        assert_eq!(pair.done(1, id), []);
        let due_ns = pair.now_ns + pause;
        assert_eq!(pair.nodes[1].next_check(), Some(due_ns));
        read = pair.check(due_ns);
    }
    pair.set(1);
    let id = pair.copy(1, &read[0]);
    assert_eq!(pair.done(1, id), [got(1, 1)]);
    assert_eq!(pair.nodes[1].stats().rereads, 4);
}

#[test]
fn a_torn_image_is_read_again_and_never_taken() {
    let mut pair = Pair::new(Variant::Pull);
    pair.set(1);
    let read = pair.get(1, 1, 0);
    let id = pair.copy(1, &read[0]);
    // One word of the value belongs to another set.
    let landing = pair.directory.copy_at(KEY, 1).unwrap().landing.unwrap();
    pair.segments[1].write(landing + slot::HEADER + 1, &[77]);
    let again = pair.done(1, id);
    assert!(is_read(&again), "{again:?}");
    assert_eq!(pair.value(), (0, [0; 3]));
    let id = pair.copy(1, &again[0]);
    assert_eq!(pair.done(1, id), [got(1, 1)]);
}

#[test]
fn memory_that_is_never_whole_ends_a_get() {
    let mut pair = Pair::new(Variant::Pull);
    pair.set(1);
    let at = pair.directory.produced_at(KEY).unwrap();
    pair.segments[0].write(at + slot::HEADER, &[77]);
    let mut read = pair.get(1, 1, 0);
    for _ in 1..PACE.torn_reads_max {
        let id = pair.copy(1, &read[0]);
        read = pair.done(1, id);
        if read.is_empty() {
            read = pair.check(pair.now_ns + PACE.reread_ns_max);
        }
    }
    let id = pair.copy(1, &read[0]);
    let out = pair.done(1, id);
    let [Effect::Answer(Answer::NotGot { op: 1, error: GetError::Unreadable { key: KEY, node: 0, .. } })] =
        &out[..]
    else {
        panic!("{out:?}")
    };
}

#[test]
fn memory_of_another_run_ends_a_get() {
    let mut pair = Pair::new(Variant::Pull);
    let read = pair.get(1, 1, 0);
    let mut image = vec![0; slot::words(3)];
    slot::encode(999, KEY, 1, &[1; 3], &mut image);
    pair.segments[0].write(pair.directory.produced_at(KEY).unwrap(), &image);
    let id = pair.copy(1, &read[0]);
    let out = pair.done(1, id);
    assert!(
        matches!(&out[..], [Effect::Answer(Answer::NotGot { error: GetError::Unreadable { .. }, .. })]),
        "{out:?}"
    );
}

#[test]
fn a_producer_that_is_gone_fails_the_gets_that_need_it() {
    let mut pair = Pair::new(Variant::Push);
    let out = pair.set(1);
    assert_eq!(pair.get(1, 1, 0), []);
    assert_eq!(pair.get(2, 3, 1), []);
    pair.copy(0, &out[0]);
    assert_eq!(pair.closed(1), [got(1, 1), lost(2, 2, 1)], "what came before counts");
    assert_eq!(pair.get(3, 3, 1), [lost(3, 2, 1)]);
    assert_eq!(pair.get(4, 3, 2), [got(4, 1)]);
}

#[test]
fn a_failed_read_names_the_node() {
    let mut pair = Pair::new(Variant::Pull);
    let read = pair.get(1, 1, 0);
    let [Effect::Read { id, .. }] = read[..] else { panic!("{read:?}") };
    let mut out = Vec::new();
    pair.nodes[1].failed(&pair.segments[1], id, 0, "killed", &mut out);
    assert_eq!(out, [lost(1, 1, 0)]);
    assert_eq!(pair.get(2, 1, 0), [lost(2, 1, 0)]);
    out.clear();
    pair.nodes[1].prefetch(&pair.segments[1], KEY, 1, 0, &mut out).unwrap();
    assert_eq!(out, [], "nothing is read from a node that is gone");
}

#[test]
fn nothing_is_written_to_a_node_that_is_gone() {
    let mut pair = Pair::new(Variant::Push);
    let first = pair.set(1);
    assert_eq!(pair.set(2), []);
    assert_eq!(pair.closed(0), []);
    let id = pair.copy(0, &first[0]);
    let mut out = Vec::new();
    pair.nodes[0].failed(&pair.segments[0], id, 1, "killed", &mut out);
    assert_eq!(out, [set_done(2)]);
}

#[test]
fn a_prefetch_reads_once_and_waits_for_nothing() {
    let mut pair = Pair::new(Variant::Pull);
    pair.set(1);
    let mut out = Vec::new();
    pair.nodes[1].prefetch(&pair.segments[1], KEY, 1, 0, &mut out).unwrap();
    assert!(is_read(&out), "{out:?}");
    let id = pair.copy(1, &out[0]);
    assert_eq!(pair.get(1, 1, 0), [], "the get waits for the read that is under way");
    assert_eq!(pair.done(1, id), [got(1, 1)]);
    out.clear();
    pair.nodes[1].prefetch(&pair.segments[1], KEY, 1, 0, &mut out).unwrap();
    assert_eq!(out, []);
}

#[test]
fn own_items_can_be_got() {
    let mut pair = Pair::new(Variant::Pull);
    let (node, segment) = (&mut pair.nodes[0], &pair.segments[0]);
    let mut out = Vec::new();
    node.get(segment, 0, 1, OWN, 2, 0, &mut out).unwrap();
    node.set(segment, 2, OWN, 1, &[8], &mut out).unwrap();
    node.set(segment, 3, OWN, 2, &[9], &mut out).unwrap();
    let own = Effect::Answer(Answer::Got { op: 1, key: OWN, clock: 2 });
    assert_eq!(out, [set_done(2), set_done(3), own]);
    let mut value = [0];
    assert_eq!((node.value(segment, OWN, &mut value), value), (Ok(2), [9]));
}

#[test]
fn a_node_meets_the_others_before_it_releases_its_segment() {
    let mut pair = Pair::new(Variant::Push);
    let write = pair.set(1);
    let mut out = Vec::new();
    pair.nodes[0].finish(&pair.segments[0], 8, &mut out).unwrap();
    assert_eq!(out, [], "a write is in flight");
    let id = pair.copy(0, &write[0]);
    let farewell = pair.done(0, id);
    let (local, remote) =
        (pair.directory.farewell_at(0, 0).unwrap(), pair.directory.farewell_at(0, 1).unwrap());
    assert_eq!(farewell, [Effect::Write { to: 1, local, remote, words: 8, hint: Some(0), id: 5 }]);
    let id = pair.copy(0, &farewell[0]);
    assert_eq!(pair.done(0, id), [Effect::Meet]);
    assert_eq!(pair.closed(0), [], "the other node may leave as soon as it knows that all have met");
    pair.nodes[0].met(&mut out);
    assert_eq!(out, [Effect::Release, Effect::Answer(Answer::Finished { op: 8, result: Ok(()) })]);
    let again = pair.nodes[0].finish(&pair.segments[0], 9, &mut out);
    assert_eq!(again, Err(FinishError::Twice));
    let set = pair.nodes[0].set(&pair.segments[0], 9, KEY, 2, &[0; 3], &mut out);
    assert_eq!(set, Err(SetError::Finished { key: KEY }));
}

#[test]
fn the_loss_of_a_node_ends_the_meeting() {
    let mut pair = Pair::new(Variant::Pull);
    let mut out = Vec::new();
    assert_eq!(pair.finish(), []);
    pair.nodes[0].meeting_failed(1, "killed", &mut out);
    let gone = Err(FinishError::PeerLost { node: 1, reason: "killed".to_owned() });
    assert_eq!(out, [Effect::Release, Effect::Answer(Answer::Finished { op: 8, result: gone })]);
    // If the loss is known before, there is no meeting.
    let mut pair = Pair::new(Variant::Pull);
    pair.closed(0);
    out.clear();
    pair.nodes[0].finish(&pair.segments[0], 8, &mut out).unwrap();
    assert!(matches!(out[..], [Effect::Release, Effect::Answer(Answer::Finished { op: 8, result: Err(_) })]));
}

fn over(op: u64, wanted: u64, clock: u64) -> Effect {
    let error = GetError::ProducerFinished { key: KEY, node: 0, wanted, clock };
    Effect::Answer(Answer::NotGot { op, error })
}

#[test]
fn a_get_beyond_the_last_push_ends_when_the_producer_finishes() {
    let mut pair = Pair::new(Variant::Push);
    let write = pair.set(1);
    assert_eq!(pair.get(1, 1, 0), []);
    assert_eq!(pair.get(2, 2, 0), []);
    let id = pair.copy(0, &write[0]);
    pair.done(0, id);
    assert_eq!(pair.finish(), []);
    assert_eq!(pair.hint(0), [got(1, 1), over(2, 2, 1)], "the last value counts");
    assert_eq!(pair.get(3, 2, 0), [over(3, 2, 1)]);
    assert_eq!(pair.get(4, 1, 0), [got(4, 1)]);
    // The same without the farewell's hint.
    let mut pair = Pair::new(Variant::Push);
    assert_eq!(pair.get(1, 1, 0), []);
    assert_eq!(pair.finish(), []);
    assert_eq!(pair.check(PACE.recheck_ns), [over(1, 1, 0)]);
    assert_eq!(pair.nodes[1].next_check(), None);
}

#[test]
fn a_get_beyond_the_last_value_ends_after_a_read_that_began_after_the_farewell() {
    for variant in [Variant::Pull, Variant::PushBySlack] {
        let mut pair = Pair::new(variant);
        let early = pair.get(1, 2, 0);
        let id = pair.copy(1, &early[0]);
        // The image is older than both sets, and the farewell comes before the node looks at the image.
        pair.set(1);
        pair.set(2);
        assert_eq!(pair.finish(), []);
        assert_eq!(pair.done(1, id), [], "{variant:?}: another read is due");
        let late = pair.check(PACE.reread_ns_min);
        let id = pair.copy(1, &late[0]);
        assert_eq!(pair.done(1, id), [got(1, 2)], "{variant:?}");
        let beyond = pair.get(2, 3, 0);
        let id = pair.copy(1, &beyond[0]);
        assert_eq!(pair.done(1, id), [over(2, 3, 2)], "{variant:?}");
    }
}

#[test]
fn a_farewell_that_is_torn_or_of_another_run_is_not_heard() {
    let mut pair = Pair::new(Variant::Push);
    assert_eq!(pair.get(1, 1, 0), []);
    let at = pair.directory.farewell_at(0, 1).unwrap();
    for (incarnation, clock) in [(7, 1), (1, 2)] {
        let mut image = vec![0; slot::words(0)];
        slot::encode(incarnation, 0, clock, &[], &mut image);
        pair.segments[1].write(at, &image);
        assert_eq!(pair.hint(0), []);
    }
}

#[test]
fn a_slot_that_another_node_has_written_is_noticed_by_its_owner() {
    // A changed sequence, clock, checksum, key or word of the value: for each, whether a set and a get notice
    // it.
    for (word, set_fails, get_fails) in
        [(0, true, false), (1, true, true), (2, false, true), (3, true, true), (6, false, true)]
    {
        let mut pair = Pair::new(Variant::Pull);
        pair.set(4);
        let at = pair.directory.produced_at(KEY).unwrap() + word;
        let segment = pair.segments[0].clone();
        segment.write(at, &[segment.load(at, Relaxed) + 8]);
        let got = pair.nodes[0].value(&segment, KEY, &mut [0; 3]);
        let overwritten = matches!(got, Err(GetError::Overwritten { key: KEY, .. }));
        assert_eq!(overwritten, get_fails, "word {word}: {got:?}");
        let set = pair.nodes[0].set(&segment, 5, KEY, 5, &[5; 3], &mut Vec::new());
        assert_eq!(set.is_err(), set_fails, "word {word}");
        if let Err(error) = set {
            let text = error.to_string();
            assert!(text.contains("item 5: another thread, or another node, has written"), "{text}");
        } else {
            let mut value = [0; 3];
            assert_eq!((pair.nodes[0].value(&segment, KEY, &mut value), value), (Ok(5), [5; 3]));
        }
    }
}

#[test]
fn an_own_item_that_was_never_set_is_zeros_whatever_is_there() {
    let pair = Pair::new(Variant::Pull);
    pair.segments[0].write(pair.directory.produced_at(KEY).unwrap() + slot::HEADER, &[5; 3]);
    let mut value = [1; 3];
    assert_eq!((pair.nodes[0].value(&pair.segments[0], KEY, &mut value), value), (Ok(0), [0; 3]));
}

#[test]
fn gets_that_wait_end_with_the_node() {
    let mut pair = Pair::new(Variant::Push);
    assert_eq!(pair.get(1, 1, 0), []);
    let mut out = Vec::new();
    pair.nodes[1].finish(&pair.segments[1], 2, &mut out).unwrap();
    let ended = Effect::Answer(Answer::NotGot { op: 1, error: GetError::Finished { key: KEY } });
    assert!(matches!(&out[..], [first, Effect::Write { to: 0, .. }] if *first == ended), "{out:?}");
    assert_eq!(pair.nodes[1].next_check(), None);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut pair = Pair::new(Variant::Pull);
    let (segment, mut out) = (pair.segments[0].clone(), Vec::new());
    let node = &mut pair.nodes[0];
    let mut set = |key, clock, value: &[u64]| node.set(&segment, 1, key, clock, value, &mut out);
    assert_eq!(set(77, 1, &[0]), Err(SetError::NotProduced { key: 77 }));
    assert_eq!(set(KEY, 1, &[0]), Err(SetError::Length { key: KEY, words: 1, expected: 3 }));
    assert_eq!(set(KEY, 0, &[0; 3]), Err(SetError::Clock { key: KEY, clock: 0, last: 0 }));
    set(KEY, 4, &[0; 3]).unwrap();
    assert_eq!(set(KEY, 4, &[0; 3]), Err(SetError::Clock { key: KEY, clock: 4, last: 4 }));
    let mut set = Vec::new();
    let get = pair.nodes[1].get(&pair.segments[1], 0, 1, OWN, 1, 0, &mut set);
    assert_eq!(get, Err(GetError::NotConsumed { key: OWN }));
    let value = pair.nodes[1].value(&pair.segments[1], KEY, &mut [0]);
    assert_eq!(value, Err(GetError::Length { key: KEY, words: 1, expected: 3 }));
    let node = |rank, segment| Node::new(&pair.directory, rank, segment, PACE).err();
    assert_eq!(node(2, &segment), Some(StartError::Rank { rank: 2, nodes: 2 }));
    let short = Segment::new(8).unwrap();
    assert_eq!(node(0, &short), Some(StartError::Segment { rank: 0, words: 8, needed: 32 }));
    let next = pair.nodes[0].set(&pair.segments[0], 1, KEY, u64::MAX, &[0; 3], &mut out);
    assert_eq!(next, Ok(()));
}

#[test]
fn a_batch_writes_nothing_to_a_node_that_is_gone_and_none_begins_after_the_end() {
    let mut pair = Pair::new(Variant::Push);
    let mut out = Vec::new();
    pair.nodes[0].begin_batch();
    assert_eq!(pair.set(1), [set_done(1)], "held back");
    pair.nodes[0].closed(&pair.segments[0], 1, "killed", &mut out);
    pair.nodes[0].end_batch(&mut out);
    assert_eq!(out, []);
    assert_eq!(pair.set(2), [set_done(2)], "nothing is in flight");
    pair.nodes[0].finish(&pair.segments[0], 9, &mut out).unwrap();
    let error = FinishError::PeerLost { node: 1, reason: "killed".to_owned() };
    let ended = [Effect::Release, Effect::Answer(Answer::Finished { op: 9, result: Err(error) })];
    assert_eq!(std::mem::take(&mut out), ended);

    let mut pair = Pair::new(Variant::Push);
    let write = pair.set(1);
    assert_eq!(pair.set(2), [], "it waits for the write");
    pair.nodes[0].finish(&pair.segments[0], 9, &mut out).unwrap();
    pair.nodes[0].begin_batch();
    let id = pair.copy(0, &write[0]);
    let out = pair.done(0, id);
    assert!(matches!(out[..], [Effect::Write { .. }, Effect::Answer(Answer::Set { op: 2 })]), "{out:?}");
}

#[test]
fn a_hint_ends_no_pause_between_reads() {
    let mut pair = Pair::new(Variant::Pull);
    let read = pair.get(1, 1, 0);
    assert!(is_read(&read));
    let id = pair.copy(1, &read[0]);
    assert_eq!(pair.done(1, id), [], "it was not set yet");
    assert_eq!(pair.hint(0), [], "a hint at something else");
    let due_ns = pair.nodes[1].next_check().expect("a pause");
    assert!(is_read(&pair.check(due_ns)));
}
