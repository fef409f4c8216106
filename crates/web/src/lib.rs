#![doc = include_str!("../README.md")]
//!
//! Start at [`bind`] and [`serve`], which calls a [`Service`]. [`Gate`] decides which requests are answered,
//! and [`protect`] gives answers their headers. [`token_in`] reads a token; [`Ended`] waits for signals.
//!
//! This crate does not know what a server answers.
#![forbid(unsafe_code)]

mod bind;
mod ended;
mod gate;
mod listen;
mod token;

pub use bind::{BindError, bind};
pub use ended::Ended;
pub use gate::{Clients, Denied, Gate, protect};
pub use listen::{Answering, Guest, Limits, Service, serve};
pub use token::{TokenFileError, token_in};
