//! What programs do on behalf of workers.

use super::{Cluster, Errand, Event};
use crate::invariants::Violation;
use crate::machine::scaled;
use crate::reach::Marker;
use intendant_core::{Element, Key, NodeId, Tick};
use intendant_engine::{AccessError, SnapshotAsk, Started};
use intendant_wire::OpId;

/// A report takes at least this long. On a network that takes no time, a worker that waits for a slow channel
/// would otherwise ask it millions of times.
const REPORT_NS_MIN: u64 = 1_000;

/// Whether a worker does something else until its pull is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It blocks: values are copied to where it waits for them.
    Blocking,
    /// It goes on: the operation keeps the values until it asks for them.
    Later,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Called<E> {
    /// The operation, if there is something to wait for. Its values come from [`Cluster::take_pulled`].
    pub op: Option<OpId>,
    /// The values of a pull that is complete. Empty if there is an operation, or nothing was pulled.
    pub values: Vec<E>,
}

impl<E: Element> Cluster<E> {
    /// Bytes that a call for `keys` counts as outstanding: values, and a part per key.
    pub fn value_bytes(&self, keys: &[Key]) -> usize {
        self.elements(keys) * size_of::<E>() + keys.len() * intendant_core::limits::OUTSTANDING_KEY_BYTES
    }

    /// Elements of the values of `keys`.
    #[inline(never)]
    pub fn elements(&self, keys: &[Key]) -> usize {
        keys.iter().map(|key| self.layout.len(*key)).sum()
    }

    /// Whether a worker may start a call for `keys` now. If not, it must wait until one of its operations is
    /// done.
    #[inline(never)]
    pub fn admits(&self, worker: usize, keys: &[Key]) -> bool {
        let outstanding = self.posts[worker].local.outstanding_bytes();
        self.invariants.bounded.admits(outstanding, self.value_bytes(keys))
    }

    /// Starts a pull. At most one [`Wait::Blocking`] pull of a worker may be outstanding.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    pub fn pull(&mut self, worker: usize, keys: &[Key], wait: Wait) -> Result<Called<E>, Violation> {
        let mut values = vec![E::ZERO; self.elements(keys)];
        let op = self.pull_into(worker, keys, &mut values, wait)?;
        if op.is_some() {
            values = Vec::new();
        }
        Ok(Called { op, values })
    }

    /// Like [`Cluster::pull`]; without an operation to wait for, `values` has the values of all keys.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    #[inline(never)]
    pub fn pull_into(
        &mut self,
        worker: usize,
        keys: &[Key],
        values: &mut [E],
        wait: Wait,
    ) -> Result<Option<OpId>, Violation> {
        let node = self.node_of(worker);
        let post = &mut self.posts[worker];
        let started = match wait {
            Wait::Later => self.nodes[node].pull_kept(&mut post.local, keys),
            Wait::Blocking => self.nodes[node].pull(&mut post.local, keys, values),
        };
        self.charge_call(worker, keys.len(), size_of_val(values));
        let op = self.started(worker, "pull", keys, self.value_bytes(keys), started)?;
        if wait == Wait::Blocking
            && let Some(op) = op
        {
            self.posts[worker].sink = Some((op, values.to_vec()));
        }
        Ok(op)
    }

    /// Starts a push.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    #[inline(never)]
    pub fn push(&mut self, worker: usize, keys: &[Key], values: &[E]) -> Result<Called<E>, Violation> {
        let node = self.node_of(worker);
        let started = self.nodes[node].push(&mut self.posts[worker].local, keys, values);
        self.charge_call(worker, keys.len(), size_of_val(values));
        let op = self.started(worker, "push", keys, self.value_bytes(keys), started)?;
        Ok(Called { op, values: Vec::new() })
    }

    /// Starts a set.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    pub fn set(&mut self, worker: usize, keys: &[Key], values: &[E]) -> Result<Called<E>, Violation> {
        let node = self.node_of(worker);
        let started = self.nodes[node].set(&mut self.posts[worker].local, keys, values);
        self.charge_call(worker, keys.len(), size_of_val(values));
        let op = self.started(worker, "set", keys, self.value_bytes(keys), started)?;
        self.reach.mark(Marker::SetServed);
        Ok(Called { op, values: Vec::new() })
    }

    /// Starts to move keys to the worker's node.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    #[inline(never)]
    pub fn localize(&mut self, worker: usize, keys: &[Key]) -> Result<Called<E>, Violation> {
        let node = self.node_of(worker);
        let now = Tick(self.now_ns() / 1000);
        let started = self.nodes[node].localize(&mut self.posts[worker].local, keys, now);
        self.charge_call(worker, keys.len(), 0);
        let op = self.started(worker, "localize", keys, self.value_bytes(keys), started)?;
        Ok(Called { op, values: Vec::new() })
    }

    /// Reads those of `keys` that are here; returns their values (others are zero), and which these are.
    ///
    /// # Errors
    /// If the engine refuses the call.
    pub fn pull_if_local(&mut self, worker: usize, keys: &[Key]) -> Result<(Vec<E>, Vec<bool>), Violation> {
        let node = self.node_of(worker);
        let (mut values, mut here) = (vec![E::ZERO; self.elements(keys)], Vec::new());
        let local = &mut self.posts[worker].local;
        let pulled = self.nodes[node].pull_if_local(local, keys, &mut values, &mut here);
        pulled.map_err(|error| self.violation(("access", error.to_string())))?;
        self.charge_call(worker, keys.len(), size_of_val(&values[..]));
        for served in &here {
            self.reach.mark(if *served { Marker::IfLocalHit } else { Marker::IfLocalMiss });
        }
        self.trace.line(self.queue.now_ns(), || format!("worker {worker} pull if local {keys:?}: {here:?}"));
        Ok((values, here))
    }

    /// The node of a worker decides to move keys that it owns to node `to`. It is up to the caller to let
    /// these decisions end before the cluster rests: see [`Cluster::orders`].
    pub fn order(&mut self, worker: usize, keys: &[Key], to: NodeId) {
        self.trace
            .line(self.queue.now_ns(), || format!("worker {worker}'s node shall move {keys:?} to {to:?}"));
        self.decide(worker, keys, |keys| Errand::Order(keys, to));
    }

    /// Decisions that channels have not handled.
    pub fn orders(&self) -> usize {
        self.orders
    }

    /// The node that has the value of a key or gets it next.
    pub fn owner(&self, key: Key) -> NodeId {
        self.invariants.ledger.place(key).node
    }

    /// Whether a node has the value of a key.
    pub fn is_at(&self, key: Key, node: NodeId) -> bool {
        let place = self.invariants.ledger.place(key);
        place.node == node && !place.flying
    }

    /// Whether an operation of a worker is done.
    pub fn is_done(&self, worker: usize, op: OpId) -> bool {
        self.posts[worker].local.is_done(op)
    }

    /// Whether all accesses of a worker are done. Keys that it localizes may still be on their way.
    #[inline(never)]
    pub fn is_flushed(&self, worker: usize) -> bool {
        self.posts[worker].local.is_flushed()
    }

    /// The values of a pull that is done; once.
    #[inline(never)]
    pub fn take_pulled(&mut self, worker: usize, op: OpId) -> Option<Vec<E>> {
        let post = &mut self.posts[worker];
        if !post.local.is_done(op) {
            return None;
        }
        match post.sink.take_if(|(waiting, _)| *waiting == op) {
            Some((_, values)) => Some(values),
            None => {
                let mut values = vec![E::ZERO; post.local.kept(op)?];
                post.local.take(op, &self.layout, &mut values);
                Some(values)
            }
        }
    }

    /// Counts keys of a worker's pulls as samples.
    pub fn count_sampled(&mut self, worker: usize, keys: usize) {
        self.posts[worker].local.count_sampled(keys);
    }

    /// Asks a channel of a worker's node for a part of a snapshot; it comes as [`super::Happened::Part`].
    pub fn ask_snapshot(&mut self, worker: usize, channel: usize, mut ask: SnapshotAsk) {
        ask.worker = self.posts[worker].local.worker();
        ask.op = self.posts[worker].local.fresh_op();
        self.run_errand(worker, channel, Errand::Snapshot(ask));
    }

    /// How long it takes until all workers know that all of them have come somewhere.
    #[inline(never)]
    pub fn meeting_ns(&mut self) -> u64 {
        if self.nodes.len() == 1 {
            return 0;
        }
        (0..2).map(|_| self.delays.network.latency.draw(&mut self.dice)).sum()
    }

    /// Asks every channel of every node to report; the reports come one by one, each at its own time.
    #[inline(never)]
    pub fn ask_reports(&mut self) -> usize {
        for station in 0..self.stations.len() {
            let after_ns = REPORT_NS_MIN + self.delays.network.latency.draw(&mut self.dice);
            // Behind everything that workers of the node said before they came to rest.
            let (node, channel) = (station / self.layout.channels(), station % self.layout.channels());
            let posts = &self.posts[node * self.workers_per_node..(node + 1) * self.workers_per_node];
            let said_ns = posts.iter().map(|post| post.errands[channel].last_due_ns() + 1).max().unwrap_or(0);
            let at_ns = said_ns.max(self.now_ns()) + after_ns;
            self.queue.schedule(at_ns, Event::Report { station: station as u32 }, &mut self.dice);
        }
        self.stations.len()
    }

    /// A worker works for `work_ns`, beginning when it is done with what it did so far.
    #[inline(never)]
    pub fn work(&mut self, worker: usize, work_ns: u64) {
        let node = self.node_of(worker);
        let start_ns = self.posts[worker].free_ns.max(self.now_ns());
        let work_ns = scaled(self.at_pace(start_ns, node, work_ns), self.sharing.work);
        let stolen_ns = if self.sharing.steal > 0.0 { self.stolen_ns(worker) } else { 0 };
        let post = &mut self.posts[worker];
        post.free_ns = start_ns + work_ns + stolen_ns;
        post.busy_ns += work_ns;
    }

    /// By how much the channels of its node have delayed a worker since this was last asked.
    fn stolen_ns(&mut self, worker: usize) -> u64 {
        let first = self.station(self.node_of(worker), 0);
        let channels = &self.stations[first..first + self.layout.channels()];
        let busy_ns: u64 = channels.iter().map(|station| station.thread.load().busy_ns).sum();
        let seen_ns = std::mem::replace(&mut self.posts[worker].seen_ns, busy_ns);
        scaled(busy_ns - seen_ns, self.sharing.steal)
    }

    pub(super) fn charge_call(&mut self, worker: usize, keys: usize, bytes: usize) {
        self.resting = false;
        let work_ns = self.delays.machine.call(keys as u64, self.delays.charge.bytes(bytes));
        self.work(worker, work_ns);
    }

    /// When a worker is done with what it did so far; not before now.
    pub fn free_ns(&self, worker: usize) -> u64 {
        let post = &self.posts[worker];
        // A call ends when its submissions are in the inboxes.
        let handed_ns = post.errands.iter().map(|lane| lane.last_due_ns()).max().unwrap_or(0);
        post.free_ns.max(handed_ns).max(self.now_ns())
    }

    /// Wakes a worker's program when it is done with what it did so far and `after_ns` have passed.
    #[inline(never)]
    pub fn wake(&mut self, worker: usize, after_ns: u64) {
        let pause_ns = self.delays.worker.draw(&mut self.dice) + after_ns;
        let at_ns = self.free_ns(worker) + pause_ns;
        self.queue.schedule(at_ns, Event::Awake { worker: worker as u32 }, &mut self.dice);
    }

    /// Wakes a worker's loader after `after_ns`.
    #[inline(never)]
    pub fn wake_loader(&mut self, worker: usize, after_ns: u64) {
        let pause_ns = self.delays.worker.draw(&mut self.dice) + after_ns;
        self.schedule(pause_ns, Event::Loaded { worker: worker as u32 });
    }

    pub(super) fn schedule(&mut self, after_ns: u64, event: Event) {
        self.queue.schedule(self.queue.now_ns() + after_ns, event, &mut self.dice);
    }

    pub(super) fn run_errand(&mut self, worker: usize, channel: usize, errand: Errand) {
        // A call hands over what it could not do when it is done with the rest.
        let at_ns = self.posts[worker].free_ns.max(self.now_ns()) + self.delays.enqueue.draw(&mut self.dice);
        let due_ns = self.posts[worker].errands[channel].send(errand, at_ns);
        let event = Event::Enqueue { worker: worker as u32, channel: channel as u32 };
        self.queue.schedule(due_ns, event, &mut self.dice);
    }

    /// Sends what a call left over to the channels.
    pub(super) fn started(
        &mut self,
        worker: usize,
        what: &'static str,
        keys: &[Key],
        call: usize,
        started: Result<Started, AccessError>,
    ) -> Result<Option<OpId>, Violation> {
        let Started { op, submissions } = match started {
            Ok(started) => started,
            Err(error) => return Err(self.violation(("access", error.to_string()))),
        };
        self.trace.line(self.queue.now_ns(), || {
            let deferred: Vec<_> = submissions.iter().flat_map(|(_, s)| s.keys()).collect();
            format!("worker {worker} {what} {keys:?}: {op:?}, deferred {deferred:?}")
        });
        let node = self.node_of(worker);
        let mut deferred = 0;
        let mut owners = 0u64;
        for (channel, submission) in &submissions {
            let station = self.station(node, channel.index());
            let keys = submission.keys();
            self.invariants.replies.submitted(station, worker, submission.op, keys, submission.positions());
            deferred += keys.len();
            let short = &keys[..keys.len().min(16)];
            for (at, key) in short.iter().enumerate() {
                owners |= 1 << (self.layout.home(*key).index() % 64);
                if short[..at].contains(key) {
                    self.reach.mark(Marker::DuplicateKey);
                }
            }
        }
        let after = self.posts[worker].local.outstanding_bytes();
        self.invariants.bounded.called(after, call).map_err(|finding| self.violation(finding))?;
        let marks = [
            (deferred == 0, Marker::LocalServed),
            (deferred > 0 && deferred < keys.len(), Marker::MixedCall),
            (owners.count_ones() > 1, Marker::SeveralOwners),
            (submissions.len() > 1, Marker::SeveralChannels),
            (
                keys.windows(2).any(|pair| self.layout.len(pair[0]) != self.layout.len(pair[1])),
                Marker::SeveralLengths,
            ),
        ];
        let access = !matches!(what, "localize" | "synchronize");
        let reached = marks.into_iter().filter(|(reached, _)| *reached && access);
        reached.for_each(|(_, marker)| self.reach.mark(marker));
        for (channel, submission) in submissions {
            self.run_errand(worker, channel.index(), Errand::Access(submission));
        }
        Ok(op)
    }
}
