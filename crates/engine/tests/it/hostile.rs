//! Whatever a peer's frames say, an engine answers with messages to other nodes of the cluster or names the peer; it does not
//! panic, and it does not change values that it does not own.

use bytes::Bytes;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId, random};
use intendant_engine::{
    Action, Channel, Input, Local, ReplicationConfig, Shared, SharedConfig, SnapshotAsk, Storage, Violation,
};
use intendant_techniques::{
    Assignment, Initiator, KeyTechnique, Order, Policy, Replicas, Role, StaticReplicaPace, Technique,
};
use intendant_wire::{
    AccessKind, Clock, ClockScope, Cursor, HandOver, HolderRow, IntentReport, Localize, Message, Moved, OpId,
    Origin, Reduce, Relocate, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind, Request,
    Response, SnapshotPart, SnapshotRequest,
};
use std::sync::Arc;

const PEER: NodeId = NodeId(1);

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = random::mix(self.0);
        self.0 % limit
    }

    /// Mostly sensible, sometimes absurd.
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

    /// Elements of so many keys, mostly.
    fn values(&mut self, keys: usize) -> Bytes {
        if self.below(4) == 0 { self.bytes() } else { vec![0x3f; 8 * keys].into() }
    }

    fn numbers(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.number(3) as u32).collect()
    }

    /// In the order that the codec wants.
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

    fn sync(&mut self, keys: Vec<Key>) -> Message {
        let kind = [ReplicaRequestKind::Ask, ReplicaRequestKind::Delta, ReplicaRequestKind::Drop]
            [self.below(3) as usize];
        let holder = if self.below(4) == 0 { NodeId(self.number(3) as u16) } else { PEER };
        let hops = if self.below(2) == 0 { 0 } else { self.number(3) as u8 };
        let count = keys.len();
        let (numbered, valued) = (kind != ReplicaRequestKind::Drop, kind == ReplicaRequestKind::Delta);
        let values = if valued { self.values(count) } else { Bytes::new() };
        let (generations, numbers) = (self.numbers(count), self.numbers(if numbered { count } else { 0 }));
        Message::ReplicaRequest(ReplicaRequest { kind, holder, hops, keys, generations, numbers, values })
    }

    fn news(&mut self, keys: Vec<Key>) -> Message {
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
        Message::ReplicaUpdate(ReplicaUpdate {
            kind,
            clock: self.number(9) as u32,
            keys,
            generations: self.numbers(count),
            seqs: self.numbers(numbered),
            versions: self.numbers(numbered),
            counters: self.numbers(counted),
            values: if valued { self.values(count) } else { Bytes::new() },
        })
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
        match self.below(14) {
            0 => Message::Request(Request {
                origin,
                kind,
                hops: self.number(4) as u8,
                keys,
                positions,
                values,
            }),
            1 => {
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
            2 => {
                let (start, end) = (Key(self.number(12)), Key(self.number(12)));
                let bytes_max = self.number(4096) as u32;
                Message::SnapshotRequest(SnapshotRequest { origin, start, end, cursor, bytes_max })
            }
            3 => Message::Localize(Localize { keys }),
            4 => Message::Relocate(Relocate { to: origin.node, keys, counters }),
            5 => {
                let (holders, values) = (self.holders(keys.len()), self.values(keys.len()));
                Message::HandOver(HandOver { keys, counters, holders, values })
            }
            6 => Message::Moved(Moved { keys, counters }),
            13 => {
                let mut begun = keys;
                let over = begun.split_off(self.below(begun.len() as u64 + 1) as usize);
                Message::IntentReport(IntentReport { begun, over })
            }
            7..9 => self.sync(keys),
            9..11 => self.news(keys),
            11 => {
                let scope =
                    [ClockScope::Node, ClockScope::Global, ClockScope::Resumed][self.below(3) as usize];
                let clock = if scope == ClockScope::Resumed { 0 } else { self.number(9) as u32 };
                Message::Clock(Clock { scope, clock })
            }
            12 => self.reduce(),
            _ => {
                let next = (self.below(2) == 0).then_some(cursor);
                Message::SnapshotPart(SnapshotPart {
                    worker: origin.worker,
                    op: origin.op,
                    next,
                    keys,
                    values,
                })
            }
        }
    }
}

#[test]
fn four_hundred_thousand_hostile_messages() {
    let layout = Layout::builder().range("k", 12, 2).nodes(3).shards(4).channels(2).order(KeyOrder::Range);
    let layout = Arc::new(layout.build().unwrap());
    let (mut refused, mut served, mut came) = (0u32, 0u32, 0);
    for seed in 0..2_000u64 {
        let mut dice = Dice(seed);
        let order = Some(if seed % 4 < 2 { Order::Fifo } else { Order::Chain });
        let policy = match seed / 4 % 4 {
            0 => Technique::Classic.policy().with(order, None),
            1 => Technique::Lapse.policy().with(order, Some(false)),
            2 => Technique::Lapse.policy().with(order, Some(true)),
            _ => Policy { relocation: Some(Initiator::Owner), ..Technique::Lapse.policy() },
        };
        let shared = Arc::new(Shared::<f32>::new(SharedConfig {
            node: NodeId(0),
            layout: Arc::clone(&layout),
            init: Arc::new(|_, value| value.fill(1.0)),
            storage: if seed % 2 == 0 { Storage::Dense } else { Storage::Sparse },
            policy,
            replication: ReplicationConfig::default(),
            workers: 1,
        }));
        let mut channel = Channel::new(ChannelId(0), Arc::clone(&shared));
        let mut worker = Local::new(WorkerId(0), &layout);
        let mut actions = Vec::new();
        // Operations that answers may pretend to be for.
        for key in [4, 8, 10] {
            let started = shared.push(&mut worker, &[Key(key), Key(key)], &[1.0; 4]).unwrap();
            for (_, submission) in started.submissions.into_iter().filter(|(c, _)| *c == ChannelId(0)) {
                channel.handle(Tick(0), Input::Submit(submission), &mut actions).unwrap();
            }
        }
        let started = shared.localize(&mut worker, &[Key(6), Key(8)], Tick(0)).unwrap();
        for (_, submission) in started.submissions.into_iter().filter(|(c, _)| *c == ChannelId(0)) {
            channel.handle(Tick(0), Input::Submit(submission), &mut actions).unwrap();
        }
        let ask = SnapshotAsk {
            worker: WorkerId(0),
            op: worker.fresh_op(),
            owner: NodeId(1),
            start: Key(0),
            end: Key(12),
            cursor: None,
            bytes_max: 1024,
        };
        channel.handle(Tick(0), Input::Snapshot(ask), &mut actions).unwrap();
        for _ in 0..200 {
            let message = Message::decode(dice.message().encode()).unwrap();
            actions.clear();
            let of_copies = matches!(
                message,
                Message::ReplicaRequest(_)
                    | Message::ReplicaUpdate(_)
                    | Message::Clock(_)
                    | Message::Reduce(_)
                    | Message::IntentReport(_)
            );
            let before = channel.report().outstanding - channel.arriving() as u64;
            match channel.handle(Tick(0), Input::Message { from: NodeId(1), message }, &mut actions) {
                Ok(()) => {
                    assert!(!of_copies, "nobody has copies with {policy:?}");
                    served += 1;
                }
                Err(violation) => {
                    assert_eq!(violation.from, NodeId(1));
                    refused += 1;
                }
            }
            // Or the cluster would wait for ever.
            let after = channel.report().outstanding - channel.arriving() as u64;
            assert!(after <= before, "a peer has made this node wait for something: {before}, then {after}");
            for action in &actions {
                match action {
                    Action::Send { to, .. } => assert!((1..3).contains(&to.0), "{action:?}"),
                    // What reaches the worker is what it waits for; taking it in checks that.
                    Action::Complete { worker: WorkerId(0), completion } => {
                        worker.complete(completion.clone(), &layout, None)
                    }
                    Action::CompleteSnapshot { worker: WorkerId(0), .. } => {}
                    Action::Complete { .. } | Action::CompleteSnapshot { .. } => panic!("{action:?}"),
                }
            }
        }
        // Of other nodes' keys, those can come that were asked for; where owners decide, any.
        let may_come = |key| match policy.relocation {
            None => false,
            Some(Initiator::Requester) => [6, 8].contains(&key),
            Some(Initiator::Owner) => true,
        };
        for key in (4..12).filter(|key| !may_come(*key)) {
            assert!(shared.peek(Key(key)).is_none(), "{key} appeared with {policy:?}");
        }
        came += (4..12).filter(|key| shared.peek(Key(*key)).is_some()).count();
    }
    assert!(came > 50, "hand-overs are accepted at times: {came}");
    assert!(refused > 10_000 && served > 10_000, "one-sided: {refused} refused, {served} served");
}

const KEYS: u64 = 12;

/// What there is to spoil: role and value of each key.
fn state(shared: &Shared<f32>) -> Vec<(Option<Vec<u32>>, Role)> {
    let bits = |value: Vec<f32>| value.into_iter().map(f32::to_bits).collect();
    // Looking makes values that a sparse store does not have yet.
    let look = |key| (shared.peek_copy(key).map(bits), shared.slot(key).role);
    (0..KEYS).map(|key| look(Key(key))).collect()
}

/// A node in the midst of things: replicas here, replicas of its keys elsewhere, updates that were not sent.
struct Busy {
    layout: Arc<Layout>,
    shared: Arc<Shared<f32>>,
    channel: Channel<f32>,
    worker: Local<f32>,
    clock: u32,
}

impl Busy {
    fn new(dice: &mut Dice, policy: Policy) -> Self {
        let layout = Layout::builder().range("k", KEYS, 2).nodes(3).shards(4).order(KeyOrder::Range);
        let layout = Arc::new(layout.build().unwrap());
        let mut assignment = Assignment::none();
        for key in [1, 5, 9] {
            assignment.set_technique(Key(key), KeyTechnique::Replicate);
        }
        let pace =
            if dice.below(2) == 0 { StaticReplicaPace::Asked } else { StaticReplicaPace::Every(Tick(5)) };
        let clip = (dice.below(2) == 0).then_some(2.0);
        let shared = Arc::new(Shared::<f32>::new(SharedConfig {
            node: NodeId(0),
            layout: Arc::clone(&layout),
            init: Arc::new(|_, value| value.fill(1.0)),
            storage: if dice.below(2) == 0 { Storage::Dense } else { Storage::Sparse },
            policy,
            replication: ReplicationConfig {
                assignment,
                pace,
                clip,
                staleness: 1,
                round_min: Tick(3),
                ..ReplicationConfig::default()
            },
            workers: 1,
        }));
        let channel = Channel::new(ChannelId(0), Arc::clone(&shared));
        Self { worker: Local::new(WorkerId(0), &layout), shared, channel, layout, clock: 0 }
    }

    /// Something that this node does itself. That never fails, unless a message was refused before in the middle of it.
    fn act(&mut self, dice: &mut Dice, now: Tick) -> Result<Vec<Action>, Violation> {
        let (key, mut actions) = (Key(dice.below(KEYS)), Vec::new());
        let mut inputs = Vec::new();
        let by_intent = self.shared.policy().intents.is_some();
        let directed = matches!(self.shared.policy().replicas, Some(Replicas::Directed { .. })) && !by_intent;
        let keys = vec![key];
        match dice.below(8) {
            0 => inputs.push(Input::Tick),
            1 => inputs.push(Input::Settle),
            2 if directed => inputs.push(Input::Replicate { keys }),
            3 if directed => inputs.push(Input::Unreplicate { keys }),
            2..=4 if by_intent => {
                let clock =
                    |dice: &mut Dice, more| intendant_core::Clock(self.clock + dice.below(more) as u32);
                let window = clock(dice, 8)..clock(dice, 16);
                let wake = self.shared.intend(WorkerId(0), &keys, window).unwrap();
                inputs.extend(wake.iter().map(|_| Input::Wake));
            }
            4 if directed => inputs.push(Input::Relocate { keys, to: NodeId(dice.below(3) as u16) }),
            5 => {
                self.clock += 1;
                let clock = intendant_core::Clock(self.clock);
                let rests = dice.below(3) == 0;
                let told = self.shared.advance_clock(&mut self.worker, clock);
                inputs.extend(told.wake.iter().map(|_| Input::Wake));
                inputs.extend(told.clock.map(Input::Clock));
                inputs.extend(if rests { self.shared.rest(&self.worker) } else { None }.map(Input::Clock));
            }
            kind => {
                let started = match kind {
                    6 if dice.below(2) == 0 => self.shared.set(&mut self.worker, &[key], &[2.0; 2]),
                    6 => Ok(self.shared.synchronize(&mut self.worker)),
                    7 => self.shared.push(&mut self.worker, &[key], &[1.0; 2]),
                    _ => self.shared.pull_kept(&mut self.worker, &[key]),
                };
                inputs.extend(started.unwrap().submissions.into_iter().map(|(_, s)| Input::Submit(s)));
            }
        }
        for input in inputs {
            self.channel.handle(now, input, &mut actions)?;
        }
        Ok(actions)
    }

    fn execute(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Send { to, .. } => assert!((1..3).contains(&to.0), "{action:?}"),
                Action::Complete { worker: WorkerId(0), completion } => {
                    self.worker.complete(completion.clone(), &self.layout, None);
                }
                Action::Complete { .. } | Action::CompleteSnapshot { .. } => panic!("{action:?}"),
            }
        }
    }
}

#[test]
fn a_node_with_copies_among_hostile_peers() {
    let directed = Policy {
        name: "test",
        relocation: Some(Initiator::Owner),
        replicas: Some(Replicas::Directed { every: Tick(5) }),
        ..Technique::Ssp.policy()
    };
    let policies = [
        directed,
        directed.with(None, Some(true)),
        Technique::Ssp.policy(),
        Technique::Essp.policy(),
        Technique::Nups.policy(),
        Technique::FullReplication.policy(),
        Technique::Adaptive.policy(),
        Technique::ReplicateOnIntent.policy(),
        Technique::RelocateOnIntent.policy(),
        Technique::ReplicateEverywhere.policy(),
        Technique::HomeDecides.policy(),
        Technique::NaiveIntents.policy(),
    ];
    let (mut refused, mut served) = ([0; 12], [0; 12]);
    for seed in 0..6_000u64 {
        let mut dice = Dice(seed);
        let at = seed as usize % policies.len();
        let mut node = Busy::new(&mut dice, policies[at]);
        let (mut now, mut clean) = (Tick(0), true);
        for _ in 0..100 {
            now.0 += 1;
            if dice.below(3) == 0 {
                match node.act(&mut dice, now) {
                    Ok(actions) => node.execute(&actions),
                    Err(violation) if clean => panic!("{violation}"),
                    Err(_) => break,
                }
                continue;
            }
            let message = Message::decode(dice.message().encode()).unwrap();
            let (before, text) = (state(&node.shared), format!("{message:?}"));
            // Of several keys, those before the offending one may have been served.
            let one = match &message {
                Message::ReplicaRequest(sync) => sync.keys.len() <= 1,
                Message::ReplicaUpdate(news) => news.keys.len() <= 1,
                Message::HandOver(hand_over) => hand_over.keys.len() <= 1,
                Message::IntentReport(signal) => signal.begun.len() + signal.over.len() <= 1,
                Message::Reduce(_) => true,
                // It lets accesses go on that wait, which may be what a message that was refused has left half done.
                Message::Clock(_) => clean,
                Message::Request(_) | Message::Response(_) | Message::Localize(_) | Message::Relocate(_) => {
                    false
                }
                Message::Moved(_) | Message::SnapshotRequest(_) | Message::SnapshotPart(_) => false,
            };
            let mut actions = Vec::new();
            let from = NodeId(1 + dice.below(2) as u16);
            match node.channel.handle(now, Input::Message { from, message }, &mut actions) {
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
