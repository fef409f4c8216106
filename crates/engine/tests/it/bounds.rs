//! Bounds on what one message causes: the size of frames and answers, how long a node waits, and which node
//! a violation names.

use super::node::{Node, bytes, config, layout};
use bytes::Bytes;
use intendant_core::limits::{
    FRAME_BYTES_MAX, FRAME_KEYS_MAX, FRAME_PAYLOAD_BYTES_TARGET, VALUE_BYTES_MAX, WORKERS_MAX,
};
use intendant_core::{Key, NodeId, Precision, Tick};
use intendant_engine::{Action, Input, Shared, SharedConfig, Storage};
use intendant_techniques::{
    Assignment, Initiator, KeyTechnique, Policy, Replicas, Role, SlotState, StaticReplicas, Technique,
};
use intendant_wire::{Message, Reduce, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

impl Node {
    /// The messages that the node sends to each node. Each of them fits into a frame.
    fn frames(&mut self, input: Input) -> Vec<(usize, Message)> {
        let send = |action| match action {
            Action::Send { to, message } => {
                let frame = message.encode();
                assert!(frame.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", frame.len());
                Some((to.index(), Message::decode(frame).expect("a frame")))
            }
            Action::Complete { .. } | Action::CompleteSnapshot { .. } => None,
        };
        self.accept(input).into_iter().filter_map(send).collect()
    }

    /// The messages that the node sends when it receives `message`.
    fn answers(&mut self, from: u16, message: Message) -> Vec<(usize, Message)> {
        self.frames(Input::Message { from: NodeId(from), message })
    }

    /// Asks for copies of keys on behalf of the worker.
    fn pull_kept(&mut self, keys: &[Key]) -> Vec<(usize, Message)> {
        let started = self.shared.pull_kept(&mut self.worker, keys).expect("the keys exist");
        let submit = |(_, submission)| self.frames(Input::Submit(submission));
        started.submissions.into_iter().flat_map(submit).collect()
    }
}

const PEER: NodeId = NodeId(1);

/// A policy in which nodes decide which replicas they hold, and owners decide where their keys go.
fn directed(caches: bool) -> Policy {
    let replicas = Some(Replicas::Directed { every: Tick(100) });
    let policy =
        Policy { name: "test", relocation: Some(Initiator::Owner), replicas, ..Technique::Ssp.policy() };
    policy.with(None, Some(caches))
}

fn replica_request(kind: ReplicaRequestKind, holder: u16, keys: Vec<Key>, number: u32) -> Message {
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
        precision: Precision::Exact,
        values,
    })
}

fn keys(range: std::ops::Range<u64>) -> Vec<Key> {
    range.map(Key).collect()
}

/// The bound is 5 MiB, as for requests: a node asks for one mebibyte per frame, or for one value.
#[test]
fn a_node_refuses_to_set_up_more_replicas_than_one_pull_may_read() {
    let layout = layout(2, 4_000, 1024);
    for policy in [Technique::Ssp.policy(), Technique::Essp.policy(), directed(false)] {
        let mut node = Node::new(config(0, &layout, policy));
        for keys in [keys(0..2_000), vec![Key(7); 2_000]] {
            let what = node.refuse(PEER, replica_request(ReplicaRequestKind::Ask, 1, keys, 0));
            assert!(what.contains("8192000 bytes of values"), "{what}");
            assert_eq!(node.channel.hub_count(), 0);
        }
        let most = (FRAME_PAYLOAD_BYTES_TARGET + VALUE_BYTES_MAX) / 4096;
        assert_eq!(
            node.answers(1, replica_request(ReplicaRequestKind::Ask, 1, keys(0..most as u64), 0)).len(),
            5
        );
    }
}

#[test]
fn a_node_splits_its_requests_for_many_replicas() {
    let layout = layout(2, 4_000, 1024);
    let mut nodes = [0, 1].map(|node| Node::new(config(node, &layout, directed(false))));
    let asks = nodes[1].frames(Input::Replicate { keys: keys(0..2_000) });
    let mut asked = Vec::new();
    for (to, message) in asks {
        let Message::ReplicaRequest(ReplicaRequest { kind: ReplicaRequestKind::Ask, keys, .. }) = &message
        else {
            panic!("{message:?}")
        };
        assert!(keys.len() * 4096 <= FRAME_PAYLOAD_BYTES_TARGET);
        asked.extend_from_slice(keys);
        for (to, update) in nodes[to].answers(1, message) {
            assert_eq!(nodes[to].answers(0, update), []);
        }
    }
    assert_eq!(asked, keys(0..2_000));
    assert!(asked.iter().all(|key| nodes[1].shared.inspect().slot(*key).role == Role::Replica));
}

/// Rows of holders may make up most of a frame.
#[test]
fn an_owner_splits_the_hand_over_of_keys_with_many_holders() {
    const KEYS: u64 = 1 << 18;
    let layout = layout(5, 5 * KEYS, 1);
    let mut node = Node::new(config(0, &layout, directed(false)));
    for holder in 1..4 {
        node.answers(holder, replica_request(ReplicaRequestKind::Ask, holder, keys(0..KEYS), 0));
    }
    let mut next = Node::new(config(4, &layout, directed(false)));
    let frames = node.frames(Input::Relocate { keys: keys(0..KEYS), to: NodeId(4) });
    assert!(frames.len() > 1);
    for (to, message) in frames {
        assert_eq!(to, 4);
        next.answers(0, message);
    }
    for key in keys(0..KEYS) {
        let holders = next.channel.hub(key).expect("the key has arrived").holders();
        assert_eq!((holders.len(), next.shared.inspect().slot(key).role), (3, Role::Hub));
    }
}

#[test]
fn a_node_splits_the_largest_call_of_a_worker() {
    let count = FRAME_KEYS_MAX as u64;
    let layout = layout(2, 2 * count, 1);
    let mut nodes = [0, 1].map(|node| Node::new(config(node, &layout, Technique::Ssp.policy())));
    let wanted = keys(count..2 * count);
    for (to, ask) in nodes[0].pull_kept(&wanted) {
        for (to, update) in nodes[to].answers(0, ask) {
            assert_eq!(nodes[to].answers(1, update), []);
        }
    }
    assert!(wanted.iter().all(|key| nodes[0].shared.inspect().slot(*key).role == Role::Replica));
}

#[test]
fn an_owner_splits_its_answer_to_the_largest_frame() {
    let count = FRAME_KEYS_MAX as u64;
    let layout = layout(2, 2 * count, 1);
    let mut node = Node::new(config(0, &layout, directed(true)));
    let frames = node.answers(1, replica_request(ReplicaRequestKind::Drop, 1, keys(0..count), 0));
    let mut dropped = BTreeSet::new();
    for (_, message) in &frames {
        let Message::ReplicaUpdate(ReplicaUpdate { kind: ReplicaUpdateKind::Dropped, keys, .. }) = message
        else {
            panic!("{message:?}")
        };
        dropped.extend(keys.iter().copied());
    }
    assert_eq!((frames.len(), dropped.len()), (2, FRAME_KEYS_MAX));
}

/// Each value exceeds the target of a frame.
#[test]
fn large_values_travel_one_per_frame_in_both_directions() {
    let (keys, len) = (keys(0..4), 300_000);
    let layout = layout(2, 8, len);
    let mut nodes = [0, 1].map(|node| Node::new(config(node, &layout, directed(false))));
    let pass = |nodes: &mut [Node; 2], from: usize, frames: Vec<(usize, Message)>| {
        let mut answers = Vec::new();
        for (to, message) in frames {
            assert!(message.encode().len() < 4 * len + 100, "a frame carries one value");
            answers.extend(nodes[to].answers(from as u16, message));
        }
        answers
    };
    let asks = nodes[1].frames(Input::Replicate { keys: keys.clone() });
    let set_up = pass(&mut nodes, 1, asks);
    assert_eq!(set_up.len(), 4);
    assert_eq!(pass(&mut nodes, 0, set_up), []);
    assert_eq!(nodes[1].push(&keys, &vec![0.5; 4 * len]), []);
    let deltas = nodes[1].frames(Input::Settle);
    assert_eq!(deltas.len(), 4);
    assert_eq!(nodes[0].push(&keys, &vec![0.25; 4 * len]), []);
    let refreshes = pass(&mut nodes, 1, deltas);
    assert_eq!(refreshes.len(), 4);
    assert_eq!(pass(&mut nodes, 0, refreshes), []);
    for key in keys {
        let [main, copy] = [0, 1].map(|node: usize| nodes[node].shared.inspect().copy(key).expect("a copy"));
        assert!(main == copy && main.iter().all(|element| *element == key.0 as f32 + 0.75));
    }
}

#[test]
fn only_the_home_accepts_replica_requests_when_keys_do_not_move() {
    let layout = layout(3, 6, 1);
    for technique in [Technique::Ssp, Technique::Essp] {
        let mut node = Node::new(config(0, &layout, technique.policy()));
        for kind in [ReplicaRequestKind::Ask, ReplicaRequestKind::Drop] {
            let what = node.refuse(PEER, replica_request(kind, 1, vec![Key(0), Key(4)], 0));
            assert!(what.contains("not its home"), "{what}");
            assert_eq!(node.channel.hub_count(), 0, "no replica was registered");
        }
    }
}

/// Under SSP, an owner remembers which holder waits for which clock.
#[test]
fn a_holder_waits_for_at_most_one_clock_per_worker() {
    let layout = layout(2, 4, 1);
    let mut node = Node::new(config(0, &layout, Technique::Ssp.policy()));
    for need in 1..=WORKERS_MAX as u32 {
        node.answers(1, replica_request(ReplicaRequestKind::Ask, 1, vec![Key(0)], need));
    }
    node.answers(1, replica_request(ReplicaRequestKind::Ask, 1, vec![Key(0), Key(1)], 7));
    let what = node.refuse(PEER, replica_request(ReplicaRequestKind::Ask, 1, vec![Key(0)], 1 << 20));
    assert!(what.contains("more clocks"), "{what}");
    // A node that has dropped its replica waits for no clock.
    node.answers(1, replica_request(ReplicaRequestKind::Drop, 1, vec![Key(0)], 0));
    node.answers(1, replica_request(ReplicaRequestKind::Ask, 1, vec![Key(0)], 1 << 20));
}

#[test]
fn a_node_without_static_replicas_refuses_to_reduce() {
    // NuPS replicates no key unless an assignment says so.
    for technique in [Technique::Classic, Technique::Lapse, Technique::Essp, Technique::Nups] {
        let mut node = Node::new(config(0, &layout(3, 6, 1), technique.policy()));
        let (indices, values) = (Vec::new(), Bytes::new());
        let what =
            node.refuse(PEER, Message::Reduce(Reduce { round: 0, step: 1, last: true, indices, values }));
        assert!(what.contains("static replicas"), "{what}");
        assert_eq!(node.channel.report().outstanding, 0, "the node waits for no message");
    }
}

/// Elements that do not fit their indices are refused, and so are indices that do not exist.
#[test]
fn a_reduction_of_the_wrong_length_is_refused() {
    let mut node = Node::new(config(0, &layout(3, 6, 1), Technique::FullReplication.policy()));
    let reduce = |indices: Vec<u32>, bytes: usize| {
        let values = vec![0; bytes].into();
        Message::Reduce(Reduce { round: 0, step: 1, last: true, indices, values })
    };
    for (indices, bytes) in [(vec![0], 3), (vec![0], 8), (vec![6], 4), (vec![0, 1], 4)] {
        node.refuse(PEER, reduce(indices, bytes));
    }
    node.answers(1, reduce(vec![0, 5], 8));
}

#[test]
fn a_policy_whose_mechanisms_contradict_each_other_is_refused_at_the_start() {
    let start = |policy: Policy, assignment: Assignment| {
        let mut config = config(0, &layout(2, 4, 1), policy);
        config.replication.assignment = assignment;
        let made = std::panic::catch_unwind(AssertUnwindSafe(move || drop(Shared::new(config))));
        made.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
    };
    // An owner hands a key over together with the rows of its holders.
    assert_eq!(start(directed(true), Assignment::none()), Ok(()));
    let requested = Policy { relocation: Some(Initiator::Requester), ..directed(false) };
    let clocked = Policy { relocation: Some(Initiator::Owner), ..Technique::Essp.policy() };
    let both = Policy { static_replicas: Some(StaticReplicas::Assigned), ..directed(false) };
    for (policy, why) in
        [(requested, "would be lost"), (clocked, "bounds staleness and moves keys"), (both, "their pace")]
    {
        let what = start(policy, Assignment::none()).expect_err("a policy that loses updates");
        assert!(what.contains(why), "{what}");
    }
    let mut beyond = Assignment::none();
    beyond.set_technique(Key(4), KeyTechnique::Replicate);
    let what = start(Technique::Nups.policy(), beyond.clone()).expect_err("there is no key 4");
    assert!(what.contains("keys 0 to 3"), "{what}");
    assert_eq!(start(Technique::Lapse.policy(), beyond), Ok(()), "Lapse does not use the assignment");
}

/// A sparse store forgets the slot of a key whose location the node remembers, also if the node held a
/// replica of the key in between.
#[test]
fn the_slot_of_a_dropped_replica_is_forgotten() {
    /// More keys than the number of locations that a node remembers.
    const OTHERS: u64 = (1 << 16) + 1;
    let (layout, k) = (layout(2, 4 * OTHERS, 1), Key(0));
    let policy = Technique::Ssp.policy().with(None, Some(true));
    let mut node = Node::new(SharedConfig { storage: Storage::Sparse, ..config(1, &layout, policy) });
    assert_eq!(node.pull_kept(&[k]).len(), 1);
    let update = |kind, keys: Vec<Key>, values: &[f32]| {
        let numbers = |wanted| if wanted { vec![0; keys.len()] } else { Vec::new() };
        let [seqs, versions] = [(); 2].map(|()| numbers(kind != ReplicaUpdateKind::Dropped));
        let (values, generations, counters) = (bytes(values), vec![1; keys.len()], numbers(true));
        Message::ReplicaUpdate(ReplicaUpdate {
            kind,
            clock: 0,
            keys,
            generations,
            seqs,
            versions,
            counters,
            precision: Precision::Exact,
            values,
        })
    };
    assert_eq!(node.answers(0, update(ReplicaUpdateKind::SetUp, vec![k], &[1.0])), []);
    assert_eq!(node.shared.inspect().slot(k).role, Role::Replica);
    node.answers(0, update(ReplicaUpdateKind::Acknowledged, keys(1..1 + OTHERS), &[]));
    assert_eq!(node.frames(Input::Settle).len(), 1, "the replica is dropped");
    node.answers(0, update(ReplicaUpdateKind::Dropped, vec![k], &[]));
    assert_eq!(
        (node.shared.inspect().slot(k).role, node.shared.inspect().slot(k).is_listed()),
        (Role::Absent, true)
    );
    node.answers(0, update(ReplicaUpdateKind::Acknowledged, keys(1 + OTHERS..1 + 2 * OTHERS), &[]));
    assert_eq!(node.shared.inspect().slot(k), SlotState::default());
}
