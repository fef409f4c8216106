//! The joint operations of workers: clocks, barriers and gathers, quiescence, and synchronisation of static
//! replicas.
//!
//! In a meeting, each worker brings the meeting's name, its clock and a payload. A node brings the latest
//! clock of its workers, the report of its channels if the meeting is for quiescence, and all payloads.

use super::Worker;
use crate::error::Error;
use bytes::Bytes;
use intendant_control::Failure;
use intendant_core::{Clock, Element, NodeId};
use intendant_engine::Advanced;
use intendant_engine::quiesce::{ChannelReport, Waves};
use intendant_membership::OWN;
use intendant_techniques::StaticReplicaPace;
use intendant_techniques::clocks::RESTING;

/// The name under which all workers meet.
const WORKERS: &str = "intendant:workers";
/// The most bytes that the workers of a node may contribute to a meeting together. The control plane's own
/// limit is higher.
const NODE_PAYLOAD_BYTES_MAX: usize = 8 << 20;
/// The greatest length of a meeting's name.
const NAME_BYTES_MAX: usize = 150;

impl<E: Element> Worker<E> {
    /// Advances this worker's clock by one. With [`crate::Technique::Ssp`] and [`crate::Technique::Essp`],
    /// the node sends the earlier updates of its workers when the slowest of them advances its clock, and
    /// reads of all workers of all nodes begin to wait for a worker whose clock is more than the staleness
    /// bound behind theirs. If the technique acts on intents, they begin and end by this clock
    /// ([`Worker::intent`]). With other techniques the clock has no effect.
    #[inline(never)]
    pub fn advance_clock(&mut self) {
        self.set_clock(self.clock.0.saturating_add(1));
    }

    fn set_clock(&mut self, clock: u32) {
        self.clock = Clock(clock.min(RESTING - 1));
        let advanced = self.inner.shared.clocks().advance(&mut self.local, self.clock);
        self.inner.advanced(advanced);
    }

    /// No worker waits for this worker's clock any more.
    fn rest(&self) {
        let clock = self.inner.shared.clocks().rest(self.id);
        self.inner.advanced(Advanced { clock, wake: Vec::new() });
    }

    /// This worker is finished.
    pub(super) fn retire(&self) {
        let advanced = self.inner.shared.clocks().retire(self.id);
        self.inner.advanced(advanced);
    }

    /// This worker continues with the latest clock of any worker, as all others do.
    fn resume(&mut self, latest: u32) {
        if self.inner.shared.clocks().staleness_bound().is_some() {
            self.set_clock(self.clock.0.max(latest));
        }
    }

    /// Changes the staleness bound of this node's reads, in clocks: a worker that pulls at clock c reads
    /// every update that any worker made up to its clock c − `bound` − 1. To have the same bound on all
    /// nodes, all nodes must change it at the same clocks, e.g. after a barrier. The call does nothing unless
    /// the technique is [`crate::Technique::Ssp`] or [`crate::Technique::Essp`]. (Petuum's
    /// set_staleness_bound.)
    #[inline(never)]
    pub fn set_staleness_bound(&mut self, bound: u32) {
        self.inner.shared.clocks().set_staleness_bound(bound);
    }

    /// Synchronises static replicas. All workers of all nodes must call it equally often.
    ///
    /// With [`crate::StaticReplicaPace::Asked`], it returns when all workers have called it and every copy
    /// has all updates that any worker made before its call. Until a worker writes again, all copies are
    /// equal. In the background ([`crate::StaticReplicaPace::Every`]), it returns when a round is over that
    /// began after all workers of this node had called: their updates are in all copies, or will be soon.
    /// Without static replicas it returns at once, with one exception: in a cluster of one node, whose pace
    /// is [`crate::StaticReplicaPace::Asked`], the workers wait for each other nevertheless.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended, also because a worker was dropped for which others wait.
    #[inline(never)]
    pub fn synchronize(&mut self) -> Result<(), Error> {
        self.take_in()?;
        let shared = &self.inner.shared;
        if shared.static_replicas() == 0 {
            let asked = shared.policy().static_replicas.is_some()
                && shared.replication().pace == StaticReplicaPace::Asked;
            if asked && shared.layout().nodes() == 1 && self.inner.meetings.participants() > 1 {
                self.meet(&format!("{OWN}synchronize"), Vec::new(), Purpose::Gather)?;
            }
            return Ok(());
        }
        let worker = self.id.index();
        if let Err(gone) = self.inner.attendance.come(worker) {
            let reason = format!("worker {worker} synchronizes replicas, but worker {gone} was dropped");
            self.inner.membership.abort(&reason);
            let failure = Failure::aborted(self.rank(), reason);
            self.inner.health.fail(failure.clone());
            return Err(failure.into());
        }
        let started = self.inner.shared.synchronize(&mut self.local);
        if let Some(op) = self.submit(started)? {
            self.wait_for(op, None)?;
            self.local.abandon(op);
        }
        self.inner.attendance.go(worker);
        Ok(())
    }

    /// Waits until all workers of all nodes have reached the barrier called `name`.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    #[inline(never)]
    pub fn barrier(&mut self, name: &str) -> Result<(), Error> {
        self.gather(name, Vec::new()).map(drop)
    }

    /// Waits until all workers of all nodes have called this with the same `name`, and returns their
    /// payloads, ordered by node and worker.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended; [`Error::Meeting`] if name or payload are too long, with
    /// no effect.
    #[inline(never)]
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
        // Workers that were reading a snapshot have entered as well, so channels may act on intents again.
        self.inner.wake(&self.inner.shared.clocks().resume());
        Ok(met.payloads)
    }

    /// All workers meet under one name; the name that the caller gives is part of the payload. So workers
    /// that call differently named meetings get an error instead of waiting for each other. No worker waits
    /// for the clocks of workers that have entered.
    fn meet(&mut self, name: &str, payload: Vec<u8>, purpose: Purpose) -> Result<Met, Error> {
        self.inner.health.check()?;
        let (inner, rank, worker) = (&*self.inner, self.rank(), self.id);
        let clock = self.clock.0.to_le_bytes().to_vec();
        let brought = pack(&[name.as_bytes().to_vec(), clock, payload]);
        let asleep = inner.awake.sleep();
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
            let nodes = inner.gather(WORKERS, name, pack(&here))?;
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
        drop(asleep);
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
            // Abort on any error so that peers do not block. If the cluster has failed, this has no effect.
            inner.membership.abort(&format!("worker {worker} could not meet the others: {failure}"));
            inner.health.fail(failure.clone());
            failure.into()
        })
    }

    /// Waits until all workers have called this, all their operations are done, nothing is in flight in the
    /// cluster, and all copies of each key are equal. Until a worker writes or advances its clock, or all
    /// workers meet again, all see the same values, and channels act on no intent. So no key moves while a
    /// worker reads a [`Worker::snapshot`].
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    #[inline(never)]
    pub fn quiesce(&mut self) -> Result<(), Error> {
        self.wait_all()?;
        self.rest();
        let mut waves = Waves::default();
        loop {
            let met = self.meet(&format!("{OWN}quiesce"), Vec::new(), Purpose::Quiesce)?;
            if waves.judge(met.report) {
                self.rested = true;
                self.resume(met.latest);
                return Ok(());
            }
        }
    }
}

/// The purpose of a meeting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To exchange payloads.
    Gather,
    /// To find out whether anything is in flight.
    Quiesce,
}

/// The result of a meeting.
struct Met {
    /// The payloads of all workers, by node and worker.
    payloads: Vec<Vec<u8>>,
    /// The latest clock of any worker.
    latest: u32,
    /// The sum of the reports of all channels of all nodes, if the meeting was for quiescence.
    report: ChannelReport,
}

/// The contribution of a worker or a node to a meeting.
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

/// Concatenates payloads, each preceded by its length.
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
