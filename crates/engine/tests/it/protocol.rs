//! One engine at a time: what it says to a message, and what it refuses.

use bytes::Bytes;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{
    Action, Channel, Completion, Input, Local, ReplicationConfig, Shared, SharedConfig, Storage,
};
use intendant_techniques::{Order, Policy, Technique};
use intendant_wire::{AccessKind, Message, OpId, Origin, Request, Response};
use std::sync::Arc;

/// Ten keys of two elements by range over three nodes: 0 to 3 at home on node 0, 4 to 6 on node 1, the rest on node 2. This is
/// node 0.
struct Node {
    shared: Arc<Shared<f32>>,
    channel: Channel<f32>,
    worker: Local<f32>,
}

const HERE: Key = Key(1);
const AWAY: Key = Key(7);
const AWAY_TOO: Key = Key(8);
const PEER: NodeId = NodeId(1);

fn node(order: Order, storage: Storage) -> Node {
    node_of(Technique::Classic.policy().with(Some(order), None), storage)
}

fn node_of(policy: Policy, storage: Storage) -> Node {
    let layout =
        Layout::builder().range("k", 10, 2).nodes(3).shards(4).order(KeyOrder::Range).build().unwrap();
    let layout = Arc::new(layout);
    let shared = Arc::new(Shared::new(SharedConfig {
        node: NodeId(0),
        layout: Arc::clone(&layout),
        init: Arc::new(|key, value| value.fill(key.0 as f32)),
        storage,
        policy,
        replication: ReplicationConfig::default(),
        workers: 1,
    }));
    let channel = Channel::new(ChannelId(0), Arc::clone(&shared));
    Node { channel, worker: Local::new(WorkerId(0), &layout), shared }
}

fn bytes(values: &[f32]) -> Bytes {
    values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into()
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
    fn hear(&mut self, message: Message) -> Vec<Action> {
        let mut actions = Vec::new();
        self.channel.handle(Tick(0), Input::Message { from: PEER, message }, &mut actions).unwrap();
        actions
    }

    fn refuse(&mut self, message: Message) -> String {
        let violation = self
            .channel
            .handle(Tick(0), Input::Message { from: PEER, message }, &mut Vec::new())
            .unwrap_err();
        assert_eq!(violation.from, PEER);
        violation.what.to_string()
    }

    fn push(&mut self, keys: &[Key], values: &[f32]) -> Vec<Action> {
        let started = self.shared.push(&mut self.worker, keys, values).unwrap();
        self.submit(started)
    }

    fn submit(&mut self, started: intendant_engine::Started) -> Vec<Action> {
        let mut actions = Vec::new();
        for (_, submission) in started.submissions {
            self.channel.handle(Tick(0), Input::Submit(submission), &mut actions).unwrap();
        }
        actions
    }

    fn complete(&mut self, action: &Action) {
        let Action::Complete { completion, .. } = action else { panic!("not a completion: {action:?}") };
        self.worker.complete(completion.clone(), self.shared.layout(), None);
    }
}

fn both() -> [Node; 2] {
    [node(Order::Fifo, Storage::Dense), node(Order::Chain, Storage::Sparse)]
}

/// The actions, all of which send requests.
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
        let actions = node.hear(request(AccessKind::Pull, &[HERE, Key(2)], &[], 0));
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
            let actions = node.hear(request(kind, &[HERE], &operand, 0));
            let [Action::Send { to: PEER, message: Message::Response(response) }] = &actions[..] else {
                panic!("{actions:?}")
            };
            assert_eq!((response.positions.as_slice(), response.values.len()), (&[10][..], 0));
            assert_eq!(node.shared.peek(HERE), Some(value.to_vec()));
        }
    }
}

#[test]
fn a_request_that_came_by_a_stale_hint_is_forwarded_home_with_its_origin() {
    for mut node in both() {
        let actions =
            node.hear(request(AccessKind::Push, &[HERE, AWAY, AWAY_TOO], &[1., 1., 2., 2., 3., 3.], 0));
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
        assert_eq!(actions.len(), 2, "an answer for the key that is here, a forward for those that are not");
        assert_eq!(node.shared.peek(HERE), Some(vec![2.0, 2.0]));
        assert_eq!(node.channel.management().forwards, [1, 0, 0, 0], "served here, at once");
    }
}

#[test]
fn own_requests_try_the_hint_first() {
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
fn one_frame_per_destination_and_parts_of_huge_calls() {
    let layout =
        Layout::builder().range("k", 100, 65_536).nodes(2).shards(4).order(KeyOrder::Range).build().unwrap();
    let layout = Arc::new(layout);
    let shared = Arc::new(Shared::new(SharedConfig {
        node: NodeId(0),
        layout: Arc::clone(&layout),
        init: Arc::new(|_, _: &mut [f32]| {}),
        storage: Storage::Sparse,
        policy: Technique::Classic.policy(),
        replication: ReplicationConfig::default(),
        workers: 1,
    }));
    let (mut channel, mut worker) =
        (Channel::new(ChannelId(0), Arc::clone(&shared)), Local::new(WorkerId(0), &layout));
    let keys: Vec<Key> = (50..60).map(Key).collect();
    let started = shared.push(&mut worker, &keys, &vec![1.0; 10 * 65_536]).unwrap();
    let mut actions = Vec::new();
    for (_, submission) in started.submissions {
        channel.handle(Tick(0), Input::Submit(submission), &mut actions).unwrap();
    }
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
    assert_eq!(chain.push(&[AWAY, AWAY], &[2., 2., 3., 3.]), [], "two more wait");
    // Another worker's operation does not.
    let mut other = Local::new(WorkerId(1), chain.shared.layout());
    let started = chain.shared.push(&mut other, &[AWAY], &[5., 5.]).unwrap();
    assert_eq!(chain.submit(started).len(), 1);

    for (answered, waits) in [((0, 0), Some(2.0)), ((1, 0), Some(3.0)), ((1, 1), None)] {
        let actions = chain.hear(response(answered.0, AccessKind::Push, &[answered.1], &[]));
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
    assert_eq!(chain.channel.report().outstanding, 1, "the other worker's");
}

#[test]
fn only_what_is_not_here_is_deferred() {
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
fn values_reach_the_positions_of_their_keys() {
    for mut node in both() {
        let keys = [AWAY, HERE, AWAY_TOO, AWAY];
        let mut values = [0.0; 8];
        let started = node.shared.pull(&mut node.worker, &keys, &mut values).unwrap();
        let op = started.op.unwrap();
        node.submit(started);
        let chained = node.shared.policy().order == Order::Chain;
        let first: &[u32] = if chained { &[2, 0] } else { &[2, 0, 3] };
        let answers: Vec<f32> = first.iter().flat_map(|p| [*p as f32 * 10.0; 2]).collect();
        let mut actions = node.hear(response(op.0, AccessKind::Pull, first, &answers));
        if chained {
            actions.extend(node.hear(response(op.0, AccessKind::Pull, &[3], &[30.0; 2])));
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
fn what_a_peer_must_not_say_is_named() {
    for mut node in both() {
        let op = node.push(&[AWAY], &[1., 1.]);
        assert_eq!(op.len(), 1);
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
            let what = node.refuse(message);
            assert!(what.contains(expected), "'{what}' does not say '{expected}'");
        }
        assert_eq!(node.shared.peek(HERE), Some(vec![1.0, 1.0]), "nothing was changed");
        let actions = node.hear(response(0, AccessKind::Push, &[0], &[]));
        let completion = Completion { op: OpId(0), positions: vec![0], values: Bytes::new() };
        assert_eq!(actions, [Action::Complete { worker: WorkerId(0), completion }]);
        assert!(node.refuse(response(0, AccessKind::Push, &[0], &[])).contains("waits for nothing"));
    }
}

#[test]
fn an_answer_that_is_too_short_is_refused() {
    let mut node = node(Order::Fifo, Storage::Dense);
    let mut values = [0.0; 2];
    let started = node.shared.pull(&mut node.worker, &[AWAY], &mut values).unwrap();
    node.submit(started);
    assert!(
        node.refuse(response(0, AccessKind::Pull, &[0], &[1.0])).contains("4 bytes of values instead of 8")
    );
}

#[test]
fn a_postponed_round_comes_when_it_is_due_and_not_before() {
    let mut node = node_of(Technique::Adaptive.policy(), Storage::Dense);
    let look = |node: &mut Node, now: Tick| {
        node.channel.handle(now, Input::Tick, &mut Vec::new()).unwrap();
        node.channel.next_round()
    };
    let begin = Tick(1_000_000);
    let due = look(&mut node, begin);
    assert!(due > begin);
    node.channel.hasten_round();
    assert_eq!(node.channel.next_round(), due, "nobody has postponed it");
    node.channel.postpone_round(begin);
    assert_eq!(node.channel.next_round(), due, "it is due later than that");
    let late = due.after(500_000);
    node.channel.postpone_round(late);
    assert_eq!(look(&mut node, due), late, "no round was started");
    node.channel.hasten_round();
    assert_eq!(node.channel.next_round(), due);
    assert!(look(&mut node, due) > due, "a round was started");
}
