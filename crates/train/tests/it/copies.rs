//! Runs with copies (`--copies`): nodes are killed, join and leave, and the run goes on.

use crate::checkpoint::{Run, assert_same_course, pause};
use crate::command_line::{Folder, end, output, ranks, regression, succeeded};
use crate::metrics::live_again;
use crate::restart::{has_joined, node};
use intendant::{Tls, TlsFiles, Token};
use intendant_apptest::{Authority, Certificate, finish, schema, start, unused_ports};
use intendant_train::Report;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Epochs of a run that loses nodes in one of the first.
const EPOCHS: u32 = 20;

/// The same, if an epoch takes several times as long because keys are accessed at other nodes.
const SLOW_EPOCHS: u32 = 8;

/// Epochs of a run whose nodes are changed several times, from outside: enough for all changes.
const MANY_EPOCHS: u32 = 50;

/// No line of a run comes this late; one that does would never come.
const SAFETY_NET: Duration = Duration::from_secs(120);

/// The token of runs that other processes join.
const TOKEN: &str = "5ec2e7a05ec2e7a05ec2e7a05ec2e7a05ec2e7a05ec2e7a05ec2e7a05ec2e7a0";

/// A process whose standard error is read line by line.
struct Watched {
    process: Child,
    lines: Receiver<String>,
    said: String,
    _ends: EndsWithTest,
}

/// A process that goes on for long must not outlive a test that fails.
struct EndsWithTest(Pid);

impl Drop for EndsWithTest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

impl Watched {
    fn start(command: Command) -> Self {
        let mut process = start(command);
        let log = BufReader::new(process.stderr.take().expect("piped"));
        let (tell, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let ends = EndsWithTest(Pid::from_child(&process));
        Self { process, lines, said: String::new(), _ends: ends }
    }

    /// Waits for a line that contains `text`; returns what follows it.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        loop {
            let line = match self.lines.recv_timeout(SAFETY_NET) {
                Ok(line) => line,
                Err(error) => panic!("no line has '{text}' ({error}): {}", self.said),
            };
            self.said.push_str(&line);
            self.said.push('\n');
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
    }

    /// Where processes join the run, as it has just been told.
    #[track_caller]
    fn door(&mut self) -> String {
        self.until("nodes can join this run: --join ")
    }

    /// Kills these of its nodes at once, when they have joined.
    #[track_caller]
    fn kill(&mut self, ranks: &[u16]) {
        let mut victims = Vec::new();
        for rank in ranks {
            let victim = node(&mut self.process, *rank, None).expect("the run goes on");
            while !has_joined(victim) {
                assert!(self.process.try_wait().expect("its state").is_none(), "the run has ended");
                pause();
            }
            victims.push(victim);
        }
        for victim in victims {
            kill_process(victim, Signal::KILL).expect("the run goes on");
        }
    }

    /// Waits for the end: the exit code and all that was said.
    #[track_caller]
    fn end(self) -> (Option<i32>, String) {
        let Self { process, lines, mut said, _ends } = self;
        let code = finish(process).status.code();
        lines.iter().for_each(|line| said.extend([&line, "\n"]));
        (code, said)
    }

    /// Waits for the end of a run that ends well; what was said.
    #[track_caller]
    fn succeeds(self) -> String {
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        said
    }
}

/// The flags of a run with copies.
fn flags(run: &Run, more: &str) -> String {
    format!("--checkpoint-seconds 0.02 {} {more}", run.outputs())
}

/// The report of a run of one node that nothing happens to.
fn undisturbed(epochs: u32) -> Report {
    let run = Run::new(epochs);
    succeeded(&output(&run.outputs()));
    run.report()
}

/// A run has trained all that an undisturbed one does, and has written all that it should.
#[track_caller]
fn assert_whole(run: &Run, one: &Report, said: &str) -> Report {
    assert!(!said.contains("starting all nodes again"), "{said}");
    let other = run.report();
    assert_same_course(one, &other);
    assert!(one.test["squared_error"] < 0.01, "{:?}", one.test);
    assert!(other.test["squared_error"] < 0.01, "{:?}: {said}", other.test);
    assert_eq!(run.model().len(), 1001, "the exported model");
    let report = std::fs::read(run.folder.path("r.json")).expect("a report");
    let history = std::fs::read_to_string(run.folder.path("r.epochs.jsonl")).expect("a history");
    schema::check_history(&history, &serde_json::from_slice(&report).expect("JSON"));
    other
}

/// Nodes were killed, and the run has come to its end with the others.
#[track_caller]
fn assert_survived(run: &Run, undisturbed: &Report, said: &str, (nodes, lost): (u64, u64)) {
    let report = assert_whole(run, undisturbed, said);
    let views = report.views.expect("it had copies");
    // Two that are killed at once may be missed one after the other.
    assert!((2..=1 + lost).contains(&views.count), "{views:?}: {said}");
    assert_eq!(changes(&report)[1..], [lost, 0, 0, nodes], "{said}");
    assert!(views.change_ms > 0.0, "{views:?}");
    assert!(said.contains(&format!(" has {nodes} nodes, without ")), "{said}");
}

/// How many views the run has had, how many nodes were lost, have joined and left, and how many there are.
#[track_caller]
fn changes(report: &Report) -> [u64; 5] {
    let views = report.views.expect("it had copies");
    [views.count, views.lost, views.joined, views.left, report.nodes as u64]
}

/// A process of a run that others can join, or ask for something.
fn open(mut command: Command) -> Watched {
    command.env("INTENDANT_TOKEN", TOKEN);
    Watched::start(command)
}

fn token() -> Token {
    Token::from_hex(TOKEN).expect("a token")
}

#[test]
fn a_run_goes_on_without_a_node_that_is_killed_whichever_it_is() {
    let undisturbed = undisturbed(EPOCHS);
    for rank in 0..4 {
        let run = Run::new(EPOCHS);
        let mut running = open(regression(&flags(&run, "--nodes 4 --copies 1")));
        running.door();
        if rank % 2 == 1 {
            running.until("epoch ");
        }
        running.kill(&[rank]);
        let said = running.succeeds();
        assert!(said.contains(&format!("launch: node {rank} (process ")), "{said}");
        assert_survived(&run, &undisturbed, &said, (3, 1));
    }
}

#[test]
fn a_run_with_checkpoints_goes_on_from_its_copies_and_its_checkpoints_can_be_used() {
    for (technique, rank, epochs, trained) in
        [("adaptive", 0, EPOCHS, 1), ("lapse", 2, SLOW_EPOCHS, 6), ("essp", 3, SLOW_EPOCHS, 6)]
    {
        let run = Run::new(epochs);
        let flags = run.flags(&format!("--nodes 4 --copies 1 --technique {technique}"));
        let mut running = Watched::start(regression(&flags.replace("-seconds 0 ", "-seconds 0.05 ")));
        running.until("checkpoint ");
        for _ in 0..trained {
            running.until("epoch ");
        }
        running.kill(&[rank]);
        let said = running.succeeds();
        // All nodes hold what they should of a cut that is a checkpoint.
        assert!(said.contains("without one that is lost; it goes on at cut "), "{technique}: {said}");
        assert!(!said.contains("resuming from"), "{technique}: {said}");
        assert_survived(&run, &undisturbed(epochs), &said, (3, 1));
        let report = run.report();
        assert!(report.checkpoints.is_some_and(|made| made.count > 0), "{technique}");
        // Each epoch makes the error several times smaller. What is left of the run would not do it again.
        assert!(trained == 1 || report.test["squared_error"] < 1e-6, "{technique}: {said}");

        let (cuts, model) = (run.cuts(), run.model());
        assert_eq!(cuts.len(), 2, "two are kept");
        succeeded(&output(&run.flags(&format!("--resume --nodes 2 --technique {technique}"))));
        assert!(run.model() == model && run.cuts() == cuts, "{technique}: the run had ended");
    }
}

/// A node is stopped until the others have gone on without it, and then continued.
#[track_caller]
fn stop_and_continue(rank: u16) {
    let run = Run::new(24);
    let flags = flags(&run, "--nodes 3 --copies 1 --storage sparse --technique classic");
    let mut running = Watched::start(regression(&flags));
    running.until("epoch ");
    let stopped = node(&mut running.process, rank, None).expect("the run goes on");
    kill_process(stopped, Signal::STOP).expect("the run goes on");
    running.until(" has 2 nodes, without one that is lost");
    kill_process(stopped, Signal::CONT).expect("it is stopped");
    running.until("the run has gone on without this process, which asks to join it again");
    running.until(" has 3 nodes; it goes on at ");
    let said = running.succeeds();
    let report = assert_whole(&run, &undisturbed(24), &said);
    assert_eq!(changes(&report), [3, 1, 1, 0, 3], "{said}");
}

/// As on a disk that is full: nothing can be written any more where checkpoints were.
#[test]
fn copies_are_made_where_no_checkpoint_can_be_written() {
    let run = Run::new(MANY_EPOCHS);
    let flags = run.flags("--nodes 3 --copies 1").replace("-seconds 0 ", "-seconds 0.05 ");
    let mut running = Watched::start(regression(&flags));
    running.until("checkpoint ");
    let last = run.cuts().last().copied().unwrap_or_default();
    while std::fs::remove_dir_all(run.checkpoints()).is_err() {}
    std::fs::write(run.checkpoints(), "").expect("a file in its place");
    for _ in 0..15 {
        running.until("epoch ");
    }
    running.kill(&[1]);
    let cut = running.until("without one that is lost; it goes on at cut ");
    let number: u64 = cut.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    let (code, said) = running.end();
    assert!(number > last + 3, "after checkpoint {last}: {said}");
    assert_ne!(code, Some(0), "the last checkpoint is missing: {said}");
    assert_eq!(run.report().epochs.len(), MANY_EPOCHS as usize, "{said}");
}

#[test]
fn node_0_joins_the_run_again_after_it_was_stopped() {
    stop_and_continue(0);
}

#[test]
fn another_node_joins_the_run_again_after_it_was_stopped() {
    stop_and_continue(1);
}

#[test]
fn a_simulated_run_goes_on_without_a_node() {
    let run = Run::new(3);
    let flags = format!("--simulate --nodes 4 --copies 1 --checkpoint-seconds 0.0001 {}", run.outputs());
    succeeded(&output(&flags));
    let whole = run.report();
    let seconds: f64 = whole.epochs.iter().map(|epoch| epoch.seconds).sum();
    let lost = Run::new(3);
    let flags = flags.replace(&run.outputs(), &lost.outputs());
    succeeded(&output(&format!("{flags} --crash 1@{}", seconds / 2.0)));
    let report = lost.report();
    assert_eq!(whole.data_digest, report.data_digest);
    let examples = |report: &Report| report.epochs.iter().map(|epoch| epoch.examples).collect::<Vec<_>>();
    assert_eq!(examples(&whole), examples(&report));
    let views = report.views.expect("it had copies");
    assert_eq!((views.count, views.lost), (2, 1));
    let with_change: f64 = report.epochs.iter().map(|epoch| epoch.seconds).sum();
    assert!(with_change > seconds / 2.0 + views.change_ms / 1e3, "{with_change} {seconds} {views:?}");
    assert_eq!(whole.views.map(|views| views.count), Some(1));
}

#[test]
fn two_copies_survive_two_nodes_that_are_killed_at_once() {
    let run = Run::new(EPOCHS);
    let mut running = Watched::start(regression(&flags(&run, "--nodes 5 --copies 2")));
    running.until("epoch ");
    // Node 1 has a copy of what node 0 owns.
    running.kill(&[0, 1]);
    let said = running.succeeds();
    assert_survived(&run, &undisturbed(EPOCHS), &said, (3, 2));
}

#[test]
fn nodes_join_and_leave_when_another_number_is_asked_for() {
    let run = Run::new(MANY_EPOCHS);
    let mut running = open(regression(&flags(&run, "--nodes 3 --copies 1")));
    let door = running.door();
    let other = Token::from_hex(&TOKEN.replace('e', "d")).expect("a token");
    for (token, reason) in [(Some(&other), "another token than the run's"), (None, "and none is given")] {
        let refused = intendant::scale(&door, 1, token, None).expect_err("a stranger asks");
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let scale = |nodes| intendant::scale(&door, nodes, Some(&token()), None).expect("the run goes on");
    assert_eq!(scale(4), 3);
    running.until(" has 4 nodes");
    assert_eq!(running.door(), door, "node 0 is the same process");
    assert_eq!(scale(2), 4);
    running.until(" has 2 nodes");
    let said = running.succeeds();
    assert_eq!(said.matches("launch: started node ").count(), 1, "{said}");
    assert_eq!(said.matches("this node has left the run, which goes on").count(), 2, "{said}");
    let report = assert_whole(&run, &undisturbed(MANY_EPOCHS), &said);
    assert_eq!(changes(&report), [3, 0, 1, 2, 2], "{said}");
}

/// Lapse moves parameters ahead of their use if there are several nodes: a process that joins is one of
/// several.
#[test]
fn a_process_joins_nodes_of_any_launcher_which_go_on_without_their_node_0() {
    let run = Run::new(20);
    let flags = flags(&run, "--copies 1 --technique lapse");
    let mut nodes = ranks(&[flags.as_str(); 3]).into_iter().map(open).collect::<Vec<_>>().into_iter();
    let mut first = nodes.next().expect("three");
    let door = first.door();
    let joining = open(regression(&format!("{flags} --join {door}")));
    first.until("view 2 has 4 nodes; it goes on at ");
    first.process.kill().expect("it runs");
    let mut second = nodes.next().expect("two");
    second.until("view 3 has 3 nodes, without one that is lost; it goes on at cut ");
    assert_ne!(second.door(), door);
    assert_eq!(first.end().0, None, "it was killed");
    let said = second.succeeds();
    for node in nodes.chain([joining]) {
        node.succeeds();
    }
    let report = assert_whole(&run, &undisturbed(20), &said);
    assert_eq!(changes(&report), [3, 1, 1, 0, 3], "{said}");
}

#[test]
fn a_node_without_enough_others_ends_and_says_so() {
    let run = Run::new(100_000);
    let mut running = Watched::start(regression(&flags(&run, "--nodes 4 --copies 1")));
    running.until("epoch ");
    running.kill(&[0, 1, 2]);
    let (code, said) = running.end();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("the run cannot go on: 1 of 4 nodes are left; to go on, a run needs"), "{said}");
    assert!(!run.folder.path("r.json").exists(), "{said}");
}

/// Nodes that end take nothing from the others that they would not know themselves.
#[test]
fn all_nodes_say_why_the_run_cannot_go_on() {
    let run = Run::new(2000);
    let mut running = Watched::start(regression(&flags(&run, "--nodes 5 --copies 1")));
    // Until there are copies, a run may begin again.
    (0..10).for_each(|_| drop(running.until("epoch ")));
    running.kill(&[1, 2]);
    let (code, said) = running.end();
    assert_eq!(code, Some(4), "{said}");
    for rank in [0, 3, 4] {
        let why = format!("[rank {rank}] the run cannot go on: all copies of the values of node 1 are lost");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn a_process_that_cannot_train_with_a_run_is_refused_and_the_run_goes_on() {
    let run = Run::new(MANY_EPOCHS);
    let flags = flags(&run, "--nodes 3 --copies 1");
    let mut running = open(regression(&flags));
    let door = running.door();
    let other = "started with other flags (of the model, the training, or --export), data or another build";
    for (more, token, reason) in [
        ("--seed 2", TOKEN.to_owned(), other),
        ("--features 999", TOKEN.to_owned(), other),
        ("", TOKEN.replace('e', "d"), "another token than the run's"),
    ] {
        let mut command = regression(&format!("{flags} {more} --join {door}"));
        command.env("INTENDANT_TOKEN", token);
        let (code, said) = end(&finish(start(command)));
        assert_eq!(code, Some(2), "{more}: {said}");
        assert!(said.contains(&format!("{door} refuses this process: ")) && said.contains(reason), "{said}");
    }
    let mut other = regression(&format!("{flags} --join {door}"));
    other.env("INTENDANT_TOKEN", "secret");
    let (code, said) = end(&finish(start(other)));
    assert!(code == Some(2) && said.contains("INTENDANT_TOKEN: "), "{code:?} {said}");
    let said = running.succeeds();
    let report = assert_whole(&run, &undisturbed(MANY_EPOCHS), &said);
    assert_eq!(changes(&report), [1, 0, 0, 0, 3], "{said}");
}

/// A process that may open so many files.
fn with_files(limit: u32, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n $0 && exec \"$@\"", &limit.to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    command.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(limited.env(name, value)),
        None => drop(limited.env_remove(name)),
    });
    limited
}

/// Processes that are let in, and then have no files left: to reach the coordinator, to accept connections of
/// the others, to fetch values.
#[test]
fn a_process_that_cannot_be_a_node_ends_alone() {
    let undisturbed = undisturbed(MANY_EPOCHS);
    let mut failed = 0;
    // How many files are too few for what depends on the machine.
    for limit in [23, 26, 28] {
        let run = Run::new(MANY_EPOCHS);
        let flags = flags(&run, "--nodes 3 --copies 1");
        let mut running = open(regression(&flags));
        let door = running.door();
        let (code, told) = open(with_files(limit, &regression(&format!("{flags} --join {door}")))).end();
        let said = running.succeeds();
        let report = assert_whole(&run, &undisturbed, &said);
        if code != Some(0) {
            failed += 1;
            assert!(told.contains("Too many open files"), "{limit}: {code:?}: {told}");
            // The views in which it should have been were not begun.
            assert_eq!(report.nodes, 3, "{limit}: {said}");
        }
    }
    assert!(failed > 0, "the limits are too high");
}

#[test]
fn a_run_goes_on_without_a_node_that_gets_a_signal() {
    let undisturbed = undisturbed(EPOCHS);
    for (rank, signal) in [(0, Signal::TERM), (2, Signal::INT)] {
        let run = Run::new(EPOCHS);
        let mut running = Watched::start(regression(&flags(&run, "--nodes 4 --copies 1")));
        running.until("no other nodes can join this run: set INTENDANT_TOKEN");
        running.until("epoch ");
        let told = node(&mut running.process, rank, None).expect("the run goes on");
        kill_process(told, signal).expect("the run goes on");
        let said = running.succeeds();
        assert!(said.contains(&format!("interrupted by signal {}", signal.as_raw())), "{said}");
        assert_survived(&run, &undisturbed, &said, (3, 1));
    }
}

/// A node that loses others does not go on if it has got a signal, too. After SIGTERM, it looks for a moment
/// whether the run ends by itself; SIGINT ends its node at once.
#[test]
fn a_run_whose_nodes_all_get_a_signal_ends() {
    let run = Run::new(5000);
    let flags = flags(&run, "--copies 1");
    let mut nodes = ranks(&[flags.as_str(); 4]).into_iter().map(open).collect::<Vec<_>>();
    nodes[0].until("epoch ");
    for (node, signal) in nodes.iter().zip([Signal::TERM, Signal::TERM, Signal::TERM, Signal::INT]) {
        kill_process(Pid::from_child(&node.process), signal).expect("the run goes on");
    }
    for (node, expected) in nodes.into_iter().zip([143, 143, 143, 130]) {
        let (code, said) = node.end();
        assert!(code == Some(expected) && !said.contains(" nodes, without "), "{code:?} {said}");
    }
}

/// Also if there is no time for that checkpoint.
#[test]
fn a_run_with_checkpoints_ends_on_all_nodes_when_one_gets_a_signal() {
    for grace in ["", "--grace-seconds 0"] {
        let run = Run::new(5000);
        let more = format!("--nodes 4 --copies 1 --checkpoint {} {grace}", run.checkpoints().display());
        let mut running = Watched::start(regression(&flags(&run, &more)));
        running.until("epoch ");
        let told = node(&mut running.process, 2, None).expect("the run goes on");
        kill_process(told, Signal::INT).expect("the run goes on");
        let (code, said) = running.end();
        assert_eq!(code, Some(130), "{said}");
        assert!(!said.contains(" nodes, without "), "{said}");
        assert_eq!(said.contains("there is no last checkpoint"), !grace.is_empty(), "{said}");
    }
}

#[test]
fn nodes_serve_their_metrics_in_every_view() {
    let run = Run::new(5000);
    let flags = flags(&run, "--copies 1");
    let port = unused_ports(4);
    let mut running = open(regression(&format!("{flags} --nodes 3 --metrics {port}")));
    let told = |port, nodes: u64| {
        live_again(port, |live| {
            live["nodes"] == nodes
                && live["peers"].as_array().is_some_and(|peers| peers.iter().all(Value::is_string))
        })
    };
    running.door();
    assert_eq!(told(port + 1, 3)["node"], 1);
    running.kill(&[0]);
    let first = told(port + 1, 2);
    let places = |ports: &[u16]| Value::from_iter(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    assert_eq!((&first["node"], &first["peers"]), (&0.into(), &places(&[port + 1, port + 2])));
    // The addresses of this machine's others are taken.
    let door = running.door();
    let joining = open(regression(&format!("{flags} --join {door} --metrics {}", port + 1)));
    for (rank, port) in (0..3u16).zip(port + 1..) {
        assert_eq!(told(port, 3)["node"], rank);
    }
    assert_eq!(told(port + 1, 3)["peers"], places(&[port + 1, port + 2, port + 3]));
    // It ends, and the others go on.
    kill_process(Pid::from_child(&joining.process), Signal::TERM).expect("it runs");
    assert_eq!(joining.end().0, Some(143));
    told(port + 2, 2);
    // The launcher passes it on to all.
    kill_process(Pid::from_child(&running.process), Signal::INT).expect("it runs");
    assert_eq!(running.end().0, Some(130));
}

#[test]
fn what_copies_cannot_be_had_with_is_refused() {
    let folder = Folder::new();
    let [trace, checkpoint] = ["trace", "checkpoints"].map(|name| folder.path(name).display().to_string());
    for (flags, reason) in [
        ("--nodes 4 --copies 4".to_owned(), "--copies 4: with 4 nodes, at most 3 others can hold a copy"),
        ("--copies 1".to_owned(), "--copies 1: with 1 nodes, at most 0 others can hold a copy"),
        ("--copies 1 --technique single".to_owned(), "--copies: technique single has no nodes that hold"),
        ("--join 127.0.0.1:1".to_owned(), "--join: only runs with --copies let nodes join"),
        ("--copies 1 --join 127.0.0.1".to_owned(), "--join 127.0.0.1: "),
        (format!("--nodes 2 --copies 1 --trace {trace}"), "--copies: a trace is of one cluster"),
        (
            format!("--nodes 2 --copies 1 --keep best --checkpoint {checkpoint}"),
            "--copies: the best model is known to node 0 alone",
        ),
        ("--crash 1@1".to_owned(), "--crash is about simulated clusters; add --simulate"),
        ("--simulate --nodes 2 --crash 1@1".to_owned(), "--crash: the others go on only with copies"),
        ("--simulate --nodes 2 --copies 1 --crash 2@1".to_owned(), "--crash: node 2 does not exist"),
        ("--simulate --nodes 2 --copies 1 --crash 2".to_owned(), "as in 2@1.5, are expected"),
    ] {
        let (code, said) = end(&output(&flags));
        assert_eq!(code, Some(2), "{flags}: {said}");
        assert!(said.contains(reason), "{flags}: {said}");
    }
    let mut nodes = ranks(&["--copies 1 --join 127.0.0.1:1"; 2]);
    let (code, said) = end(&finish(start(nodes.remove(0))));
    assert!(code == Some(2) && said.contains("--join: a launcher has started this process"), "{said}");
}

#[test]
fn a_run_with_tls_loses_a_node_and_another_one_joins() {
    let run = Run::new(MANY_EPOCHS);
    let files = Authority::new().issue(&run.folder.path(""), "node", Certificate::Good);
    let flags = flags(&run, "--copies 1");
    let tls = files.flags().join(" ");
    let mut running = open(regression(&format!("{flags} {tls} --nodes 4")));
    let door = running.door();
    let differs = "the other side uses TLS, this node does not";
    let plain = intendant::scale(&door, 4, Some(&token()), None).expect_err("it does not use TLS");
    assert!(plain.to_string().contains(differs), "{plain}");
    let (code, said) = open(regression(&format!("{flags} --join {door}"))).end();
    assert!(code == Some(2) && said.contains(differs), "{code:?} {said}");
    let known = TlsFiles { cert: files.cert.clone(), key: files.key.clone(), ca: files.ca.clone() };
    let known = Tls::load(&known).expect("good files");
    assert_eq!(intendant::scale(&door, 4, Some(&token()), Some(&known)).expect("the run goes on"), 4);
    running.kill(&[0]);
    running.until(" has 3 nodes, without one that is lost");
    let door = running.door();
    let joining = open(regression(&format!("{flags} {tls} --join {door}")));
    running.until(" has 4 nodes; it goes on at ");
    let said = running.succeeds();
    joining.succeeds();
    let report = assert_whole(&run, &undisturbed(MANY_EPOCHS), &said);
    assert_eq!(changes(&report), [3, 1, 1, 0, 4], "{said}");
}
