//! Several node processes: what they refuse, and that they find the same result.

use crate::count::SKETCH;
use intendant_apptest::{finish, ranks, start};
use std::fs;
use std::process::Child;

#[test]
fn nodes_with_different_streams_refuse_each_other() {
    let data = ["builtin:zipf:3000x200", "builtin:zipf:3000x201"];
    let commands = data.map(|data| SKETCH.command(&["--data", data])).into();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    for output in children.into_iter().map(finish) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently: digest of the data is"), "{said}");
    }
}

/// If all heavy hitters are frequent enough, no result depends on the number of nodes.
#[test]
fn four_processes_find_what_one_finds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.txt");
    let text: String =
        (1..400).flat_map(|i| (1..=i).filter(move |j| i % j == 0)).map(|j| format!("w{j} ")).collect();
    fs::write(&path, text).unwrap();
    let flags = ["--data", path.to_str().unwrap(), "--batch-bytes", "100", "--top", "5", "--exact", "1"];
    let run = |nodes: &str| {
        let export = folder.path().join(nodes);
        let export = ["--nodes", nodes, "--export", export.to_str().unwrap()];
        let report = SKETCH.report(&[&flags[..], &export].concat());
        let top = fs::read_to_string(folder.path().join(nodes).join("top.tsv")).unwrap();
        assert_eq!(report["test"]["row_deviation"], 0.0);
        (top, report["test"].clone())
    };
    let one = run("1");
    assert_eq!(one.0, "estimate\titem\n399\tw1\n199\tw2\n133\tw3\n99\tw4\n79\tw5\n");
    assert_eq!(one.1["top_precision"], 1.0);
    assert_eq!(one, run("4"));
}

/// There may be more workers than batches.
#[test]
fn workers_without_a_batch_wait() {
    let report = SKETCH.report(&["--data", "builtin:zipf:100x10", "--nodes", "2", "--workers", "3"]);
    assert_eq!(report["test"]["inserted"], 100.0);
}
