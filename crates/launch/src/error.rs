//! Errors in the environment of a process.

use crate::placement::Launcher;
use crate::variable;
use intendant_transport::TokenError;
use std::path::PathBuf;

/// Why an environment does not describe a rendezvous.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousError {
    /// Some variables are set, others are not.
    #[error(
        "the environment variable {missing} is not set although {present} is; set RANK, WORLD_SIZE, \
         MASTER_ADDR and MASTER_PORT on every process, or none of them"
    )]
    Missing {
        /// The variable that is not set.
        missing: &'static str,
        /// A variable that is set.
        present: &'static str,
    },
    /// A launcher sets only a part of the variables that are needed.
    #[error(
        "the environment variable {missing} is not set although {present} is; set {missing}, or \
         INTENDANT_LAUNCHER=none to ignore the launcher"
    )]
    Incomplete {
        /// The variable that is not set.
        missing: &'static str,
        /// A variable that is set.
        present: &'static str,
    },
    /// The user's variables contradict the launcher's.
    #[error(
        "{name} is '{value}', but {variable} of {launcher} is {theirs}; unset {name}, or set all of RANK, \
         WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    )]
    Contradiction {
        /// The variable that the user set.
        name: &'static str,
        /// Its value.
        value: String,
        /// The launcher.
        launcher: Launcher,
        /// The launcher's variable.
        variable: &'static str,
        /// Its value.
        theirs: u64,
    },
    /// The launcher does not say on which machine node 0 is.
    #[error(
        "{launcher} started this process as rank {rank} of {nodes} on several machines, and does not say on \
         which of them rank 0 is; set MASTER_ADDR to the first machine and give all ranks a token ({})",
        launcher.example(&[(variable::ADDRESS, "HOST"), (variable::TOKEN_FILE, "FILE")])
    )]
    NoAddress {
        /// The launcher.
        launcher: Launcher,
        /// This process's rank.
        rank: u64,
        /// Number of nodes.
        nodes: u64,
    },
    /// The launcher gives the run no name from which a port could be derived.
    #[error(
        "{launcher} started this process as rank {rank} of {nodes}, and does not say at which port the ranks \
         meet; set MASTER_PORT to a port that is free on the machine of rank 0 ({})",
        launcher.example(&[(variable::PORT, "29500")])
    )]
    NoPort {
        /// The launcher.
        launcher: Launcher,
        /// This process's rank.
        rank: u64,
        /// Number of nodes.
        nodes: u64,
    },
    /// The machine of node 0 has a name, but no address.
    #[error(
        "rank 0 is on Slurm's node {host}, which has no address that this machine knows ({detail}); set \
         MASTER_ADDR to a name or address of that machine before srun"
    )]
    Nowhere {
        /// The machine's name.
        host: String,
        /// What was tried.
        detail: String,
    },
    /// A variable has an invalid value. The error does not repeat the value of a secret.
    #[error("the environment variable {name} is '{value}'; it must be {allowed}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The token is malformed.
    #[error("{place}: {source}; `openssl rand -hex 32` makes one")]
    Token {
        /// The variable or file.
        place: String,
        /// What is wrong.
        source: TokenError,
    },
    /// The token file cannot be read.
    #[error("cannot read the token from {} (named by INTENDANT_TOKEN_FILE): {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A rank beyond the number of nodes.
    #[error("{name} is {rank}, but with {size} {nodes} ranks are 0 to {}", nodes.saturating_sub(1))]
    RankOutOfRange {
        /// The variable with the rank.
        name: &'static str,
        /// The rank.
        rank: u64,
        /// The variable with the number of nodes.
        size: &'static str,
        /// Number of nodes.
        nodes: u64,
    },
}
