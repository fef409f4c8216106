//! `--nodes N` without a launcher around: this process starts N copies of itself and waits for them.

use crate::error::TrainError;
use crate::report::metrics;
use crate::settings::Plan;
use intendant::Rendezvous;
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
    launch = launch.survives(plan.copies > 0);
    // Who asks for other nodes needs the token.
    let own = if plan.copies > 0 { Rendezvous::token_from_env().map_err(TrainError::usage)? } else { None };
    if let Some(token) = metrics::token_of_launched(plan)?.or(own) {
        launch = launch.token(token);
    }
    Ok(ExitCode::from(launch.run()?))
}
