//! Static replicas: what workers add to them is collected, summed over all nodes, and added to every copy. See
//! [`intendant_techniques::allreduce`].
//!
//! A copy is base + own contribution to the running round + updates since. When the round is over, base := base + the sum, which
//! is the same to the last bit on all nodes.

use crate::buffers::Buffers;
use crate::channel::Channel;
use crate::input::Action;
use crate::shared::Shared;
use intendant_core::{
    ChannelId, Element, Key, NodeId, Tick, WorkerId, copy_from_bytes, copy_to_bytes, limits,
};
use intendant_techniques::StaticReplicaPace;
use intendant_techniques::allreduce::{AllReduce, Deltas, Step};
use intendant_wire::{Message, OpId, Origin, Reduce};
use std::sync::Arc;

/// Gradient norm clipping: updates that are much longer than the average are scaled down (000 §4.4.1).
#[derive(Default)]
struct Clip {
    norms: f64,
    count: f64,
}

impl Clip {
    /// What to multiply an update of this norm with, so that it is at most `factor` times as long as the average so far, this
    /// one included.
    fn scale(&mut self, norm: f64, factor: f64) -> f64 {
        if !norm.is_finite() {
            // The application checks what it pushes; whatever this is, it is not for an average.
            return 1.0;
        }
        (self.norms, self.count) = (self.norms + norm, self.count + 1.0);
        let longest = factor * self.norms / self.count;
        if norm > longest { longest / norm } else { 1.0 }
    }
}

/// A channel's keys with static replicas.
pub(crate) struct FixedKeys<E> {
    keys: Vec<Key>,
    /// First element of each key in `base`, and the end.
    starts: Vec<usize>,
    /// What all nodes agree on.
    base: Vec<E>,
    /// Indices of keys with updates that no round has collected, in any order. Each is here once: its slot says so.
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
    buffers: Buffers,
}

impl<E: Element> FixedKeys<E> {
    pub(crate) fn new(shared: &Shared<E>, channel: ChannelId) -> Self {
        let keys = shared.fixed_keys(channel).to_vec();
        let (mut starts, mut base) = (vec![0], Vec::new());
        for key in &keys {
            base.extend_from_slice(
                shared.latch(*key).0.value().expect("static replicas are made at the start"),
            );
            starts.push(base.len());
        }
        let lens: Arc<[u32]> = keys.iter().map(|key| shared.layout().len(*key) as u32).collect();
        Self {
            keys,
            starts,
            base,
            dirty: Vec::new(),
            reduce: AllReduce::new(shared.node(), shared.layout().nodes(), lens),
            sent: Arc::default(),
            clip: Clip::default(),
            next: Tick(0),
            asked: Vec::new(),
            waiting: Vec::new(),
            buffers: Buffers::default(),
        }
    }

    fn is_used(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Workers have added to the key with this index.
    pub(crate) fn touched(&mut self, index: u32) {
        self.dirty.push(index);
    }

    /// Updates that are not in all copies yet, workers that wait for that, and a round that is running: how many.
    pub(crate) fn outstanding(&self) -> usize {
        self.dirty.len() + self.asked.len() + self.waiting.len() + usize::from(!self.reduce.is_idle())
    }

    /// What this node adds to the round: the updates in its copies.
    fn collect(&mut self, shared: &Shared<E>, clip: Option<f64>) -> Deltas<E> {
        let mut own = Deltas::default();
        self.dirty.sort_unstable();
        let len = |index: &u32| self.starts[*index as usize + 1] - self.starts[*index as usize];
        own.values.reserve_exact(self.dirty.iter().map(len).sum());
        for index in std::mem::take(&mut self.dirty) {
            let at = index as usize;
            let (mut entry, _) = shared.latch(self.keys[at]);
            entry.state_mut().set_dirty(false);
            let base = &self.base[self.starts[at]..self.starts[at + 1]];
            let value = entry.value_mut().expect("a static replica has a value");
            let from = own.values.len();
            own.values.extend(value.iter().zip(base).map(|(value, base)| *value - *base));
            let delta = &mut own.values[from..];
            if delta.iter().all(|d| *d == E::ZERO) {
                value.copy_from_slice(base);
                own.values.truncate(from);
                continue;
            }
            if let Some(factor) = clip {
                let norm = delta.iter().map(|d| d.to_f64() * d.to_f64()).sum::<f64>().sqrt();
                let scale = self.clip.scale(norm, factor);
                if scale < 1.0 {
                    delta.iter_mut().for_each(|d| *d *= E::from_f64(scale));
                }
            }
            // What later updates are measured against.
            for ((value, base), delta) in value.iter_mut().zip(base).zip(&own.values[from..]) {
                *value = *base + *delta;
            }
            own.indices.push(index);
        }
        own
    }

    /// A round is over.
    fn apply(&mut self, shared: &Shared<E>, total: &Deltas<E>) {
        let sent = std::mem::take(&mut self.sent);
        let (mut offset, mut own, mut own_offset) = (0, 0, 0);
        for index in &total.indices {
            let at = *index as usize;
            let (start, end) = (self.starts[at], self.starts[at + 1]);
            let sum = &total.values[offset..offset + (end - start)];
            offset += end - start;
            let mine = (sent.indices.get(own) == Some(index)).then(|| {
                let mine = &sent.values[own_offset..own_offset + (end - start)];
                (own, own_offset) = (own + 1, own_offset + (end - start));
                mine
            });
            let (mut entry, _) = shared.latch(self.keys[at]);
            let updated = entry.state().is_dirty();
            let value = entry.value_mut().expect("a static replica has a value");
            for (at, (value, base)) in value.iter_mut().zip(&mut self.base[start..end]).enumerate() {
                let known = mine.map_or(*base, |mine| *base + mine[at]);
                *base += sum[at];
                *value = if updated { *base + (*value - known) } else { *base };
            }
        }
    }

    /// When [`crate::Input::Tick`] is due.
    pub(crate) fn due(&self, pace: StaticReplicaPace) -> Option<Tick> {
        match pace {
            StaticReplicaPace::Every(_) if self.is_used() && !self.reduce.is_running() => Some(self.next),
            StaticReplicaPace::Every(_) | StaticReplicaPace::Asked => None,
        }
    }
}

/// When a round starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// If it is time, or another node has started.
    Paced,
    /// If there is anything to do.
    Now,
}

impl<E: Element> Channel<E> {
    /// How many rounds are complete here, and the elements of the channel's static replicas that all nodes agree on after the last
    /// of them, by key. For invariant checks.
    pub fn agreed(&self) -> (u32, &[E]) {
        (self.fixed.reduce.round(), &self.fixed.base)
    }

    /// A worker waits for static replicas to be brought in step.
    pub(crate) fn submit_synchronize(&mut self, worker: WorkerId, op: OpId) {
        self.fixed.asked.push((worker, op));
    }

    /// Starts a round if it is time to.
    pub(crate) fn start_round(&mut self, start: Start, actions: &mut Vec<Action>) -> Result<(), String> {
        if !self.fixed.is_used() || self.fixed.reduce.is_running() {
            return Ok(());
        }
        let pace = self.shared.copies().pace;
        let all_asked = self.fixed.asked.len() >= self.shared.workers();
        let called = self.fixed.reduce.is_called();
        let due = match pace {
            StaticReplicaPace::Every(_) => called || all_asked || self.now >= self.fixed.next,
            StaticReplicaPace::Asked => all_asked,
        };
        if !(due || start == Start::Now) {
            return Ok(());
        }
        if let StaticReplicaPace::Every(every) = pace {
            self.fixed.next = self.now.after(every.0);
        }
        self.gather();
        if self.fixed.dirty.is_empty() && !called && !all_asked {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        if all_asked {
            self.fixed.waiting = std::mem::take(&mut self.fixed.asked);
        }
        let own = self.fixed.collect(&shared, shared.copies().clip);
        self.stats.synced_keys += own.indices.len() as u64;
        let mut steps = Vec::new();
        let own = Arc::new(own);
        self.fixed.sent = Arc::clone(&own);
        self.fixed.reduce.start(own, &mut steps);
        self.go_on(steps, actions)
    }

    /// A part of another node's message.
    pub(crate) fn on_reduce(
        &mut self,
        from: NodeId,
        reduce: Reduce,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        if !self.fixed.is_used() {
            let (channel, name) = (self.id, self.shared.policy().name);
            return Err(format!(
                "it sends updates of static replicas, of which {channel:?} has none with technique {name}"
            ));
        }
        let Reduce { round, step, last, indices, values } = reduce;
        if values.len() % size_of::<E>() != 0 {
            return Err(format!(
                "it sends {} bytes of static replicas, whose elements have {}",
                values.len(),
                size_of::<E>()
            ));
        }
        let mut part = Deltas { indices, values: vec![E::ZERO; values.len() / size_of::<E>()] };
        copy_from_bytes(&mut part.values, &values);
        // Which also checks the keys, and their lengths.
        self.fixed.reduce.receive(from, round, step, last, part).map_err(|error| error.to_string())?;
        if self.fixed.reduce.is_running() {
            self.go_on(Vec::new(), actions)
        } else {
            self.start_round(Start::Paced, actions)
        }
    }

    fn go_on(&mut self, mut steps: Vec<Step<E>>, actions: &mut Vec<Action>) -> Result<(), String> {
        let done = self.fixed.reduce.advance(&mut steps);
        steps.into_iter().for_each(|step| self.send_step(step, actions));
        let Some(total) = done else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        self.fixed.apply(&shared, &total);
        self.stats.sync_rounds += 1;
        self.stats.synced_keys += total.indices.len() as u64;
        for (worker, op) in std::mem::take(&mut self.fixed.waiting) {
            let origin = Origin { node: shared.node(), worker, op };
            self.replies.synchronized(origin, u32::from(self.id.0));
        }
        // Others may have started the next round already.
        self.start_round(Start::Paced, actions)
    }

    /// Splits a message into frames.
    fn send_step(&mut self, step: Step<E>, actions: &mut Vec<Action>) {
        let Step { to, round, step, deltas } = step;
        let Deltas { indices, values } = &*deltas;
        let (mut at, mut offset) = (0, 0);
        loop {
            let rest = (values.len() - offset) * size_of::<E>();
            let room = rest.min(limits::FRAME_PAYLOAD_BYTES_TARGET);
            let (first, mut bytes) = (at, self.fixed.buffers.take(room));
            while at < indices.len() && at - first < limits::FRAME_KEYS_MAX {
                let key = indices[at] as usize;
                let len = self.fixed.starts[key + 1] - self.fixed.starts[key];
                if at > first && bytes.len() + len * size_of::<E>() > limits::FRAME_PAYLOAD_BYTES_TARGET {
                    break;
                }
                copy_to_bytes(&values[offset..offset + len], &mut bytes);
                (at, offset) = (at + 1, offset + len);
            }
            let last = at == indices.len();
            let indices = indices[first..at].to_vec();
            let values = self.fixed.buffers.lend(bytes);
            let reduce = Reduce { round, step, last, indices, values };
            actions.push(Action::Send { to, message: Message::Reduce(reduce) });
            if last {
                return;
            }
        }
    }
}
