//! Why a command failed, and its exit code.

use intendant_analysis::AnalysisError;
use intendant_train::exit;
use std::path::PathBuf;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    Analysis(AnalysisError),
    /// A picture cannot be written.
    Picture(PathBuf, std::io::Error),
    /// The user asked for something impossible.
    Usage(String),
}

impl From<AnalysisError> for Failure {
    fn from(error: AnalysisError) -> Self {
        Self::Analysis(error)
    }
}

impl Failure {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Analysis(error) if error.is_damage() => exit::DAMAGED,
            Self::Analysis(error) if error.is_usage() => exit::USAGE,
            Self::Analysis(_) | Self::Picture(..) => exit::OTHER,
            Self::Usage(_) => exit::USAGE,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Analysis(error) => error.fmt(f),
            Self::Picture(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Usage(reason) => f.write_str(reason),
        }
    }
}
