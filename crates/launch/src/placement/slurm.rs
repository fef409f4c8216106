//! Processes that `srun` started: tasks of a job step.

use super::environment::{Environment, Host};
use super::hostlist::{count_at, first_host, first_number};
use super::launcher::Launcher;
use super::step::{Step, port};
use crate::error::RendezvousError;
use intendant_core::limits;

pub(super) const TASKS: &str = Launcher::Slurm.nodes_variable();
const TASK: &str = Launcher::Slurm.rank_variable();
const JOB: &str = "SLURM_JOB_ID";
const STEP: &str = "SLURM_STEP_ID";
const MACHINES: &str = "SLURM_STEP_NUM_NODES";
const MACHINE: &str = "SLURM_NODEID";
const MACHINE_LIST: &str = "SLURM_STEP_NODELIST";
const JOB_MACHINE_LIST: &str = "SLURM_JOB_NODELIST";
const LOCAL_TASK: &str = "SLURM_LOCALID";
const TASKS_PER_MACHINE: &str = "SLURM_STEP_TASKS_PER_NODE";
const RESERVED_PORTS: &str = "SLURM_STEP_RESV_PORTS";
const TERMINAL: &str = "SLURM_PTY_PORT";
const TASK_PROCESS: &str = "SLURM_TASK_PID";

/// Whether this process belongs to a job: as a task of a step, or in the shell of `salloc` or a batch script.
pub(super) fn in_a_job(env: &Environment<'_>) -> bool {
    env.has(JOB)
}

/// This process's step. The shells of `salloc` and of batch scripts have variables of a job and even a task
/// number, but only `srun` sets the variables of a step.
pub(super) fn find(env: &Environment<'_>) -> Result<Option<Step>, RendezvousError> {
    if !env.has(TASKS) || !env.has(TASK) || in_a_terminal(env) {
        return Ok(None);
    }
    let nodes = env.number(TASKS, 1, limits::NODES_MAX as u64)?;
    let rank = env.number(TASK, 0, limits::NODES_MAX as u64 - 1)?;
    let told = |name| env.text(name).unwrap_or_default();
    let machine = told(MACHINE).parse().unwrap_or(0);
    let local_nodes = count_at(&told(TASKS_PER_MACHINE), machine).unwrap_or(1);
    let host = if told(MACHINES) == "1" {
        Host::here()
    } else {
        let list = env.need(MACHINE_LIST, TASKS)?;
        Host::SlurmNode(first_host(&list).ok_or_else(|| invalid_list(MACHINE_LIST, list))?)
    };
    let port = match env.text(RESERVED_PORTS) {
        Some(ports) => first_number(&ports).and_then(|port| port.parse().ok()).ok_or_else(|| {
            let allowed = "a list of ports such as 12000-12003".to_owned();
            RendezvousError::Invalid { name: RESERVED_PORTS, value: ports, allowed }
        })?,
        None => port(&[&told(JOB), &told(STEP)]),
    };
    Ok(Some(Step {
        launcher: Launcher::Slurm,
        rank,
        nodes,
        local_rank: told(LOCAL_TASK).parse().unwrap_or(0),
        local_nodes,
        host: Some(host),
        port: Some(port),
    }))
}

/// The first machine of the job around this process, where other launchers start rank 0 within a job.
pub(super) fn first_machine(env: &Environment<'_>) -> Result<Option<Host>, RendezvousError> {
    let Some(list) = env.text(JOB_MACHINE_LIST) else { return Ok(None) };
    first_host(&list)
        .map(|host| Some(Host::SlurmNode(host)))
        .ok_or_else(|| invalid_list(JOB_MACHINE_LIST, list))
}

/// Whether this process was started from a shell that `srun --pty` runs, perhaps with as many tasks as the
/// job is to have cores. Such a process is no task of that step. The program that `srun --pty` itself starts
/// is a task of it.
pub(super) fn in_a_terminal(env: &Environment<'_>) -> bool {
    env.has(TERMINAL) && env.text(TASK_PROCESS).is_some_and(|pid| pid != env.process.to_string())
}

fn invalid_list(name: &'static str, value: String) -> RendezvousError {
    RendezvousError::Invalid { name, value, allowed: "a list of machines such as n[1-3,7]".to_owned() }
}
