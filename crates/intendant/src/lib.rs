#![doc = include_str!("../README.md")]
//!
//! Start at [`Node`]: a node of the cluster, [alone](Node::start_alone), [several in one
//! process](Node::start_local), or [one per process](Node::join). Its [`Worker`]s are the handles through
//! which training threads pull, push and set parameters. [`control`] has rendezvous, barriers and failure
//! detection.
//!
//! Inside: every channel has a thread with its own single-threaded runtime (`channel`). The thread owns the
//! channel's engine and its links, and wakes when the engine's next tick is due. Workers serve local keys
//! themselves and pass the others to a channel's `inbox`; answers return through a queue per worker
//! (`mailbox`). There is no global state: several clusters can run in one process.
//!
//! Not in this crate: operations on values and decisions about keys (`intendant-engine`,
//! `intendant-techniques`), and training (`intendant-task`, `intendant-train`).
#![deny(unsafe_code)]

mod attendance;
mod awake;
mod busy_poll;
mod capacity;
mod channel;
mod config;
mod delivery;
mod error;
mod inbox;
mod instances;
mod mailbox;
mod node;
mod observer;
mod parts;
mod preparer;
mod priority;
mod recording;
mod sync;
mod traffic;
mod worker;

/// Starts the processes of a cluster on this machine.
pub mod launch {
    pub use intendant_launch::{
        Launch, LaunchError, REPEATED_SIGNAL, VARIABLES, ask_for_another, ignores_hang_up, is_launched,
        is_readable_by_others, tell_done, tell_saved, token_is_unknown,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeOfTheProject;

pub use capacity::{CapacityError, check_capacity};
pub use config::NodeConfig;
pub use error::{Error, exit};
pub use intendant_control::{self as control, Failure, FailureKind, JoinError};
pub use intendant_core::{
    ChannelId, Clock, Element, ElementType, Initialiser, Key, KeyOrder, KeyRange, Layout, LayoutBuilder,
    LayoutError, NodeId, Rule, SharedRule, Tick, Timing, WorkerId,
};
pub use intendant_engine::{
    AccessError, AccessStats, ClusterSettings, Explanation, LocalAccess, ManagementStats, NetworkStats,
    ReplicationConfig, ReportedManagement, Row, Storage,
};
pub use intendant_intent::{TimingConfig, TimingError};
pub use intendant_launch::{Endpoint, Launcher, Rendezvous, RendezvousError};
pub use intendant_membership::Aborter;
pub use intendant_sampling::{
    Conformity, Distribution, DistributionError, DistributionId, Handle, Pooling, SampleError, Sampler,
    SamplerBuilder, SamplingStats, Scheme, SchemeError,
};
pub use intendant_techniques::{
    Act, Assignment, AssignmentError, Choice, Initiator, IntentPolicy, KeyTechnique, Location, Order, Policy,
    Replicas, Role, StaticReplicaPace, StaticReplicas, Technique,
};
pub use intendant_techniques::{assignment, rules};
pub use intendant_trace::{Access, Cause, Event, Filter, FilterError, Mark, What};
pub use intendant_transport::socket::Links;
pub use intendant_transport::{TLS_NAME, Tls, TlsError, TlsFileError, TlsFiles, Token, Transport};
pub use intendant_wire::Packing;
pub use node::{Lobby, Node, open_standby, scale};
pub use observer::Observer;
pub use preparer::Preparer;
pub use priority::Work;
pub use recording::TraceConfig;

pub use worker::rows::Rows;
pub use worker::{Ticket, Worker};
