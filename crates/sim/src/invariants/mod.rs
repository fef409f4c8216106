//! What the simulator checks of itself, and of any run, because it costs next to nothing; one file each.
//!
//! | file | invariant |
//! | --- | --- |
//! | `fifo` | a connection keeps order |
//! | `bounded` | workers respect their limit of outstanding bytes |
//! | `progress` | a run ends within a bounded number of events, and all workers are done then |
//! | `quiet` | when the channels report quiescence, nothing is in flight |
//! | `cover` | a snapshot contains every key of its range exactly once |
//!
//! A [`Probe`](crate::cluster::Probe) may check more: the crate `intendant-checkers` has invariants of
//! messages, calls and nodes.

mod bounded;
mod cover;
mod fifo;
mod finding;
mod progress;
mod quiet;

pub(crate) use bounded::Bounded;
pub(crate) use cover::Cover;
pub(crate) use fifo::Fifo;
pub use finding::{Finding, Violation};
pub(crate) use progress::Progress;
pub(crate) use quiet::{InFlight, check as check_quiet};
