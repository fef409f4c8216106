//! Processes that Open MPI's `mpirun`, the `mpiexec` of MPICH or Intel MPI, or another launcher that speaks
//! PMIx started.

use super::environment::{Environment, Host};
use super::launcher::Launcher;
use super::slurm;
use super::step::{Step, port};
use crate::error::RendezvousError;
use crate::variable;
use intendant_core::limits;

const RANKS: &str = Launcher::OpenMpi.nodes_variable();
const RANK: &str = Launcher::OpenMpi.rank_variable();
const LOCAL_RANK: &str = "OMPI_COMM_WORLD_LOCAL_RANK";
const LOCAL_RANKS: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";
const JOB: &str = "OMPI_MCA_ess_base_jobid";
const PMIX_RANK: &str = Launcher::Pmix.rank_variable();
const PMIX_JOB: &str = "PMIX_NAMESPACE";
const PMI_RANK: &str = Launcher::Pmi.rank_variable();
const PMI_SIZE: &str = Launcher::Pmi.nodes_variable();
// These are variables of MPICH's process manager Hydra, which Intel MPI uses as well.
const HYDRA_LOCAL_RANK: &str = "MPI_LOCALRANKID";
const HYDRA_LOCAL_RANKS: &str = "MPI_LOCALNRANKS";

/// This process's place among those of an `mpirun`. `mpirun` says everything but the machine of rank 0, which
/// matters only if there are several machines.
pub(super) fn find(env: &Environment<'_>) -> Result<Option<Step>, RendezvousError> {
    if !env.has(RANK) {
        return Ok(None);
    }
    env.need(RANKS, RANK)?;
    let nodes = env.number(RANKS, 1, limits::NODES_MAX as u64)?;
    let rank = env.number(RANK, 0, limits::NODES_MAX as u64 - 1)?;
    let local = |name| env.text(name).and_then(|number| number.parse().ok());
    let local_nodes = local(LOCAL_RANKS).unwrap_or(1);
    let host = if local_nodes == nodes { Some(Host::here()) } else { slurm::first_machine(env)? };
    let job = env.text(PMIX_JOB).or_else(|| env.text(JOB)).unwrap_or_default();
    Ok(Some(Step {
        launcher: Launcher::OpenMpi,
        rank,
        nodes,
        local_rank: local(LOCAL_RANK).unwrap_or(0) as usize,
        local_nodes: local_nodes as usize,
        host,
        port: Some(port(&[&job])),
    }))
}

/// This process's place if all that is known of the launcher is that it speaks PMIx. The environment has the
/// rank, but not the number of nodes, which only PMIx's server knows. (`srun --mpi=pmix` sets Slurm's own
/// variables too.)
pub(super) fn find_pmix(env: &Environment<'_>) -> Result<Option<Step>, RendezvousError> {
    if !env.has(PMIX_RANK) || env.has(slurm::TASKS) {
        return Ok(None);
    }
    env.need(variable::NODES, PMIX_RANK)?;
    Ok(Some(Step {
        launcher: Launcher::Pmix,
        rank: env.number(PMIX_RANK, 0, limits::NODES_MAX as u64 - 1)?,
        nodes: env.number(variable::NODES, 1, limits::NODES_MAX as u64)?,
        local_rank: 0,
        local_nodes: 1,
        host: slurm::first_machine(env)?,
        port: Some(port(&[&env.text(PMIX_JOB).unwrap_or_default()])),
    }))
}

/// This process's place among those of an `mpiexec` that speaks PMI. The environment has no name of the run,
/// so a port must be given; a machine must be given unless all processes are on one.
pub(super) fn find_pmi(env: &Environment<'_>) -> Result<Option<Step>, RendezvousError> {
    if !env.has(PMI_RANK) || slurm::in_a_terminal(env) {
        return Ok(None);
    }
    env.need(PMI_SIZE, PMI_RANK)?;
    let nodes = env.number(PMI_SIZE, 1, limits::NODES_MAX as u64)?;
    let local = |name| env.text(name).and_then(|number| number.parse().ok());
    let local_nodes = local(HYDRA_LOCAL_RANKS).unwrap_or(1);
    Ok(Some(Step {
        launcher: Launcher::Pmi,
        rank: env.number(PMI_RANK, 0, limits::NODES_MAX as u64 - 1)?,
        nodes,
        local_rank: local(HYDRA_LOCAL_RANK).unwrap_or(0) as usize,
        local_nodes: local_nodes as usize,
        host: if local_nodes == nodes { Some(Host::here()) } else { slurm::first_machine(env)? },
        port: None,
    }))
}
