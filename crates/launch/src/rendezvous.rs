//! How the processes of a cluster find each other: the environment that a launcher gives to each of them.
//!
//! Our launcher ([`crate::Launch`]) and torchrun agree on `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and
//! `MASTER_PORT`. Other launchers have variables of their own, which [`crate::placement`] reads. The
//! remaining variables are ours and optional.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `RANK`, `WORLD_SIZE` | this node; the number of nodes. Other launchers have their own names |
//! | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | the same on this machine; optional |
//! | `MASTER_ADDR`, `MASTER_PORT` | where node 0 serves the coordinator |
//! | `INTENDANT_MASTER_PORT` | takes precedence over `MASTER_PORT` |
//! | `INTENDANT_DATA_PORT` | first port of the data plane; the k-th node of a machine uses it + k |
//! | `INTENDANT_LAUNCHER` | `none`: ignore the variables of other launchers |
//! | `INTENDANT_TOKEN` | the cluster's token in hexadecimal digits; set by our launcher |
//! | `INTENDANT_TOKEN_FILE` | a file with the token, used if `INTENDANT_TOKEN` is not set |
//! | `INTENDANT_JOIN_SECONDS` | how long to wait for the other nodes; 60 |
//! | `INTENDANT_LISTEN_FD` | node 0 under our launcher: the coordinator's listening socket, already bound |
//! | `INTENDANT_LAUNCHED` | 1 under our launcher |
//! | `INTENDANT_SAVED_FD` | under our launcher: a pipe that brings it news of saved state and of the nodes |
//!
//! Not in this module: sockets (the control plane opens them) and the meaning of other launchers' variables
//! (`placement`).

use crate::error::RendezvousError;
use crate::locate::locate;
use crate::placement::{Environment, Host, Launcher, Placement, place};
use crate::variable;
use intendant_core::NodeId;
use intendant_transport::{Tls, Token, check_is_file, is_readable_by_others};
use std::ffi::OsString;
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a node waits for the others by default.
pub const JOIN_DEADLINE_DEFAULT: Duration = Duration::from_secs(60);

/// A host and a port. It prints as `host:port`, with brackets around an IPv6 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A host name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The place where a node meets the others of its cluster, and the node's rank.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    rank: NodeId,
    nodes: usize,
    local: (usize, usize),
    launcher: Launcher,
    coordinator: Endpoint,
    data_port: Option<u16>,
    /// The offset to `data_port`: the position on the machine at which the process was started.
    data_port_offset: usize,
    token: Option<Token>,
    tls: Option<Tls>,
    listener: Option<Listener>,
    launched: bool,
    deadline: Duration,
    warnings: Vec<String>,
}

/// The coordinator's listening socket, where it exists before node 0 does.
#[derive(Clone, Debug)]
pub enum Listener {
    /// A descriptor inherited from the launcher.
    Inherited(i32),
    /// A socket of this process. The first node that joins takes it.
    Given(Arc<Mutex<Option<TcpListener>>>),
}

impl Rendezvous {
    /// Node `rank` of `nodes`, which meet at `host:port`, where node 0 serves the coordinator. There is no
    /// token.
    pub fn new(rank: NodeId, nodes: usize, host: impl Into<String>, port: u16) -> Self {
        Self {
            rank,
            nodes,
            local: (0, 1),
            launcher: Launcher::Variables,
            coordinator: Endpoint { host: host.into(), port },
            data_port: None,
            data_port_offset: 0,
            token: None,
            tls: None,
            listener: None,
            launched: false,
            deadline: JOIN_DEADLINE_DEFAULT,
            warnings: Vec::new(),
        }
    }

    /// The secret of the cluster. A cluster without one is open to every local process and stays on loopback
    /// addresses.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = (!token.is_open()).then_some(token);
        self
    }

    /// Encrypts the connections to other hosts, and lets nodes show certificates. All nodes of a cluster use
    /// TLS, or none does. The environment does not name the files of the certificates: they belong to the
    /// program's settings.
    #[must_use]
    pub fn tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// The listening socket for the coordinator, for node 0. Without it, node 0 binds the address at which
    /// the nodes meet.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listener = Some(Listener::Given(Arc::new(Mutex::new(Some(listener)))));
        self
    }

    /// How long to wait for the other nodes.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The port of the data plane of the first node on each machine, for firewalls; the k-th node uses
    /// `port + k`. Without it, the operating system chooses a free port.
    #[must_use]
    pub fn data_port(mut self, port: u16) -> Self {
        self.data_port = Some(port);
        self
    }

    /// The same process as node `rank` of `nodes` of a later cluster, which meets at `coordinator`. `local`
    /// is [`Rendezvous::local`].
    #[must_use]
    pub fn later(&self, rank: NodeId, nodes: usize, local: (usize, usize), coordinator: Endpoint) -> Self {
        Self { rank, nodes, local, coordinator, listener: None, warnings: Vec::new(), ..self.clone() }
    }

    /// This node.
    pub fn rank(&self) -> NodeId {
        self.rank
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// This node's position among those on its machine, and their number; 0 and 1 if the launcher does not
    /// say.
    pub fn local(&self) -> (usize, usize) {
        self.local
    }

    /// The launcher that told this process its place.
    pub fn launcher(&self) -> Launcher {
        self.launcher
    }

    /// The cluster's secret, which the data plane needs as well.
    pub fn cluster_token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The certificates of the cluster, if its connections are encrypted.
    pub fn cluster_tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Whether our launcher started this process.
    pub fn launched(&self) -> bool {
        self.launched
    }

    /// Where node 0 serves the coordinator.
    pub fn coordinator(&self) -> &Endpoint {
        &self.coordinator
    }

    /// The coordinator's listening socket, if it exists already.
    pub fn given_listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }

    /// How long to wait for the other nodes.
    pub fn join_deadline(&self) -> Duration {
        self.deadline
    }

    /// The port of this node's data plane; 0 lets the operating system choose.
    ///
    /// # Errors
    /// If the port of this node, by its position on the machine, is beyond 65535.
    pub fn own_data_port(&self) -> Result<u16, RendezvousError> {
        let Some(first) = self.data_port else { return Ok(0) };
        let at = self.data_port_offset;
        let last = usize::from(u16::MAX) - at.min(usize::from(u16::MAX));
        let own = u16::try_from(at).ok().and_then(|local| first.checked_add(local));
        own.ok_or_else(|| RendezvousError::Invalid {
            name: variable::DATA_PORT,
            value: first.to_string(),
            allowed: format!("at most {last}, because this is node {at} on its machine"),
        })
    }

    /// Warnings about the environment, for the log once logging works.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Reads the environment of this process. `None` if no launcher started this process as one of several.
    ///
    /// Under `srun` on several machines, this looks up whether the name of the first machine is known.
    ///
    /// # Errors
    /// If the environment is incomplete or has invalid values; see [`RendezvousError`].
    pub fn from_env() -> Result<Option<Self>, RendezvousError> {
        Self::from_lookup(std::env::var_os, std::process::id(), locate)
    }

    /// Reads only the cluster's token from the environment of this process, for tools that join no cluster.
    ///
    /// # Errors
    /// If there is a token that cannot be read.
    pub fn token_from_env() -> Result<Option<Token>, RendezvousError> {
        let hex = std::env::var_os(variable::TOKEN).map(|hex| hex.to_string_lossy().into_owned());
        token(hex, std::env::var_os(variable::TOKEN_FILE).map(PathBuf::from).as_deref())
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
        let data_port = match env.text(DATA_PORT) {
            Some(_) => Some(env.number(DATA_PORT, 1, u16::MAX.into())? as u16),
            None => None,
        };
        let listener = match env.text(LISTEN_FD) {
            // Descriptors 0 to 2 are the standard streams.
            Some(_) if rank == NodeId(0) => {
                Some(Listener::Inherited(env.number(LISTEN_FD, 3, 1 << 20)? as i32))
            }
            Some(_) | None => None,
        };
        let file = lookup(TOKEN_FILE).map(PathBuf::from);
        let hex = env.text(TOKEN);
        let exposed = file.as_deref().filter(|file| hex.is_none() && is_readable_by_others(file));
        let warnings = exposed.map(|file| {
            let file = file.display();
            format!("all users of this machine can read the token file {file}; run `chmod 600 {file}`")
        });
        let rendezvous = Self {
            rank,
            nodes,
            local: (local_rank, local_nodes),
            launcher,
            coordinator: Endpoint {
                host: match host {
                    Host::Named(host) => host,
                    Host::SlurmNode(host) => locate(host)?,
                },
                port,
            },
            data_port,
            data_port_offset: local_rank,
            token: token(hex, file.as_deref())?,
            tls: None,
            listener,
            launched: env.text(LAUNCHED).is_some_and(|value| value == "1"),
            deadline,
            warnings: warnings.into_iter().collect(),
        };
        rendezvous.own_data_port()?;
        Ok(Some(rendezvous))
    }
}

/// The token from the variable, else from the file.
fn token(hex: Option<String>, file: Option<&Path>) -> Result<Option<Token>, RendezvousError> {
    let parse = |place: String, text: &str| {
        Token::from_hex(text).map(Some).map_err(|source| RendezvousError::Token { place, source })
    };
    match (hex, file) {
        (Some(hex), _) => parse(variable::TOKEN.to_owned(), &hex),
        (None, Some(path)) => match check_is_file(path).and_then(|()| std::fs::read_to_string(path)) {
            Ok(text) => parse(path.display().to_string(), &text),
            Err(source) => Err(RendezvousError::TokenFile { path: path.to_owned(), source }),
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
        assert_eq!((found.rank(), found.nodes()), (NodeId(1), 4));
        assert_eq!(found.coordinator().to_string(), "127.0.0.1:29500");
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
        assert_eq!(found.coordinator().to_string(), "127.0.0.1:4711");
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
        // The pipe has no writer, so opening it would wait for ever.
        assert!(std::process::Command::new("mkfifo").arg(&path).status()?.success());
        let refused =
            read(&[&WHOLE[..], &[("INTENDANT_TOKEN_FILE", &name)]].concat()).err().ok_or("a pipe")?;
        assert!(refused.to_string().ends_with("it is not a regular file"), "{refused}");
        std::fs::remove_file(&path)?;
        assert!(matches!(
            read(&[&WHOLE[..], &[("INTENDANT_TOKEN_FILE", &name)]].concat()),
            Err(RendezvousError::TokenFile { .. })
        ));
        Ok(())
    }

    #[test]
    fn a_token_file_that_all_users_can_read_is_a_warning() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("token");
        std::fs::write(&path, "5c".repeat(32))?;
        let name = path.to_string_lossy().into_owned();
        let warnings = |mode: u32| -> Result<Vec<String>, Box<dyn std::error::Error>> {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
            let found = read(&[&WHOLE[..], &[("INTENDANT_TOKEN_FILE", &name)]].concat())?;
            Ok(found.ok_or("no rendezvous")?.warnings().to_vec())
        };
        assert_eq!(warnings(0o600)?, [] as [String; 0]);
        assert_eq!(warnings(0o640)?, [] as [String; 0]);
        let exposed = warnings(0o644)?;
        assert!(exposed[0].contains(&format!("chmod 600 {name}")), "{exposed:?}");
        Ok(())
    }

    #[test]
    fn each_node_of_a_machine_has_a_data_port_of_its_own() -> Result<(), Box<dyn std::error::Error>> {
        let with = |port: &str, local: &str| {
            let more = [("INTENDANT_DATA_PORT", port), ("LOCAL_RANK", local), ("LOCAL_WORLD_SIZE", "2")];
            read(&[&WHOLE[..], &more].concat())
        };
        assert_eq!(with("7000", "1")?.ok_or("no rendezvous")?.own_data_port()?, 7001);
        assert_eq!(read(&WHOLE)?.ok_or("no rendezvous")?.own_data_port()?, 0);
        for (port, local) in [("0", "0"), ("x", "0"), ("65535", "1")] {
            let error = with(port, local).map(drop).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|text| text.contains("INTENDANT_DATA_PORT is")), "{error:?}");
        }
        Ok(())
    }

    #[test]
    fn an_ipv6_address_may_have_brackets_and_prints_with_them() -> Result<(), Box<dyn std::error::Error>> {
        for address in ["::1", "[::1]"] {
            let mut variables = WHOLE;
            variables[2].1 = address;
            let found = read(&variables)?.ok_or("no rendezvous")?;
            assert_eq!(found.coordinator().host, "::1");
            assert_eq!(found.coordinator().to_string(), "[::1]:29500");
        }
        Ok(())
    }
}
