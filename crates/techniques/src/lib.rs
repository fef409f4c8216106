#![doc = include_str!("../README.md")]
//!
//! Start at [`Role`]: what this node is to a key. The role is part of the key's slot ([`SlotState`]) and
//! decides whether this node serves an access. The mechanisms:
//!
//! - [`access`]: pull, push and set, at the owner or at a node with a copy;
//! - [`Directory`]: the node to which a node sends an access that it does not serve;
//! - [`location`]: how a node finds the main copies of keys;
//! - [`relocation`]: how main copies move;
//! - [`replication`]: how the owner keeps replicas in step;
//! - [`allreduce`]: how static replicas, which every node has, are kept in step; [`assignment`]: which keys
//!   have them; [`Clip`]: how their updates are scaled down;
//! - [`clocks`]: what bounded staleness waits for.
//!
//! A [`Policy`] chooses among mechanisms; [`policy`] has one module per technique (the ablations of
//! `adaptive` share one), to be read together with its paper.
//!
//! This crate has no latches, queues, sockets or clocks. The caller latches the slot, calls this crate, and
//! sends messages after it has released the latch.
#![forbid(unsafe_code)]

pub mod access;
pub mod allreduce;
pub mod assignment;
mod clip;
pub mod clocks;
pub mod combine;
mod directory;
pub mod location;
pub mod policy;
pub mod relocation;
pub mod replication;
mod role;
pub mod rules;

pub use assignment::{Assignment, AssignmentError, KeyTechnique};
pub use clip::Clip;
pub use directory::{Directory, NextHop};
pub use policy::{
    Act, Choice, Decider, Declaration, Initiator, IntentPolicy, Location, Order, Policy, PolicyError,
    Replicas, StaticReplicaPace, StaticReplicas, Technique,
};
pub use role::{Role, SlotState, is_newer};
