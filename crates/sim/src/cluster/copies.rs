//! What copies need: clocks of workers, decisions about replicas, synchronisation, and timers.
//!
//! Timers alone do not keep a cluster alive: when nothing else is left to happen, each goes off once or twice
//! more, and if nothing follows from that, the run is over.

use super::{Called, Cluster, Errand, Event, Happened, Station};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Clock, Element, Key, NodeId, Tick, limits};
use intendant_techniques::Role;
use intendant_techniques::clocks::{NodeClock, RESTING};

/// The number of the worker, for errands that come from no worker.
pub(super) const NO_WORKER: usize = usize::MAX;

impl<E: Element> Cluster<E> {
    /// A worker advances its clock, or comes from a meeting with the latest clock of all workers.
    #[inline(never)]
    pub fn advance_clock(&mut self, worker: usize, clock: Clock) {
        let node = self.node_of(worker);
        let told = self.nodes[node].advance_clock(&mut self.posts[worker].local, clock);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} is at {clock:?}: {told:?}"));
        if let Some(intents) = &mut self.invariants.intents {
            intents.advanced(worker, clock.0.min(RESTING - 1));
        }
        if !told.wake.is_empty() {
            self.reach.mark(Marker::WokenByClock);
        }
        self.tell_clock(worker, told.clock);
        self.wake_channels(node, &told.wake);
    }

    /// A worker goes to a meeting, or is finished.
    #[inline(never)]
    pub fn rest(&mut self, worker: usize) {
        let node = self.node_of(worker);
        let told = self.nodes[node].rest(&self.posts[worker].local);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} rests: {told:?}"));
        self.tell_clock(worker, told);
    }

    pub(super) fn tell_clock(&mut self, worker: usize, told: Option<NodeClock>) {
        let Some(clock) = told else { return };
        self.charge_call(worker, 0, 0);
        for channel in 0..self.layout.channels() {
            self.run_errand(worker, channel, Errand::Clock(clock));
        }
    }

    /// Sets the staleness bound on all nodes.
    pub fn set_staleness_bound(&mut self, bound: u32) {
        self.nodes.iter().for_each(|node| node.set_staleness_bound(bound));
    }

    /// Starts to bring static replicas in step. All workers must do so equally often.
    ///
    /// # Errors
    /// If it breaks an invariant.
    #[inline(never)]
    pub fn synchronize(&mut self, worker: usize) -> Result<Called<E>, Violation> {
        let node = self.node_of(worker);
        let started = self.nodes[node].synchronize(&mut self.posts[worker].local);
        self.charge_call(worker, 0, 0);
        let op = self.started(worker, "synchronize", &[], limits::OUTSTANDING_KEY_BYTES, Ok(started))?;
        Ok(Called { op, values: Vec::new() })
    }

    /// Whether a worker may synchronize now. If not, it must wait until one of its operations is done.
    #[inline(never)]
    pub fn admits_synchronize(&self, worker: usize) -> bool {
        let outstanding = self.posts[worker].local.outstanding_bytes();
        self.invariants.bounded.admits(outstanding, limits::OUTSTANDING_KEY_BYTES)
    }

    /// The node of a worker decides that it wants replicas of `keys`, or wants them no longer. As
    /// with [`Cluster::order`], these decisions must end before the cluster rests.
    pub fn replicate(&mut self, worker: usize, keys: &[Key], wanted: bool) {
        self.trace.line(self.queue.now_ns(), || {
            let what = if wanted { "wants" } else { "does not want" };
            format!("worker {worker}'s node {what} replicas of {keys:?}")
        });
        self.decide(worker, keys, |keys| Errand::Replicate(keys, wanted));
    }

    /// Hands a decision about keys to the channels concerned.
    pub(super) fn decide(&mut self, worker: usize, keys: &[Key], errand: impl Fn(Vec<Key>) -> Errand) {
        for channel in 0..self.layout.channels() {
            let keys: Vec<Key> =
                keys.iter().copied().filter(|key| self.layout.channel(*key).index() == channel).collect();
            if !keys.is_empty() {
                self.orders += 1;
                self.resting = false;
                self.run_errand(worker, channel, errand(keys));
            }
        }
    }

    /// The nodes that have a replica of `key` now.
    pub fn holders(&self, key: Key) -> Vec<NodeId> {
        let nodes = self.nodes.iter().filter(|node| node.slot(key).role == Role::Replica);
        nodes.map(|node| node.node()).collect()
    }

    /// A channel is asked to report. It answers when it has handled what came before, and has brought its
    /// copies in step.
    pub(super) fn report(&mut self, station: usize) -> Result<Happened, Violation> {
        let now_ns = self.now_ns();
        self.stations[station].inbox.push_back((now_ns, NO_WORKER, Errand::Report));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }

    /// Sets the timer of a channel to what the channel says.
    pub(super) fn set_timer(&mut self, station: usize) {
        let Some(Tick(due_us)) = self.stations[station].engine.due() else { return };
        let at_ns = due_us.saturating_mul(1_000).max(self.now_ns());
        let timer = &mut self.stations[station].timer;
        if timer.is_due || timer.at_ns == Some(at_ns) {
            return;
        }
        timer.at_ns = Some(at_ns);
        self.timers += 1;
        self.queue.schedule(at_ns, Event::Due { station: station as u32 }, &mut self.dice);
    }

    /// A timer goes off.
    pub(super) fn due(&mut self, station: usize) -> Result<Happened, Violation> {
        self.timers -= 1;
        self.ticks += 1;
        let now_ns = self.now_ns();
        let timer = &mut self.stations[station].timer;
        if timer.at_ns != Some(now_ns) {
            return Ok(Happened::Internal);
        }
        timer.at_ns = None;
        self.fruitless += 1;
        if self.stations[station].engine.due().is_some_and(|due| due.0.saturating_mul(1_000) <= now_ns) {
            self.stations[station].timer.is_due = true;
            self.begin_turn(station)?;
        } else {
            self.set_timer(station);
        }
        Ok(Happened::Internal)
    }

    /// Notes that something happens that is no timer's doing.
    pub(super) fn note_life(&mut self, event: Event) {
        // What follows from an input is known after it.
        if !matches!(event, Event::Due { .. } | Event::Turn { .. }) {
            self.fruitless = 0;
            self.lively_ns = self.queue.now_ns();
        }
    }

    /// Whether nothing will happen any more but timers that go off for nothing.
    pub(super) fn only_timers_are_left(&self) -> bool {
        let waits = |station: &Station<E>| {
            !station.inbox.is_empty() || station.received.iter().any(|received| !received.is_empty())
        };
        // However short the rounds of others are, a channel that does not sleep may be about to act on what
        // was announced.
        self.queue.len() == self.timers + self.looking
            && self.fruitless > self.fruitless_max()
            && self.stations.iter().all(|station| station.engine.is_asleep() && !waits(station))
    }

    /// How often timers go off for nothing before that is all that they will do.
    fn fruitless_max(&self) -> usize {
        2 * self.stations.len()
    }

    /// When something happened last, apart from timers that went off for nothing.
    pub fn lively_ns(&self) -> u64 {
        self.lively_ns
    }

    /// What bringing copies in step takes a channel beyond its input: each key of a round is found and
    /// copied. Returns how long that is.
    pub(super) fn sync_work(&mut self, station: usize) -> u64 {
        let synced = self.synced(station);
        if synced == 0 {
            return 0;
        }
        let delays = &self.delays;
        let bytes = delays.charge.bytes(synced as usize * self.value_bytes_mean);
        let work_ns = delays.machine.input(synced, bytes) - delays.machine.input(0, 0);
        let node = station / self.layout.channels();
        let work_ns = self.at_pace(self.now_ns(), node, work_ns);
        self.stations[station].thread.extend(work_ns);
        work_ns
    }
}
