//! The sources of `intendant-engine`, compiled a second time: on the store of `intendant-store-model`, and
//! with shuttle's primitives for the list of urgent replicas. Every use of a latch, and of that list, is a
//! point where shuttle may let another thread run.
#![forbid(unsafe_code)]

mod sync {
    pub(crate) use shuttle::sync::Mutex;
    use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no thread panics")
    }
}

#[path = "shipped/access/mod.rs"]
mod access;
#[path = "shipped/channel/mod.rs"]
mod channel;
#[path = "shipped/error.rs"]
mod error;
#[path = "shipped/events.rs"]
mod events;
#[path = "shipped/input.rs"]
mod input;
#[path = "shipped/instances.rs"]
mod instances;
#[path = "shipped/intent/mod.rs"]
mod intent;
#[path = "shipped/key_table.rs"]
mod key_table;
#[path = "shipped/local_access.rs"]
mod local_access;
#[path = "shipped/location/mod.rs"]
mod location;
#[path = "shipped/node/mod.rs"]
mod node;
#[path = "shipped/outgoing/mod.rs"]
mod outgoing;
#[path = "shipped/quiesce.rs"]
pub mod quiesce;
#[path = "shipped/relocation/mod.rs"]
mod relocation;
#[path = "shipped/replication/mod.rs"]
mod replication;
#[path = "shipped/static_replicas/mod.rs"]
mod static_replicas;
#[path = "shipped/stats.rs"]
mod stats;
#[path = "shipped/storage.rs"]
mod storage;
#[path = "shipped/windows.rs"]
mod windows;

pub use channel::{Channel, Explanation};
pub use error::{AccessError, ProtocolError, Violation};
pub use input::{Action, Completion, Input, Kind, SnapshotAsk, Submission, Work};
pub use intendant_store::Row;
pub use local_access::LocalAccess;
pub use node::clocks::{Advanced, Clocks};
pub use node::inspection::Inspection;
pub use node::local::{Local, Started};
pub use node::{ReplicationConfig, Shared, SharedConfig};
pub use quiesce::ChannelReport;
pub use stats::{AccessStats, ManagementStats, NetworkStats};
pub use storage::Storage;
pub use windows::{WindowConfig, Windows, WindowsError};
