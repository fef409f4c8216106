//! The schema of manifests: which versions of the format this program knows.

/// The version of the format.
pub const SCHEMA: &str = "intendant.checkpoint/1";

/// The prefix of the schema of every version.
pub(crate) const SCHEMAS: &str = "intendant.checkpoint/";
