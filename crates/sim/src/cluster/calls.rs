//! Calls that programs issue on behalf of workers: accesses, localize, decisions of nodes, snapshots,
//! computation time and wake-ups.

use super::event::Event;
use super::machinery::Machinery;
use super::station::InboxItem;
use super::{Call, Cluster, Probe};
use crate::invariants::Violation;
use crate::reach::Marker;
use intendant_core::{Element, Key, NodeId};
use intendant_engine::{AccessError, LocalAccess, Row, SnapshotAsk, Started};
use intendant_techniques::Role;
use intendant_wire::OpId;

/// Minimum duration of a report. Without it, a cluster on an infinitely fast network would collect millions
/// of reports while it waits for a slow channel.
const REPORT_NS_MIN: u64 = 1_000;

/// Whether a worker blocks on a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It blocks; values are copied to its buffer as they arrive.
    Blocking,
    /// It continues; the operation keeps the values until [`Cluster::take_pulled`].
    Later,
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome<E> {
    /// The outstanding operation, if any. A pull's values then come from [`Cluster::take_pulled`].
    pub op: Option<OpId>,
    /// The values of a pull that completed at once; otherwise empty.
    pub values: Vec<E>,
}

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// Outstanding bytes that a call for `keys` is charged: its values, and a constant per key.
    fn value_bytes(&self, keys: &[Key]) -> usize {
        let elements: usize = keys.iter().map(|key| self.machinery.layout.len(*key)).sum();
        elements * size_of::<E>() + keys.len() * intendant_core::limits::OUTSTANDING_KEY_BYTES
    }

    /// Total number of elements of the values of `keys`, as pulls return them.
    #[inline(never)]
    pub fn elements(&self, keys: &[Key]) -> usize {
        keys.iter().map(|key| self.machinery.layout.visible(*key)).sum()
    }

    /// Whether a worker's outstanding bytes admit a call for `keys`. If not, one of its operations must
    /// complete first.
    #[inline(never)]
    pub fn admits(&self, worker: usize, keys: &[Key]) -> bool {
        let outstanding = self.machinery.workers[worker].local.outstanding_bytes();
        self.bounded.admits(outstanding, self.value_bytes(keys))
    }

    /// Starts a pull. At most one [`Wait::Blocking`] pull of a worker may be outstanding.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    pub fn pull(&mut self, worker: usize, keys: &[Key], wait: Wait) -> Result<CallOutcome<E>, Violation> {
        let mut values = vec![E::ZERO; self.elements(keys)];
        let op = self.pull_into(worker, keys, &mut values, wait)?;
        if op.is_some() {
            values = Vec::new();
        }
        Ok(CallOutcome { op, values })
    }

    /// Like [`Cluster::pull`] into `values`, which is complete if there is no operation to wait for.
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
        let node = self.machinery.workers.node_of(worker);
        let state = &mut self.machinery.workers[worker];
        let before = state.local.stats().windows;
        let started = match wait {
            Wait::Later => self.machinery.nodes[node].pull_kept(&mut state.local, keys),
            Wait::Blocking => self.machinery.nodes[node].pull(&mut state.local, keys, values),
        };
        if state.local.stats().windows > before {
            self.machinery.reach.mark(Marker::WindowRead);
        }
        self.machinery.charge_call(worker, keys.len(), size_of_val(values));
        let op = self.started(worker, "pull", keys, self.value_bytes(keys), started)?;
        if wait == Wait::Blocking
            && let Some(op) = op
        {
            self.machinery.workers[worker].sink = Some((op, values.to_vec()));
        }
        Ok(op)
    }

    /// Starts a push.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    #[inline(never)]
    pub fn push(&mut self, worker: usize, keys: &[Key], values: &[E]) -> Result<CallOutcome<E>, Violation> {
        let node = self.machinery.workers.node_of(worker);
        let started =
            self.machinery.nodes[node].push(&mut self.machinery.workers[worker].local, keys, values);
        self.machinery.charge_call(worker, keys.len(), size_of_val(values));
        let op = self.started(worker, "push", keys, self.value_bytes(keys), started)?;
        Ok(CallOutcome { op, values: Vec::new() })
    }

    /// Starts a set.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    pub fn set(&mut self, worker: usize, keys: &[Key], values: &[E]) -> Result<CallOutcome<E>, Violation> {
        let node = self.machinery.workers.node_of(worker);
        let started = self.machinery.nodes[node].set(&mut self.machinery.workers[worker].local, keys, values);
        self.machinery.charge_call(worker, keys.len(), size_of_val(values));
        let op = self.started(worker, "set", keys, self.value_bytes(keys), started)?;
        self.machinery.reach.mark(Marker::SetServed);
        Ok(CallOutcome { op, values: Vec::new() })
    }

    /// The positions of those of `keys` whose rows [`Cluster::lend`] does not lend to the worker now.
    ///
    /// # Errors
    /// If the engine refuses the call.
    #[inline(never)]
    pub fn find_absent(&mut self, worker: usize, keys: &[Key]) -> Result<Vec<u32>, Violation> {
        let (local, mut absent) = (&self.machinery.workers[worker].local, Vec::new());
        let found = self.machinery.nodes[self.machinery.workers.node_of(worker)].find_absent(
            local,
            keys,
            &mut absent,
        );
        found.map_err(|error| self.violation(("access", error.to_string())))?;
        let node = &self.machinery.nodes[self.machinery.workers.node_of(worker)];
        let lends = self.machinery.access == LocalAccess::Shared;
        if lends && absent.iter().any(|at| node.inspect().slot(keys[*at as usize]).role == Role::Owner) {
            self.machinery.reach.mark(Marker::LentNotYet);
        }
        Ok(absent)
    }

    /// Lends a row to a worker, to be changed in place; `None` if the worker has to pull and push.
    /// [`Cluster::updated`] follows.
    pub fn lend(&self, worker: usize, key: Key) -> Option<Row<'_, E>> {
        self.machinery.nodes[self.machinery.workers.node_of(worker)]
            .lend(&self.machinery.workers[worker].local, key)
    }

    /// Hints that the row of `key` is about to be lent, and that of `later` a few rows after it.
    pub fn prefetch_row(&self, worker: usize, key: Key, later: Option<Key>) {
        self.machinery.nodes[self.machinery.workers.node_of(worker)].prefetch_row(
            &self.machinery.workers[worker].local,
            key,
            later,
        );
    }

    /// Lends a row to `act`. Returns whether there was one.
    pub fn update(&mut self, worker: usize, key: Key, act: impl FnOnce(&mut [E])) -> bool {
        match self.lend(worker, key) {
            Some(mut row) => act(&mut row),
            None => return false,
        }
        if self.machinery.nodes[self.machinery.workers.node_of(worker)].inspect().slot(key).role
            == Role::Replica
        {
            self.machinery.reach.mark(Marker::LentReplica);
        }
        self.updated(worker, 1, self.machinery.layout.len(key), 0);
        true
    }

    /// A worker has changed `keys` lent rows of `elements` elements, of which it pulled `pulled` before:
    /// counts them, and charges one call and one pass over the values, which a pull and a push pass twice.
    pub fn updated(&mut self, worker: usize, keys: usize, elements: usize, pulled: usize) {
        self.machinery.workers[worker].local.count_updates(keys, pulled);
        self.machinery.charge_call(worker, keys, elements * size_of::<E>());
        if keys > 0 {
            self.machinery.reach.mark(Marker::Lent);
        }
        self.machinery.agenda.note(|| format!("worker {worker} changed {keys} rows in place"));
    }

    /// Starts to relocate keys to the worker's node.
    ///
    /// # Errors
    /// If the engine refuses the call, or it breaks an invariant.
    #[inline(never)]
    pub fn localize(&mut self, worker: usize, keys: &[Key]) -> Result<CallOutcome<E>, Violation> {
        let node = self.machinery.workers.node_of(worker);
        let now = self.machinery.agenda.now();
        let started =
            self.machinery.nodes[node].localize(&mut self.machinery.workers[worker].local, keys, now);
        self.machinery.charge_call(worker, keys.len(), 0);
        let op = self.started(worker, "localize", keys, self.value_bytes(keys), started)?;
        Ok(CallOutcome { op, values: Vec::new() })
    }

    /// Pulls the keys that have a copy at the worker's node. Returns the values, zero for the other keys, and
    /// per key whether it was read.
    ///
    /// # Errors
    /// If the engine refuses the call.
    pub fn pull_if_local(&mut self, worker: usize, keys: &[Key]) -> Result<(Vec<E>, Vec<bool>), Violation> {
        let node = self.machinery.workers.node_of(worker);
        let (mut values, mut here) = (vec![E::ZERO; self.elements(keys)], Vec::new());
        let local = &mut self.machinery.workers[worker].local;
        let pulled = self.machinery.nodes[node].pull_if_local(local, keys, &mut values, &mut here);
        pulled.map_err(|error| self.violation(("access", error.to_string())))?;
        self.machinery.charge_call(worker, keys.len(), size_of_val(&values[..]));
        for served in &here {
            self.machinery.reach.mark(if *served { Marker::IfLocalHit } else { Marker::IfLocalMiss });
        }
        self.machinery.agenda.note(|| format!("worker {worker} pull_if_local {keys:?}: {here:?}"));
        Ok((values, here))
    }

    /// The node of a worker decides to relocate keys that it owns to node `to`. Channels must have handled
    /// the decision before the cluster rests: see [`Cluster::pending_decisions`].
    pub fn relocate(&mut self, worker: usize, keys: &[Key], to: NodeId) {
        self.machinery
            .agenda
            .note(|| format!("worker {worker}'s node decides to relocate {keys:?} to {to:?}"));
        self.decide(worker, keys, |keys| InboxItem::Relocate(keys, to));
    }

    /// Decisions of nodes (relocate, replicate) that no channel has handled yet.
    pub fn pending_decisions(&self) -> usize {
        self.machinery.pending_decisions
    }

    /// Takes the values of a completed pull; `None` if it is not complete or was taken before.
    #[inline(never)]
    pub fn take_pulled(&mut self, worker: usize, op: OpId) -> Option<Vec<E>> {
        let state = &mut self.machinery.workers[worker];
        if !state.local.is_done(op) {
            return None;
        }
        match state.sink.take_if(|(waiting, _)| *waiting == op) {
            Some((_, values)) => Some(values),
            None => {
                let mut values = vec![E::ZERO; state.local.kept(op)?];
                state.local.take(op, &self.machinery.layout, &mut values);
                Some(values)
            }
        }
    }

    /// Counts `keys` pulled keys of a worker as samples.
    pub fn count_sampled(&mut self, worker: usize, keys: usize) {
        self.machinery.workers[worker].local.count_sampled(keys);
    }

    /// Requests a part of a snapshot from a channel of the worker's node. It arrives as
    /// [`super::Happened::Part`].
    pub fn ask_snapshot(&mut self, worker: usize, channel: usize, mut ask: SnapshotAsk) {
        ask.worker = self.machinery.workers[worker].local.worker();
        ask.op = self.machinery.workers[worker].local.fresh_op();
        self.machinery.send_to_channel(worker, channel, InboxItem::Snapshot(ask));
    }

    /// Draws the duration of a meeting: the time until all workers know that all of them have arrived.
    #[inline(never)]
    pub fn meeting_ns(&mut self) -> u64 {
        let Machinery { nodes, agenda, delays, .. } = &mut self.machinery;
        if nodes.len() == 1 {
            return 0;
        }
        (0..2).map(|_| agenda.draw(delays.network.latency)).sum()
    }

    /// Requests a report from every channel of every node. Each arrives at its own time, as
    /// [`super::Happened::Reported`]. Returns the number of channels.
    #[inline(never)]
    pub fn ask_reports(&mut self) -> usize {
        let Machinery { stations, workers, agenda, delays, .. } = &mut self.machinery;
        let count = stations.all().len();
        for station in 0..count {
            let after_ns = REPORT_NS_MIN + agenda.draw(delays.network.latency);
            // The request follows everything that the node's workers sent before they came to rest.
            let (node, channel) = stations.place(station);
            let sent_ns = workers.last_due_ns(node, channel).map_or(0, |due_ns| due_ns + 1);
            let at_ns = sent_ns.max(agenda.now_ns()) + after_ns;
            agenda.schedule(at_ns, Event::Report { station: station as u32 });
        }
        count
    }

    /// Occupies a worker for `work_ns`, after its work so far.
    #[inline(never)]
    pub fn work(&mut self, worker: usize, work_ns: u64) {
        self.machinery.work(worker, work_ns);
    }

    /// Time at which a worker has finished its work so far; not before now.
    pub fn free_ns(&self, worker: usize) -> u64 {
        let state = &self.machinery.workers[worker];
        // A call ends when its submissions have reached the inboxes.
        let handed_ns = state.to_channels.iter().map(|lane| lane.last_due_ns()).max().unwrap_or(0);
        state.free_ns.max(handed_ns).max(self.now_ns())
    }

    /// Schedules the wake-up of a worker's program `after_ns` after it has finished its work so far.
    #[inline(never)]
    pub fn wake(&mut self, worker: usize, after_ns: u64) {
        let Machinery { agenda, delays, .. } = &mut self.machinery;
        let pause_ns = agenda.draw(delays.worker) + after_ns;
        let at_ns = self.free_ns(worker) + pause_ns;
        self.machinery.agenda.schedule(at_ns, Event::Awake { worker: worker as u32 });
    }

    /// Schedules the wake-up of a worker's loader when it has worked for `work_ns`.
    #[inline(never)]
    pub fn wake_loader(&mut self, worker: usize, work_ns: u64) {
        let Machinery { workers, processors, agenda, delays, .. } = &mut self.machinery;
        let done_ns = processors.load(workers.node_of(worker), agenda.now_ns(), work_ns);
        let pause_ns = agenda.draw(delays.worker);
        agenda.schedule(done_ns + pause_ns, Event::Loaded { worker: worker as u32 });
    }

    /// Records a call, and sends its submissions to the channels.
    pub(super) fn started(
        &mut self,
        worker: usize,
        name: &'static str,
        keys: &[Key],
        call: usize,
        started: Result<Started, AccessError>,
    ) -> Result<Option<OpId>, Violation> {
        let Started { op, submissions } = match started {
            Ok(started) => started,
            Err(error) => return Err(self.violation(("access", error.to_string()))),
        };
        self.machinery.agenda.note(|| {
            let deferred: Vec<_> = submissions.iter().flat_map(|(_, s)| s.keys()).collect();
            format!("worker {worker} {name} {keys:?}: {op:?}, deferred {deferred:?}")
        });
        let after = self.machinery.workers[worker].local.outstanding_bytes();
        self.bounded.called(after, call).map_err(|finding| self.violation(finding))?;
        let (probe, mut seen) = self.machinery.observed();
        probe.called(&mut seen, Call { worker, name, keys, submissions: &submissions });
        for (channel, submission) in submissions {
            self.machinery.send_to_channel(worker, channel.index(), InboxItem::Access(submission));
        }
        Ok(op)
    }
}
