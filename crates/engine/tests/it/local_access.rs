//! Workers that access the values of their node through a queue.

use super::node::{Node, bytes, config, layout};
use intendant_core::{Key, NodeId, Tick};
use intendant_engine::{AccessStats, Action, Input, LocalAccess, SharedConfig};
use intendant_techniques::{Policy, Technique};
use intendant_wire::{AccessKind, Message, Response};

/// Node 0 of two; it owns keys 0 to 4 of ten, of two elements.
fn node(policy: Policy) -> Node {
    Node::new(SharedConfig { access: LocalAccess::Queue, ..config(0, &layout(2, 10, 2), policy) })
}

/// Hands the worker its completions; the values of a pull go to `values`. Returns the messages.
fn deliver(node: &mut Node, actions: Vec<Action>, values: &mut [f32]) -> Vec<Message> {
    let mut messages = Vec::new();
    for action in actions {
        match action {
            Action::Send { message, .. } => messages.push(message),
            Action::Complete { completion, .. } => {
                let sink = Some((completion.op, &mut *values));
                node.worker.complete(completion, node.shared.layout(), sink);
            }
            Action::CompleteSnapshot { .. } => panic!("a snapshot that no worker wants"),
        }
    }
    messages
}

fn places(node: &Node) -> [u64; 4] {
    let AccessStats { pull_keys, push_keys, local, remote, .. } = node.worker.stats();
    [pull_keys, push_keys, local, remote]
}

#[test]
fn the_channel_serves_and_counts_what_the_worker_does_not_touch() {
    let mut node = node(Technique::Classic.policy());
    let keys = [Key(1), Key(8), Key(1), Key(2)];
    let mut values = [f32::NAN; 8];
    let started = node.shared.pull(&mut node.worker, &keys, &mut values).unwrap();
    assert!(values.iter().all(|value| value.is_nan()), "the worker has read a value");
    assert_eq!(started.submissions.iter().map(|(_, s)| s.keys().len()).sum::<usize>(), 4);
    let op = started.op.expect("everything is deferred");
    let actions = node.submit(started);
    let messages = deliver(&mut node, actions, &mut values);
    assert_eq!(&values[..2], [1.0; 2]);
    assert_eq!(&values[4..], [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(places(&node), [4, 0, 3, 0], "one key is under way");
    let [Message::Request(request)] = &messages[..] else { panic!("{messages:?}") };
    let response = Response {
        worker: node.worker.worker(),
        op,
        kind: AccessKind::Pull,
        positions: request.positions.clone(),
        counters: Vec::new(),
        values: bytes(&[8.0; 2]),
    };
    let actions = node.receive(NodeId(1), Message::Response(response));
    assert!(deliver(&mut node, actions, &mut values).is_empty());
    assert_eq!(values, [1.0, 1.0, 8.0, 8.0, 1.0, 1.0, 2.0, 2.0]);
    assert_eq!(places(&node), [4, 0, 3, 1]);
    assert!(node.worker.is_done(op) && node.worker.is_flushed());
}

#[test]
fn pushes_and_sets_take_effect_in_order() {
    let mut node = node(Technique::Classic.policy());
    let keys = [Key(3), Key(4)];
    let submit = |node: &mut Node, started| {
        let actions = node.submit(started);
        assert!(deliver(node, actions, &mut []).is_empty());
    };
    let set = node.shared.set(&mut node.worker, &keys, &[5.0, 6.0, 7.0, 8.0]).unwrap();
    let push = node.shared.push(&mut node.worker, &[Key(4), Key(4)], &[1.0, 2.0, 1.0, 2.0]).unwrap();
    submit(&mut node, set);
    submit(&mut node, push);
    let mut values = [0.0; 4];
    let pull = node.shared.pull(&mut node.worker, &keys, &mut values).unwrap();
    let actions = node.submit(pull);
    deliver(&mut node, actions, &mut values);
    assert_eq!(values, [5.0, 6.0, 9.0, 12.0]);
    assert_eq!(places(&node), [2, 4, 6, 0]);
}

#[test]
fn rows_are_not_lent_and_nothing_is_read_at_once() {
    for nodes in [1, 2] {
        let policy = Technique::Adaptive.policy();
        let config = config(0, &layout(nodes, 10, 2), policy);
        let node = Node::new(SharedConfig { access: LocalAccess::Queue, ..config });
        assert!(node.shared.is_local(Key(1)), "samplers know that it is here");
        assert!(node.shared.lend(&node.worker, Key(1)).is_none());
        assert!(!node.shared.lends_all());
        let mut absent = Vec::new();
        node.shared.find_absent(&node.worker, &[Key(1), Key(2)], &mut absent).unwrap();
        assert_eq!(absent, [0, 1]);
    }
    let mut node = node(Technique::Classic.policy());
    let (mut values, mut here) = ([0.0; 2], Vec::new());
    node.shared.pull_if_local(&mut node.worker, &[Key(1)], &mut values, &mut here).unwrap();
    assert_eq!(here, [false]);
    assert_eq!(places(&node), [0; 4]);
}

#[test]
fn a_localize_of_keys_that_are_here_is_answered_by_the_channel() {
    let mut node = node(Technique::Lapse.policy());
    let started = node.shared.localize(&mut node.worker, &[Key(0), Key(9)], Tick(0)).unwrap();
    let op = started.op.expect("the channel knows where the keys are");
    let actions = node.submit(started);
    let messages = deliver(&mut node, actions, &mut []);
    assert!(matches!(&messages[..], [Message::Localize(asked)] if asked.keys == [Key(9)]), "{messages:?}");
    assert!(!node.worker.is_done(op));
    // A read of the arriving key waits: it is no local access.
    let mut values = [0.0; 2];
    let pull = node.shared.pull(&mut node.worker, &[Key(9)], &mut values).unwrap();
    let actions = node.submit(pull);
    assert!(actions.is_empty(), "{actions:?}");
    let hand_over = intendant_wire::HandOver {
        keys: vec![Key(9)],
        counters: vec![1],
        decided: Vec::new(),
        holders: Vec::new(),
        values: bytes(&[7.0; 2]),
    };
    let actions = node.accept(Input::Message { from: NodeId(1), message: Message::HandOver(hand_over) });
    deliver(&mut node, actions, &mut values);
    assert_eq!((values, places(&node)), ([7.0; 2], [1, 0, 0, 1]));
    assert!(node.worker.is_idle());
}
