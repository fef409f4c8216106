//! What one message may cause: frames that no node may send, answers without measure, waits without end, and who is to blame.

use bytes::Bytes;
use intendant_core::limits::{
    FRAME_BYTES_MAX, FRAME_KEYS_MAX, FRAME_PAYLOAD_BYTES_TARGET, VALUE_BYTES_MAX, WORKERS_MAX,
};
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{
    Action, Channel, Input, Local, ReplicationConfig, Shared, SharedConfig, Storage, Violation,
};
use intendant_techniques::{
    Assignment, Initiator, KeyTechnique, Policy, Replicas, Role, SlotState, StaticReplicas, Technique,
};
use intendant_wire::{Message, Reduce, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Keys are at home in equal runs, one channel.
fn layout(nodes: usize, keys: u64, len: usize) -> Arc<Layout> {
    let layout = Layout::builder().range("k", keys, len).nodes(nodes).shards(4).order(KeyOrder::Range);
    Arc::new(layout.build().expect("a valid layout"))
}

fn config(node: u16, layout: &Arc<Layout>, policy: Policy) -> SharedConfig<f32> {
    SharedConfig {
        node: NodeId(node),
        layout: Arc::clone(layout),
        init: Arc::new(|_, value: &mut [f32]| value.fill(1.0)),
        storage: Storage::Dense,
        policy,
        replication: ReplicationConfig::default(),
        workers: 1,
    }
}

struct Node {
    shared: Arc<Shared<f32>>,
    channel: Channel<f32>,
}

impl Node {
    fn new(config: SharedConfig<f32>) -> Self {
        let shared = Arc::new(Shared::new(config));
        Self { channel: Channel::new(ChannelId(0), Arc::clone(&shared)), shared }
    }

    fn handle(&mut self, input: Input) -> Result<Vec<Action>, Violation> {
        let mut actions = Vec::new();
        self.channel.handle(Tick(0), input, &mut actions).map(|()| actions)
    }

    /// What the node sends, all of which fits into frames.
    fn send(&mut self, input: Input) -> Vec<(usize, Message)> {
        let actions = self.handle(input).expect("nothing is wrong with that");
        let send = |action| match action {
            Action::Send { to, message } => {
                let frame = message.encode();
                assert!(frame.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", frame.len());
                Some((to.index(), Message::decode(frame).expect("a frame")))
            }
            Action::Complete { .. } | Action::CompleteSnapshot { .. } => None,
        };
        actions.into_iter().filter_map(send).collect()
    }

    fn hear(&mut self, from: u16, message: Message) -> Vec<(usize, Message)> {
        self.send(Input::Message { from: NodeId(from), message })
    }

    fn refuses(&mut self, from: u16, message: Message) -> String {
        let done = self.handle(Input::Message { from: NodeId(from), message });
        let refused = done.map(|actions| actions.len()).expect_err("it is wrong");
        assert_eq!(refused.from, NodeId(from));
        refused.what.to_string()
    }
}

fn directed(caches: bool) -> Policy {
    let replicas = Some(Replicas::Directed { every: Tick(100) });
    let policy =
        Policy { name: "test", relocation: Some(Initiator::Owner), replicas, ..Technique::Ssp.policy() };
    policy.with(None, Some(caches))
}

fn sync(kind: ReplicaRequestKind, holder: u16, keys: Vec<Key>, number: u32) -> Message {
    let count = keys.len();
    let numbers = if kind == ReplicaRequestKind::Drop { Vec::new() } else { vec![number; count] };
    let (generations, values) = (vec![1; count], Bytes::new());
    Message::ReplicaRequest(ReplicaRequest {
        kind,
        holder: NodeId(holder),
        hops: 0,
        keys,
        generations,
        numbers,
        values,
    })
}

fn keys(range: std::ops::Range<u64>) -> Vec<Key> {
    range.map(Key).collect()
}

/// 5 MiB, as for requests: a frame asks for a mebibyte, or for one value.
#[test]
fn an_ask_brings_back_no_more_than_a_pull() {
    let layout = layout(2, 4_000, 1024);
    for policy in [Technique::Ssp.policy(), Technique::Essp.policy(), directed(false)] {
        let mut node = Node::new(config(0, &layout, policy));
        for keys in [keys(0..2_000), vec![Key(7); 2_000]] {
            let what = node.refuses(1, sync(ReplicaRequestKind::Ask, 1, keys, 0));
            assert!(what.contains("8192000 bytes of values"), "{what}");
            assert_eq!(node.channel.hub_count(), 0);
        }
        let most = (FRAME_PAYLOAD_BYTES_TARGET + VALUE_BYTES_MAX) / 4096;
        assert_eq!(node.hear(1, sync(ReplicaRequestKind::Ask, 1, keys(0..most as u64), 0)).len(), 5);
    }
}

#[test]
fn what_is_wanted_is_asked_for_in_parts() {
    let layout = layout(2, 4_000, 1024);
    let mut nodes = [0, 1].map(|node| Node::new(config(node, &layout, directed(false))));
    let asks = nodes[1].send(Input::Replicate { keys: keys(0..2_000) });
    let mut asked = Vec::new();
    for (to, message) in asks {
        let Message::ReplicaRequest(ReplicaRequest { kind: ReplicaRequestKind::Ask, keys, .. }) = &message
        else {
            panic!("{message:?}")
        };
        assert!(keys.len() * 4096 <= FRAME_PAYLOAD_BYTES_TARGET);
        asked.extend_from_slice(keys);
        for (to, news) in nodes[to].hear(1, message) {
            assert_eq!(nodes[to].hear(0, news), []);
        }
    }
    assert_eq!(asked, keys(0..2_000));
    assert!(asked.iter().all(|key| nodes[1].shared.slot(*key).role == Role::Replica));
}

/// Rows of holders may be most of a frame.
#[test]
fn keys_with_many_holders_are_handed_over_in_parts() {
    const KEYS: u64 = 1 << 18;
    let layout = layout(5, 5 * KEYS, 1);
    let mut node = Node::new(config(0, &layout, directed(false)));
    for holder in 1..4 {
        node.hear(holder, sync(ReplicaRequestKind::Ask, holder, keys(0..KEYS), 0));
    }
    let mut next = Node::new(config(4, &layout, directed(false)));
    let frames = node.send(Input::Relocate { keys: keys(0..KEYS), to: NodeId(4) });
    assert!(frames.len() > 1);
    for (to, message) in frames {
        assert_eq!(to, 4);
        next.hear(0, message);
    }
    for key in keys(0..KEYS) {
        let holders = next.channel.hub(key).expect("it has come").holders();
        assert_eq!((holders.len(), next.shared.slot(key).role), (3, Role::Hub));
    }
}

#[test]
fn as_many_keys_as_a_call_may_have_are_asked_for_in_parts() {
    let count = FRAME_KEYS_MAX as u64;
    let layout = layout(2, 2 * count, 1);
    let mut nodes = [0, 1].map(|node| Node::new(config(node, &layout, Technique::Ssp.policy())));
    let mut worker = Local::new(WorkerId(0), &layout);
    let wanted = keys(count..2 * count);
    let started = nodes[0].shared.pull_kept(&mut worker, &wanted).expect("the keys exist");
    for (_, submission) in started.submissions {
        for (to, ask) in nodes[0].send(Input::Submit(submission)) {
            for (to, news) in nodes[to].hear(0, ask) {
                assert_eq!(nodes[to].hear(1, news), []);
            }
        }
    }
    assert!(wanted.iter().all(|key| nodes[0].shared.slot(*key).role == Role::Replica));
}

#[test]
fn what_is_said_about_as_many_keys_as_a_frame_may_have_is_said_in_parts() {
    let count = FRAME_KEYS_MAX as u64;
    let layout = layout(2, 2 * count, 1);
    let mut node = Node::new(config(0, &layout, directed(true)));
    let frames = node.hear(1, sync(ReplicaRequestKind::Drop, 1, keys(0..count), 0));
    let mut told = BTreeSet::new();
    for (_, message) in &frames {
        let Message::ReplicaUpdate(ReplicaUpdate { kind: ReplicaUpdateKind::Dropped, keys, .. }) = message
        else {
            panic!("other news")
        };
        told.extend(keys.iter().copied());
    }
    assert_eq!((frames.len(), told.len()), (2, FRAME_KEYS_MAX));
}

/// Each value is longer than what a frame should carry: one frame each, in either direction.
#[test]
fn large_values_travel_one_by_one() {
    let (keys, len) = (keys(0..4), 300_000);
    let layout = layout(2, 8, len);
    let mut nodes = [0, 1].map(|node| Node::new(config(node, &layout, directed(false))));
    let pass = |nodes: &mut [Node; 2], from: usize, frames: Vec<(usize, Message)>| {
        let mut answers = Vec::new();
        for (to, message) in frames {
            assert!(message.encode().len() < 4 * len + 100, "one value");
            answers.extend(nodes[to].hear(from as u16, message));
        }
        answers
    };
    let asks = nodes[1].send(Input::Replicate { keys: keys.clone() });
    let set_up = pass(&mut nodes, 1, asks);
    assert_eq!(set_up.len(), 4);
    assert_eq!(pass(&mut nodes, 0, set_up), []);
    let mut worker = Local::new(WorkerId(0), &layout);
    nodes[1].shared.push(&mut worker, &keys, &vec![0.5; 4 * len]).expect("the keys exist");
    let deltas = nodes[1].send(Input::Settle);
    assert_eq!(deltas.len(), 4);
    nodes[0].shared.push(&mut worker, &keys, &vec![0.25; 4 * len]).expect("the keys exist");
    let refreshes = pass(&mut nodes, 1, deltas);
    assert_eq!(refreshes.len(), 4);
    assert_eq!(pass(&mut nodes, 0, refreshes), []);
    for key in keys {
        let [main, copy] = [0, 1].map(|node: usize| nodes[node].shared.peek_copy(key).expect("a copy"));
        assert!(main == copy && main.iter().all(|element| *element == 1.75));
    }
}

#[test]
fn who_asks_a_node_that_is_not_the_home_is_to_blame() {
    let layout = layout(3, 6, 1);
    for technique in [Technique::Ssp, Technique::Essp] {
        let mut node = Node::new(config(0, &layout, technique.policy()));
        for kind in [ReplicaRequestKind::Ask, ReplicaRequestKind::Drop] {
            let what = node.refuses(1, sync(kind, 1, vec![Key(0), Key(4)], 0));
            assert!(what.contains("not its home"), "{what}");
            assert_eq!(node.channel.hub_count(), 0, "nothing was done");
        }
    }
}

/// Under lazy replication an owner remembers who waits for which clock.
#[test]
fn nobody_waits_for_more_clocks_than_it_can_have_workers() {
    let layout = layout(2, 4, 1);
    let mut node = Node::new(config(0, &layout, Technique::Ssp.policy()));
    for need in 1..=WORKERS_MAX as u32 {
        node.hear(1, sync(ReplicaRequestKind::Ask, 1, vec![Key(0)], need));
    }
    node.hear(1, sync(ReplicaRequestKind::Ask, 1, vec![Key(0), Key(1)], 7));
    let what = node.refuses(1, sync(ReplicaRequestKind::Ask, 1, vec![Key(0)], 1 << 20));
    assert!(what.contains("more clocks"), "{what}");
    // Who is none of its holders any more waits for nothing.
    node.hear(1, sync(ReplicaRequestKind::Drop, 1, vec![Key(0)], 0));
    node.hear(1, sync(ReplicaRequestKind::Ask, 1, vec![Key(0)], 1 << 20));
}

#[test]
fn who_has_no_static_replicas_reduces_nothing() {
    // Of NuPS' keys, none is replicated.
    for technique in [Technique::Classic, Technique::Lapse, Technique::Essp, Technique::Nups] {
        let mut node = Node::new(config(0, &layout(3, 6, 1), technique.policy()));
        let (indices, values) = (Vec::new(), Bytes::new());
        let what =
            node.refuses(1, Message::Reduce(Reduce { round: 0, step: 1, last: true, indices, values }));
        assert!(what.contains("static replicas"), "{what}");
        assert_eq!(node.channel.report().outstanding, 0, "nobody is waited for");
    }
}

/// Whatever is wrong with their lengths.
#[test]
fn parts_of_elements_are_refused() {
    let mut node = Node::new(config(0, &layout(3, 6, 1), Technique::FullReplication.policy()));
    let reduce = |indices: Vec<u32>, bytes: usize| {
        let values = vec![0; bytes].into();
        Message::Reduce(Reduce { round: 0, step: 1, last: true, indices, values })
    };
    for (indices, bytes) in [(vec![0], 3), (vec![0], 8), (vec![6], 4), (vec![0, 1], 4)] {
        node.refuses(1, reduce(indices, bytes));
    }
    node.hear(1, reduce(vec![0, 5], 8));
}

#[test]
fn what_does_not_work_together_is_refused_at_the_start() {
    let start = |policy: Policy, assignment: Assignment| {
        let mut config = config(0, &layout(2, 4, 1), policy);
        config.replication.assignment = assignment;
        let made = std::panic::catch_unwind(AssertUnwindSafe(move || drop(Shared::new(config))));
        made.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
    };
    // The owner hands over, with the rows of holders.
    assert_eq!(start(directed(true), Assignment::none()), Ok(()));
    let requested = Policy { relocation: Some(Initiator::Requester), ..directed(false) };
    let clocked = Policy { relocation: Some(Initiator::Owner), ..Technique::Essp.policy() };
    let both = Policy { static_replicas: Some(StaticReplicas::Assigned), ..directed(false) };
    for (policy, why) in
        [(requested, "would be lost"), (clocked, "bounds staleness and moves keys"), (both, "their pace")]
    {
        let what = start(policy, Assignment::none()).expect_err("it would lose something");
        assert!(what.contains(why), "{what}");
    }
    let mut beyond = Assignment::none();
    beyond.set_technique(Key(4), KeyTechnique::Replicate);
    let what = start(Technique::Nups.policy(), beyond.clone()).expect_err("there is no key 4");
    assert!(what.contains("keys 0 to 3"), "{what}");
    assert_eq!(start(Technique::Lapse.policy(), beyond), Ok(()), "which does not use it");
}

/// A sparse store's slot that only remembers something is given up some day, even if there was a replica meanwhile.
#[test]
fn a_replica_that_is_gone_leaves_a_slot_that_will_be_forgotten() {
    /// More keys than a node remembers.
    const OTHERS: u64 = (1 << 16) + 1;
    let (layout, k) = (layout(2, 4 * OTHERS, 1), Key(0));
    let policy = Technique::Ssp.policy().with(None, Some(true));
    let mut node = Node::new(SharedConfig { storage: Storage::Sparse, ..config(1, &layout, policy) });
    let mut worker = Local::new(WorkerId(0), &layout);
    let started = node.shared.pull_kept(&mut worker, &[k]).expect("the key exists");
    for (_, submission) in started.submissions {
        assert_eq!(node.send(Input::Submit(submission)).len(), 1);
    }
    let news = |kind, keys: Vec<Key>, values: &[f32]| {
        let numbers = |wanted| if wanted { vec![0; keys.len()] } else { Vec::new() };
        let [seqs, versions] = [(); 2].map(|()| numbers(kind != ReplicaUpdateKind::Dropped));
        let values = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into();
        let (generations, counters) = (vec![1; keys.len()], numbers(true));
        Message::ReplicaUpdate(ReplicaUpdate {
            kind,
            clock: 0,
            keys,
            generations,
            seqs,
            versions,
            counters,
            values,
        })
    };
    assert_eq!(node.hear(0, news(ReplicaUpdateKind::SetUp, vec![k], &[1.0])), []);
    assert_eq!(node.shared.slot(k).role, Role::Replica);
    node.hear(0, news(ReplicaUpdateKind::Acknowledged, keys(1..1 + OTHERS), &[]));
    assert_eq!(node.send(Input::Settle).len(), 1, "the replica is dropped");
    node.hear(0, news(ReplicaUpdateKind::Dropped, vec![k], &[]));
    assert_eq!((node.shared.slot(k).role, node.shared.slot(k).is_listed()), (Role::Absent, true));
    node.hear(0, news(ReplicaUpdateKind::Acknowledged, keys(1 + OTHERS..1 + 2 * OTHERS), &[]));
    assert_eq!(node.shared.slot(k), SlotState::default());
}
