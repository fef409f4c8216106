//! The command line.

use crate::checkpoint::CheckpointArgs;
use crate::dashboard::DashboardArgs;
use crate::trace::TraceArgs;
use clap::{Args as Group, Parser, Subcommand};
use intendant::{Tls, TlsFileError, TlsFiles};
use std::ffi::OsString;
use std::path::PathBuf;

/// Trains models on the Intendant parameter server, starts clusters, and looks at machines and clusters.
#[derive(Debug, Parser)]
#[command(name = "intendant", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Parses a command line whose first word is the program's name. `help NAME` is treated as `NAME --help`,
    /// also for external programs, which the parser does not know.
    ///
    /// # Errors
    /// If the command line is wrong or asks for help.
    pub(crate) fn of(mut words: Vec<OsString>) -> Result<Self, clap::Error> {
        if words.get(1).is_some_and(|word| word == "help") {
            words.remove(1);
            words.truncate(2);
            words.push("--help".into());
        }
        Self::try_parse_from(words)
    }
}

const AFTER_HELP: &str = "The training programs bpmf, kge, lda, lr, mf, sketch and word2vec are commands, too, where they are \
                          installed: \
                          'intendant kge --nodes 2' runs 'intendant-kge --nodes 2'. The program is taken from the \
                          folder of this one, or else from PATH. 'intendant help kge' is \
                          'intendant kge --help'.\n\n\
                          Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 diverged, 4 a peer was lost, 5 no checkpoint can be used, or a trace is damaged, 101 panicked, \
                          128 + n ended by signal n.\n\
                          Logs go to standard error; RUST_LOG=debug shows more of them.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Launch(LaunchArgs),
    Doctor(DoctorArgs),
    Checkpoint(CheckpointArgs),
    Trace(TraceArgs),
    Certs(CertsArgs),
    Dashboard(DashboardArgs),
    MetricsToken(MetricsTokenArgs),
    Scale(ScaleArgs),
    /// A program `intendant-NAME`: its name and its arguments.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

/// Start a program as the nodes of one cluster on this machine.
///
/// Every process gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and a fresh
/// INTENDANT_TOKEN. Clusters on one machine do not collide: the launcher chooses a free port. When a node
/// fails, the others have 10 s to end by themselves, then the launcher kills them. If all nodes are stopped
/// (SIGSTOP), they have 10 s to be continued. Ctrl-C, SIGTERM and SIGUSR1 are passed on to all nodes; a
/// second one kills them. No process outlives the launcher.
#[derive(Debug, Group)]
#[command(after_help = "Example:\n  intendant launch -n 4 intendant kge --epochs 20\n  \
                  intendant launch -n 4 --max-restarts 3 intendant kge --checkpoint cuts\n\n\
                  The exit code is 0 if all nodes returned 0, 4 if a node was lost, else that of the first node to \
                  fail (128 + n for signal n).")]
pub(crate) struct LaunchArgs {
    /// Number of processes, 1 to 1024
    #[arg(short, long, value_name = "N", value_parser = nodes)]
    pub(crate) nodes: usize,

    /// Start all processes again, up to so many times in a row, when one was killed or lost, with
    /// INTENDANT_RESUME=true: training programs with --checkpoint continue from the newest one. New
    /// checkpoints make the count start anew
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) max_restarts: u32,

    /// Let the others go on when a signal ends a process, and start more when they ask for it: for training
    /// programs with --copies
    #[arg(long)]
    pub(crate) survive: bool,

    /// Seconds for the processes to end after Ctrl-C, SIGTERM, SIGHUP or SIGUSR1, before they are killed
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) grace_seconds: u32,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Check whether this machine can run a cluster; with --coordinator, also report the state of a running one.
///
/// Returns 0 if nothing prevents a cluster from running, else 1.
#[derive(Debug, Group)]
pub(crate) struct DoctorArgs {
    /// Coordinator of a running cluster; the token is taken from INTENDANT_TOKEN or INTENDANT_TOKEN_FILE
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) coordinator: Option<String>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// How this process shows itself to a cluster.
#[derive(Debug, Group)]
pub(crate) struct TlsArgs {
    /// Certificate of this process, for a cluster that uses TLS
    #[arg(long, value_name = "FILE", env = "INTENDANT_TLS_CERT", requires = "tls_key", requires = "tls_ca")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert
    #[arg(long, value_name = "FILE", env = "INTENDANT_TLS_KEY", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The authority of the cluster's certificates
    #[arg(long, value_name = "FILE", env = "INTENDANT_TLS_CA", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// The certificate, if there is one.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn load(&self) -> Result<Option<Tls>, TlsFileError> {
        let (Some(cert), Some(key), Some(ca)) = (&self.tls_cert, &self.tls_key, &self.tls_ca) else {
            return Ok(None);
        };
        Tls::load(&TlsFiles { cert: cert.clone(), key: key.clone(), ca: ca.clone() }).map(Some)
    }
}

/// Ask a run with --copies to go on with another number of nodes.
///
/// Nodes of the highest ranks leave, at the next meeting of the run's workers (every few seconds). If more
/// nodes are wanted, the launcher that started the run (`--nodes N`, `intendant launch --survive`) starts
/// them. Runs that something else started get more nodes by starting the program with --join.
#[derive(Debug, Group)]
#[command(after_help = "Example:\n  intendant scale 5 127.0.0.1:41233\n\n\
                        The token is taken from INTENDANT_TOKEN or INTENDANT_TOKEN_FILE. It must have been there when \
                        the run was started.\n\n\
                        Exit codes: 0 the run knows it, 1 the run does not answer, 2 wrong usage.")]
pub(crate) struct ScaleArgs {
    /// Number of nodes, 1 to 1024
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) nodes: u16,

    /// Where processes join the run, as its node 0 has told
    #[arg(value_name = "HOST:PORT")]
    pub(crate) run: String,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// Make an authority and one certificate, with which all nodes of a cluster can encrypt their connections.
///
/// Writes DIR/ca.pem, DIR/node.pem and DIR/node-key.pem, and prints the flags to use. Existing files are not
/// replaced. Organisations that have an authority of their own sign certificates with the DNS name
/// 'intendant' instead.
#[derive(Debug, Group)]
pub(crate) struct CertsArgs {
    /// Folder for the files; it is created
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,

    /// Days for which the certificates are valid, 1 to 3650
    #[arg(
        long, value_name = "N", default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=3650),
    )]
    pub(crate) days: u32,
}

/// Print the token with which programs on other machines read the metrics of a cluster.
///
/// It is made of the cluster's token, which is taken from INTENDANT_TOKEN or INTENDANT_TOKEN_FILE. It reads
/// metrics and does nothing else: with it, no process can join the cluster or stop it.
#[derive(Debug, Group)]
#[command(after_help = "Example:\n  (umask 077; intendant metrics-token > metrics-token)\n  \
                        curl -H \"Authorization: Bearer $(cat metrics-token)\" http://node01:9100/metrics\n\n\
                        Exit codes: 0 ok, 1 failed, 2 there is no token, or it cannot be read.")]
pub(crate) struct MetricsTokenArgs {}

fn nodes(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|nodes| (1..=1024).contains(nodes))
        .ok_or_else(|| "allowed are 1 to 1024".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn everything_from_the_program_on_belongs_to_it() {
        for dashes in [&["--"][..], &[]] {
            let words = [&["intendant", "launch", "-n", "3"][..], dashes, &["kge", "-n", "--help"]].concat();
            let args = Args::try_parse_from(words);
            let Ok(Args { command: Command::Launch(launch) }) = args else { panic!("{args:?}") };
            assert_eq!(
                (launch.nodes, launch.command),
                (3, ["kge", "-n", "--help"].map(OsString::from).to_vec())
            );
        }
        let wrong = Args::try_parse_from(["intendant", "launch", "-n", "2", "--epochs", "3", "kge"]);
        assert!(wrong.expect_err("a flag of the program").to_string().contains("--epochs"));
        for wrong in [&["launch", "-n", "0", "--", "x"][..], &["launch", "-n", "2"], &["launch", "--", "x"]] {
            assert!(Args::try_parse_from(std::iter::once(&"intendant").chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
