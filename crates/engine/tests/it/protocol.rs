//! One engine at a time: how it answers messages, and which messages it refuses.

use super::node::{Node, bytes, config, layout};
use bytes::Bytes;
use intendant_core::{Clock, Key, NodeId, Precision, Tick, WorkerId};
use intendant_engine::{Action, Completion, Input, Local, ReplicationConfig, SharedConfig, Storage};
use intendant_techniques::{Order, Policy, Technique};
use intendant_wire::{
    AccessKind, Message, OpId, Origin, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request,
    Response,
};

// Of ten keys on three nodes, 0 to 3 are at home on node 0, which is tested, 4 to 6 on node 1, the rest on
// node 2.
const HERE: Key = Key(1);
const AWAY: Key = Key(7);
const AWAY_TOO: Key = Key(8);
const PEER: NodeId = NodeId(1);

fn node(order: Order, storage: Storage) -> Node {
    node_of(Technique::Classic.policy().with(Some(order), None), storage)
}

fn node_of(policy: Policy, storage: Storage) -> Node {
    Node::new(SharedConfig { storage, ..config(0, &layout(3, 10, 2), policy) })
}

fn request(kind: AccessKind, keys: &[Key], values: &[f32], hops: u8) -> Message {
    Message::Request(Request {
        origin: Origin { node: PEER, worker: WorkerId(4), op: OpId(11) },
        kind,
        hops,
        keys: keys.to_vec(),
        positions: (0..keys.len() as u32).map(|p| 10 + p).collect(),
        values: bytes(values),
    })
}

fn response(op: u32, kind: AccessKind, positions: &[u32], values: &[f32]) -> Message {
    let (worker, op, positions) = (WorkerId(0), OpId(op), positions.to_vec());
    Message::Response(Response { worker, op, kind, positions, counters: vec![], values: bytes(values) })
}

impl Node {
    fn complete(&mut self, action: &Action) {
        let Action::Complete { completion, .. } = action else { panic!("not a completion: {action:?}") };
        self.worker.complete(completion.clone(), self.shared.layout(), None);
    }
}

/// Both orders and both storages.
fn both() -> [Node; 2] {
    [node(Order::Fifo, Storage::Dense), node(Order::Chain, Storage::Sparse)]
}

/// The requests that the actions send. The actions must do nothing else.
fn requests(actions: &[Action]) -> Vec<(NodeId, &Request)> {
    let mut requests = Vec::new();
    for action in actions {
        let Action::Send { to, message: Message::Request(request) } = action else { panic!("{action:?}") };
        requests.push((*to, request));
    }
    requests
}

#[test]
fn the_owner_answers_all_keys_of_a_request_in_one_response() {
    for mut node in both() {
        let actions = node.receive(PEER, request(AccessKind::Pull, &[HERE, Key(2)], &[], 0));
        let expected = Response {
            worker: WorkerId(4),
            op: OpId(11),
            kind: AccessKind::Pull,
            positions: vec![10, 11],
            counters: vec![],
            values: bytes(&[1.0, 1.0, 2.0, 2.0]),
        };
        assert_eq!(actions, [Action::Send { to: PEER, message: Message::Response(expected) }]);
    }
}

#[test]
fn a_push_adds_and_a_set_overwrites_and_both_are_acknowledged_without_values() {
    for mut node in both() {
        for (kind, value) in [(AccessKind::Push, [1.5, 2.5]), (AccessKind::Set, [9.0, 8.0])] {
            let operand = if kind == AccessKind::Push { [0.5, 1.5] } else { [9.0, 8.0] };
            let actions = node.receive(PEER, request(kind, &[HERE], &operand, 0));
            let [Action::Send { to: PEER, message: Message::Response(response) }] = &actions[..] else {
                panic!("{actions:?}")
            };
            assert_eq!((response.positions.as_slice(), response.values.len()), (&[10][..], 0));
            assert_eq!(node.shared.inspect().value(HERE), Some(value.to_vec()));
        }
    }
}

#[test]
fn a_node_without_the_key_forwards_a_request_to_the_home_with_its_origin() {
    for mut node in both() {
        let actions = node
            .receive(PEER, request(AccessKind::Push, &[HERE, AWAY, AWAY_TOO], &[1., 1., 2., 2., 3., 3.], 0));
        let forwarded = Request {
            origin: Origin { node: PEER, worker: WorkerId(4), op: OpId(11) },
            kind: AccessKind::Push,
            hops: 1,
            keys: vec![AWAY, AWAY_TOO],
            positions: vec![11, 12],
            values: bytes(&[2., 2., 3., 3.]),
        };
        assert!(
            actions.contains(&Action::Send { to: NodeId(2), message: Message::Request(forwarded) }),
            "{actions:?}"
        );
        assert_eq!(
            actions.len(),
            2,
            "one answer for the key that is here, one request for the keys that are not"
        );
        assert_eq!(node.shared.inspect().value(HERE), Some(vec![2.0, 2.0]));
        assert_eq!(node.channel.management().forwards, [1, 0, 0, 0], "the key here took no forward");
    }
}

#[test]
fn a_node_sends_its_own_requests_to_the_remembered_owner() {
    for caches in [true, false] {
        let mut node = node_of(Technique::Classic.policy().with(None, Some(caches)), Storage::Sparse);
        assert_eq!(node.shared.learn(AWAY, PEER, 1), caches);
        let actions = node.push(&[AWAY, AWAY_TOO], &[1., 1., 2., 2.]);
        let to: Vec<NodeId> = requests(&actions).into_iter().map(|(to, _)| to).collect();
        let expected: &[NodeId] = if caches { &[PEER, NodeId(2)] } else { &[NodeId(2)] };
        assert_eq!(to, expected);
    }
}

#[test]
fn a_call_that_exceeds_the_target_of_a_frame_is_split() {
    let layout = layout(2, 100, 65_536);
    let mut node = Node::new(SharedConfig {
        storage: Storage::Sparse,
        ..config(0, &layout, Technique::Classic.policy())
    });
    let keys: Vec<Key> = (50..60).map(Key).collect();
    let actions = node.push(&keys, &vec![1.0; 10 * 65_536]);
    // 10 values of 256 KiB with a target of 1 MiB per frame.
    let sizes: Vec<usize> = requests(&actions).into_iter().map(|(_, request)| request.keys.len()).collect();
    assert_eq!(sizes, [4, 4, 2]);
}

#[test]
fn fifo_sends_the_next_operation_on_a_key_at_once_and_chain_waits() {
    let mut fifo = node(Order::Fifo, Storage::Dense);
    assert_eq!(fifo.push(&[AWAY], &[1., 1.]).len(), 1);
    assert_eq!(fifo.push(&[AWAY], &[2., 2.]).len(), 1);

    let mut chain = node(Order::Chain, Storage::Dense);
    assert_eq!(chain.push(&[AWAY], &[1., 1.]).len(), 1);
    assert_eq!(chain.push(&[AWAY, AWAY], &[2., 2., 3., 3.]), [], "two more accesses wait");
    // An operation of another worker does not wait.
    let mut other = Local::new(WorkerId(1), chain.shared.layout());
    let started = chain.shared.push(&mut other, &[AWAY], &[5., 5.]).unwrap();
    assert_eq!(chain.submit(started).len(), 1);

    for (answered, waits) in [((0, 0), Some(2.0)), ((1, 0), Some(3.0)), ((1, 1), None)] {
        let actions = chain.receive(PEER, response(answered.0, AccessKind::Push, &[answered.1], &[]));
        chain.complete(&actions[0]);
        match (waits, &actions[1..]) {
            (None, []) => {}
            (Some(value), [Action::Send { message: Message::Request(request), .. }]) => {
                assert_eq!(request.values, bytes(&[value, value]));
            }
            (waits, actions) => panic!("{waits:?}: {actions:?}"),
        }
    }
    assert!(chain.worker.is_idle());
    assert_eq!(chain.channel.report().outstanding, 1, "the operation of the other worker");
}

#[test]
fn a_worker_defers_only_keys_that_are_not_here() {
    for order in [Order::Fifo, Order::Chain] {
        let mut node = node(order, Storage::Dense);
        let first = node.shared.push(&mut node.worker, &[AWAY], &[1., 1.]).unwrap();
        let second = node.shared.push(&mut node.worker, &[AWAY, HERE], &[2., 2., 3., 3.]).unwrap();
        assert_eq!(second.submissions[0].1.keys(), [AWAY], "only the key that is not here is deferred");
        let stats = node.worker.stats();
        assert_eq!((stats.local, stats.remote), (1, 2));
        node.submit(first);
        node.submit(second);
    }
}

#[test]
fn each_answered_value_reaches_the_position_of_its_key() {
    for mut node in both() {
        let keys = [AWAY, HERE, AWAY_TOO, AWAY];
        let mut values = [0.0; 8];
        let started = node.shared.pull(&mut node.worker, &keys, &mut values).unwrap();
        let op = started.op.unwrap();
        node.submit(started);
        let chained = node.shared.policy().order == Order::Chain;
        let first: &[u32] = if chained { &[2, 0] } else { &[2, 0, 3] };
        let answers: Vec<f32> = first.iter().flat_map(|p| [*p as f32 * 10.0; 2]).collect();
        let mut actions = node.receive(PEER, response(op.0, AccessKind::Pull, first, &answers));
        if chained {
            actions.extend(node.receive(PEER, response(op.0, AccessKind::Pull, &[3], &[30.0; 2])));
        }
        for action in &actions {
            if let Action::Complete { completion, .. } = action {
                node.worker.complete(completion.clone(), node.shared.layout(), Some((op, &mut values[..])));
            }
        }
        assert!(node.worker.is_done(op));
        assert_eq!(values, [0., 0., 1., 1., 20., 20., 30., 30.]);
    }
}

#[test]
fn a_violation_says_what_is_wrong_and_changes_nothing() {
    for mut node in both() {
        assert_eq!(node.push(&[AWAY], &[1., 1.]).len(), 1);
        let refused = [
            (request(AccessKind::Pull, &[Key(10)], &[], 0), "k10, which does not exist"),
            (request(AccessKind::Push, &[HERE], &[1.0], 0), "carries 4 bytes of values instead of 8"),
            (request(AccessKind::Pull, &[HERE], &[1.0], 0), "carries 4 bytes of values instead of 0"),
            (request(AccessKind::Pull, &[AWAY], &[], 2), "forwarded 2 times"),
            (response(5, AccessKind::Push, &[0], &[]), "which waits for nothing"),
            (response(0, AccessKind::Push, &[1], &[]), "not asked for"),
            (response(0, AccessKind::Pull, &[0], &[1., 1.]), "it answered Push"),
        ];
        for (message, expected) in refused {
            let what = node.refuse(PEER, message);
            assert!(what.contains(expected), "'{what}' does not say '{expected}'");
        }
        assert_eq!(
            node.shared.inspect().value(HERE),
            Some(vec![1.0, 1.0]),
            "no refused message changed the value"
        );
        let actions = node.receive(PEER, response(0, AccessKind::Push, &[0], &[]));
        let completion = Completion { op: OpId(0), positions: vec![0], values: Bytes::new(), late: None };
        assert_eq!(actions, [Action::Complete { worker: WorkerId(0), completion }]);
        assert!(node.refuse(PEER, response(0, AccessKind::Push, &[0], &[])).contains("waits for nothing"));
    }
}

#[test]
fn an_answer_with_too_few_bytes_is_refused() {
    let mut node = node(Order::Fifo, Storage::Dense);
    let mut values = [0.0; 2];
    let started = node.shared.pull(&mut node.worker, &[AWAY], &mut values).unwrap();
    node.submit(started);
    assert!(
        node.refuse(PEER, response(0, AccessKind::Pull, &[0], &[1.0]))
            .contains("4 bytes of values instead of 8")
    );
}

#[test]
fn a_postponed_round_starts_when_it_is_due() {
    let mut node = node_of(Technique::Adaptive.policy(), Storage::Dense);
    let tick = |node: &mut Node, now: Tick| {
        node.handle(now, Input::Tick).unwrap();
        node.channel.next_round()
    };
    let begin = Tick(1_000_000);
    let due = tick(&mut node, begin);
    assert!(due > begin);
    node.channel.hasten_round();
    assert_eq!(node.channel.next_round(), due, "the round was not postponed");
    node.channel.postpone_round(begin);
    assert_eq!(node.channel.next_round(), due, "a round is not postponed to an earlier time");
    let late = due.after(500_000);
    node.channel.postpone_round(late);
    assert_eq!(tick(&mut node, due), late, "no round starts before it is due");
    node.channel.hasten_round();
    assert_eq!(node.channel.next_round(), due);
    assert!(tick(&mut node, due) > due, "the round started");
}

#[test]
fn urgent_replicas_do_not_wait_for_rounds_of_intents() {
    let replication = ReplicationConfig { round_min: Tick(50_000), ..ReplicationConfig::default() };
    let policy = Technique::Adaptive.policy();
    let mut node = Node::new(SharedConfig { replication, ..config(0, &layout(3, 10, 2), policy) });
    let (key, begin) = (Key(4), Tick(1_000_000));
    node.shared.clocks().intend(WorkerId(0), &[key], Clock(0)..Clock(100)).unwrap();
    let asked = node.handle(begin, Input::Tick).unwrap();
    let [Action::Send { to: PEER, message: Message::ReplicaRequest(ask) }] = &asked[..] else {
        panic!("{asked:?}")
    };
    let (kind, counters) = (ReplicaUpdateKind::SetUp, vec![0; usize::from(policy.caches())]);
    let (keys, generations) = (ask.keys.clone(), ask.generations.clone());
    let (seqs, versions, values) = (vec![0], vec![0], bytes(&[4., 4.]));
    let precision = Precision::Exact;
    let set_up =
        ReplicaUpdate { kind, clock: 0, keys, generations, seqs, versions, counters, precision, values };
    let message = Message::ReplicaUpdate(set_up);
    node.handle(begin.after(100), Input::Message { from: PEER, message }).unwrap();

    for look in 1..20 {
        let due = node.channel.due().unwrap();
        assert_eq!(due, begin.after(2_000 * look), "the next round is far");
        assert_eq!(node.handle(due, Input::Tick).unwrap(), [], "nothing has changed");
    }
    for _ in 0..8 {
        assert_eq!(node.push(&[key], &[1., 1.]), [], "the replica serves it");
    }
    let due = node.channel.due().unwrap();
    let sent = node.handle(due, Input::Tick).unwrap();
    let [Action::Send { to: PEER, message: Message::ReplicaRequest(delta) }] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(delta.kind, ReplicaRequestKind::Delta);
}
