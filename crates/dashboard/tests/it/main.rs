//! The tests of this crate from outside.

mod answers;
mod benchmark;
mod hostile;
mod live;
mod parquet;
mod server;
mod synthetic;
mod trust;
