//! `--trace`: each node of a run leaves a trace, whether the run is real, simulated or killed.

use crate::command_line::{Folder, end, output, pid, regression, report, succeeded};
use intendant_apptest::{finish, start};
use intendant_trace::{Event, Mark, Trace, What};
use rustix::process::{Signal, kill_process_group};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

fn traces(folder: &Path, nodes: usize) -> Vec<Trace> {
    (0..nodes).map(|node| Trace::read(&folder.join(format!("node-{node}.trace"))).expect("a trace")).collect()
}

fn events(traces: &[Trace]) -> impl Iterator<Item = &Event> {
    traces.iter().flat_map(|trace| &trace.events)
}

fn epochs(traces: &[Trace]) -> Vec<u64> {
    let number = |event: &Event| {
        if let What::Marked { mark: Mark::Epoch, number } = event.what { Some(number) } else { None }
    };
    events(traces).filter_map(number).collect()
}

#[test]
fn real_and_simulated_runs_leave_a_trace_per_node() {
    let folder = Folder::new();
    let (path, dir) = (folder.path("r.json"), folder.path("traces"));
    for flags in ["--nodes 2", "--nodes 3 --simulate"] {
        for technique in ["lapse", "adaptive"] {
            let (report_to, to) = (path.display(), dir.display());
            let flags =
                format!("{flags} --technique {technique} --epochs 2 --report {report_to} --trace {to}");
            succeeded(&output(&flags));
            let report = report(&path);
            let nodes = if flags.contains("--simulate") { 3 } else { 2 };
            let traces = traces(&dir, nodes);
            assert_eq!(epochs(&traces), [1, 2], "{flags}");
            // Epochs are a part of the run.
            let counted: u64 = report.epochs.iter().map(|epoch| epoch.management.counts.relocations).sum();
            let moved = events(&traces).filter(|event| matches!(event.what, What::Arrived { .. })).count();
            assert!(moved as u64 >= counted && counted > 0, "{flags}: {moved}, {counted}");
            for (node, trace) in traces.iter().enumerate() {
                let header = &trace.header;
                assert_eq!((usize::from(header.node), usize::from(header.nodes)), (node, nodes));
                assert_eq!((header.technique.as_str(), header.filter.as_str()), (technique, "all"));
                assert_eq!(header.epoch_us == 0, flags.contains("--simulate"));
                let setting = |name: &str| {
                    header.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
                };
                assert_eq!(setting("epochs"), Some("2"));
                assert_eq!(setting("nodes"), Some(nodes.to_string().as_str()));
                assert_eq!((trace.dropped, trace.unknown, trace.lost_bytes), (0, 0, 0));
            }
            let config = std::fs::read_to_string(folder.path("r.config.toml")).expect("a configuration");
            assert!(!config.contains("trace"), "starting from it overwrites no trace: {config}");
        }
    }
}

#[test]
fn a_run_that_is_killed_leaves_what_happened_before() {
    let folder = Folder::new();
    let dir = folder.path("traces");
    let mut command = regression(&format!(
        "--nodes 2 --technique lapse --epochs 100000 --valid-every 0 --trace {} --trace-keys 0..20",
        dir.display()
    ));
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = start(command);
    let has_moves = |node: u16| {
        let trace = Trace::read(&dir.join(format!("node-{node}.trace")));
        trace.is_ok_and(|trace| trace.events.iter().any(|event| matches!(event.what, What::Arrived { .. })))
    };
    while !(has_moves(0) && has_moves(1)) {
        assert!(child.try_wait().expect("its state").is_none(), "it trains until it is killed");
        let (_keep, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(Duration::from_millis(10));
    }
    // The launcher and its nodes.
    kill_process_group(pid(&child), Signal::KILL).expect("it is there");
    assert_eq!(end(&finish(child)).0, None);
    for trace in traces(&dir, 2) {
        assert!(trace.events.iter().any(|event| matches!(event.what, What::Arrived { .. })));
        assert!(trace.events.iter().all(|event| event.key.is_none_or(|key| key.0 < 20)));
    }
}

#[test]
fn a_trace_that_does_not_fit_the_disk_costs_neither_training_nor_results() {
    let folder = Folder::new();
    let (path, dir) = (folder.path("r.json"), folder.path("traces"));
    for simulate in ["", "--simulate"] {
        let program = regression("");
        let program = program.get_program().to_str().expect("UTF-8");
        let mut command = intendant_apptest::command("/bin/bash");
        // Files have at most 32 KiB: the report fits, the trace does not.
        let script = format!(
            "trap '' XFSZ; ulimit -f 32; exec {program} --nodes 2 {simulate} --technique lapse --epochs 8 -q \
             --report {} --trace {}",
            path.display(),
            dir.display()
        );
        command.args(["-c", &script]);
        let (code, said) = end(&finish(start(command)));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("cannot write") && said.contains(".trace: "), "{said}");
        assert!(said.contains("events are missing in it"), "{said}");
        assert_eq!(report(&path).epochs.len(), 8, "{said}");
        let traces = traces(&dir, 2);
        assert!(traces.iter().any(|trace| trace.dropped > 0), "the file says it as well");
        assert!(traces.iter().all(|trace| trace.lost_bytes == 0), "a part of a block is replaced");
        std::fs::remove_file(&path).expect("there");
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let folder = Folder::new();
    let dir = folder.path("traces");
    for (flags, said) in [
        ("--technique single --trace DIR", "technique single has none"),
        ("--technique lapse --trace DIR --trace-keys 7..", "names no keys; write all, keys and ranges"),
        ("--technique lapse --trace DIR --trace-keys sample:1/0", "names no keys"),
        ("--technique lapse --trace DIR --trace-keys 7,0..99999999", "; the model has keys 0 to"),
        (
            "--technique lapse --trace DIR --trace-keys 99999998 --nodes 2 --simulate",
            "names key 99999998; the",
        ),
        ("--technique lapse --trace-keys 7", "--trace <DIR>"),
        ("--technique lapse --trace DIR --checkpoint DIR", "--trace writes there as well"),
    ] {
        let (code, stderr) = end(&output(&flags.replace("DIR", &dir.display().to_string())));
        assert_eq!(code, Some(2), "{flags}: {stderr}");
        assert!(stderr.contains(said), "{flags}: {stderr}");
        assert!(!dir.exists(), "{flags}");
    }
}
