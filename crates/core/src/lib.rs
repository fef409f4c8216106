#![doc = include_str!("../README.md")]
//!
//! The types that all other crates use: ids, clocks, element types and the layout of a model.
//!
//! Start at [`Layout`]: it defines which keys exist, how long their values are, and each key's shard, channel
//! and home. [`Key`], [`NodeId`], [`WorkerId`], [`ChannelId`], [`Clock`] and [`Tick`] are newtypes, so that a
//! key never passes for a rank. [`Element`] is the type of a value's elements (`f32` or `f64`, one per
//! cluster).
//!
//! This crate has neither storage nor messages, and uses neither the clock nor the randomness of the
//! operating system. [`random`] holds the seeded functions that must give the same answer on every node and
//! platform.
#![forbid(unsafe_code)]

mod bf16;
mod combine;
mod element;
mod histogram;
mod ids;
mod instances;
mod layout;
pub mod limits;
mod lock;
mod movement;
mod name;
mod precision;
pub mod random;
mod rule;
mod statistics;

pub use combine::{Combine, Updates};
pub use element::{Element, ElementType, add_bytes, copy_from_bytes, copy_to_bytes};
pub use histogram::{Distribution, Histogram};
pub use ids::{ChannelId, Clock, Key, NodeId, Tick, WorkerId};
pub use layout::{KeyOrder, KeyRange, Layout, LayoutBuilder, LayoutError};
pub use lock::lock;
pub use movement::Movement;
pub use name::{UnknownName, by_name};
pub use precision::{Precision, from_bf16};
pub use rule::{Rule, SharedRule, Timing};
pub use statistics::{Amount, Count, Form, Quantity, Shown, Statistic, Statistics};

/// Fills the row of a key when a node first owns the key: the value and, with a [`Rule`], the state and
/// pending operands behind it, which usually stay zero. The result must depend only on the key (and on
/// captured seeds), so that the model is the same for every technique and number of nodes. The slice is
/// zeroed before the call. It runs under a latch: it must not use the parameter server itself.
pub type Initialiser<E> = std::sync::Arc<dyn Fn(Key, &mut [E]) + Send + Sync>;

/// An assertion about our own state. It is active in debug builds, in tests and in the simulator (it follows
/// `debug_assertions` and needs no feature). Bad input from a peer, a file or a caller is never a
/// `strict_assert`, but an error.
#[macro_export]
macro_rules! strict_assert {
    ($($arg:tt)*) => {
        if cfg!(debug_assertions) {
            assert!($($arg)*);
        }
    };
}
