#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod aborter;
mod health;
mod meeting;
mod membership;

pub use aborter::Aborter;
pub use health::Health;
pub use meeting::{Meetings, OWN, Payloads};
pub use membership::{Group, Membership};
