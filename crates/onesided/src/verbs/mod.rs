//! Windows over RDMA: InfiniBand, and RoCE version 2 (Ethernet), including its implementation in software,
//! `rdma_rxe`.
//!
//! [`Card::find`] chooses a port, [`Endpoint::new`] registers the memory of this node, a gather exchanges
//! [`Address`]es, and [`Endpoint::connect`] makes the window.
//!
//! ```no_run
//! use intendant_onesided::verbs::{Address, Card, Endpoint, VerbsError, VerbsWindow};
//! use intendant_segment::Segment;
//!
//! // `gather` sends bytes to all nodes and returns those of all. `meet` returns when all have called it.
//! fn connect(
//!     (rank, nodes, run): (usize, usize, u64),
//!     gather: impl FnOnce(Vec<u8>) -> Vec<Vec<u8>>,
//!     meet: impl FnOnce(),
//! ) -> Result<VerbsWindow, Box<dyn std::error::Error>> {
//!     let endpoint = Endpoint::new(Card::find(None, None)?, Segment::shared(1 << 20)?, rank, nodes, run)?;
//!     let sent = gather(endpoint.address().to_bytes());
//!     let addresses = sent.iter().map(|bytes| Address::from_bytes(bytes));
//!     let addresses = addresses.collect::<Result<Vec<_>, VerbsError>>()?;
//!     let window = endpoint.connect(&addresses)?;
//!     meet();
//!     Ok(window)
//! }
//! ```
//!
//! This module needs the feature `verbs`. The feature needs libibverbs, cmake and libclang to build, and
//! programs with it need libibverbs to start, whether they use it or not. That is why it is a feature, and
//! off by default.

mod address;
mod endpoint;
mod error;
mod peer;
mod window;

pub use address::Address;
pub use endpoint::Endpoint;
pub use error::VerbsError;
pub use intendant_verbs::{Card, DeviceError};
pub use window::VerbsWindow;
