//! Counts how often each case of a mechanism occurs, and keeps what one node alone cannot know.

use intendant_core::{Key, NodeId};
use intendant_engine::{Action, Channel, Shared};
use intendant_techniques::Role;
use intendant_wire::{
    HandOver, Message, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Watch {
    nodes: usize,
    traced: bool,
    /// What happened, if a test compares it.
    pub(crate) log: Option<Vec<String>>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Per key, the number of hand-overs on their way.
    flying: Vec<usize>,
    /// By node and key: the generation for which the node asked last.
    generations: BTreeMap<(usize, Key), u32>,
    /// By node and key: the generation and number of the delta in flight.
    deltas: BTreeMap<(usize, Key), (u32, u32)>,
    /// The last tag.
    tags: u32,
    /// By key: the tags that workers have set.
    issued: BTreeMap<Key, BTreeSet<u32>>,
    /// By key: the tags that the main copy has had, in order.
    order: BTreeMap<Key, Vec<u32>>,
}

impl Watch {
    pub(crate) fn new(nodes: usize, keys: u64) -> Self {
        let traced = std::env::var_os("INTENDANT_TRACE").is_some();
        Self { nodes, traced, flying: vec![0; keys as usize], ..Self::default() }
    }

    /// Logs what happens, or prints it with `INTENDANT_TRACE=1`.
    pub(crate) fn trace(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(what());
        } else if self.traced {
            eprintln!("{}", what());
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_insert(0) += 1;
    }

    pub(crate) fn flying(&self, key: Key) -> usize {
        self.flying[key.0 as usize]
    }

    pub(crate) fn generation(&self, node: usize, key: Key) -> Option<u32> {
        self.generations.get(&(node, key)).copied()
    }

    /// A tag that no worker has set.
    pub(crate) fn tag(&mut self, key: Key) -> u32 {
        self.tags += 1;
        self.issued.entry(key).or_default().insert(self.tags);
        self.tags
    }

    pub(crate) fn is_tag(&self, key: Key, tag: f32) -> bool {
        self.issued.get(&key).is_some_and(|issued| issued.contains(&(tag as u32)) && tag == tag.trunc())
    }

    /// Notes the tag of the main copy. A tag that was overwritten must not return.
    pub(crate) fn main(&mut self, key: Key, tag: f32) {
        assert!(tag == 0.0 || self.is_tag(key, tag), "no worker set {key:?} to {tag}");
        let order = self.order.entry(key).or_default();
        if order.last() != Some(&(tag as u32)) {
            assert!(!order.contains(&(tag as u32)), "{key:?} has the tag {tag} again");
            order.push(tag as u32);
        }
    }

    /// Whether the main copy had the tag `later` not earlier than `before`. True if it was never seen with
    /// one of them.
    pub(crate) fn follows(&self, key: Key, before: f32, later: f32) -> bool {
        let at = |tag: f32| self.order.get(&key)?.iter().position(|seen| *seen == tag as u32);
        match (at(before), at(later)) {
            (Some(before), Some(later)) => before <= later,
            (None, _) | (_, None) => true,
        }
    }

    /// Call this before `node` handles `message`.
    pub(crate) fn before(
        &mut self,
        node: usize,
        message: &Message,
        shared: &Shared<f32>,
        channel: &Channel<f32>,
    ) {
        if let Message::HandOver(hand_over) = message {
            self.before_hand_over(node, hand_over, shared);
        } else if let Message::ReplicaRequest(request) = message {
            self.before_request(node, request, shared, channel);
        } else if let Message::ReplicaUpdate(update) = message {
            self.before_update(node, update, shared);
        }
    }

    fn before_hand_over(&mut self, node: usize, hand_over: &HandOver, shared: &Shared<f32>) {
        for (at, key) in hand_over.keys.iter().enumerate() {
            self.flying[key.0 as usize] -= 1;
            let rows = || hand_over.holders.iter().filter(|row| row.at as usize == at);
            if rows().any(|row| row.node.index() != node) {
                self.count("handed over with holders");
            }
            let state = shared.inspect().slot(*key);
            let delta = self.deltas.remove(&(node, *key));
            if state.role != Role::Replica {
                continue;
            }
            self.count("promoted");
            let row = rows().find(|row| row.node.index() == node);
            if state.is_closed() {
                self.count("promoted while closed");
            }
            if row.is_none_or(|row| Some(row.generation) != self.generation(node, *key)) {
                self.count("promoted without a registration");
            }
            if state.is_dirty() {
                self.count("promoted with unsent updates");
            }
            match (delta, row) {
                (Some((generation, seq)), Some(row)) if row.generation == generation && row.seq == seq => {
                    self.count("promoted, delta in flight merged");
                }
                (Some(_), _) => self.count("promoted, delta in flight not merged"),
                (None, _) => {}
            }
        }
    }

    fn before_request(
        &mut self,
        node: usize,
        request: &ReplicaRequest,
        shared: &Shared<f32>,
        channel: &Channel<f32>,
    ) {
        let holder = request.holder.index();
        for (key, generation) in request.keys.iter().zip(&request.generations) {
            if !shared.inspect().slot(*key).role.is_owner() {
                self.count("request forwarded");
                continue;
            }
            let hub = channel.hub(*key);
            let record = hub.and_then(|hub| hub.holders().iter().find(|known| known.node == request.holder));
            let known = record.is_some_and(|record| record.generation == *generation);
            match request.kind {
                ReplicaRequestKind::Delta if holder == node => self.count("ghost returned to its holder"),
                ReplicaRequestKind::Delta if !known => self.count("ghost reached another owner"),
                ReplicaRequestKind::Ask if holder == node => self.count("ask reached its sender"),
                ReplicaRequestKind::Ask if record.is_some() && !known => {
                    self.count("ask with another generation")
                }
                ReplicaRequestKind::Drop if !known => self.count("drop without a registration"),
                ReplicaRequestKind::Ask | ReplicaRequestKind::Delta | ReplicaRequestKind::Drop => {}
            }
        }
    }

    fn before_update(&mut self, node: usize, update: &ReplicaUpdate, shared: &Shared<f32>) {
        for (at, (key, generation)) in update.keys.iter().zip(&update.generations).enumerate() {
            let known = self.generation(node, *key) == Some(*generation);
            let state = shared.inspect().slot(*key);
            match update.kind {
                ReplicaUpdateKind::SetUp if !known || state.role.is_owner() => self.count("late set-up"),
                ReplicaUpdateKind::Refresh if state.role == Role::Absent && known => {
                    self.count("refreshed before set-up")
                }
                ReplicaUpdateKind::Dropped if !known => self.count("late dropped"),
                ReplicaUpdateKind::Dropped if state.is_dirty() => self.count("updated since the drop"),
                ReplicaUpdateKind::SetUp
                | ReplicaUpdateKind::Refresh
                | ReplicaUpdateKind::Acknowledged
                | ReplicaUpdateKind::Dropped => {}
            }
            if known
                && update
                    .seqs
                    .get(at)
                    .is_some_and(|seq| self.deltas.get(&(node, *key)) == Some(&(*generation, *seq)))
            {
                self.deltas.remove(&(node, *key));
                let acknowledged = update.kind == ReplicaUpdateKind::Acknowledged;
                self.count(if acknowledged {
                    "acknowledged without a value"
                } else {
                    "acknowledged with a value"
                });
            }
        }
    }

    /// Call this after `node` has handled a message.
    pub(crate) fn after(&mut self, node: usize, actions: &[Action], shared: &Shared<f32>) {
        let mut refreshed = BTreeSet::new();
        for action in actions {
            let Action::Send { to, message } = action else { continue };
            assert!(to.index() < self.nodes && to.index() != node, "node {node} sends to {to}");
            if let Message::HandOver(hand_over) = message {
                hand_over.keys.iter().for_each(|key| self.flying[key.0 as usize] += 1);
            } else if let Message::ReplicaUpdate(ReplicaUpdate { kind: ReplicaUpdateKind::Refresh, .. }) =
                message
            {
                refreshed.insert(*to);
            } else if matches!(message, Message::Response(_)) && refreshed.contains(to) {
                self.count("refreshed before the answer");
            } else if let Message::ReplicaRequest(request) = message
                && request.holder == NodeId(node as u16)
                && request.hops == 0
            {
                self.after_request(node, request, shared);
            }
        }
    }

    fn after_request(&mut self, node: usize, request: &ReplicaRequest, shared: &Shared<f32>) {
        for (at, (key, generation)) in request.keys.iter().zip(&request.generations).enumerate() {
            match request.kind {
                ReplicaRequestKind::Ask => {
                    let before = self.generations.insert((node, *key), *generation);
                    if before == Some(*generation) {
                        self.count("asked again");
                    } else if shared.inspect().slot(*key).role == Role::Replica {
                        self.count("revived");
                    }
                }
                ReplicaRequestKind::Delta => {
                    self.count("delta sent");
                    let before = self.deltas.insert((node, *key), (*generation, request.numbers[at]));
                    assert_eq!(before, None, "{key:?}: two deltas of {node} in flight");
                }
                ReplicaRequestKind::Drop => self.count("drop sent"),
            }
        }
    }
}
