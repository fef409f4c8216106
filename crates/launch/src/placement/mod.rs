//! From the environment of a process to its place in a cluster: which node of how many it is, and where node
//! 0 is. A function of the variables and of the process's number; nothing is looked up.
//!
//! Start at [`place`], which asks in this order:
//!
//! 1. `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`: our launcher, torchrun or the user, if all four
//!    are set.
//! 2. Open MPI ([`mpi::find`]), also within a Slurm job, where each of its daemons is a task of `srun`. Then
//!    Slurm ([`slurm::find`]) and the launchers of MPICH and Intel MPI ([`mpi::find_pmi`]), whichever is the
//!    inner one. Then PMIx ([`mpi::find_pmix`]) and Kubernetes ([`kubernetes::find`]). `MASTER_ADDR` and
//!    `MASTER_PORT` override where node 0 is; `RANK` and `WORLD_SIZE`, if they are set, must agree. A
//!    launcher of a single process counts as none.
//! 3. Otherwise, a part of the four is a mistake. Within a Slurm job, `MASTER_ADDR` and `MASTER_PORT` alone
//!    are none: they are for the processes that `srun` starts.
//!
//! Where a launcher names the run but no port, the port is derived from that name. All processes of a run
//! derive the same port, and two runs on a machine rarely do.
//!
//! Not in this module: tokens, sockets, names and addresses ([`crate::rendezvous`]), and launchers that set
//! no ranks (ssh).

mod hostlist;
mod kubernetes;
mod mpi;
mod slurm;

use crate::rendezvous::{RendezvousError, variable};
use intendant_core::{NodeId, limits, random};
use std::fmt;

/// Derived ports. Linux chooses from 32768 and above when a program asks for any port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The name of a run of torchrun.
const TORCHRUN_RUN: &str = "TORCHELASTIC_RUN_ID";

/// `True` if torchrun's agent listens at MASTER_PORT.
const TORCHRUN_LISTENS: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// The launcher that told this process its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `RANK` and `WORLD_SIZE`: our launcher, or a user by hand.
    Variables,
    /// PyTorch's torchrun.
    Torchrun,
    /// Slurm's `srun`.
    Slurm,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// `mpiexec` of MPICH or Intel MPI, or another launcher that speaks PMI.
    Pmi,
    /// Another launcher that speaks PMIx.
    Pmix,
    /// An indexed job of Kubernetes.
    Kubernetes,
}

impl Launcher {
    /// The variable with the number of nodes.
    #[must_use]
    pub fn nodes_variable(self) -> &'static str {
        match self {
            Self::Slurm => slurm::TASKS,
            Self::OpenMpi => mpi::RANKS,
            Self::Pmi => mpi::PMI_SIZE,
            Self::Variables | Self::Torchrun | Self::Pmix | Self::Kubernetes => variable::NODES,
        }
    }

    fn rank_variable(self) -> &'static str {
        match self {
            Self::Slurm => slurm::TASK,
            Self::OpenMpi => mpi::RANK,
            Self::Pmi => mpi::PMI_RANK,
            Self::Pmix => mpi::PMIX_RANK,
            Self::Kubernetes => kubernetes::INDEX,
            Self::Variables | Self::Torchrun => variable::RANK,
        }
    }

    /// How a user of this launcher sets environment variables for all processes.
    pub(crate) fn example(self, variables: &[(&str, &str)]) -> String {
        let (before, option, between) = match self {
            Self::OpenMpi => ("mpirun", " -x ", "="),
            Self::Pmi => ("mpiexec", " -genv ", " "),
            Self::Kubernetes => ("in the pod template:", " ", "="),
            Self::Variables | Self::Torchrun | Self::Slurm | Self::Pmix => ("export", " ", "="),
        };
        let set = |(name, value): &(&str, &str)| format!("{option}{name}{between}{value}");
        before.to_owned() + &variables.iter().map(set).collect::<String>()
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Variables => "the environment",
            Self::Torchrun => "torchrun",
            Self::Slurm => "srun",
            Self::OpenMpi => "mpirun",
            Self::Pmi => "mpiexec (PMI)",
            Self::Pmix => "a PMIx launcher",
            Self::Kubernetes => "Kubernetes",
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
    /// This process's position among those on its machine, and their number; 0 and 1 if the launcher does not
    /// tell.
    pub(crate) local_rank: usize,
    pub(crate) local_nodes: usize,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// What a launcher tells one of its processes.
struct Step {
    launcher: Launcher,
    rank: u64,
    nodes: u64,
    local_rank: usize,
    local_nodes: usize,
    /// `None` if the launcher does not tell.
    host: Option<Host>,
    port: Option<u16>,
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
        let Some(value) = self.text(variable::ADDRESS) else { return Ok(None) };
        // An IPv6 address, as it is written in front of a port.
        let bare = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or(&value);
        if bare.is_empty() {
            let allowed = "a host name or address".to_owned();
            return Err(RendezvousError::Invalid { name: variable::ADDRESS, value, allowed });
        }
        Ok(Some(Host::Named(bare.to_owned())))
    }
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

/// What other launchers tell this process.
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

/// What the user, our launcher or torchrun tells this process.
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
        // The name that torchrun gives may lead to an address that other machines reach, which would need a
        // token.
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

/// What a launcher tells, and the user adds.
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

/// The port of the run with these names.
fn port(names: &[&str]) -> u16 {
    let bytes: Vec<u64> = names.join("/").bytes().map(u64::from).collect();
    PORTS.start + (random::stream(0, &bytes) % PORTS.len() as u64) as u16
}

#[cfg(test)]
mod tests;
