//! Programs under test: started with a clean environment, ended if they hang.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// No run in these tests takes this long, even on a busy machine; a run that does would hang forever.
const SAFETY_NET: Duration = Duration::from_secs(300);

/// Environment variables that make a process a node, or make it log more.
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

    /// The command that runs this program with `flags`, see [`command`].
    #[must_use]
    pub fn command(self, flags: &[&str]) -> Command {
        let mut command = command(self.0);
        command.args(flags);
        command
    }

    /// Runs the program to its end.
    #[must_use]
    pub fn output(self, flags: &[&str]) -> Output {
        finish(start(self.command(flags)))
    }

    /// Runs the program to its end, with this standard input.
    ///
    /// # Panics
    /// If there is no such program, or it hangs.
    #[must_use]
    #[track_caller]
    pub fn output_with(self, flags: &[&str], input: &str) -> Output {
        let mut command = self.command(flags);
        command.stdin(Stdio::piped());
        let mut child = start(command);
        let mut stdin = child.stdin.take().expect("its standard input");
        let input = input.to_owned();
        // A program that refuses its flags does not read.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = finish(child);
        writer.join().expect("no panic");
        output
    }

    /// The JSON objects that the program prints, one per line. The run must succeed.
    #[must_use]
    #[track_caller]
    pub fn answers(self, flags: &[&str], input: &str) -> Vec<Value> {
        let output = self.output_with(flags, input);
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Asserts that the program refuses these flags or this input with exit code 2, and says `what`.
    #[track_caller]
    pub fn refuses(self, flags: &[&str], input: &str, what: &str) {
        let output = self.output_with(flags, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(what), "{flags:?}: {said}");
    }

    /// Runs the program quietly, and returns its report. The run must succeed.
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

/// A command without input, and without environment variables that configure the program or make it a node.
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

/// Starts a program, and keeps its output.
///
/// # Panics
/// If there is no such program.
#[must_use]
pub fn start(mut command: Command) -> Child {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()))
}

/// Waits for the end of a program.
///
/// # Panics
/// If the program does not end within five minutes; it is then killed.
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
/// The operating system itself assigns ports from 32,768 upwards, to sockets bound to port 0 and to outgoing
/// connections. A port of that range, once released, may belong to a concurrent test before its process
/// starts. Below that range, launchers of this project use ports from 20,000 upwards, and these tests use
/// ports below 20,000. Every call returns another port.
#[must_use]
pub fn unused_port() -> u16 {
    unused_ports(1)
}

/// The first of `count` consecutive such ports.
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
