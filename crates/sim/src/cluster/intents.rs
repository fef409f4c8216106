//! Intents: signalling them, waking the channels that wait for them, and checking how channels act on them.

use super::watched::WatchedInput;
use super::{Cluster, Event, Happened, InboxItem};
use crate::invariants::{Finding, Violation, choice};
use crate::reach::Marker;
use intendant_core::{ChannelId, Clock, Element, Key, NodeId, WorkerId};
use intendant_techniques::{Decider, Role};
use intendant_wire::{HolderRow, ReplicaRequestKind};
use std::ops::Range;

use super::replicas::NO_WORKER;

/// Upper bound of the ticks per channel that [`Cluster::idle`] executes. Channels with replicas tick
/// periodically to find keys that workers changed.
const TICKS_PER_IDLE_CHANNEL_MAX: u64 = 100;

/// The thread that signals an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The worker; the call occupies it.
    Worker,
    /// The worker's loader, which prepares batches on a thread of its own.
    Loader,
}

impl<E: Element> Cluster<E> {
    /// Signals that a worker will access `keys` while its clock is in `window`.
    ///
    /// # Errors
    /// If the engine refuses the call.
    #[inline(never)]
    pub fn intend(
        &mut self,
        worker: usize,
        keys: &[Key],
        window: Range<Clock>,
        caller: Caller,
    ) -> Result<(), Violation> {
        let (node, local) = (self.node_of(worker), WorkerId((worker % self.workers_per_node) as u16));
        let wake = self.nodes[node].intend(local, keys, window.clone());
        let wake = wake.map_err(|error| self.violation(("access", error.to_string())))?;
        self.trace.line(self.queue.now_ns(), || {
            format!(
                "worker {worker} signals intent for {keys:?} at clocks {:?}: wakes {wake:?}",
                window.start.0..window.end.0
            )
        });
        if caller == Caller::Worker {
            self.charge_call(worker, keys.len(), 0);
        }
        if !wake.is_empty() {
            self.reach.mark(Marker::WokenBySignal);
        }
        let first = self.station(node, 0);
        if let Some(intents) = &mut self.invariants.intents {
            for channel in 0..self.layout.channels() {
                let own = |key: &Key| self.layout.channel(*key).index() == channel;
                let keys: Vec<Key> = keys.iter().copied().filter(own).collect();
                if !keys.is_empty() {
                    intents.signalled(first + channel, worker, keys, window.start.0..window.end.0);
                }
            }
        }
        self.wake_channels(node, &wake);
        Ok(())
    }

    /// A worker has finished: it rests, and all its intents end.
    #[inline(never)]
    pub fn retire(&mut self, worker: usize) {
        let node = self.node_of(worker);
        let advanced = self.nodes[node].retire(&self.worker_states[worker].local);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} has finished: {advanced:?}"));
        if let Some(intents) = &mut self.invariants.intents {
            intents.advanced(worker, crate::invariants::intents::FINISHED);
        }
        self.send_clock(worker, advanced.clock);
        self.wake_channels(node, &advanced.wake);
    }

    /// The workers of a node continue after the cluster has rested. Its channels act on the intents that were
    /// signalled in the meantime.
    #[inline(never)]
    pub fn resume(&mut self, node: usize) {
        let wake = self.nodes[node].resume();
        if !wake.is_empty() {
            self.reach.mark(Marker::Resumed);
        }
        self.trace.line(self.queue.now_ns(), || format!("n{node} resumes: wakes {wake:?}"));
        self.wake_channels(node, &wake);
    }

    /// Whether the cluster is quiescent and no worker has continued since.
    pub fn rests(&self) -> bool {
        self.resting
    }

    /// Whether channels act on intents.
    pub fn acts_on_intents(&self) -> bool {
        self.policy.intents.is_some() && self.nodes.len() > 1
    }

    pub(super) fn wake_channels(&mut self, node: usize, channels: &[ChannelId]) {
        for channel in channels {
            self.resting = false;
            let station = self.station(node, channel.index()) as u32;
            let after_ns = self.delays.enqueue.draw(&mut self.dice);
            self.schedule(after_ns, Event::Woken { station });
        }
    }

    /// The wake-up of a channel by a worker or loader reaches its inbox.
    pub(super) fn woken(&mut self, station: usize) -> Result<Happened, Violation> {
        let now_ns = self.now_ns();
        self.stations[station].inbox.push_back((now_ns, NO_WORKER, InboxItem::Wake));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }

    /// Checks the intents of a channel that has handled an input: if it ran an intent round, all its keys;
    /// otherwise the keys of the input.
    pub(super) fn check_intents(&mut self, station: usize) -> Result<(), Finding> {
        let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
        let Self { invariants, stations, watch, reach, nodes, layout, .. } = self;
        let Some(intents) = &mut invariants.intents else { return Ok(()) };
        if let WatchedInput::IntentReport { from, begun } = watch.input {
            let keys = watch.keys.iter().enumerate();
            keys.for_each(|(at, key)| intents.report_received(from, *key, at < begun));
        }
        let engine = &stations[station].engine;
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
            let (state, node) = (nodes[node].slot(key), NodeId(node as u16));
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
    pub(super) fn check_departure<'a>(
        &mut self,
        station: usize,
        key: Key,
        to: NodeId,
        rows: impl Iterator<Item = &'a HolderRow>,
    ) -> Result<(), Finding> {
        let Some(intents) = &self.invariants.intents else { return Ok(()) };
        let here = NodeId((station / self.layout.channels()) as u16);
        if intents.decider().is_home() {
            if self.layout.home(key) == here {
                self.reach.mark(Marker::SentByHome);
                return self.check_decision(station, key, to);
            }
            self.reach.mark(Marker::SentByOrder);
            if self.active(here.index(), key) > 0 {
                self.reach.mark(Marker::LostWanted);
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
        self.reach.mark(marker);
        // The count at the time of the decision; an intent round in the same input may have changed it.
        let own = self.active(here.index(), key);
        choice::check_hands_over(intents.choice(), key, (here, own), &holders, to, requester)
    }

    /// The home of a key orders its owner to hand it over to `to`.
    pub(super) fn check_relocation_order(
        &mut self,
        station: usize,
        key: Key,
        to: NodeId,
    ) -> Result<(), Finding> {
        match &self.invariants.intents {
            Some(intents) if intents.decider().is_home() => self.check_decision(station, key, to),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that a home that sends a key to `to` knows of intents at `to` only. Skipped where homes handle
    /// intents one by one: a decision on the first may look wrong after the last.
    fn check_decision(&self, station: usize, key: Key, to: NodeId) -> Result<(), Finding> {
        let aggregated = self.invariants.intents.as_ref().is_some_and(|i| i.decider() == Decider::Home);
        let home = NodeId((station / self.layout.channels()) as u16);
        let (wanted, _) = self.stations[station].engine.reported(key);
        if aggregated { choice::check_home_sends(key, home, &wanted, to) } else { Ok(()) }
    }

    /// At rest, replicas exist exactly where the technique asks for them.
    pub(super) fn check_replicas_match_intents(&self, key: Key) -> Result<(), Finding> {
        let Some(policy) = self.policy.intents.filter(|_| self.nodes.len() > 1) else { return Ok(()) };
        let workers = |node: usize| node * self.workers_per_node..(node + 1) * self.workers_per_node;
        let intents = &self.invariants.intents;
        let finished = |node: usize| {
            intents.as_ref().is_some_and(|intents| workers(node).all(|worker| intents.is_finished(worker)))
        };
        let seen = |node: usize| (self.nodes[node].slot(key).role, self.active(node, key));
        crate::invariants::intents::at_rest(policy.choice, key, (0..self.nodes.len()).map(seen), finished)
    }

    /// Number of active intents of `node` for `key`.
    fn active(&self, node: usize, key: Key) -> u32 {
        let station = node * self.layout.channels() + self.layout.channel(key).index();
        self.stations[station].engine.active(key)
    }

    /// Checks, when no event is left, that channels that may act have acted on all intents.
    ///
    /// # Errors
    /// If an intent has been signalled, begun or ended unnoticed.
    pub fn check_settled(&self) -> Result<(), Violation> {
        let settled = self.invariants.intents.as_ref().map_or(Ok(()), crate::invariants::Intents::settled);
        settled.map_err(|finding| self.violation(finding))
    }

    /// Lets `for_ns` pass without any call of a worker. Checks that the cluster sends no message and that its
    /// channels sleep. No event but timers may be left before.
    ///
    /// # Errors
    /// If the cluster sends a message, a channel stays awake, or an invariant is broken.
    pub fn idle(&mut self, for_ns: u64) -> Result<(), Violation> {
        let (until_ns, messages, ticks) = (self.now_ns() + for_ns, self.traffic.messages, self.ticks);
        let ticks_max = TICKS_PER_IDLE_CHANNEL_MAX * self.stations.len() as u64;
        self.resting = true;
        while self.queue.next_ns().is_some_and(|next_ns| next_ns <= until_ns) {
            // A channel with long rounds notices late that clocks do not advance.
            if self.ticks - ticks >= ticks_max
                && self.stations.iter().all(|station| station.engine.is_asleep())
            {
                break;
            }
            self.step()?;
        }
        if self.traffic.messages != messages {
            let sent = self.traffic.messages - messages;
            return Err(self.violation(("quiet", format!("an idle cluster sent {sent} messages"))));
        }
        let awake = self.stations.iter().position(|station| !station.engine.is_asleep());
        if let Some(awake) = awake {
            return Err(self.violation(("quiet", format!("channel {awake} of an idle cluster is awake"))));
        }
        let replicas = self
            .nodes
            .iter()
            .any(|node| (0..self.layout.keys()).any(|key| node.slot(Key(key)).role == Role::Replica));
        let timer = self.stations.iter().position(|station| station.engine.due().is_some());
        match timer.filter(|_| self.acts_on_intents() && !replicas) {
            Some(at) => {
                Err(self.violation(("quiet", format!("channel {at} has nothing to do and sets a timer"))))
            }
            None => Ok(()),
        }
    }
}
