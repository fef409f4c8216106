//! Replication through the owner: replicas that this node holds, registrations of other nodes at keys owned
//! here, and bounded staleness. See [`intendant_techniques::replication`] and
//! [`intendant_techniques::clocks`].
//!
//! [`Holder`] and [`Owner`] are the two sides of the protocol; [`Staleness`] has the clocks. [`Replication`]
//! composes them: rounds of deltas and updates, and the publication of clocks.

pub(crate) mod held;
pub(crate) mod holder;
mod key_list;
pub(crate) mod owner;
mod pool;
mod portion;
mod rounds;
pub(crate) mod staleness;

use crate::channel::core::{Core, Noted};
use crate::channel::effects::{Access, Output};
use crate::error::ProtocolError;
use crate::input::Action;
use crate::node::Shared;
use bytes::Bytes;
use held::Urge;
use holder::Holder;
use intendant_core::{Element, Key, NodeId, Precision, Tick};
use intendant_store::Entry;
use intendant_techniques::clocks::{NodeClock, RESTING};
use intendant_techniques::replication::Hub;
use intendant_techniques::{Replicas, Role, SlotState};
use intendant_trace::What;
use intendant_wire::{Clock, ClockScope, HandOver, HolderRow, Message};
use owner::Owner;
use portion::Portion;
use rounds::Rounds;
use staleness::Staleness;
use std::collections::{BTreeSet, VecDeque};

/// The replicas of a channel's keys, here and elsewhere, with their clocks.
pub(crate) struct Replication<E> {
    pub(crate) holder: Holder<E>,
    pub(crate) owner: Owner,
    pub(crate) staleness: Staleness,
    pub(crate) rounds: Rounds,
    /// Keys that workers have marked as changed; empty between uses.
    noted: Noted,
}

/// How long an urgent replica waits for the channel's look, in µs, while the channel acts on intents. A round
/// of intents may be longer: it takes as long as owners take to answer, which is longest when the network is
/// busy and copies change fastest. With 1 ms and 0.5 ms, models train no better than with 2 ms
/// (docs/decisions/0013).
const URGENT_EVERY: u64 = 2_000;

impl<E: Element> Replication<E> {
    pub(crate) fn new(shared: &Shared<E>) -> Self {
        Self {
            holder: Holder::new(shared),
            owner: Owner::new(shared),
            staleness: Staleness::new(shared.layout().nodes()),
            rounds: Rounds::default(),
            noted: Noted::default(),
        }
    }

    /// When the channel must look for urgent replicas; `None` if it holds none.
    pub(crate) fn next_look(&self) -> Option<Tick> {
        self.holder.holds_any().then(|| self.rounds.looked.after(URGENT_EVERY))
    }

    /// Number of items of work that remain before the channel is settled.
    pub(crate) fn outstanding(&self, core: &Core<E>) -> usize {
        self.holder.unsettled(core.policy().replicas)
            + self.holder.listed()
            + self.owner.unsent()
            + self.owner.pending()
            + if core.precision() == Precision::Bf16 { self.owner.rounded() } else { 0 }
            + usize::from(!self.staleness.is_settled())
    }

    /// Whether there are copies that workers may change without notifying the channel.
    pub(crate) fn has_copies(&self) -> bool {
        self.holder.holds_any() || self.owner.hub_count() > 0
    }

    /// This node's own access to an absent key, under bounded staleness: a read asks for a replica, and later
    /// accesses wait for it. Returns whether the access waits.
    pub(crate) fn wait_for_replica(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        key: Key,
        state: &SlotState,
        access: Access,
        operand: impl FnOnce() -> Bytes,
    ) -> bool {
        if !is_clocked(core) {
            return false;
        }
        if !access.writes() {
            self.holder.want(core, out, key, state, access.need);
        }
        let waits = self.holder.holds(key);
        if waits {
            self.holder.queue(&mut self.staleness, key, access, operand());
        }
        waits
    }

    /// The main copy of `entry`'s key has arrived by its owner's decision, with the holders in `rows`.
    /// Returns the accesses that waited for a replica.
    pub(crate) fn arrive<'a>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        entry: &mut Entry<'_, SlotState, E>,
        value: &[u8],
        rows: impl Iterator<Item = &'a HolderRow>,
    ) -> VecDeque<(Access, Bytes)> {
        let mut rows = rows.peekable();
        let version = rows.peek().map_or(0, |row| row.version);
        let holders = rows.map(|row| (row.node, row.generation, row.seq));
        let (hub, merged) = Hub::arrived(core.node(), version, holders);
        let queue = self.holder.promote(core, out, &mut self.staleness, entry, merged, value);
        entry.state_mut().set_closed(false);
        entry.state_mut().side = 0;
        self.owner.arrive(core, entry, hub);
        queue
    }

    /// Sends the updates of urgent replicas, and a portion of a round that is due or has started.
    pub(crate) fn tick(&mut self, core: &Core<E>, out: &mut Output) {
        self.rounds.looked = core.now;
        self.send_urgent(core, out);
        if let Some(Replicas::Directed { every }) = core.policy().replicas
            && core.now >= self.rounds.due()
        {
            if !self.rounds.has_started() {
                self.start_round(core, every);
            }
            let overdue = self.rounds.overdue(core.now, self.gathered());
            let bytes = core.shared.replication().portion_bytes;
            let significant = core.shared.replication().significant;
            self.continue_round(core, out, Portion::of_an_input(bytes, overdue), significant);
        }
    }

    /// Sends the deltas of the replicas that have become urgent.
    fn send_urgent(&mut self, core: &Core<E>, out: &mut Output) {
        let Some(urgent) = core.shared.urgent() else { return };
        urgent.take(core.id, &mut self.noted.keys);
        for (at, key) in self.noted.keys.iter().copied().enumerate() {
            core.shared.ahead().values(&self.noted.keys, at);
            self.holder.prefetch(&self.noted.keys, at);
            self.holder.send_soon(core, out, key);
        }
        self.noted.keys.clear();
    }

    /// Applies the operands that wait for a clock.
    fn apply_pending(&mut self, core: &Core<E>) {
        if core.shared.layout().has_clock_rules() {
            self.collect(core);
            self.owner.apply_pending(core);
        }
    }

    /// Synchronises all replicas now, exactly.
    pub(crate) fn synchronize(&mut self, core: &Core<E>, out: &mut Output) {
        // Not before all nodes rest: the operands of nodes that still work would be applied separately from
        // those of this node.
        if self.staleness.global.rests() {
            self.apply_pending(core);
        }
        match core.policy().replicas {
            Some(Replicas::Directed { .. } | Replicas::Eager) => {
                if core.precision() == Precision::Bf16 {
                    self.holder.list_remainders();
                    self.owner.list_rounded(core);
                }
                self.collect_and_gather(core);
                self.rounds.start_unpaced();
                self.continue_round(core, out, Portion::all(), None);
            }
            Some(Replicas::Lazy) => self.holder.unwant_all(core, out),
            None => {}
        }
    }

    /// Starts a round: it sends the deltas of replicas here, and updates to holders elsewhere.
    fn start_round(&mut self, core: &Core<E>, every: Tick) {
        self.collect_and_gather(core);
        self.rounds.start(core.now, every, self.gathered());
    }

    fn collect_and_gather(&mut self, core: &Core<E>) {
        self.collect(core);
        self.holder.gather();
        self.owner.gather();
    }

    /// Number of keys that the round that has started must still process.
    fn gathered(&self) -> usize {
        self.holder.gathered() + self.owner.gathered()
    }

    /// Does a portion of the round that has started. It holds back what changes a replica by less than
    /// `significant`.
    fn continue_round(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        mut portion: Portion,
        significant: Option<f64>,
    ) {
        let (before, clock) = (out.stats.synced_keys, self.staleness.clock());
        let is_paced = self.rounds.has_started();
        let urge = if is_paced { Urge::Updates } else { Urge::Remainder };
        if self.holder.send_gathered(core, out, &mut portion, significant, urge, |_| ()) {
            self.owner.update_gathered(core, out, &mut portion, clock, is_paced);
        }
        let sent = out.stats.synced_keys > before;
        out.stats.sync_rounds += u64::from(self.rounds.progress(self.gathered(), sent));
    }

    /// Finds the replicas and the main copies that workers have changed.
    fn collect(&mut self, core: &Core<E>) {
        core.take_noted(&mut self.noted);
        for (at, key) in self.noted.keys.iter().copied().enumerate() {
            core.shared.ahead().slots(&self.noted.keys, at);
            self.holder.prefetch_records(&self.noted.keys, at);
            self.owner.prefetch(&self.noted.keys, at);
            let Some((mut entry, role)) = core.changed(key) else { continue };
            match role {
                Role::Replica => self.holder.list(key),
                Role::Hub => {
                    entry.state_mut().set_dirty(false);
                    self.owner.note_pending(core, key);
                    self.owner.changed(core, key);
                }
                Role::Owner => {
                    entry.state_mut().set_dirty(false);
                    self.owner.note_pending(core, key);
                }
                Role::Absent | Role::Arriving | Role::Leaving => {
                    entry.state_mut().set_dirty(false);
                }
                Role::Static => unreachable!("no policy has replicas through the owner and static replicas"),
            }
        }
        self.noted.keys.clear();
    }

    /// Sends updates to holders whose accesses were served, before the answers.
    pub(crate) fn update_owed(&mut self, core: &Core<E>, out: &mut Output) {
        self.owner.update_owed(core, out, self.staleness.clock());
        out.outgoing.replication.flush_updates(&mut out.actions);
    }

    /// The workers report their node's clock.
    pub(crate) fn on_node_clock(&mut self, core: &Core<E>, clock: NodeClock) {
        if is_clocked(core) {
            self.staleness.hear(clock);
        }
    }

    /// Sends the clock of this node's workers to the other nodes, once all earlier updates have been sent.
    /// Returns whether it did; then the caller calls again.
    pub(crate) fn publish(&mut self, core: &Core<E>, out: &mut Output) -> bool {
        if !is_clocked(core) || self.staleness.is_settled() {
            return false;
        }
        if !self.staleness.has_next() {
            let Some(clock) = self.staleness.may_publish() else { return false };
            self.collect(core);
            let mut blocked = BTreeSet::new();
            self.holder.gather();
            self.holder.send_gathered(core, out, &mut Portion::all(), None, Urge::Updates, |key| {
                blocked.insert(key);
            });
            self.staleness.publish_after(clock, blocked);
        }
        let Some((next, before)) = self.staleness.take_next() else { return false };
        out.outgoing.requests.flush(&mut out.actions);
        out.outgoing.replication.flush_requests(&mut out.actions);
        self.send_clock(core, out, next, before);
        true
    }

    fn send_clock(&mut self, core: &Core<E>, out: &mut Output, next: NodeClock, before: NodeClock) {
        let here = core.node();
        out.stats.sync_rounds += 1;
        // A node whose workers rest is at no clock.
        if next.clock != RESTING {
            out.events.note_general(core.now, What::Clock { clock: next.clock });
        }
        // One message per meeting, even if workers reported several at once: the other nodes count them.
        for _ in 0..next.meetings.wrapping_sub(before.meetings) {
            broadcast(core, out, ClockScope::Resumed, 0, |_| true);
            self.staleness.global.resume(here);
        }
        broadcast(core, out, ClockScope::Node, next.clock, |_| true);
        let advanced = self.staleness.global.reach(here, next.clock);
        let oldest = core.shared.clocks().need(next.clock.min(self.staleness.global.latest()));
        self.holder.age(core, out, oldest);
        if advanced {
            self.on_global_clock(core, out);
        }
    }

    /// Another node reports a clock.
    ///
    /// # Errors
    /// If the technique has no clocks.
    pub(crate) fn on_clock(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        from: NodeId,
        clock: &Clock,
    ) -> Result<(), ProtocolError> {
        if !is_clocked(core) {
            return Err(core.not_in_technique("reports a clock"));
        }
        match clock.scope {
            ClockScope::Node => {
                if self.staleness.global.reach(from, clock.clock) {
                    self.on_global_clock(core, out);
                }
            }
            ClockScope::Resumed => self.staleness.global.resume(from),
            ClockScope::Global => {
                core.shared.clocks().set_fresh(core.id, from, clock.clock);
                self.staleness.unpark_all(out, |key| core.shared.directory().home(key) == from);
            }
        }
        Ok(())
    }

    /// The slowest node has advanced: continues what waited for the global clock.
    fn on_global_clock(&mut self, core: &Core<E>, out: &mut Output) {
        let global = self.staleness.clock();
        self.apply_pending(core);
        core.shared.clocks().set_global(core.id, global);
        for (key, holder) in self.staleness.take_due() {
            self.owner.refresh(core, out, global, key, holder);
        }
        if core.policy().replicas == Some(Replicas::Eager) {
            self.collect(core);
            self.owner.gather();
            self.owner.update_gathered(core, out, &mut Portion::all(), global, false);
            // The updates must not arrive after the clock that makes them readable.
            out.outgoing.replication.flush_updates(&mut out.actions);
            let owner = &self.owner;
            broadcast(core, out, ClockScope::Global, global, |node| owner.is_holder(node));
        }
        self.staleness.unpark_all(out, |key| core.shared.directory().is_home(key));
    }
}

fn is_clocked<E: Element>(core: &Core<E>) -> bool {
    core.policy().replicas.is_some_and(Replicas::is_clocked)
}

/// Sends a clock to the other nodes that `to` selects.
fn broadcast<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    scope: ClockScope,
    clock: u32,
    to: impl Fn(NodeId) -> bool,
) {
    let nodes = (0..core.shared.layout().nodes()).map(|node| NodeId(node as u16));
    for to in nodes.filter(|node| *node != core.node() && to(*node)) {
        out.actions.push(Action::Send { to, message: Message::Clock(Clock { scope, clock }) });
    }
}

/// Checks the rows of a hand-over: holders exist, and each is named once per key.
///
/// # Errors
/// If a row is impossible.
pub(crate) fn check_rows<E: Element>(
    core: &Core<E>,
    from: NodeId,
    hand_over: &HandOver,
) -> Result<(), ProtocolError> {
    let (keys, holders) = (&hand_over.keys, &hand_over.holders);
    let directed = matches!(core.policy().replicas, Some(Replicas::Directed { .. }));
    if !holders.is_empty() && !directed {
        return Err(core.not_in_technique("hands over holders of replicas"));
    }
    let (nodes, mut before) = (core.shared.layout().nodes(), None);
    for row in holders {
        let place = Some((row.at, row.node));
        let known = (row.at as usize) < keys.len() && row.node.index() < nodes;
        if !known || row.node == from || place <= before {
            return Err(ProtocolError::HolderRow(*row));
        }
        before = place;
    }
    Ok(())
}
