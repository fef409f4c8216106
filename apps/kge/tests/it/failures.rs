//! Four processes train; one of them, or their launcher, is killed or stopped in the middle of an epoch.
#![cfg(target_os = "linux")]

use intendant_apptest::App;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

const KGE: App = App::new(env!("CARGO_BIN_EXE_intendant-kge"));

/// A small graph for nodes in a virtual machine (`scripts/rxe.sh`), which computes hundreds of times slower.
const LIGHT: [&str; 6] = ["--data", "builtin:synthetic:400x4x2000", "--batch", "64", "--negatives", "32"];

/// Maximum number of polls: two minutes. The promised time is far shorter: the launcher itself kills and
/// reports nodes that do not end within ten seconds of the first failure, and the tests check its report.
const LOOKS_MAX: usize = 12_000;

/// Time for a line of output: far longer than the promised time, so that a surviving node fails the test
/// instead of blocking it.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (_keep, never) = mpsc::channel::<()>();
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look() {
            return found;
        }
        let _ = never.recv_timeout(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

/// Runs take turns: each has four processes that compute.
static TURN: Mutex<()> = Mutex::new(());

/// A `kge` with four node processes that trains until something happens to it.
struct Run {
    launcher: Child,
    /// The lines that launcher and nodes write to standard error; the channel ends when the last of them has
    /// ended.
    lines: mpsc::Receiver<String>,
    nodes: Vec<Pid>,
    /// Their output until all nodes train.
    start: String,
    /// Distinguishes this run's processes from all others.
    mark: String,
    report: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Run {
    fn start(transport: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let report = tempfile::tempdir().unwrap();
        let mark = format!("KGE_TEST_RUN={}", report.path().display());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = KGE.command(&[
            "--nodes",
            "4",
            "--transport",
            transport,
            "--workers",
            "1",
            "--epochs",
            "100000",
            "--valid-every",
            "0",
            "--dim",
            "16",
        ]);
        if transport == "verbs" {
            command.args(LIGHT);
        }
        command.args(["-v", "--report"]).arg(report.path().join("report.json")).env(name, value);
        let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(launcher.stderr.take().unwrap());
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        let (nodes, start) = (Vec::new(), String::new());
        let mut run = Self { launcher, lines, nodes, start, mark, report, _turn: turn };
        run.nodes = wait_for("four nodes", || {
            let nodes: Vec<Pid> = (0..4).filter_map(|rank| run.node(rank)).collect();
            (nodes.len() == 4).then_some(nodes)
        });
        // All nodes are in the middle of training when the first epochs are over.
        loop {
            let line = run.line("an epoch").expect("it trains on until something happens");
            if line.contains(" 2/100000 ") {
                return run;
            }
            run.start.push_str(&line);
            run.start.push('\n');
        }
    }

    /// Processes of this run that are not dead, with their environments.
    fn processes(&self) -> Vec<(Pid, Vec<String>)> {
        let mut processes = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) =
                entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
            else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            let variables: Vec<String> = environment.split('\0').map(str::to_owned).collect();
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let dead = stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with(['Z', 'X']));
            if !dead && variables.contains(&self.mark) {
                processes.push((pid, variables));
            }
        }
        processes
    }

    fn node(&self, rank: usize) -> Option<Pid> {
        let rank = format!("RANK={rank}");
        self.processes().into_iter().find(|(_, variables)| variables.contains(&rank)).map(|(pid, _)| pid)
    }

    /// The next line, or `None` at the end.
    fn line(&self, what: &str) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("waited in vain for {what}"),
        }
    }

    /// Whether each node has mapped memory of others: rings or windows.
    fn has_mapped(&self) -> bool {
        let maps = |pid: &Pid| fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_pid()));
        self.nodes.iter().all(|pid| maps(pid).expect("it runs").contains("memfd:intendant-segment"))
    }

    /// Names of the sockets at which nodes of this run listen.
    fn names(&self) -> Vec<String> {
        let mut sockets = Vec::new();
        for pid in &self.nodes {
            for entry in fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).expect("it runs").flatten() {
                let Ok(target) = fs::read_link(entry.path()) else { continue };
                let target = target.to_string_lossy().into_owned();
                if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
                    sockets.push(inode.to_owned());
                }
            }
        }
        let of_a_node = |line: &[String]| line.len() == 8 && sockets.contains(&line[6]);
        unix_sockets().into_iter().filter(|line| of_a_node(line)).map(|line| line[7].clone()).collect()
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        while let Some(line) = self.line("the end of all processes") {
            text.push_str(&line);
            text.push('\n');
        }
        let status = wait_for("the launcher", || self.launcher.try_wait().unwrap());
        wait_for("all processes to be gone", || self.processes().is_empty().then_some(()));
        (status, text)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Processes are left to kill only after a failed test.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// The lines of `/proc/net/unix`: the seventh word is the inode, the eighth the name, if there is one.
fn unix_sockets() -> Vec<Vec<String>> {
    let text = fs::read_to_string("/proc/net/unix").expect("Linux");
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// All other nodes end by themselves, with exit code 4, and name the victim.
fn the_others_end(transport: &str, victim: usize, signal: Signal, name: &str) {
    let mut run = Run::start(transport);
    assert_eq!(run.has_mapped(), transport != "tcp", "{transport}");
    let connected = match transport {
        "auto" => "connections to the other nodes: 3 over shared memory, 0 over Unix sockets",
        "unix" => "connections to the other nodes: 3 over Unix sockets",
        "tcp" => "0 over Unix sockets, 3 over TCP",
        _ => "3 over RDMA",
    };
    assert_eq!(run.start.matches(connected).count(), 4, "{connected}:\n{}", run.start);
    let names = run.names();
    assert_eq!(names.is_empty(), transport == "tcp" || transport == "verbs", "{names:?}");
    kill_process(run.nodes[victim], signal).unwrap();
    let (status, text) = run.end();
    // Memory of rings has no name at all: it ends with the processes.
    let left: Vec<_> = unix_sockets()
        .into_iter()
        .filter(|line| line.get(7).is_some_and(|name| names.contains(name)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(status.code(), Some(4), "{text}");
    for rank in (0..4).filter(|rank| *rank != victim) {
        let ended = format!("node {rank} ");
        let own = |line: &str| line.contains(&ended) && line.contains("exit code 4 (a peer was lost)");
        assert!(text.lines().any(own), "node {rank} did not end with code 4:\n{text}");
    }
    let says = |line: &&str| line.starts_with("kge: error: ") && line.contains(name);
    assert_eq!(text.lines().filter(says).count(), 3, "three errors that name {name}:\n{text}");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let left: Vec<String> = fs::read_dir(run.report.path()).unwrap().map(name).collect();
    assert_eq!(left, ["report.epochs.jsonl"], "the history and no report of a run that failed");
}

#[test]
fn a_killed_node_ends_the_run_by_name() {
    for transport in ["auto", "unix", "tcp"] {
        the_others_end(transport, 2, Signal::KILL, "node 2 ");
    }
}

/// Without a network card, the test reports this and passes; if `REQUIRE_VERBS` is set, as in
/// `scripts/rxe.sh`, it fails.
#[cfg(feature = "verbs")]
#[test]
fn nodes_over_rdma_train_and_end_by_name() {
    if fs::read_dir("/sys/class/infiniband").map_or(0, Iterator::count) == 0 {
        assert!(std::env::var_os("REQUIRE_VERBS").is_none(), "there is no RDMA device");
        eprintln!("skipped: there is no RDMA device");
        return;
    }
    let flags = ["--nodes", "2", "--transport", "verbs", "--dim", "16", "--epochs", "1", "-v", "-q"];
    let output = KGE.output(&[&flags[..], &LIGHT].concat());
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("1 over RDMA, 0 over Unix sockets, 0 over TCP"), "{text}");
    the_others_end("verbs", 2, Signal::KILL, "node 2 ");
    the_others_end("verbs", 0, Signal::KILL, "the coordinator (node 0) ");
}

/// Memory that a network card uses is locked. Root may lock any amount because of a capability, which a
/// thread and the processes that it starts can give up.
#[cfg(feature = "verbs")]
#[test]
fn memory_beyond_the_limit_is_refused_with_the_limit() {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    if fs::read_dir("/sys/class/infiniband").map_or(0, Iterator::count) == 0 {
        eprintln!("skipped: there is no RDMA device");
        return;
    }
    let run = || {
        remove_capability_from_bounding_set(CapabilitySet::IPC_LOCK).unwrap();
        let mut limited = intendant_apptest::command("sh");
        limited.args(["-c", "ulimit -l 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_intendant-kge")]);
        limited.args(["--nodes", "2", "--transport", "verbs", "--dim", "16", "--epochs", "1"]);
        intendant_apptest::finish(intendant_apptest::start(limited))
    };
    let output = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("this process may lock 65536 bytes. Raise the limit (ulimit -l unlimited"),
        "{text}"
    );
}

#[test]
fn a_stopped_node_ends_the_run_by_name() {
    for transport in ["auto", "unix", "tcp"] {
        the_others_end(transport, 3, Signal::STOP, "node 3 ");
    }
}

#[test]
fn a_killed_coordinator_ends_the_run_by_name() {
    the_others_end("auto", 0, Signal::KILL, "the coordinator (node 0) ");
}

#[test]
fn a_stopped_coordinator_ends_the_run_by_name() {
    the_others_end("tcp", 0, Signal::STOP, "the coordinator (node 0) ");
}

#[test]
fn an_interrupt_ends_everything() {
    let mut run = Run::start("auto");
    kill_process(Pid::from_child(&run.launcher), Signal::INT).unwrap();
    let (status, text) = run.end();
    assert_eq!(status.code(), Some(130), "{text}");
}

#[test]
fn nothing_survives_a_killed_launcher() {
    let mut run = Run::start("auto");
    run.launcher.kill().unwrap();
    let (status, _) = run.end();
    assert_eq!(status.code(), None, "killed");
}

/// Whether a process has a handler for this signal.
fn handles(process: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn a_signal_ends_the_program_with_a_word_while_data_are_read() {
    // Generating this graph takes seconds.
    let mut command = KGE.command(&["--data", "builtin:synthetic:490598x573x3000000", "--nodes", "1"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let process = Pid::from_child(&child);
    wait_for("a handler of signals", || handles(process, Signal::INT).then_some(()));
    kill_process(process, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("error: interrupted by signal 2"), "{said}");
}
