//! The outstanding operations of one worker.

use crate::LocalAccess;
use crate::input::{Completion, Kind, Submission};
use crate::outgoing::buffers::Buffers;
use crate::stats::AccessStats;
use bytes::Bytes;
use hashbrown::HashMap;
use intendant_core::{ChannelId, Element, Key, Layout, WorkerId, copy_from_bytes, limits};
use intendant_store::Favour;
use intendant_wire::{AccessKind, OpId};

type Hash = foldhash::fast::FixedState;

/// A key of a call that could not be served at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferral {
    pub(crate) position: u32,
    pub(crate) key: Key,
    /// First element within the values of the call.
    pub(crate) offset: usize,
}

/// The result of starting a call.
#[derive(Clone, Debug)]
pub struct Started {
    /// The operation, if the caller has to wait for it or has values to take from it.
    pub op: Option<OpId>,
    /// Submissions that the caller hands to the channels, now and in this order.
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

/// The destination of an operation's values.
enum Values<E> {
    /// To the caller, which waits for the operation. Also for an operation without values.
    Waiter,
    /// Here, until the caller takes them.
    Kept(Kept<E>),
    /// Nowhere: a pull whose ticket was dropped.
    Abandoned,
}

/// The values of a pull until the caller takes them.
struct Kept<E> {
    /// How many there are.
    elements: usize,
    /// Room for all values of the call, filled with those that are not in `parts`; empty if there is no such
    /// value.
    values: Vec<E>,
    /// Large parts as they arrived, with the positions that they answer. They are copied once, when the
    /// caller takes them.
    parts: Vec<(Vec<u32>, Bytes)>,
}

impl<E: Element> Kept<E> {
    /// Copies the values in `parts` to their places among the values of the call.
    fn copy_parts(&self, deferrals: &[Deferral], layout: &Layout, values: &mut [E]) {
        for (positions, part) in &self.parts {
            let (mut rest, mut finder) = (&part[..], Finder::default());
            for position in positions {
                let Deferral { key, offset, .. } = finder.find(deferrals, *position);
                let target = &mut values[offset..offset + layout.visible(key)];
                let (value, others) = rest.split_at(size_of_val(target));
                rest = others;
                copy_from_bytes(target, value);
            }
        }
    }

    /// Bytes in `parts`.
    fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, part)| part.len()).sum()
    }
}

/// Finds the deferred keys of ascending positions. Usually each follows the previous one directly.
#[derive(Default)]
struct Finder {
    next: usize,
}

impl Finder {
    #[inline]
    fn find(&mut self, deferrals: &[Deferral], position: u32) -> Deferral {
        if deferrals.get(self.next).is_none_or(|deferral| deferral.position != position) {
            let found = deferrals.binary_search_by_key(&position, |d| d.position);
            self.next = found.expect("a deferred position");
        }
        self.next += 1;
        deferrals[self.next - 1]
    }
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
    /// Keys of the call that were read in other nodes' windows; 0 otherwise.
    in_windows: u64,
    stats: AccessStats,
    clock: u32,
    /// Buffers of values that have been taken, for reuse.
    spare: Vec<Vec<E>>,
    /// Bytes of answers that are kept in their receive buffers.
    parts_bytes: usize,
    /// Buffers of operands that are handed to channels.
    pub(crate) operands: Buffers,
    /// The right to enter the store without latches, if the store favours this worker.
    favour: Option<Favour>,
}

/// How many buffers a worker keeps for reuse, and the most bytes of one. Without reuse, the operating system
/// would supply large buffers page by page for every call.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Parts of answers of at least this many bytes are copied only when the caller takes them, as long as all
/// such parts of a worker together do not exceed `PARTS_BYTES_MAX`. A part keeps the whole buffer in which it
/// arrived, a few hundred KiB, from being reused.
const PART_BYTES_MIN: usize = 32 << 10;
const PARTS_BYTES_MAX: usize = 2 << 20;

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
            in_windows: 0,
            stats: AccessStats::default(),
            clock: 0,
            spare: Vec::new(),
            parts_bytes: 0,
            operands: Buffers::default(),
            favour: None,
        }
    }

    /// The worker's right to enter the store without latches.
    #[inline]
    pub(crate) fn favour(&self) -> Option<&Favour> {
        self.favour.as_ref()
    }

    pub(crate) fn set_favour(&mut self, favour: Option<Favour>) {
        self.favour = favour;
    }

    /// A buffer of `elements` elements, all of which the caller overwrites.
    pub(crate) fn buffer(&mut self, elements: usize) -> Vec<E> {
        buffer(&mut self.spare, elements)
    }

    /// Returns `values`, or recycles the buffer and returns an empty one if no key of the current call was
    /// served here.
    pub(crate) fn keep(&mut self, keys: usize, values: Vec<E>) -> Vec<E> {
        if self.deferred.len() < keys {
            return values;
        }
        self.recycle(values);
        Vec::new()
    }

    /// Takes back a buffer, for the next pull that keeps its values.
    fn recycle(&mut self, values: Vec<E>) {
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

    /// The accesses of the worker so far.
    pub fn stats(&self) -> AccessStats {
        self.stats
    }

    /// Counts keys of pulls as samples.
    pub fn count_sampled(&mut self, keys: usize) {
        self.stats.sampled += keys as u64;
    }

    pub(crate) fn count_pull(&mut self, keys: usize, access: LocalAccess) {
        self.stats.pull_keys += keys as u64;
        self.count_place(keys, access);
    }

    pub(crate) fn count_push(&mut self, keys: usize, access: LocalAccess) {
        self.stats.push_keys += keys as u64;
        self.count_place(keys, access);
    }

    /// Counts keys that were pulled because they are here.
    pub(crate) fn count_pull_if_local(&mut self, keys: usize) {
        self.stats.pull_keys += keys as u64;
        self.stats.local += keys as u64;
    }

    /// Counts keys that were lent to the worker: each counts as a pull and a push that were served here. The
    /// worker has pulled `pulled` keys before, and these pulls have been counted already. If they are more
    /// than the lent keys, the others have left this node again: the worker has pulled those twice, and they
    /// count once.
    #[inline]
    pub fn count_updates(&mut self, keys: usize, pulled: usize) {
        let (keys, pulled) = (keys as u64, pulled as u64);
        let twice = pulled.saturating_sub(keys);
        // A key that arrived between the search and the first pull was pulled here.
        let remote = twice.min(self.stats.remote);
        self.stats.pull_keys = self.stats.pull_keys + keys - pulled;
        self.stats.push_keys += keys;
        self.stats.remote -= remote;
        self.stats.windows = self.stats.windows.min(self.stats.remote);
        self.stats.local = self.stats.local + keys + keys.saturating_sub(pulled) + remote - twice;
    }

    /// Counts how many keys of a call are here and how many are elsewhere. With [`LocalAccess::Queue`] only
    /// the channel knows this, and the worker counts when the call is done ([`Completion::late`]).
    fn count_place(&mut self, keys: usize, access: LocalAccess) {
        if access == LocalAccess::Queue {
            return;
        }
        let in_windows = std::mem::take(&mut self.in_windows);
        let remote = self.deferred.len() as u64 + in_windows;
        self.stats.remote += remote;
        self.stats.windows += in_windows;
        self.stats.local += keys as u64 - remote;
    }

    /// Bytes in flight: pushed values that are not acknowledged, pulled ones that have not arrived, and
    /// [`limits::OUTSTANDING_KEY_BYTES`] for each key.
    pub fn outstanding_bytes(&self) -> usize {
        self.bytes
    }

    /// Operations that are under way.
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Whether no access is in flight. Keys may still be on their way here.
    #[inline]
    pub fn is_flushed(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is an operation that is in flight or has values to take. Without one, no completion can
    /// arrive.
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

    /// Notes that a key of the current call was read in another node's window.
    pub(crate) fn count_window(&mut self) {
        self.in_windows += 1;
    }

    /// Notes a key that could not be served. From now on the key counts as outstanding, also for later
    /// positions of the same call.
    #[inline]
    pub(crate) fn defer(&mut self, shard: usize, position: usize, key: Key, offset: usize) {
        self.per_shard[shard] += 1;
        *self.keys.entry(key).or_insert(0) += 1;
        self.deferred.push(Deferral { position: position as u32, key, offset });
    }

    /// Notes a key to localize. Accesses to the key need not wait for the relocation: they are handled by
    /// where the key is at that time.
    pub(crate) fn defer_localize(&mut self, position: usize, key: Key) {
        self.deferred.push(Deferral { position: position as u32, key, offset: 0 });
    }

    /// Whether all keys of the current call were served.
    #[inline]
    pub(crate) fn is_served(&self) -> bool {
        self.deferred.is_empty()
    }

    /// Turns the deferred keys of a call, or values that it keeps, into an operation.
    pub(crate) fn start(
        &mut self,
        kind: Kind,
        kept: Option<(usize, Vec<E>)>,
        layout: &Layout,
        submit: impl FnOnce(&mut Self, OpId, &[Deferral], &mut Vec<(ChannelId, Submission)>),
    ) -> Started {
        let mut submissions = Vec::new();
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
        let kept = kept.map(|(elements, values)| Kept { elements, values, parts: Vec::new() });
        let values = kept.map_or(Values::Waiter, Values::Kept);
        self.ops.insert(op, Op { kind, left: deferrals.len(), deferrals, bytes, values });
        Started { op: Some(op), submissions }
    }

    /// Starts an operation without keys that has one part per channel; `None` without channels. Its positions
    /// are the channels' numbers.
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

    /// Whether all keys of an operation have been completed. Operations that were never started or have been
    /// taken are done.
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

    /// Processes a part of an operation's answer. The values of a pull are written to `sink`, if it is given
    /// for this operation; else the operation keeps them until [`Local::take`], large parts in their receive
    /// buffers.
    ///
    /// # Panics
    /// If the completion does not come from a channel of this node for an outstanding operation: channels
    /// check what peers send.
    #[inline(never)]
    pub fn complete(&mut self, completion: Completion, layout: &Layout, sink: Option<(OpId, &mut [E])>) {
        let Completion { op: id, positions, values: bytes, late } = completion;
        if let Some(late) = late {
            self.stats.remote += u64::from(late);
            self.stats.local += positions.len() as u64 - u64::from(late);
        }
        let op = self.ops.get_mut(&id).expect("completions are for outstanding operations");
        let as_it_came = matches!(op.values, Values::Kept(_))
            && bytes.len() >= PART_BYTES_MIN
            && self.parts_bytes + bytes.len() <= PARTS_BYTES_MAX;
        let mut target = match (&mut op.values, sink) {
            (Values::Kept(_), _) if as_it_came => None,
            (Values::Kept(kept), _) => {
                if kept.values.is_empty() {
                    kept.values = buffer(&mut self.spare, kept.elements);
                }
                Some(&mut kept.values[..])
            }
            (Values::Waiter, Some((waiting, values))) if waiting == id => Some(values),
            // The caller has stopped waiting, or has dropped the ticket.
            (Values::Waiter | Values::Abandoned, _) => None,
        };
        let (mut values, mut finder) = (&bytes[..], Finder::default());
        for position in &positions {
            if op.kind == Kind::Synchronize {
                continue;
            }
            let Deferral { key, offset, .. } = finder.find(&op.deferrals, *position);
            if op.kind == Kind::Localize {
                continue;
            }
            if op.kind == Kind::Access(AccessKind::Pull) {
                let len = layout.visible(key);
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
        op.left -= positions.len();
        if as_it_came && let Values::Kept(kept) = &mut op.values {
            self.parts_bytes += bytes.len();
            kept.parts.push((positions, bytes));
        }
        if op.left == 0 {
            self.bytes -= op.bytes;
            op.bytes = 0;
            if !matches!(op.values, Values::Kept(_)) {
                self.ops.remove(&id);
            }
        }
    }

    /// The number of elements that a finished pull keeps; `None` if it is not done or keeps none.
    pub fn kept(&self, op: OpId) -> Option<usize> {
        match self.ops.get(&op) {
            Some(Op { left: 0, values: Values::Kept(kept), .. }) => Some(kept.elements),
            Some(_) | None => None,
        }
    }

    /// Moves the values that a pull has kept, as many as [`Local::kept`] says, to `values`, and ends the
    /// operation.
    ///
    /// # Panics
    /// If the pull is not done, has kept nothing, or has kept another number of elements.
    #[inline(never)]
    pub fn take(&mut self, op: OpId, layout: &Layout, values: &mut [E]) {
        assert!(self.is_done(op), "{op:?} is not done");
        let Some(Op { deferrals, values: Values::Kept(kept), .. }) = self.ops.remove(&op) else {
            panic!("{op:?} has kept nothing")
        };
        assert_eq!(values.len(), kept.elements, "{op:?} has kept another number of elements");
        if !kept.values.is_empty() {
            values.copy_from_slice(&kept.values);
        }
        kept.copy_parts(&deferrals, layout, values);
        self.let_go(kept);
    }

    fn let_go(&mut self, kept: Kept<E>) {
        self.parts_bytes -= kept.bytes();
        if !kept.values.is_empty() {
            self.recycle(kept.values);
        }
    }

    /// Drops the values of this operation, now or when they arrive.
    #[inline(never)]
    pub fn abandon(&mut self, op: OpId) {
        let Some(found) = self.ops.get_mut(&op) else { return };
        let before = std::mem::replace(&mut found.values, Values::Abandoned);
        if found.left == 0 {
            self.ops.remove(&op);
        }
        if let Values::Kept(kept) = before {
            self.let_go(kept);
        }
    }
}

/// A buffer of `elements` elements, all of which the caller overwrites; reused memory if there is any.
fn buffer<E: Element>(spare: &mut Vec<Vec<E>>, elements: usize) -> Vec<E> {
    let mut values = spare.pop().unwrap_or_default();
    values.resize(elements, E::ZERO);
    if cfg!(debug_assertions) {
        // Makes elements visible that the caller does not overwrite.
        values.fill(E::from_f64(f64::NAN));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReplicationConfig, Shared, SharedConfig, Storage};
    use intendant_core::{KeyOrder, NodeId, copy_to_bytes};
    use intendant_techniques::Technique;
    use std::sync::Arc;

    const KEYS: u64 = 1_000;
    const LEN: usize = 64;

    /// A node that owns the first half of the keys, which are all 1.
    fn node() -> Shared<f32> {
        let layout = Layout::builder().range("k", KEYS, LEN).nodes(2).order(KeyOrder::Range).build();
        Shared::new(SharedConfig {
            node: NodeId(0),
            layout: Arc::new(layout.expect("a valid layout")),
            init: Arc::new(|_, value: &mut [f32]| value.fill(1.0)),
            storage: Storage::Dense,
            access: LocalAccess::Shared,
            policy: Technique::Classic.policy(),
            replication: ReplicationConfig::default(),
            workers: 1,
        })
    }

    /// The answer for some of the positions of a call: element `i` of the value at position `p` is `1000 p +
    /// i`.
    fn answer(op: OpId, positions: Vec<u32>) -> Completion {
        let mut values = Vec::new();
        for position in &positions {
            let value: [f32; LEN] = std::array::from_fn(|at| expected(*position, at));
            copy_to_bytes(&value, &mut values);
        }
        Completion { op, positions, values: values.into(), late: None }
    }

    /// Each key of a step counts as one pull and one push, however often the worker has pulled it.
    #[test]
    fn a_lent_key_counts_as_a_pull_and_a_push() {
        let node = node();
        let mut local = Local::<f32>::new(WorkerId(0), node.layout());
        let mut counted = |pulled: [u64; 2], keys: usize, pulled_and_lent: usize| {
            local.stats = AccessStats::default();
            let [here, away] = pulled;
            (local.stats.pull_keys, local.stats.local, local.stats.remote) = (here + away, here, away);
            local.count_updates(keys, pulled_and_lent);
            let AccessStats { pull_keys, push_keys, local, remote, .. } = local.stats;
            assert_eq!(local + remote, pull_keys + push_keys);
            [pull_keys, push_keys, local, remote]
        };
        assert_eq!(counted([0, 0], 5, 0), [5, 5, 10, 0]);
        assert_eq!(counted([0, 2], 5, 2), [5, 5, 8, 2], "two have come meanwhile");
        // Three keys arrived and left again. Only their second pull counts here; the push of their copies
        // counts later.
        assert_eq!(counted([0, 6], 0, 3), [3, 0, 0, 3]);
        assert_eq!(counted([0, 6], 1, 3), [4, 1, 1, 4]);
        assert_eq!(counted([3, 1], 0, 2), [2, 0, 2, 0], "they were here when they were pulled first");
    }

    fn expected(position: u32, at: usize) -> f32 {
        (1_000 * position + at as u32) as f32
    }

    /// Pulls `keys`, some of which are here. The answer for the others arrives in parts of these sizes.
    /// Returns the values, and the expected ones.
    fn pull(keys: &[Key], parts: &[usize]) -> (Vec<f32>, Vec<f32>) {
        let node = node();
        let mut local = Local::new(WorkerId(0), node.layout());
        let started = node.pull_kept(&mut local, keys).expect("the keys exist");
        let op = started.op.expect("values are kept");
        let away = |position: &u32| keys[*position as usize].0 >= KEYS / 2;
        let positions: Vec<u32> = (0..keys.len() as u32).collect();
        let mut deferred: Vec<u32> = positions.iter().copied().filter(away).collect();
        for part in parts {
            assert_eq!(local.kept(op), None, "not everything has come");
            let rest = deferred.split_off(*part);
            local.complete(answer(op, deferred), node.layout(), None);
            deferred = rest;
        }
        assert!(deferred.is_empty() && local.is_flushed());
        let mut values = vec![f32::NAN; local.kept(op).expect("the pull is done")];
        local.take(op, node.layout(), &mut values);
        assert_eq!(local.kept(op), None);
        let value = |position: &u32, at| if away(position) { expected(*position, at) } else { 1.0 };
        (values, positions.iter().flat_map(|position| (0..LEN).map(move |at| value(position, at))).collect())
    }

    #[test]
    fn large_parts_of_answers_are_copied_when_they_are_taken() {
        let large = PART_BYTES_MIN / (LEN * size_of::<f32>());
        let all: Vec<Key> = (0..KEYS).map(Key).collect();
        let theirs: Vec<Key> = all[500..].to_vec();
        let mixed: Vec<Key> =
            all[..200].iter().zip(&theirs).flat_map(|(ours, theirs)| [*ours, *theirs]).collect();
        let twice: Vec<Key> = theirs[..70].iter().flat_map(|key| [*key, *key]).collect();
        for (keys, parts) in [
            (&theirs, vec![500]),
            (&theirs, vec![large, 500 - large]),
            (&theirs, vec![large - 1, large, 1, 500 - 2 * large]),
            (&all, vec![500]),
            (&mixed, vec![large, 3, 197 - large]),
            (&twice, vec![large + 1, 139 - large]),
            (&all[..10].to_vec(), vec![]),
        ] {
            let (values, expected) = pull(keys, &parts);
            assert!(values == expected, "{} keys in {parts:?}", keys.len());
        }
    }

    #[test]
    fn what_is_kept_as_it_came_is_bounded() {
        let node = node();
        let mut local = Local::new(WorkerId(0), node.layout());
        let keys: Vec<Key> = (KEYS / 2..KEYS / 2 + 200).map(Key).collect();
        let bytes = keys.len() * LEN * size_of::<f32>();
        let mut start = || {
            let op = node.pull_kept(&mut local, &keys).expect("the keys exist").op.expect("values are kept");
            let whole = answer(op, (0..200).collect());
            local.complete(whole.clone(), node.layout(), None);
            (op, !whole.values.is_unique())
        };
        let ops: Vec<(OpId, bool)> = (0..60).map(|_| start()).collect();
        assert_eq!(ops.iter().filter(|(_, as_it_came)| *as_it_came).count(), PARTS_BYTES_MAX / bytes);
        for (op, _) in ops {
            let mut values = vec![0.0; local.kept(op).expect("the pull is done")];
            local.take(op, node.layout(), &mut values);
            let expected = (0..200).flat_map(|position| (0..LEN).map(move |at| expected(position, at)));
            assert!(values.into_iter().eq(expected));
        }
        assert_eq!(local.parts_bytes, 0);
    }

    #[test]
    fn a_part_of_an_abandoned_pull_is_freed() {
        let node = node();
        let mut local = Local::new(WorkerId(0), node.layout());
        let keys: Vec<Key> = (KEYS / 2..KEYS / 2 + 200).map(Key).collect();
        let op = node.pull_kept(&mut local, &keys).expect("the keys exist").op.expect("values are kept");
        let first = answer(op, (0..150).collect());
        local.complete(first.clone(), node.layout(), None);
        assert!(!first.values.is_unique(), "it is kept as it came");
        local.abandon(op);
        assert!(first.values.is_unique());
        assert_eq!(local.parts_bytes, 0);
        let second = answer(op, (150..200).collect());
        local.complete(second.clone(), node.layout(), None);
        assert!(second.values.is_unique() && local.is_idle() && !local.has_operations());
    }
}
