//! The clocks of workers, and what keeps copies in step: decisions of nodes about replicas, and
//! synchronisation.

use super::station::InboxItem;
use super::{CallOutcome, Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Clock, Element, Key, limits};
use intendant_techniques::clocks::NodeClock;

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// A worker advances its clock, or leaves a meeting with the latest clock of all workers.
    #[inline(never)]
    pub fn advance_clock(&mut self, worker: usize, clock: Clock) {
        let node = self.machinery.workers.node_of(worker);
        let advanced =
            self.machinery.nodes[node].clocks().advance(&mut self.machinery.workers[worker].local, clock);
        self.machinery.agenda.note(|| format!("worker {worker} is at {clock:?}: {advanced:?}"));
        self.machinery.probe.advanced(worker, clock.0);
        if !advanced.wake.is_empty() {
            self.machinery.reach.mark(Marker::WokenByClock);
        }
        self.send_clock(worker, advanced.clock);
        self.machinery.wake_channels(node, &advanced.wake);
    }

    /// A worker enters a meeting, or has finished.
    #[inline(never)]
    pub fn rest(&mut self, worker: usize) {
        let node = self.machinery.workers.node_of(worker);
        let clock = self.machinery.nodes[node].clocks().rest(self.machinery.workers[worker].local.worker());
        self.machinery.agenda.note(|| format!("worker {worker} rests: {clock:?}"));
        self.send_clock(worker, clock);
    }

    /// Sends a change of the node's clock to its channels.
    pub(super) fn send_clock(&mut self, worker: usize, clock: Option<NodeClock>) {
        let Some(clock) = clock else { return };
        self.machinery.charge_call(worker, 0, 0);
        for channel in 0..self.machinery.layout.channels() {
            self.machinery.send_to_channel(worker, channel, InboxItem::Clock(clock));
        }
    }

    /// Starts to synchronise static replicas. All workers must call this equally often.
    ///
    /// # Errors
    /// If it breaks an invariant.
    #[inline(never)]
    pub fn synchronize(&mut self, worker: usize) -> Result<CallOutcome<E>, Violation> {
        let node = self.machinery.workers.node_of(worker);
        let started = self.machinery.nodes[node].synchronize(&mut self.machinery.workers[worker].local);
        self.machinery.charge_call(worker, 0, 0);
        let op = self.started(worker, "synchronize", &[], limits::OUTSTANDING_KEY_BYTES, Ok(started))?;
        Ok(CallOutcome { op, values: Vec::new() })
    }

    /// Whether a worker's outstanding bytes admit [`Cluster::synchronize`]. If not, one of its operations
    /// must complete first.
    #[inline(never)]
    pub fn admits_synchronize(&self, worker: usize) -> bool {
        let outstanding = self.machinery.workers[worker].local.outstanding_bytes();
        self.bounded.admits(outstanding, limits::OUTSTANDING_KEY_BYTES)
    }

    /// The node of a worker decides to acquire replicas of `keys` (`wanted`) or to drop them. As with
    /// [`Cluster::relocate`], channels must have handled the decision before the cluster rests.
    pub fn replicate(&mut self, worker: usize, keys: &[Key], wanted: bool) {
        self.machinery.agenda.note(|| {
            let what = if wanted { "acquire" } else { "drop" };
            format!("worker {worker}'s node decides to {what} replicas of {keys:?}")
        });
        self.decide(worker, keys, |keys| InboxItem::Replicate(keys, wanted));
    }

    /// Sends a decision about keys to the channels of these keys.
    pub(super) fn decide(&mut self, worker: usize, keys: &[Key], item: impl Fn(Vec<Key>) -> InboxItem) {
        for channel in 0..self.machinery.layout.channels() {
            let keys: Vec<Key> = keys
                .iter()
                .copied()
                .filter(|key| self.machinery.layout.channel(*key).index() == channel)
                .collect();
            if !keys.is_empty() {
                self.machinery.pending_decisions += 1;
                self.machinery.rests = false;
                self.machinery.send_to_channel(worker, channel, item(keys));
            }
        }
    }
}
