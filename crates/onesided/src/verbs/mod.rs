//! Windows over RDMA: InfiniBand, and RoCE version 2 (Ethernet), also its implementation in software, `rdma_rxe`.
//!
//! [`Card::find`] chooses a port, [`Endpoint::new`] registers the memory of this node, a gather exchanges
//! [`Address`]es, and [`Endpoint::connect`] makes the window.
//!
//! Feature `verbs`. It needs libibverbs, cmake and libclang to build, and programs with it need libibverbs to
//! start, whether they use it or not: hence a feature, which is off by default.

mod address;
mod card;
mod endpoint;
mod error;
mod ffi;
mod peer;
mod window;

pub use address::Address;
pub use card::Card;
pub use endpoint::Endpoint;
pub use error::VerbsError;
pub use window::VerbsWindow;
