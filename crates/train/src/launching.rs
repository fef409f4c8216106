//! `--nodes N` without a launcher around: this process starts N copies of itself and waits for them.

use crate::error::TrainError;
use crate::metrics;
use crate::plan::Plan;
use intendant::launch::Launch;
use std::process::ExitCode;
use std::time::Duration;

/// Time for nodes to end when that for a last checkpoint is over.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Starts the nodes as processes with this process's program and arguments. The exit code is theirs.
pub(crate) fn launch(plan: &Plan) -> Result<ExitCode, TrainError> {
    let checkpoints = &plan.checkpoints;
    let grace = checkpoints.folder.as_ref().map_or(Duration::ZERO, |_| checkpoints.grace) + AFTERWARDS;
    let mut launch = Launch::this_program(plan.nodes)?.max_restarts(checkpoints.max_restarts).grace(grace);
    if let Some(token) = metrics::token_of_launched(plan)? {
        launch = launch.token(token);
    }
    Ok(ExitCode::from(launch.run()?))
}
