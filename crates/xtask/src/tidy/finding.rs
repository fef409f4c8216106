//! What a check finds: a place in a file that violates a rule.

use std::fmt;
use std::path::Path;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Width,
    Words,
    Mechanisms,
    Cycles,
}

/// A place that violates a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) check: Check,
    /// From the root of the workspace.
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// `path` from the root of the workspace.
pub(super) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
