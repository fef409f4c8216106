//! The control plane and the launcher with real processes: killed, stopped, interrupted, refused.
//!
//! Every test starts this same test binary again: once as a launcher ([`role_launcher`]), which starts it as
//! nodes ([`role_node`]). Nodes gather in a loop and write what they saw to files. The launcher bounds the
//! times: if a node does not end by itself within 10 s of the first failure, the launcher kills it and says
//! so. The tests have safety nets only.
#![cfg(target_os = "linux")]

use intendant::control::{Control, DataPlane, FailureKind, Introduction};
use intendant::launch::Launch;
use intendant::{ElementType, Error, NodeId, Rendezvous};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DIR: &str = "CONTROL_TEST_DIR";
const NODES: &str = "CONTROL_TEST_NODES";
const WRAPPED: &str = "CONTROL_TEST_WRAPPED";
const WRONG: &str = "CONTROL_TEST_WRONG";
const HELD: &str = "CONTROL_TEST_HELD";

/// The longest wait, far longer than any promised time.
const SAFETY_NET: u32 = 6000;

fn pause(ms: u64) {
    let (_keep, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_millis(ms));
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..SAFETY_NET {
        if let Some(found) = look() {
            return found;
        }
        pause(10);
    }
    panic!("waited in vain for {what}");
}

/// Writes a file that no reader sees half written.
fn leave_note(path: PathBuf, text: &str) {
    let draft = PathBuf::from(format!("{}.draft", path.display()));
    fs::write(&draft, text).unwrap();
    fs::rename(&draft, path).unwrap();
}

// ---- the processes ----

/// A node: gathers until told to stop.
#[test]
#[ignore = "the program that the other tests start"]
fn role_node() {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("started by a test"));
    std::process::exit(match node(&dir) {
        Ok(()) => 0,
        Err((code, text)) => {
            // One write prints the line in one piece, because several nodes print at the same time.
            let _ = std::io::stderr().write_all(format!("node: {text}\n").as_bytes());
            code
        }
    });
}

fn node(dir: &Path) -> Result<(), (i32, String)> {
    let place =
        Rendezvous::from_env().map_err(|error| (2, error.to_string()))?.ok_or((2, "alone".to_owned()))?;
    let rank = place.rank();
    let mut introduction = Introduction {
        protocol: 1,
        version: "0.1.0".into(),
        layout: 7,
        settings: Vec::new(),
        data: Some(DataPlane {
            element: ElementType::F32,
            channels: 1,
            address: SocketAddr::from(([127, 0, 0, 1], 9)).into(),
        }),
    };
    match std::env::var(WRONG).as_deref() {
        Ok("version") => introduction.protocol = 2,
        Ok("layout") => introduction.layout = 8,
        Ok("element") => introduction.data.iter_mut().for_each(|data| data.element = ElementType::F64),
        Ok(_) | Err(_) => {}
    }
    let file = |kind: &str| dir.join(format!("{kind}.{rank}"));
    if std::env::var_os(HELD).is_some() {
        leave_note(file("port"), &place.coordinator().port.to_string());
        leave_note(file("pid"), &std::process::id().to_string());
        while rank == NodeId(0) {
            pause(1000);
        }
    }
    let (control, _) = Control::join(place, introduction).map_err(|error| {
        let text = error.to_string();
        (Error::from(error).exit_code().into(), text)
    })?;
    let mut rounds = 0;
    loop {
        if file("abort").exists() {
            control.abort("told to");
            return Err((3, "aborted".into()));
        }
        let stop = rank == NodeId(0) && dir.join("stop").exists();
        match control.gather("step", vec![u8::from(stop)]) {
            Ok(all) if all[0] == [1] => break,
            Ok(_) => {}
            Err(failure) => {
                leave_note(file("end"), &failure.to_string());
                return Err((if failure.kind == FailureKind::PeerLost { 4 } else { 1 }, failure.to_string()));
            }
        }
        rounds += 1;
        if rounds == 1 {
            if rank == NodeId(0) {
                let named = |name: &str| format!("{name}={}\n", std::env::var(name).unwrap());
                let names = ["MASTER_ADDR", "MASTER_PORT", "INTENDANT_TOKEN"];
                leave_note(dir.join("cluster"), &names.map(named).concat());
            }
            leave_note(file("pid"), &std::process::id().to_string());
        }
        pause(10);
    }
    control.leave().map_err(|failure| (4, failure.to_string()))
}

/// A launcher of nodes, each started directly or inside a shell that has another child.
#[test]
#[ignore = "the program that the other tests start"]
fn role_launcher() {
    let nodes = std::env::var(NODES).expect("started by a test").parse().unwrap();
    let this = std::env::current_exe().unwrap();
    let args = role("control_processes::role_node");
    let launch = if std::env::var_os(WRAPPED).is_some() {
        let script = format!("sleep 1000 >/dev/null 2>&1 & '{}' {}; exit $?", this.display(), args.join(" "));
        Launch::new(nodes, "sh").args(["-c", &script])
    } else {
        Launch::new(nodes, this).args(args)
    };
    std::process::exit(launch.run().unwrap().into());
}

fn role(name: &str) -> [&str; 4] {
    ["--ignored", "--exact", "--nocapture", name]
}

// ---- what the tests do with them ----

struct Cluster {
    dir: tempfile::TempDir,
    launcher: Child,
    nodes: u16,
}

impl Cluster {
    /// Starts a cluster and waits until it runs.
    fn start(nodes: u16, wrapped: bool) -> Self {
        Self::start_with(nodes, if wrapped { &[WRAPPED] } else { &[] })
    }

    fn start_with(nodes: u16, switches: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(role("control_processes::role_launcher"))
            .env(DIR, dir.path())
            .env(NODES, nodes.to_string());
        command.envs(switches.iter().map(|switch| (switch, "1")));
        let launcher = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let cluster = Self { dir, launcher, nodes };
        for rank in 0..nodes {
            cluster.pid(rank);
        }
        cluster
    }

    fn pid(&self, rank: u16) -> Pid {
        let path = self.dir.path().join(format!("pid.{rank}"));
        let text = wait_for("a node to run", || fs::read_to_string(&path).ok());
        Pid::from_raw(text.parse().unwrap()).unwrap()
    }

    fn signal(&self, rank: u16, signal: Signal) {
        kill_process(self.pid(rank), signal).unwrap();
    }

    fn signal_launcher(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.launcher), signal).unwrap();
    }

    fn note(&self, name: &str) {
        leave_note(self.dir.path().join(name), "");
    }

    /// Waits for the launcher. Returns its exit status, and the output of the launcher and the nodes.
    fn end(&mut self) -> (ExitStatus, String) {
        let status = wait_for("the launcher to end", || self.launcher.try_wait().unwrap());
        let mut text = String::new();
        self.launcher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (status, text)
    }

    /// The ends that the nodes saw, by rank.
    fn ends(&self) -> BTreeMap<u16, String> {
        let read = |rank| fs::read_to_string(self.dir.path().join(format!("end.{rank}"))).ok();
        (0..self.nodes).filter_map(|rank| Some((rank, read(rank)?))).collect()
    }

    /// Processes with this cluster's mark in their environment that are neither gone nor dead.
    fn alive(&self) -> Vec<u32> {
        let mark = format!("{DIR}={}", self.dir.path().display());
        let mut alive = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let dead = stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with(['Z', 'X']));
            if !dead && environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()) {
                alive.push(pid);
            }
        }
        alive
    }

    fn wait_until_all_processes_are_gone(&self) {
        wait_for("all processes to be gone", || self.alive().is_empty().then_some(()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // After a failed test, the launcher's death ends the other processes.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// One of four nodes gets a signal. All others must end by themselves with code 4, and name the node and what
/// happened.
fn others_end_saying(victim: u16, signal: Signal, is_expected: impl Fn(&str) -> bool) {
    let mut cluster = Cluster::start(4, false);
    cluster.signal(victim, signal);
    let (status, text) = cluster.end();
    assert_eq!(status.code(), Some(4), "{text}");
    let ends = cluster.ends();
    let others: Vec<u16> = (0..4).filter(|&rank| rank != victim).collect();
    assert_eq!(ends.keys().copied().collect::<Vec<_>>(), others, "{text}");
    for (rank, end) in &ends {
        assert!(is_expected(end), "node {rank} said '{end}'");
        let returned = |line: &str| {
            line.starts_with(&format!("launch: node {rank} "))
                && line.ends_with("returned exit code 4 (a peer was lost)")
        };
        assert!(text.lines().any(returned), "{text}");
    }
    cluster.wait_until_all_processes_are_gone();
}

/// Whether `end` says that `who` was silent for too long. The length of the silence depends on how busy the
/// machine is.
fn stopped(end: &str, who: &str) -> bool {
    let seconds = end.strip_prefix(who).and_then(|end| end.strip_prefix(" stopped answering for "));
    let seconds = seconds.and_then(|end| end.strip_suffix(" s")?.parse::<f64>().ok());
    seconds.is_some_and(|seconds| seconds >= 5.0)
}

#[test]
fn a_killed_node_is_named_by_all_others() {
    others_end_saying(2, Signal::KILL, |end| end == "node 2 closed its connection without leaving");
}

#[test]
fn a_stopped_node_is_named_by_all_others() {
    others_end_saying(1, Signal::STOP, |end| stopped(end, "node 1"));
}

#[test]
fn a_killed_coordinator_is_named_by_all_others() {
    let gone = "the coordinator (node 0) closed its connection without leaving";
    others_end_saying(0, Signal::KILL, |end| end == gone);
}

/// The launcher's socket accepts connections for node 0 while node 0 reads its data: the others are connected
/// before node 0 joins.
#[test]
fn a_coordinator_killed_before_it_joins_is_named_by_all_others() {
    let mut cluster = Cluster::start_with(4, &[HELD]);
    let port: u16 = fs::read_to_string(cluster.dir.path().join("port.0")).unwrap().parse().unwrap();
    wait_for("the others to have sent something", || (waiting_at(port) == 3).then_some(()));
    cluster.signal(0, Signal::KILL);
    let (status, text) = cluster.end();
    assert_eq!(status.code(), Some(4), "{text}");
    let said =
        "node: the cluster ended before it was complete: the coordinator (node 0) closed its connection";
    assert_eq!(text.matches(said).count(), 3, "{text}");
    assert_eq!(text.matches("returned exit code 4 (a peer was lost)").count(), 3, "{text}");
    cluster.wait_until_all_processes_are_gone();
}

/// Number of open connections to a port of this machine on which the other end has sent bytes that are not
/// read yet.
fn waiting_at(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let waits = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        let unread = fields.next().and_then(|queues| queues.split_once(':')).map(|(_, unread)| unread);
        local == Some(&format!("0100007F:{port:04X}"))
            && state == Some("01")
            && unread.is_some_and(|unread| unread != "00000000")
    };
    table.lines().filter(waits).count()
}

#[test]
fn a_stopped_coordinator_is_named_by_all_others() {
    others_end_saying(0, Signal::STOP, |end| stopped(end, "the coordinator (node 0)"));
}

#[test]
fn a_pause_of_three_seconds_ends_no_node() {
    let mut cluster = Cluster::start(3, false);
    for rank in [1, 0] {
        cluster.signal(rank, Signal::STOP);
        pause(3000);
        cluster.signal(rank, Signal::CONT);
        pause(200);
    }
    cluster.note("stop");
    let (status, text) = cluster.end();
    assert_eq!(status.code(), Some(0), "{text}");
}

/// The pause is like that of a closed laptop: all nodes were silent for longer than allowed, and each node
/// knows that it was away itself.
#[test]
fn a_pause_of_the_whole_machine_ends_no_node() {
    let mut cluster = Cluster::start(3, false);
    for signal in [Signal::STOP, Signal::CONT] {
        (0..3).for_each(|rank| cluster.signal(rank, signal));
        pause(7000);
    }
    cluster.note("stop");
    let (status, text) = cluster.end();
    assert_eq!(status.code(), Some(0), "{text}");
}

#[test]
fn an_abort_reaches_all_and_its_code_is_the_launchers() {
    let mut cluster = Cluster::start(3, false);
    cluster.note("abort.2");
    let (status, text) = cluster.end();
    assert_eq!(status.code(), Some(3), "{text}");
    let said = "node 2 ended the run: told to".to_owned();
    assert_eq!(cluster.ends(), BTreeMap::from([(0, said.clone()), (1, said)]), "{text}");
}

#[test]
fn interrupting_the_launcher_ends_all() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut cluster = Cluster::start(3, true);
        // A stopped node cannot react to SIGTERM.
        cluster.signal(1, Signal::STOP);
        cluster.signal_launcher(signal);
        let (status, text) = cluster.end();
        assert_eq!(status.code(), Some(code), "{text}");
        cluster.wait_until_all_processes_are_gone();
    }
}

#[test]
fn killing_the_launcher_leaves_no_process_behind() {
    for wrapped in [false, true] {
        let cluster = Cluster::start(3, wrapped);
        cluster.signal(1, Signal::STOP);
        let expected = if wrapped { 3 * 3 } else { 3 };
        assert!(cluster.alive().len() > expected, "a launcher, its guardian, and the nodes");
        cluster.signal_launcher(Signal::KILL);
        cluster.wait_until_all_processes_are_gone();
    }
}

/// The kernel ends nodes when the launcher dies; the guardian ends the processes that the nodes start.
#[test]
fn killing_the_guardian_and_the_launcher_leaves_no_node_behind() {
    let cluster = Cluster::start(3, false);
    let nodes = [0, 1, 2].map(|rank| cluster.pid(rank).as_raw_pid());
    let launcher = cluster.launcher.id().to_string();
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).map(str::to_owned)
    };
    let children =
        cluster.alive().into_iter().filter(|&pid| parent(pid).is_some_and(|parent| parent == launcher));
    let guardians: Vec<i32> = children.map(|pid| pid as i32).filter(|pid| !nodes.contains(pid)).collect();
    assert_eq!(guardians.len(), 1);
    kill_process(Pid::from_raw(guardians[0]).unwrap(), Signal::KILL).unwrap();
    cluster.signal_launcher(Signal::KILL);
    cluster.wait_until_all_processes_are_gone();
}

#[test]
fn what_a_node_leaves_in_its_group_ends_with_it() {
    let mut cluster = Cluster::start(2, true);
    cluster.note("stop");
    let (status, text) = cluster.end();
    assert_eq!(status.code(), Some(0), "{text}");
    cluster.wait_until_all_processes_are_gone();
}

/// Starts one process by hand, in the manner of torchrun. Returns its exit code and its output.
fn by_hand(dir: &Path, env: &[(String, String)]) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(role("control_processes::role_node")).env(DIR, dir).envs(env.iter().cloned());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn refused_processes_end_while_the_clusters_run_on_side_by_side() {
    let mut clusters = [Cluster::start(2, false), Cluster::start(2, false)];
    let environments = clusters.each_ref().map(|cluster| {
        let text = fs::read_to_string(cluster.dir.path().join("cluster")).unwrap();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>()
    });
    for name in ["MASTER_PORT", "INTENDANT_TOKEN"] {
        assert_ne!(environments[0][name], environments[1][name], "two clusters share {name}");
    }
    let other_token = environments[1]["INTENDANT_TOKEN"].as_str();
    let cases = [
        (vec![("INTENDANT_TOKEN", other_token)], "refused this node's token"),
        (vec![(WRONG, "version")], "the cluster speaks protocol 1"),
        (
            vec![(WRONG, "layout")],
            "the cluster's layout has digest 0000000000000007, this node's 0000000000000008",
        ),
        (vec![(WRONG, "element")], "the cluster's values are f32, this node's f64"),
        (vec![("WORLD_SIZE", "5")], "the cluster has 2 nodes, this node was started for 5"),
        (vec![], "rank 1 is taken"),
    ];
    for (changes, expected) in cases {
        let mut env = environments[0].clone();
        env.extend(
            [("RANK", "1"), ("WORLD_SIZE", "2")].map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        env.extend(changes.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        let (code, text) = by_hand(clusters[0].dir.path(), &env.into_iter().collect::<Vec<_>>());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "expected '{expected}' in: {text}");
    }
    for cluster in &mut clusters {
        cluster.note("stop");
        let (status, text) = cluster.end();
        assert_eq!(status.code(), Some(0), "{text}");
        assert!(cluster.ends().is_empty());
    }
}

#[test]
fn a_port_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let env = [("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port)];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (code, text) = by_hand(dir.path(), &env);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&format!("port {port} of 127.0.0.1 is in use")), "{text}");
}

#[test]
fn an_inherited_socket_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let env = [
        ("RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "1"),
        ("INTENDANT_LISTEN_FD", "777"),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (code, text) = by_hand(dir.path(), &env);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("INTENDANT_LISTEN_FD=777: no such descriptor is open"), "{text}");
}
