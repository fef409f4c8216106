//! Events: what the queue of events orders, and what programs learn of it.

#[cfg(doc)]
use crate::cluster::Cluster;
#[cfg(doc)]
use crate::lane::Lane;
use intendant_engine::ChannelReport;
use intendant_wire::{OpId, SnapshotPart};

/// An event of the event queue. Its content waits in a [`Lane`], which keeps order by construction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A worker's program continues.
    Awake { worker: u32 },
    /// A worker's loader continues.
    Loaded { worker: u32 },
    /// An item of a worker reaches the inbox of a channel.
    Enqueue { worker: u32, channel: u32 },
    /// The first byte of a frame reaches the receiver's NIC.
    Front { link: u32 },
    /// The last byte of a frame is received.
    Arrive { link: u32 },
    /// A channel has finished its current input.
    Turn { station: u32 },
    /// A completion reaches the queue of a worker.
    Deliver { worker: u32, channel: u32 },
    /// A worker takes a completion from its queue.
    Intake { worker: u32 },
    /// A request for a report reaches a channel's inbox.
    Report { station: u32 },
    /// A wake-up reaches a channel's inbox.
    Woken { station: u32 },
    /// A channel's timer expires.
    Due { station: u32 },
}

/// The outcome of an event for programs.
#[derive(Debug)]
pub enum Happened {
    /// Nothing: the event was internal to the cluster.
    Internal,
    /// A wake-up that [`Cluster::wake`] scheduled for this worker.
    Awake(usize),
    /// A wake-up that [`Cluster::wake_loader`] scheduled for this worker's loader.
    Loaded(usize),
    /// A worker took the completion of a part of an operation.
    Answered {
        /// The worker.
        worker: usize,
        /// Its operation.
        op: OpId,
        /// Whether the whole operation is done.
        done: bool,
    },
    /// A worker received a part of a snapshot.
    Part {
        /// The worker.
        worker: usize,
        /// The part.
        part: SnapshotPart,
    },
    /// A channel answered [`Cluster::ask_reports`].
    Reported(ChannelReport),
}
