//! Instructions per key of single paths, each an example program that does the same over and over.

use super::valgrind;
use crate::process;
use serde::{Deserialize, Serialize};

/// The packages with examples that have paths.
pub(super) const EXAMPLES: [(&str, &str); 2] =
    [("intendant-engine", "hot_paths"), ("intendant-sampling", "draws")];

/// A path of an example: `EXAMPLE PATH NODES CALLS` takes it CALLS times.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Path {
    pub(super) what: String,
    example: String,
    path: String,
    nodes: usize,
    /// Keys per call.
    keys: u64,
    /// Instructions per key.
    pub(super) instructions: f64,
}

/// Minimum number of keys that the calls of the shorter and the longer run access. The difference of the runs
/// is the cost of the calls; with this many keys, one-time allocations are negligible.
const KEYS: [u64; 2] = [12_800, 25_600];
/// Upper bound of the calls: a call for few keys costs more per key, so fewer keys suffice.
const CALLS_MAX: [u64; 2] = [4_000, 8_000];

impl Path {
    /// Instructions per key.
    pub(super) fn count(&self) -> Result<f64, String> {
        let [fewer, more] = [0, 1].map(|run| KEYS[run].div_ceil(self.keys).min(CALLS_MAX[run]));
        let difference = self.total(more)?.saturating_sub(self.total(fewer)?);
        Ok(difference as f64 / ((more - fewer) * self.keys) as f64)
    }

    /// Instructions of a run with `calls` calls.
    fn total(&self, calls: u64) -> Result<u64, String> {
        let program = process::target().join("release/examples").join(&self.example);
        let arguments = [self.path.clone(), self.nodes.to_string(), calls.to_string()];
        valgrind::count(&program, arguments, &process::target().join("instructions/path.out"))
    }
}
