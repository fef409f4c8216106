//! What replicas need: worker clocks, decisions about replicas, synchronisation, and timers.
//!
//! Timers alone do not keep a run alive. When no other event is left, each timer expires once or twice more;
//! if that has no effect, the run is over.

use super::event::{Event, Happened};
use super::station::InboxItem;
use super::{CallOutcome, Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Clock, Element, Key, NodeId, Tick, limits};
use intendant_techniques::Role;
use intendant_techniques::clocks::NodeClock;

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// A worker advances its clock, or leaves a meeting with the latest clock of all workers.
    #[inline(never)]
    pub fn advance_clock(&mut self, worker: usize, clock: Clock) {
        let node = self.node_of(worker);
        let advanced = self.nodes[node].advance_clock(&mut self.worker_states[worker].local, clock);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} is at {clock:?}: {advanced:?}"));
        self.probe.advanced(worker, clock.0);
        if !advanced.wake.is_empty() {
            self.reach.mark(Marker::WokenByClock);
        }
        self.send_clock(worker, advanced.clock);
        self.wake_channels(node, &advanced.wake);
    }

    /// A worker enters a meeting, or has finished.
    #[inline(never)]
    pub fn rest(&mut self, worker: usize) {
        let node = self.node_of(worker);
        let clock = self.nodes[node].rest(&self.worker_states[worker].local);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} rests: {clock:?}"));
        self.send_clock(worker, clock);
    }

    /// Sends a change of the node's clock to its channels.
    pub(super) fn send_clock(&mut self, worker: usize, clock: Option<NodeClock>) {
        let Some(clock) = clock else { return };
        self.charge_call(worker, 0, 0);
        for channel in 0..self.layout.channels() {
            self.send_to_channel(worker, channel, InboxItem::Clock(clock));
        }
    }

    /// Sets the staleness bound on all nodes.
    pub fn set_staleness_bound(&mut self, bound: u32) {
        self.nodes.iter().for_each(|node| node.set_staleness_bound(bound));
    }

    /// Starts to synchronise static replicas. All workers must call this equally often.
    ///
    /// # Errors
    /// If it breaks an invariant.
    #[inline(never)]
    pub fn synchronize(&mut self, worker: usize) -> Result<CallOutcome<E>, Violation> {
        let node = self.node_of(worker);
        let started = self.nodes[node].synchronize(&mut self.worker_states[worker].local);
        self.charge_call(worker, 0, 0);
        let op = self.started(worker, "synchronize", &[], limits::OUTSTANDING_KEY_BYTES, Ok(started))?;
        Ok(CallOutcome { op, values: Vec::new() })
    }

    /// Whether a worker's outstanding bytes admit [`Cluster::synchronize`]. If not, one of its operations
    /// must complete first.
    #[inline(never)]
    pub fn admits_synchronize(&self, worker: usize) -> bool {
        let outstanding = self.worker_states[worker].local.outstanding_bytes();
        self.bounded.admits(outstanding, limits::OUTSTANDING_KEY_BYTES)
    }

    /// The node of a worker decides to acquire replicas of `keys` (`wanted`) or to drop them. As with
    /// [`Cluster::relocate`], channels must have handled the decision before the cluster rests.
    pub fn replicate(&mut self, worker: usize, keys: &[Key], wanted: bool) {
        self.trace.line(self.queue.now_ns(), || {
            let what = if wanted { "acquire" } else { "drop" };
            format!("worker {worker}'s node decides to {what} replicas of {keys:?}")
        });
        self.decide(worker, keys, |keys| InboxItem::Replicate(keys, wanted));
    }

    /// Sends a decision about keys to the channels of these keys.
    pub(super) fn decide(&mut self, worker: usize, keys: &[Key], item: impl Fn(Vec<Key>) -> InboxItem) {
        for channel in 0..self.layout.channels() {
            let keys: Vec<Key> =
                keys.iter().copied().filter(|key| self.layout.channel(*key).index() == channel).collect();
            if !keys.is_empty() {
                self.pending_decisions += 1;
                self.resting = false;
                self.send_to_channel(worker, channel, item(keys));
            }
        }
    }

    /// The nodes that hold a replica of `key`.
    pub fn holders(&self, key: Key) -> Vec<NodeId> {
        let nodes = self.nodes.iter().filter(|node| node.slot(key).role == Role::Replica);
        nodes.map(|node| node.node()).collect()
    }

    /// A request for a report reaches a channel's inbox. The channel answers after the inputs before it, with
    /// its replicas synchronised.
    pub(super) fn report(&mut self, station: usize) -> Result<Happened, Violation> {
        let now_ns = self.now_ns();
        self.stations[station].inbox.push_back((now_ns, InboxItem::Report));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
    }

    /// Sets a channel's timer to the time that the channel names.
    pub(super) fn set_timer(&mut self, station: usize) {
        let Some(Tick(due_us)) = self.tick_due(station) else { return };
        let at_ns = due_us.saturating_mul(1_000).max(self.now_ns());
        let timer = &mut self.stations[station].timer;
        if timer.is_due || timer.at_ns == Some(at_ns) {
            return;
        }
        timer.at_ns = Some(at_ns);
        self.timers += 1;
        self.queue.schedule(at_ns, Event::Due { station: station as u32 }, &mut self.dice);
    }

    /// A timer expires.
    pub(super) fn due(&mut self, station: usize) -> Result<Happened, Violation> {
        self.timers -= 1;
        self.ticks += 1;
        let now_ns = self.now_ns();
        let timer = &mut self.stations[station].timer;
        if timer.at_ns != Some(now_ns) {
            return Ok(Happened::Internal);
        }
        timer.at_ns = None;
        self.idle_timers += 1;
        if self.tick_due(station).is_some_and(|due| due.0.saturating_mul(1_000) <= now_ns) {
            self.stations[station].timer.is_due = true;
            self.begin_turn(station)?;
        } else {
            self.set_timer(station);
        }
        Ok(Happened::Internal)
    }

    /// Notes activity: an event other than a timer.
    pub(super) fn note_activity(&mut self, event: Event) {
        // Whether an input has an effect is known only after it.
        if !matches!(event, Event::Due { .. } | Event::Turn { .. }) {
            self.idle_timers = 0;
            self.last_activity_ns = self.queue.now_ns();
        }
    }

    /// Whether only timers without effect are left.
    pub(super) fn only_timers_are_left(&self) -> bool {
        // A channel that is awake may be about to act on an intent, even if other channels tick more often.
        self.queue.len() == self.timers + self.ticking
            && self.idle_timers > self.idle_timers_max()
            && self.stations.iter().all(|station| station.engine.is_asleep() && !station.has_input())
    }

    /// Number of consecutive timers without effect after which the run is over.
    fn idle_timers_max(&self) -> usize {
        2 * self.stations.len()
    }

    /// Time of the last event other than a timer without effect.
    pub fn last_activity_ns(&self) -> u64 {
        self.last_activity_ns
    }

    /// Charges a channel for `synced` keys that it synchronised in addition to those of its input: each is
    /// looked up and copied. Returns the duration.
    pub(super) fn sync_work(&mut self, station: usize, synced: u64) -> u64 {
        if synced == 0 {
            return 0;
        }
        let delays = &self.delays;
        let bytes = delays.charge.bytes(synced as usize * self.value_bytes_mean);
        let work_ns = delays.machine.input(synced, bytes) - delays.machine.input(0, 0);
        let node = station / self.layout.channels();
        let work_ns = self.at_pace(self.now_ns(), node, work_ns);
        self.prolong(station, work_ns);
        work_ns
    }
}
