//! Observes what a channel does about replicas: records it in the invariants' own accounts, checks it there,
//! and marks what was reached.

use super::Checker;
use super::watched::WatchedInput;
use crate::invariants::{Promoted, Registered, SentUpdate, urgent};
use intendant_core::{Element, Key, NodeId, Precision};
use intendant_engine::Action;
use intendant_sim::Finding;
use intendant_sim::cluster::Seen;
use intendant_sim::reach::Marker;
use intendant_techniques::clocks::RESTING;
use intendant_techniques::{Replicas, Role};
use intendant_wire::{
    ClockScope, Message, MessageFamily, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind,
};
use xxhash_rust::xxh3::xxh3_64;

impl Checker {
    /// Checks that a channel that has looked has left no urgent replica behind.
    pub(super) fn check_urgent<E: Element>(&self, seen: &Seen<'_, E>, station: usize) -> Result<(), Finding> {
        if !matches!(self.policy.replicas, Some(Replicas::Directed { .. })) {
            return Ok(());
        }
        let channels = self.layout.channels();
        let node = seen.nodes.at(station / channels);
        let here = |key: &Key| self.layout.channel(*key).index() == station % channels;
        (0..self.layout.keys()).map(Key).filter(here).try_for_each(|key| {
            let waits = self.invariants.merged.waits(key, node.node());
            urgent::after_look(node.node(), key, &node.slot(key), waits)
        })
    }

    /// Checks an input and its actions as far as they concern replicas.
    pub(super) fn check_replication<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        actions: &[Action],
    ) -> Result<(), Finding> {
        if self.policy.replicas.is_none() && self.policy.static_replicas.is_none() {
            return Ok(());
        }
        let here = NodeId((station / self.layout.channels()) as u16);
        check_quiet_at_rest(seen.rests, here, actions)?;
        if self.policy.static_replicas.is_some() {
            self.check_rounds(seen, station, actions)?;
        }
        if self.policy.replicas.is_none() {
            return Ok(());
        }
        match self.watch.input {
            WatchedInput::ReplicaRequest { kind, holder } => {
                self.record_replica_request(seen, station, (kind, holder), actions)
            }
            WatchedInput::ReplicaUpdate(kind) => self.record_replica_update(seen, here, kind),
            WatchedInput::HandOver => self.record_arrivals(seen, here),
            WatchedInput::Clock { from, scope, clock } => {
                self.record_clock(seen, station, from, (scope, clock))
            }
            WatchedInput::Other
            | WatchedInput::Access { .. }
            | WatchedInput::LocalizeCall
            | WatchedInput::MoveDecision
            | WatchedInput::Response
            | WatchedInput::Localize(_)
            | WatchedInput::Void
            | WatchedInput::Relocate
            | WatchedInput::IntentReport { .. }
            | WatchedInput::Moved
            | WatchedInput::Reduce { .. }
            | WatchedInput::Synchronize { .. }
            | WatchedInput::Tick
            | WatchedInput::Settle => {}
        }
        self.record_sent(seen, station, actions)?;
        let stats = seen.engine(station).management();
        if stats.stale_reads > self.watch.stale_reads {
            seen.reach.mark(Marker::ParkedRead);
        }
        self.invariants.merged.handled()
    }

    /// Records a holder's message that arrived.
    fn record_replica_request<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        (kind, holder): (ReplicaRequestKind, NodeId),
        actions: &[Action],
    ) {
        let here = NodeId((station / self.layout.channels()) as u16);
        let Self { watch, invariants, .. } = self;
        let reach = &mut *seen.reach;
        let merged = &mut invariants.merged;
        let answered = |key: Key| {
            actions.iter().any(|action| match action {
                Action::Send { message: Message::ReplicaUpdate(update), .. } => update.keys.contains(&key),
                Action::Send { .. } | Action::Complete { .. } | Action::CompleteSnapshot { .. } => false,
            })
        };
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            let (key, generation) = (*key, watch.generations[at]);
            // An untouched key is owned by its home without a slot that says so.
            let untouched = *slot == intendant_techniques::SlotState::default();
            if !(slot.role.is_owner() || untouched && self.layout.home(key) == here) {
                reach.mark(Marker::ForwardedSync);
                continue;
            }
            if holder == here {
                reach.mark(Marker::GhostCameHome);
                continue;
            }
            match kind {
                ReplicaRequestKind::Ask => {
                    let need = watch.numbers[at];
                    let registered = merged.ask_received(key, holder, generation, need);
                    if registered == Registered::Again && !answered(key) {
                        reach.mark(Marker::EarlyAsk);
                    }
                }
                ReplicaRequestKind::Delta => {
                    if !merged.delta_received(key, holder, generation, watch.numbers[at]) {
                        reach.mark(Marker::GhostDelta);
                    }
                }
                ReplicaRequestKind::Drop => merged.drop_received(key, holder, generation),
            }
        }
    }

    /// Records an owner's message that arrived at a holder.
    fn record_replica_update<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        here: NodeId,
        kind: ReplicaUpdateKind,
    ) {
        let Self { watch, invariants, .. } = self;
        let Seen { nodes, reach, .. } = seen;
        let merged = &mut invariants.merged;
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            let (key, generation) = (*key, watch.generations[at]);
            let known = merged.generation(key, here) == Some(generation);
            let role = nodes.at(here.index()).slot(key).role;
            if kind != ReplicaUpdateKind::Dropped {
                merged.update_received(key, here, generation, watch.numbers[at]);
            }
            let marks = [
                (kind == ReplicaUpdateKind::SetUp && known && role == Role::Replica, Marker::ReplicaSetUp),
                (kind == ReplicaUpdateKind::SetUp && !known, Marker::ZombieRefused),
                (kind == ReplicaUpdateKind::Acknowledged && known, Marker::AcknowledgedBare),
                (
                    kind == ReplicaUpdateKind::Dropped && slot.role == Role::Replica && role == Role::Absent,
                    Marker::ReplicaDropped,
                ),
                (
                    kind == ReplicaUpdateKind::Dropped && slot.role == Role::Replica && !known,
                    Marker::StaleDropped,
                ),
            ];
            marks.into_iter().filter(|(reached, _)| *reached).for_each(|(_, marker)| reach.mark(marker));
        }
    }

    /// Records keys that arrived, possibly at nodes that hold replicas of them.
    fn record_arrivals<E: Element>(&mut self, seen: &mut Seen<'_, E>, here: NodeId) {
        let Self { watch, invariants, .. } = self;
        let reach = &mut *seen.reach;
        for (key, slot) in watch.keys.iter().zip(&watch.slots) {
            let promoted = invariants.merged.arrived(*key, here);
            if slot.role != Role::Replica {
                continue;
            }
            if slot.is_dirty() {
                reach.mark(Marker::PromotedUnsent);
            }
            reach.mark(match promoted {
                Promoted::NoReplica | Promoted::NothingInFlight => Marker::Promoted,
                Promoted::Merged => Marker::PromotedMerged,
                Promoted::Unmerged => Marker::PromotedUnmerged,
            });
        }
    }

    /// Marks what a received clock reaches.
    fn record_clock<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        from: NodeId,
        (scope, clock): (ClockScope, u32),
    ) {
        let nodes = self.layout.nodes();
        self.clocks_received.resize(nodes * self.layout.channels() * nodes, 0);
        let clocks_received = &mut self.clocks_received[station * nodes..(station + 1) * nodes];
        match scope {
            ClockScope::Node => clocks_received[from.index()] = clock,
            ClockScope::Resumed => {
                if (0..nodes).any(|other| other != from.index() && clocks_received[other] == RESTING) {
                    seen.reach.mark(Marker::ResumeLifted);
                }
            }
            ClockScope::Global => seen.reach.mark(Marker::EagerNews),
        }
    }

    /// Records and checks the messages that the channel sends.
    fn record_sent<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        actions: &[Action],
    ) -> Result<(), Finding> {
        let here = NodeId((station / self.layout.channels()) as u16);
        let mut updates = Vec::new();
        let mut refreshed = Vec::new();
        for action in actions {
            let Action::Send { to, message } = action else { continue };
            match message {
                Message::ReplicaRequest(request) => self.record_sent_replica_request(seen, here, request)?,
                Message::Relocate(relocate) => {
                    for key in &relocate.keys {
                        self.check_relocation_order(seen, station, *key, relocate.to)?;
                    }
                }
                Message::ReplicaUpdate(update) => {
                    if update.kind == ReplicaUpdateKind::Refresh {
                        refreshed.push(*to);
                    }
                    self.list_sent_updates(seen, *to, update, &mut updates);
                }
                Message::Response(_) => {
                    if refreshed.contains(to) {
                        seen.reach.mark(Marker::RefreshBeforeAnswer);
                    }
                }
                Message::HandOver(hand_over) => {
                    for (at, key) in hand_over.keys.iter().enumerate() {
                        let rows = hand_over.holders.iter().filter(|row| row.at as usize == at);
                        if rows.clone().next().is_some() {
                            seen.reach.mark(Marker::HoldersMoved);
                        }
                        self.check_departure(seen, station, (*key, *to), rows.clone())?;
                        self.invariants.merged.handed_over(*key, rows)?;
                    }
                }
                Message::Request(_)
                | Message::SnapshotRequest(_)
                | Message::SnapshotPart(_)
                | Message::Localize(_)
                | Message::Moved(_)
                | Message::Clock(_)
                | Message::Reduce(_)
                | Message::IntentReport(_)
                | Message::Locate(_)
                | Message::Located(_)
                | Message::Void(_) => {}
            }
        }
        // Messages are grouped by receiver; the versions of a key ascend in the order of its updates.
        updates.sort_by_key(|update: &SentUpdate| (update.key, update.version));
        updates.into_iter().try_for_each(|update| self.invariants.merged.update_sent(update))
    }

    /// Appends the updates of a message, key by key.
    fn list_sent_updates<E: Element>(
        &self,
        seen: &Seen<'_, E>,
        to: NodeId,
        update: &ReplicaUpdate,
        updates: &mut Vec<SentUpdate>,
    ) {
        let ReplicaUpdate { kind, keys, generations, seqs, versions, precision, values, .. } = update;
        let rounds = seen.nodes.at(to.index()).replication().precision == Precision::Bf16;
        let mut offset = 0;
        for (at, key) in keys.iter().enumerate() {
            let value = matches!(kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh).then(|| {
                let start = offset;
                offset += precision.bytes::<E>(self.layout.len(*key) * size_of::<E>());
                let value = &values[start..offset];
                // A version is one value, which some holders may have got rounded.
                if rounds && *precision == Precision::Exact { rounded::<E>(value) } else { xxh3_64(value) }
            });
            let number = |numbers: &[u32]| numbers.get(at).copied().unwrap_or_default();
            let (generation, seq, version) = (generations[at], number(seqs), number(versions));
            updates.push(SentUpdate { key: *key, to, kind: *kind, generation, seq, version, value });
        }
    }

    /// Records a holder's message when the holder itself sends it, not when other nodes forward it.
    fn record_sent_replica_request<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        here: NodeId,
        request: &ReplicaRequest,
    ) -> Result<(), Finding> {
        let ReplicaRequest { kind, hops, keys, generations, numbers, .. } = request;
        if *hops > 0 {
            return Ok(());
        }
        let lazy = self.policy.replicas == Some(Replicas::Lazy);
        let settles = matches!(self.watch.input, WatchedInput::Settle);
        let Seen { nodes, reach, .. } = seen;
        let Self { invariants, .. } = self;
        let merged = &mut invariants.merged;
        for (at, key) in keys.iter().enumerate() {
            let (key, generation) = (*key, generations[at]);
            let slot = nodes.at(here.index()).slot(key);
            match kind {
                ReplicaRequestKind::Ask => {
                    let anew = merged.ask_sent(key, here, generation, numbers[at])?;
                    if anew && slot.role == Role::Replica {
                        reach.mark(Marker::ReplicaRevived);
                    }
                }
                ReplicaRequestKind::Delta => merged.delta_sent(key, here, generation, numbers[at])?,
                ReplicaRequestKind::Drop => {
                    merged.drop_sent(key, here, generation)?;
                    let marks =
                        [(lazy && !settles, Marker::LazyDrop), (slot.is_closed(), Marker::ReplicaClosed)];
                    let reached = marks.into_iter().filter(|(reached, _)| *reached);
                    reached.for_each(|(_, marker)| reach.mark(marker));
                }
            }
        }
        Ok(())
    }

    /// Checks all-reduces and marks what was reached.
    fn check_rounds<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        actions: &[Action],
    ) -> Result<(), Finding> {
        let (before, was_running) = self.invariants.rounds.of(station);
        let (nodes, channels) = (self.layout.nodes(), self.layout.channels());
        let agreed = seen.engine(station).agreed();
        let mut running = was_running && agreed.0 == before;
        let (mut split, mut folded) = (false, false);
        for action in actions {
            match action {
                Action::Send { message: Message::Reduce(reduce), .. } => {
                    running |= reduce.round == agreed.0;
                    split |= !reduce.last;
                    folded |= reduce.step == 0 && !reduce.indices.is_empty();
                }
                Action::Complete { .. } | Action::Send { .. } | Action::CompleteSnapshot { .. } => {}
            }
        }
        let marks = match self.watch.input {
            WatchedInput::Reduce { round } => {
                [(round > before, Marker::EarlyReduce), (!was_running && running, Marker::RoundCalled)]
            }
            WatchedInput::Other
            | WatchedInput::Access { .. }
            | WatchedInput::LocalizeCall
            | WatchedInput::MoveDecision
            | WatchedInput::Response
            | WatchedInput::Localize(_)
            | WatchedInput::Void
            | WatchedInput::Relocate
            | WatchedInput::IntentReport { .. }
            | WatchedInput::HandOver
            | WatchedInput::Moved
            | WatchedInput::ReplicaRequest { .. }
            | WatchedInput::ReplicaUpdate(_)
            | WatchedInput::Clock { .. }
            | WatchedInput::Synchronize { .. }
            | WatchedInput::Tick
            | WatchedInput::Settle => [(false, Marker::EarlyReduce), (false, Marker::RoundCalled)],
        };
        let more = [(split, Marker::SplitReduce), (folded && !nodes.is_power_of_two(), Marker::Folded)];
        let reached = marks.into_iter().chain(more).filter(|(reached, _)| *reached);
        reached.for_each(|(_, marker)| seen.reach.mark(marker));
        let rounds = &mut self.invariants.rounds;
        if let WatchedInput::Synchronize { worker, op } = self.watch.input {
            rounds.asked(station, worker, op);
        }
        if rounds.handled(station, station % channels, agreed, running)? {
            seen.reach.mark(Marker::Agreed);
        }
        actions.iter().try_for_each(|action| match action {
            Action::Complete { worker, completion } => {
                self.invariants.rounds.answered(station, *worker, completion.op)
            }
            Action::Send { .. } | Action::CompleteSnapshot { .. } => Ok(()),
        })
    }
}

/// A quiescent cluster sends no messages about replicas until a worker continues.
fn check_quiet_at_rest(rests: bool, here: NodeId, actions: &[Action]) -> Result<(), Finding> {
    if !rests {
        return Ok(());
    }
    let receiver = actions.iter().find_map(|action| match action {
        Action::Send { to, message } => match message.class().family() {
            MessageFamily::Replica
            | MessageFamily::Clock
            | MessageFamily::AllReduce
            | MessageFamily::Intent => Some(to),
            MessageFamily::Access
            | MessageFamily::Snapshot
            | MessageFamily::Relocation
            | MessageFamily::Location => None,
        },
        Action::Complete { .. } | Action::CompleteSnapshot { .. } => None,
    });
    match receiver {
        None => Ok(()),
        Some(to) => {
            Err(("quiet", format!("the cluster rests, and {here:?} sends {to:?} a message about replicas")))
        }
    }
}

/// The hash of an exact value after rounding.
fn rounded<E: Element>(value: &[u8]) -> u64 {
    let elements: Vec<E> = value.chunks_exact(size_of::<E>()).map(E::read_le).collect();
    let mut bytes = Vec::new();
    Precision::Bf16.write(&elements, &mut bytes);
    xxh3_64(&bytes)
}
