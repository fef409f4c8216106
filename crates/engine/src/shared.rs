//! The part of a node that all its threads use, and the fast path: what a worker does by itself.

use crate::error::AccessError;
use crate::input::{Kind, Submission};
use crate::local::{Local, Started};
use intendant_core::{ChannelId, Element, Initialiser, Key, Layout, NodeId, Tick, copy_to_bytes, limits};
use intendant_store::{Entry, Store};
use intendant_techniques::{Directory, Initiator, Policy, Role, SlotState, access};
use intendant_wire::AccessKind;
use std::sync::Arc;

/// How far ahead of the copying the slots of a batch are fetched, in keys; values follow at half the distance. With 8 to 16
/// keys a memory access of a few hundred nanoseconds is over before the key is needed; more only evicts.
const PREFETCH_KEYS: usize = 16;

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
}

impl<E: Element> Shared<E> {
    /// The state of a node at the start. A dense store gets the values of all keys whose home is here; a sparse one makes
    /// them when they are first touched.
    #[must_use]
    pub fn new(config: SharedConfig<E>) -> Self {
        let SharedConfig { node, layout, init, storage, policy } = config;
        let (store, lazy) = match storage {
            Storage::Dense => (Store::dense(Arc::clone(&layout)), false),
            Storage::Sparse => (Store::sparse(Arc::clone(&layout)), true),
        };
        let directory = Directory::new(node, Arc::clone(&layout), &policy);
        let shared = Self { node, layout, store, init, lazy, directory, policy };
        if !lazy {
            for key in (0..shared.layout.keys()).map(Key) {
                if shared.directory.home(key) == node {
                    shared.materialise(&mut shared.store.latch(key));
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
    #[inline]
    pub(crate) fn latch(&self, key: Key) -> (Entry<'_, SlotState, E>, Role) {
        let mut entry = self.store.latch(key);
        let state = entry.state();
        if self.lazy && state == SlotState::default() && self.directory.home(key) == self.node {
            self.materialise(&mut entry);
            return (entry, Role::Owner);
        }
        (entry, state.role)
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
        match (entry.state().role, entry.value()) {
            (Role::Owner, Some(value)) => copy_to_bytes(value, values),
            (Role::Owner | Role::Absent | Role::Arriving | Role::Leaving, _) => return false,
        }
        true
    }

    /// Gives this node a (possibly stale) idea of where a key is, if nodes remember locations. Requests try there first. Returns
    /// whether the key has a slot for it that it did not have before.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn learn(&self, key: Key, at: NodeId, counter: u32) -> bool {
        // A home that orders relocations knows better; one that is told afterwards is told by other means.
        if !self.policy.caches || at == self.node || self.directory.is_home(key) {
            return false;
        }
        let mut entry = self.store.latch(key);
        let new = entry.state() == SlotState::default();
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

    /// Reads the value of `key` if this node owns it, without any ordering with respect to a worker's operations: for
    /// invariant checks and tests.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn peek(&self, key: Key) -> Option<Vec<E>> {
        let (entry, role) = self.latch(key);
        match role {
            Role::Owner => entry.value().map(<[E]>::to_vec),
            Role::Absent | Role::Arriving | Role::Leaving => None,
        }
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

    /// Checks a call before anything is done for it. A call without values has no `elements`.
    fn check(&self, keys: &[Key], elements: Option<usize>) -> Result<(), AccessError> {
        if keys.len() > limits::FRAME_KEYS_MAX {
            return Err(AccessError::TooManyKeys { keys: keys.len(), max: limits::FRAME_KEYS_MAX });
        }
        let mut expected = 0;
        for (position, key) in keys.iter().enumerate() {
            if !self.layout.contains(*key) {
                let last = Key(self.layout.keys() - 1);
                return Err(AccessError::KeyOutOfRange { key: *key, position, last });
            }
            expected += self.layout.len(*key);
        }
        match elements {
            Some(found) if found != expected => {
                Err(AccessError::ValueLength { keys: keys.len(), expected, found })
            }
            _ => Ok(()),
        }
    }

    /// Starts a pull of `keys` into `values` (all values, concatenated). Keys that are served here are in `values` when this
    /// returns; the others follow with completions. A key that occurs twice is read twice.
    ///
    /// `keep` says that the operation gets a buffer of its own, because `values` will not be there when it completes.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn pull(
        &self,
        local: &mut Local<E>,
        keys: &[Key],
        values: &mut [E],
        keep: bool,
    ) -> Result<Started, AccessError> {
        self.check(keys, Some(values.len()))?;
        self.walk(local, keys, |entry, range| {
            let value = entry.value().expect("an owner holds the value");
            access::pull(value, &mut values[range]);
        });
        local.count_pull(keys.len());
        let kept = keep.then(|| values.to_vec());
        Ok(self.start(local, Kind::Access(AccessKind::Pull), &[], kept, Tick(0)))
    }

    /// Starts a push: adds `values` (all updates, concatenated) to the values of `keys`. A key that occurs twice gets both
    /// updates.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn push(&self, local: &mut Local<E>, keys: &[Key], values: &[E]) -> Result<Started, AccessError> {
        self.check(keys, Some(values.len()))?;
        self.walk(local, keys, |entry, range| {
            access::push(entry.value_mut().expect("an owner holds the value"), &values[range]);
        });
        local.count_push(keys.len());
        Ok(self.start(local, Kind::Access(AccessKind::Push), values, None, Tick(0)))
    }

    /// Starts a set: overwrites the values of `keys`. Of a key that occurs twice, the later value stays.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn set(&self, local: &mut Local<E>, keys: &[Key], values: &[E]) -> Result<Started, AccessError> {
        self.check(keys, Some(values.len()))?;
        self.walk(local, keys, |entry, range| {
            entry.value_mut().expect("an owner holds the value").copy_from_slice(&values[range]);
        });
        local.count_push(keys.len());
        Ok(self.start(local, Kind::Access(AccessKind::Set), values, None, Tick(0)))
    }

    /// Serves what is here, one latch at a time, and notes the rest in `local`. Slots and then values are fetched ahead.
    #[inline]
    fn walk(
        &self,
        local: &mut Local<E>,
        keys: &[Key],
        mut serve: impl FnMut(&mut Entry<'_, SlotState, E>, std::ops::Range<usize>),
    ) {
        const VALUES_AHEAD: usize = PREFETCH_KEYS / 2;
        if keys.len() > 1 {
            keys.iter().take(PREFETCH_KEYS).for_each(|key| self.store.prefetch_slot(*key));
            keys.iter().take(VALUES_AHEAD).for_each(|key| self.store.prefetch_value(*key));
        }
        let mut offset = 0;
        for (position, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(position + PREFETCH_KEYS) {
                self.store.prefetch_slot(*ahead);
            }
            if let Some(ahead) = keys.get(position + VALUES_AHEAD) {
                self.store.prefetch_value(*ahead);
            }
            let len = self.layout.len(*key);
            // An own operation on the key may be under way: this one must not overtake it, even if the key is here by now.
            let shard = self.layout.shard(*key);
            if local.has_outstanding(shard, *key) {
                local.defer(shard, position, *key, offset);
            } else {
                let (mut entry, role) = self.latch(*key);
                match role {
                    Role::Owner => serve(&mut entry, offset..offset + len),
                    Role::Absent | Role::Arriving | Role::Leaving => {
                        local.defer(shard, position, *key, offset);
                    }
                }
            }
            offset += len;
        }
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
        for key in keys {
            let len = self.layout.len(*key);
            let mut served = false;
            if !local.has_outstanding(self.layout.shard(*key), *key) {
                let (entry, role) = self.latch(*key);
                if let (Role::Owner, Some(value)) = (role, entry.value()) {
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
    /// left again by then. Does nothing if keys do not move on request. `now` is the time of the call, on the clock of
    /// [`crate::Channel::handle`].
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn localize(&self, local: &mut Local<E>, keys: &[Key], now: Tick) -> Result<Started, AccessError> {
        self.check(keys, None)?;
        if self.policy.relocation != Some(Initiator::Requester) {
            return Ok(Started { op: None, submissions: Vec::new() });
        }
        keys.iter().take(PREFETCH_KEYS).for_each(|key| self.store.prefetch_slot(*key));
        for (position, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(position + PREFETCH_KEYS) {
                self.store.prefetch_slot(*ahead);
            }
            let (mut entry, role) = self.latch(*key);
            if role == Role::Owner {
                entry.state_mut().set_localized();
            } else {
                local.defer_localize(position, *key);
            }
        }
        Ok(self.start(local, Kind::Localize, &[], None, now))
    }

    /// Turns the deferred keys of a call into an operation.
    fn start(
        &self,
        local: &mut Local<E>,
        kind: Kind,
        values: &[E],
        kept: Option<Vec<E>>,
        now: Tick,
    ) -> Started {
        let layout = &*self.layout;
        local.start(
            kind,
            kept,
            layout,
            |op, worker, deferred, submissions: &mut Vec<(ChannelId, Submission)>| {
                let mut per_channel: Vec<Option<Submission>> = (0..layout.channels()).map(|_| None).collect();
                for deferral in deferred {
                    let submission = per_channel[layout.channel(deferral.key).index()]
                        .get_or_insert_with(|| Submission::new(worker, op, kind, now));
                    let operand = match kind {
                        Kind::Access(AccessKind::Pull) | Kind::Localize => &[][..],
                        Kind::Access(AccessKind::Push | AccessKind::Set) => {
                            &values[deferral.offset..deferral.offset + layout.len(deferral.key)]
                        }
                    };
                    submission.add(deferral.key, deferral.position, operand);
                }
                let parts = per_channel.into_iter().enumerate();
                submissions.extend(parts.filter_map(|(c, s)| Some((ChannelId(c as u16), s?))));
            },
        )
    }
}
