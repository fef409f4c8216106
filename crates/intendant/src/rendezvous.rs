//! How the processes of a cluster find each other: the environment that a launcher gives to each of them.
//!
//! Ours (`launch`) and torchrun agree on `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`; `srun` and `mpirun` have variables
//! of their own, which [`crate::placement`] reads; the rest is ours and optional.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `RANK`, `WORLD_SIZE` | this node; how many there are. Under `srun` and `mpirun`, theirs |
//! | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | the same on this machine; optional |
//! | `MASTER_ADDR`, `MASTER_PORT` | where node 0 serves the coordinator |
//! | `INTENDANT_MASTER_PORT` | instead of `MASTER_PORT`, where the launcher itself listens there (torchrun's agent does) |
//! | `INTENDANT_LAUNCHER` | `none`: look at none but these, whatever started this process |
//! | `INTENDANT_TOKEN` | the cluster's token in hexadecimal digits; set by our launcher |
//! | `INTENDANT_TOKEN_FILE` | a file with the token, where no launcher of ours sets one |
//! | `INTENDANT_JOIN_SECONDS` | how long to wait for the other nodes; 60 |
//! | `INTENDANT_LISTEN_FD` | node 0 under our launcher: the coordinator's listening socket, already bound |
//! | `INTENDANT_LAUNCHED` | 1 under our launcher |
//!
//! Absent on purpose: sockets (`control` opens them), and what variables of launchers mean (`placement`).

use crate::locate::locate;
use crate::placement::{Environment, Host, Launcher, Placement, place};
use intendant_core::NodeId;
use intendant_transport::{Token, TokenError};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How long a node waits for the others unless told otherwise.
pub(crate) const JOIN_DEADLINE_DEFAULT: Duration = Duration::from_secs(60);

/// Names of the environment variables.
pub(crate) mod variable {
    pub(crate) const RANK: &str = "RANK";
    pub(crate) const LOCAL_RANK: &str = "LOCAL_RANK";
    pub(crate) const NODES: &str = "WORLD_SIZE";
    pub(crate) const LOCAL_NODES: &str = "LOCAL_WORLD_SIZE";
    pub(crate) const ADDRESS: &str = "MASTER_ADDR";
    pub(crate) const PORT: &str = "MASTER_PORT";
    pub(crate) const OWN_PORT: &str = "INTENDANT_MASTER_PORT";
    pub(crate) const LAUNCHER: &str = "INTENDANT_LAUNCHER";
    pub(crate) const TOKEN: &str = "INTENDANT_TOKEN";
    pub(crate) const TOKEN_FILE: &str = "INTENDANT_TOKEN_FILE";
    pub(crate) const JOIN_SECONDS: &str = "INTENDANT_JOIN_SECONDS";
    pub(crate) const LISTEN_FD: &str = "INTENDANT_LISTEN_FD";
    pub(crate) const LAUNCHED: &str = "INTENDANT_LAUNCHED";
}

/// Where a node meets the others of its cluster, and as which of them.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    pub(crate) rank: NodeId,
    pub(crate) nodes: usize,
    local: (usize, usize),
    launcher: Launcher,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) token: Option<Token>,
    pub(crate) listener: Option<Listener>,
    pub(crate) launched: bool,
    pub(crate) deadline: Duration,
}

/// The coordinator's listening socket, where it exists before node 0 does.
#[derive(Clone, Debug)]
pub(crate) enum Listener {
    /// A descriptor inherited from the launcher.
    Inherited(i32),
    /// A socket of this process; the first `join` takes it.
    Given(std::sync::Arc<std::sync::Mutex<Option<std::net::TcpListener>>>),
}

/// Why an environment does not describe a rendezvous.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousError {
    /// Some variables are set, others are not.
    #[error(
        "the environment variable {missing} is not set although {present} is; set RANK, WORLD_SIZE, MASTER_ADDR and \
         MASTER_PORT on every process, or none of them"
    )]
    Missing {
        /// The variable that is not set.
        missing: &'static str,
        /// One that is.
        present: &'static str,
    },
    /// A launcher left a part of what it should have.
    #[error(
        "the environment variable {missing} is not set although {present} is; set it, or INTENDANT_LAUNCHER=none to run without \
         looking at what the launcher says"
    )]
    Incomplete {
        /// The variable that is not set.
        missing: &'static str,
        /// One that is.
        present: &'static str,
    },
    /// The user says something else than the launcher.
    #[error(
        "{name} is '{value}', but {launcher} says {theirs} ({variable}); unset {name}, or set all of RANK, WORLD_SIZE, MASTER_ADDR \
         and MASTER_PORT"
    )]
    Contradiction {
        /// The variable that the user set.
        name: &'static str,
        /// Its value.
        value: String,
        /// Who says something else.
        launcher: Launcher,
        /// The launcher's variable.
        variable: &'static str,
        /// Its value.
        theirs: u64,
    },
    /// The launcher does not say where node 0 is.
    #[error(
        "{launcher} started this process as rank {rank} of {nodes} on several machines, and does not say on which of them rank 0 \
         is; name it (with Open MPI: mpirun -x MASTER_ADDR=HOST, where HOST is the first machine that mpirun uses), and give all \
         ranks a token (-x INTENDANT_TOKEN_FILE=FILE)"
    )]
    NoAddress {
        /// The launcher.
        launcher: Launcher,
        /// This process's rank.
        rank: u64,
        /// Number of nodes.
        nodes: u64,
    },
    /// The machine of node 0 has a name, but no address.
    #[error(
        "rank 0 is on Slurm's node {host}, which has no address that this machine knows ({detail}); set MASTER_ADDR to a name or \
         address of that machine before srun"
    )]
    Nowhere {
        /// The machine's name.
        host: String,
        /// What was tried.
        detail: String,
    },
    /// A variable has a value that it cannot have. The value of a secret is not repeated.
    #[error("the environment variable {name} is '{value}'; it must be {allowed}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The token cannot be read as one.
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
        /// Why not.
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

impl Rendezvous {
    /// Node `rank` of `nodes`, which meet at `host:port`, where node 0 serves the coordinator. No token.
    pub fn new(rank: NodeId, nodes: usize, host: impl Into<String>, port: u16) -> Self {
        Self {
            rank,
            nodes,
            local: (0, 1),
            launcher: Launcher::Variables,
            host: host.into(),
            port,
            token: None,
            listener: None,
            launched: false,
            deadline: JOIN_DEADLINE_DEFAULT,
        }
    }

    /// The secret of the cluster. Without one the cluster is open to every local process and stays on loopback addresses.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = (!token.is_open()).then_some(token);
        self
    }

    /// The listening socket for the coordinator, for node 0; otherwise it binds the address at which the nodes meet.
    #[must_use]
    pub fn listener(mut self, listener: std::net::TcpListener) -> Self {
        self.listener = Some(Listener::Given(std::sync::Arc::new(std::sync::Mutex::new(Some(listener)))));
        self
    }

    /// How long to wait for the other nodes.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// This node.
    pub fn rank(&self) -> NodeId {
        self.rank
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// This node among those of the cluster on its machine, and how many these are; 0 and 1 where nobody said.
    pub fn local(&self) -> (usize, usize) {
        self.local
    }

    /// Who told this process its place.
    pub fn launcher(&self) -> Launcher {
        self.launcher
    }

    /// The cluster's secret, which the data plane needs as well.
    pub fn cluster_token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Whether our launcher started this process.
    pub fn launched(&self) -> bool {
        self.launched
    }

    /// Host and port of the coordinator.
    pub fn coordinator(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Reads the environment of this process, which `intendant launch`, torchrun, `srun` or `mpirun` started; `None` if it is one
    /// of none or of no other.
    ///
    /// Under `srun` on several machines, this looks up whether the first one's name is known.
    ///
    /// # Errors
    /// If the environment is there in part only, or has values that make no sense; see [`RendezvousError`].
    pub fn from_env() -> Result<Option<Self>, RendezvousError> {
        Self::from_lookup(std::env::var_os, std::process::id(), locate)
    }

    /// Reads only the cluster's token from the environment of this process, for tools that join no cluster.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub fn token_from_env() -> Result<Option<Token>, RendezvousError> {
        let hex = std::env::var_os(variable::TOKEN).map(|hex| hex.to_string_lossy().into_owned());
        token(hex, std::env::var_os(variable::TOKEN_FILE).map(PathBuf::from))
    }

    fn from_lookup(
        lookup: impl Fn(&'static str) -> Option<OsString>,
        process: u32,
        locate: impl FnOnce(String) -> Result<String, RendezvousError>,
    ) -> Result<Option<Self>, RendezvousError> {
        use variable::*;
        let text = |name| lookup(name).map(|value| value.to_string_lossy().into_owned());
        let env = Environment { lookup: &text, process };
        let Some(placement) = place(&env)? else { return Ok(None) };
        let Placement { launcher, rank, nodes, local_rank, local_nodes, host, port } = placement;
        let deadline = match env.text(JOIN_SECONDS) {
            Some(_) => Duration::from_secs(env.number(JOIN_SECONDS, 1, 7 * 24 * 3600)?),
            None => JOIN_DEADLINE_DEFAULT,
        };
        let listener = match env.text(LISTEN_FD) {
            // Descriptors 0 to 2 are the standard streams; whoever names one of them means something else.
            Some(_) if rank == NodeId(0) => {
                Some(Listener::Inherited(env.number(LISTEN_FD, 3, 1 << 20)? as i32))
            }
            Some(_) | None => None,
        };
        Ok(Some(Self {
            rank,
            nodes,
            local: (local_rank, local_nodes),
            launcher,
            host: match host {
                Host::Named(host) => host,
                Host::SlurmNode(host) => locate(host)?,
            },
            port,
            token: token(env.text(TOKEN), lookup(TOKEN_FILE).map(PathBuf::from))?,
            listener,
            launched: env.text(LAUNCHED).is_some_and(|value| value == "1"),
            deadline,
        }))
    }
}

/// The token from the variable, else from the file.
fn token(hex: Option<String>, file: Option<PathBuf>) -> Result<Option<Token>, RendezvousError> {
    let parse = |place: String, text: &str| {
        Token::from_hex(text).map(Some).map_err(|source| RendezvousError::Token { place, source })
    };
    match (hex, file) {
        (Some(hex), _) => parse(variable::TOKEN.to_owned(), &hex),
        (None, Some(path)) => match std::fs::read_to_string(&path) {
            Ok(text) => parse(path.display().to_string(), &text),
            Err(source) => Err(RendezvousError::TokenFile { path, source }),
        },
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 4] =
        [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")];

    fn read(variables: &[(&str, &str)]) -> Result<Option<Rendezvous>, RendezvousError> {
        let map: std::collections::BTreeMap<_, _> = variables.iter().copied().collect();
        let nowhere = |host: String| Err(RendezvousError::Nowhere { host, detail: "unknown".to_owned() });
        Rendezvous::from_lookup(|name| map.get(name).map(OsString::from), 1, nowhere)
    }

    #[test]
    fn an_empty_environment_is_no_rendezvous() {
        assert!(read(&[]).is_ok_and(|found| found.is_none()));
        assert!(read(&[("INTENDANT_TOKEN", "00")]).is_ok_and(|found| found.is_none()));
    }

    #[test]
    fn a_whole_environment_is_read() -> Result<(), Box<dyn std::error::Error>> {
        let hex = "ab".repeat(32);
        let extras =
            [("INTENDANT_TOKEN", hex.as_str()), ("INTENDANT_LAUNCHED", "1"), ("INTENDANT_JOIN_SECONDS", "7")];
        let found = read(&[&WHOLE[..], &extras].concat())?.ok_or("no rendezvous")?;
        assert_eq!((found.rank(), found.nodes(), found.coordinator()), (NodeId(1), 4, ("127.0.0.1", 29500)));
        assert!(found.cluster_token().is_some_and(|token| token.matches(&Token::from_bytes([0xab; 32]))));
        assert!(found.launched());
        assert_eq!(found.deadline, Duration::from_secs(7));
        Ok(())
    }

    #[test]
    fn every_missing_variable_is_named() {
        for (missing, _) in WHOLE {
            let partial: Vec<_> = WHOLE.iter().copied().filter(|(name, _)| *name != missing).collect();
            let error = read(&partial).map(|_| ()).map_err(|error| error.to_string());
            assert!(
                error.as_ref().is_err_and(|text| text.contains(&format!("variable {missing} is not set"))),
                "{missing}: {error:?}"
            );
        }
    }

    #[test]
    fn values_out_of_bounds_are_refused_with_their_bounds() {
        let cases = [
            ("RANK", "4", "ranks are 0 to 3"),
            ("RANK", "-1", "from 0 to"),
            ("WORLD_SIZE", "0", "from 1 to"),
            ("WORLD_SIZE", "2000", "to 1024"),
            ("MASTER_PORT", "70000", "to 65535"),
            ("MASTER_ADDR", "", "host name"),
            ("INTENDANT_MASTER_PORT", "x", "INTENDANT_MASTER_PORT is 'x'"),
            ("INTENDANT_TOKEN", "abc", "INTENDANT_TOKEN"),
        ];
        for (name, value, expected) in cases {
            let mut variables: Vec<_> = WHOLE.to_vec();
            variables.push((name, value));
            let error = read(&variables).map(|_| ()).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|text| text.contains(expected)), "{name}={value}: {error:?}");
        }
    }

    #[test]
    fn our_own_port_stands_in_for_a_port_that_the_launcher_uses_itself()
    -> Result<(), Box<dyn std::error::Error>> {
        let found =
            read(&[&WHOLE[..], &[("INTENDANT_MASTER_PORT", "4711")]].concat())?.ok_or("no rendezvous")?;
        assert_eq!(found.coordinator(), ("127.0.0.1", 4711));
        Ok(())
    }

    #[test]
    fn only_node_0_takes_the_inherited_socket() -> Result<(), Box<dyn std::error::Error>> {
        let with_fd = [&WHOLE[..], &[("INTENDANT_LISTEN_FD", "9")]].concat();
        assert!(read(&with_fd)?.ok_or("no rendezvous")?.listener.is_none());
        let zero = [&with_fd[..], &[("RANK", "0")]].concat();
        assert!(matches!(read(&zero)?.ok_or("no rendezvous")?.listener, Some(Listener::Inherited(9))));
        Ok(())
    }

    #[test]
    fn a_token_comes_from_a_file_too() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("token");
        std::fs::write(&path, format!("{}\n", "5c".repeat(32)))?;
        let name = path.to_string_lossy().into_owned();
        let found =
            read(&[&WHOLE[..], &[("INTENDANT_TOKEN_FILE", &name)]].concat())?.ok_or("no rendezvous")?;
        assert!(found.cluster_token().is_some_and(|token| token.matches(&Token::from_bytes([0x5c; 32]))));
        std::fs::remove_file(&path)?;
        assert!(matches!(
            read(&[&WHOLE[..], &[("INTENDANT_TOKEN_FILE", &name)]].concat()),
            Err(RendezvousError::TokenFile { .. })
        ));
        Ok(())
    }
}
