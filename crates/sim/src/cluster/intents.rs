//! Intents: signalling them, and waking the channels that wait for them.

use super::event::{Event, Happened};
use super::station::InboxItem;
use super::{Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{ChannelId, Clock, Element, Key, WorkerId};
use intendant_techniques::Role;
use std::ops::Range;

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
        self.probe.signalled(worker, keys, window.start.0..window.end.0);
        self.wake_channels(node, &wake);
        Ok(())
    }

    /// A worker has finished: it rests, and all its intents end.
    #[inline(never)]
    pub fn retire(&mut self, worker: usize) {
        let node = self.node_of(worker);
        let advanced = self.nodes[node].retire(&self.worker_states[worker].local);
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} has finished: {advanced:?}"));
        self.probe.finished(worker);
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
        self.stations[station].inbox.push_back((now_ns, InboxItem::Wake));
        self.begin_turn(station)?;
        Ok(Happened::Internal)
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
