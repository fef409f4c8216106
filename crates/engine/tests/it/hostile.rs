//! Messages of a hostile peer. The engine either sends messages to nodes of the cluster or reports a
//! violation that names the peer. It does not panic, and it does not change values that it does not own.

use super::node::{Node, config, layout};
use bytes::Bytes;
use intendant_core::{Clock, Key, KeyOrder, Layout, NodeId, Precision, Tick, WorkerId, random};
use intendant_engine::{
    Action, Input, ReplicationConfig, Shared, SharedConfig, SnapshotAsk, Storage, Violation,
};
use intendant_techniques::{
    Assignment, Initiator, KeyTechnique, Location, Order, Policy, Replicas, Role, StaticReplicaPace,
    Technique,
};
use intendant_wire::{
    self as wire, AccessKind, ClockScope, Cursor, HandOver, HolderRow, IntentReport, Localize, Locate,
    Located, Message, MessageClass, Moved, OpId, Origin, Reduce, Relocate, ReplicaRequest,
    ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request, Response, SnapshotPart, SnapshotRequest,
    Void,
};
use std::sync::Arc;

const PEER: NodeId = NodeId(1);

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = random::mix(self.0);
        self.0 % limit
    }

    /// Usually a number that makes sense, sometimes any number.
    fn number(&mut self, sensible: u64) -> u64 {
        match self.below(12) {
            0 => u64::MAX,
            1 => self.0,
            2 => sensible,
            _ => self.below(sensible.max(1)),
        }
    }

    fn bytes(&mut self) -> Bytes {
        let len = [0, 8, 16, 24, 7][self.below(5) as usize];
        vec![0x3f; len].into()
    }

    /// Mostly the elements of `keys` keys, sometimes another number of bytes.
    fn values(&mut self, keys: usize) -> Bytes {
        if self.below(4) == 0 { self.bytes() } else { vec![0x3f; 8 * keys].into() }
    }

    fn numbers(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.number(3) as u32).collect()
    }

    /// Rows in the order that the codec demands.
    fn holders(&mut self, keys: usize) -> Vec<HolderRow> {
        let mut holders = Vec::new();
        for at in 0..keys as u32 {
            for node in (0..4).filter(|_| keys > 0) {
                if self.below(3) == 0 {
                    let [version, generation, seq] = [(); 3].map(|()| self.number(3) as u32);
                    holders.push(HolderRow { at, version, node: NodeId(node), generation, seq });
                }
            }
        }
        holders
    }

    fn replica_request(&mut self, keys: Vec<Key>) -> Message {
        let kind = [ReplicaRequestKind::Ask, ReplicaRequestKind::Delta, ReplicaRequestKind::Drop]
            [self.below(3) as usize];
        let holder = if self.below(4) == 0 { NodeId(self.number(3) as u16) } else { PEER };
        let hops = if self.below(2) == 0 { 0 } else { self.number(3) as u8 };
        let count = keys.len();
        let (numbered, valued) = (kind != ReplicaRequestKind::Drop, kind == ReplicaRequestKind::Delta);
        let (precision, values) = self.elements(valued, count);
        let (generations, numbers) = (self.numbers(count), self.numbers(if numbered { count } else { 0 }));
        let request = ReplicaRequest { kind, holder, hops, keys, generations, numbers, precision, values };
        Message::ReplicaRequest(request)
    }

    fn replica_update(&mut self, keys: Vec<Key>) -> Message {
        let kinds = [
            ReplicaUpdateKind::SetUp,
            ReplicaUpdateKind::Refresh,
            ReplicaUpdateKind::Acknowledged,
            ReplicaUpdateKind::Dropped,
        ];
        let kind = kinds[self.below(4) as usize];
        let count = keys.len();
        let numbered = if kind == ReplicaUpdateKind::Dropped { 0 } else { count };
        let valued = matches!(kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh);
        let counted = if self.below(2) == 0 { count } else { 0 };
        let (precision, values) = self.elements(valued, count);
        Message::ReplicaUpdate(ReplicaUpdate {
            kind,
            clock: self.number(9) as u32,
            keys,
            generations: self.numbers(count),
            seqs: self.numbers(numbered),
            versions: self.numbers(numbered),
            counters: self.numbers(counted),
            precision,
            values,
        })
    }

    /// Elements of `count` keys for a message about replicas, exact or rounded, and usually as many as there
    /// should be. There are none unless the message is `valued`.
    fn elements(&mut self, valued: bool, count: usize) -> (Precision, Bytes) {
        if !valued {
            return (Precision::Exact, Bytes::new());
        }
        let values = self.values(count);
        if self.below(3) > 0 {
            return (Precision::Exact, values);
        }
        let bytes = if self.below(8) > 0 { values.len() / 2 } else { values.len() };
        (Precision::Bf16, values.slice(..bytes))
    }

    fn reduce(&mut self) -> Message {
        let mut indices: Vec<u32> = (0..self.below(4)).map(|_| self.number(4) as u32).collect();
        indices.sort_unstable();
        indices.dedup();
        let values = self.values(indices.len());
        let (round, step, last) = (self.number(3) as u32, self.number(3) as u8, self.below(3) > 0);
        Message::Reduce(Reduce { round, step, last, indices, values })
    }

    fn message(&mut self) -> Message {
        let origin = Origin {
            node: NodeId(self.number(3) as u16),
            worker: WorkerId(self.number(2) as u16),
            op: OpId(self.number(6) as u32),
        };
        let kind = [AccessKind::Pull, AccessKind::Push, AccessKind::Set][self.below(3) as usize];
        let count = self.below(4);
        let keys: Vec<Key> = (0..count).map(|_| Key(self.number(12))).collect();
        let positions = (0..count).map(|_| self.number(4) as u32).collect();
        let counters: Vec<u32> = (0..count).map(|_| self.number(4) as u32).collect();
        let cursor = Cursor { shard: self.number(4) as u32, position: self.number(3) };
        let values = self.bytes();
        match MessageClass::ALL[self.below(MessageClass::ALL.len() as u64) as usize] {
            MessageClass::Request => Message::Request(Request {
                origin,
                kind,
                hops: self.number(4) as u8,
                keys,
                positions,
                values,
            }),
            MessageClass::Response => {
                let counters = if self.below(2) == 0 { counters } else { Vec::new() };
                Message::Response(Response {
                    worker: origin.worker,
                    op: origin.op,
                    kind,
                    positions,
                    counters,
                    values,
                })
            }
            MessageClass::SnapshotRequest => {
                let (start, end) = (Key(self.number(12)), Key(self.number(12)));
                let bytes_max = self.number(4096) as u32;
                Message::SnapshotRequest(SnapshotRequest { origin, start, end, cursor, bytes_max })
            }
            MessageClass::SnapshotPart => Message::SnapshotPart(SnapshotPart {
                worker: origin.worker,
                op: origin.op,
                next: (self.below(2) == 0).then_some(cursor),
                keys,
                values,
            }),
            MessageClass::Localize => {
                let (requester, hops) = (origin.node, self.number(3) as u8);
                Message::Localize(Localize { requester, hops, keys })
            }
            MessageClass::Relocate => Message::Relocate(Relocate { to: origin.node, keys, counters }),
            MessageClass::HandOver => {
                let (holders, values) = (self.holders(keys.len()), self.values(keys.len()));
                let decided = if self.below(8) > 0 { Vec::new() } else { self.numbers(3) };
                Message::HandOver(HandOver { keys, counters, decided, holders, values })
            }
            MessageClass::Moved => Message::Moved(Moved { keys, counters }),
            MessageClass::ReplicaRequest => self.replica_request(keys),
            MessageClass::ReplicaUpdate => self.replica_update(keys),
            MessageClass::Clock => {
                let scope =
                    [ClockScope::Node, ClockScope::Global, ClockScope::Resumed][self.below(3) as usize];
                let clock = if scope == ClockScope::Resumed { 0 } else { self.number(9) as u32 };
                Message::Clock(wire::Clock { scope, clock })
            }
            MessageClass::Reduce => self.reduce(),
            MessageClass::IntentReport => {
                let mut begun = keys;
                let over = begun.split_off(self.below(begun.len() as u64 + 1) as usize);
                Message::IntentReport(IntentReport { begun, over })
            }
            MessageClass::Locate => Message::Locate(Locate { keys }),
            MessageClass::Located => Message::Located(Located { at: origin.node, keys }),
            MessageClass::Void => {
                let (after, upto) = (self.numbers(keys.len()), self.numbers(keys.len()));
                Message::Void(Void { keys, after, upto })
            }
        }
    }
}

#[test]
fn a_node_without_replicas_survives_700_000_hostile_messages() {
    let layout = Layout::builder().range("k", 12, 2).nodes(3).shards(4).channels(2).order(KeyOrder::Range);
    let layout = Arc::new(layout.build().unwrap());
    let outstanding = |node: &Node| node.channel.report().outstanding - node.channel.arriving() as u64;
    let (mut refused, mut served, mut came) = (0u32, 0u32, 0);
    for seed in 0..3_500u64 {
        let mut dice = Dice(seed);
        let order = Some(if seed % 4 < 2 { Order::Fifo } else { Order::Chain });
        let located = |location| Technique::Lapse.policy().located(Some(location)).with(order, None);
        let policy = match seed / 4 % 7 {
            0 => Technique::Classic.policy().with(order, None),
            1 => Technique::Lapse.policy().with(order, Some(false)),
            2 => Technique::Lapse.policy().with(order, Some(true)),
            3 => located(Location::Request),
            4 => located(Location::BroadcastRelocations),
            5 => located(Location::BroadcastOperations),
            _ => Policy { relocation: Some(Initiator::Owner), ..Technique::Lapse.policy() },
        };
        let storage = if seed % 2 == 0 { Storage::Dense } else { Storage::Sparse };
        let mut node = Node::new(SharedConfig { storage, ..config(0, &layout, policy) });
        // Operations that the peer's messages may claim to answer.
        for key in [4, 8, 10] {
            node.push(&[Key(key), Key(key)], &[1.0; 4]);
        }
        let started = node.shared.localize(&mut node.worker, &[Key(6), Key(8)], Tick(0)).unwrap();
        node.submit(started);
        let ask = SnapshotAsk {
            worker: WorkerId(0),
            op: node.worker.fresh_op(),
            owner: NodeId(1),
            start: Key(0),
            end: Key(12),
            cursor: None,
            bytes_max: 1024,
        };
        node.accept(Input::Snapshot(ask));
        for _ in 0..200 {
            let message = Message::decode(dice.message().encode()).unwrap();
            let of_replicas = matches!(
                message,
                Message::ReplicaRequest(_)
                    | Message::ReplicaUpdate(_)
                    | Message::Clock(_)
                    | Message::Reduce(_)
                    | Message::IntentReport(_)
            );
            let before = outstanding(&node);
            let (result, mut actions) = node.hear(Tick(0), PEER, message);
            match result {
                Ok(()) => {
                    assert!(!of_replicas, "there are no replicas with {policy:?}");
                    served += 1;
                }
                Err(violation) => {
                    assert_eq!(violation.from, PEER);
                    refused += 1;
                }
            }
            // Otherwise the cluster would wait for ever.
            let after = outstanding(&node);
            assert!(after <= before, "the peer made this node wait for more: {before}, then {after}");
            actions.retain(|action| !matches!(action, Action::CompleteSnapshot { worker: WorkerId(0), .. }));
            node.execute(&actions);
        }
        // Only keys that this node asked for may arrive. Where owners decide, any key may.
        let may_come = |key| match policy.relocation {
            None => false,
            Some(Initiator::Requester) => [6, 8].contains(&key),
            Some(Initiator::Owner) => true,
        };
        for key in (4..12).filter(|key| !may_come(*key)) {
            assert!(node.shared.inspect().value(Key(key)).is_none(), "{key} arrived with {policy:?}");
        }
        came += (4..12).filter(|key| node.shared.inspect().value(Key(*key)).is_some()).count();
    }
    assert!(came > 50, "only {came} hand-overs were accepted");
    assert!(refused > 10_000 && served > 10_000, "{refused} messages refused, {served} served");
}

const KEYS: u64 = 12;

/// What a message might corrupt: the value and the role of each key.
fn state(shared: &Shared<f32>) -> Vec<(Option<Vec<u32>>, Role)> {
    let bits = |value: Vec<f32>| value.into_iter().map(f32::to_bits).collect();
    // A sparse store initializes a value when it is looked at.
    let look = |key| (shared.inspect().copy(key).map(bits), shared.inspect().slot(key).role);
    (0..KEYS).map(|key| look(Key(key))).collect()
}

impl Node {
    /// The result of a message, and its actions, also if the message is refused.
    fn hear(&mut self, now: Tick, from: NodeId, message: Message) -> (Result<(), Violation>, Vec<Action>) {
        let mut actions = Vec::new();
        (self.channel.handle(now, Input::Message { from, message }, &mut actions), actions)
    }

    /// Checks that messages go to the other nodes, and that the worker waits for what completes.
    fn execute(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Send { to, .. } => assert!((1..3).contains(&to.0), "{action:?}"),
                // This panics if the worker does not wait for the completion.
                Action::Complete { worker: WorkerId(0), completion } => {
                    self.worker.complete(completion.clone(), self.shared.layout(), None);
                }
                Action::Complete { .. } | Action::CompleteSnapshot { .. } => panic!("{action:?}"),
            }
        }
    }
}

/// A node that holds replicas, owns keys of which other nodes hold replicas, and has updates to send.
struct Busy {
    node: Node,
    clock: u32,
}

impl Busy {
    fn new(dice: &mut Dice, policy: Policy) -> Self {
        let mut assignment = Assignment::none();
        for key in [1, 5, 9] {
            assignment.set_technique(Key(key), KeyTechnique::Replicate);
        }
        let pace =
            if dice.below(2) == 0 { StaticReplicaPace::Asked } else { StaticReplicaPace::Every(Tick(5)) };
        let clip = (dice.below(2) == 0).then_some(2.0);
        let directed = matches!(policy.replicas, Some(Replicas::Directed { .. }));
        let precision = if directed && dice.below(2) == 0 { Precision::Bf16 } else { Precision::Exact };
        let config = SharedConfig {
            storage: if dice.below(2) == 0 { Storage::Dense } else { Storage::Sparse },
            replication: ReplicationConfig {
                assignment,
                pace,
                clip,
                staleness: 1,
                round_min: Tick(3),
                precision,
                ..ReplicationConfig::default()
            },
            ..config(0, &layout(3, KEYS, 2), policy)
        };
        Self { node: Node::new(config), clock: 0 }
    }

    /// An input of this node itself. It is valid, unless the channel refused a message before and left it
    /// half processed.
    fn act(&mut self, dice: &mut Dice, now: Tick) -> Result<Vec<Action>, Violation> {
        let Node { shared, channel, worker } = &mut self.node;
        let (key, mut actions) = (Key(dice.below(KEYS)), Vec::new());
        let mut inputs = Vec::new();
        let by_intent = shared.policy().intents.is_some();
        let directed = matches!(shared.policy().replicas, Some(Replicas::Directed { .. })) && !by_intent;
        let keys = vec![key];
        match dice.below(8) {
            0 => inputs.push(Input::Tick),
            1 => inputs.push(Input::Settle),
            2 if directed => inputs.push(Input::Replicate { keys }),
            3 if directed => inputs.push(Input::Unreplicate { keys }),
            2..=4 if by_intent => {
                let clock = |dice: &mut Dice, more| Clock(self.clock + dice.below(more) as u32);
                let window = clock(dice, 8)..clock(dice, 16);
                let wake = shared.clocks().intend(WorkerId(0), &keys, window).unwrap();
                inputs.extend(wake.iter().map(|_| Input::Wake));
            }
            4 if directed => inputs.push(Input::Relocate { keys, to: NodeId(dice.below(3) as u16) }),
            5 => {
                self.clock += 1;
                let clock = Clock(self.clock);
                let rests = dice.below(3) == 0;
                let advanced = shared.clocks().advance(worker, clock);
                inputs.extend(advanced.wake.iter().map(|_| Input::Wake));
                inputs.extend(advanced.clock.map(Input::Clock));
                inputs.extend(
                    if rests { shared.clocks().rest(worker.worker()) } else { None }.map(Input::Clock),
                );
            }
            kind => {
                let started = match kind {
                    6 if dice.below(2) == 0 => shared.set(worker, &[key], &[2.0; 2]),
                    6 => Ok(shared.synchronize(worker)),
                    7 => shared.push(worker, &[key], &[1.0; 2]),
                    _ => shared.pull_kept(worker, &[key]),
                };
                inputs.extend(started.unwrap().submissions.into_iter().map(|(_, s)| Input::Submit(s)));
            }
        }
        for input in inputs {
            channel.handle(now, input, &mut actions)?;
        }
        Ok(actions)
    }
}

#[test]
fn a_node_with_replicas_survives_hostile_messages() {
    let directed = Policy {
        name: "test",
        relocation: Some(Initiator::Owner),
        replicas: Some(Replicas::Directed { every: Tick(5) }),
        ..Technique::Ssp.policy()
    };
    let copies = |policy: &Policy| policy.replicas.is_some() || policy.static_replicas.is_some();
    let techniques = Technique::ALL.map(Technique::policy).into_iter().filter(copies);
    // Static replicas beside keys that nodes find in other ways than by their homes.
    let elsewhere = [Location::Request, Location::BroadcastRelocations, Location::BroadcastOperations];
    let located = elsewhere.map(|location| Technique::Nups.policy().located(Some(location)).with(None, None));
    let policies: Vec<Policy> =
        [directed, directed.with(None, Some(true))].into_iter().chain(techniques).chain(located).collect();
    let (mut refused, mut served) = (vec![0; policies.len()], vec![0; policies.len()]);
    for seed in 0..10_000u64 {
        let mut dice = Dice(seed);
        let at = seed as usize % policies.len();
        let mut busy = Busy::new(&mut dice, policies[at]);
        let (mut now, mut clean) = (Tick(0), true);
        for _ in 0..100 {
            now.0 += 1;
            if dice.below(3) == 0 {
                match busy.act(&mut dice, now) {
                    Ok(actions) => busy.node.execute(&actions),
                    Err(violation) if clean => panic!("{violation}"),
                    Err(_) => break,
                }
                continue;
            }
            let node = &mut busy.node;
            let message = Message::decode(dice.message().encode()).unwrap();
            let (before, text) = (state(&node.shared), format!("{message:?}"));
            // Of a message about several keys, those before the offending one may have been processed.
            let one = match &message {
                Message::ReplicaRequest(request) => request.keys.len() <= 1,
                Message::ReplicaUpdate(update) => update.keys.len() <= 1,
                Message::HandOver(hand_over) => hand_over.keys.len() <= 1,
                Message::IntentReport(report) => report.begun.len() + report.over.len() <= 1,
                Message::Reduce(_) => true,
                // A clock resumes accesses that wait, and a refused message may have left them half
                // processed.
                Message::Clock(_) => clean,
                Message::Request(_) | Message::Response(_) | Message::Localize(_) | Message::Relocate(_) => {
                    false
                }
                Message::Moved(_) | Message::SnapshotRequest(_) | Message::SnapshotPart(_) => false,
                Message::Locate(_) | Message::Located(_) | Message::Void(_) => false,
            };
            let from = NodeId(1 + dice.below(2) as u16);
            let (result, actions) = node.hear(now, from, message);
            match result {
                Ok(()) => served[at] += 1,
                Err(violation) => {
                    assert_eq!(violation.from, from);
                    refused[at] += 1;
                    if one {
                        assert_eq!(before, state(&node.shared), "{violation}: {text}");
                    }
                    clean = false;
                }
            }
            node.execute(&actions);
        }
    }
    assert!(refused.iter().chain(&served).all(|count| *count > 1_000), "{refused:?} {served:?}");
}
