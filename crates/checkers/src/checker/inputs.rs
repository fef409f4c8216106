//! Observes a channel handling an input: records the state before it, then lets the checks compare the state
//! and the actions after it, and marks what was reached.

use super::Checker;
use super::watched::WatchedInput;
use intendant_core::{Element, NodeId};
use intendant_engine::{Action, Input, Kind, LocalAccess};
use intendant_sim::Finding;
use intendant_sim::cluster::Seen;
use intendant_sim::reach::Marker;
use intendant_techniques::{Initiator, Location, Order, Role};
use intendant_wire::{Message, Origin};

impl Checker {
    /// Records an input that a channel is about to handle.
    pub(super) fn record_input<E: Element>(&mut self, seen: &Seen<'_, E>, station: usize, input: &Input) {
        let here = station / self.layout.channels();
        let moves = self.policy.relocation.is_some() || self.policy.replicas.is_some();
        let Self { watch, invariants, .. } = self;
        watch.submitted = 0;
        watch.keys.clear();
        watch.positions.clear();
        watch.counters.clear();
        watch.generations.clear();
        watch.numbers.clear();
        watch.slots.clear();
        let stats = seen.engine(station).management();
        (watch.queued, watch.conflicts) = (stats.queued, stats.localization_conflicts);
        watch.stale_reads = stats.stale_reads;
        watch.input = match input {
            Input::Submit(s) => {
                let worker = here * self.workers_per_node + s.worker.index();
                invariants.replies.handled(station, worker, s.op);
                if moves {
                    watch.keys.extend_from_slice(s.keys());
                    watch.positions.extend_from_slice(s.positions());
                }
                let origin = Origin { node: NodeId(here as u16), worker: s.worker, op: s.op };
                match s.kind() {
                    Kind::Access(_) => {
                        watch.submitted = s.keys().len();
                        WatchedInput::Access { origin, from: None, hops: 0 }
                    }
                    Kind::Localize => WatchedInput::LocalizeCall,
                    Kind::Synchronize => WatchedInput::Synchronize { worker: s.worker, op: s.op },
                }
            }
            Input::Relocate { keys, .. } => {
                watch.keys.extend_from_slice(keys);
                WatchedInput::MoveDecision
            }
            Input::Settle => WatchedInput::Settle,
            Input::Tick => WatchedInput::Tick,
            Input::Snapshot(ask) => {
                if ask.owner.index() != here {
                    invariants.bounded.snapshot(station, true);
                }
                WatchedInput::Other
            }
            Input::Wake | Input::Replicate { .. } | Input::Unreplicate { .. } | Input::Clock(_) => {
                WatchedInput::Other
            }
            Input::Message { from, message } => match message {
                Message::Request(request) => {
                    if moves {
                        watch.keys.extend_from_slice(&request.keys);
                        watch.positions.extend_from_slice(&request.positions);
                    }
                    WatchedInput::Access { origin: request.origin, from: Some(*from), hops: request.hops }
                }
                Message::Response(response) => {
                    if moves {
                        let worker = here * self.workers_per_node + response.worker.index();
                        let positions = &response.positions;
                        invariants.replies.keys(station, worker, response.op, positions, &mut watch.keys);
                        watch.counters.extend_from_slice(&response.counters);
                    }
                    WatchedInput::Response
                }
                Message::Localize(localize) => {
                    watch.keys.extend_from_slice(&localize.keys);
                    WatchedInput::Localize(*from)
                }
                Message::Relocate(relocate) => {
                    watch.keys.extend_from_slice(&relocate.keys);
                    WatchedInput::Relocate
                }
                Message::HandOver(hand_over) => {
                    watch.keys.extend_from_slice(&hand_over.keys);
                    watch.counters.extend_from_slice(&hand_over.counters);
                    WatchedInput::HandOver
                }
                Message::Moved(moved) => {
                    watch.keys.extend_from_slice(&moved.keys);
                    watch.counters.extend_from_slice(&moved.counters);
                    WatchedInput::Moved
                }
                Message::ReplicaRequest(request) => {
                    watch.keys.extend_from_slice(&request.keys);
                    watch.generations.extend_from_slice(&request.generations);
                    watch.numbers.extend_from_slice(&request.numbers);
                    WatchedInput::ReplicaRequest { kind: request.kind, holder: request.holder }
                }
                Message::ReplicaUpdate(update) => {
                    watch.keys.extend_from_slice(&update.keys);
                    watch.generations.extend_from_slice(&update.generations);
                    watch.numbers.extend_from_slice(&update.seqs);
                    watch.counters.extend_from_slice(&update.counters);
                    WatchedInput::ReplicaUpdate(update.kind)
                }
                Message::Clock(clock) => {
                    WatchedInput::Clock { from: *from, scope: clock.scope, clock: clock.clock }
                }
                Message::Reduce(reduce) => WatchedInput::Reduce { round: reduce.round },
                Message::IntentReport(report) => {
                    watch.keys.extend_from_slice(&report.begun);
                    watch.keys.extend_from_slice(&report.over);
                    WatchedInput::IntentReport { from: *from, begun: report.begun.len() }
                }
                Message::Void(void) => {
                    watch.keys.extend_from_slice(&void.keys);
                    WatchedInput::Void
                }
                Message::SnapshotPart(_) => {
                    invariants.bounded.snapshot(station, false);
                    WatchedInput::Other
                }
                Message::SnapshotRequest(_) | Message::Locate(_) | Message::Located(_) => WatchedInput::Other,
            },
        };
        if moves {
            let node = seen.nodes.at(here);
            self.watch.slots.extend(self.watch.keys.iter().map(|key| node.slot(*key)));
        }
    }

    /// Checks what the engine made of the input; none of its `actions` has been executed yet.
    pub(super) fn check_input<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        actions: &[Action],
    ) -> Result<(), Finding> {
        self.mark_sent(seen, station, actions);
        let here = NodeId((station / self.layout.channels()) as u16);
        if self.policy.relocation.is_none() {
            return self.check_replication(seen, station, actions);
        }
        self.update_ledger(seen, here, actions)?;
        self.check_replication(seen, station, actions)?;
        self.update_queued(here);
        self.invariants.queued.handled(here, actions)?;
        self.check_knowledge(seen, here)?;
        self.mark_slots(seen, here);
        Ok(())
    }

    /// Updates the ledger of owners with the input and the messages that follow from it.
    fn update_ledger<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        here: NodeId,
        actions: &[Action],
    ) -> Result<(), Finding> {
        let Self { watch, invariants, layout, .. } = self;
        let reach = &mut *seen.reach;
        let ledger = &mut invariants.ledger;
        let by_owners = self.policy.relocation == Some(Initiator::Owner);
        let by_homes = self.policy.homes_decide();
        let has_homes = self.policy.location.has_homes();
        let again = matches!(watch.input, WatchedInput::Void);
        let first = if here.0 == 0 { NodeId(1) } else { NodeId(0) };
        let broadcast = self.policy.location == Location::BroadcastOperations;
        let mut ordered = |ledger: &mut crate::invariants::Ledger, key, to| {
            let place = ledger.place(key);
            if place.in_flight || ledger.last(key) > place.counter {
                reach.mark(Marker::Conflicted);
            }
            ledger.ordered(key, to)
        };
        if let WatchedInput::Localize(from) = watch.input
            && has_homes
        {
            for key in &watch.keys {
                ordered(ledger, *key, from);
            }
        }
        if let WatchedInput::HandOver = watch.input {
            for (key, counter) in watch.keys.iter().zip(&watch.counters) {
                ledger.arrived(*key, here, *counter)?;
            }
        }
        for action in actions {
            let Action::Send { to, message } = action else { continue };
            match message {
                Message::Localize(localize) => {
                    // A forwarded one, a copy of one to another node, or a void one again.
                    let old = localize.requester != here || broadcast && (*to != first || again);
                    if !old {
                        localize.keys.iter().for_each(|key| ledger.requested(*key, here));
                    }
                }
                Message::Relocate(relocate) => {
                    for (key, counter) in relocate.keys.iter().zip(&relocate.counters) {
                        if by_homes {
                            ledger.ordered(*key, relocate.to);
                        } else if relocate.to == here {
                            ordered(ledger, *key, here);
                            ledger.requested(*key, here);
                        }
                        let owner = counter.checked_sub(1).and_then(|before| ledger.owner(*key, before));
                        if ledger.last(*key) != *counter || owner != Some(*to) {
                            let last = ledger.last(*key);
                            return Err((
                                "ledger",
                                format!(
                                    "node {to} is ordered to hand {key:?} over with counter {counter}; expected are counter \
                                     {last} and owner {owner:?}"
                                ),
                            ));
                        }
                    }
                }
                Message::HandOver(hand_over) => {
                    for (key, counter) in hand_over.keys.iter().zip(&hand_over.counters) {
                        let decides = !has_homes || by_owners && (!by_homes || layout.home(*key) == here);
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
                | Message::IntentReport(_)
                | Message::Locate(_)
                | Message::Located(_)
                | Message::Void(_) => {}
            }
        }
        Ok(())
    }

    /// Updates the queues of accesses that wait for the arrival of a key.
    fn update_queued(&mut self, here: NodeId) {
        let Self { watch, invariants, .. } = self;
        let queued = &mut invariants.queued;
        let chained = self.policy.order == Order::Chain;
        let has_homes = self.policy.location.has_homes();
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            match watch.input {
                WatchedInput::Access { origin, from, .. }
                    if slot.role == Role::Arriving && (has_homes || from.is_none()) =>
                {
                    let keep = from.is_some() || !chained;
                    queued.access(here, *key, (origin, watch.positions[at]), keep);
                }
                WatchedInput::Localize(_) | WatchedInput::Relocate
                    if slot.role == Role::Arriving && has_homes =>
                {
                    queued.departure(here, *key);
                }
                WatchedInput::HandOver => queued.arrival(here, *key),
                WatchedInput::Access { .. }
                | WatchedInput::Localize(_)
                | WatchedInput::Void
                | WatchedInput::Relocate
                | WatchedInput::Other
                | WatchedInput::LocalizeCall
                | WatchedInput::MoveDecision
                | WatchedInput::Response
                | WatchedInput::IntentReport { .. }
                | WatchedInput::Moved
                | WatchedInput::ReplicaRequest { .. }
                | WatchedInput::ReplicaUpdate(_)
                | WatchedInput::Clock { .. }
                | WatchedInput::Reduce { .. }
                | WatchedInput::Synchronize { .. }
                | WatchedInput::Tick
                | WatchedInput::Settle => {}
            }
        }
    }

    /// Checks what the node now knows about the location of the keys. Accesses do not change that.
    fn check_knowledge<E: Element>(&mut self, seen: &Seen<'_, E>, here: NodeId) -> Result<(), Finding> {
        let Self { watch, invariants, layout, .. } = self;
        if watch.slots.is_empty() || matches!(watch.input, WatchedInput::Access { .. }) {
            return Ok(());
        }
        for key in &watch.keys {
            let state = seen.nodes.at(here.index()).slot(*key);
            let at_home = layout.home(*key) == here;
            invariants.knowledge.check(*key, here, at_home, &state, &invariants.ledger)?;
        }
        Ok(())
    }

    /// Sets reach markers that follow from the actions.
    fn mark_sent<E: Element>(&self, seen: &mut Seen<'_, E>, station: usize, actions: &[Action]) {
        let Self { watch, access, .. } = self;
        let stats = seen.engine(station).management();
        let reach = &mut *seen.reach;
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
        let queued = (stats.queued - watch.queued) as usize;
        let conflicts = stats.localization_conflicts - watch.conflicts;
        let queues = *access == LocalAccess::Queue;
        let marks = [
            (!queues && watch.submitted > 0 && completed > 0, Marker::InboxRace),
            (queues && watch.submitted > 0 && completed > 0, Marker::QueueServed),
            (sent + completed + queued < watch.submitted, Marker::Chained),
            (queued > 0, Marker::Queued),
            (conflicts > 0, Marker::ConflictSeen),
            (matches!(watch.input, WatchedInput::Void) && sent > 0, Marker::BroadcastAgain),
        ];
        marks.into_iter().filter(|(reached, _)| *reached).for_each(|(_, marker)| reach.mark(marker));
        if let WatchedInput::Access { origin, from: Some(_), .. } = watch.input
            && self.policy.location == Location::BroadcastOperations
        {
            let answers = actions.iter().filter_map(|action| match action {
                Action::Send { message: Message::Response(response), .. } if response.op == origin.op => {
                    Some(response.positions.len())
                }
                Action::Send { .. } | Action::Complete { .. } | Action::CompleteSnapshot { .. } => None,
            });
            if watch.slots.iter().filter(|slot| slot.role == Role::Owner).count() > answers.sum() {
                reach.mark(Marker::BroadcastDecided);
            }
        }
    }

    /// Sets reach markers that follow from the input and the slots before it.
    fn mark_slots<E: Element>(&self, seen: &mut Seen<'_, E>, here: NodeId) {
        let Self { watch, layout, .. } = self;
        let reach = &mut *seen.reach;
        if matches!(watch.input, WatchedInput::HandOver) {
            reach.mark(Marker::Relocated);
            if watch.keys.len() > 1 {
                reach.mark(Marker::SeveralMoved);
            }
        }
        for (at, (key, slot)) in watch.keys.iter().zip(&watch.slots).enumerate() {
            let home = layout.home(*key);
            let absent = matches!(slot.role, Role::Absent | Role::Leaving | Role::Replica);
            let older = watch.counters.get(at).is_some_and(|counter| *counter < slot.counter);
            let marks: &[(bool, Marker)] = match watch.input {
                WatchedInput::Access { from: Some(from), hops, origin } => &[
                    (hops == 0 && home != here && home != from && !absent, Marker::CacheHit),
                    (hops == 0 && home != here && home != from && absent, Marker::CacheStale),
                    (slot.role == Role::Arriving, Marker::QueuedForOther),
                    (origin.node == here, Marker::CameHome),
                    (hops > 0 && from == home && absent, Marker::HomeBehind),
                ],
                WatchedInput::LocalizeCall => &[
                    (slot.role == Role::Leaving, Marker::WantedBack),
                    (slot.role == Role::Arriving, Marker::WantedTwice),
                ],
                WatchedInput::Localize(_) | WatchedInput::Relocate => {
                    &[(slot.role == Role::Arriving, Marker::DepartureQueued)]
                }
                WatchedInput::Response => &[(slot.role == Role::Absent && older, Marker::OldNews)],
                WatchedInput::Moved => &[(older, Marker::MovedLate)],
                WatchedInput::MoveDecision => &[(!slot.role.is_owner(), Marker::OrderTooLate)],
                WatchedInput::Access { from: None, .. }
                | WatchedInput::Void
                | WatchedInput::HandOver
                | WatchedInput::IntentReport { .. }
                | WatchedInput::ReplicaRequest { .. }
                | WatchedInput::ReplicaUpdate(_)
                | WatchedInput::Clock { .. }
                | WatchedInput::Reduce { .. }
                | WatchedInput::Synchronize { .. }
                | WatchedInput::Settle
                | WatchedInput::Tick
                | WatchedInput::Other => &[],
            };
            marks.iter().filter(|(reached, _)| *reached).for_each(|(_, marker)| reach.mark(*marker));
        }
    }
}
