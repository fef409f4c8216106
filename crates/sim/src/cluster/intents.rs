//! Intents: signalling them, and waking the channels that wait for them.

use super::{Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Clock, Element, Key};
use intendant_engine::Shared;
use intendant_techniques::Role;
use std::ops::Range;
use std::sync::Arc;

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

impl<E: Element, P: Probe<E>> Cluster<E, P> {
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
        let (node, local) = (self.machinery.workers.node_of(worker), self.machinery.workers.id(worker));
        let wake = self.machinery.nodes[node].clocks().intend(local, keys, window.clone());
        let wake = wake.map_err(|error| self.violation(("access", error.to_string())))?;
        self.machinery.agenda.note(|| {
            format!(
                "worker {worker} signals intent for {keys:?} at clocks {:?}: wakes {wake:?}",
                window.start.0..window.end.0
            )
        });
        if caller == Caller::Worker {
            self.machinery.charge_call(worker, keys.len(), 0);
        }
        if !wake.is_empty() {
            self.machinery.reach.mark(Marker::WokenBySignal);
        }
        self.machinery.probe.signalled(worker, keys, window.start.0..window.end.0);
        self.machinery.wake_channels(node, &wake);
        Ok(())
    }

    /// A worker has finished: it rests, and all its intents end.
    #[inline(never)]
    pub fn retire(&mut self, worker: usize) {
        let node = self.machinery.workers.node_of(worker);
        let advanced =
            self.machinery.nodes[node].clocks().retire(self.machinery.workers[worker].local.worker());
        self.machinery.agenda.note(|| format!("worker {worker} has finished: {advanced:?}"));
        self.machinery.probe.finished(worker);
        self.send_clock(worker, advanced.clock);
        self.machinery.wake_channels(node, &advanced.wake);
    }

    /// The workers of a node continue after the cluster has rested. Its channels act on the intents that were
    /// signalled in the meantime.
    #[inline(never)]
    pub fn resume(&mut self, node: usize) {
        let wake = self.machinery.nodes[node].clocks().resume();
        if !wake.is_empty() {
            self.machinery.reach.mark(Marker::Resumed);
        }
        self.machinery.agenda.note(|| format!("n{node} resumes: wakes {wake:?}"));
        self.machinery.wake_channels(node, &wake);
    }

    /// Whether the cluster is quiescent and no worker has continued since.
    pub fn rests(&self) -> bool {
        self.machinery.rests
    }

    /// Whether channels act on intents.
    pub fn acts_on_intents(&self) -> bool {
        self.nodes().len() > 1 && self.nodes()[0].policy().intents.is_some()
    }

    /// Lets `for_ns` pass without any call of a worker. Checks that the cluster sends no message and that its
    /// channels sleep. No event but timers may be left before.
    ///
    /// # Errors
    /// If the cluster sends a message, a channel stays awake, or an invariant is broken.
    pub fn idle(&mut self, for_ns: u64) -> Result<(), Violation> {
        let (until_ns, messages) = (self.now_ns() + for_ns, self.traffic().messages);
        let stations = &self.machinery.stations;
        let ticks_end = stations.ticks() + TICKS_PER_IDLE_CHANNEL_MAX * stations.all().len() as u64;
        self.machinery.rests = true;
        while self.machinery.agenda.next_ns().is_some_and(|next_ns| next_ns <= until_ns) {
            // A channel with long rounds notices late that clocks do not advance.
            let stations = &self.machinery.stations;
            if stations.ticks() >= ticks_end && stations.sleep() {
                break;
            }
            self.machinery.step()?;
        }
        let quiet = |what| Err(self.violation(("quiet", what)));
        if self.traffic().messages != messages {
            let sent = self.traffic().messages - messages;
            return quiet(format!("an idle cluster sent {sent} messages"));
        }
        let stations = self.machinery.stations.all();
        if let Some(awake) = stations.iter().position(|station| !station.engine.is_asleep()) {
            return quiet(format!("channel {awake} of an idle cluster is awake"));
        }
        let has_replica = |node: &Arc<Shared<E>>| {
            (0..self.layout().keys()).any(|key| node.inspect().slot(Key(key)).role == Role::Replica)
        };
        let replicas = self.nodes().iter().any(has_replica);
        let timer = stations.iter().position(|station| station.engine.due().is_some());
        match timer.filter(|_| self.acts_on_intents() && !replicas) {
            Some(at) => quiet(format!("channel {at} has nothing to do and sets a timer")),
            None => Ok(()),
        }
    }
}
