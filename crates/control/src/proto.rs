//! Messages of the control plane. `proto/control.rs` is generated from `proto/control.proto` and committed,
//! so that a build needs no protocol compiler. `cargo xtask-protocol` compares the two files, and generates
//! the code anew.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_types
)]

include!("../proto/control.rs");
