//! Whatever a peer's frames say, an engine answers with messages to other nodes of the cluster or names the peer; it does not
//! panic, and it does not change values that it does not own.

use bytes::Bytes;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId, random};
use intendant_engine::{Action, Channel, Input, Local, Shared, SharedConfig, SnapshotAsk, Storage};
use intendant_techniques::{Initiator, Order, Policy, Technique};
use intendant_wire::{
    AccessKind, Cursor, HandOver, Localize, Message, Moved, OpId, Origin, Relocate, Request, Response,
    SnapshotPart, SnapshotRequest,
};
use std::sync::Arc;

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
        match self.below(8) {
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
            5 => Message::HandOver(HandOver { keys, counters, values }),
            6 => Message::Moved(Moved { keys, counters }),
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
fn two_hundred_thousand_hostile_messages() {
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
        for _ in 0..100 {
            let message = Message::decode(dice.message().encode()).unwrap();
            actions.clear();
            match channel.handle(Tick(0), Input::Message { from: NodeId(1), message }, &mut actions) {
                Ok(()) => served += 1,
                Err(violation) => {
                    assert_eq!(violation.from, NodeId(1));
                    refused += 1;
                }
            }
            for action in &actions {
                match action {
                    Action::Send { to, .. } => assert!((1..3).contains(&to.0), "{action:?}"),
                    // What reaches the worker is what it waits for; taking it in checks that.
                    Action::Complete { worker: WorkerId(0), completion } => {
                        worker.complete(completion, &layout, None)
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
    assert!(came > 100, "hand-overs are accepted at times: {came}");
    assert!(refused > 10_000 && served > 10_000, "one-sided: {refused} refused, {served} served");
}
