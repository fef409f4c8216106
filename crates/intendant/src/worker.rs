//! A worker: the handle through which one training thread uses the parameters.

use crate::control::Failure;
use crate::error::Error;
use crate::inbox::Command;
use crate::meeting::OWN;
use crate::node::{DOWN, Inner};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender};
use intendant_core::{ChannelId, Clock, Element, Key, NodeId, WorkerId, copy_from_bytes, limits};
use intendant_engine::quiesce::{ChannelReport, Waves};
use intendant_engine::{AccessError, AccessStats, Completion, Input, Local, SnapshotAsk, Started};
use intendant_sampling::{Handle, SampleError};
use intendant_techniques::clocks::RESTING;
use intendant_techniques::{Initiator, Pace};
use intendant_wire::{OpId, SnapshotPart};
use std::ops::Range;
use std::sync::Arc;

/// Keys that one localize asks for at once: a longer call becomes several, so that the first keys are here while the last are
/// asked for.
const LOCALIZE_KEYS_MAX: usize = 1 << 14;
/// Parts of a long localize that fit into what may be in flight: a few, or each would wait for the one before.
const LOCALIZE_PARTS: usize = 4;
/// Where all workers meet.
const WORKERS: &str = "intendant:workers";
/// What the workers of a node may bring to a meeting together: the control plane's own limit, less than a frame.
const NODE_PAYLOAD_BYTES_MAX: usize = 8 << 20;
/// Length of a meeting's name.
const NAME_BYTES_MAX: usize = 150;

/// What reaches a worker from other threads.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A part of an operation is done.
    Completion(Completion),
    /// A part of a snapshot.
    Snapshot(SnapshotPart),
    /// The cluster has failed.
    Failed(Failure),
}

/// An asynchronous operation. Waiting for it consumes it.
///
/// A ticket may be dropped instead: the operation goes on, and what a pull reads is thrown away.
#[must_use = "an error of the operation surfaces when it is waited for"]
#[derive(Debug)]
pub struct Ticket {
    /// `None` if there is nothing to wait for.
    op: Option<OpId>,
    owner: (NodeId, WorkerId),
    /// Tells the worker when the ticket is dropped before its values are taken.
    dropped: Option<Sender<OpId>>,
}

impl Ticket {
    /// The operation; the ticket is used up.
    fn redeem(mut self) -> Option<OpId> {
        self.dropped = None;
        self.op
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let (Some(op), Some(dropped)) = (self.op, &self.dropped) {
            // A worker that is gone keeps nothing.
            let _ = dropped.send(op);
        }
    }
}

/// A worker of a node. It belongs to one thread at a time.
///
/// Keys may occur more than once in a call, in any order, with different owners and value lengths. Values of several keys are
/// concatenated in the order of the keys. Operations of a worker on one key take effect in the order in which they were
/// issued (but for asynchronous ones with location caches and [`crate::Order::Fifo`]: 000, theorem 3); each is atomic per key. A call with a key that does not exist or values of the wrong length is refused as a whole.
pub struct Worker<E: Element> {
    id: WorkerId,
    inner: Arc<Inner<E>>,
    deliveries: Receiver<Delivery>,
    local: Local<E>,
    clock: Clock,
    /// Pulls whose tickets were dropped.
    dropped: (Sender<OpId>, Receiver<OpId>),
}

impl<E: Element> Worker<E> {
    pub(crate) fn new(id: WorkerId, inner: Arc<Inner<E>>, deliveries: Receiver<Delivery>) -> Self {
        let local = Local::new(id, inner.shared.layout());
        Self { id, inner, deliveries, local, clock: Clock(0), dropped: crossbeam_channel::unbounded() }
    }

    /// This worker.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Its node.
    pub fn rank(&self) -> NodeId {
        self.inner.shared.node()
    }

    /// This worker's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Advances this worker's clock by one. With [`crate::Technique::Ssp`] and [`crate::Technique::Essp`], what the workers of
    /// this node added before is sent off when the slowest of them does so, and reads of all workers of all nodes begin to wait
    /// for a worker whose clock is more than the staleness bound behind theirs. The others just count.
    pub fn advance_clock(&mut self) {
        self.set_clock(self.clock.0.saturating_add(1));
    }

    fn set_clock(&mut self, clock: u32) {
        self.clock = Clock(clock.min(RESTING - 1));
        if let Some(clock) = self.inner.shared.advance_clock(&mut self.local, self.clock) {
            self.inner.tell_clock(clock);
        }
    }

    /// Nobody waits for this worker's clock any more.
    fn rest(&self) {
        if let Some(clock) = self.inner.shared.rest(&self.local) {
            self.inner.tell_clock(clock);
        }
    }

    /// This worker goes on, as all others do, with the latest clock of any.
    fn resume(&mut self, latest: u32) {
        if self.inner.shared.staleness_bound().is_some() {
            self.set_clock(self.clock.0.max(latest));
        }
    }

    /// Changes the staleness bound of this node's reads, in clocks: a worker that pulls at clock c reads every update that any
    /// worker made up to its clock c − `bound` − 1. For all nodes to have the same, all must change it at the same clocks, e.g.
    /// after a barrier. Does nothing unless the technique is [`crate::Technique::Ssp`] or [`crate::Technique::Essp`]. (Petuum's
    /// set_staleness_bound.)
    pub fn set_staleness_bound(&mut self, bound: u32) {
        self.inner.shared.set_staleness_bound(bound);
    }

    /// Brings static replicas in step ([`crate::Technique::Nups`], [`crate::Technique::FullReplication`]). All workers of all nodes must
    /// call it equally often.
    ///
    /// With [`crate::Pace::Asked`], it returns when all have called and every copy has what anybody did before; until somebody
    /// goes on to write, all copies are equal. In the background ([`crate::Pace::Every`]), it returns when a round is over that
    /// began after all workers of this node had called: what they added is in all copies, or about to be. Without static
    /// replicas, it returns at once, with one exception: where replicas were synchronized when asked, had the cluster more than
    /// one node, the workers of the only one wait for each other all the same.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended, also because a worker was dropped that others wait for.
    pub fn synchronize(&mut self) -> Result<(), Error> {
        self.take_in()?;
        let shared = &self.inner.shared;
        if shared.fixed() == 0 {
            let asked = shared.policy().fixed.is_some() && shared.copies().pace == Pace::Asked;
            if asked && shared.layout().nodes() == 1 && self.inner.meetings.participants() > 1 {
                self.meet(&format!("{OWN}synchronize"), Vec::new(), Purpose::Gather)?;
            }
            return Ok(());
        }
        let worker = self.id.index();
        if let Err(gone) = self.inner.attendance.come(worker) {
            let reason = format!("worker {worker} synchronizes replicas, but worker {gone} was dropped");
            self.inner.plane.abort(&reason);
            let failure = Failure::aborted(self.rank(), reason);
            self.inner.health.fail(failure.clone());
            return Err(failure.into());
        }
        let started = self.inner.shared.synchronize(&mut self.local);
        if let Some(op) = self.submit(started)? {
            self.wait_for(op, None)?;
            self.local.take(op);
        }
        self.inner.attendance.go(worker);
        Ok(())
    }

    /// What this worker accessed so far.
    pub fn access(&self) -> AccessStats {
        self.local.stats()
    }

    /// Counts that many of the next pull's keys as samples.
    pub fn count_sampled(&mut self, keys: usize) {
        self.local.count_sampled(keys);
    }

    /// Reads the values of `keys` into `values`.
    ///
    /// # Errors
    /// [`Error::Access`] if the call is wrong, [`Error::Failed`] if the cluster has ended.
    pub fn pull(&mut self, keys: &[Key], values: &mut [E]) -> Result<(), Error> {
        self.admit(keys.len(), values.len())?;
        let started = self.inner.shared.pull(&mut self.local, keys, values, false)?;
        match self.submit(started)? {
            Some(op) => self.wait_for(op, Some(values)),
            None => Ok(()),
        }
    }

    /// Adds `values` to the values of `keys`; returns when all owners have done so.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn push(&mut self, keys: &[Key], values: &[E]) -> Result<(), Error> {
        let ticket = self.push_async(keys, values)?;
        self.wait(ticket)
    }

    /// Overwrites the values of `keys`; returns when all owners have done so. Of a key that occurs twice, the later value
    /// stays.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn set(&mut self, keys: &[Key], values: &[E]) -> Result<(), Error> {
        let ticket = self.set_async(keys, values)?;
        self.wait(ticket)
    }

    /// Starts to read the values of `keys`; [`Worker::wait_pull`] delivers them.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn pull_async(&mut self, keys: &[Key]) -> Result<Ticket, Error> {
        let elements = self.elements(keys);
        self.admit(keys.len(), elements)?;
        let mut values = vec![E::ZERO; elements];
        let started = self.inner.shared.pull(&mut self.local, keys, &mut values, true)?;
        let op = self.submit(started)?;
        Ok(Ticket { op, owner: self.owner(), dropped: Some(self.dropped.0.clone()) })
    }

    /// Starts to add `values` to the values of `keys`. Waits first if too many bytes are in flight.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn push_async(&mut self, keys: &[Key], values: &[E]) -> Result<Ticket, Error> {
        self.admit(keys.len(), values.len())?;
        let started = self.inner.shared.push(&mut self.local, keys, values)?;
        Ok(Ticket { op: self.submit(started)?, owner: self.owner(), dropped: None })
    }

    /// Starts to overwrite the values of `keys`. Waits first if too many bytes are in flight.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn set_async(&mut self, keys: &[Key], values: &[E]) -> Result<Ticket, Error> {
        self.admit(keys.len(), values.len())?;
        let started = self.inner.shared.set(&mut self.local, keys, values)?;
        Ok(Ticket { op: self.submit(started)?, owner: self.owner(), dropped: None })
    }

    /// Reads the values of those of `keys` that can be read without a message into their places in `values`. Returns, per key,
    /// whether it was; the places of the others are left alone.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn pull_if_local(&mut self, keys: &[Key], values: &mut [E]) -> Result<Vec<bool>, Error> {
        // Or whoever asks again and again would never learn that its own push to a key is done.
        self.take_in()?;
        let mut here = Vec::with_capacity(keys.len());
        self.inner.shared.pull_if_local(&mut self.local, keys, values, &mut here)?;
        Ok(here)
    }

    /// Moves `keys` to this node; returns when all of them have arrived. Somebody else may have wanted some of them by then, and
    /// have them. Techniques that do not move keys on request do nothing.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn localize(&mut self, keys: &[Key]) -> Result<(), Error> {
        let layout = Arc::clone(self.inner.shared.layout());
        // All of them, before the first part goes.
        if let Some(position) = keys.iter().position(|key| !layout.contains(*key)) {
            let last = Key(layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key: keys[position], position, last }.into());
        }
        let part_bytes_max = self.inner.outstanding_bytes / LOCALIZE_PARTS;
        let (mut tickets, mut rest) = (Vec::new(), keys);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |key: &&Key| {
                bytes += layout.len(**key) * size_of::<E>() + limits::OUTSTANDING_KEY_BYTES;
                bytes <= part_bytes_max
            };
            let count = rest.iter().take(LOCALIZE_KEYS_MAX).take_while(fits).count().max(1);
            let (part, later) = rest.split_at(count);
            tickets.push(self.localize_async(part)?);
            rest = later;
        }
        tickets.into_iter().try_for_each(|ticket| self.wait(ticket))
    }

    /// Starts to move `keys` to this node, all at once. Waits first if too many bytes are in flight. The ticket may be dropped:
    /// the keys come all the same.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn localize_async(&mut self, keys: &[Key]) -> Result<Ticket, Error> {
        let now = self.inner.clock.now();
        if self.inner.shared.policy().relocation == Some(Initiator::Requester) {
            self.admit(keys.len(), self.elements(keys))?;
        } else {
            self.inner.health.check()?;
        }
        let started = self.inner.shared.localize(&mut self.local, keys, now)?;
        Ok(Ticket { op: self.submit(started)?, owner: self.owner(), dropped: None })
    }

    /// Elements of the values of those of `keys` that exist.
    fn elements(&self, keys: &[Key]) -> usize {
        let layout = self.inner.shared.layout();
        keys.iter().map(|key| if layout.contains(*key) { layout.len(*key) } else { 0 }).sum()
    }

    /// Waits for an operation. The values of a pull are dropped.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Ticket`] if the ticket is another worker's.
    pub fn wait(&mut self, ticket: Ticket) -> Result<(), Error> {
        let Some(op) = self.redeem(ticket)? else { return Ok(()) };
        self.wait_for(op, None)?;
        self.local.take(op);
        Ok(())
    }

    /// Waits for a pull and copies what it read to `values`.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Ticket`] if the ticket is another worker's or not one of a pull, or
    /// `values` has not the length of the values pulled.
    pub fn wait_pull(&mut self, ticket: Ticket, values: &mut [E]) -> Result<(), Error> {
        let Some(op) = self.redeem(ticket)? else {
            return Err(Error::Ticket { ticket: 0, problem: "is not one of a pull" });
        };
        self.wait_for(op, None)?;
        let Some(read) = self.local.take(op) else {
            return Err(Error::Ticket { ticket: op.0, problem: "is not one of a pull" });
        };
        if read.len() != values.len() {
            return Err(Error::Ticket { ticket: op.0, problem: "is of a pull of another length" });
        }
        values.copy_from_slice(&read);
        Ok(())
    }

    fn owner(&self) -> (NodeId, WorkerId) {
        (self.rank(), self.id)
    }

    fn redeem(&self, ticket: Ticket) -> Result<Option<OpId>, Error> {
        if ticket.owner != self.owner() {
            let number = ticket.op.map_or(0, |op| op.0);
            return Err(Error::Ticket { ticket: number, problem: "belongs to another worker" });
        }
        Ok(ticket.redeem())
    }

    /// Waits for all operations of this worker. What pulls read can still be taken with [`Worker::wait_pull`].
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn wait_all(&mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        while !self.local.is_idle() {
            self.receive(None)?;
        }
        Ok(())
    }

    /// Waits until everything that this worker pushed or set has been applied, and its pulls have been answered. Keys that it
    /// localizes may still be on their way.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        while !self.local.is_flushed() {
            self.receive(None)?;
        }
        Ok(())
    }

    /// Appends the next `samples` keys of a prepared handle to `keys`.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn draw(&self, handle: &mut Handle, samples: usize, keys: &mut Vec<Key>) -> Result<(), SampleError> {
        self.inner.sampler.draw(handle, samples, keys)
    }

    /// Waits until all workers of all nodes have come to the barrier called `name`.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn barrier(&mut self, name: &str) -> Result<(), Error> {
        self.gather(name, Vec::new()).map(drop)
    }

    /// Waits until all workers of all nodes have come, and returns what each brought, ordered by node and worker.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Meeting`] if name or payload are too long, with no effect.
    pub fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        let bytes_max = NODE_PAYLOAD_BYTES_MAX / self.inner.meetings.participants();
        if name.len() > NAME_BYTES_MAX || payload.len() > bytes_max {
            let (name_bytes, bytes) = (name.len(), payload.len());
            return Err(Error::Meeting { name_bytes, name_bytes_max: NAME_BYTES_MAX, bytes, bytes_max });
        }
        if name.starts_with(OWN) {
            return Err(Error::Config(format!(
                "a meeting called '{name}': names that start with '{OWN}' are reserved"
            )));
        }
        self.rest();
        let met = self.meet(name, payload, Purpose::Gather)?;
        self.resume(met.latest);
        Ok(met.payloads)
    }

    /// All workers meet in the same place, whatever they call it: so those who mean different meetings are told, instead of
    /// waiting for each other. Nobody waits for the clocks of those who have come.
    fn meet(&mut self, name: &str, payload: Vec<u8>, purpose: Purpose) -> Result<Met, Error> {
        self.inner.health.check()?;
        let (inner, rank, worker) = (&*self.inner, self.rank(), self.id);
        let clock = self.clock.0.to_le_bytes().to_vec();
        let brought = pack(&[name.as_bytes().to_vec(), clock, payload]);
        let all = inner.meetings.meet(WORKERS, name, worker.index(), brought, |brought| {
            let (mut latest, mut here) = (0, Vec::new());
            for (other, brought) in brought.iter().enumerate() {
                let Brought { name: theirs, clock, rest } = Brought::read(brought, rank)?;
                if theirs != name {
                    return Err(Failure::disagreement(
                        rank,
                        format!("has worker {other} waiting in '{theirs}' and worker {worker} in '{name}'"),
                    ));
                }
                latest = latest.max(clock);
                here.extend(rest);
            }
            let report = match purpose {
                Purpose::Gather => Vec::new(),
                // By now all workers of this node are here.
                Purpose::Quiesce => inner.report()?.to_bytes().to_vec(),
            };
            here.splice(0..0, [name.as_bytes().to_vec(), latest.to_le_bytes().to_vec(), report]);
            let nodes = inner.plane.gather(WORKERS, name, pack(&here))?;
            let (mut latest, mut sum, mut everywhere) = (0, ChannelReport::default(), Vec::new());
            for (node, brought) in (0..).map(NodeId).zip(nodes) {
                let Brought { name: theirs, clock, mut rest } = Brought::read(&brought, node)?;
                if theirs != name {
                    let reason = format!("waits in '{theirs}' while node {rank} waits in '{name}'");
                    return Err(Failure::disagreement(node, reason));
                }
                latest = latest.max(clock);
                if rest.is_empty() {
                    return Err(Brought::malformed(node));
                }
                let report = rest.remove(0);
                if purpose == Purpose::Quiesce {
                    sum.merge(ChannelReport::from_bytes(&report).ok_or_else(|| Brought::malformed(node))?);
                }
                everywhere.extend(rest);
            }
            everywhere.push(latest.to_le_bytes().to_vec());
            everywhere.push(sum.to_bytes().to_vec());
            Ok(everywhere)
        });
        let met = all.and_then(|all| {
            let mut payloads = all.as_ref().clone();
            let report = payloads.pop().and_then(|bytes| ChannelReport::from_bytes(&bytes));
            let latest = payloads.pop().and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
            match (latest, report) {
                (Some(latest), Some(report)) => Ok(Met { payloads, latest, report }),
                _ => Err(Brought::malformed(rank)),
            }
        });
        met.map_err(|failure| {
            // Whatever it was, nobody must wait for this node. If the cluster has failed, this has no effect.
            inner.plane.abort(&format!("worker {worker} could not meet the others: {failure}"));
            inner.health.fail(failure.clone());
            failure.into()
        })
    }

    /// Waits for all operations of this worker, for all other workers to do the same, and until nothing is in flight in the
    /// cluster and all copies of a key are equal. Until a worker goes on to write, all see the same values.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn quiesce(&mut self) -> Result<(), Error> {
        self.wait_all()?;
        self.rest();
        let mut waves = Waves::default();
        loop {
            let met = self.meet(&format!("{OWN}quiesce"), Vec::new(), Purpose::Quiesce)?;
            if waves.judge(met.report) {
                self.resume(met.latest);
                return Ok(());
            }
        }
    }

    /// Calls `part` with every key of `range` and its value, in parts of bounded size, from all owners; each key once, in no
    /// particular order. For a consistent picture the cluster must be quiescent: see [`Worker::quiesce`].
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Access`] if the range reaches beyond the last key.
    pub fn snapshot(&mut self, range: Range<u64>, part: &mut dyn FnMut(&[Key], &[E])) -> Result<(), Error> {
        let layout = Arc::clone(self.inner.shared.layout());
        if range.end > layout.keys() {
            let last = Key(layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key: Key(range.end - 1), position: 0, last }.into());
        }
        let mut values = Vec::new();
        for owner in (0..layout.nodes()).map(|node| NodeId(node as u16)) {
            for channel in (0..layout.channels()).map(|channel| ChannelId(channel as u16)) {
                let mut cursor = None;
                loop {
                    let ask = SnapshotAsk {
                        worker: self.id,
                        op: self.local.fresh_op(),
                        owner,
                        start: Key(range.start),
                        end: Key(range.end),
                        cursor,
                        bytes_max: limits::FRAME_PAYLOAD_BYTES_TARGET as u32,
                    };
                    self.send(channel, Input::Snapshot(ask))?;
                    let SnapshotPart { keys, values: bytes, next, .. } = self.receive_snapshot()?;
                    values.resize(bytes.len() / size_of::<E>(), E::ZERO);
                    copy_from_bytes(&mut values, &bytes);
                    if !keys.is_empty() {
                        part(&keys, &values);
                    }
                    cursor = next;
                    if cursor.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until `keys` with `elements` together may be in flight as well. A single operation beyond the limit is admitted
    /// when nothing else is in flight.
    fn admit(&mut self, keys: usize, elements: usize) -> Result<(), Error> {
        self.take_in()?;
        let bytes = elements * size_of::<E>() + keys * limits::OUTSTANDING_KEY_BYTES;
        while !self.local.is_idle() && self.local.outstanding_bytes() + bytes > self.inner.outstanding_bytes {
            self.receive(None)?;
        }
        Ok(())
    }

    /// Takes in what has arrived meanwhile: it keeps the worker's own queue short.
    fn take_in(&mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        while let Ok(op) = self.dropped.1.try_recv() {
            self.local.abandon(op);
        }
        while let Ok(delivery) = self.deliveries.try_recv() {
            self.take(delivery, None)?;
        }
        Ok(())
    }

    fn submit(&mut self, started: Started) -> Result<Option<OpId>, Error> {
        let Started { op, submissions } = started;
        for (channel, submission) in submissions {
            self.send(channel, Input::Submit(submission))?;
        }
        Ok(op)
    }

    fn send(&self, channel: ChannelId, input: Input) -> Result<(), Error> {
        if self.inner.inboxes[channel.index()].send(Command::Input(input)) {
            return Ok(());
        }
        self.inner.health.check()?;
        Err(Failure::misuse(DOWN).into())
    }

    fn wait_for(&mut self, op: OpId, mut values: Option<&mut [E]>) -> Result<(), Error> {
        while !self.local.is_done(op) {
            self.receive(values.as_deref_mut().map(|values| (op, values)))?;
        }
        Ok(())
    }

    fn receive(&mut self, sink: Option<(OpId, &mut [E])>) -> Result<(), Error> {
        // A failure is delivered once, so that it wakes who waits; whoever comes later sees the flag, which is set before.
        self.inner.health.check()?;
        match self.deliveries.recv() {
            Ok(delivery) => match self.take(delivery, sink)? {
                None => Ok(()),
                Some(_) => unreachable!("snapshot parts are waited for one by one"),
            },
            Err(_) => self.nobody_left(),
        }
    }

    fn receive_snapshot(&mut self) -> Result<SnapshotPart, Error> {
        loop {
            // As in `receive`.
            self.inner.health.check()?;
            match self.deliveries.recv() {
                Ok(delivery) => {
                    if let Some(part) = self.take(delivery, None)? {
                        return Ok(part);
                    }
                }
                Err(_) => self.nobody_left()?,
            }
        }
    }

    fn take(
        &mut self,
        delivery: Delivery,
        sink: Option<(OpId, &mut [E])>,
    ) -> Result<Option<SnapshotPart>, Error> {
        match delivery {
            Delivery::Completion(completion) => {
                self.local.complete(&completion, self.inner.shared.layout(), sink);
                Ok(None)
            }
            Delivery::Snapshot(part) => Ok(Some(part)),
            Delivery::Failed(failure) => Err(failure.into()),
        }
    }

    fn nobody_left(&self) -> Result<(), Error> {
        self.inner.health.check()?;
        Err(Failure::misuse(DOWN).into())
    }
}

impl<E: Element> Drop for Worker<E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner.plane.abort(&format!("worker {} panicked", self.id));
        }
        // Whoever waits for this worker, or will, must not wait for ever.
        self.rest();
        if self.inner.attendance.depart(self.id.index()) {
            self.inner
                .plane
                .abort(&format!("worker {} was dropped while others synchronize replicas", self.id));
        }
        for inbox in &self.inner.inboxes {
            inbox.send(Command::Departed);
        }
        if let Some(meeting) = self.inner.meetings.depart(self.id.index()) {
            self.inner
                .plane
                .abort(&format!("worker {} was dropped while others wait for it in '{meeting}'", self.id));
        }
    }
}

/// What a meeting is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To exchange what workers bring.
    Gather,
    /// To find out whether anything is in flight.
    Quiesce,
}

/// What a meeting brought.
struct Met {
    /// By node and worker.
    payloads: Vec<Vec<u8>>,
    /// The latest clock of any worker.
    latest: u32,
    /// The sum over all channels of all nodes, if it was for that.
    report: ChannelReport,
}

/// What a worker or a node brought to a meeting.
struct Brought {
    name: String,
    clock: u32,
    rest: Vec<Vec<u8>>,
}

impl Brought {
    fn read(packed: &[u8], node: NodeId) -> Result<Self, Failure> {
        let read = || {
            let mut parts = unpack(packed)?.into_iter();
            let name = String::from_utf8(parts.next()?).ok()?;
            let clock = u32::from_le_bytes(parts.next()?.try_into().ok()?);
            Some(Self { name, clock, rest: parts.collect() })
        };
        read().ok_or_else(|| Self::malformed(node))
    }

    fn malformed(node: NodeId) -> Failure {
        Failure::disagreement(node, "brought something malformed to a meeting of the workers")
    }
}

/// Payloads as one: each with its length before it.
fn pack(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = Vec::new();
    for payload in payloads {
        packed.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        packed.extend_from_slice(payload);
    }
    packed
}

fn unpack(packed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = Bytes::copy_from_slice(packed);
    let mut payloads = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        payloads.push(rest.get(4..4 + len)?.to_vec());
        rest = rest.slice(4 + len..);
    }
    Some(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_packed_and_unpacked() {
        for payloads in [vec![], vec![vec![]], vec![vec![1, 2], vec![], vec![3; 300]]] {
            assert_eq!(unpack(&pack(&payloads)), Some(payloads));
        }
        assert_eq!(unpack(&[1, 0, 0]), None);
        assert_eq!(unpack(&[2, 0, 0, 0, 9]), None);
    }
}
