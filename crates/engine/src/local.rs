//! What one worker has outstanding.

use crate::buffers::Buffers;
use crate::input::{Completion, Kind, Submission};
use hashbrown::HashMap;
use intendant_core::{ChannelId, Element, Key, Layout, WorkerId, copy_from_bytes, limits};
use intendant_wire::{AccessKind, OpId};

type Hash = foldhash::fast::FixedState;

/// Accesses of a worker, in keys. `local + remote = pull_keys + push_keys`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessStats {
    /// Keys pulled.
    pub pull_keys: u64,
    /// Keys pushed or set.
    pub push_keys: u64,
    /// Keys served without waiting for a message.
    pub local: u64,
    /// The others.
    pub remote: u64,
    /// Pulled keys that were samples.
    pub sampled: u64,
}

impl AccessStats {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.pull_keys += other.pull_keys;
        self.push_keys += other.push_keys;
        self.local += other.local;
        self.remote += other.remote;
        self.sampled += other.sampled;
    }
}

/// A key of a call that could not be served at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferral {
    pub(crate) position: u32,
    pub(crate) key: Key,
    /// First element within the values of the call.
    pub(crate) offset: usize,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub struct Started {
    /// The operation, if something is left to wait for or values are kept for it.
    pub op: Option<OpId>,
    /// What has to be handed to the channels, now and in this order.
    pub submissions: Vec<(ChannelId, Submission)>,
}

struct Op<E> {
    kind: Kind,
    /// By position, ascending.
    deferrals: Vec<Deferral>,
    left: usize,
    bytes: usize,
    values: Values<E>,
}

/// Where the values of an operation go.
enum Values<E> {
    /// To whoever waits for the operation; or it has none.
    Waiter,
    /// Here, all values of the call: a pull that nobody waits for yet.
    Kept(Vec<E>),
    /// Nowhere: a pull whose ticket was dropped.
    Abandoned,
}

/// The outstanding operations of one worker. Used by the worker's thread only.
pub struct Local<E> {
    worker: WorkerId,
    next_op: u32,
    ops: HashMap<OpId, Op<E>, Hash>,
    /// Outstanding keys per shard: the fast path looks at the set only if its shard's count is not zero.
    per_shard: Box<[u32]>,
    keys: HashMap<Key, u32, Hash>,
    bytes: usize,
    /// Deferred keys of the call that is being started; empty otherwise.
    deferred: Vec<Deferral>,
    stats: AccessStats,
    clock: u32,
    /// What values were kept in that have been taken, for its memory.
    spare: Vec<Vec<E>>,
    /// Memory of operands that are handed to channels.
    pub(crate) operands: Buffers,
}

/// Buffers whose memory a worker keeps at most, and the most bytes of one: large ones would come from the operating system, page by
/// page, for every call.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 1 << 20;

impl<E: Element> Local<E> {
    /// The state of a worker at the start.
    #[must_use]
    pub fn new(worker: WorkerId, layout: &Layout) -> Self {
        Self {
            worker,
            next_op: 0,
            ops: HashMap::default(),
            per_shard: vec![0; layout.shards()].into(),
            keys: HashMap::default(),
            bytes: 0,
            deferred: Vec::new(),
            stats: AccessStats::default(),
            clock: 0,
            spare: Vec::new(),
            operands: Buffers::default(),
        }
    }

    /// A buffer whose elements all are to be overwritten.
    pub(crate) fn buffer(&mut self, elements: usize) -> Vec<E> {
        let mut values = self.spare.pop().unwrap_or_default();
        values.resize(elements, E::ZERO);
        if cfg!(debug_assertions) {
            // What is not overwritten shows.
            values.fill(E::from_f64(f64::NAN));
        }
        values
    }

    /// Takes back a buffer that [`Local::take`] returned, for the next pull that keeps its values.
    pub fn recycle(&mut self, values: Vec<E>) {
        if self.spare.len() < SPARE_MAX && values.capacity() * size_of::<E>() <= SPARE_BYTES_MAX {
            self.spare.push(values);
        }
    }

    /// The worker's clock, as bounded staleness counts it.
    #[inline]
    pub(crate) fn clock(&self) -> u32 {
        self.clock
    }

    pub(crate) fn set_clock(&mut self, clock: u32) {
        self.clock = clock;
    }

    /// The worker.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// What the worker accessed so far.
    pub fn stats(&self) -> AccessStats {
        self.stats
    }

    /// Counts keys of pulls as samples.
    pub fn count_sampled(&mut self, keys: usize) {
        self.stats.sampled += keys as u64;
    }

    pub(crate) fn count_pull(&mut self, keys: usize) {
        self.stats.pull_keys += keys as u64;
        self.count_place(keys);
    }

    pub(crate) fn count_push(&mut self, keys: usize) {
        self.stats.push_keys += keys as u64;
        self.count_place(keys);
    }

    fn count_place(&mut self, keys: usize) {
        let remote = self.deferred.len() as u64;
        self.stats.remote += remote;
        self.stats.local += keys as u64 - remote;
    }

    /// Bytes in flight: pushed values that are not acknowledged, pulled ones that have not arrived, and
    /// [`limits::OUTSTANDING_KEY_BYTES`] for each key.
    pub fn outstanding_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no access is in flight. Keys may still be on their way here.
    pub fn is_flushed(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is an operation, in flight or one whose values nobody has taken. Only then anything can arrive.
    #[inline]
    pub fn has_operations(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        // Every key that is in flight counts some bytes.
        self.bytes == 0
    }

    /// Whether an operation of this worker on `key` is in flight.
    #[inline]
    pub(crate) fn has_outstanding(&self, shard: usize, key: Key) -> bool {
        !self.keys.is_empty() && self.per_shard[shard] != 0 && self.keys.contains_key(&key)
    }

    /// Notes a key that could not be served. From here on the key counts as outstanding, also for later positions of the
    /// same call.
    #[inline]
    pub(crate) fn defer(&mut self, shard: usize, position: usize, key: Key, offset: usize) {
        self.per_shard[shard] += 1;
        *self.keys.entry(key).or_insert(0) += 1;
        self.deferred.push(Deferral { position: position as u32, key, offset });
    }

    /// Notes a key that is to be moved here. Accesses need not wait for that: where the key is decides about them.
    pub(crate) fn defer_localize(&mut self, position: usize, key: Key) {
        self.deferred.push(Deferral { position: position as u32, key, offset: 0 });
    }

    pub(crate) fn start(
        &mut self,
        kind: Kind,
        kept: Option<Vec<E>>,
        layout: &Layout,
        submit: impl FnOnce(&mut Self, OpId, &[Deferral], &mut Vec<(ChannelId, Submission)>),
    ) -> Started {
        let mut submissions = Vec::new();
        if self.deferred.is_empty() && kept.is_none() {
            return Started { op: None, submissions };
        }
        let op = self.fresh_op();
        let deferrals = std::mem::take(&mut self.deferred);
        let mut bytes = 0;
        for deferral in &deferrals {
            bytes += layout.len(deferral.key) * size_of::<E>() + limits::OUTSTANDING_KEY_BYTES;
        }
        if !deferrals.is_empty() {
            submit(self, op, &deferrals, &mut submissions);
        }
        self.bytes += bytes;
        let values = kept.map_or(Values::Waiter, Values::Kept);
        self.ops.insert(op, Op { kind, left: deferrals.len(), deferrals, bytes, values });
        Started { op: Some(op), submissions }
    }

    /// Starts an operation without keys, one part for each of so many channels; `None` if there is none. Positions are the
    /// channels' numbers.
    pub(crate) fn start_keyless(&mut self, parts: usize) -> Option<OpId> {
        if parts == 0 {
            return None;
        }
        let op = self.fresh_op();
        self.bytes += limits::OUTSTANDING_KEY_BYTES;
        let bytes = limits::OUTSTANDING_KEY_BYTES;
        let values = Values::Waiter;
        self.ops
            .insert(op, Op { kind: Kind::Synchronize, left: parts, deferrals: Vec::new(), bytes, values });
        Some(op)
    }

    /// An operation id that no outstanding operation has; also for operations that are not accesses.
    pub fn fresh_op(&mut self) -> OpId {
        loop {
            let op = OpId(self.next_op);
            self.next_op = self.next_op.wrapping_add(1);
            if !self.ops.contains_key(&op) {
                return op;
            }
        }
    }

    /// Whether all keys of an operation have been completed. Operations that were never started or have been taken are done.
    pub fn is_done(&self, op: OpId) -> bool {
        self.ops.get(&op).is_none_or(|op| op.left == 0)
    }

    /// The operations that are not done, ascending.
    pub fn outstanding(&self) -> Vec<OpId> {
        #[expect(clippy::disallowed_methods, reason = "sorted right below")]
        let mut ops: Vec<OpId> = self.ops.iter().filter(|(_, o)| o.left > 0).map(|(id, _)| *id).collect();
        ops.sort_unstable();
        ops
    }

    /// Takes in a part of an operation's answer. Values of a pull go to its kept buffer, or to `sink` if `sink` is given for
    /// this operation.
    ///
    /// # Panics
    /// If the completion is not one that the channel of this node made for an outstanding operation: channels check what
    /// peers say.
    pub fn complete(&mut self, completion: &Completion, layout: &Layout, sink: Option<(OpId, &mut [E])>) {
        let op = self.ops.get_mut(&completion.op).expect("completions are for outstanding operations");
        let mut target = match (&mut op.values, sink) {
            (Values::Kept(kept), _) => Some(&mut kept[..]),
            (Values::Waiter, Some((id, values))) if id == completion.op => Some(values),
            // The waiter has given up, or the ticket was dropped.
            (Values::Waiter | Values::Abandoned, _) => None,
        };
        let mut values = &completion.values[..];
        let mut next = 0;
        for position in &completion.positions {
            if op.kind == Kind::Synchronize {
                continue;
            }
            // Mostly the one behind the one before.
            if op.deferrals.get(next).is_none_or(|deferral| deferral.position != *position) {
                let found = op.deferrals.binary_search_by_key(position, |d| d.position);
                next = found.expect("a deferred position");
            }
            let Deferral { key, offset, .. } = op.deferrals[next];
            next += 1;
            if op.kind == Kind::Localize {
                continue;
            }
            if op.kind == Kind::Access(AccessKind::Pull) {
                let len = layout.len(key);
                let (value, rest) = values.split_at(len * size_of::<E>());
                values = rest;
                if let Some(target) = &mut target {
                    copy_from_bytes(&mut target[offset..offset + len], value);
                }
            }
            self.per_shard[layout.shard(key)] -= 1;
            match self.keys.get_mut(&key) {
                Some(1) => {
                    self.keys.remove(&key);
                }
                Some(count) => *count -= 1,
                None => unreachable!("{key:?} was not outstanding"),
            }
        }
        op.left -= completion.positions.len();
        if op.left == 0 {
            self.bytes -= op.bytes;
            op.bytes = 0;
            if !matches!(op.values, Values::Kept(_)) {
                self.ops.remove(&completion.op);
            }
        }
    }

    /// Takes the values that a pull has kept, if it is done; afterwards the operation is forgotten.
    pub fn take(&mut self, op: OpId) -> Option<Vec<E>> {
        let done = self.ops.get(&op).is_some_and(|op| op.left == 0);
        match if done { self.ops.remove(&op)?.values } else { return None } {
            Values::Kept(values) => Some(values),
            Values::Waiter | Values::Abandoned => None,
        }
    }

    /// Nobody will take the values of this operation.
    pub fn abandon(&mut self, op: OpId) {
        let Some(found) = self.ops.get_mut(&op) else { return };
        found.values = Values::Abandoned;
        if found.left == 0 {
            self.ops.remove(&op);
        }
    }
}
