#![doc = include_str!("../README.md")]
//!
//! Start at [`Role`]: what this node is to a key right now; it lives in the key's slot ([`SlotState`]) and decides whether an
//! access is served here. [`Directory`] says where an access goes that is not, [`relocation`] how keys move. A [`Policy`] chooses among mechanisms;
//! [`policy`] has one module per technique, to be read beside its paper.
//!
//! Absent on purpose: latches, queues, sockets, clocks. The caller latches the slot, asks, and sends what is to be sent after
//! the latch is gone.
#![forbid(unsafe_code)]

pub mod access;
mod directory;
pub mod policy;
pub mod relocation;
mod role;

pub use directory::{Directory, NextHop};
pub use policy::{Initiator, Order, Policy, Technique};
pub use role::{Role, SlotState, is_newer};
