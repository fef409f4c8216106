//! Watching a channel handle an input: what was so before, and what the checks make of what follows.

use super::{Checks, Cluster};
use crate::invariants::{Finding, Violation};
use crate::reach::Marker;
use intendant_core::{Element, Key, NodeId, WorkerId};
use intendant_engine::{Action, Input, Kind};
use intendant_techniques::{Initiator, Order, Role, SlotState};
use intendant_wire::{ClockScope, Message, OpId, Origin, ReplicaRequestKind, ReplicaUpdateKind};

/// What an input is about.
#[derive(Clone, Copy, Default)]
pub(super) enum About {
    /// Nothing that is watched.
    #[default]
    Other,
    /// A worker's or another node's access.
    Access {
        origin: Origin,
        /// `None` if a worker of this node just submitted it.
        from: Option<NodeId>,
        hops: u8,
    },
    /// A worker wants keys here.
    Wanted,
    /// This node shall give keys away.
    Order,
    Response,
    Localize(NodeId),
    Relocate,
    /// Intents that a node tells of; of its keys, so many begin.
    IntentReport {
        from: NodeId,
        begun: usize,
    },
    HandOver,
    Moved,
    ReplicaRequest {
        kind: ReplicaRequestKind,
        holder: NodeId,
    },
    ReplicaUpdate(ReplicaUpdateKind),
    Clock {
        from: NodeId,
        scope: ClockScope,
        clock: u32,
    },
    Reduce {
        round: u32,
    },
    Synchronize {
        worker: WorkerId,
        op: OpId,
    },
    Settle,
    /// A channel looks at clocks, or what has gathered.
    Time,
}

/// What is remembered of an input while the engine handles it.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) about: About,
    /// Keys of a submitted access.
    submitted: usize,
    /// Decisions about replicas.
    decisions: usize,
    /// The keys it is about, as far as a check needs them.
    pub(super) keys: Vec<Key>,
    /// Of an access.
    positions: Vec<u32>,
    /// Of what tells counters.
    counters: Vec<u32>,
    /// Of what tells of replicas: generations and numbers of deltas or clocks.
    pub(super) generations: Vec<u32>,
    pub(super) numbers: Vec<u32>,
    /// The slots of `keys` before; empty if no check needs them.
    pub(super) slots: Vec<SlotState>,
    /// Accesses that the channel had queued, and conflicts that it had seen.
    queued: u64,
    conflicts: u64,
    /// Keys that it had synchronised, and reads that had waited for that.
    synced: u64,
    pub(super) stale_reads: u64,
}

impl<E: Element> Cluster<E> {
    /// A channel is about to handle an input.
    pub(super) fn watch(&mut self, station: usize, input: &Input) {
        let here = station / self.layout.channels();
        let moves = self.policy.relocation.is_some() || self.policy.replicas.is_some();
        let every_step = moves && self.checks == Checks::EveryStep;
        let Self { watch, invariants, stations, .. } = self;
        (watch.submitted, watch.decisions) = (0, 0);
        watch.keys.clear();
        watch.positions.clear();
        watch.counters.clear();
        watch.generations.clear();
        watch.numbers.clear();
        watch.slots.clear();
        let stats = stations[station].engine.management();
        (watch.queued, watch.conflicts) = (stats.queued, stats.localization_conflicts);
        (watch.synced, watch.stale_reads) = (stats.synced_keys, stats.stale_reads);
        watch.about = match input {
            Input::Submit(s) => {
                if every_step {
                    watch.keys.extend_from_slice(s.keys());
                    watch.positions.extend_from_slice(s.positions());
                }
                let origin = Origin { node: NodeId(here as u16), worker: s.worker, op: s.op };
                match s.kind() {
                    Kind::Access(_) => {
                        watch.submitted = s.keys().len();
                        About::Access { origin, from: None, hops: 0 }
                    }
                    Kind::Localize => About::Wanted,
                    Kind::Synchronize => About::Synchronize { worker: s.worker, op: s.op },
                }
            }
            Input::Relocate { keys, .. } => {
                watch.keys.extend_from_slice(keys);
                About::Order
            }
            Input::Replicate { .. } | Input::Unreplicate { .. } => {
                watch.decisions = 1;
                About::Other
            }
            Input::Settle => About::Settle,
            Input::Tick | Input::Wake => About::Time,
            Input::Snapshot(_) | Input::Clock(_) => About::Other,
            Input::Message { from, message } => match message {
                Message::Request(request) => {
                    if every_step {
                        watch.keys.extend_from_slice(&request.keys);
                        watch.positions.extend_from_slice(&request.positions);
                    }
                    About::Access { origin: request.origin, from: Some(*from), hops: request.hops }
                }
                Message::Response(response) => {
                    if every_step {
                        let post = here * self.workers_per_node + response.worker.index();
                        let positions = &response.positions;
                        invariants.replies.keys(station, post, response.op, positions, &mut watch.keys);
                        watch.counters.extend_from_slice(&response.counters);
                    }
                    About::Response
                }
                Message::Localize(localize) => {
                    watch.keys.extend_from_slice(&localize.keys);
                    About::Localize(*from)
                }
                Message::Relocate(relocate) => {
                    watch.keys.extend_from_slice(&relocate.keys);
                    About::Relocate
                }
                Message::HandOver(hand_over) => {
                    watch.keys.extend_from_slice(&hand_over.keys);
                    watch.counters.extend_from_slice(&hand_over.counters);
                    About::HandOver
                }
                Message::Moved(moved) => {
                    watch.keys.extend_from_slice(&moved.keys);
                    watch.counters.extend_from_slice(&moved.counters);
                    About::Moved
                }
                Message::ReplicaRequest(sync) => {
                    watch.keys.extend_from_slice(&sync.keys);
                    watch.generations.extend_from_slice(&sync.generations);
                    watch.numbers.extend_from_slice(&sync.numbers);
                    About::ReplicaRequest { kind: sync.kind, holder: sync.holder }
                }
                Message::ReplicaUpdate(news) => {
                    watch.keys.extend_from_slice(&news.keys);
                    watch.generations.extend_from_slice(&news.generations);
                    watch.numbers.extend_from_slice(&news.seqs);
                    watch.counters.extend_from_slice(&news.counters);
                    About::ReplicaUpdate(news.kind)
                }
                Message::Clock(clock) => About::Clock { from: *from, scope: clock.scope, clock: clock.clock },
                Message::Reduce(reduce) => About::Reduce { round: reduce.round },
                Message::IntentReport(signal) => {
                    watch.keys.extend_from_slice(&signal.begun);
                    watch.keys.extend_from_slice(&signal.over);
                    About::IntentReport { from: *from, begun: signal.begun.len() }
                }
                Message::SnapshotRequest(_) | Message::SnapshotPart(_) => About::Other,
            },
        };
        if every_step {
            let node = &self.nodes[here];
            self.watch.slots.extend(self.watch.keys.iter().map(|key| node.slot(*key)));
        }
    }

    /// The channel has handled the input; `actions` follow from it, and none of them has happened yet.
    pub(super) fn watched(&mut self, station: usize, actions: &[Action]) -> Result<(), Violation> {
        self.mark_sent(station, actions);
        self.orders -= usize::from(matches!(self.watch.about, About::Order)) + self.watch.decisions;
        let here = NodeId((station / self.layout.channels()) as u16);
        if self.policy.relocation.is_none() {
            return self.follow_copies(station, actions).map_err(|finding| self.violation(finding));
        }
        let checked = self.enter(here, actions);
        let checked = checked.and_then(|()| self.follow_copies(station, actions));
        let checked = checked.and_then(|()| {
            self.queue_up(here);
            self.invariants.queued.handled(here, actions)
        });
        let checked = checked.and_then(|()| self.look(here));
        checked.map_err(|finding| self.violation(finding))?;
        self.mark_slots(here);
        Ok(())
    }

    /// Enters what happened to keys into the ledger.
    fn enter(&mut self, here: NodeId, actions: &[Action]) -> Result<(), Finding> {
        let Self { watch, invariants, reach, layout, .. } = self;
        let ledger = &mut invariants.ledger;
        let by_owners = self.policy.relocation == Some(Initiator::Owner);
        let by_homes = self.policy.homes_decide();
        let mut ordered = |ledger: &mut crate::invariants::Ledger, key, to| {
            let place = ledger.place(key);
            if place.flying || ledger.last(key) > place.counter {
                reach.mark(Marker::Conflicted);
            }
            ledger.ordered(key, to)
        };
        if let About::Localize(from) = watch.about {
            for key in &watch.keys {
                ordered(ledger, *key, from);
            }
        }
        if let About::HandOver = watch.about {
            for (key, counter) in watch.keys.iter().zip(&watch.counters) {
                ledger.arrived(*key, here, *counter)?;
            }
        }
        for action in actions {
            let Action::Send { to, message } = action else { continue };
            match message {
                Message::Localize(localize) => localize.keys.iter().for_each(|key| ledger.asked(*key, here)),
                Message::Relocate(relocate) => {
                    for (key, counter) in relocate.keys.iter().zip(&relocate.counters) {
                        if by_homes {
                            ledger.ordered(*key, relocate.to);
                        } else if relocate.to == here {
                            ordered(ledger, *key, here);
                            ledger.asked(*key, here);
                        }
                        let owner = counter.checked_sub(1).and_then(|before| ledger.owner(*key, before));
                        if ledger.last(*key) != *counter || owner != Some(*to) {
                            let last = ledger.last(*key);
                            return Err((
                                "ledger",
                                format!(
                                    "node {to} shall hand {key:?} over and {counter} be its counter then; that would be \
                                     {last}, and {owner:?} owns it before"
                                ),
                            ));
                        }
                    }
                }
                Message::HandOver(hand_over) => {
                    for (key, counter) in hand_over.keys.iter().zip(&hand_over.counters) {
                        let decides = by_owners && (!by_homes || layout.home(*key) == here);
                        ledger.departed(*key, here, *to, *counter, decides)?;
                    }
                }
                Message::Request(_)
                | Message::Response(_)
                | Message::SnapshotRequest(_)
                | Message::SnapshotPart(_)
                | Message::Moved(_)
                | Message::ReplicaRequest(_)
                | Message::ReplicaUpdate(_)
                | Message::Clock(_)
                | Message::Reduce(_)
                | Message::IntentReport(_) => {}
            }
        }
        Ok(())
    }

    /// Keys that the input that was handled has brought in step, beyond those that came with it.
    pub(super) fn synced(&self, station: usize) -> u64 {
        let synced = self.stations[station].engine.management().synced_keys - self.watch.synced;
        match self.watch.about {
            About::ReplicaRequest { .. } | About::ReplicaUpdate(_) => {
                synced.saturating_sub(self.watch.keys.len() as u64)
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
            | About::Clock { .. }
            | About::Reduce { .. }
            | About::Synchronize { .. }
            | About::Time
            | About::Settle => synced,
        }
    }

    /// Notes what waits for keys from now on, and what does not wait any more.
    fn queue_up(&mut self, here: NodeId) {
        let Self { watch, invariants, .. } = self;
        let queued = &mut invariants.queued;
        let chained = self.policy.order == Order::Chain;
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            match watch.about {
                About::Access { origin, from, .. } if slot.role == Role::Arriving => {
                    let keep = from.is_some() || !chained;
                    queued.access(here, *key, (origin, watch.positions[at]), keep);
                }
                About::Localize(_) | About::Relocate if slot.role == Role::Arriving => {
                    queued.departure(here, *key);
                }
                About::HandOver => queued.arrival(here, *key),
                About::Access { .. }
                | About::Localize(_)
                | About::Relocate
                | About::Other
                | About::Wanted
                | About::Order
                | About::Response
                | About::IntentReport { .. }
                | About::Moved
                | About::ReplicaRequest { .. }
                | About::ReplicaUpdate(_)
                | About::Clock { .. }
                | About::Reduce { .. }
                | About::Synchronize { .. }
                | About::Time
                | About::Settle => {}
            }
        }
    }

    /// Looks at what the node knows now of the keys concerned. Accesses change nothing about that.
    fn look(&mut self, here: NodeId) -> Result<(), Finding> {
        let Self { watch, invariants, nodes, layout, .. } = self;
        if watch.slots.is_empty() || matches!(watch.about, About::Access { .. }) {
            return Ok(());
        }
        for key in &watch.keys {
            let state = nodes[here.index()].slot(*key);
            let at_home = layout.home(*key) == here;
            invariants.knowledge.look(*key, here, at_home, &state, &invariants.ledger)?;
        }
        Ok(())
    }

    /// Notes what the actions of an input tell about it.
    fn mark_sent(&mut self, station: usize, actions: &[Action]) {
        let Self { watch, reach, stations, .. } = self;
        let (mut sent, mut completed) = (0, 0);
        let (mut last, mut loaded) = (None, None);
        for action in actions {
            match action {
                Action::Send { to, message: Message::HandOver(_) } => {
                    if loaded == Some(*to) {
                        reach.mark(Marker::SplitHandOver);
                    }
                    loaded = Some(*to);
                }
                Action::Send { to, message: Message::Request(request) } => {
                    sent += request.keys.len();
                    let same = Some((*to, request.origin, request.kind, request.hops));
                    if last == same {
                        reach.mark(Marker::SplitFrame);
                    }
                    last = same;
                    match request.hops {
                        0 => {}
                        1 => reach.mark(Marker::ForwardedOnce),
                        _ => reach.mark(Marker::ForwardedAgain),
                    }
                }
                Action::Complete { completion, .. } => completed += completion.positions.len(),
                Action::Send { .. } | Action::CompleteSnapshot { .. } => {}
            }
        }
        let stats = stations[station].engine.management();
        let queued = (stats.queued - watch.queued) as usize;
        let conflicts = stats.localization_conflicts - watch.conflicts;
        let marks = [
            (watch.submitted > 0 && completed > 0, Marker::InboxRace),
            (sent + completed + queued < watch.submitted, Marker::Chained),
            (queued > 0, Marker::Queued),
            (conflicts > 0, Marker::ConflictSeen),
        ];
        marks.into_iter().filter(|(reached, _)| *reached).for_each(|(_, marker)| reach.mark(marker));
    }

    /// Notes what the slots before and the input tell about each other.
    fn mark_slots(&mut self, here: NodeId) {
        let Self { watch, reach, layout, .. } = self;
        if matches!(watch.about, About::HandOver) {
            reach.mark(Marker::Relocated);
            if watch.keys.len() > 1 {
                reach.mark(Marker::SeveralMoved);
            }
        }
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            let home = layout.home(*key);
            let absent = matches!(slot.role, Role::Absent | Role::Leaving | Role::Replica);
            let older = watch.counters.get(at).is_some_and(|counter| *counter < slot.counter);
            let marks: &[(bool, Marker)] = match watch.about {
                About::Access { from: Some(from), hops, origin } => &[
                    (hops == 0 && home != here && home != from && !absent, Marker::CacheHit),
                    (hops == 0 && home != here && home != from && absent, Marker::CacheStale),
                    (slot.role == Role::Arriving, Marker::QueuedForOther),
                    (origin.node == here, Marker::CameHome),
                    (hops > 0 && from == home && absent, Marker::HomeBehind),
                ],
                About::Wanted => &[
                    (slot.role == Role::Leaving, Marker::WantedBack),
                    (slot.role == Role::Arriving, Marker::WantedTwice),
                ],
                About::Localize(_) | About::Relocate => {
                    &[(slot.role == Role::Arriving, Marker::DepartureQueued)]
                }
                About::Response => &[(slot.role == Role::Absent && older, Marker::OldNews)],
                About::Moved => &[(older, Marker::MovedLate)],
                About::Order => &[(!slot.role.is_owner(), Marker::OrderTooLate)],
                About::Access { from: None, .. }
                | About::HandOver
                | About::IntentReport { .. }
                | About::ReplicaRequest { .. }
                | About::ReplicaUpdate(_)
                | About::Clock { .. }
                | About::Reduce { .. }
                | About::Synchronize { .. }
                | About::Settle
                | About::Time
                | About::Other => &[],
            };
            marks.iter().filter(|(reached, _)| *reached).for_each(|(_, marker)| reach.mark(*marker));
        }
    }
}
