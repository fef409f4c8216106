//! What callers may ask a channel: when its next tick is due, what is outstanding, why a key is where it is,
//! and state for invariant checks.

use super::Channel;
use crate::quiesce::ChannelReport;
use crate::stats::ManagementStats;
use intendant_core::{ChannelId, Element, Key, NodeId, Tick};
use intendant_techniques::replication::Hub;
use intendant_techniques::{Replicas, Role};
use intendant_trace::{Event, Filter};

/// Why a key is where it is, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The role of the node for the key.
    pub role: Role,
    /// The owner of the key. If this node is not the owner: the node that it would ask first.
    pub owner: NodeId,
    /// If the key is owned here, the nodes that hold replicas of it.
    pub holders: Vec<NodeId>,
    /// Number of the node's active intents for the key.
    pub intents: u32,
    /// The latest decisions about the key here, oldest first.
    pub decisions: Vec<Event>,
}

impl<E: Element> Channel<E> {
    /// The channel's id.
    pub fn id(&self) -> ChannelId {
        self.core.id
    }

    /// When [`Input::Tick`](crate::Input::Tick) is due; `None` if the channel has nothing to do without
    /// another input.
    #[inline(never)]
    pub fn due(&self) -> Option<Tick> {
        let policy = self.core.policy();
        match policy.replicas {
            Some(Replicas::Directed { .. }) => {
                let has_rounds = policy.intents.is_none() || self.replication.has_copies();
                let round = has_rounds.then_some(self.replication.rounds.due());
                // A channel that sleeps, or has no intents, finds urgent replicas in its rounds: separate
                // looks for them would wake idle nodes.
                let intents = self.intents.due();
                let urgent = intents.and_then(|_| self.replication.next_look());
                [round, intents, urgent].into_iter().flatten().min()
            }
            None | Some(Replicas::Lazy | Replicas::Eager) => {
                self.static_replicas.due(self.core.shared.replication().pace)
            }
        }
    }

    /// When the next round of deltas and updates of directed replicas may start.
    pub fn next_round(&self) -> Tick {
        self.replication.rounds.next()
    }

    /// Postpones rounds of deltas and updates until `earliest`: the caller is short of time.
    pub fn postpone_round(&mut self, earliest: Tick) {
        self.replication.rounds.postpone(earliest);
    }

    /// Undoes [`Channel::postpone_round`]: the next round starts as soon as the pace of rounds allows.
    pub fn hasten_round(&mut self) {
        self.replication.rounds.hasten();
    }

    /// What is outstanding, and the messages sent and received: see [`crate::quiesce`].
    #[inline(never)]
    pub fn report(&self) -> ChannelReport {
        let outstanding = self.operations.outstanding()
            + self.snapshots.outstanding()
            + self.relocation.arriving()
            + self.replication.outstanding(&self.core)
            + self.static_replicas.outstanding()
            + self.intents.outstanding();
        ChannelReport { outstanding: outstanding as u64, sent: self.sent, received: self.received }
    }

    /// Counts of parameter management so far.
    pub fn management(&self) -> &ManagementStats {
        &self.out.stats
    }

    /// Number of keys that are on their way here.
    pub fn arriving(&self) -> usize {
        self.relocation.arriving()
    }

    /// Traces from now on what happens to the keys that `filter` accepts, and to the channel. The caller
    /// takes the events after each input: the channel keeps them until then.
    pub fn trace(&mut self, filter: Filter) {
        self.out.events.trace(filter);
    }

    /// The traced events since the last call, in the order in which they happened.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.out.events.take()
    }

    /// Why a key of this channel is where it is.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(never)]
    pub fn explain(&self, key: Key) -> Explanation {
        let shared = &self.core.shared;
        let (entry, role) = shared.latch(key);
        let state = entry.state();
        drop(entry);
        let elsewhere = || state.hint().unwrap_or_else(|| shared.directory().home(key));
        let owner = if role.is_owner() { shared.node() } else { elsewhere() };
        let holders = self.hub(key).map_or(&[][..], Hub::holders).iter().map(|holder| holder.node).collect();
        let (intents, decisions) = (self.intents.active(key), self.out.events.of(key));
        Explanation { role, owner, holders, intents, decisions }
    }

    /// Whether the channel sleeps, or has no rounds of intents: it looks at intents only after
    /// [`Input::Wake`](crate::Input::Wake).
    pub fn is_asleep(&self) -> bool {
        self.intents.due().is_none()
    }

    /// Length of a round of intents, in µs.
    pub fn round_length(&self) -> f64 {
        self.intents.round_length()
    }

    /// Clocks per round of a worker of this node, as estimated; `None` if the technique ignores intents.
    pub fn clock_rate(&self, worker: usize) -> Option<f64> {
        self.intents.clock_rate(worker)
    }

    /// Number of the node's active intents for a key of this channel. For invariant checks.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn active(&self, key: Key) -> u32 {
        self.intents.active(key)
    }

    /// Rounds of intents so far. For invariant checks.
    pub fn intent_rounds(&self) -> u64 {
        self.intents.rounds()
    }

    /// The horizon of a worker in the last round: intents that start before this clock became active. Intents
    /// whose start the worker has reached become active in any case. For invariant checks.
    pub fn horizon(&self, worker: usize) -> Option<u32> {
        self.intents.horizon(worker)
    }

    /// If homes decide: the nodes that have reported active intent for a key whose home is here, and the next
    /// owner that this node has ordered. For invariant checks.
    pub fn reported(&self, key: Key) -> (Vec<NodeId>, Option<NodeId>) {
        self.intents.home.reported(key)
    }

    /// Whether the replica of `key`, held or asked for, is to stay; `None` if there is none. For invariant
    /// checks.
    pub fn wants(&self, key: Key) -> Option<bool> {
        self.replication.holder.wants(key)
    }

    /// The record of a key that is owned here and replicated elsewhere. For invariant checks.
    pub fn hub(&self, key: Key) -> Option<&Hub> {
        self.replication.owner.hub(key)
    }

    /// Number of keys that are owned here and replicated elsewhere.
    pub fn hub_count(&self) -> usize {
        self.replication.owner.hub_count()
    }

    /// How many all-reduces are complete here, and the elements of the channel's static replicas that all
    /// nodes agree on after the last of them, by key. For invariant checks.
    pub fn agreed(&self) -> (u32, &[E]) {
        self.static_replicas.agreed()
    }
}
