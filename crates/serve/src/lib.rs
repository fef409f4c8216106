#![doc = include_str!("../README.md")]
//!
//! Start at [`Program`], which an application declares, and [`Model`], what it loads. [`run`] serves it as
//! [`ServeArgs`] say. A request goes through `site` (who may ask, which path), `body` (the questions) and
//! `desk` (answers to requests that wait together). `current` has the model, and takes up a new one. `counts`
//! has the metrics, `openapi` the description of the endpoints.
//!
//! This crate does not know what a question means: applications do.
#![forbid(unsafe_code)]

mod args;
mod body;
mod counts;
mod current;
mod desk;
mod error;
mod openapi;
mod program;
mod refusal;
mod server;
mod site;

pub use args::ServeArgs;
pub use error::ServeError;
pub use program::{Endpoint, Found, K_DEFAULT, Kind, Member, Model, Program, Question, each};
pub use server::run;
