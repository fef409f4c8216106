//! Starts the nodes of a cluster as processes of this machine, and ends all of them.
//!
//! Start at [`Launch`]. `child` starts one process, `supervise` watches them and decides when to end them,
//! `ends` decides on the exit code, and `guardian` is a process that outlives a killed launcher by a moment.
//!
//! The launcher binds the coordinator's port itself and hands the socket to node 0, so that no other process
//! can take the port in between and two clusters never collide. A fresh token per launch keeps strangers out.
//!
//! After a failure that another start may mend, the launcher starts all processes again, if the user wants
//! that. They form a new cluster, with another port and another token.
//!
//! This module starts processes on this machine only, and does not know what they do.

mod child;
mod ends;
mod guardian;
mod saves;
mod supervise;

pub use saves::{ask_for_another, tell_done, tell_saved};
pub use supervise::{REPEATED_SIGNAL, ignores_hang_up};

use crate::variable;
use child::Child;
use guardian::Guardian;
use intendant_core::limits;
use intendant_transport::{Token, check_runtime_fits};
use saves::Saves;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;
use supervise::{Children, Ended, Signals, say};

/// How long nodes have to end after a signal, if the program that launches them does not say.
const GRACE_DEFAULT: Duration = Duration::from_secs(3);

/// The setting of training programs that makes them continue from their newest checkpoint.
const RESUME: &str = "INTENDANT_RESUME";

/// Whether [`Launch`] started this process.
pub fn is_launched() -> bool {
    std::env::var_os(variable::LAUNCHED).is_some()
}

/// Whether the launcher that started this process made the cluster's token, so that no other program knows
/// it.
pub fn token_is_unknown() -> bool {
    std::env::var_os(variable::OWN_TOKEN).is_some()
}

/// Starts a program several times, as the nodes of one cluster.
///
/// ```no_run
/// # use intendant_launch::Launch;
/// let code = Launch::new(4, "intendant-kge").args(["--epochs", "3"]).run()?;
/// std::process::exit(code.into());
/// # Ok::<(), intendant_launch::LaunchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    nodes: usize,
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    token: Option<Token>,
    max_restarts: u32,
    grace: Duration,
    survives: bool,
}

/// The reason for which no node was started, or for which all started nodes were ended again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Too few or too many nodes.
    #[error("cannot launch {nodes} nodes; allowed are 1 to {}", limits::NODES_MAX)]
    Nodes {
        /// The number asked for.
        nodes: usize,
    },
    /// This process was itself launched.
    #[error("this process was started by a launcher (INTENDANT_LAUNCHED is set); a node cannot launch nodes")]
    Nested,
    /// The program cannot be started.
    #[error("cannot start '{}' as node {rank}: {source}", program.display())]
    Spawn {
        /// The program.
        program: OsString,
        /// The rank of the node.
        rank: usize,
        /// The cause.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("cannot launch: {what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit code for this error: 2 where the user has to change something, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Nodes { .. } | Self::Nested | Self::Spawn { .. } => 2,
            Self::System { .. } => 1,
        }
    }

    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

impl Launch {
    /// A launch of `program` as `nodes` nodes. The program is searched for as a shell does.
    pub fn new(nodes: usize, program: impl AsRef<OsStr>) -> Self {
        Self {
            nodes,
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            token: None,
            max_restarts: 0,
            grace: GRACE_DEFAULT,
            survives: false,
        }
    }

    /// A launch of the program that runs now, with its arguments. A launched process finds its place in the
    /// environment ([`crate::Rendezvous::from_env`]) and must not launch again.
    ///
    /// # Errors
    /// If the path of the running program is unknown.
    pub fn this_program(nodes: usize) -> Result<Self, LaunchError> {
        let program = std::env::current_exe().map_err(LaunchError::system("the path of this program"))?;
        Ok(Self::new(nodes, program).args(std::env::args_os().skip(1)))
    }

    /// Appends arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of all nodes; everything else is inherited.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the cluster's token, if other programs must know it. By default, each start makes a new token.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Starts all nodes again, up to `times` times in a row, after a failure that this may mend: a signal
    /// killed a node, a peer was lost (exit code 4), or a program panicked (101). Other codes of other nodes
    /// do not matter, except 2, 3 and 5. Exit codes 0 to 3 and 5 mean that another start would end in the
    /// same way. When the nodes have saved their state ([`tell_saved`]), the count of restarts begins anew.
    /// The default is 0.
    ///
    /// Nodes that are started again have `INTENDANT_RESUME=true` in their environment, on which training
    /// programs continue from their newest checkpoint.
    #[must_use]
    pub fn max_restarts(mut self, times: u32) -> Self {
        self.max_restarts = times;
        self
    }

    /// Whether the other nodes go on when a signal kills a node, or when a node returns 128 + n after signal
    /// n. They then end well without the lost node if they report the end of the run ([`tell_done`]). They
    /// can ask for further processes ([`ask_for_another`]), whose failures do not count. If `survives` is
    /// false, all nodes end.
    #[must_use]
    pub fn survives(mut self, survives: bool) -> Self {
        self.survives = survives;
        self
    }

    /// How long nodes have to end after a signal, before the launcher kills them; 3 s by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts all nodes and waits until all have ended. Blocks the calling thread; the nodes die with this
    /// thread. Their standard input is empty; their standard output and error are those of this process.
    ///
    /// When a node fails, the others have 10 s to end by themselves, which is enough to notice and name it;
    /// then the launcher kills them. If all nodes are stopped (SIGSTOP), the launcher says so; unless one is
    /// continued within 10 s, it kills them. The launcher passes an interrupt (Ctrl-C), SIGTERM, SIGUSR1 or
    /// SIGHUP, unless it is ignored, on to all nodes. SIGKILL follows after the [grace](Self::grace), or at
    /// the second signal if that comes at least 0.3 s later. Processes that a node leaves behind in its
    /// process group end with it. One line per failed node goes to standard error.
    ///
    /// Returns the exit code for this process: 0 if all nodes returned 0 (if it [survives](Self::survives)
    /// losses, all that were not lost); 4 if a node returned 4 (a peer was lost) or all were stopped; else
    /// the code of the first node that failed, where 1 counts only if there is no more specific code, and
    /// 128 + n stands for signal n; 130, 143, 129 or 138 after an interrupt, SIGTERM, hang-up or SIGUSR1.
    /// After restarts, it is the code of the last start.
    ///
    /// # Errors
    /// If a node cannot be started; nothing is left running then.
    pub fn run(mut self) -> Result<u8, LaunchError> {
        if !(1..=limits::NODES_MAX).contains(&self.nodes) {
            return Err(LaunchError::Nodes { nodes: self.nodes });
        }
        if is_launched() {
            return Err(LaunchError::Nested);
        }
        let mut guardian =
            Guardian::start().map_err(LaunchError::system("a process that guards the nodes"))?;
        let runtime = check_runtime_fits()
            .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build())
            .map_err(LaunchError::system("a runtime for signals"))?;
        runtime.block_on(async {
            // The signal handlers come first: once there is a child, no signal may end this process before
            // its children.
            let mut signals = Signals::listen().map_err(LaunchError::system("signal handlers"))?;
            let mut saves = Saves::new().map_err(LaunchError::system("a pipe from node 0"))?;
            let mut restarts = 0;
            loop {
                let (children, token) = self.start(&mut guardian, &saves)?;
                let add = |rank: usize, port: u16, saves: &Saves| {
                    let start = Child::start_later(self.command(), rank, port, &token, saves);
                    start.map_err(|error| say(&format!("launch: cannot start another node: {error}"))).ok()
                };
                let course = supervise::Manner { grace: self.grace, survives: self.survives, add: &add };
                let ended = supervise::run(children, &mut signals, &mut saves, &course).await;
                let Ended { code, may_restart } = ended;
                if saves.any() {
                    restarts = 0;
                }
                // Processes that the ended nodes asked for are not needed any more.
                saves.wanted();
                if !may_restart || restarts == self.max_restarts {
                    return Ok(code);
                }
                restarts += 1;
                say(&format!(
                    "launch: starting all nodes again (restart {restarts} of {} in a row)",
                    self.max_restarts
                ));
                self.env.retain(|(name, _)| name != RESUME);
                self.env.push((RESUME.into(), "true".into()));
            }
        })
    }

    /// The command that every node runs. Its environment says whether other programs know the token.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        match self.token {
            Some(_) => command.env_remove(variable::OWN_TOKEN),
            None => command.env(variable::OWN_TOKEN, "1"),
        };
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts all nodes, as a cluster of its own.
    fn start<'a>(
        &self,
        guardian: &'a mut Guardian,
        saves: &Saves,
    ) -> Result<(Children<'a>, String), LaunchError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(LaunchError::system("a port on 127.0.0.1 for the coordinator"))?;
        let token = match &self.token {
            Some(token) => token.to_hex(),
            None => fresh_token()?.to_hex(),
        };
        let port = listener.local_addr().map_err(LaunchError::system("the coordinator's port"))?.port();
        let mut listener = Some(listener);
        let mut children = Children::new(guardian);
        for rank in 0..self.nodes {
            // Node 0 gets the socket. This process drops its own copy: a dead node 0 must refuse
            // connections.
            let child = Child::start(self.command(), rank, self.nodes, port, &token, listener.take(), saves);
            let child =
                child.map_err(|source| LaunchError::Spawn { program: self.program.clone(), rank, source });
            children.add(child?);
        }
        Ok((children, token))
    }
}

fn fresh_token() -> Result<Token, LaunchError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        LaunchError::system("random bytes for the token")(io::Error::other(error.to_string()))
    })?;
    Ok(Token::from_bytes(secret))
}
