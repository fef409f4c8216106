//! The owner's part of replication: registrations of holders, merging their deltas, and the updates that they
//! get. See the table in [`intendant_techniques::replication`].

use super::key_list::KeyList;
use super::portion::Portion;
use super::staleness::Staleness;
use crate::channel::core::Core;
use crate::channel::effects::Output;
use crate::error::ProtocolError;
use crate::key_table::KeyTable;
use crate::node::Shared;
use crate::outgoing::replication::{RequestRoute, UpdateRoute, UpdateRow};
use intendant_core::{Element, Key, NodeId, Precision, Timing, limits};
use intendant_store::Entry;
use intendant_techniques::combine;
use intendant_techniques::replication::{AskOutcome, Hub, Merge};
use intendant_techniques::{Replicas, Role, SlotState};
use intendant_wire::{AccessKind, ReplicaRequest, ReplicaRequestKind, ReplicaUpdateKind};
use std::collections::BTreeSet;

/// A key that is owned here and replicated elsewhere.
#[derive(Default)]
struct Replicated {
    hub: Hub,
    /// Whether it is in the list of keys with changes that some holders may not have yet.
    listed: bool,
}

/// A channel's keys that are owned here and replicated elsewhere.
pub(crate) struct Owner {
    hubs: KeyTable<Replicated>,
    /// Keys with changes that some holders may not have yet. The next round (`essp`: the next global clock)
    /// sends their values.
    unsent: KeyList,
    /// Holders to which an update must go before the answer to their access.
    owed: BTreeSet<(Key, NodeId)>,
    /// By node, the number of this channel's owned keys that the node replicates.
    holders: Vec<usize>,
    /// Scratch list of the holders that are being updated.
    behind: Vec<NodeId>,
    /// Owned keys with operands that their rule applies at the next global clock.
    pending: BTreeSet<Key>,
}

/// One key of a [`ReplicaRequest`].
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) kind: ReplicaRequestKind,
    pub(crate) key: Key,
    pub(crate) holder: NodeId,
    pub(crate) hops: u8,
    pub(crate) generation: u32,
    /// The clock that is asked for, or the number of the delta.
    pub(crate) number: u32,
    /// How the elements of the delta are written.
    pub(crate) precision: Precision,
    pub(crate) delta: &'a [u8],
}

impl<'a> Request<'a> {
    /// The key at `at`, whose delta begins at `offset` and has `bytes` bytes.
    pub(crate) fn at(request: &'a ReplicaRequest, at: usize, offset: usize, bytes: usize) -> Self {
        Self {
            kind: request.kind,
            key: request.keys[at],
            holder: request.holder,
            hops: request.hops,
            generation: request.generations[at],
            number: request.numbers.get(at).copied().unwrap_or(0),
            precision: request.precision,
            delta: &request.values[offset..offset + bytes],
        }
    }
}

impl Owner {
    /// No replicas elsewhere.
    pub(crate) fn new<E: Element>(shared: &Shared<E>) -> Self {
        Self {
            hubs: KeyTable::new(shared.layout(), shared.is_lazy()),
            unsent: KeyList::default(),
            owed: BTreeSet::new(),
            holders: vec![0; shared.layout().nodes()],
            behind: Vec::new(),
            pending: BTreeSet::new(),
        }
    }

    /// The record of a key that is owned here and replicated elsewhere.
    pub(crate) fn hub(&self, key: Key) -> Option<&Hub> {
        self.hubs.get(key).map(|replicated| &replicated.hub)
    }

    /// Prefetches the records of the keys behind the one at `at`.
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        self.hubs.prefetch(keys, at);
    }

    /// Number of keys that are owned here and replicated elsewhere.
    pub(crate) fn hub_count(&self) -> usize {
        self.hubs.len()
    }

    /// Number of keys with changes that some holders may not have yet.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Whether `node` holds replicas of keys owned here.
    pub(super) fn is_holder(&self, node: NodeId) -> bool {
        self.holders.get(node.index()).is_some_and(|count| *count > 0)
    }

    /// The main copy of `key` has changed, other than by a holder's delta.
    pub(super) fn changed<E: Element>(&mut self, core: &Core<E>, key: Key) {
        if let Some(Replicated { hub, listed }) = self.hubs.get_mut(key) {
            hub.touch();
            update_later(core, &mut self.unsent, key, listed);
        }
    }

    /// Processes the mark that workers of this node have set, because they have changed the value.
    fn take_mark<E: Element>(&mut self, core: &Core<E>, entry: &mut Entry<'_, SlotState, E>) {
        if entry.state().is_dirty() {
            entry.state_mut().set_dirty(false);
            note_pending(core, &mut self.pending, entry.key());
            self.changed(core, entry.key());
        }
    }

    /// The owned `key`, which was marked, may have operands that its rule applies at the next global clock.
    pub(super) fn note_pending<E: Element>(&mut self, core: &Core<E>, key: Key) {
        note_pending(core, &mut self.pending, key);
    }

    /// Number of keys that may have operands that wait for a clock.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Applies the operands that wait for a clock, because a global clock is reached, or all workers rest.
    pub(super) fn apply_pending<E: Element>(&mut self, core: &Core<E>) {
        while let Some(key) = self.pending.pop_first() {
            let (mut entry, _) = core.shared.latch(key);
            self.take_mark(core, &mut entry);
            let rule = core.shared.layout().rule(key).expect("pending operands have a rule");
            let applied = rule.apply_pending(entry.value_mut().expect("an owner holds the value"));
            // The key may have been noted again by `take_mark`; those operands have been applied, too.
            self.pending.remove(&key);
            if applied {
                self.changed(core, key);
            }
        }
    }

    /// An access of a worker of `origin` to a key with replicas elsewhere has been served.
    pub(crate) fn after_access<E: Element>(
        &mut self,
        core: &Core<E>,
        entry: &mut Entry<'_, SlotState, E>,
        writes: bool,
        origin: NodeId,
    ) {
        let key = entry.key();
        self.take_mark(core, entry);
        if writes {
            self.changed(core, key);
        }
        if self.hub(key).is_some_and(|hub| hub.owes(origin)) {
            self.owed.insert((key, origin));
        }
    }

    /// Registers a holder that asks for a replica. The caller answers with [`Owner::answer`], or moves the
    /// key to the holder.
    pub(crate) fn register<E: Element>(
        &mut self,
        core: &Core<E>,
        entry: &mut Entry<'_, SlotState, E>,
        request: Request<'_>,
    ) -> AskOutcome {
        let Request { key, holder, generation, .. } = request;
        self.take_mark(core, entry);
        if !self.hubs.contains(key) {
            self.hubs.insert(key, Replicated::default());
        }
        let Replicated { hub, .. } = self.hubs.get_mut(key).expect("it has a record now");
        let before = hub.holders().len();
        let outcome = hub.ask(holder, generation);
        let more = hub.holders().len() - before;
        core.shared.withdraw(entry);
        entry.state_mut().role = Role::Hub;
        entry.state_mut().side = hub.holders().len() as u32;
        self.count_holder(holder, more, 0);
        outcome
    }

    /// Answers a holder that asked for a replica and was registered with `outcome`.
    ///
    /// # Errors
    /// If the holder waits for more clocks than it can have workers.
    pub(crate) fn answer<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        entry: &mut Entry<'_, SlotState, E>,
        request: Request<'_>,
        outcome: AskOutcome,
    ) -> Result<(), ProtocolError> {
        let Request { key, holder, number: need, .. } = request;
        let clock = staleness.clock();
        let early = need > clock;
        match outcome {
            AskOutcome::New => self.update(core, out, clock, entry, holder, ReplicaUpdateKind::SetUp),
            AskOutcome::Again if !early => {
                self.update(core, out, clock, entry, holder, ReplicaUpdateKind::Refresh);
            }
            AskOutcome::Again => {}
            AskOutcome::Stale => return Ok(()),
        }
        if early && core.policy().replicas == Some(Replicas::Lazy) {
            staleness.owe(need, key, holder)?;
        }
        Ok(())
    }

    fn count_holder(&mut self, holder: NodeId, more: usize, less: usize) {
        let count = &mut self.holders[holder.index()];
        *count = (*count + more).saturating_sub(less);
    }

    /// Merges a holder's delta.
    ///
    /// # Errors
    /// If deltas before it are missing.
    pub(crate) fn merge<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        clock: u32,
        entry: &mut Entry<'_, SlotState, E>,
        request: Request<'_>,
    ) -> Result<(), ProtocolError> {
        let Request { key, holder, generation, number: seq, precision, delta, .. } = request;
        self.take_mark(core, entry);
        let Some(Replicated { hub, listed }) = self.hubs.get_mut(key) else { return Ok(()) };
        let kind = match hub.merge(holder, generation, seq) {
            Merge::Ghost => return Ok(()),
            Merge::Impossible => return Err(ProtocolError::MissingDeltas { key, seq }),
            Merge::Acknowledge => ReplicaUpdateKind::Acknowledged,
            Merge::Refresh => ReplicaUpdateKind::Refresh,
        };
        let updates = core.shared.layout().updates(key);
        combine::merge(updates, precision, entry.value_mut().expect("an owner holds the value"), delta);
        note_pending(core, &mut self.pending, key);
        out.stats.synced_keys += 1;
        update(core, out, clock, entry, hub, holder, (kind, core.precision()));
        if hub.behind().next().is_some() {
            update_later(core, &mut self.unsent, key, listed);
        }
        Ok(())
    }

    /// A holder drops its replica. Returns whether it was registered.
    pub(crate) fn release<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        staleness: &mut Staleness,
        entry: &mut Entry<'_, SlotState, E>,
        request: Request<'_>,
    ) -> bool {
        let Request { key, holder, generation, .. } = request;
        self.take_mark(core, entry);
        let hub = self.hubs.get_mut(key).map(|replicated| &mut replicated.hub);
        let left = hub.and_then(|hub| hub.leave(holder, generation).then(|| hub.holders().is_empty()));
        if let Some(alone) = left {
            self.count_holder(holder, 0, 1);
            staleness.disown(key, holder);
            if alone {
                self.forget(key);
                entry.state_mut().role = Role::Owner;
                entry.state_mut().set_dirty(false);
            }
            entry.state_mut().side -= 1;
        }
        let counter = core.told_counter(&entry.state());
        let row = UpdateRow { key, generation, seq: 0, version: 0, counter };
        let (kind, precision) = (ReplicaUpdateKind::Dropped, Precision::Exact);
        let route = UpdateRoute { to: holder, kind, precision };
        out.outgoing.replication.update::<E>(route, staleness.clock(), row, &[]);
        left.is_some()
    }

    fn forget(&mut self, key: Key) -> Option<Hub> {
        let Replicated { hub, mut listed } = self.hubs.remove(key)?;
        self.unsent.remove(&mut listed);
        Some(hub)
    }

    /// The key leaves. Returns its record, which travels with it.
    pub(crate) fn depart(&mut self, key: Key) -> Option<Hub> {
        let hub = self.forget(key)?;
        hub.holders().iter().for_each(|holder| self.count_holder(holder.node, 0, 1));
        Some(hub)
    }

    /// The key has arrived, with its holders elsewhere, if there are any. This node does not know which
    /// updates they have: all of them get one.
    pub(crate) fn arrive<E: Element>(
        &mut self,
        core: &Core<E>,
        entry: &mut Entry<'_, SlotState, E>,
        hub: Hub,
    ) {
        let key = entry.key();
        entry.state_mut().set_dirty(false);
        if hub.holders().is_empty() {
            entry.state_mut().role = Role::Owner;
            return;
        }
        entry.state_mut().role = Role::Hub;
        entry.state_mut().side = hub.holders().len() as u32;
        hub.holders().iter().for_each(|holder| self.count_holder(holder.node, 1, 0));
        let Replicated { listed, .. } = self.hubs.insert(key, Replicated { hub, listed: false });
        update_later(core, &mut self.unsent, key, listed);
    }

    /// Sends a holder the value, if it is registered.
    fn update<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        clock: u32,
        entry: &mut Entry<'_, SlotState, E>,
        to: NodeId,
        kind: ReplicaUpdateKind,
    ) {
        if let Some(Replicated { hub, .. }) = self.hubs.get_mut(entry.key()) {
            update(core, out, clock, entry, hub, to, (kind, core.precision()));
        }
    }

    /// Number of keys of which holders have a rounded value.
    pub(crate) fn rounded(&self) -> usize {
        self.hubs.iter().filter(|(_, replicated)| replicated.hub.has_rounded()).count()
    }

    /// Lists the keys of which holders have a rounded value, with a new version, in addition to those with
    /// changes that holders lack.
    pub(super) fn list_rounded<E: Element>(&mut self, core: &Core<E>) {
        let rounded = self.hubs.iter().filter(|(_, replicated)| replicated.hub.has_rounded());
        let mut keys: Vec<Key> = rounded.map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.changed(core, key));
    }

    /// Sends `to` the value of `key` and the global clock, if it still holds a replica.
    pub(super) fn refresh<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        clock: u32,
        key: Key,
        to: NodeId,
    ) {
        let (mut entry, role) = core.shared.latch(key);
        if role == Role::Hub {
            self.take_mark(core, &mut entry);
            self.update(core, out, clock, &mut entry, to, ReplicaUpdateKind::Refresh);
        }
    }

    /// Sends updates to the holders whose accesses were served, if they lack changes.
    pub(super) fn update_owed<E: Element>(&mut self, core: &Core<E>, out: &mut Output, clock: u32) {
        while let Some((key, to)) = self.owed.pop_first() {
            let (mut entry, role) = core.shared.latch(key);
            if role != Role::Hub {
                continue;
            }
            self.take_mark(core, &mut entry);
            if self.hub(key).is_some_and(|hub| hub.owes(to)) {
                self.update(core, out, clock, &mut entry, to, ReplicaUpdateKind::Refresh);
            }
        }
    }

    /// Gathers the keys with changes that some holders lack now: [`Owner::update_gathered`] sends their
    /// values.
    pub(super) fn gather(&mut self) {
        self.unsent.gather();
    }

    /// Number of gathered keys that have not been processed.
    pub(super) fn gathered(&self) -> usize {
        self.unsent.gathered()
    }

    /// Sends updates to all holders that lack changes of a portion of the gathered keys. A paced round omits
    /// holders that will soon get the changes in another way ([`Hub::behind_in_round`]). Values are rounded
    /// only in paced rounds. Returns whether all gathered keys have been processed.
    pub(super) fn update_gathered<E: Element>(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        portion: &mut Portion,
        clock: u32,
        is_paced: bool,
    ) -> bool {
        let (keys, mut at) = self.unsent.take_gathered();
        out.outgoing.replication.expect(portion.room(core, &keys[at..]));
        while let Some(key) = keys.get(at).copied()
            && !portion.is_used_up()
        {
            core.shared.ahead().values(&keys, at);
            self.hubs.prefetch(&keys, at);
            at += 1;
            if self.hubs.get(key).is_none_or(|replicated| !replicated.listed) {
                portion.use_up(0);
                continue;
            }
            let (mut entry, _) = core.shared.latch(key);
            self.take_mark(core, &mut entry);
            let Some(Replicated { hub, listed }) = self.hubs.get_mut(key) else { continue };
            self.unsent.remove(listed);
            let mut behind = std::mem::take(&mut self.behind);
            if !is_paced {
                behind.extend(hub.behind());
            } else if hub.behind_in_round(&mut behind) {
                self.unsent.insert(key, listed);
            }
            portion.use_up(behind.len() * core.value_bytes(key));
            let precision = if is_paced { core.precision() } else { Precision::Exact };
            for to in behind.drain(..) {
                update(core, out, clock, &mut entry, hub, to, (ReplicaUpdateKind::Refresh, precision));
            }
            self.behind = behind;
        }
        self.unsent.put_back(keys, at);
        self.gathered() == 0
    }
}

/// The owned `key` may have operands that its rule applies at a clock.
fn note_pending<E: Element>(core: &Core<E>, pending: &mut BTreeSet<Key>, key: Key) {
    if core.shared.layout().rule(key).is_some_and(|rule| rule.timing() == Timing::Clock) {
        pending.insert(key);
    }
}

/// Some holders of `key`, whose record has `listed`, lack changes. Under lazy replication, the holders
/// themselves ask for them.
fn update_later<E: Element>(core: &Core<E>, unsent: &mut KeyList, key: Key, listed: &mut bool) {
    if core.policy().replicas != Some(Replicas::Lazy) {
        unsent.insert(key, listed);
    }
}

/// Sends a holder the value, with this precision, or the acknowledgement of its delta, if it is registered.
fn update<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    clock: u32,
    entry: &mut Entry<'_, SlotState, E>,
    hub: &mut Hub,
    to: NodeId,
    (kind, precision): (ReplicaUpdateKind, Precision),
) {
    let key = entry.key();
    let counter = core.told_counter(&entry.state());
    let told = match kind {
        ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => Some(precision),
        ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => None,
    };
    let precision = told.unwrap_or_default();
    let Some(holder) = hub.tell(to, told) else { return };
    let (generation, seq, version) = (holder.generation, holder.seq, hub.version());
    let row = UpdateRow { key, generation, seq, version, counter };
    let value = match kind {
        ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => {
            entry.value().expect("an owner holds the value")
        }
        ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => &[],
    };
    let known;
    let value = match core.shared.layout().rule(key) {
        Some(rule) if rule.timing() == Timing::Clock && !value.is_empty() => {
            known = rule.without_pending(value);
            &known[..]
        }
        _ => value,
    };
    out.stats.synced_keys += u64::from(!value.is_empty());
    out.outgoing.replication.update(UpdateRoute { to, kind, precision }, clock, row, value);
}

/// Checks that a holder's request about a key that is not owned here may be forwarded.
///
/// # Errors
/// If there can be no replica of the key, or the request was forwarded too often.
pub(crate) fn check_forward<E: Element>(
    core: &Core<E>,
    role: Role,
    request: Request<'_>,
) -> Result<(), ProtocolError> {
    let Request { kind, key, hops, .. } = request;
    if !matches!(role, Role::Absent | Role::Replica) {
        return Err(ProtocolError::ReplicaRequestRole { kind, key, role });
    }
    if hops >= core.shared.directory().hops_max() {
        return Err(ProtocolError::TooManyHops { what: format!("{kind:?}"), key, hops });
    }
    Ok(())
}

/// Forwards a holder's request about a key that is not owned here, whose slot is `state`.
pub(crate) fn forward<E: Element>(core: &Core<E>, out: &mut Output, state: &SlotState, request: Request<'_>) {
    let Request { kind, key, holder, hops, generation, number, precision, delta } = request;
    let route = RequestRoute { to: core.next_hop(key, state), holder, kind, precision, hops: hops + 1 };
    let bytes = (core.value_bytes(key), delta.len());
    out.outgoing.replication.request(route, key, generation, number, bytes, |values| {
        values.extend_from_slice(delta);
    });
}

/// Checks that a holder's request is possible: there are replicas, the holder is another node, the values
/// fit.
///
/// # Errors
/// If it is not.
pub(crate) fn check_request<E: Element>(
    core: &Core<E>,
    from: NodeId,
    request: &ReplicaRequest,
) -> Result<(), ProtocolError> {
    let Some(replicas) = core.policy().replicas else {
        return Err(core.not_in_technique("sends requests about replicas"));
    };
    let ReplicaRequest { kind, holder, hops, keys, precision, values, .. } = request;
    let (kind, direct) = (*kind, *hops == 0);
    if holder.index() >= core.shared.layout().nodes() || (direct && *holder != from) {
        return Err(ProtocolError::InTheNameOf { what: format!("{kind:?}"), node: *holder });
    }
    if replicas.is_clocked() && !direct {
        return Err(ProtocolError::NeedlessForward { kind });
    }
    core.check_precision(*precision)?;
    core.check_keys(keys)?;
    if replicas.is_clocked() {
        // The sender must know the home: if this node forwarded the request, the next node would blame this
        // node.
        keys.iter().try_for_each(|key| core.check_home(*key, "sends a replica request for"))?;
    }
    let bytes = core.values_bytes(keys);
    // The owner answers the whole request before it processes the next message. A key counts as often as it
    // is named: readers at different clocks may need several answers.
    if bytes > limits::FRAME_PAYLOAD_BYTES_TARGET + limits::VALUE_BYTES_MAX
        && kind != ReplicaRequestKind::Drop
    {
        return Err(ProtocolError::ReplicaRequestTooLarge { kind, bytes });
    }
    let delta = kind == ReplicaRequestKind::Delta;
    let expected = if delta { core.operands_bytes(AccessKind::Push, keys) } else { 0 };
    let expected = precision.bytes::<E>(expected);
    ProtocolError::unless_bytes(|| format!("{kind:?}"), values.len(), expected)
}
