//! The launchers that tell processes their places.

use crate::variable;
use std::fmt;

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
    pub const fn nodes_variable(self) -> &'static str {
        match self {
            Self::Slurm => "SLURM_STEP_NUM_TASKS",
            Self::OpenMpi => "OMPI_COMM_WORLD_SIZE",
            Self::Pmi => "PMI_SIZE",
            Self::Variables | Self::Torchrun | Self::Pmix | Self::Kubernetes => variable::NODES,
        }
    }

    /// The variable with the rank.
    pub(super) const fn rank_variable(self) -> &'static str {
        match self {
            Self::Slurm => "SLURM_PROCID",
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Pmi => "PMI_RANK",
            Self::Pmix => "PMIX_RANK",
            Self::Kubernetes => "JOB_COMPLETION_INDEX",
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
