//! Collective operations of workers: detecting quiescence, and reading a snapshot. Programs that drive a
//! [`Cluster`] use them.

use crate::cluster::{Cluster, Probe};
use crate::invariants::{Cover, Violation};
use intendant_core::{Element, Key, NodeId, WorkerId};
use intendant_engine::quiesce::Waves;
use intendant_engine::{ChannelReport, SnapshotAsk};
use intendant_wire::{Cursor, OpId, SnapshotPart};
use std::ops::Range;

/// Detects quiescence: collects waves of channel reports until two successive waves are quiet and equal.
#[derive(Default)]
pub struct Quiescence {
    waves: Waves,
    awaited: usize,
    sum: ChannelReport,
    /// Workers have flushed, and may not be idle.
    flushed: bool,
}

impl Quiescence {
    /// Starts the first wave. All workers must have reached the meeting.
    pub fn begin<E: Element, P: Probe<E>>(&mut self, cluster: &mut Cluster<E, P>) {
        *self = Self::default();
        self.awaited = cluster.ask_reports();
    }

    /// As [`Quiescence::begin`], of workers that have flushed: see [`Cluster::check_quiescent_flushed`].
    pub fn begin_flushed<E: Element, P: Probe<E>>(&mut self, cluster: &mut Cluster<E, P>) {
        self.begin(cluster);
        self.flushed = true;
    }

    /// Takes a channel's report. Returns whether the cluster is quiescent; if so, the simulator's own view of
    /// the cluster is checked.
    ///
    /// # Errors
    /// If the reports say that the cluster is quiescent, but something is still in flight.
    #[inline(never)]
    pub fn reported<E: Element, P: Probe<E>>(
        &mut self,
        cluster: &mut Cluster<E, P>,
        report: ChannelReport,
    ) -> Result<bool, Violation> {
        self.sum.merge(report);
        self.awaited -= 1;
        if self.awaited > 0 {
            return Ok(false);
        }
        let sum = std::mem::take(&mut self.sum);
        if self.waves.judge(sum) {
            if self.flushed {
                cluster.check_quiescent_flushed()?;
            } else {
                cluster.check_quiescent()?;
            }
            return Ok(true);
        }
        self.awaited = cluster.ask_reports();
        Ok(false)
    }
}

/// A worker's read of all values of a range, or of those that a node owns: owner by owner, channel by
/// channel, part by part.
pub struct Stream {
    worker: usize,
    range: Range<u64>,
    bytes_max: u32,
    /// The owner that is read, and those that follow it.
    owners: Range<usize>,
    channel: usize,
    /// Not of a single owner.
    cover: Option<Cover>,
}

impl Stream {
    /// Requests the first part.
    pub fn begin<E: Element, P: Probe<E>>(
        cluster: &mut Cluster<E, P>,
        worker: usize,
        range: Range<u64>,
        bytes_max: u32,
    ) -> Self {
        let (owners, cover) = (0..cluster.layout().nodes(), Some(Cover::new(range.clone())));
        let stream = Self { worker, bytes_max, owners, channel: 0, cover, range };
        stream.ask(cluster, None);
        stream
    }

    /// Requests the first part of what `node` owns.
    pub fn begin_of_node<E: Element, P: Probe<E>>(
        cluster: &mut Cluster<E, P>,
        worker: usize,
        node: usize,
        range: Range<u64>,
        bytes_max: u32,
    ) -> Self {
        let stream = Self { worker, bytes_max, owners: node..node + 1, channel: 0, cover: None, range };
        stream.ask(cluster, None);
        stream
    }

    fn ask<E: Element, P: Probe<E>>(&self, cluster: &mut Cluster<E, P>, cursor: Option<Cursor>) {
        let ask = SnapshotAsk {
            // `Cluster::ask_snapshot` sets these two.
            worker: WorkerId(0),
            op: OpId(0),
            owner: NodeId(self.owners.start as u16),
            start: Key(self.range.start),
            end: Key(self.range.end),
            cursor,
            bytes_max: self.bytes_max,
        };
        cluster.ask_snapshot(self.worker, self.channel, ask);
    }

    /// Takes a part and requests the next one. Returns whether this part was the last.
    ///
    /// # Errors
    /// If a key is delivered twice or not at all.
    pub fn part<E: Element, P: Probe<E>>(
        &mut self,
        cluster: &mut Cluster<E, P>,
        part: &SnapshotPart,
    ) -> Result<bool, Violation> {
        if let Some(cover) = &mut self.cover {
            cover.part(&part.keys).map_err(|finding| cluster.violation(finding))?;
        }
        if part.next.is_none() {
            self.channel += 1;
            if self.channel == cluster.layout().channels() {
                (self.owners.start, self.channel) = (self.owners.start + 1, 0);
            }
            if self.owners.is_empty() {
                if let Some(cover) = &self.cover {
                    cover.finish().map_err(|finding| cluster.violation(finding))?;
                }
                return Ok(true);
            }
        }
        self.ask(cluster, part.next);
        Ok(false)
    }
}
