//! The part of a node that all its threads use, and the fast path: what a worker does by itself.

mod told;

pub use told::Advanced;

use crate::error::AccessError;
use crate::input::{Kind, Submission};
use crate::local::{Local, Started};
use intendant_core::{ChannelId, Element, Initialiser, Key, Layout, NodeId, Tick, copy_to_bytes, limits};
use intendant_intent::{Board, TimingConfig};
use intendant_store::{Entry, Store};
use intendant_techniques::clocks::WorkerClocks;
use intendant_techniques::{
    Assignment, Directory, Fixed, Initiator, Pace, Policy, Replicas, Role, SlotState, access,
};
use intendant_wire::AccessKind;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

/// Keys of a batch whose slots and values are fetched together, the slots two groups ahead of the copying, the values one. With 8
/// to 16 keys a memory access of a few hundred nanoseconds is over before the key is needed; more only evicts.
const GROUP: usize = 8;

/// How far ahead channels, which do more for a key, fetch slots and values.
const AHEAD: usize = 8;
const VALUES_AHEAD: usize = 4;

/// Calls `fetch` for what is to be fetched at the `at`-th of `keys`: the first ones at first, and one more each time.
#[inline]
fn ahead(keys: &[Key], at: usize, fetch: impl Fn(Key)) {
    if at == 0 {
        keys.iter().take(AHEAD).for_each(|key| fetch(*key));
    }
    if let Some(key) = keys.get(at + AHEAD) {
        fetch(*key);
    }
}

/// What a call does with a value that is here. A trait rather than closures, which are not always inlined.
trait Serve<E: Element> {
    const KIND: AccessKind;

    /// `place` is where the value has its elements in those of the call.
    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>);
}

struct Read<'a, E>(&'a mut [E]);
struct Add<'a, E>(&'a [E]);
struct Put<'a, E>(&'a [E]);

const HELD: &str = "who serves a key has its value";

impl<E: Element> Serve<E> for Read<'_, E> {
    const KIND: AccessKind = AccessKind::Pull;

    #[inline(always)]
    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        access::pull(entry.value().expect(HELD), &mut self.0[place]);
    }
}

impl<E: Element> Serve<E> for Add<'_, E> {
    const KIND: AccessKind = AccessKind::Push;

    #[inline(always)]
    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        access::push(entry.value_mut().expect(HELD), &self.0[place]);
    }
}

impl<E: Element> Serve<E> for Put<'_, E> {
    const KIND: AccessKind = AccessKind::Set;

    #[inline(always)]
    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        entry.value_mut().expect(HELD).copy_from_slice(&self.0[place]);
    }
}

/// Which kind of store a node uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Storage {
    /// A slot for every key of the layout (16 bytes each), values for what the node holds.
    #[default]
    Dense,
    /// Slots and values for what the node has touched: for key spaces far larger than what is used.
    Sparse,
}

/// What a node's engine is made from.
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
    /// The technique.
    pub policy: Policy,
    /// How copies are kept; used by techniques that have some.
    pub copies: Copies,
    /// Workers of this node.
    pub workers: usize,
}

/// How copies of keys are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Copies {
    /// Which keys have static replicas, for [`Fixed::Assigned`]. The same on all nodes.
    pub assignment: Assignment,
    /// When static replicas are brought in step. The same on all nodes.
    pub pace: Pace,
    /// Updates of static replicas whose norm is more than this many times the average are scaled down to that, when they are
    /// sent (gradient norm clipping, 000 §4.4.1); `None`: no clipping.
    pub clip: Option<f64>,
    /// The staleness bound at the start, in clocks. The same on all nodes.
    pub staleness: u32,
    /// When intents are acted on; used by techniques that do, in time.
    pub timing: TimingConfig,
    /// Keys of which more decisions are remembered than of others: see [`crate::Channel::explain`].
    pub watched: Vec<Key>,
    /// How often replicas are brought in step whose owners direct them, at most; `None` is the technique's own pace.
    pub every: Option<Tick>,
    /// From one look at clocks and intents to the next, at least: an upper limit on rounds per second.
    pub round_min: Tick,
}

/// A thousand rounds per second: what the timers of operating systems resolve.
const ROUND_MIN: Tick = Tick(1_000);

impl Default for Copies {
    /// No static replicas; 25 rounds per second, no clipping, staleness bound 1; the source's action timing, at most a thousand
    /// looks at intents per second.
    fn default() -> Self {
        let staleness = intendant_techniques::policy::ssp::STALENESS;
        Self {
            assignment: Assignment::default(),
            pace: Pace::DEFAULT,
            clip: None,
            staleness,
            timing: TimingConfig::default(),
            every: None,
            watched: Vec::new(),
            round_min: ROUND_MIN,
        }
    }
}

/// What workers and channels share under bounded staleness.
struct Bounds {
    /// In clocks.
    staleness: AtomicU32,
    /// Per channel, its global clock: updates made at clocks before this one are in the values that this node owns.
    global: Box<[AtomicU32]>,
    /// Per channel and owner: its news from before this clock are in the replicas that this node holds.
    fresh: Box<[AtomicU32]>,
    workers: Mutex<WorkerClocks>,
}

/// The part of a node that workers and channels share.
pub struct Shared<E> {
    node: NodeId,
    layout: Arc<Layout>,
    store: Store<SlotState, E>,
    init: Initialiser<E>,
    lazy: bool,
    directory: Directory,
    policy: Policy,
    copies: Copies,
    workers: usize,
    /// By channel, keys with static replicas, ascending.
    fixed: Vec<Vec<Key>>,
    /// With bounded staleness.
    bounds: Option<Bounds>,
    /// Where intents are acted on.
    board: Option<Board>,
}

impl<E: Element> Shared<E> {
    /// The state of a node at the start. A dense store gets the values of all keys whose home is here; a sparse one makes
    /// them when they are first touched. Static replicas are made in any case.
    ///
    /// # Panics
    /// If a key that does not exist is assigned to have static replicas: see [`Assignment::check`]. If the technique combines
    /// what does not work together: see [`Policy::check`].
    #[must_use]
    pub fn new(config: SharedConfig<E>) -> Self {
        let SharedConfig { node, layout, init, storage, mut policy, copies, workers } = config;
        if let (Some(Replicas::Directed { .. }), Some(every)) = (policy.replicas, copies.every) {
            policy.replicas = Some(Replicas::Directed { every });
        }
        policy.check().unwrap_or_else(|wrong| panic!("{wrong}"));
        let (store, lazy) = match storage {
            Storage::Dense => (Store::dense(Arc::clone(&layout)), false),
            Storage::Sparse => (Store::sparse(Arc::clone(&layout)), true),
        };
        let directory = Directory::new(node, Arc::clone(&layout), &policy);
        if policy.fixed == Some(Fixed::Assigned) {
            copies.assignment.check(&layout).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        let mut fixed = vec![Vec::new(); layout.channels()];
        let mut fix = |key: Key| fixed[layout.channel(key).index()].push(key);
        match policy.fixed {
            // Of one node, a copy would be in step with itself.
            Some(_) if layout.nodes() == 1 => {}
            Some(Fixed::Assigned) => copies.assignment.resolve(&layout).iter().copied().for_each(&mut fix),
            Some(Fixed::All) => (0..layout.keys()).map(Key).for_each(&mut fix),
            None => {}
        }
        let atomics = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        let bounds = policy.replicas.filter(|r| r.is_clocked()).map(|_| Bounds {
            staleness: AtomicU32::new(copies.staleness),
            global: atomics(layout.channels()),
            fresh: atomics(layout.channels() * layout.nodes()),
            workers: Mutex::new(WorkerClocks::new(workers)),
        });
        // A single node has everything.
        let board = policy.intents.filter(|_| layout.nodes() > 1);
        let board = board.map(|_| Board::new(workers, layout.channels()));
        let shared = Self {
            node,
            layout,
            store,
            init,
            lazy,
            directory,
            policy,
            copies,
            workers,
            fixed,
            bounds,
            board,
        };
        for keys in &shared.fixed {
            for (index, key) in keys.iter().enumerate() {
                let mut entry = shared.store.latch(*key);
                (shared.init)(*key, entry.allocate());
                *entry.state_mut() = SlotState::fixed(index as u32);
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
    pub fn copies(&self) -> &Copies {
        &self.copies
    }

    /// Workers of this node.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The keys of `channel` that have static replicas, ascending: the same list on all nodes.
    pub(crate) fn fixed_keys(&self, channel: ChannelId) -> &[Key] {
        &self.fixed[channel.index()]
    }

    /// Number of keys that have static replicas.
    pub fn fixed(&self) -> usize {
        self.fixed.iter().map(Vec::len).sum()
    }

    /// Whether this node's copy of a key in this state is the one that snapshots take.
    pub(crate) fn is_main(&self, key: Key, role: Role) -> bool {
        role.is_owner() || (role == Role::Static && self.directory.is_home(key))
    }

    /// Whether an access is served here and now. If not, it is deferred to the channel.
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

    /// Notes for the channel that the value of a key has changed of which others have copies.
    #[inline]
    pub(crate) fn mark(entry: &mut Entry<'_, SlotState, E>) {
        let state = entry.state();
        if state.role != Role::Owner && !state.is_dirty() {
            entry.state_mut().set_dirty(true);
            entry.note();
        }
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

    fn materialise(&self, entry: &mut Entry<'_, SlotState, E>) {
        let key = entry.key();
        // The state last: if the application's function panics, nobody mistakes zeros for the value.
        (self.init)(key, entry.allocate());
        *entry.state_mut() = SlotState::owner();
    }

    /// Latches `key` and tells this node's role for it. A key of a lazy store that is touched at home for the first time
    /// gets its value here.
    #[inline(always)]
    pub(crate) fn latch(&self, key: Key) -> (Entry<'_, SlotState, E>, Role) {
        let entry = self.store.latch(key);
        let state = entry.state();
        let untouched = state.role == Role::Absent && self.lazy && state == SlotState::default();
        if untouched { self.make(entry) } else { (entry, state.role) }
    }

    /// Hints that the keys behind the one at `at` are about to be latched, by a channel that goes through all of them: their slots and
    /// values may be in the cache of a worker's core.
    #[inline]
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        self.prefetch_slots(keys, at);
        if at == 0 {
            keys.iter().take(VALUES_AHEAD).for_each(|key| self.store.prefetch_value(*key));
        }
        if let Some(ahead) = keys.get(at + VALUES_AHEAD) {
            self.store.prefetch_value(*ahead);
        }
    }

    /// The same of keys that are about to leave.
    #[inline]
    pub(crate) fn prefetch_departure(&self, keys: &[Key], at: usize) {
        self.prefetch(keys, at);
        ahead(keys, at, |key| self.store.prefetch_part(key));
    }

    /// Hints that the slots of keys behind the one at `at` are about to be looked at.
    #[inline]
    pub(crate) fn prefetch_slots(&self, keys: &[Key], at: usize) {
        ahead(keys, at, |key| self.store.prefetch_slot(key));
    }

    /// Hints that values will be made for the keys behind the one at `at`: their slots and places.
    #[inline]
    pub(crate) fn prefetch_arrival(&self, keys: &[Key], at: usize) {
        ahead(keys, at, |key| {
            self.store.prefetch_slot(key);
            self.store.prefetch_part(key);
        });
        if let Some(ahead) = keys.get(at + VALUES_AHEAD) {
            self.store.prefetch_place(*ahead);
        }
    }

    /// Gives a key that nobody has touched yet its value, if its home is here. (The entry comes and goes as a value: an entry whose
    /// address is known has to be in memory on the fast path, too.)
    #[cold]
    fn make<'a>(&self, mut entry: Entry<'a, SlotState, E>) -> (Entry<'a, SlotState, E>, Role) {
        if !self.directory.is_home(entry.key()) {
            return (entry, Role::Absent);
        }
        self.materialise(&mut entry);
        (entry, Role::Owner)
    }

    /// Appends the value of `key` to `values` if this node owns it. A value that nobody has touched yet is made for this
    /// purpose only: reading all of a huge sparse model must not fill the memory with it.
    pub(crate) fn read_or_make(&self, key: Key, values: &mut Vec<u8>) -> bool {
        let entry = self.store.latch(key);
        if entry.state() == SlotState::default() && self.directory.home(key) == self.node {
            drop(entry);
            let mut value = vec![E::ZERO; self.layout.len(key)];
            (self.init)(key, &mut value);
            copy_to_bytes(&value, values);
            return true;
        }
        match entry.value() {
            Some(value) if self.is_main(key, entry.state().role) => copy_to_bytes(value, values),
            Some(_) | None => return false,
        }
        true
    }

    /// Gives this node a (possibly stale) idea of where a key is, if nodes remember locations. Requests try there first. Returns
    /// whether the key has a slot for it that it did not have before.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn learn(&self, key: Key, at: NodeId, counter: u32) -> bool {
        if !self.policy.caches || at == self.node {
            return false;
        }
        let mut entry = self.store.latch(key);
        let state = entry.state();
        // Mostly there is nothing new, which is found out faster than where a key's home is. A home that orders relocations knows
        // better; one that is told afterwards is told by other means.
        if (state.hint() == Some(at) && state.counter == counter) || self.directory.is_home(key) {
            return false;
        }
        let new = state == SlotState::default();
        entry.state_mut().learn(at, counter);
        new
    }

    /// The state of a key's slot, without touching anything. For invariant checks.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn slot(&self, key: Key) -> SlotState {
        self.store.latch(key).state()
    }

    /// Number of values that this node holds.
    pub fn held(&self) -> usize {
        self.store.held()
    }

    /// Reads the value of `key` if this node owns it (of a static replica: if it is the key's home), without any ordering with respect to a worker's operations: for
    /// invariant checks and tests.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn peek(&self, key: Key) -> Option<Vec<E>> {
        let (entry, role) = self.latch(key);
        if self.is_main(key, role) { entry.value().map(<[E]>::to_vec) } else { None }
    }

    /// Reads this node's copy of `key`, of whatever kind, as [`Shared::peek`] does.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn peek_copy(&self, key: Key) -> Option<Vec<E>> {
        let (entry, role) = self.latch(key);
        if role.is_copy() { entry.value().map(<[E]>::to_vec) } else { None }
    }

    /// What this node is to `key`, and whether it holds a value for it, without touching anything: a lazy store makes no value
    /// of it, and a key that it never touched is `Absent` even at home. For invariant checks.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn inspect(&self, key: Key) -> (Role, bool) {
        let entry = self.store.latch(key);
        (entry.state().role, entry.value().is_some())
    }

    /// Whether this node has a copy of `key`, so that an access to it needs no message; nothing is touched. It may be otherwise at
    /// once. A copy that bounded staleness has outdated counts: refreshing it is up to who reads.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn is_local(&self, key: Key) -> bool {
        let state = self.store.latch(key).state();
        // What nobody has touched yet is where it is at home.
        state.role.is_copy() || (self.lazy && state == SlotState::default() && self.directory.is_home(key))
    }

    /// Checks a call before anything is done for it. A call without values has no `elements`.
    #[inline]
    fn check(&self, keys: &[Key], elements: Option<usize>) -> Result<(), AccessError> {
        if keys.len() > limits::FRAME_KEYS_MAX {
            return Err(AccessError::TooManyKeys { keys: keys.len(), max: limits::FRAME_KEYS_MAX });
        }
        if let Some(position) = keys.iter().position(|key| !self.layout.contains(*key)) {
            let last = Key(self.layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key: keys[position], position, last });
        }
        let Some(found) = elements else { return Ok(()) };
        let expected = match self.layout.lens() {
            [len] => keys.len() * len,
            _ => keys.iter().map(|key| self.layout.len(*key)).sum(),
        };
        if found == expected {
            Ok(())
        } else {
            Err(AccessError::ValueLength { keys: keys.len(), expected, found })
        }
    }

    /// Starts a pull of `keys` into `values` (all values, concatenated). Keys that are served here are in `values` when this
    /// returns; the others follow with completions. A key that occurs twice is read twice.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline]
    pub fn pull(&self, local: &mut Local<E>, keys: &[Key], values: &mut [E]) -> Result<Started, AccessError> {
        self.check(keys, Some(values.len()))?;
        self.read(local, keys, values);
        Ok(self.start(local, Kind::Access(AccessKind::Pull), &[], None, Tick(0)))
    }

    /// Starts a pull of `keys` whose values are kept by the operation until they are taken ([`Local::take`]), as whoever calls
    /// has no place for them yet. There always is an operation.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn pull_kept(&self, local: &mut Local<E>, keys: &[Key]) -> Result<Started, AccessError> {
        self.check(keys, None)?;
        let elements = keys.iter().map(|key| self.layout.len(*key)).sum();
        let mut values = local.buffer(elements);
        self.read(local, keys, &mut values);
        let kept = Some((elements, local.keep(keys.len(), values)));
        Ok(self.start(local, Kind::Access(AccessKind::Pull), &[], kept, Tick(0)))
    }

    /// Reads what is served here.
    #[inline]
    fn read(&self, local: &mut Local<E>, keys: &[Key], values: &mut [E]) {
        self.walk(local, keys, Read(values));
        local.count_pull(keys.len());
    }

    /// Starts a push: adds `values` (all updates, concatenated) to the values of `keys`. A key that occurs twice gets both
    /// updates.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline]
    pub fn push(&self, local: &mut Local<E>, keys: &[Key], values: &[E]) -> Result<Started, AccessError> {
        self.check(keys, Some(values.len()))?;
        self.walk(local, keys, Add(values));
        local.count_push(keys.len());
        Ok(self.start(local, Kind::Access(AccessKind::Push), values, None, Tick(0)))
    }

    /// Starts a set: overwrites the values of `keys`. Of a key that occurs twice, the later value stays.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline]
    pub fn set(&self, local: &mut Local<E>, keys: &[Key], values: &[E]) -> Result<Started, AccessError> {
        self.check(keys, Some(values.len()))?;
        self.walk(local, keys, Put(values));
        local.count_push(keys.len());
        Ok(self.start(local, Kind::Access(AccessKind::Set), values, None, Tick(0)))
    }

    /// Serves what is here, one latch at a time, and notes the rest in `local`. Slots and then values are fetched ahead.
    #[inline]
    fn walk<S: Serve<E>>(&self, local: &mut Local<E>, keys: &[Key], mut call: S) {
        let bounded = self.bounds.is_some() && S::KIND == AccessKind::Pull;
        let need = bounded.then(|| self.need(local.clock()));
        if let [key] = keys {
            // Nothing that comes after taking a latch begins early. What comes before does, while the call before this one still waits
            // for its value.
            self.store.prefetch_slot(*key);
            self.store.prefetch_value(*key);
            self.visit(local, *key, 0, 0, need, &mut call);
            return;
        }
        let group = |number: usize| keys.chunks(GROUP).nth(number).unwrap_or_default();
        group(0).iter().chain(group(1)).for_each(|key| self.store.prefetch_slot(*key));
        group(0).iter().for_each(|key| self.store.prefetch_value(*key));
        let (mut offset, mut position) = (0, 0);
        for (number, keys) in keys.chunks(GROUP).enumerate() {
            group(number + 2).iter().for_each(|key| self.store.prefetch_slot(*key));
            group(number + 1).iter().for_each(|key| self.store.prefetch_value(*key));
            for key in keys {
                offset = self.visit(local, *key, position, offset, need, &mut call);
                position += 1;
            }
        }
    }

    /// Serves one key of a call if it is here, and notes it if not. Returns where the next key's value begins in those of the call.
    /// What a pull reads must have reached the clock `need`; without one every copy will do.
    #[inline(always)]
    fn visit<S: Serve<E>>(
        &self,
        local: &mut Local<E>,
        key: Key,
        position: usize,
        offset: usize,
        need: Option<u32>,
        call: &mut S,
    ) -> usize {
        let end = offset + self.layout.len(key);
        let (mut entry, role) = self.latch(key);
        let owned = role == Role::Owner && need.is_none();
        let here = owned || self.serves(key, &entry.state(), S::KIND, need.unwrap_or(0));
        // An own operation on the key may be under way: this one must not overtake it, even if the key is here by now.
        if here && !local.has_outstanding(self.layout.shard(key), key) {
            call.serve(&mut entry, offset..end);
            if !owned && S::KIND != AccessKind::Pull {
                Self::mark(&mut entry);
            }
        } else {
            drop(entry);
            local.defer(self.layout.shard(key), position, key, offset);
        }
        end
    }

    /// Reads the values of those of `keys` that are served here at once into their places in `values`; `here` says, per key,
    /// which these are. The others are left alone, and so are their places. (Lapse's PullIfLocal.)
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn pull_if_local(
        &self,
        local: &mut Local<E>,
        keys: &[Key],
        values: &mut [E],
        here: &mut Vec<bool>,
    ) -> Result<(), AccessError> {
        self.check(keys, Some(values.len()))?;
        here.clear();
        let mut offset = 0;
        let need = self.need(local.clock());
        for key in keys {
            let len = self.layout.len(*key);
            let mut served = false;
            if !local.has_outstanding(self.layout.shard(*key), *key) {
                let (entry, _) = self.latch(*key);
                let serves = self.serves(*key, &entry.state(), AccessKind::Pull, need);
                if let (true, Some(value)) = (serves, entry.value()) {
                    access::pull(value, &mut values[offset..offset + len]);
                    served = true;
                }
            }
            here.push(served);
            offset += len;
        }
        local.count_pull(here.iter().filter(|here| **here).count());
        Ok(())
    }

    /// Starts to move `keys` to this node. The operation, if there is one, is done when all of them have arrived; they may have
    /// left again by then. Does nothing if keys do not move on request, and for keys with static replicas. `now` is the time of the call, on the clock of
    /// [`crate::Channel::handle`].
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn localize(&self, local: &mut Local<E>, keys: &[Key], now: Tick) -> Result<Started, AccessError> {
        self.check(keys, None)?;
        if self.policy.relocation != Some(Initiator::Requester) {
            return Ok(Started { op: None, submissions: Vec::new() });
        }
        keys.iter().take(2 * GROUP).for_each(|key| self.store.prefetch_slot(*key));
        for (position, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(position + 2 * GROUP) {
                self.store.prefetch_slot(*ahead);
            }
            let (mut entry, role) = self.latch(*key);
            if role.is_owner() {
                entry.state_mut().set_localized();
            } else if !role.is_copy() {
                local.defer_localize(position, *key);
            }
        }
        Ok(self.start(local, Kind::Localize, &[], None, now))
    }

    /// Starts to bring static replicas in step: the operation is done when a round that began after this call is over on this
    /// node. Rounds begin when all workers of the node have called; where there is [`Pace::Asked`], when all workers of all nodes
    /// have, so that afterwards every copy has all that anybody did before. `None` if there are no static replicas.
    pub fn synchronize(&self, local: &mut Local<E>) -> Started {
        let mut submissions = Vec::new();
        let channels = (0..self.layout.channels()).map(|c| ChannelId(c as u16));
        let channels: Vec<_> = channels.filter(|c| !self.fixed_keys(*c).is_empty()).collect();
        let op = local.start_keyless(channels.len());
        if let Some(op) = op {
            let submission = |channel: &ChannelId| {
                let mut submission = Submission::new(local, op, Kind::Synchronize, 0, Tick(0));
                submission.positions.push(u32::from(channel.0));
                (*channel, submission)
            };
            submissions.extend(channels.iter().map(submission));
        }
        Started { op, submissions }
    }

    /// Turns what is left of a call into an operation, if anything is.
    #[inline]
    fn start(
        &self,
        local: &mut Local<E>,
        kind: Kind,
        values: &[E],
        kept: Option<(usize, Vec<E>)>,
        now: Tick,
    ) -> Started {
        if local.is_served() && kept.is_none() {
            return Started { op: None, submissions: Vec::new() };
        }
        self.start_operation(local, kind, values, kept, now)
    }

    #[inline(never)]
    fn start_operation(
        &self,
        local: &mut Local<E>,
        kind: Kind,
        values: &[E],
        kept: Option<(usize, Vec<E>)>,
        now: Tick,
    ) -> Started {
        let layout = &*self.layout;
        let need = self.need(local.clock());
        local.start(
            kind,
            kept,
            layout,
            |local, op, deferred, submissions: &mut Vec<(ChannelId, Submission)>| {
                let mut per_channel: Vec<Option<(Submission, Vec<u8>)>> =
                    (0..layout.channels()).map(|_| None).collect();
                // Twice an even share for each.
                let share = |whole: usize| whole.min(2 * whole / layout.channels());
                for deferral in deferred {
                    let part = &mut per_channel[layout.channel(deferral.key).index()];
                    let (submission, operands) = part.get_or_insert_with(|| {
                        let submission = Submission::new(local, op, kind, need, now);
                        let operands = local.operands.take(share(size_of_val(values)));
                        (submission.with_room(share(deferred.len())), operands)
                    });
                    submission.add(deferral.key, deferral.position);
                    if let Kind::Access(AccessKind::Push | AccessKind::Set) = kind {
                        let operand = deferral.offset..deferral.offset + layout.len(deferral.key);
                        copy_to_bytes(&values[operand], operands);
                    }
                }
                for (channel, part) in per_channel.into_iter().enumerate() {
                    if let Some((submission, operands)) = part {
                        let values = local.operands.lend(operands);
                        submissions.push((ChannelId(channel as u16), Submission { values, ..submission }));
                    }
                }
            },
        )
    }
}
