#![doc = include_str!("../README.md")]
//!
//! Start at [`Role`]: what this node is to a key right now; it lives in the key's slot ([`SlotState`]) and decides whether an
//! access is served here. [`Directory`] says where an access goes that is not, [`relocation`] how keys move, [`replication`] how
//! copies are kept in step through the owner, [`allreduce`] how those are that every node keeps, [`assignment`] of which keys,
//! [`clocks`] what bounded staleness waits for. A [`Policy`] chooses among mechanisms;
//! [`policy`] has one module per technique, to be read beside its paper.
//!
//! Absent on purpose: latches, queues, sockets, clocks. The caller latches the slot, asks, and sends what is to be sent after
//! the latch is gone.
#![forbid(unsafe_code)]

pub mod access;
pub mod allreduce;
pub mod assignment;
mod clip;
pub mod clocks;
mod directory;
pub mod policy;
pub mod relocation;
pub mod replication;
mod role;

pub use assignment::{Assignment, AssignmentError, KeyTechnique};
pub use clip::Clip;
pub use directory::{Directory, NextHop};
pub use policy::{
    Act, Choice, Decider, Initiator, Intents, Order, Policy, PolicyError, Replicas, StaticReplicaPace,
    StaticReplicas, Technique,
};
pub use role::{Role, SlotState, is_newer};
