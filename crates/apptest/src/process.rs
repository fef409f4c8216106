//! Programs under test: started with a clean environment, ended if they hang.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Nothing in these tests takes this long, on a busy machine either; a run that does would hang forever.
const SAFETY_NET: Duration = Duration::from_secs(300);

/// Variables that make a process a node, or make it say more.
const VARIABLES: [&str; 6] =
    ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE", "RUST_LOG"];

/// An application's program.
#[derive(Clone, Copy, Debug)]
pub struct App(&'static str);

impl App {
    /// The program at this path.
    #[must_use]
    pub const fn new(path: &'static str) -> Self {
        Self(path)
    }

    /// As [`command`].
    #[must_use]
    pub fn command(self, flags: &[&str]) -> Command {
        let mut command = command(self.0);
        command.args(flags);
        command
    }

    /// Runs it to the end.
    #[must_use]
    pub fn output(self, flags: &[&str]) -> Output {
        finish(start(self.command(flags)))
    }

    /// Runs it, which must succeed, without a word, and returns its report.
    #[must_use]
    #[track_caller]
    pub fn report(self, flags: &[&str]) -> Value {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.json");
        let mut command = self.command(flags);
        command.arg("-q").arg("--report").arg(&file);
        let output = finish(start(command));
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&std::fs::read(file).expect("a report")).expect("JSON")
    }
}

/// A program with nothing from the environment that configures it or makes it a node, and no input.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("INTENDANT_") || VARIABLES.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Starts a program whose output is kept.
///
/// # Panics
/// If there is no such program.
#[must_use]
pub fn start(mut command: Command) -> Child {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()))
}

/// Waits for the end.
///
/// # Panics
/// If it does not end within five minutes; it is killed then.
#[must_use]
#[track_caller]
pub fn finish(child: Child) -> Output {
    let pid = Pid::from_child(&child);
    let (done, waiting) = channel::<()>();
    let net = std::thread::spawn(move || {
        let hung = waiting.recv_timeout(SAFETY_NET) == Err(RecvTimeoutError::Timeout);
        if hung {
            let _ = kill_process(pid, Signal::KILL);
        }
        hung
    });
    let output = child.wait_with_output().expect("its output");
    drop(done);
    assert!(!net.join().expect("no panic"), "it hung: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A port of 127.0.0.1 that nothing listens at, for a process that binds it later.
///
/// The system hands out ports from 32,768 upwards on its own: to sockets bound to port 0 and to connections
/// that go out. A port of that range, once released, may belong to a test beside this one before its process
/// starts. Below, launchers of this project name ports from 20,000 upwards, and these tests those below that.
/// Every call returns another one.
#[must_use]
pub fn unused_port() -> u16 {
    unused_ports(1)
}

/// The first of `count` such ports in a row.
#[must_use]
pub fn unused_ports(count: u16) -> u16 {
    const PORTS: std::ops::Range<u16> = 10_240..20_000;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Test programs that run at the same time start at different places.
    let start = std::process::id().wrapping_mul(61);
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (0..PORTS.len())
        .map(|_| {
            let call = CALLS.fetch_add(count.into(), Ordering::Relaxed);
            let at = start.wrapping_add(call) as usize % PORTS.len();
            PORTS.start + u16::try_from(at).expect("within the range")
        })
        .find(|first| *first <= PORTS.end - count && (0..count).all(|k| is_free(first + k)))
        .expect("ports that nothing listens at")
}

/// Makes commands the nodes of one cluster, in the order of their ranks, as torchrun would.
#[must_use]
pub fn ranks(mut commands: Vec<Command>) -> Vec<Command> {
    let port = unused_port().to_string();
    let nodes = commands.len().to_string();
    for (rank, command) in commands.iter_mut().enumerate() {
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", &nodes);
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
    }
    commands
}
