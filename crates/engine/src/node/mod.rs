//! The part of a node that workers and channels share: the store, the layout, the technique.
//!
//! This file defines [`Shared`]. Its submodules:
//!
//! - [`ahead`]: prefetching for channels;
//! - [`fast_path`]: the calls that a worker's thread serves without its channels;
//! - [`lend`]: rows that are lent to workers, to be changed in place;
//! - [`clocks`]: what workers report of their clocks and intents, and staleness bounds;
//! - [`inspection`]: what observers see of keys;
//! - [`local`]: the outstanding operations of one worker;
//! - [`urgent`]: the replicas whose updates should be sent soon;
//! - [`parts`]: what samplers see of keys;
//! - [`mirrors`]: copies of values for nodes of the same host.

mod ahead;
pub(crate) mod clocks;
pub(crate) mod fast_path;
pub(crate) mod inspection;
mod lend;
pub(crate) mod local;
mod mirrors;
mod parts;
pub(crate) mod urgent;
/// Number of elements of an access to `key`: of the value that a pull returns, or of the operand of a push or
/// set.
#[inline(always)]
pub(crate) fn elements_of(layout: &Layout, kind: AccessKind, key: Key) -> usize {
    match layout.uniform() {
        Some(len) => len,
        None if kind == AccessKind::Push => layout.operand(key),
        None => layout.visible(key),
    }
}

/// Notes for the channel that the row of an owned key has received operands, which its rule applies at a
/// clock.
#[inline]
pub(crate) fn note_for_clock<E: Element>(entry: &mut Entry<'_, SlotState, E>) {
    if !entry.state().is_dirty() {
        entry.state_mut().set_dirty(true);
        entry.note();
    }
}

#[cfg(test)]
mod urgent_tests;

use crate::windows::Windows;
use crate::{LocalAccess, Storage};
use clocks::Clocks;
use intendant_core::{
    ChannelId, Element, Initialiser, Key, Layout, NodeId, Precision, Tick, Timing, copy_to_bytes, limits,
};
use intendant_intent::TimingConfig;
use intendant_sampling::{NearKeys, Sampler};
use intendant_store::{Entry, Store};
use intendant_techniques::{
    Assignment, Directory, Policy, Replicas, Role, SlotState, StaticReplicaPace, StaticReplicas,
};
use intendant_trace::Header;
use intendant_wire::AccessKind;
use local::Local;
use parts::Parts;
use std::sync::Arc;
use urgent::Urgent;

/// Configuration of a node's engine.
#[derive(Clone)]
pub struct SharedConfig<E> {
    /// This node.
    pub node: NodeId,
    /// The keys.
    pub layout: Arc<Layout>,
    /// Initial values.
    pub init: Initialiser<E>,
    /// Dense or sparse.
    pub storage: Storage,
    /// How workers access values that are here.
    pub access: LocalAccess,
    /// The technique.
    pub policy: Policy,
    /// How copies are kept; used by techniques that have copies.
    pub replication: ReplicationConfig,
    /// Workers of this node.
    pub workers: usize,
}

/// How copies of keys are kept, and when intents are acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicationConfig {
    /// Which keys have static replicas, for [`StaticReplicas::Assigned`]. The same on all nodes.
    pub assignment: Assignment,
    /// When all-reduces synchronise static replicas. The same on all nodes.
    pub pace: StaticReplicaPace,
    /// Gradient norm clipping [thesis §4.4.1]: a node scales an update of a static replica down to this many
    /// times the average norm before it sends the update; `None`: no clipping.
    pub clip: Option<f64>,
    /// The staleness bound at the start, in clocks. The same on all nodes.
    pub staleness: u32,
    /// When intents are acted on; used by techniques with action timing.
    pub timing: TimingConfig,
    /// How the elements of deltas and values of directed replicas travel: see [`replication`]. The same on
    /// all nodes; [`Policy::check_precision`] says where they may be rounded.
    ///
    /// [`replication`]: intendant_techniques::replication
    pub precision: Precision,
    /// Keys for which a channel remembers more decisions than for others: see [`crate::Channel::explain`].
    pub watched: Vec<Key>,
    /// Shortest time between two rounds of deltas and updates of directed replicas; `None` is the technique's
    /// own pace.
    pub every: Option<Tick>,
    /// A round sends the delta of a directed replica only if it changes the replica by this fraction of its
    /// norm, or if the replica is to end; the holder keeps other updates back until they are significant
    /// together with later ones, or the cluster comes to rest [OSDI'14, significantly modified filter].
    /// `None`: all are sent. Keys with rules are always sent. Each round checks updates that were held back
    /// again.
    pub significant: Option<f64>,
    /// Shortest time between two rounds of intents: an upper limit on rounds per second.
    pub round_min: Tick,
    /// Bytes of values that a channel sends for a round of directed replicas while it processes one input:
    /// other inputs wait meanwhile. The channel sends the rest of the round in further inputs.
    pub portion_bytes: usize,
}

/// A thousand rounds per second, the resolution of operating systems' timers.
const ROUND_MIN: Tick = Tick(1_000);

impl Default for ReplicationConfig {
    /// No static replicas; 25 rounds per second, no clipping, staleness bound 1; the action timing of the
    /// source [thesis §5.3.2], at most a thousand rounds of intents per second.
    fn default() -> Self {
        let staleness = intendant_techniques::policy::ssp::STALENESS;
        Self {
            assignment: Assignment::default(),
            pace: StaticReplicaPace::DEFAULT,
            clip: None,
            staleness,
            timing: TimingConfig::default(),
            every: None,
            significant: None,
            precision: Precision::Exact,
            watched: Vec::new(),
            round_min: ROUND_MIN,
            portion_bytes: limits::FRAME_PAYLOAD_BYTES_TARGET,
        }
    }
}

/// The part of a node that workers and channels share.
pub struct Shared<E> {
    node: NodeId,
    layout: Arc<Layout>,
    store: Store<SlotState, E>,
    init: Initialiser<E>,
    lazy: bool,
    access: LocalAccess,
    directory: Directory,
    policy: Policy,
    replication: ReplicationConfig,
    workers: usize,
    /// By channel, keys with static replicas, ascending.
    static_keys: Vec<Vec<Key>>,
    clocks: Clocks,
    /// The urgent replicas; `None` unless the technique directs replicas, and there are other nodes.
    urgent: Option<Urgent>,
    /// The parts of keys, which samplers read. `None` unless `urgent` is set, and also in sparse stores, and
    /// if there are more nodes than a byte counts.
    parts: Option<Parts>,
    /// The windows in which nodes of the same host read each other's values; `None` if they do not.
    windows: Option<Windows>,
}

impl<E: Element> Shared<E> {
    /// The state of a node at the start. A dense store gets the values of all keys whose home is here; a
    /// sparse one makes them when they are first touched. Static replicas are made in any case.
    ///
    /// # Panics
    /// If a key that does not exist is assigned to have static replicas: see [`Assignment::check`]. If the
    /// technique combines what does not work together: see [`Policy::check`], [`Policy::check_rules`] and
    /// [`Policy::check_precision`].
    #[must_use]
    #[inline(never)]
    pub fn new(config: SharedConfig<E>) -> Self {
        let SharedConfig { node, layout, init, storage, access, mut policy, replication, workers } = config;
        if let (Some(Replicas::Directed { .. }), Some(every)) = (policy.replicas, replication.every) {
            policy.replicas = Some(Replicas::Directed { every });
        }
        let checked = policy.check().and_then(|()| policy.check_rules(&layout));
        let checked = checked.and_then(|()| policy.check_precision(replication.precision, E::TYPE, &layout));
        checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        let (store, lazy) = match storage {
            Storage::Dense => (Store::dense(Arc::clone(&layout)), false),
            Storage::Sparse => (Store::sparse(Arc::clone(&layout)), true),
        };
        let directory = Directory::new(node, Arc::clone(&layout), &policy);
        if policy.static_replicas == Some(StaticReplicas::Assigned) {
            replication.assignment.check(&layout).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        let mut static_keys = vec![Vec::new(); layout.channels()];
        let mut add = |key: Key| static_keys[layout.channel(key).index()].push(key);
        match policy.static_replicas {
            // A single node needs no replicas.
            Some(_) if layout.nodes() == 1 => {}
            Some(StaticReplicas::Assigned) => {
                replication.assignment.resolve(&layout).iter().copied().for_each(&mut add)
            }
            Some(StaticReplicas::All) => (0..layout.keys()).map(Key).for_each(&mut add),
            None => {}
        }
        let clocks = Clocks::new(Arc::clone(&layout), &policy, workers, replication.staleness);
        let directed = matches!(policy.replicas, Some(Replicas::Directed { .. })) && layout.nodes() > 1;
        let urgent = directed.then(|| Urgent::new(layout.channels(), layout.nodes()));
        let parts = (directed && !lazy).then(|| Parts::new(layout.keys(), layout.nodes())).flatten();
        let shared = Self {
            node,
            layout,
            store,
            init,
            lazy,
            access,
            directory,
            policy,
            replication,
            workers,
            static_keys,
            clocks,
            urgent,
            parts,
            windows: None,
        };
        for keys in &shared.static_keys {
            for (index, key) in keys.iter().enumerate() {
                let mut entry = shared.store.latch(*key);
                shared.initialise(*key, entry.allocate());
                *entry.state_mut() = SlotState::static_replica(index as u32);
            }
        }
        if !lazy {
            for key in (0..shared.layout.keys()).map(Key) {
                if shared.directory.home(key) == node {
                    let mut entry = shared.store.latch(key);
                    if entry.state().role != Role::Static {
                        shared.materialise(&mut entry);
                    }
                }
            }
        }
        shared
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The keys.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The technique.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How copies are kept.
    pub fn replication(&self) -> &ReplicationConfig {
        &self.replication
    }

    /// Workers of this node.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The header of this node's trace, as far as the engine knows it.
    #[must_use]
    #[inline(never)]
    pub fn trace_header(&self) -> Header {
        let mut keys: Vec<Key> = self.static_keys.concat();
        keys.sort_unstable();
        let mut static_replicas: Vec<[u64; 2]> = Vec::new();
        for Key(key) in keys {
            match static_replicas.last_mut() {
                Some([_, end]) if *end == key => *end += 1,
                Some(_) | None => static_replicas.push([key, key + 1]),
            }
        }
        let technique = self.policy.name.to_owned();
        Header { node: self.node.0, technique, static_replicas, ..Header::default() }.of_layout(&self.layout)
    }

    /// Clocks, staleness bounds and intents.
    #[inline]
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The keys of `channel` that have static replicas, ascending: the same list on all nodes.
    pub(crate) fn static_keys(&self, channel: ChannelId) -> &[Key] {
        &self.static_keys[channel.index()]
    }

    /// Number of keys that have static replicas.
    pub fn static_replicas(&self) -> usize {
        self.static_keys.iter().map(Vec::len).sum()
    }

    /// Whether this node's copy of a key in this state is the one that snapshots take.
    pub(crate) fn is_main(&self, key: Key, role: Role) -> bool {
        role.is_owner() || (role == Role::Static && self.directory.is_home(key))
    }

    /// Whether an access is served here and now. If not, the worker defers it to the channel.
    #[inline]
    fn serves(&self, key: Key, state: &SlotState, kind: AccessKind, need: u32) -> bool {
        match (state.role, kind) {
            (Role::Absent | Role::Arriving | Role::Leaving, _) | (Role::Replica, AccessKind::Set) => false,
            (Role::Owner | Role::Hub, AccessKind::Pull) => self.is_fresh(key, state, need),
            (Role::Replica, AccessKind::Pull) => !state.is_closed() && self.is_fresh(key, state, need),
            (Role::Replica, AccessKind::Push) => !state.is_closed(),
            (Role::Owner | Role::Hub | Role::Static, _) => true,
        }
    }

    /// Whether a copy has every update up to clock `need`.
    #[inline]
    pub(crate) fn is_fresh(&self, key: Key, state: &SlotState, need: u32) -> bool {
        self.clocks.is_fresh(key, state, need, || self.directory.home(key))
    }

    /// Marks a key with copies as changed, for its channel.
    #[inline]
    pub(crate) fn mark(&self, entry: &mut Entry<'_, SlotState, E>) {
        let state = entry.state();
        if state.role == Role::Owner {
            return;
        }
        if !state.is_dirty() {
            entry.state_mut().set_dirty(true);
            entry.note();
        }
        if let Some(urgent) = &self.urgent {
            urgent.count(&self.layout, entry);
        }
    }

    /// The replicas whose unsent updates should be sent soon, if the technique directs replicas.
    pub(crate) fn urgent(&self) -> Option<&Urgent> {
        self.urgent.as_ref()
    }

    /// How workers access values that are here.
    #[inline]
    pub(crate) fn access(&self) -> LocalAccess {
        self.access
    }

    /// Whether values are made when they are first touched.
    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// Location knowledge.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn store(&self) -> &Store<SlotState, E> {
        &self.store
    }

    /// Fills the row of a key on its first ownership. Clears the pending operand, which an initialiser that
    /// fills the whole row writes as well: copies would send it again and again. (An operand that waits for a
    /// clock stays: it comes from a checkpoint.)
    fn initialise(&self, key: Key, row: &mut [E]) {
        (self.init)(key, row);
        if let Some(rule) = self.layout.rule(key)
            && rule.timing() == Timing::Push
        {
            row[rule.pending()].fill(E::ZERO);
        }
    }

    fn materialise(&self, entry: &mut Entry<'_, SlotState, E>) {
        let key = entry.key();
        // Sets the state last: if the application's function panics, no thread mistakes zeros for the value.
        self.initialise(key, entry.allocate());
        *entry.state_mut() = SlotState::owner();
        self.set_part(entry);
    }

    /// Tells samplers this node's part of a key, after a change of its role or of the number of its holders.
    #[inline]
    pub(crate) fn set_part(&self, entry: &Entry<'_, SlotState, E>) {
        if let Some(parts) = &self.parts {
            parts.set(entry.key(), &entry.state());
        }
    }

    /// Latches `key` and returns this node's role for it. A key of a lazy store gets its value here when it
    /// is touched at home for the first time.
    #[inline(always)]
    pub(crate) fn latch(&self, key: Key) -> (Entry<'_, SlotState, E>, Role) {
        self.touch(self.store.latch(key))
    }

    /// As [`Shared::latch`], for a worker, which the store may favour.
    #[inline(always)]
    pub(crate) fn latch_for(&self, local: &Local<E>, key: Key) -> (Entry<'_, SlotState, E>, Role) {
        self.touch(match local.favour() {
            Some(favour) => self.store.latch_favoured(favour, key),
            None => self.store.latch(key),
        })
    }

    /// Makes the store favour the worker of a node that has only one, and whose channels run in other
    /// threads: the worker takes latches only while the channels do. Does nothing if the node has further
    /// workers.
    pub fn favour(&self, local: &mut Local<E>) {
        if self.workers == 1 {
            local.set_favour(self.store.favour());
        }
    }

    #[inline(always)]
    fn touch<'a>(&self, entry: Entry<'a, SlotState, E>) -> (Entry<'a, SlotState, E>, Role) {
        let state = entry.state();
        let untouched = state.role == Role::Absent && self.lazy && state == SlotState::default();
        if untouched { self.make(entry) } else { (entry, state.role) }
    }

    /// Gives an untouched key its value, if its home is here. The entry is passed by value: a borrowed entry
    /// would have to live in memory on the fast path, too.
    #[cold]
    fn make<'a>(&self, mut entry: Entry<'a, SlotState, E>) -> (Entry<'a, SlotState, E>, Role) {
        if !self.directory.is_home(entry.key()) {
            return (entry, Role::Absent);
        }
        self.materialise(&mut entry);
        (entry, Role::Owner)
    }

    /// Appends the value of `key` to `values` if this node owns it. The value of an untouched key is computed
    /// for the caller only: reading all of a huge sparse model must not fill the memory with it.
    pub(crate) fn read_or_make(&self, key: Key, values: &mut Vec<u8>) -> bool {
        let entry = self.store.latch(key);
        if entry.state() == SlotState::default() && self.directory.home(key) == self.node {
            drop(entry);
            let mut value = vec![E::ZERO; self.layout.len(key)];
            self.initialise(key, &mut value);
            copy_to_bytes(&value, values);
            return true;
        }
        match entry.value() {
            Some(value) if self.is_main(key, entry.state().role) => copy_to_bytes(value, values),
            Some(_) | None => return false,
        }
        true
    }

    /// Remembers that `key` was at node `at`, if nodes remember locations: requests go there first. The
    /// knowledge may be stale. Returns whether the slot of the key held nothing before, so that it now holds
    /// only this location.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(never)]
    pub fn learn(&self, key: Key, at: NodeId, counter: u32) -> bool {
        if !self.policy.caches() || at == self.node {
            return false;
        }
        let mut entry = self.store.latch(key);
        let state = entry.state();
        // The comparison is first because it is cheaper than computing the home, and because usually the
        // location is known already. A home does not learn this way: it orders relocations itself, or gets
        // `Moved` messages.
        if (state.hint() == Some(at) && state.counter == counter) || self.directory.is_home(key) {
            return false;
        }
        let new = state == SlotState::default();
        entry.state_mut().learn(at, counter);
        new
    }

    /// This node's part of `key`, in N-ths for N nodes: a replica counts as one N-th, and the main copy as
    /// the rest. The parts of all nodes add up to N, except while copies are set up, dropped or moved. The
    /// answer may be outdated at once.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline]
    pub fn part(&self, key: Key) -> u32 {
        match &self.parts {
            Some(parts) => parts.of(key.index()),
            None => self.find_part(key),
        }
    }

    /// As [`Shared::part`], computed from the slot.
    fn find_part(&self, key: Key) -> u32 {
        // A key whose value is not here is neither owned nor replicated here.
        if !self.lazy && !self.store.seems_held(key) {
            return 0;
        }
        let (state, nodes) = (self.store.latch(key).state(), self.layout.nodes() as u32);
        // An untouched key is at its home.
        let untouched = || self.lazy && state == SlotState::default() && self.directory.is_home(key);
        parts::part(&state, nodes).unwrap_or_else(|| if untouched() { nodes } else { 0 })
    }

    /// Keeps, for samplers, the keys of which this node has parts, for those distributions of `sampler` from
    /// which samples are drawn locally: see [`NearKeys`]. Only the first call has an effect. The call does
    /// nothing if the technique does not direct replicas, the store is sparse, or there is no such
    /// distribution.
    pub fn keep_near(&self, sampler: &Sampler) {
        let Some(parts) = &self.parts else { return };
        let near = NearKeys::new(sampler, self.layout.nodes() as u32);
        if near.is_empty() || parts.near.set(near).is_err() {
            return;
        }
        for key in self.near().into_iter().flat_map(NearKeys::ranges).flatten().map(Key) {
            if self.layout.contains(key) {
                // Under the latch: a channel may change the part at the same time.
                self.set_part(&self.store.latch(key));
            }
        }
    }

    /// The keys that samplers may draw, if they are kept: see [`Shared::keep_near`].
    #[inline]
    pub fn near(&self) -> Option<&NearKeys> {
        self.parts.as_ref()?.near.get()
    }

    /// Hints that the caller is about to call [`Shared::part`] for `key`, which need not exist.
    #[inline]
    pub fn prefetch_part(&self, key: Key) {
        // Parts need no hint: bytes are in a near cache, and loads of them overlap.
        if self.parts.is_none() {
            self.store.prefetch_slot(key);
        }
    }

    /// Whether this node has a copy of `key`, so that an access to it needs no message. The answer may be
    /// outdated at once. A copy that exceeds the staleness bound counts as local: its reader refreshes it.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn is_local(&self, key: Key) -> bool {
        let state = self.store.latch(key).state();
        // An untouched key is at its home.
        state.role.is_copy() || (self.lazy && state == SlotState::default() && self.directory.is_home(key))
    }
}
