//! Derives a process's place in a cluster from its environment: its rank, the number of nodes, and where node
//! 0 is. The place is a function of the variables and of the process's number; this module looks nothing up.
//!
//! Start at [`place`], which tries these in order:
//!
//! 1. `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`: our launcher, torchrun or the user, if all four
//!    are set.
//! 2. Open MPI ([`mpi::find`]), also within a Slurm job, where each of its daemons is a task of `srun`. Then
//!    Slurm ([`slurm::find`]) and the launchers of MPICH and Intel MPI ([`mpi::find_pmi`]), whichever is the
//!    inner one. Then PMIx ([`mpi::find_pmix`]) and Kubernetes ([`kubernetes::find`]). `MASTER_ADDR` and
//!    `MASTER_PORT` override where node 0 is; `RANK` and `WORLD_SIZE`, if they are set, must agree. A
//!    launcher of a single process counts as none.
//! 3. Otherwise, it is an error if a part of the four is set. Within a Slurm job, `MASTER_ADDR` and
//!    `MASTER_PORT` alone are no error: they are for the processes that `srun` starts.
//!
//! If a launcher names the run but no port, this module derives the port from that name. All processes of a
//! run derive the same port, and two runs on a machine rarely do.
//!
//! Not in this module: tokens, sockets, names and addresses ([`crate::rendezvous`]), and launchers that set
//! no ranks (ssh).

mod environment;
mod hostlist;
mod kubernetes;
mod launcher;
mod mpi;
mod slurm;
mod step;

pub(crate) use environment::{Environment, Host};
pub use launcher::Launcher;

use crate::error::RendezvousError;
use crate::variable;
use intendant_core::{NodeId, limits};
use step::{Step, port};

/// The name of a run of torchrun.
const TORCHRUN_RUN: &str = "TORCHELASTIC_RUN_ID";

/// `True` if torchrun's agent listens at MASTER_PORT.
const TORCHRUN_LISTENS: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// The place of a process in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) launcher: Launcher,
    pub(crate) rank: NodeId,
    pub(crate) nodes: usize,
    /// This process's position among those on its machine, and their number; 0 and 1 if the launcher does not
    /// say.
    pub(crate) local_rank: usize,
    pub(crate) local_nodes: usize,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// This process's place; `None` if no launcher started it as one of several.
pub(crate) fn place(env: &Environment<'_>) -> Result<Option<Placement>, RendezvousError> {
    use variable::{ADDRESS, LAUNCHER, NODES, OWN_PORT, PORT, RANK};
    let listens = [RANK, NODES, ADDRESS].into_iter().all(|name| env.has(name));
    if listens && (env.has(PORT) || env.has(OWN_PORT)) {
        return explicit(env);
    }
    let step = match env.text(LAUNCHER).as_deref() {
        Some("none") => None,
        Some(value) => {
            let (value, allowed) = (value.to_owned(), "none, or not set".to_owned());
            return Err(RendezvousError::Invalid { name: LAUNCHER, value, allowed });
        }
        None => find(env)?,
    };
    match step {
        Some(step) if step.nodes > 1 => join(env, step).map(Some),
        Some(step) if step.launcher == Launcher::Kubernetes => Ok(None),
        // The variables are meant for the processes of an inner launcher.
        alone if !env.has(RANK) && !env.has(NODES) && (alone.is_some() || slurm::in_a_job(env)) => Ok(None),
        _ => explicit(env),
    }
}

/// The place that other launchers give this process.
fn find(env: &Environment<'_>) -> Result<Option<Step>, RendezvousError> {
    if let Some(step) = mpi::find(env)? {
        return Ok(Some(step));
    }
    match (slurm::find(env)?, mpi::find_pmi(env)?) {
        // `srun --mpi=pmi2` sets both. If they differ, `mpiexec` runs within a job and its daemons are the
        // tasks.
        (Some(slurm), Some(pmi)) if slurm.nodes == pmi.nodes => Ok(Some(slurm)),
        (_, Some(step)) | (Some(step), None) => Ok(Some(step)),
        (None, None) => match mpi::find_pmix(env)? {
            Some(step) => Ok(Some(step)),
            None => kubernetes::find(env),
        },
    }
}

/// The place that the user, our launcher or torchrun gives this process.
fn explicit(env: &Environment<'_>) -> Result<Option<Placement>, RendezvousError> {
    use variable::{ADDRESS, LOCAL_NODES, LOCAL_RANK, NODES, PORT, RANK};
    let required = [RANK, NODES, ADDRESS, PORT];
    let Some(present) = required.into_iter().find(|name| env.has(name)) else { return Ok(None) };
    let missing = |missing| RendezvousError::Missing { missing, present };
    if let Some(name) = [RANK, NODES, ADDRESS].into_iter().find(|name| !env.has(name)) {
        return Err(missing(name));
    }
    let nodes = env.number(NODES, 1, limits::NODES_MAX as u64)?;
    let rank = env.number(RANK, 0, limits::NODES_MAX as u64 - 1)?;
    let local = |name| env.text(name).and_then(|number| number.parse().ok());
    let local_nodes = local(LOCAL_NODES).filter(|local| (1..=nodes as usize).contains(local)).unwrap_or(1);
    let mut place = Placement {
        launcher: Launcher::Variables,
        rank: node(Launcher::Variables, rank, nodes)?,
        nodes: nodes as usize,
        local_rank: local(LOCAL_RANK).unwrap_or(0),
        local_nodes,
        host: env.host()?.ok_or(missing(ADDRESS))?,
        port: env.port()?.ok_or(missing(PORT))?,
    };
    if let Some(run) = env.text(TORCHRUN_RUN) {
        place.launcher = Launcher::Torchrun;
        // The host name that torchrun gives may resolve to an address that other machines reach, which would
        // need a token.
        if local_nodes == place.nodes {
            place.host = Host::here();
        }
        // torchrun's agent listens at MASTER_PORT itself.
        if env.text(TORCHRUN_LISTENS).as_deref() == Some("True") && !env.has(variable::OWN_PORT) {
            place.port = port(&["torchrun", &run, &place.port.to_string()]);
        }
    }
    Ok(Some(place))
}

/// The place that a launcher gives, with the variables that the user adds.
fn join(env: &Environment<'_>, step: Step) -> Result<Placement, RendezvousError> {
    let Step { launcher, rank, nodes, local_rank, local_nodes, host, port } = step;
    let same = [
        (variable::RANK, rank, launcher.rank_variable()),
        (variable::NODES, nodes, launcher.nodes_variable()),
    ];
    for (name, theirs, variable) in same {
        if env.has(name) && env.number(name, 0, u64::MAX)? != theirs {
            let value = env.text(name).unwrap_or_default();
            return Err(RendezvousError::Contradiction { name, value, launcher, variable, theirs });
        }
    }
    Ok(Placement {
        launcher,
        rank: node(launcher, rank, nodes)?,
        nodes: nodes as usize,
        local_rank,
        local_nodes: local_nodes.clamp(1, nodes as usize),
        host: env.host()?.or(host).ok_or(RendezvousError::NoAddress { launcher, rank, nodes })?,
        port: env.port()?.or(port).ok_or(RendezvousError::NoPort { launcher, rank, nodes })?,
    })
}

fn node(launcher: Launcher, rank: u64, nodes: u64) -> Result<NodeId, RendezvousError> {
    if rank >= nodes {
        let (name, size) = (launcher.rank_variable(), launcher.nodes_variable());
        return Err(RendezvousError::RankOutOfRange { name, rank, size, nodes });
    }
    Ok(NodeId(rank as u16))
}

#[cfg(test)]
mod tests;
