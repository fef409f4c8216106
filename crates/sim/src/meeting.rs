//! What workers do together: come to rest, and read a snapshot.

use crate::cluster::Cluster;
use crate::invariants::{Cover, Violation};
use intendant_core::{Element, Key, NodeId, WorkerId};
use intendant_engine::quiesce::Waves;
use intendant_engine::{ChannelReport, SnapshotAsk};
use intendant_wire::{Cursor, OpId, SnapshotPart};
use std::ops::Range;

/// Waves of reports until the cluster is quiescent.
#[derive(Default)]
pub struct Quiescence {
    waves: Waves,
    awaited: usize,
    sum: ChannelReport,
}

impl Quiescence {
    /// All workers have come: starts the first wave.
    pub fn begin<E: Element>(&mut self, cluster: &mut Cluster<E>) {
        *self = Self::default();
        self.awaited = cluster.ask_reports();
    }

    /// A channel reported. Returns whether the cluster is quiescent, which is then checked against what the
    /// simulator sees.
    ///
    /// # Errors
    /// If the cluster is not quiescent although its channels say so.
    pub fn reported<E: Element>(
        &mut self,
        cluster: &mut Cluster<E>,
        report: ChannelReport,
    ) -> Result<bool, Violation> {
        self.sum.merge(report);
        self.awaited -= 1;
        if self.awaited > 0 {
            return Ok(false);
        }
        let sum = std::mem::take(&mut self.sum);
        if self.waves.judge(sum) {
            cluster.check_quiescent()?;
            return Ok(true);
        }
        self.awaited = cluster.ask_reports();
        Ok(false)
    }
}

/// A worker's stream over all values of a range: owner by owner, channel by channel, part by part.
pub struct Stream {
    worker: usize,
    range: Range<u64>,
    bytes_max: u32,
    owner: usize,
    channel: usize,
    cover: Cover,
}

impl Stream {
    /// Asks for the first part.
    pub fn begin<E: Element>(
        cluster: &mut Cluster<E>,
        worker: usize,
        range: Range<u64>,
        bytes_max: u32,
    ) -> Self {
        let stream =
            Self { worker, bytes_max, owner: 0, channel: 0, cover: Cover::new(range.clone()), range };
        stream.ask(cluster, None);
        stream
    }

    fn ask<E: Element>(&self, cluster: &mut Cluster<E>, cursor: Option<Cursor>) {
        let ask = SnapshotAsk {
            // Filled in by the cluster.
            worker: WorkerId(0),
            op: OpId(0),
            owner: NodeId(self.owner as u16),
            start: Key(self.range.start),
            end: Key(self.range.end),
            cursor,
            bytes_max: self.bytes_max,
        };
        cluster.ask_snapshot(self.worker, self.channel, ask);
    }

    /// A part arrived: asks for the next one. Returns whether it was the last.
    ///
    /// # Errors
    /// If a key comes twice or not at all.
    pub fn part<E: Element>(
        &mut self,
        cluster: &mut Cluster<E>,
        part: &SnapshotPart,
    ) -> Result<bool, Violation> {
        self.cover.part(&part.keys).map_err(|finding| cluster.violation(finding))?;
        if part.next.is_none() {
            self.channel += 1;
            if self.channel == cluster.layout().channels() {
                (self.owner, self.channel) = (self.owner + 1, 0);
            }
            if self.owner == cluster.layout().nodes() {
                self.cover.finish().map_err(|finding| cluster.violation(finding))?;
                return Ok(true);
            }
        }
        self.ask(cluster, part.next);
        Ok(false)
    }
}
