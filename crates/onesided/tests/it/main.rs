//! Windows as their users see them.

mod cluster;
mod connecting;
mod hostile;
mod killed;
mod operations;
mod process;
#[cfg(feature = "verbs")]
mod verbs;
