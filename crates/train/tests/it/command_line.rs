//! The example application as a process: settings, output, exit codes, signals, and several processes
//! together.

use intendant_apptest::{finish, schema, start};
use intendant_train::{Report, SCHEMA};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// The example, which `cargo test` builds, with an environment that says nothing about clusters.
pub(crate) fn regression(flags: &str) -> Command {
    let mut path = std::env::current_exe().expect("this test");
    path.pop();
    path.set_file_name("examples");
    let mut command = intendant_apptest::command(path.join("regression"));
    command.args(flags.split_whitespace());
    command
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

pub(crate) fn output(flags: &str) -> Output {
    finish(start(regression(flags)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The exit code and what was said on standard error.
pub(crate) fn end(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

#[track_caller]
pub(crate) fn succeeded(output: &Output) {
    assert!(output.status.success(), "{:?}", end(output));
}

pub(crate) fn report(path: &Path) -> Report {
    serde_json::from_slice(&std::fs::read(path).expect("a report")).expect("the schema")
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[test]
fn the_report_has_the_documented_members_and_no_others() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    for flags in [
        "--technique single --epochs 3 --valid-every 2",
        "--technique full-replication --nodes 2 --epochs 1",
        "--technique ssp --simulate --nodes 2 --epochs 1",
    ] {
        succeeded(&output(&format!("{flags} --report {}", path.display())));
        let report = serde_json::from_slice(&std::fs::read(&path).expect("written")).expect("JSON");
        schema::check(&report, &["squared_error"], if flags.contains("--valid-every") { 2 } else { 1 });
    }
    // The example is not an application that the page is about.
    schema::described(&[]);
    assert_eq!(schema::SCHEMA, SCHEMA);
}

#[test]
fn the_effective_configuration_repeats_the_run() {
    let folder = Folder::new();
    let (first, second) = (folder.path("a.json"), folder.path("b.json"));
    let mut command =
        regression(&format!("--technique single --epochs 3 --rate 0.05 --report {}", first.display()));
    command.env("INTENDANT_BATCH", "10");
    succeeded(&finish(start(command)));
    let config = folder.path("a.config.toml");
    succeeded(&output(&format!("--config {} --report {}", config.display(), second.display())));
    let (first, second) = (report(&first), report(&second));
    assert_eq!(first.config["batch"], 10);
    assert_eq!((&first.config, &first.data_digest), (&second.config, &second.data_digest));
    let losses = |report: &Report| report.epochs.iter().map(|e| e.loss.to_bits()).collect::<Vec<_>>();
    assert_eq!(losses(&first), losses(&second));
    assert_eq!(
        std::fs::read(config).expect("first"),
        std::fs::read(folder.path("b.config.toml")).expect("second")
    );
}

#[test]
fn results_go_to_standard_output_and_progress_to_standard_error_unless_silenced() {
    let loud = output("--technique single --epochs 2");
    succeeded(&loud);
    let (result, progress) = (text(&loud.stdout), text(&loud.stderr));
    assert!(result.contains("test squared_error") && !result.contains("epoch 1/2"), "{result}");
    let lines: Vec<&str> = progress.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("epoch 1/2") && lines[1].starts_with("epoch 2/2"),
        "{progress}"
    );
    assert!(!progress.contains('\u{1b}'), "no bar without a terminal");
    let quiet = output("--technique single --epochs 2 -q");
    succeeded(&quiet);
    assert_eq!(text(&quiet.stderr), "");
}

#[test]
fn exit_codes_tell_what_happened() {
    for (flags, code, message) in [
        ("--technique adaptiv", 2, "no such technique; use one of single, "),
        ("--technique nups", 2, "task regression does not know how often parameters are accessed"),
        ("--technique lapse --staleness 2", 2, "regression: error: --staleness is for ssp and essp"),
        ("--technique single --nodes 2", 2, "regression: error: technique single is plain memory"),
        (
            "--technique single --explain 3",
            2,
            "regression: error: --explain is about nodes, and technique single has none",
        ),
        ("--explain 100000", 2, "regression: error: --explain names key 100000; the model has keys 0 to "),
        ("--rate 0", 2, "regression: error: --rate is 0; it must be greater than 0"),
        ("--config /no/such.toml", 2, "regression: error: /no/such.toml: cannot be read"),
        ("--nodes 0", 2, "invalid value '0' for '--nodes <N>'"),
        ("--undo", 2, "unexpected argument '--undo'"),
        ("--nodes 2 --rate -1", 2, "regression: error: --rate is -1; it must be greater than 0"),
        ("--technique single --rate 1e30", 3, "regression: error: diverged in epoch 1, step 2, key 1000: "),
        ("--technique classic --rate 1e30", 3, "regression: error: diverged in epoch 1, step 2, key 1000: "),
        // All nodes agree on the reason, whichever of them meets it first.
        ("--nodes 2 --rate 1e30", 3, "diverged in epoch 1, step "),
        ("--technique single --export /proc/no/such", 2, "cannot write this folder"),
        ("--simulate --nodes 2 --rate 1e30", 3, "regression: error: diverged in epoch 1, step "),
        ("--local-access ipc", 2, "regression: error: --local-access ipc is only simulated: add --simulate"),
        ("--nodes 2 --local-access ipc", 2, "regression: error: --local-access ipc is only simulated"),
        (
            "--technique single --local-access queue",
            2,
            "regression: error: --local-access queue is about nodes with channels, and technique single has none",
        ),
        ("--local-access fast", 2, "'fast' is not a way to local values; use shared, queue or ipc"),
        ("--net 10gbe", 2, "regression: error: --net is about simulated clusters; add --simulate"),
    ] {
        let (found, said) = end(&output(flags));
        assert_eq!(found, Some(code), "{flags}: {said}");
        assert!(said.contains(message), "{flags}: {said}");
    }
    assert!(output("--help").status.success());
    assert!(output("--version").status.success());
}

/// What an access costs depends on how local values are accessed; which accesses are remote does not.
#[test]
fn local_values_are_accessed_in_memory_through_queues_or_simulated_messages() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    let run = |flags: &str| {
        succeeded(&output(&format!("--technique classic --epochs 2 --report {} {flags}", path.display())));
        let report = report(&path);
        let access = report.access.counts;
        assert_eq!(access.local + access.remote, access.pull_keys + access.push_keys, "{flags}");
        let seconds: f64 = report.epochs.iter().map(|epoch| epoch.seconds).sum();
        (seconds, (access.local, access.remote), report.config["local-access"].clone())
    };
    for nodes in ["--nodes 1", "--nodes 2"] {
        let (_, shared, _) = run(nodes);
        assert!(shared.0 > 0 && (shared.1 > 0) == nodes.ends_with('2'), "{shared:?}");
        let (_, queue, named) = run(&format!("{nodes} --local-access queue"));
        assert_eq!((queue, named), (shared, "queue".into()), "{nodes}");
        let simulated = ["shared", "queue", "ipc"]
            .map(|access| run(&format!("{nodes} --simulate --local-access {access}")));
        assert!(simulated.iter().all(|(_, accesses, _)| *accesses == shared), "{nodes}: {simulated:?}");
        assert!(simulated.is_sorted_by(|a, b| a.0 < b.0), "{nodes}: {simulated:?}");
    }
}

#[test]
fn replication_and_its_frequency_are_reported() {
    let folder = Folder::new();
    let (keys, path) = (folder.path("keys"), folder.path("r.json"));
    std::fs::write(&keys, "1000 # the constant\n0..9\n").expect("written");
    let nups = format!("--technique nups --replicate-file {} --epochs 3", keys.display());
    for simulated in ["", " --simulate"] {
        let done =
            output(&format!("{nups} --nodes 2 --sync-every-ms 2 --report {}{simulated}", path.display()));
        succeeded(&done);
        let (result, progress) = (text(&done.stdout), text(&done.stderr));
        assert!(progress.contains("replicated: 10 keys, 76 B on each node"), "{progress}");
        assert!(result.contains("10 keys, 76 B on each node"), "{result}");
        assert!(result.contains(" times per second, the goal is 500.0"), "{result}");
        let report = report(&path);
        let replicated = report.model.replicated.expect("some keys are");
        assert_eq!((replicated.keys, replicated.bytes, replicated.access_share), (10, 76, None));
        let management = report.management;
        assert!(management.counts.sync_rounds > 0 && management.counts.synced_keys > 0, "{management:?}");
        let seconds: f64 = report.epochs.iter().map(|epoch| epoch.seconds).sum();
        // One channel on each of two nodes.
        let expected = management.counts.sync_rounds as f64 / seconds / 2.0;
        assert!((management.syncs_per_second / expected - 1.0).abs() < 1e-9, "{management:?}, {expected}");
        assert_eq!(report.config["sync-every-ms"], 2.0);
    }
    // Virtual time does not depend on the machine. Channels that are busy with accesses rest between rounds.
    for (every, warned) in [("0.1", true), ("5", false)] {
        let done = output(&format!("{nups} --nodes 4 --simulate --sync-every-ms {every}"));
        let said = text(&done.stderr);
        assert_eq!(said.contains("replicas were synchronised"), warned, "{said}");
        assert_eq!(said.contains("times per second, not 10000.0 times"), warned, "{said}");
    }
    // A single node has no replicas.
    succeeded(&output(&format!("{nups} --report {}", path.display())));
    let alone = report(&path);
    assert_eq!(alone.model.replicated.map(|replicated| replicated.keys), Some(0));
    assert_eq!(alone.management, Default::default());
    std::fs::write(&keys, "1001\n").expect("written");
    let (code, said) = end(&output(&nups));
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--replicate-file: key 1001 is to be replicated, but the model has keys 0 to 1000"),
        "{said}"
    );
}

#[test]
fn nodes_find_parameters_in_every_way() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    for location in ["home", "home-cached", "request", "broadcast-relocations", "broadcast-operations"] {
        for simulated in ["", " --simulate"] {
            let flags = format!("--technique lapse --nodes 3 --location {location}{simulated}");
            succeeded(&output(&format!("{flags} --report {}", path.display())));
            let report = report(&path);
            assert_eq!(report.config["location"], location);
            assert!(report.management.counts.relocations > 0 && report.network.messages > 0, "{flags}");
        }
    }
    for (flags, message) in [
        ("--technique lapse --location nowhere", "'nowhere' is not a location"),
        ("--technique single --location home", "technique single has no nodes that look for keys"),
        ("--technique adaptive --location home", "adaptive does not relocate keys on request"),
        ("--technique classic --location home-cached", "classic does not relocate keys on request"),
    ] {
        let (code, said) = end(&output(flags));
        assert_eq!(code, Some(2), "{flags}: {said}");
        assert!(said.contains(message), "{flags}: {said}");
    }
}

/// A command whose standard output is this file.
fn into(path: &str, flags: &str) -> Output {
    let mut command = regression(flags);
    command.stdout(std::fs::File::options().write(true).open(path).expect("opened"));
    command.stderr(std::process::Stdio::piped());
    finish(command.spawn().expect("started"))
}

#[test]
fn a_full_standard_output_is_a_failure_and_the_report_is_written() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    let run = format!("--technique single --epochs 1 -q --report {}", path.display());
    for flags in [run.as_str(), "--help", "--version"] {
        let (code, said) = end(&into("/dev/full", flags));
        assert_eq!(code, Some(1), "{flags}: {said}");
        assert!(said.contains("regression: error: cannot write standard output: No space left"), "{said}");
    }
    assert_eq!(report(&path).epochs.len(), 1);
    // A usage error has no output that could be lost.
    assert_eq!(end(&into("/dev/full", "--no-such-flag")).0, Some(2));
    succeeded(&into("/dev/null", &run));
}

#[test]
fn a_report_may_go_to_a_device() {
    let shown = output("--technique single --epochs 1 -q --report /dev/stdout");
    succeeded(&shown);
    let result = text(&shown.stdout);
    assert!(result.starts_with("{") && result.contains("}\ntask "), "the report, then the table: {result}");
    let (code, said) = end(&output("--technique single --epochs 1 -q --report /dev/full"));
    assert_eq!(code, Some(1));
    assert!(said.contains("cannot write /dev/full: No space left"), "{said}");
    assert!(!Path::new("/dev/full").metadata().expect("a device").is_file());
    assert!(!Path::new("/dev/full.config.toml").exists());
}

#[test]
fn a_configuration_is_not_written_over() {
    let folder = Folder::new();
    let (config, path) = (folder.path("run.config.toml"), folder.path("run.json"));
    let mine = "epochs = 1 # enough\n";
    std::fs::write(&config, mine).expect("written");
    let flags = format!("--technique single --config {} --report {}", config.display(), path.display());
    let (code, said) = end(&output(&flags));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("run.config.toml, which --config reads; name another report"), "{said}");
    assert_eq!(std::fs::read_to_string(config).expect("there"), mine);
    assert!(!path.exists());
}

#[test]
fn an_export_says_which_run_it_is_of() {
    let folder = Folder::new();
    let (model, path) = (folder.path("model"), folder.path("r.json"));
    for epochs in [1, 2] {
        let outputs = format!("--export {} --report {}", model.display(), path.display());
        succeeded(&output(&format!("--nodes 2 --epochs {epochs} {outputs}")));
        let said = std::fs::read(model.join("export.json")).expect("a manifest");
        let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
        let report = report(&path);
        assert_eq!((&said["schema"], &said["program"]), (&"intendant.export/1".into(), &"regression".into()));
        assert_eq!((&said["data_digest"], &said["config"]), (&report.data_digest.into(), &report.config));
        let bytes = std::fs::metadata(model.join("model.txt")).expect("exported").len();
        assert_eq!(said["files"], serde_json::json!({ "model.txt": bytes }));
    }
    assert_eq!(
        std::fs::read_dir(folder.path("")).expect("listed").count(),
        4,
        "model, report, history, configuration"
    );
}

/// A simulation is a run like any other: settings, report, configuration, export, and what a person sees.
#[test]
fn a_simulated_cluster_is_reported_like_a_real_one_and_repeats_itself() {
    let folder = Folder::new();
    let (first, second, model) = (folder.path("a.json"), folder.path("b.json"), folder.path("model"));
    let run = output(&format!(
        "--simulate --net 100gib --nodes 4 --workers 2 --technique lapse --localize-ahead 2 --epochs 2 --charge 10 \
         --report {} --export {}",
        first.display(),
        model.display()
    ));
    succeeded(&run);
    let (result, progress) = (text(&run.stdout), text(&run.stderr));
    assert!(result.contains("4 nodes of 2 workers") && result.contains("s of virtual time"), "{result}");
    assert_eq!(progress.lines().count(), 2, "{progress}");
    let lines = std::fs::read_to_string(model.join("model.txt")).expect("exported").lines().count();
    assert_eq!(lines, 1001);
    let config = folder.path("a.config.toml");
    succeeded(&output(&format!("-q --config {} --report {}", config.display(), second.display())));
    let bytes = |path: &Path| std::fs::read(path).expect("a report");
    assert_eq!(bytes(&first), bytes(&second), "time is virtual");
    let first = report(&first);
    assert!(first.simulated && first.management.counts.relocations > 0 && first.network.bytes > 0);
    assert!(first.epochs.iter().all(|epoch| epoch.seconds > 0.0 && epoch.cpu_seconds > epoch.seconds));
    let details = first.simulation.expect("it was simulated");
    assert_eq!((details.net.as_str(), details.machine.as_str()), ("100gib", "xeon-silver-4216"));
    assert_eq!((details.charge, details.charge_compute), (10.0, 10.0));
    assert!(details.events > 0 && details.channel_wait_ms > 0.0);
    assert!((0.0..1.0).contains(&details.channel_busy) && details.channel_busy > details.nic_busy);
}

/// Starts a run without an end and waits until it trains.
fn endless(command: Command) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = start(command);
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.starts_with("epoch "), "{line}");
    (child, said)
}

#[test]
fn a_signal_ends_the_run_with_its_exit_code() {
    for technique in ["single", "classic", "lapse --simulate --nodes 3"] {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let flags = format!("--technique {technique} --workers 2 --epochs 1000000000");
            let (child, mut said) = endless(regression(&flags));
            kill_process(pid(&child), signal).expect("it runs");
            assert_eq!(finish(child).status.code(), Some(code), "{technique}");
            // A run that does not end by itself is ended from outside, without a word.
            let mut last = String::new();
            said.read_to_string(&mut last).expect("its last words");
            assert!(last.contains(&format!("interrupted by signal {}", code - 128)), "{technique}: {last}");
        }
    }
}

/// Processes as torchrun would start them, each with its own flags.
pub(crate) fn ranks(flags: &[&str]) -> Vec<Command> {
    intendant_apptest::ranks(flags.iter().map(|flags| regression(flags)).collect())
}

#[test]
fn processes_of_a_launcher_train_together() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    let flags = format!("--technique classic --workers 2 --epochs 2 --float f64 --report {}", path.display());
    let children: Vec<Child> = ranks(&[&flags, &flags, &flags]).into_iter().map(start).collect();
    let outputs: Vec<Output> = children.into_iter().map(finish).collect();
    outputs.iter().for_each(succeeded);
    assert!(text(&outputs[0].stdout).contains("3 nodes of 2 workers"));
    assert_eq!(text(&outputs[1].stdout) + &text(&outputs[2].stderr), "", "only rank 0 speaks");
    let together = report(&path);
    let access = together.access;
    assert_eq!(access.counts.local + access.counts.remote, access.counts.pull_keys + access.counts.push_keys);
    assert!((0.5..0.8).contains(&access.remote_share), "two thirds of the keys are elsewhere: {access:?}");
    assert!(together.network.messages > 0 && together.network.bytes > access.counts.remote);
    assert_eq!(together.nodes, 3);
    assert!(together.test["squared_error"] < 1e-3, "{:?}", together.test);

    succeeded(&output(&format!("--technique single --epochs 2 --float f64 -q --report {}", path.display())));
    let alone = report(&path);
    assert_eq!(alone.data_digest, together.data_digest);
    assert_eq!(alone.model, together.model);
    assert_eq!(
        (alone.access.counts.pull_keys, alone.access.counts.sampled),
        (access.counts.pull_keys, access.counts.sampled)
    );
}

#[test]
fn nodes_start_by_themselves_on_this_machine() {
    let folder = Folder::new();
    let path = folder.path("r.json");
    let run = |flags: &str| {
        let output = output(&format!(
            "--technique classic --epochs 1 --export {} --report {} {flags}",
            folder.path("model").display(),
            path.display()
        ));
        succeeded(&output);
        assert_eq!(text(&output.stderr).lines().count(), 1, "only rank 0 speaks: {:?}", end(&output));
        let lines = std::fs::read_to_string(folder.path("model").join("model.txt"))
            .expect("exported")
            .lines()
            .count();
        assert_eq!(lines, 1001);
        report(&path)
    };
    let one = run("");
    for flags in
        ["--nodes 2 --workers 2 --key-order hash --channels 2", "--nodes 4 --storage sparse --order chain"]
    {
        let many = run(flags);
        assert_eq!(many.data_digest, one.data_digest, "{flags}");
        let access = many.access;
        assert_eq!(
            access.counts.local + access.counts.remote,
            access.counts.pull_keys + access.counts.push_keys,
            "{flags}"
        );
        assert!(access.counts.remote > 0 && many.test["squared_error"] < 0.01, "{flags}: {many:?}");
    }
}

#[test]
fn nodes_that_were_started_differently_end_and_say_how() {
    for (flags, message) in [
        (["--epochs 2", "--epochs 3"], "--epochs is 2 on node 0 and 3 on node 1"),
        (["--rate 0.1", "--rate 0.2"], "--rate is 0.1 on node 0 and 0.2 on node 1"),
        (["", "--export model"], "--export is absent on node 0 and given on node 1"),
        (["", "--seed 2"], "--seed is 1 on node 0 and 2 on node 1"),
        (["", "--technique lapse"], "--technique is adaptive on node 0 and lapse on node 1"),
        (["", "--channels 2"], "--channels is 1 on node 0 and 2 on node 1"),
        (["", "--key-order hash"], "--key-order is random on node 0 and hash on node 1"),
        (["--float f64", "--float f32"], "--float is f64 on node 0 and f32 on node 1"),
        (["", "--features 999"], "--features is 1000 on node 0 and 999 on node 1"),
    ] {
        let children: Vec<Child> = ranks(&flags).into_iter().map(start).collect();
        let ends: Vec<_> = children.into_iter().map(finish).map(|output| end(&output)).collect();
        assert!(ends[0].1.contains(message), "{ends:?}");
        for (code, said) in &ends {
            assert_eq!(*code, Some(2), "{ends:?}");
            assert!(said.contains("were started differently: "), "{ends:?}");
        }
    }
}

#[test]
fn nodes_may_look_ahead_differently() {
    let children: Vec<Child> =
        ranks(&["--epochs 1 --look-ahead 1", "--epochs 1 -q"]).into_iter().map(start).collect();
    children.into_iter().map(finish).for_each(|output| succeeded(&output));
}

#[test]
fn half_a_rendezvous_is_an_error_of_runs_that_need_one() {
    let stray = |flags: &str| {
        let mut command = regression(flags);
        command.env("MASTER_ADDR", "localhost");
        finish(start(command))
    };
    for flags in ["--help", "--version", "--technique single --epochs 1"] {
        succeeded(&stray(flags));
    }
    let (code, said) = end(&stray("--technique classic --epochs 1"));
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn the_number_of_nodes_must_be_the_launchers() {
    let mut commands = ranks(&["--nodes 3", ""]);
    let (code, said) = end(&finish(start(commands.remove(0))));
    assert_eq!(code, Some(2));
    assert!(said.contains("--nodes is 3, but WORLD_SIZE says that this process is one of 2"), "{said}");
    commands[0].env("INTENDANT_NODES", "4");
    let (code, said) = end(&finish(start(commands.remove(0))));
    assert_eq!(code, Some(2));
    assert!(said.contains("--nodes is 4"), "{said}");
}

#[test]
fn a_signal_to_one_node_ends_all() {
    let mut commands = ranks(&["--epochs 1000000000", "--epochs 1000000000"]).into_iter();
    let other = start(commands.next_back().expect("two"));
    let (first, _said) = endless(commands.next().expect("two"));
    kill_process(pid(&other), Signal::TERM).expect("it runs");
    assert_eq!(finish(other).status.code(), Some(143));
    let code = finish(first).status.code();
    assert_eq!(code, Some(1), "ended by another node's wish, not lost");
}
