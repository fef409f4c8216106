//! From the environment of a process to its place in a cluster: which node of how many it is, and where node 0 is. A function of
//! the variables and of the process's number; nothing is looked up.
//!
//! Start at [`place`]. In this order:
//!
//! 1. `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`: what our launcher, torchrun or the user say, if they say all of it.
//! 2. What [`mpi`] finds (Open MPI's `mpirun`, within a Slurm job too: there each of its daemons is a task of `srun`), else what
//!    [`slurm`] finds, else what PMIx says. Of the above, `MASTER_ADDR` and `MASTER_PORT` then say where node 0 is; `RANK` and `WORLD_SIZE`, if they
//!    are set, may not say something else. A launcher of a single process is none: the program runs as it would in a shell.
//! 3. Otherwise a part of the four is a mistake; but within a job, `MASTER_ADDR` and `MASTER_PORT` are meant for whom `srun` starts.
//!
//! Where the launcher says nothing of a port, one is derived from its name for the run, so that all processes come to the same
//! and two runs on a machine hardly ever do.
//!
//! Absent on purpose: tokens, sockets, names and addresses ([`crate::rendezvous`]); launchers that say nothing of ranks (ssh).

mod hostlist;
mod mpi;
mod slurm;

use crate::rendezvous::{RendezvousError, variable};
use intendant_core::{NodeId, limits, random};
use std::fmt;

/// Ports that are derived: below those that Linux gives to whoever asks for any (32768 and above).
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Who told this process its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `RANK` and `WORLD_SIZE`: our launcher, torchrun, or a user by hand.
    Variables,
    /// Slurm's `srun`.
    Slurm,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// Another launcher that speaks PMIx.
    Pmix,
}

impl Launcher {
    /// The variable with the number of nodes.
    #[must_use]
    pub fn nodes_variable(self) -> &'static str {
        match self {
            Self::Slurm => slurm::TASKS,
            Self::OpenMpi => mpi::RANKS,
            Self::Variables | Self::Pmix => variable::NODES,
        }
    }

    fn rank_variable(self) -> &'static str {
        match self {
            Self::Slurm => slurm::TASK,
            Self::OpenMpi => mpi::RANK,
            Self::Pmix => mpi::PMIX_RANK,
            Self::Variables => variable::RANK,
        }
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Variables => "the environment",
            Self::Slurm => "srun",
            Self::OpenMpi => "mpirun",
            Self::Pmix => "a PMIx launcher",
        })
    }
}

/// The machine of node 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// A name or address.
    Named(String),
    /// A name in Slurm's configuration, which need not be one that the network knows.
    SlurmNode(String),
}

impl Host {
    fn here() -> Self {
        Self::Named("127.0.0.1".to_owned())
    }
}

/// Where a process belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) launcher: Launcher,
    pub(crate) rank: NodeId,
    pub(crate) nodes: usize,
    /// This process among those of the cluster on its machine, as far as anybody said.
    pub(crate) local_rank: usize,
    pub(crate) local_nodes: usize,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// What a launcher says to one of its processes.
struct Step {
    launcher: Launcher,
    rank: u64,
    nodes: u64,
    local_rank: usize,
    local_nodes: usize,
    /// `None` if it does not say.
    host: Option<Host>,
    port: u16,
}

/// The variables of a process, and its number.
pub(crate) struct Environment<'a> {
    pub(crate) lookup: &'a dyn Fn(&'static str) -> Option<String>,
    pub(crate) process: u32,
}

impl Environment<'_> {
    pub(crate) fn text(&self, name: &'static str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned())
    }

    fn has(&self, name: &'static str) -> bool {
        (self.lookup)(name).is_some()
    }

    fn need(&self, name: &'static str, present: &'static str) -> Result<String, RendezvousError> {
        self.text(name).ok_or(RendezvousError::Incomplete { missing: name, present })
    }

    /// A number within bounds.
    pub(crate) fn number(&self, name: &'static str, min: u64, max: u64) -> Result<u64, RendezvousError> {
        let value = self.text(name).unwrap_or_default();
        value.parse().ok().filter(|number| (min..=max).contains(number)).ok_or_else(|| {
            let allowed = format!("a number from {min} to {max}");
            RendezvousError::Invalid { name, value, allowed }
        })
    }

    /// The port that was asked for.
    fn port(&self) -> Result<Option<u16>, RendezvousError> {
        let name = [variable::OWN_PORT, variable::PORT].into_iter().find(|name| self.has(name));
        name.map(|name| Ok(self.number(name, 1, u16::MAX.into())? as u16)).transpose()
    }

    /// The machine of node 0 that was asked for.
    fn host(&self) -> Result<Option<Host>, RendezvousError> {
        match self.text(variable::ADDRESS) {
            Some(value) if value.is_empty() => {
                let allowed = "a host name or address".to_owned();
                Err(RendezvousError::Invalid { name: variable::ADDRESS, value, allowed })
            }
            host => Ok(host.map(Host::Named)),
        }
    }
}

/// This process's place; `None` if it belongs to no cluster of several processes that were started for it.
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
        None => match (mpi::find(env)?, slurm::find(env)?) {
            (None, None) => mpi::find_pmix(env)?,
            (step, other) => step.or(other),
        },
    };
    match step {
        Some(step) if step.nodes > 1 => join(env, step).map(Some),
        // Only who is started by a launcher of several, or nobody else, is meant.
        alone if !env.has(RANK) && !env.has(NODES) && (alone.is_some() || slurm::in_a_job(env)) => Ok(None),
        _ => explicit(env),
    }
}

/// What the user or our launcher says.
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
    Ok(Some(Placement {
        launcher: Launcher::Variables,
        rank: node(Launcher::Variables, rank, nodes)?,
        nodes: nodes as usize,
        // What cannot be is of no importance.
        local_rank: local(LOCAL_RANK).unwrap_or(0),
        local_nodes: local(LOCAL_NODES).filter(|local| (1..=nodes as usize).contains(local)).unwrap_or(1),
        host: env.host()?.ok_or(missing(ADDRESS))?,
        port: env.port()?.ok_or(missing(PORT))?,
    }))
}

/// What a launcher says, and the user adds.
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
        port: env.port()?.unwrap_or(port),
    })
}

fn node(launcher: Launcher, rank: u64, nodes: u64) -> Result<NodeId, RendezvousError> {
    if rank >= nodes {
        let (name, size) = (launcher.rank_variable(), launcher.nodes_variable());
        return Err(RendezvousError::RankOutOfRange { name, rank, size, nodes });
    }
    Ok(NodeId(rank as u16))
}

/// The port of the run with these names.
fn port(names: &[&str]) -> u16 {
    let bytes: Vec<u64> = names.join("/").bytes().map(u64::from).collect();
    PORTS.start + (random::stream(0, &bytes) % PORTS.len() as u64) as u16
}

#[cfg(test)]
mod tests;
