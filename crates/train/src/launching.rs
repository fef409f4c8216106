//! `--nodes N` without a launcher around: this process starts N copies of itself and waits for them.

use crate::error::TrainError;
use intendant::launch::Launch;
use std::process::ExitCode;

/// Starts `nodes` processes with this process's program and arguments. The exit code is theirs.
pub(crate) fn launch(nodes: usize) -> Result<ExitCode, TrainError> {
    Ok(ExitCode::from(Launch::this_program(nodes)?.run()?))
}
