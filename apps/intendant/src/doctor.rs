//! Whether this machine can run a cluster, as a table: the subjects, the findings, and what to do about them.

use crate::args::DoctorArgs;
use crate::stdout::print;
use intendant::control::{Health, Presence, State, health};
use intendant::{Rendezvous, Tls};
use rustix::process::{Resource, getrlimit};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// The number of open files of a node with 1,024 peers on a few channels, and some to spare. If the limit is
/// lower, a warning says for how many peers it suffices.
const FILES_ADVISED: u64 = 4096;

/// Below this amount of memory, even a small model and its data hardly fit.
const MEMORY_ADVISED_MIB: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Ok,
    Warning,
    Failure,
}

struct Finding {
    subject: &'static str,
    severity: Severity,
    text: String,
}

impl Finding {
    fn new(subject: &'static str, severity: Severity, text: impl Into<String>) -> Self {
        Self { subject, severity, text: text.into() }
    }
}

/// Prints the table. If the arguments have a coordinator's address, also asks the coordinator.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    let mut findings =
        vec![versions(), processors(), memory(), loopback(), unix_sockets(), files(), environment()];
    let tls = match certificate(args) {
        Ok(tls) => tls,
        Err(finding) => {
            findings.push(finding);
            None
        }
    };
    if tls.is_some() {
        let text = "the certificate is valid now, and nodes with the same --tls-ca accept it";
        findings.push(Finding::new("certificate", Severity::Ok, text));
    }
    if let Some(address) = &args.coordinator {
        findings.extend(cluster(address, tls.as_ref()));
    }
    let failed = findings.iter().any(|finding| finding.severity == Severity::Failure);
    let mut table = String::new();
    for finding in &findings {
        let severity = match finding.severity {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Failure => "FAILURE",
        };
        let _ = writeln!(table, "{:<12} {severity:<8} {}", finding.subject, finding.text);
    }
    print(&table, u8::from(failed))
}

fn versions() -> Finding {
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let text = format!("intendant {version}, {os} {} on {arch}", system.trim());
    Finding::new("versions", Severity::Ok, text)
}

fn processors() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Finding::new("processors", Severity::Ok, format!("{count} for this process")),
        Err(error) => Finding::new("processors", Severity::Warning, format!("number unknown: {error}")),
    }
}

fn memory() -> Finding {
    let subject = "memory";
    let Ok(table) = std::fs::read_to_string("/proc/meminfo") else {
        return Finding::new(subject, Severity::Warning, "unknown: this system has no /proc/meminfo");
    };
    match (meminfo_mib(&table, "MemAvailable"), meminfo_mib(&table, "MemTotal")) {
        (Some(free), Some(total)) if free < MEMORY_ADVISED_MIB => {
            let text = format!(
                "{free} MiB of {total} MiB are free; end other programs, or the kernel may kill nodes"
            );
            Finding::new(subject, Severity::Warning, text)
        }
        (Some(free), Some(total)) => {
            Finding::new(subject, Severity::Ok, format!("{free} MiB of {total} MiB are free"))
        }
        _ => Finding::new(subject, Severity::Warning, "unknown: /proc/meminfo cannot be read"),
    }
}

/// A line of /proc/meminfo, which counts in KiB.
fn meminfo_mib(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

fn loopback() -> Finding {
    let subject = "loopback";
    match greet_over_loopback() {
        Ok(port) => {
            Finding::new(subject, Severity::Ok, format!("127.0.0.1 carries bytes (tried on port {port})"))
        }
        Err(error) => {
            let text =
                format!("nodes on this machine cannot talk over 127.0.0.1: {error}; check `ip link show lo`");
            Finding::new(subject, Severity::Failure, text)
        }
    }
}

fn greet_over_loopback() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut dialled = TcpStream::connect_timeout(&address, Duration::from_secs(3))?;
    let (mut accepted, _) = listener.accept()?;
    accepted.set_read_timeout(Some(Duration::from_secs(3)))?;
    dialled.write_all(b"intendant")?;
    let mut heard = [0; 9];
    accepted.read_exact(&mut heard)?;
    if &heard == b"intendant" { Ok(address.port()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// Whether nodes of this machine can communicate without TCP. They need not.
fn unix_sockets() -> Finding {
    let subject = "Unix sockets";
    match greet_over_unix_socket() {
        Ok(()) => Finding::new(subject, Severity::Ok, "nodes on this machine are connected by them"),
        Err(error) => {
            let text = format!("not available, so nodes on this machine use TCP: {error}");
            Finding::new(subject, Severity::Ok, text)
        }
    }
}

#[cfg(target_os = "linux")]
fn greet_over_unix_socket() -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    let name = format!("intendant-doctor-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    UnixStream::connect_addr(&address)?.write_all(b"intendant")?;
    let (mut accepted, _) = listener.accept()?;
    let mut heard = [0; 9];
    accepted.read_exact(&mut heard)?;
    if &heard == b"intendant" { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

#[cfg(not(target_os = "linux"))]
fn greet_over_unix_socket() -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "they need Linux"))
}

fn files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    match limit.current {
        Some(files) if files < FILES_ADVISED => {
            let hard = limit.maximum.map_or("unlimited".to_owned(), |files| files.to_string());
            let text = format!(
                "{files} per process; every other node takes one per channel, so that many nodes may need \
                 more: `ulimit -n {FILES_ADVISED}` (hard limit: {hard})"
            );
            Finding::new("open files", Severity::Warning, text)
        }
        Some(files) => Finding::new("open files", Severity::Ok, format!("{files} per process")),
        None => Finding::new("open files", Severity::Ok, "unlimited"),
    }
}

fn environment() -> Finding {
    let subject = "environment";
    match Rendezvous::from_env() {
        Ok(None) => Finding::new(
            subject,
            Severity::Ok,
            "no RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: programs run alone",
        ),
        Ok(Some(rendezvous)) => {
            let token = if rendezvous.cluster_token().is_some() { "with a token" } else { "without a token" };
            let (rank, nodes) = (rendezvous.rank(), rendezvous.nodes());
            let text = format!(
                "programs join as node {rank} of {nodes}; coordinator at {}, {token}",
                rendezvous.coordinator()
            );
            Finding::new(subject, Severity::Ok, text)
        }
        Err(error) => Finding::new(subject, Severity::Failure, error.to_string()),
    }
}

/// The certificate that the arguments name, if they name one.
fn certificate(args: &DoctorArgs) -> Result<Option<Tls>, Finding> {
    args.tls.load().map_err(|error| Finding::new("certificate", Severity::Failure, error.to_string()))
}

fn cluster(address: &str, tls: Option<&Tls>) -> Vec<Finding> {
    let subject = "cluster";
    let token = match Rendezvous::token_from_env() {
        Ok(token) => token,
        Err(error) => return vec![Finding::new(subject, Severity::Failure, error.to_string())],
    };
    match health(address, token.as_ref(), tls) {
        Ok(health) => describe(&health),
        Err(error) => vec![Finding::new(subject, Severity::Failure, error.to_string())],
    }
}

fn describe(health: &Health) -> Vec<Finding> {
    let state = match health.state {
        State::Joining => "is waiting for nodes",
        State::Running => "is running",
        State::Closed => "has ended",
        State::Failed => "has failed",
        State::Unknown | _ => "is in a state that this version does not know",
    };
    let severity = if health.state == State::Failed { Severity::Failure } else { Severity::Ok };
    let mut text = format!("{:016x} {state}; coordinator runs version {}", health.cluster, health.version);
    if let Some(failure) = &health.failure {
        let _ = write!(text, ": {failure}");
    }
    let mut findings = vec![Finding::new("cluster", severity, text)];
    for member in &health.members {
        let node = member.node;
        let text = match member.presence {
            Presence::Absent => format!("node {node} has not joined"),
            Presence::Present => {
                format!(
                    "node {node} at {}, heard {:.1} s ago",
                    member.data_address,
                    member.silent.as_secs_f64()
                )
            }
            Presence::Left => format!("node {node} has left"),
            Presence::Ended => format!("node {node} has ended"),
        };
        findings.push(Finding::new("node", Severity::Ok, text));
    }
    for gather in &health.gathers {
        let text = format!(
            "'{}' has waited {:.1} s for {:?}",
            gather.name,
            gather.waiting.as_secs_f64(),
            gather.missing
        );
        findings.push(Finding::new("waiting", Severity::Ok, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_lines_are_found_by_their_whole_name() {
        let table = "MemTotal:       16384000 kB\nMemAvailableX: 1 kB\nMemAvailable:    2048000 kB\n";
        assert_eq!(meminfo_mib(table, "MemAvailable"), Some(2000));
        assert_eq!(meminfo_mib(table, "MemTotal"), Some(16000));
        assert_eq!(meminfo_mib(table, "Mem"), None);
    }
}
