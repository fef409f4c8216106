//! The `intendant` command, as users see it: real processes, exit codes, output.
#![cfg(target_os = "linux")]

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longest wait for anything, in steps of 10 ms; a safety net.
const STEPS_MAX: u32 = 6000;

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (_keep, nothing) = mpsc::channel::<()>();
    for _ in 0..STEPS_MAX {
        if let Some(found) = look() {
            return found;
        }
        let _ = nothing.recv_timeout(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

pub(crate) fn intendant() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_intendant"));
    for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "INTENDANT_LAUNCHED", "INTENDANT_TOKEN"]
    {
        command.env_remove(name);
    }
    command
}

/// `intendant launch -n NODES -- sh -c SCRIPT`.
fn launch(nodes: u32, script: &str) -> Command {
    let mut command = intendant();
    command.args(["launch", "-n", &nodes.to_string(), "--", "sh", "-c", script]);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted_lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_token_of_readers_is_made_of_that_of_the_cluster() {
    let print = |token: Option<&str>| {
        let mut command = intendant();
        command.arg("metrics-token").env_remove("INTENDANT_TOKEN_FILE");
        if let Some(token) = token {
            command.env("INTENDANT_TOKEN", token);
        }
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let token = "00112233445566778899aabbccddeeff";
    let of_readers = "4d7f0f826f9ceb439daae5e989609f159118e41877cfeef0d1c18e6e77f0e729\n";
    assert_eq!(print(Some(token)), (Some(0), of_readers.to_owned(), String::new()));
    for (token, message) in
        [(None, "set INTENDANT_TOKEN or"), (Some("5ec2e7"), "INTENDANT_TOKEN: the token has 6")]
    {
        let (code, out, said) = print(token);
        assert!(code == Some(2) && out.is_empty() && said.contains(message), "{code:?} {out} {said}");
    }
}

#[test]
fn every_node_finds_its_place_in_the_environment() {
    let script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $INTENDANT_LAUNCHED \
         ${#INTENDANT_TOKEN}";
    let output = launch(3, script).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = [0, 1, 2].map(|rank| format!("{rank} {rank} 3 3 127.0.0.1 1 64"));
    assert_eq!(sorted_lines(&output), expected);

    let output = launch(3, "echo $MASTER_PORT $INTENDANT_TOKEN").output().unwrap();
    let lines = sorted_lines(&output);
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| *line == lines[0]), "all nodes meet at one place: {lines:?}");
    let other = launch(1, "echo $MASTER_PORT $INTENDANT_TOKEN").output().unwrap();
    assert_ne!(sorted_lines(&other)[0], lines[0], "the next cluster has a token of its own");
}

#[test]
fn only_node_0_has_the_coordinators_socket() {
    let script = "if [ -n \"$INTENDANT_LISTEN_FD\" ]; then readlink /proc/self/fd/$INTENDANT_LISTEN_FD | cut \
         -d: -f1; fi; for fd in /proc/self/fd/*; do readlink $fd; done | grep -c '^socket'";
    // The process that runs the tests may leave its sockets open for its children.
    let plain = Command::new("sh").args(["-c", script]).env_remove("INTENDANT_LISTEN_FD").output().unwrap();
    let others: u32 = text(&plain.stdout).trim().parse().unwrap();
    let output = launch(3, script).output().unwrap();
    let mut expected = [others, others, others + 1].map(|sockets| sockets.to_string()).to_vec();
    expected.push("socket".to_owned());
    expected.sort();
    assert_eq!(sorted_lines(&output), expected, "{output:?}");
}

#[test]
fn the_standard_input_of_nodes_is_empty() {
    let mut launcher = launch(2, "cat").stdin(Stdio::piped()).spawn().unwrap();
    let status = wait_for("the launcher to end", || launcher.try_wait().unwrap());
    assert!(status.success());
}

#[test]
fn exit_codes_of_nodes_become_the_launchers() {
    let cases = [
        ("exit $((RANK == 1 ? 7 : 0))", 7, "node 1 (process "),
        ("exit $((RANK == 1 ? 4 : 1))", 4, "exit code 4 (a peer was lost)"),
        ("[ $RANK = 0 ] && kill -SEGV $$; exit 0", 139, "was killed by signal 11 (SIGSEGV)"),
        ("[ $RANK = 0 ] && exit 1; [ $RANK = 1 ] && exit 3", 3, "exit code 3 (diverged)"),
    ];
    for (script, code, said) in cases {
        let output = launch(2, script).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        assert!(text(&output.stderr).contains(said), "{script}: {output:?}");
    }
}

#[test]
fn nodes_that_do_not_end_after_a_failure_are_killed() {
    let output = launch(3, "[ $RANK = 2 ] && exit 5; [ $RANK = 1 ] && kill -STOP $$; exec sleep 1000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.matches("did not end by itself and was killed by the launcher").count(), 2, "{said}");
}

#[test]
fn wrong_usage_is_exit_code_2_with_the_reason() {
    let cases: [(&[&str], &str); 6] = [
        (&["launch", "-n", "0", "--", "true"], "allowed are 1 to 1024"),
        (&["launch", "-n", "2"], "<CMD>"),
        (&["launch", "--", "true"], "--nodes"),
        (&["launch", "-n", "2", "--hosts", "h.txt", "--", "true"], "unexpected argument '--hosts'"),
        (&["launch", "-n", "2", "--", "/no/such/program"], "cannot start '/no/such/program' as node 0"),
        (&["heal"], "'heal' is none of its commands"),
    ];
    for (args, reason) in cases {
        let output = intendant().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(text(&output.stderr).contains(reason), "{args:?}: {output:?}");
    }
    let nested =
        launch(1, &format!("'{}' launch -n 1 -- true", env!("CARGO_BIN_EXE_intendant"))).output().unwrap();
    assert_eq!(nested.status.code(), Some(2), "{nested:?}");
    assert!(text(&nested.stderr).contains("a node cannot launch nodes"), "{nested:?}");
}

#[test]
fn help_says_what_the_exit_codes_mean() {
    for (args, expected) in [
        (&["--help"][..], "4 a peer was lost"),
        (&["launch", "--help"], "intendant launch -n 4 intendant kge"),
    ] {
        let output = intendant().args(args).output().unwrap();
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(expected), "{output:?}");
    }
}

#[test]
fn the_doctor_looks_at_everything() {
    let output = intendant().arg("doctor").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let table = text(&output.stdout);
    for subject in
        ["versions", "processors", "memory", "loopback", "Unix sockets", "open files", "environment"]
    {
        assert!(table.lines().any(|line| line.starts_with(subject)), "no line about {subject}: {table}");
    }
    let partial = intendant().arg("doctor").env("RANK", "0").output().unwrap();
    assert_eq!(partial.status.code(), Some(1));
    assert!(text(&partial.stdout).contains("WORLD_SIZE is not set although RANK is"), "{partial:?}");
    let unreachable = intendant().args(["doctor", "--coordinator", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(unreachable.status.code(), Some(1));
    assert!(text(&unreachable.stdout).contains("no coordinator answers at 127.0.0.1:1"), "{unreachable:?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for args in [&["doctor"][..], &["--help"], &["help", "launch"], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = intendant().args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("cannot write to standard output"), "{output:?}");
    }
}

#[test]
fn an_interrupt_reaches_nodes_as_an_interrupt() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "trap 'echo INT > {0}/got.$RANK; exit 0' INT; trap 'echo TERM > {0}/got.$RANK; exit 0' TERM; echo > \
         {0}/up.$RANK; while :; do sleep 0.05; done",
        dir.path().display()
    );
    let mut launcher = launch(2, &script).stderr(Stdio::null()).spawn().unwrap();
    for rank in 0..2 {
        wait_for("a node to start", || fs::read(dir.path().join(format!("up.{rank}"))).ok());
    }
    kill_process(Pid::from_child(&launcher), Signal::INT).unwrap();
    let status = wait_for("the launcher to end", || launcher.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    for rank in 0..2 {
        let got = fs::read_to_string(dir.path().join(format!("got.{rank}"))).unwrap();
        assert_eq!(got.trim(), "INT", "node {rank}");
    }
}

#[test]
fn a_run_whose_nodes_are_all_stopped_ends_and_says_so() {
    let output = launch(2, "kill -STOP $$").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("all nodes are stopped"), "{said}");
    assert_eq!(said.matches("was killed by the launcher").count(), 2, "{said}");
}

/// Shells that ignore SIGTERM and have a child each; returns when all have printed their process ids.
fn stubborn(dir: &Path) -> (Child, Vec<i32>) {
    let script = format!(
        "trap '' TERM; sleep 1000 & echo $$ $! > {0}/draft.$RANK; mv {0}/draft.$RANK {0}/$RANK; wait",
        dir.display()
    );
    let launcher = launch(3, &script).stderr(Stdio::null()).spawn().unwrap();
    let mut pids = Vec::new();
    for rank in 0..3 {
        let line = wait_for("a node to start", || fs::read_to_string(dir.join(rank.to_string())).ok());
        pids.extend(line.split_whitespace().map(|pid| pid.parse::<i32>().unwrap()));
    }
    assert_eq!(pids.len(), 6);
    (launcher, pids)
}

fn gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with(['Z', 'X']))
}

#[test]
fn unreachable_survives_the_launcher_however_it_ends() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::HUP, Some(129)), (Signal::KILL, None)] {
        if signal == Signal::HUP && intendant::launch::ignores_hang_up() {
            eprintln!("SIGHUP is not tried: these tests were started to ignore it");
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let (mut launcher, pids) = stubborn(dir.path());
        assert!(pids.iter().all(|&pid| !gone(pid)));
        kill_process(Pid::from_child(&launcher), signal).unwrap();
        let status = wait_for("the launcher to end", || launcher.try_wait().unwrap());
        assert_eq!(status.code(), code);
        wait_for("all nodes and their children to be gone", || {
            pids.iter().all(|&pid| gone(pid)).then_some(())
        });
    }
}

/// A folder with `intendant` and a program `intendant-NAME`, which prints its arguments.
fn folder_with(name: &str) -> tempfile::TempDir {
    // The folder is on the file system of the programs, so that a link suffices. A copy could not be executed
    // while a process that another test starts still has it open for writing.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_intendant"), folder.path().join("intendant")).unwrap();
    std::os::unix::fs::symlink("/bin/echo", folder.path().join(format!("intendant-{name}"))).unwrap();
    folder
}

#[test]
fn training_programs_are_commands() {
    let folder = folder_with("train");
    let args = ["train", "--nodes", "2", "a b", "--help"];
    let expected = (Some(0), "--nodes 2 a b --help\n".to_owned());

    let beside =
        Command::new(folder.path().join("intendant")).args(args).env_remove("PATH").output().unwrap();
    assert_eq!((beside.status.code(), text(&beside.stdout)), expected, "{beside:?}");

    let others = std::env::var_os("PATH").unwrap();
    let path =
        std::env::join_paths(std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&others)));
    let on_path = intendant().args(args).env("PATH", path.unwrap()).output().unwrap();
    assert_eq!((on_path.status.code(), text(&on_path.stdout)), expected, "{on_path:?}");
}

#[test]
fn help_of_a_command_is_that_commands_help() {
    let folder = folder_with("train");
    let said = |args: &[&str]| {
        let output = Command::new(folder.path().join("intendant")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        text(&output.stdout)
    };
    // The link's target is a program that prints its own help.
    assert!(said(&["help", "train"]).contains("--version"));
    assert_eq!(said(&["help", "train"]), said(&["train", "--help"]));
    assert_eq!(said(&["help", "launch"]), said(&["launch", "--help"]));
    assert_eq!(said(&["help"]), said(&["--help"]));
    assert_ne!(said(&["help"]), said(&["help", "launch"]));
}

/// The message does not say that an existing program that cannot run is missing.
#[test]
fn a_program_that_cannot_run_is_named() {
    let folder = folder_with("train");
    let script = folder.path().join("intendant-broken");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new(folder.path().join("intendant")).arg("broken").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains(&format!("cannot run '{}'", script.display())), "{output:?}");
}

#[test]
fn commands_that_do_not_exist_are_named() {
    for (name, said) in [
        ("cure", "no program 'intendant-cure' in its folder or on PATH; see"),
        ("../cure", "no name of a program"),
        ("docter", "is it 'doctor'?"),
        ("word2vek", "is it 'word2vec'?"),
    ] {
        let output = intendant().arg(name).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(&format!("'{name}'")) && stderr.contains(said), "{stderr}");
    }
}

#[test]
fn certificates_are_made_once_and_are_good() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let certs = folder.path().join("new/certs");
    let make = |more: &[&str]| intendant().arg("certs").arg(&certs).args(more).output().unwrap();
    let output = make(&["--days", "7"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    let path = |name: &str| certs.canonicalize().unwrap().join(name);
    let flags = ["node.pem", "node-key.pem", "ca.pem"].map(|name| path(name).display().to_string());
    let [cert, key, ca] = &flags;
    assert!(said.contains(&format!("--tls-cert {cert} --tls-key {key} --tls-ca {ca}\n")), "{said}");
    assert!(said.contains("Valid for 7 days"), "{said}");
    assert!(!said.contains("BEGIN"), "{said}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path("node-key.pem")), 0o600);
    assert!(!fs::read_to_string(path("ca.pem")).unwrap().contains("PRIVATE"));

    // Nodes would accept the certificates.
    let mut doctor = intendant();
    doctor.args(["doctor", "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca]);
    let found = text(&doctor.output().unwrap().stdout);
    assert!(found.contains("certificate  ok"), "{found}");
    doctor.args(["--coordinator", "127.0.0.1:1"]);
    assert!(text(&doctor.output().unwrap().stdout).contains("no coordinator answers"));
    let mut wrong = intendant();
    wrong.args(["doctor", "--tls-cert", cert, "--tls-key", cert, "--tls-ca", ca]);
    let output = wrong.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("certificate  FAILURE"), "{output:?}");

    let before = fs::read(path("node-key.pem")).unwrap();
    let again = make(&[]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(text(&again.stderr).contains("node.pem exists"), "{again:?}");
    assert_eq!(fs::read(path("node-key.pem")).unwrap(), before);
    assert_eq!(make(&["--days", "0"]).status.code(), Some(2));
    fs::remove_file(path("node.pem")).unwrap();
    fs::remove_file(path("ca.pem")).unwrap();
    assert!(text(&make(&[]).stderr).contains("node-key.pem exists"));
}

#[test]
fn the_token_is_in_no_argument_of_a_process() {
    let script =
        "echo token $INTENDANT_TOKEN; tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$PPID/cmdline";
    let output = launch(2, script).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout) + &text(&output.stderr);
    let token = said.lines().find_map(|line| line.strip_prefix("token ")).unwrap().to_owned();
    assert_eq!(token.len(), 64, "{said}");
    // The token appears once in the output of each node, and nowhere else.
    assert!(said.contains("launch -n 2"), "{said}");
    assert_eq!(said.matches(&token).count(), 2, "{said}");
}
