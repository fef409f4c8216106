//! What workers announce, how channels that sleep are woken, and what is checked of it.

use super::watch::About;
use super::{Cluster, Errand, Event, Happened};
use crate::invariants::{Finding, Violation, choice};
use crate::reach::Marker;
use intendant_core::{ChannelId, Clock, Element, Key, NodeId, WorkerId};
use intendant_techniques::{Decider, Role};
use intendant_wire::{HolderRow, ReplicaRequestKind};
use std::ops::Range;

use super::copies::NO_WORKER;

/// Channels that have copies look every so often whether workers have changed them: after so many looks
/// enough has been seen of an idle cluster.
const LOOKS_PER_IDLE_CHANNEL_MAX: u64 = 100;

/// Who announces what a worker will use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The worker, which takes its time.
    Worker,
    /// Its loader, which prepares batches on another thread.
    Loader,
}

impl<E: Element> Cluster<E> {
    /// A worker will access `keys` while its clock is in `window`.
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
            format!("worker {worker} will use {keys:?} at {:?}: {wake:?}", window.start.0..window.end.0)
        });
        if caller == Caller::Worker {
            self.charge_call(worker, keys.len(), 0);
        }
        if !wake.is_empty() {
            self.reach.mark(Marker::WokenBySignal);
        }
        for channel in 0..self.layout.channels() {
            let own = |key: &Key| self.layout.channel(*key).index() == channel;
            let keys: Vec<Key> = keys.iter().copied().filter(own).collect();
            let station = self.station(node, channel);
            if let Some(intents) = self.invariants.intents.as_mut().filter(|_| !keys.is_empty()) {
                intents.announced(station, worker, keys, window.start.0..window.end.0);
            }
        }
        self.wake_channels(node, &wake);
        Ok(())
    }

    /// A worker is finished: it rests, and all its intents are over.
    #[inline(never)]
    pub fn retire(&mut self, worker: usize) {
        let node = self.node_of(worker);
        let told = self.nodes[node].retire(&self.posts[worker].local);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} is finished: {told:?}"));
        if let Some(intents) = &mut self.invariants.intents {
            intents.advanced(worker, crate::invariants::intents::FINISHED);
        }
        self.tell_clock(worker, told.clock);
        self.wake_channels(node, &told.wake);
    }

    /// The workers of a node go on after the cluster has rested: what was announced meanwhile is acted on.
    #[inline(never)]
    pub fn resume(&mut self, node: usize) {
        let wake = self.nodes[node].resume();
        if !wake.is_empty() {
            self.reach.mark(Marker::Resumed);
        }
        self.trace.line(self.queue.now_ns(), || format!("n{node} goes on: {wake:?}"));
        self.wake_channels(node, &wake);
    }

    /// Whether the cluster has come to rest, and no worker has continued since.
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

    /// A worker or loader has woken a channel.
    pub(super) fn woken(&mut self, station: usize) -> Result<Happened, Violation> {
        let now_ns = self.now_ns();
        self.stations[station].inbox.push_back((now_ns, NO_WORKER, Errand::Wake));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }

    /// A channel has handled an input: it has looked at what was announced if it says so, and what it counts
    /// and does fits that.
    pub(super) fn check_intents(&mut self, station: usize) -> Result<(), Finding> {
        let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
        let Self { invariants, stations, watch, reach, nodes, layout, .. } = self;
        let Some(intents) = &mut invariants.intents else { return Ok(()) };
        if let About::IntentReport { from, begun } = watch.about {
            let keys = watch.keys.iter().enumerate();
            keys.for_each(|(at, key)| intents.heard(from, *key, at < begun));
        }
        let engine = &stations[station].engine;
        let all = engine.intent_rounds() > intents.looks(station);
        if all {
            let look = intents.looked(station, node, |worker| engine.horizon(worker).unwrap_or(0));
            if engine.intent_rounds() != intents.looks(station) {
                return Err(("intents", format!("channel {station} has looked twice at once")));
            }
            let marks = [
                (look.on_time, Marker::IntentBegan),
                (look.early, Marker::IntentEarly),
                (look.late, Marker::IntentLate),
                (look.extended, Marker::IntentExtended),
                (look.past, Marker::IntentPast),
                (look.empty, Marker::IntentEmpty),
                (look.ended, Marker::IntentEnded),
                (usize::from(engine.is_asleep()), Marker::Slept),
            ];
            marks.into_iter().filter(|(count, _)| *count > 0).for_each(|(_, marker)| reach.mark(marker));
        }
        let check = |key: Key| {
            let (state, node) = (nodes[node].slot(key), NodeId(node as u16));
            if intents.decider().is_home() && layout.home(key) == node {
                let (wanted, ordered) = engine.reported(key);
                let owner = if state.role.is_owner() { Some(node) } else { state.hint() };
                choice::leaves_it(key, node, &wanted, owner, ordered)?;
                intents.knows(station, node, key, wanted)?;
            }
            intents.handled(station, node, key, state.role, engine.active(key), engine.wants(key))?;
            let holders: Vec<NodeId> =
                engine.hub(key).map_or_else(Vec::new, |hub| hub.holders().iter().map(|h| h.node).collect());
            if state.role.is_owner() && intents.decider() == Decider::Owner {
                return choice::stays(
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

    /// A node hands a key over, with these holders.
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
            if matches!(self.watch.about, About::Relocate) {
                return Ok(());
            }
            let what = format!("{here:?} hands {key:?} over to {to:?}, and its home has not told it to");
            return Err(("choice", what));
        }
        let holders: Vec<NodeId> = rows.map(|row| row.node).collect();
        let heard = if let About::ReplicaRequest { kind, holder } = self.watch.about {
            Some((kind, holder))
        } else {
            None
        };
        let (asker, marker) = match heard {
            Some((ReplicaRequestKind::Ask, holder)) => (Some(holder), Marker::RelocatedByIntent),
            Some((ReplicaRequestKind::Drop, _)) => (None, Marker::RelocatedByDrop),
            Some((ReplicaRequestKind::Delta, _)) | None => (None, Marker::RelocatedByExpiry),
        };
        self.reach.mark(marker);
        // What was active when the node decided, which the channel may have looked at in the same input.
        let own = self.active(here.index(), key);
        choice::leaves(intents.choice(), key, (here, own), &holders, to, asker)
    }

    /// The home of a key orders its owner to hand it over to `to`.
    pub(super) fn check_order(&mut self, station: usize, key: Key, to: NodeId) -> Result<(), Finding> {
        match &self.invariants.intents {
            Some(intents) if intents.decider().is_home() => self.check_decision(station, key, to),
            Some(_) | None => Ok(()),
        }
    }

    /// A home sends a key to `to`. What was decided on the first of several intents may look wrong after the
    /// last.
    fn check_decision(&self, station: usize, key: Key, to: NodeId) -> Result<(), Finding> {
        let aggregated = self.invariants.intents.as_ref().is_some_and(|i| i.decider() == Decider::Home);
        let home = NodeId((station / self.layout.channels()) as u16);
        let (wanted, _) = self.stations[station].engine.reported(key);
        if aggregated { choice::sends(key, home, &wanted, to) } else { Ok(()) }
    }

    /// At rest: replicas exist exactly where the technique asks for them.
    pub(super) fn check_wanted(&self, key: Key) -> Result<(), Finding> {
        let Some(policy) = self.policy.intents.filter(|_| self.nodes.len() > 1) else { return Ok(()) };
        let workers = |node: usize| node * self.workers_per_node..(node + 1) * self.workers_per_node;
        let intents = &self.invariants.intents;
        let finished = |node: usize| {
            intents.as_ref().is_some_and(|intents| workers(node).all(|worker| intents.is_finished(worker)))
        };
        let seen = |node: usize| (self.nodes[node].slot(key).role, self.active(node, key));
        crate::invariants::intents::at_rest(policy.choice, key, (0..self.nodes.len()).map(seen), finished)
    }

    /// How many of a node's intents for `key` are active.
    fn active(&self, node: usize, key: Key) -> u32 {
        let station = node * self.layout.channels() + self.layout.channel(key).index();
        self.stations[station].engine.active(key)
    }

    /// Nothing is left to happen: channels that are not held have acted on all that there is.
    ///
    /// # Errors
    /// If they have not.
    pub fn check_settled(&self) -> Result<(), Violation> {
        let settled = self.invariants.intents.as_ref().map_or(Ok(()), crate::invariants::Intents::settled);
        settled.map_err(|finding| self.violation(finding))
    }

    /// Lets time pass without any call of a worker, after nothing was left to happen: the cluster sends no
    /// message, its channels sleep.
    ///
    /// # Errors
    /// If an invariant is broken.
    pub fn idle(&mut self, for_ns: u64) -> Result<(), Violation> {
        let (until_ns, messages, ticks) = (self.now_ns() + for_ns, self.messages, self.ticks);
        let looks_max = LOOKS_PER_IDLE_CHANNEL_MAX * self.stations.len() as u64;
        self.resting = true;
        while self.queue.next_ns().is_some_and(|next_ns| next_ns <= until_ns) {
            // A channel whose rounds are long takes a while to notice that clocks stand.
            if self.ticks - ticks >= looks_max
                && self.stations.iter().all(|station| station.engine.is_asleep())
            {
                break;
            }
            self.step()?;
        }
        if self.messages != messages {
            let sent = self.messages - messages;
            return Err(self.violation(("quiet", format!("an idle cluster has sent {sent} messages"))));
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
                Err(self
                    .violation(("quiet", format!("channel {at} has nothing to do and looks at the time"))))
            }
            None => Ok(()),
        }
    }
}
