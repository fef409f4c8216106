//! `--nodes N` without a launcher around: this process starts N copies of itself and waits for them.

use crate::error::TrainError;
use std::ffi::OsString;
use std::process::ExitCode;

/// Starts `nodes` processes with this process's program and arguments. The exit code is theirs.
pub(crate) fn launch(nodes: usize, argv: &[OsString]) -> Result<ExitCode, TrainError> {
    let program =
        std::env::current_exe().map_err(|source| TrainError::System { what: "find this program", source })?;
    let arguments = argv.iter().skip(1).cloned();
    let code = crate::facade::launch(nodes, program, arguments.collect())?;
    Ok(ExitCode::from(code))
}
