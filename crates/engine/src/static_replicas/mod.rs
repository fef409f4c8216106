//! Static replicas: a round collects what workers add to them, an all-reduce sums it over all nodes, and
//! every copy adds the sum. See [`intendant_techniques::allreduce`].
//!
//! A copy is base + own contribution to the running round + updates since. At the end of a round, base :=
//! base + the sum, which is bit-equal on all nodes.

use crate::channel::core::{Core, Noted};
use crate::channel::effects::Output;
use crate::error::ProtocolError;
use crate::input::Action;
use bytes::Bytes;
use intendant_core::{Element, Key, NodeId, Tick, Updates, WorkerId, copy_to_bytes, limits};
use intendant_techniques::allreduce::{AllReduce, Deltas, Part, Step};
use intendant_techniques::combine;
use intendant_techniques::{Clip, Role, StaticReplicaPace};
use intendant_wire::{Message, OpId, Origin, Reduce};
use std::sync::Arc;

/// Once a frame has this many bytes of values, the message continues in a new frame. The receiver adds the
/// values of a frame while the next frames are in flight, and reads frames of up to 256 KiB into memory that
/// it reuses.
const FRAME_BYTES_TARGET: usize = 192 << 10;

/// A channel's keys with static replicas.
pub(crate) struct StaticReplicas<E> {
    keys: Vec<Key>,
    /// First element of each key in `base`, and the end.
    starts: Vec<usize>,
    /// Elements of an update of each key.
    lens: Arc<[u32]>,
    /// The values that all nodes agree on.
    base: Vec<E>,
    /// Indices of keys with updates that no round has collected, in any order. Each index occurs at most
    /// once, because the slot of its key is marked.
    dirty: Vec<u32>,
    reduce: AllReduce<E>,
    /// This node's contribution to the running round.
    sent: Arc<Deltas<E>>,
    clip: Clip,
    /// When the next round may start, at a pace.
    next: Tick,
    /// Workers that wait for the next round to end.
    asked: Vec<(WorkerId, OpId)>,
    /// Workers that wait for the running round to end.
    waiting: Vec<(WorkerId, OpId)>,
    /// Keys that workers have marked as changed, or keys of updates that are being processed.
    noted: Noted,
    /// Scratch space: a copy without the updates that no round has collected (`known`), and those updates
    /// (`since`).
    known: Vec<E>,
    since: Vec<E>,
}

/// When a round starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// If it is due, or another node has started it.
    Paced,
    /// If there is anything to synchronise.
    Now,
}

impl<E: Element> StaticReplicas<E> {
    /// The static replicas of the channel, before the first access of a worker: the bases are the values now.
    pub(crate) fn new(core: &Core<E>) -> Self {
        let shared = &core.shared;
        let keys = shared.static_keys(core.id).to_vec();
        let (mut starts, mut base) = (vec![0], Vec::new());
        for key in &keys {
            base.extend_from_slice(
                shared.latch(*key).0.value().expect("static replicas are made at the start"),
            );
            starts.push(base.len());
        }
        let lens: Arc<[u32]> = keys.iter().map(|key| shared.layout().operand(*key) as u32).collect();
        Self {
            keys,
            starts,
            base,
            dirty: Vec::new(),
            reduce: AllReduce::new(shared.node(), shared.layout().nodes(), Arc::clone(&lens)),
            lens,
            sent: Arc::default(),
            clip: Clip::default(),
            next: Tick(0),
            asked: Vec::new(),
            waiting: Vec::new(),
            noted: Noted::default(),
            known: Vec::new(),
            since: Vec::new(),
        }
    }

    fn is_used(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Number of updates that are not in all copies yet, of workers that wait for that, and of running
    /// rounds.
    pub(crate) fn outstanding(&self) -> usize {
        self.dirty.len() + self.asked.len() + self.waiting.len() + usize::from(!self.reduce.is_idle())
    }

    /// How many rounds are complete here, and the elements that all nodes agree on after the last of them, by
    /// key.
    pub(crate) fn agreed(&self) -> (u32, &[E]) {
        (self.reduce.round(), &self.base)
    }

    /// When [`crate::Input::Tick`] is due.
    pub(crate) fn due(&self, pace: StaticReplicaPace) -> Option<Tick> {
        match pace {
            StaticReplicaPace::Every(_) if self.is_used() && !self.reduce.is_running() => Some(self.next),
            StaticReplicaPace::Every(_) | StaticReplicaPace::Asked => None,
        }
    }

    /// A worker waits until the static replicas are synchronised.
    pub(crate) fn submit(&mut self, worker: WorkerId, op: OpId) {
        self.asked.push((worker, op));
    }

    /// Starts a round if it is time to.
    pub(crate) fn start_round(&mut self, core: &Core<E>, out: &mut Output, start: Start) {
        if !self.is_used() || self.reduce.is_running() {
            return;
        }
        let pace = core.shared.replication().pace;
        let all_asked = self.asked.len() >= core.shared.workers();
        let called = self.reduce.is_called();
        let due = match pace {
            StaticReplicaPace::Every(_) => called || all_asked || core.now >= self.next,
            StaticReplicaPace::Asked => all_asked,
        };
        if !(due || start == Start::Now) {
            return;
        }
        if let StaticReplicaPace::Every(every) = pace {
            self.next = core.now.after(every.0);
        }
        self.find_updated(core);
        if self.dirty.is_empty() && !called && !all_asked {
            return;
        }
        if all_asked {
            self.waiting = std::mem::take(&mut self.asked);
        }
        let own = self.contribution(core);
        out.stats.synced_keys += own.indices.len() as u64;
        self.sent = Arc::clone(&own);
        let mut steps = Vec::new();
        self.reduce.start(own, &mut steps);
        self.advance(core, out, steps);
    }

    /// A part of another node's message.
    ///
    /// # Errors
    /// If it does not fit into the all-reduce.
    pub(crate) fn on_reduce(
        &mut self,
        core: &Core<E>,
        out: &mut Output,
        from: NodeId,
        reduce: Reduce,
    ) -> Result<(), ProtocolError> {
        if !self.is_used() {
            let (channel, technique) = (core.id, core.policy().name);
            return Err(ProtocolError::NoStaticReplicas { channel, technique });
        }
        let Reduce { round, step, last, indices, values } = reduce;
        if values.len() % size_of::<E>() != 0 {
            return Err(ProtocolError::PartialElement { bytes: values.len(), element: size_of::<E>() });
        }
        // This checks the indices and the lengths, too.
        self.reduce.receive(from, round, step, last, Part { indices, values })?;
        if self.reduce.is_running() {
            self.advance(core, out, Vec::new());
        } else {
            self.start_round(core, out, Start::Paced);
        }
        Ok(())
    }

    /// Sends `steps` and the steps that follow from messages received so far. At the end of the round,
    /// applies the sum.
    fn advance(&mut self, core: &Core<E>, out: &mut Output, mut steps: Vec<Step<E>>) {
        let done = self.reduce.advance(&mut steps);
        steps.into_iter().for_each(|step| self.send_step(out, step));
        let Some(total) = done else { return };
        self.apply(core, &total);
        out.stats.sync_rounds += 1;
        out.stats.synced_keys += total.indices.len() as u64;
        self.reduce.recycle(total);
        for (worker, op) in std::mem::take(&mut self.waiting) {
            let origin = Origin { node: core.node(), worker, op };
            out.outgoing.replies.synchronized(origin, u32::from(core.id.0));
        }
        // Other nodes may have started the next round already.
        self.start_round(core, out, Start::Paced);
    }

    /// Finds the static replicas that workers have changed.
    fn find_updated(&mut self, core: &Core<E>) {
        core.take_noted(&mut self.noted);
        for (at, key) in self.noted.keys.iter().copied().enumerate() {
            core.shared.ahead().slots(&self.noted.keys, at);
            let Some((mut entry, role)) = core.changed(key) else { continue };
            match role {
                Role::Static => self.dirty.push(entry.state().side),
                Role::Owner | Role::Absent | Role::Arriving | Role::Leaving => {
                    entry.state_mut().set_dirty(false);
                }
                Role::Hub | Role::Replica => {
                    unreachable!("no policy has static replicas and replicas through the owner")
                }
            }
        }
        self.noted.keys.clear();
    }

    /// This node's contribution to the round: the updates in its copies.
    fn contribution(&mut self, core: &Core<E>) -> Arc<Deltas<E>> {
        let (mut contribution, layout) = (self.reduce.fresh(), core.shared.layout());
        let own = Arc::get_mut(&mut contribution).expect("fresh memory is not shared");
        self.dirty.sort_unstable();
        let len = |index: &u32| self.lens[*index as usize] as usize;
        own.values.reserve_exact(self.dirty.iter().map(len).sum());
        self.noted.keys.extend(self.dirty.iter().map(|index| self.keys[*index as usize]));
        for (nth, index) in self.dirty.drain(..).enumerate() {
            core.shared.ahead().values(&self.noted.keys, nth);
            let at = index as usize;
            let updates = layout.updates(self.keys[at]);
            let (mut entry, _) = core.shared.latch(self.keys[at]);
            entry.state_mut().set_dirty(false);
            let base = &self.base[self.starts[at]..self.starts[at + 1]];
            let value = entry.value_mut().expect("a static replica has a value");
            let from = own.values.len();
            own.values.resize(from + self.lens[at] as usize, E::ZERO);
            let delta = &mut own.values[from..];
            // The copy becomes what all nodes compute, base and delta: later updates are measured against it.
            match core.shared.replication().clip {
                None => _ = combine::collect(updates, value, base, delta),
                Some(factor) => {
                    combine::difference(updates, value, base, delta);
                    value.copy_from_slice(base);
                    if !is_nothing(updates, delta) {
                        self.clip.apply(delta, factor);
                        combine::add(updates, value, delta);
                    }
                }
            }
            if is_nothing(updates, delta) {
                value.copy_from_slice(base);
                own.values.truncate(from);
                continue;
            }
            own.indices.push(index);
        }
        self.noted.keys.clear();
        contribution
    }

    /// Applies the sum of a round to bases and copies.
    fn apply(&mut self, core: &Core<E>, total: &Deltas<E>) {
        let sent = std::mem::take(&mut self.sent);
        let (mut offset, mut own, mut own_offset) = (0, 0, 0);
        self.noted.keys.extend(total.indices.iter().map(|index| self.keys[*index as usize]));
        for (nth, index) in total.indices.iter().enumerate() {
            core.shared.ahead().values(&self.noted.keys, nth);
            let at = *index as usize;
            let (start, end) = (self.starts[at], self.starts[at + 1]);
            let updates = core.shared.layout().updates(self.keys[at]);
            let len = self.lens[at] as usize;
            let sum = &total.values[offset..offset + len];
            offset += len;
            let mine = (sent.indices.get(own) == Some(index)).then(|| {
                let mine = &sent.values[own_offset..own_offset + len];
                (own, own_offset) = (own + 1, own_offset + len);
                mine
            });
            let (mut entry, _) = core.shared.latch(self.keys[at]);
            let updated = entry.state().is_dirty();
            let value = entry.value_mut().expect("a static replica has a value");
            let base = &mut self.base[start..end];
            if updated {
                // What the node has added since its contribution.
                self.known.clear();
                self.known.extend_from_slice(base);
                if let Some(mine) = mine {
                    combine::add(updates, &mut self.known, mine);
                }
                self.since.resize(len, E::ZERO);
                combine::difference(updates, value, &self.known, &mut self.since);
            }
            combine::add(updates, base, sum);
            value.copy_from_slice(base);
            if updated {
                combine::add_unsent(updates, value, &self.since);
            }
        }
        self.noted.keys.clear();
        self.reduce.recycle(sent);
    }

    /// Splits a message into frames. They share the memory of the updates.
    fn send_step(&self, out: &mut Output, step: Step<E>) {
        let Step { to, round, step, deltas } = step;
        let all = to_bytes(&deltas);
        let indices = &deltas.indices;
        let (mut at, mut from) = (0, 0);
        loop {
            let (first, mut to_byte) = (at, from);
            while at < indices.len() && at - first < limits::FRAME_KEYS_MAX {
                let bytes = self.lens[indices[at] as usize] as usize * size_of::<E>();
                if at > first && to_byte + bytes - from > FRAME_BYTES_TARGET {
                    break;
                }
                (at, to_byte) = (at + 1, to_byte + bytes);
            }
            let last = at == indices.len();
            let (indices, values) = (indices[first..at].to_vec(), all.slice(from..to_byte));
            from = to_byte;
            let reduce = Reduce { round, step, last, indices, values };
            out.actions.push(Action::Send { to, message: Message::Reduce(reduce) });
            if last {
                return;
            }
        }
    }
}

/// Whether a delta changes no copy.
fn is_nothing<E: Element>(updates: Updates<'_>, delta: &[E]) -> bool {
    combine::may_omit_zeros(updates) && delta.iter().all(|element| *element == E::ZERO)
}

/// The elements of updates, little-endian. The bytes share the memory where that is the order of the machine.
fn to_bytes<E: Element>(deltas: &Arc<Deltas<E>>) -> Bytes {
    struct Shared<E>(Arc<Deltas<E>>);
    impl<E: Element> AsRef<[u8]> for Shared<E> {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0.values)
        }
    }

    if cfg!(target_endian = "little") {
        return Bytes::from_owner(Shared(Arc::clone(deltas)));
    }
    let mut bytes = Vec::new();
    copy_to_bytes(&deltas.values, &mut bytes);
    bytes.into()
}
