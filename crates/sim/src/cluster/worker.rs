//! A worker: its operations, and the queues between it and the channels of its node.

use super::station::InboxItem;
use crate::lane::Lane;
use intendant_core::{Element, Layout, WorkerId};
use intendant_engine::{Completion, Local};
use intendant_wire::{OpId, SnapshotPart};
use std::collections::VecDeque;

/// What a channel puts into a worker's queue.
pub(super) enum Delivery {
    Access(Completion),
    Part(SnapshotPart),
}

/// A worker, and the queues between it and the channels of its node.
pub(super) struct WorkerState<E> {
    pub(super) local: Local<E>,
    /// To each channel.
    pub(super) to_channels: Vec<Lane<InboxItem>>,
    /// From each channel.
    pub(super) from_channels: Vec<Lane<Delivery>>,
    pub(super) queue: VecDeque<Delivery>,
    /// The pull that the worker blocks on, and the buffer for its values.
    pub(super) sink: Option<(OpId, Vec<E>)>,
    /// Time at which the worker finishes its work so far.
    pub(super) free_ns: u64,
    /// Busy time so far, without waiting.
    pub(super) busy_ns: u64,
    /// Busy time of the node's channels that has already been charged to this worker as delay.
    pub(super) charged_channel_ns: u64,
}

impl<E: Element> WorkerState<E> {
    /// A worker of a node that has done nothing yet.
    pub(super) fn new(worker: usize, layout: &Layout) -> Self {
        let channels = layout.channels();
        Self {
            local: Local::new(WorkerId(worker as u16), layout),
            to_channels: (0..channels).map(|_| Lane::default()).collect(),
            from_channels: (0..channels).map(|_| Lane::default()).collect(),
            queue: VecDeque::new(),
            sink: None,
            free_ns: 0,
            busy_ns: 0,
            charged_channel_ns: 0,
        }
    }
}
