//! A worker: the handle through which one training thread uses the parameters.

mod fetched;
mod intents;
pub(crate) mod rows;
mod sampling;
mod together;

use crate::delivery::Delivery;
use crate::error::Error;
use crate::inbox::Command;
use crate::mailbox::{MailReceiver, SendersGone};
use crate::parts::{DOWN, NodeParts};
use crossbeam_channel::{Receiver, Sender};
use intendant_control::Failure;
use intendant_core::{ChannelId, Clock, Element, Key, NodeId, WorkerId, copy_from_bytes, limits};
use intendant_engine::{AccessError, AccessStats, Input, Local, SnapshotAsk, Started, Submission};
use intendant_techniques::Initiator;
use intendant_wire::{OpId, SnapshotPart};
use std::ops::Range;
use std::sync::Arc;

/// The most keys that one request to localize asks for. A longer call becomes several requests, so that the
/// first keys arrive while the last are asked for.
const LOCALIZE_KEYS_MAX: usize = 1 << 14;
/// Number of parts of a long localize that may be in flight together. If only one fitted, each part would
/// wait for the previous one.
const LOCALIZE_PARTS: usize = 4;

/// An asynchronous operation. Waiting for it consumes it.
///
/// A ticket may be dropped instead: the operation continues, and the values of a pull are discarded.
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
    /// Returns the operation, and uses the ticket up.
    fn redeem(mut self) -> Option<OpId> {
        self.dropped = None;
        self.op
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let (Some(op), Some(dropped)) = (self.op, &self.dropped) {
            // A worker that was dropped keeps no values to discard.
            let _ = dropped.send(op);
        }
    }
}

/// A worker of a node. It belongs to one thread at a time.
///
/// Keys may occur more than once in a call, in any order, with different owners and value lengths. Values of
/// several keys are concatenated in the order of the keys. Operations of a worker on one key take effect in
/// the order in which they were issued (except asynchronous ones with location caches and
/// [`crate::Order::Fifo`] [thesis Thm. 3]); each is atomic per key. A call with a key that does not exist or
/// values of the wrong length is refused as a whole.
pub struct Worker<E: Element> {
    id: WorkerId,
    inner: Arc<NodeParts<E>>,
    deliveries: MailReceiver<Delivery>,
    local: Local<E>,
    clock: Clock,
    /// Number of handles prepared so far without a stream of their own.
    handles: u64,
    /// Number of keys of the next pull that are samples.
    samples: usize,
    /// Whether the cluster is at rest and this worker has not written since it came to rest.
    rested: bool,
    /// Copies of the rows of the current [`Worker::rows`] that the node cannot lend.
    fetched: fetched::Fetched<E>,
    /// Pulls whose tickets were dropped.
    dropped: (Sender<OpId>, Receiver<OpId>),
}

impl<E: Element> Worker<E> {
    pub(crate) fn new(id: WorkerId, inner: Arc<NodeParts<E>>, deliveries: MailReceiver<Delivery>) -> Self {
        let mut local = Local::new(id, inner.shared.layout());
        inner.shared.favour(&mut local);
        Self {
            id,
            inner,
            deliveries,
            local,
            clock: Clock(0),
            handles: 0,
            samples: 0,
            rested: false,
            fetched: fetched::Fetched::default(),
            dropped: crossbeam_channel::unbounded(),
        }
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

    /// Statistics of this worker's accesses so far.
    pub fn access(&self) -> AccessStats {
        self.local.stats()
    }

    /// Operations of this worker that are under way, and the bytes that they have in flight.
    pub fn outstanding(&self) -> (usize, usize) {
        (self.local.operations(), self.local.outstanding_bytes())
    }

    /// Counts the last `keys` keys of the next pull as samples.
    pub fn count_sampled(&mut self, keys: usize) {
        self.local.count_sampled(keys);
        self.samples += keys;
    }

    /// Reads the values of `keys` into `values`.
    ///
    /// # Errors
    /// [`Error::Access`] if the call is wrong, [`Error::Failed`] if the cluster has ended.
    pub fn pull(&mut self, keys: &[Key], values: &mut [E]) -> Result<(), Error> {
        self.observe(keys);
        self.pull_unobserved(keys, values)
    }

    /// A pull that is not reported to the sampling manager.
    #[inline]
    fn pull_unobserved(&mut self, keys: &[Key], values: &mut [E]) -> Result<(), Error> {
        self.admit(keys.len(), values.len())?;
        let started = self.inner.shared.pull(&mut self.local, keys, values)?;
        match self.submit(started)? {
            Some(op) => self.wait_for(op, Some(values)),
            None => Ok(()),
        }
    }

    /// Reads the values of all keys of `range` into `values`, as [`Worker::pull`] of these keys [OSDI'14,
    /// range push and pull]. If the keys of a node and channel are evenly spaced
    /// ([`KeyOrder::Range`](intendant_core::KeyOrder::Range)), messages name their keys in a few bytes.
    /// Unlike this call, [`Worker::snapshot`] reads only the keys that a sparse store holds.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn pull_range(&mut self, range: Range<u64>, values: &mut [E]) -> Result<(), Error> {
        self.pull(&self.keys_of(range)?, values)
    }

    /// Pushes `values` to all keys of `range`, as [`Worker::push`] to these keys. Messages are as short as
    /// those of [`Worker::pull_range`].
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn push_range(&mut self, range: Range<u64>, values: &[E]) -> Result<(), Error> {
        self.push(&self.keys_of(range)?, values)
    }

    /// The keys of a range, which must exist.
    fn keys_of(&self, range: Range<u64>) -> Result<Vec<Key>, AccessError> {
        let last = self.inner.shared.layout().keys() - 1;
        if range.end > last + 1 {
            let beyond = range.start.max(last + 1);
            let position = (beyond - range.start) as usize;
            return Err(AccessError::KeyOutOfRange { key: Key(beyond), position, last: Key(last) });
        }
        Ok(range.map(Key).collect())
    }

    /// Adds `values` to the values of `keys`, or pushes them as operands of the keys' rules; returns when all
    /// owners have applied them. (A rule at clocks applies them later.)
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn push(&mut self, keys: &[Key], values: &[E]) -> Result<(), Error> {
        let ticket = self.push_async(keys, values)?;
        self.wait(ticket)
    }

    /// Overwrites the values of `keys`; returns when all owners have done so. If a key occurs twice, its
    /// later value stays. The state of the keys' rules is zero afterwards. Static replicas of keys with rules
    /// cannot be set.
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
    #[inline(never)]
    pub fn pull_async(&mut self, keys: &[Key]) -> Result<Ticket, Error> {
        self.observe(keys);
        let elements = self.elements(keys);
        self.admit(keys.len(), elements)?;
        let started = self.inner.shared.pull_kept(&mut self.local, keys)?;
        let op = self.submit(started)?;
        Ok(Ticket { op, owner: self.owner(), dropped: Some(self.dropped.0.clone()) })
    }

    /// Starts to add `values` to the values of `keys`. Waits first if too many bytes are in flight.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    #[inline(never)]
    pub fn push_async(&mut self, keys: &[Key], values: &[E]) -> Result<Ticket, Error> {
        self.admit(keys.len(), values.len())?;
        self.write_on();
        let started = self.inner.shared.push(&mut self.local, keys, values)?;
        Ok(Ticket { op: self.submit(started)?, owner: self.owner(), dropped: None })
    }

    /// Starts to overwrite the values of `keys`. Waits first if too many bytes are in flight.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    #[inline(never)]
    pub fn set_async(&mut self, keys: &[Key], values: &[E]) -> Result<Ticket, Error> {
        self.admit(keys.len(), values.len())?;
        self.write_on();
        let started = self.inner.shared.set(&mut self.local, keys, values)?;
        Ok(Ticket { op: self.submit(started)?, owner: self.owner(), dropped: None })
    }

    /// Reads those of `keys` that can be read without a message, into their places in `values`. Returns for
    /// each key whether it was read; the places of the other keys are left alone.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn pull_if_local(&mut self, keys: &[Key], values: &mut [E]) -> Result<Vec<bool>, Error> {
        // Otherwise a worker that asks again and again never learns that its own push to a key is done.
        self.take_in()?;
        let mut here = Vec::with_capacity(keys.len());
        self.inner.shared.pull_if_local(&mut self.local, keys, values, &mut here)?;
        Ok(here)
    }

    /// Moves `keys` to this node; returns when all of them have arrived. By then, some of them may have moved
    /// on to other nodes that asked for them. Techniques that do not move keys on request do nothing.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    #[inline(never)]
    pub fn localize(&mut self, keys: &[Key]) -> Result<(), Error> {
        let layout = Arc::clone(self.inner.shared.layout());
        // Checks all keys before the first part is sent.
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

    /// Starts to move `keys` to this node, all at once. Waits first if too many bytes are in flight. The
    /// ticket may be dropped: the keys are moved nevertheless.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    #[inline(never)]
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

    /// Number of elements of the values of those of `keys` that exist.
    fn elements(&self, keys: &[Key]) -> usize {
        let layout = self.inner.shared.layout();
        keys.iter().map(|key| if layout.contains(*key) { layout.len(*key) } else { 0 }).sum()
    }

    /// Waits for an operation. The values of a pull are dropped.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Ticket`] if the ticket is another worker's.
    #[inline(never)]
    pub fn wait(&mut self, ticket: Ticket) -> Result<(), Error> {
        let Some(op) = self.redeem(ticket)? else { return Ok(()) };
        self.wait_for(op, None)?;
        self.local.abandon(op);
        Ok(())
    }

    /// Waits for a pull and copies what it read to `values`.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Ticket`] if the ticket is another worker's or not
    /// one of a pull, or `values` does not have the length of the values pulled.
    #[inline(never)]
    pub fn wait_pull(&mut self, ticket: Ticket, values: &mut [E]) -> Result<(), Error> {
        let Some(op) = self.redeem(ticket)? else {
            return Err(Error::Ticket { ticket: 0, problem: "is not one of a pull" });
        };
        self.wait_for(op, None)?;
        let problem = match self.local.kept(op) {
            None => "is not one of a pull",
            Some(elements) if elements != values.len() => "is of a pull of another length",
            Some(_) => {
                self.local.take(op, self.inner.shared.layout(), values);
                return Ok(());
            }
        };
        self.local.abandon(op);
        Err(Error::Ticket { ticket: op.0, problem })
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

    /// Waits for all operations of this worker. The values that pulls read can still be taken with
    /// [`Worker::wait_pull`].
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    #[inline(never)]
    pub fn wait_all(&mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        while !self.local.is_idle() {
            self.receive(None)?;
        }
        Ok(())
    }

    /// Waits until everything that this worker pushed or set has been applied, and its pulls have been
    /// answered. Keys that it localizes may still be on their way.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    #[inline(never)]
    pub fn flush(&mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        while !self.local.is_flushed() {
            self.receive(None)?;
        }
        Ok(())
    }

    /// Reads all keys of `range` and their rows from all owners, and calls `part` with them in parts of
    /// bounded size. Each key occurs once, in no particular order. A row is the value of a key; for a key
    /// with a rule, the rule's state and pending operands follow
    /// ([`Layout::len`](intendant_core::Layout::len) elements).
    ///
    /// For a consistent picture, the cluster must be quiescent until all workers have read what they want:
    /// see [`Worker::quiesce`]. A worker that is dropped meanwhile may set keys in motion, so all workers
    /// should meet before one is dropped.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Access`] if the range reaches beyond the last
    /// key.
    #[inline(never)]
    pub fn snapshot(&mut self, range: Range<u64>, part: &mut dyn FnMut(&[Key], &[E])) -> Result<(), Error> {
        let layout = Arc::clone(self.inner.shared.layout());
        if range.end > layout.keys() {
            let last = Key(layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key: Key(range.end - 1), position: 0, last }.into());
        }
        self.read_owned((0..layout.nodes()).map(|node| NodeId(node as u16)), range, part)
    }

    /// As [`Worker::snapshot`], of the keys that this node owns. Over all nodes, each key occurs once.
    ///
    /// # Errors
    /// As [`Worker::snapshot`].
    pub fn snapshot_of_node(&mut self, part: &mut dyn FnMut(&[Key], &[E])) -> Result<(), Error> {
        let (node, keys) = (self.inner.shared.node(), self.inner.shared.layout().keys());
        self.read_owned(std::iter::once(node), 0..keys, part)
    }

    fn read_owned(
        &mut self,
        owners: impl Iterator<Item = NodeId>,
        range: Range<u64>,
        part: &mut dyn FnMut(&[Key], &[E]),
    ) -> Result<(), Error> {
        let layout = Arc::clone(self.inner.shared.layout());
        let mut values = Vec::new();
        for owner in owners {
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

    /// Waits until an operation on `keys` keys with `elements` elements may be in flight as well. A single
    /// operation beyond the limit is admitted when nothing else is in flight.
    fn admit(&mut self, keys: usize, elements: usize) -> Result<(), Error> {
        self.take_in()?;
        let bytes = elements * size_of::<E>() + keys * limits::OUTSTANDING_KEY_BYTES;
        while !self.local.is_idle() && self.local.outstanding_bytes() + bytes > self.inner.outstanding_bytes {
            self.receive(None)?;
        }
        Ok(())
    }

    /// Takes in what has arrived meanwhile, which keeps the worker's own queue short.
    #[inline]
    fn take_in(&mut self) -> Result<(), Error> {
        self.inner.health.check()?;
        // Without operations nothing can have arrived: the worker waits for parts of snapshots one by one,
        // and the check above notices a failure.
        if self.local.has_operations() { self.take_in_waiting() } else { Ok(()) }
    }

    #[inline(never)]
    fn take_in_waiting(&mut self) -> Result<(), Error> {
        while let Ok(op) = self.dropped.1.try_recv() {
            self.local.abandon(op);
        }
        while let Some(delivery) = self.deliveries.try_next() {
            self.take(delivery, None)?;
        }
        Ok(())
    }

    /// The worker writes: the cluster is not at rest any more, and channels act on intents again.
    fn write_on(&mut self) {
        if std::mem::take(&mut self.rested) {
            self.inner.wake(&self.inner.shared.clocks().resume());
        }
    }

    #[inline]
    fn submit(&mut self, started: Started) -> Result<Option<OpId>, Error> {
        let Started { op, submissions } = started;
        if !submissions.is_empty() {
            self.submit_all(submissions)?;
        }
        Ok(op)
    }

    #[inline(never)]
    fn submit_all(&mut self, submissions: Vec<(ChannelId, Submission)>) -> Result<(), Error> {
        submissions
            .into_iter()
            .try_for_each(|(channel, submission)| self.send(channel, Input::Submit(submission)))
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

    #[inline(never)]
    fn receive(&mut self, sink: Option<(OpId, &mut [E])>) -> Result<(), Error> {
        // A failure is delivered once, to wake a thread that waits. Later calls see the flag, which is set
        // before that.
        self.inner.health.check()?;
        match self.deliveries.next() {
            Ok(delivery) => match self.take(delivery, sink)? {
                None => Ok(()),
                Some(_) => unreachable!("snapshot parts are waited for one by one"),
            },
            Err(SendersGone) => self.senders_gone(),
        }
    }

    fn receive_snapshot(&mut self) -> Result<SnapshotPart, Error> {
        loop {
            // As in `receive`.
            self.inner.health.check()?;
            match self.deliveries.next() {
                Ok(delivery) => {
                    if let Some(part) = self.take(delivery, None)? {
                        return Ok(part);
                    }
                }
                Err(SendersGone) => self.senders_gone()?,
            }
        }
    }

    fn take(
        &mut self,
        delivery: Delivery,
        mut sink: Option<(OpId, &mut [E])>,
    ) -> Result<Option<SnapshotPart>, Error> {
        match delivery {
            Delivery::Completions(completions) => {
                let layout = self.inner.shared.layout();
                for completion in completions {
                    let sink = sink.as_mut().map(|(op, values)| (*op, &mut **values));
                    self.local.complete(completion, layout, sink);
                }
                Ok(None)
            }
            Delivery::Snapshot(part) => Ok(Some(part)),
            Delivery::Failed(failure) => Err(failure.into()),
        }
    }

    fn senders_gone(&self) -> Result<(), Error> {
        self.inner.health.check()?;
        Err(Failure::misuse(DOWN).into())
    }
}

impl<E: Element> Drop for Worker<E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner.membership.abort(&format!("worker {} panicked", self.id));
        }
        // Workers that wait or will wait for this one must not wait for ever.
        self.retire();
        if self.inner.attendance.depart(self.id.index()) {
            self.inner
                .membership
                .abort(&format!("worker {} was dropped while others synchronize replicas", self.id));
        }
        for inbox in &self.inner.inboxes {
            inbox.send(Command::Departed);
        }
        if let Some(meeting) = self.inner.meetings.depart(self.id.index()) {
            self.inner
                .membership
                .abort(&format!("worker {} was dropped while others wait for it in '{meeting}'", self.id));
        }
    }
}
