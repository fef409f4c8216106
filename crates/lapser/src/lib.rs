#![doc = include_str!("../README.md")]
//!
//! Start at [`Node`], the protocol of one node; then read [`Directory`], which tells it where every item
//! lies. The modules by subject:
//!
//! | module | subject |
//! | --- | --- |
//! | `declaration` | what a node produces and consumes, and its bytes for the gather before the start |
//! | `directory` | the layout of all segments, from the declarations of all nodes |
//! | `producer` | sets, and the writes that push them |
//! | `batch` | one hint for several sets |
//! | `consumer` | gets, the copies that answer them, and the reads that renew copies |
//! | `farewell` | how a node that has finished tells the others |
//! | `node` | all of them, closed peers, and the end |
//!
//! The semantics are those of Lapser [Lapser §3]: `init` is [`Directory::new`], `set`, `get` and `finish` are
//! methods of [`Node`]. Its Algorithms 3.2 and 3.3 are printed with an inverted condition and the wrong
//! connective; the documentation of [`Node::get`] states the condition that §3.1.3.C requires.
//!
//! Absent on purpose: windows, sockets, clocks, threads. The caller passes the time and the reports of its
//! window, and executes the [`Effect`]s in order before the next call. Each method takes the node's own
//! segment, which other nodes read and write.
#![forbid(unsafe_code)]

mod batch;
mod consumer;
mod declaration;
mod directory;
mod effect;
mod error;
mod farewell;
mod node;
mod producer;
mod stats;
mod turn;
mod waits;

pub use declaration::{Declaration, Item, Want};
pub use directory::{CopySlots, Directory, Settings, Variant, WORDS_MAX};
pub use effect::{Answer, Effect, Pace};
pub use error::{DeclarationError, DirectoryError, FinishError, GetError, SetError, StartError};
pub use node::Node;
pub use stats::Stats;
