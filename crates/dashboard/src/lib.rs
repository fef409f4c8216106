#![doc = include_str!("../README.md")]
//!
//! Start at [`Dashboard::bind`] and [`Settings`]. `library` holds the runs, `api` answers questions about
//! them, `gate` decides who may ask, `live` asks a running cluster, `web/` has the page.
//!
//! Absent on purpose: analysis, which is in `intendant-analysis`; commands that change a cluster.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod assets;
mod dashboard;
mod error;
mod gate;
mod library;
mod listen;
mod live;

pub use dashboard::{Dashboard, Settings};
pub use error::DashboardError;
pub use live::{LiveAddress, LiveAddressError};
