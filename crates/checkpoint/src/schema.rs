//! The schema of manifests: which versions of the format this program knows.

/// The version of the format.
pub const SCHEMA: &str = "intendant.checkpoint/1";

/// What the schema of every version begins with.
pub(crate) const SCHEMAS: &str = "intendant.checkpoint/";
