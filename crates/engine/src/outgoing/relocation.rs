//! Outgoing messages of relocation, and intent reports to homes.

use super::buffers::{Buffers, Room};
use super::groups::Groups;
use crate::input::Action;
use intendant_core::{Key, NodeId, limits};
use intendant_techniques::replication::{Holder, Hub};
use intendant_wire::{HEADER_BYTES, HandOver, HolderRow, IntentReport, Localize, Message, Moved, Relocate};
use std::collections::BTreeMap;
use std::mem;

/// Relocation messages of the current turn.
#[derive(Default)]
pub(crate) struct RelocationMessages {
    /// By receiver, requester and number of forwards.
    localize: Groups<(NodeId, NodeId, u8), Vec<Key>>,
    /// By old owner and new owner.
    relocate: Groups<(NodeId, NodeId), (Vec<Key>, Vec<u32>)>,
    /// By new owner.
    hand_over: Groups<NodeId, Cargo>,
    /// By home.
    intent_reports: BTreeMap<NodeId, IntentReport>,
    /// By receiver.
    moved: Groups<NodeId, (Vec<Key>, Vec<u32>)>,
    /// Hand-overs whose frame is full.
    ready: Vec<Action>,
    /// Other messages whose frame is full. They leave after the hand-overs.
    full: Vec<Action>,
    /// What the current input hands over at most; zero if that is unknown.
    room: Room,
    buffers: Buffers,
}

/// What leaves with a key, beside its value.
#[derive(Clone, Copy)]
pub(crate) struct Departing<'a> {
    /// The relocation counter of the key from now on.
    pub(crate) counter: u32,
    /// The record of its replicas elsewhere, if there are any.
    pub(crate) hub: Option<&'a Hub>,
    /// Where nodes broadcast operations: per node, how many of its broadcasts the key has been through.
    pub(crate) decided: &'a [u32],
}

#[derive(Default)]
struct Cargo {
    keys: Vec<Key>,
    counters: Vec<u32>,
    decided: Vec<u32>,
    holders: Vec<HolderRow>,
    values: Vec<u8>,
}

impl Cargo {
    fn with(room: Room, decided: &[u32], buffers: &mut Buffers) -> Self {
        Self {
            keys: Vec::with_capacity(room.keys),
            counters: Vec::with_capacity(room.keys),
            decided: decided.to_vec(),
            holders: Vec::new(),
            values: buffers.take_for(room),
        }
    }
}

impl RelocationMessages {
    /// Announces how many keys and bytes of values the input hands over at most.
    pub(crate) fn expect(&mut self, room: Room) {
        self.room = room.of_a_frame();
    }

    /// Asks `to` to move `key` to `requester`; nodes have forwarded this `hops` times.
    pub(crate) fn localize(&mut self, to: NodeId, requester: NodeId, hops: u8, key: Key) {
        self.localize.entry((to, requester, hops), Vec::new).push(key);
    }

    /// Tells `owner` to hand `key` over to `to`.
    pub(crate) fn relocate(&mut self, owner: NodeId, to: NodeId, key: Key, counter: u32) {
        let (keys, counters) = self.relocate.entry((owner, to), Default::default);
        keys.push(key);
        counters.push(counter);
        // A home that acts on its own intents may order more relocations than one frame takes.
        if keys.len() == limits::FRAME_KEYS_MAX {
            let (keys, counters) = (mem::take(keys), mem::take(counters));
            self.full.push(Action::Send {
                to: owner,
                message: Message::Relocate(Relocate { to, keys, counters }),
            });
        }
    }

    /// Hands `key` over to `to`; `copy` appends the `bytes` bytes of its value.
    pub(crate) fn hand_over(
        &mut self,
        to: NodeId,
        key: Key,
        departing: Departing<'_>,
        bytes: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        let Departing { counter, hub, decided } = departing;
        let (room, buffers) = (self.room, &mut self.buffers);
        let cargo = self.hand_over.entry(to, || Cargo::with(room, decided, buffers));
        let payload = cargo.values.len() + bytes;
        let rows = cargo.holders.len() + hub.map_or(0, |hub| hub.holders().len());
        let heads =
            (cargo.keys.len() + 1) * HandOver::KEY_BYTES + rows * HolderRow::BYTES + size_of_val(decided);
        let full = payload > limits::FRAME_PAYLOAD_BYTES_TARGET
            || cargo.keys.len() == limits::FRAME_KEYS_MAX
            || rows > limits::FRAME_KEYS_MAX
            || cargo.decided != decided
            || HEADER_BYTES + heads + payload > limits::FRAME_BYTES_MAX;
        if full && !cargo.keys.is_empty() {
            let full = mem::replace(cargo, Cargo::with(room, decided, &mut self.buffers));
            self.ready.push(load(to, full, &mut self.buffers));
        }
        let at = cargo.keys.len() as u32;
        cargo.keys.push(key);
        cargo.counters.push(counter);
        if let Some(hub) = hub {
            let version = hub.version();
            if cargo.holders.capacity() == 0 {
                cargo.holders.reserve(room.keys * hub.holders().len());
            }
            cargo.holders.extend(hub.holders().iter().map(|holder| {
                let Holder { node, generation, seq, .. } = *holder;
                HolderRow { at, version, node, generation, seq }
            }));
        }
        copy(&mut cargo.values);
    }

    /// Tells `to` that `key` is here.
    pub(crate) fn moved(&mut self, to: NodeId, key: Key, counter: u32) {
        let (keys, counters) = self.moved.entry(to, Default::default);
        keys.push(key);
        counters.push(counter);
    }

    /// Reports to `home` that this node's intent for `key` has become active or has ended.
    pub(crate) fn report_intent(&mut self, home: NodeId, active: bool, key: Key) {
        let report = self
            .intent_reports
            .entry(home)
            .or_insert_with(|| IntentReport { begun: Vec::new(), over: Vec::new() });
        if active {
            report.begun.push(key)
        } else {
            report.over.push(key)
        }
        if report.begun.len() + report.over.len() == limits::FRAME_KEYS_MAX
            && let Some(report) = self.intent_reports.remove(&home)
        {
            self.full.push(Action::Send { to: home, message: Message::IntentReport(report) });
        }
    }

    /// Sends everything. Hand-overs leave first: a forwarded request must not arrive before the key that it
    /// follows.
    pub(crate) fn flush(&mut self, actions: &mut Vec<Action>) {
        actions.append(&mut self.ready);
        while let Some((to, cargo)) = self.hand_over.pop_first() {
            actions.push(load(to, cargo, &mut self.buffers));
        }
        actions.append(&mut self.full);
        let mut send = |to, message| actions.push(Action::Send { to, message });
        // These keys came from one call or one frame, so they fit into one frame.
        while let Some(((owner, to), (keys, counters))) = self.relocate.pop_first() {
            // The last key has filled the frame, which is in `full`.
            if keys.is_empty() {
                continue;
            }
            send(owner, Message::Relocate(Relocate { to, keys, counters }));
        }
        while let Some(((to, requester, hops), keys)) = self.localize.pop_first() {
            send(to, Message::Localize(Localize { requester, hops, keys }));
        }
        while let Some((home, report)) = self.intent_reports.pop_first() {
            send(home, Message::IntentReport(report));
        }
        while let Some((to, (keys, counters))) = self.moved.pop_first() {
            send(to, Message::Moved(Moved { keys, counters }));
        }
        self.room = Room::default();
    }
}

fn load(to: NodeId, cargo: Cargo, buffers: &mut Buffers) -> Action {
    let Cargo { keys, counters, decided, holders, values } = cargo;
    let hand_over = HandOver { keys, counters, decided, holders, values: buffers.lend(values) };
    Action::Send { to, message: Message::HandOver(hand_over) }
}
