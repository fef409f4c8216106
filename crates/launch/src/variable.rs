//! Names of the environment variables that tell processes how to find each other.

pub(crate) const RANK: &str = "RANK";
pub(crate) const LOCAL_RANK: &str = "LOCAL_RANK";
pub(crate) const NODES: &str = "WORLD_SIZE";
pub(crate) const LOCAL_NODES: &str = "LOCAL_WORLD_SIZE";
pub(crate) const ADDRESS: &str = "MASTER_ADDR";
pub(crate) const PORT: &str = "MASTER_PORT";
pub(crate) const OWN_PORT: &str = "INTENDANT_MASTER_PORT";
pub(crate) const DATA_PORT: &str = "INTENDANT_DATA_PORT";
pub(crate) const LAUNCHER: &str = "INTENDANT_LAUNCHER";
pub(crate) const TOKEN: &str = "INTENDANT_TOKEN";
pub(crate) const TOKEN_FILE: &str = "INTENDANT_TOKEN_FILE";
pub(crate) const JOIN_SECONDS: &str = "INTENDANT_JOIN_SECONDS";
pub(crate) const LISTEN_FD: &str = "INTENDANT_LISTEN_FD";
pub(crate) const LAUNCHED: &str = "INTENDANT_LAUNCHED";
pub(crate) const SAVED_FD: &str = "INTENDANT_SAVED_FD";
pub(crate) const OWN_TOKEN: &str = "INTENDANT_OWN_TOKEN";

/// The environment variables of this crate that start with `INTENDANT_`. A program that refuses unknown
/// variables with this prefix must allow these.
pub const VARIABLES: [&str; 10] = [
    OWN_PORT,
    DATA_PORT,
    LAUNCHER,
    TOKEN,
    TOKEN_FILE,
    JOIN_SECONDS,
    LISTEN_FD,
    LAUNCHED,
    SAVED_FD,
    OWN_TOKEN,
];
