//! Checks how channels act on intents: what they count and ask for, and where keys go.

use super::Checker;
use super::watched::WatchedInput;
use crate::invariants::{choice, intents};
use intendant_core::{Element, Key, NodeId};
use intendant_sim::Finding;
use intendant_sim::cluster::Seen;
use intendant_sim::reach::Marker;
use intendant_techniques::Decider;
use intendant_wire::{HolderRow, ReplicaRequestKind};

impl Checker {
    /// Checks the intents of a channel that has handled an input: if it ran an intent round, all its keys;
    /// otherwise the keys of the input.
    pub(super) fn check_intents<E: Element>(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
    ) -> Result<(), Finding> {
        let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
        let Self { invariants, watch, layout, .. } = self;
        let Some(intents) = &mut invariants.intents else { return Ok(()) };
        if let WatchedInput::IntentReport { from, begun } = watch.input {
            let keys = watch.keys.iter().enumerate();
            keys.for_each(|(at, key)| intents.report_received(from, *key, at < begun));
        }
        let engine = seen.engine(station);
        let Seen { nodes, reach, .. } = seen;
        let all = engine.intent_rounds() > intents.rounds(station);
        if all {
            let round = intents.round(station, node, |worker| engine.horizon(worker).unwrap_or(0));
            if engine.intent_rounds() != intents.rounds(station) {
                return Err(("intents", format!("channel {station} ran two intent rounds for one input")));
            }
            let marks = [
                (round.on_time, Marker::IntentBegan),
                (round.early, Marker::IntentEarly),
                (round.late, Marker::IntentLate),
                (round.extended, Marker::IntentExtended),
                (round.past, Marker::IntentPast),
                (round.empty, Marker::IntentEmpty),
                (round.ended, Marker::IntentEnded),
                (usize::from(engine.is_asleep()), Marker::Slept),
            ];
            marks.into_iter().filter(|(count, _)| *count > 0).for_each(|(_, marker)| reach.mark(marker));
        }
        let check = |key: Key| {
            let (state, node) = (nodes.at(node).slot(key), NodeId(node as u16));
            if intents.decider().is_home() && layout.home(key) == node {
                let (wanted, ordered) = engine.reported(key);
                let owner = if state.role.is_owner() { Some(node) } else { state.hint() };
                choice::check_home_keeps(key, node, &wanted, owner, ordered)?;
                intents.knows(station, node, key, wanted)?;
            }
            intents.handled(station, node, key, state.role, engine.active(key), engine.wants(key))?;
            let holders: Vec<NodeId> =
                engine.hub(key).map_or_else(Vec::new, |hub| hub.holders().iter().map(|h| h.node).collect());
            if state.role.is_owner() && intents.decider() == Decider::Owner {
                return choice::check_keeps(
                    intents.choice(),
                    key,
                    (node, state.role, engine.active(key)),
                    &holders,
                );
            }
            Ok(())
        };
        if all {
            let keys = (0..layout.keys()).map(Key).filter(|key| layout.channel(*key).index() == channel);
            keys.into_iter().try_for_each(check)
        } else {
            watch.keys.iter().copied().try_for_each(check)
        }
    }

    /// Checks that the technique lets a node hand `key` with these holders over to `to`.
    pub(super) fn check_departure<'a, E: Element>(
        &self,
        seen: &mut Seen<'_, E>,
        station: usize,
        (key, to): (Key, NodeId),
        rows: impl Iterator<Item = &'a HolderRow>,
    ) -> Result<(), Finding> {
        let Some(intents) = &self.invariants.intents else { return Ok(()) };
        let here = NodeId((station / self.layout.channels()) as u16);
        if intents.decider().is_home() {
            if self.layout.home(key) == here {
                seen.reach.mark(Marker::SentByHome);
                return self.check_decision(seen, station, key, to);
            }
            seen.reach.mark(Marker::SentByOrder);
            if self.active(seen, here.index(), key) > 0 {
                seen.reach.mark(Marker::LostWanted);
            }
            if matches!(self.watch.input, WatchedInput::Relocate) {
                return Ok(());
            }
            let what = format!("{here:?} hands {key:?} over to {to:?}, without an order of its home");
            return Err(("choice", what));
        }
        let holders: Vec<NodeId> = rows.map(|row| row.node).collect();
        let request = if let WatchedInput::ReplicaRequest { kind, holder } = self.watch.input {
            Some((kind, holder))
        } else {
            None
        };
        let (requester, marker) = match request {
            Some((ReplicaRequestKind::Ask, holder)) => (Some(holder), Marker::RelocatedByIntent),
            Some((ReplicaRequestKind::Drop, _)) => (None, Marker::RelocatedByDrop),
            Some((ReplicaRequestKind::Delta, _)) | None => (None, Marker::RelocatedByExpiry),
        };
        seen.reach.mark(marker);
        // The count at the time of the decision; an intent round in the same input may have changed it.
        let own = self.active(seen, here.index(), key);
        choice::check_hands_over(intents.choice(), key, (here, own), &holders, to, requester)
    }

    /// The home of a key orders its owner to hand it over to `to`.
    pub(super) fn check_relocation_order<E: Element>(
        &self,
        seen: &Seen<'_, E>,
        station: usize,
        key: Key,
        to: NodeId,
    ) -> Result<(), Finding> {
        match &self.invariants.intents {
            Some(intents) if intents.decider().is_home() => self.check_decision(seen, station, key, to),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that a home that sends a key to `to` knows of intents at `to` only. Skipped where homes handle
    /// intents one by one: a decision on the first may look wrong after the last.
    fn check_decision<E: Element>(
        &self,
        seen: &Seen<'_, E>,
        station: usize,
        key: Key,
        to: NodeId,
    ) -> Result<(), Finding> {
        let aggregated = self.invariants.intents.as_ref().is_some_and(|i| i.decider() == Decider::Home);
        let home = NodeId((station / self.layout.channels()) as u16);
        let (wanted, _) = seen.engine(station).reported(key);
        if aggregated { choice::check_home_sends(key, home, &wanted, to) } else { Ok(()) }
    }

    /// At rest, replicas exist exactly where the technique asks for them.
    pub(super) fn check_replicas_match_intents<E: Element>(
        &self,
        seen: &Seen<'_, E>,
        key: Key,
    ) -> Result<(), Finding> {
        let nodes = self.layout.nodes();
        let Some(policy) = self.policy.intents.filter(|_| nodes > 1) else { return Ok(()) };
        let workers = |node: usize| node * self.workers_per_node..(node + 1) * self.workers_per_node;
        let account = self.invariants.intents.as_ref();
        let finished = |node: usize| {
            account.is_some_and(|account| workers(node).all(|worker| account.is_finished(worker)))
        };
        let state = |node: usize| (seen.nodes.at(node).slot(key).role, self.active(seen, node, key));
        intents::at_rest(policy.choice, key, (0..nodes).map(state), finished)
    }

    /// Number of active intents of `node` for `key`.
    fn active<E: Element>(&self, seen: &Seen<'_, E>, node: usize, key: Key) -> u32 {
        let station = node * self.layout.channels() + self.layout.channel(key).index();
        seen.engine(station).active(key)
    }
}
