//! Training in virtual time, on clusters whose invariants are checked.

use super::Checker;
use intendant_sim::{Observer, Origin, TaskConfig, TaskFailure, TaskOutcome, observe_task};
use intendant_task::Task;
use std::sync::Arc;

/// As [`intendant_sim::run_task`], with all checks.
///
/// # Errors
/// See [`TaskFailure`]. A broken invariant is one.
pub fn run_task<T: Task>(
    task: &Arc<T>,
    config: &TaskConfig,
    observer: &mut dyn Observer,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    resume_task(task, config, None, observer)
}

/// As [`intendant_sim::resume_task`], with all checks.
///
/// # Errors
/// See [`TaskFailure`]. A broken invariant is one.
pub fn resume_task<T: Task>(
    task: &Arc<T>,
    config: &TaskConfig,
    origin: Option<&Origin<T::Element>>,
    observer: &mut dyn Observer,
) -> Result<TaskOutcome<T::Element>, TaskFailure> {
    observe_task(task, config, origin, observer, Checker::new)
}
