//! Watching what a channel does about copies: enters it into the books, and notes what was reached.

use super::watch::About;
use super::{Checks, Cluster};
use crate::invariants::{Asked, Finding, Promoted, Told};
use crate::reach::Marker;
use intendant_core::{Element, Key, NodeId};
use intendant_engine::Action;
use intendant_techniques::clocks::RESTING;
use intendant_techniques::{Replicas, Role};
use intendant_wire::{
    ClockScope, Message, MessageFamily, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind,
};
use xxhash_rust::xxh3::xxh3_64;

impl<E: Element> Cluster<E> {
    /// Whether there is anything to watch: copies, in a run that looks for errors.
    fn has_books(&self) -> bool {
        self.checks == Checks::EveryStep
            && (self.policy.replicas.is_some() || self.policy.static_replicas.is_some())
    }

    /// The channel has handled an input that may concern copies.
    pub(super) fn follow_copies(&mut self, station: usize, actions: &[Action]) -> Result<(), Finding> {
        if !self.has_books() {
            return Ok(());
        }
        let here = NodeId((station / self.layout.channels()) as u16);
        self.check_silence(here, actions)?;
        if self.policy.static_replicas.is_some() {
            self.follow_rounds(station, actions)?;
        }
        if self.policy.replicas.is_none() {
            return Ok(());
        }
        match self.watch.about {
            About::ReplicaRequest { kind, holder } => self.enter_sync(station, kind, holder, actions),
            About::ReplicaUpdate(kind) => self.enter_news(here, kind),
            About::HandOver => self.enter_arrivals(here),
            About::Clock { from, scope, clock } => self.enter_clock(station, from, scope, clock),
            About::Other
            | About::Access { .. }
            | About::Wanted
            | About::Order
            | About::Response
            | About::Localize(_)
            | About::Relocate
            | About::IntentReport { .. }
            | About::Moved
            | About::Reduce { .. }
            | About::Synchronize { .. }
            | About::Time
            | About::Settle => {}
        }
        self.enter_sent(station, actions)?;
        let stats = self.stations[station].engine.management();
        if stats.stale_reads > self.watch.stale_reads {
            self.reach.mark(Marker::ParkedRead);
        }
        self.invariants.merged.handled()
    }

    /// In a cluster at rest, nodes send no messages about copies until a worker continues.
    fn check_silence(&self, here: NodeId, actions: &[Action]) -> Result<(), Finding> {
        if !self.resting {
            return Ok(());
        }
        let spoken = actions.iter().find_map(|action| match action {
            Action::Send { to, message } => match message.class().family() {
                MessageFamily::Replica
                | MessageFamily::Clock
                | MessageFamily::AllReduce
                | MessageFamily::Intent => Some(to),
                MessageFamily::Access | MessageFamily::Snapshot | MessageFamily::Relocation => None,
            },
            Action::Complete { .. } | Action::CompleteSnapshot { .. } => None,
        });
        match spoken {
            None => Ok(()),
            Some(to) => Err(("quiet", format!("the cluster rests, and {here:?} tells {to:?} about copies"))),
        }
    }

    /// A holder's message came.
    fn enter_sync(&mut self, station: usize, kind: ReplicaRequestKind, holder: NodeId, actions: &[Action]) {
        let here = NodeId((station / self.layout.channels()) as u16);
        let Self { watch, invariants, reach, .. } = self;
        let book = &mut invariants.merged;
        let answered = |key: Key| {
            actions.iter().any(|action| match action {
                Action::Send { message: Message::ReplicaUpdate(news), .. } => news.keys.contains(&key),
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
                    let asked = book.registers(key, holder, generation, need);
                    if asked == Asked::Again && !answered(key) {
                        reach.mark(Marker::EarlyAsk);
                    }
                }
                ReplicaRequestKind::Delta => {
                    if !book.merges(key, holder, generation, watch.numbers[at]) {
                        reach.mark(Marker::GhostDelta);
                    }
                }
                ReplicaRequestKind::Drop => book.releases(key, holder, generation),
            }
        }
    }

    /// An owner's message came.
    fn enter_news(&mut self, here: NodeId, kind: ReplicaUpdateKind) {
        let Self { watch, invariants, reach, nodes, .. } = self;
        let book = &mut invariants.merged;
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            let (key, generation) = (*key, watch.generations[at]);
            let known = book.generation(key, here) == Some(generation);
            let role = nodes[here.index()].slot(key).role;
            if kind != ReplicaUpdateKind::Dropped {
                book.hears(key, here, generation, watch.numbers[at]);
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

    /// Keys came, maybe to where replicas of them are.
    fn enter_arrivals(&mut self, here: NodeId) {
        let Self { watch, invariants, reach, .. } = self;
        for (key, slot) in watch.keys.iter().zip(&watch.slots) {
            let promoted = invariants.merged.arrives(*key, here);
            if slot.role != Role::Replica {
                continue;
            }
            if slot.is_dirty() {
                reach.mark(Marker::PromotedUnsent);
            }
            reach.mark(match promoted {
                Promoted::Nothing | Promoted::Bare => Marker::Promoted,
                Promoted::Merged => Marker::PromotedMerged,
                Promoted::Unmerged => Marker::PromotedUnmerged,
            });
        }
    }

    fn enter_clock(&mut self, station: usize, from: NodeId, scope: ClockScope, clock: u32) {
        let nodes = self.nodes.len();
        self.heard.resize(self.stations.len() * nodes, 0);
        let heard = &mut self.heard[station * nodes..(station + 1) * nodes];
        match scope {
            ClockScope::Node => heard[from.index()] = clock,
            ClockScope::Resumed => {
                if (0..nodes).any(|other| other != from.index() && heard[other] == RESTING) {
                    self.reach.mark(Marker::ResumeLifted);
                }
            }
            ClockScope::Global => self.reach.mark(Marker::EagerNews),
        }
    }

    /// Enters what the channel sends.
    fn enter_sent(&mut self, station: usize, actions: &[Action]) -> Result<(), Finding> {
        let here = NodeId((station / self.layout.channels()) as u16);
        let mut told = Vec::new();
        let mut refreshed = Vec::new();
        for action in actions {
            let Action::Send { to, message } = action else { continue };
            match message {
                Message::ReplicaRequest(sync) => self.enter_holder(here, sync)?,
                Message::Relocate(relocate) => {
                    for key in &relocate.keys {
                        self.check_order(station, *key, relocate.to)?;
                    }
                }
                Message::ReplicaUpdate(news) => {
                    if news.kind == ReplicaUpdateKind::Refresh {
                        refreshed.push(*to);
                    }
                    self.list_told(*to, news, &mut told);
                }
                Message::Response(_) => {
                    if refreshed.contains(to) {
                        self.reach.mark(Marker::RefreshBeforeAnswer);
                    }
                }
                Message::HandOver(hand_over) => {
                    for (at, key) in hand_over.keys.iter().enumerate() {
                        let rows = hand_over.holders.iter().filter(|row| row.at as usize == at);
                        if rows.clone().next().is_some() {
                            self.reach.mark(Marker::HoldersMoved);
                        }
                        self.check_departure(station, *key, *to, rows.clone())?;
                        self.invariants.merged.departs(*key, rows)?;
                    }
                }
                Message::Request(_)
                | Message::SnapshotRequest(_)
                | Message::SnapshotPart(_)
                | Message::Localize(_)
                | Message::Moved(_)
                | Message::Clock(_)
                | Message::Reduce(_)
                | Message::IntentReport(_) => {}
            }
        }
        // Grouped by receiver; within a key, versions grow as things happened.
        told.sort_by_key(|told: &Told| (told.key, told.version));
        told.into_iter().try_for_each(|told| self.invariants.merged.tells(told))
    }

    fn list_told(&self, to: NodeId, news: &ReplicaUpdate, told: &mut Vec<Told>) {
        let ReplicaUpdate { kind, keys, generations, seqs, versions, values, .. } = news;
        let mut offset = 0;
        for (at, key) in keys.iter().enumerate() {
            let value = matches!(kind, ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh).then(|| {
                let start = offset;
                offset += self.layout.len(*key) * size_of::<E>();
                xxh3_64(&values[start..offset])
            });
            let number = |numbers: &[u32]| numbers.get(at).copied().unwrap_or_default();
            let (generation, seq, version) = (generations[at], number(seqs), number(versions));
            told.push(Told { key: *key, to, kind: *kind, generation, seq, version, value });
        }
    }

    /// A holder speaks; what is only forwarded was entered when it was said.
    fn enter_holder(&mut self, here: NodeId, sync: &ReplicaRequest) -> Result<(), Finding> {
        let ReplicaRequest { kind, hops, keys, generations, numbers, .. } = sync;
        if *hops > 0 {
            return Ok(());
        }
        let lazy = self.policy.replicas == Some(Replicas::Lazy);
        let settles = matches!(self.watch.about, About::Settle);
        let Self { invariants, reach, nodes, .. } = self;
        let book = &mut invariants.merged;
        for (at, key) in keys.iter().enumerate() {
            let (key, generation) = (*key, generations[at]);
            let slot = nodes[here.index()].slot(key);
            match kind {
                ReplicaRequestKind::Ask => {
                    let anew = book.asks(key, here, generation, numbers[at])?;
                    if anew && slot.role == Role::Replica {
                        reach.mark(Marker::ReplicaRevived);
                    }
                }
                ReplicaRequestKind::Delta => book.sends(key, here, generation, numbers[at])?,
                ReplicaRequestKind::Drop => {
                    book.leaves(key, here, generation)?;
                    let marks =
                        [(lazy && !settles, Marker::LazyDrop), (slot.is_closed(), Marker::ReplicaClosed)];
                    let reached = marks.into_iter().filter(|(reached, _)| *reached);
                    reached.for_each(|(_, marker)| reach.mark(marker));
                }
            }
        }
        Ok(())
    }

    /// All-reduces: what nodes agree on, and what was reached.
    fn follow_rounds(&mut self, station: usize, actions: &[Action]) -> Result<(), Finding> {
        let (before, was_running) = self.invariants.rounds.of(station);
        let (nodes, channels) = (self.nodes.len(), self.layout.channels());
        let agreed = self.stations[station].engine.agreed();
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
        let marks = match self.watch.about {
            About::Reduce { round } => {
                [(round > before, Marker::EarlyReduce), (!was_running && running, Marker::RoundCalled)]
            }
            About::Other
            | About::Access { .. }
            | About::Wanted
            | About::Order
            | About::Response
            | About::Localize(_)
            | About::Relocate
            | About::IntentReport { .. }
            | About::HandOver
            | About::Moved
            | About::ReplicaRequest { .. }
            | About::ReplicaUpdate(_)
            | About::Clock { .. }
            | About::Synchronize { .. }
            | About::Time
            | About::Settle => [(false, Marker::EarlyReduce), (false, Marker::RoundCalled)],
        };
        let more = [(split, Marker::SplitReduce), (folded && !nodes.is_power_of_two(), Marker::Folded)];
        let reached = marks.into_iter().chain(more).filter(|(reached, _)| *reached);
        reached.for_each(|(_, marker)| self.reach.mark(marker));
        let rounds = &mut self.invariants.rounds;
        if let About::Synchronize { worker, op } = self.watch.about {
            rounds.asked(station, worker, op);
        }
        if rounds.handled(station, station % channels, agreed, running)? {
            self.reach.mark(Marker::Agreed);
        }
        actions.iter().try_for_each(|action| match action {
            Action::Complete { worker, completion } => {
                self.invariants.rounds.answered(station, *worker, completion.op)
            }
            Action::Send { .. } | Action::CompleteSnapshot { .. } => Ok(()),
        })
    }
}
