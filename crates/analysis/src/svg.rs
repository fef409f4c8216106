//! Pictures as SVG: allocation over time, management of a key, affinity.
//!
//! Pictures have no scripts, no styles and no references to other files. All texts are escaped. A picture of
//! thousands of rows has one path per colour.

mod affinity;
mod allocation;
mod canvas;
mod key;

pub use affinity::affinity;
pub use allocation::{Panel, allocation};
pub use key::key;
