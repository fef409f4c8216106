#![doc = include_str!("../README.md")]
//!
//! Start at [`Dashboard::bind`] and [`Settings`]. `library` holds the runs, `api` answers questions about
//! them, `guarded` lets only allowed requests in, `live` asks a running cluster, and `web/` has the page.
//!
//! This crate deliberately has no analysis, which is in `intendant-analysis`, and no commands that change a
//! cluster.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod assets;
mod dashboard;
mod error;
mod guarded;
mod library;
mod live;

pub use dashboard::{Dashboard, Settings};
pub use error::DashboardError;
pub use live::{LiveAddress, LiveAddressError};
