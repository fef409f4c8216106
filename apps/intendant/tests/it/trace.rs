//! `intendant trace` on runs of real files.

use crate::checkpoint::{ended, refused};
use crate::command::intendant;
use intendant_core::{ChannelId, Key, Layout, NodeId, Tick};
use intendant_trace::{Access, Cause, Event, Header, Mark, NamedRange, What, Writer};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

fn layout() -> Layout {
    Layout::builder().range("entity", 90, 8).range("relation", 10, 8).nodes(2).build().unwrap()
}

/// A key whose home is node 0.
fn key() -> u64 {
    (0..90).find(|key| layout().home(Key(*key)) == NodeId(0)).unwrap()
}

/// The folder of a run: key [`key`] moves to node 1, is replicated at node 0, and moves back. The clock of
/// node 1 is 1000 us behind; a meeting of both nodes takes 20 us.
fn run(change: impl Fn(Header) -> Header) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let trace = |node: u16, events: &[(u64, Option<u64>, What)]| {
        let header = Header {
            node,
            run: 5,
            epoch_us: 1_000_000,
            task: "kge".to_owned(),
            technique: "adaptive".to_owned(),
            filter: "all".to_owned(),
            settings: vec![("workers".to_owned(), "2".to_owned())],
            ..Header::default()
        };
        let header = change(header.of_layout(&layout()));
        let file = File::create(folder.path().join(format!("node-{node}.trace"))).unwrap();
        let event = |(at, key, what): &(u64, Option<u64>, What)| Event {
            at: Tick(*at),
            channel: ChannelId(0),
            key: key.map(Key),
            what: *what,
        };
        let events: Vec<Event> = events.iter().map(event).collect();
        Writer::start(file, &header).unwrap().write(&events, u64::from(node) * 3).unwrap();
    };
    let k = Some(key());
    let other = NodeId(1);
    trace(
        0,
        &[
            (5000, None, What::Came { meeting: 1 }),
            (5020, None, What::WentOn { meeting: 1 }),
            (6000, k, What::Left { to: other, cause: Cause::Began(other) }),
            (7000, k, What::ReplicaSetUp),
            (8000, k, What::Remote { access: Access::Pull, by: other, after: 500 }),
            (9000, k, What::Arrived { from: other, after: 0 }),
            (9500, None, What::Sent { to: other, bytes: 12_345 }),
            (10_000, None, What::Marked { mark: Mark::Epoch, number: 1 }),
        ],
    );
    trace(
        1,
        &[
            (4010, None, What::Came { meeting: 1 }),
            (4020, None, What::WentOn { meeting: 1 }),
            (4800, k, What::IntentBegan),
            (5100, k, What::Arrived { from: NodeId(0), after: 0 }),
            (7500, k, What::IntentEnded),
            (7900, k, What::Left { to: NodeId(0), cause: Cause::Ended(other) }),
        ],
    );
    folder
}

fn trace(command: &str, paths: &[&Path], flags: &str) -> Output {
    intendant().args(["trace", command]).args(paths).args(flags.split_whitespace()).output().unwrap()
}

fn parsed(output: &Output, schema: &str) -> Value {
    let value: Value = serde_json::from_str(&ended(output, 0).0).unwrap();
    assert_eq!(value["schema"], schema);
    value
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "'{line}' is not in:\n{text}");
    }
}

#[test]
fn a_merged_file_gives_the_same_answers_as_the_folder() {
    let folder = run(|header| header);
    let merged = folder.path().join("run.parquet");
    let (printed, said) = ended(&trace("merge", &[folder.path(), &merged], ""), 0);
    has(&printed, &["run.parquet: 14 events\n", "aligned by 1 meeting\n", "node 1    +"]);
    assert!(said.contains("node 1: 3 events were dropped"), "{said}");
    let flags = format!("--keys {} --json", key());
    for (command, flags) in
        [("summary", "--json"), ("allocation", "--json"), ("affinity", flags.as_str()), ("summary", "")]
    {
        let of = |path: &Path| ended(&trace(command, &[path], flags), 0).0;
        assert_eq!(of(folder.path()), of(&merged), "{command} {flags}");
    }
    let of = |path: &Path| ended(&trace("key", &[path, Path::new(&key().to_string())], ""), 0).0;
    assert_eq!(of(folder.path()), of(&merged));
    refused(
        &trace("merge", &[folder.path(), folder.path()], ""),
        2,
        &["is a folder; name the file to write"],
    );
    refused(
        &trace("merge", &[folder.path(), Path::new("/nowhere/x")], ""),
        1,
        &["cannot create /nowhere/x.part"],
    );
}

#[test]
fn a_summary_tells_numbers_clocks_and_what_is_lost() {
    let folder = run(|header| header);
    let (printed, _) = ended(&trace("summary", &[folder.path()], ""), 0);
    has(
        &printed,
        &[
            "run          kge with adaptive\n",
            "workers 2",
            "nodes        2, 2 with traces\n",
            "keys         100 of 100 traced (all), 1 with events\n",
            "relocations  2\n",
            "replicas     1 set up\n",
            "remote       1, mean 500 us",
            "sent         12.3 kB\n",
            "clocks: aligned by 1 meeting\n",
            "lost: 3 events dropped\n",
            "  node 0 to node 1  12.3 kB\n",
            "  stayed at their homes     99  99.0 %\n",
            "  relocated and replicated   1   1.0 %\n",
            "why keys were not where they were accessed\n",
            "pull of key",
        ],
    );
    let json = parsed(&trace("summary", &[folder.path()], "--json --top 0"), "intendant.trace-summary/1");
    assert_eq!((&json["relocations"], &json["longest"]), (&json!(2), &json!([])));
    assert_eq!(json["alignment"]["method"], "events");
    // Node 1 arrived at 4010, before node 0 continued at 5020, and so on: the bounds of 1000 are 980 and
    // 1011.
    let info = &json["nodes"][1];
    let (offset, error) = (info["offset_us"].as_i64().unwrap(), info["error_us"].as_i64().unwrap());
    assert!((offset - 1000).abs() <= error && error <= 20, "{offset} {error}");
    assert_eq!(info["dropped"], 3);
}

#[test]
fn a_key_is_explained() {
    let folder = run(|header| header);
    let of = |flags: &str| trace("key", &[folder.path(), Path::new(&key().to_string())], flags);
    let (printed, _) = ended(&of(""), 0);
    let number = key();
    has(
        &printed,
        &[
            &format!("key {number}, number {number} of 'entity', at home at node 0\n"),
            "2 relocations, 1 replica set up, 1 intent, 1 remote access (500 us together), 0 waits\n",
            "node 0    moves to node 1, whose intent has begun\n",
            "node 1    intent here begins\n",
            "node 0    pull: node 1 answers after 500 us: it came in the meantime, or was too old\n",
            "node 0    comes from node 1\n",
        ],
    );
    let json = parsed(&of("--json"), "intendant.trace-key/1");
    let spans: Vec<&Value> = json["ownership"].as_array().unwrap().iter().map(|span| &span["node"]).collect();
    assert_eq!(spans, [0, 1, 0]);
    assert_eq!(json["replicas"][0]["node"], 0);
    let (printed, _) = ended(&of("--top 2"), 0);
    has(&printed, &["and more: --top lists more than the first 2"]);
    // A part of the time, for text and JSON alike. Clocks are aligned, so that node 0's begins at 0 s.
    let (printed, _) = ended(&of("--from 0.0079 --to 0.0081"), 0);
    has(&printed, &["pull: node 1 answers after 500 us"]);
    assert!(!printed.contains("intent here begins") && !printed.contains("comes from"), "{printed}");
    let json = parsed(&of("--json --from 0.0079 --to 0.0081"), "intendant.trace-key/1");
    assert_eq!((json["decisions"].as_array().unwrap().len(), &json["omitted"]), (1, &json!(0)));
    has(&ended(&of("--from 5"), 0).0, &["nothing happened to it in this time\n"]);
    let wrong = |key: &str| trace("key", &[folder.path(), Path::new(key)], "");
    refused(&wrong("100"), 2, &["there is no key 100: those of the run are 0 to 99"]);
    refused(&wrong("x"), 2, &["invalid value 'x'", "a key is a whole number"]);
    let few = run(|header| Header { filter: "7,9".to_owned(), ..header });
    refused(&trace("key", &[few.path(), Path::new("8")], ""), 2, &["record it with --trace-keys 8"]);
}

#[test]
fn pictures_are_written() {
    let folder = run(|header| header);
    let picture = folder.path().join("picture.svg");
    let number = key().to_string();
    let svg = format!("--svg {}", picture.display());
    let written = |output: &Output| {
        ended(output, 0);
        let content = fs::read_to_string(&picture).unwrap();
        fs::remove_file(&picture).unwrap();
        assert!(content.starts_with("<svg ") && content.ends_with("</svg>\n"), "{content}");
        content
    };
    let path = folder.path();
    has(
        &written(&trace("allocation", &[path], &format!("{svg} --rows 20"))),
        &["kge with adaptive, 20 of 100 keys"],
    );
    has(&written(&trace("affinity", &[path], &svg)), &["Relocations to each node"]);
    has(&written(&trace("key", &[path, Path::new(&number)], &svg)), &["Management of key"]);
    has(
        &written(&trace("compare", &[path, path], &svg)),
        &["A: kge with adaptive, 100 keys, B: kge with adaptive"],
    );
    // A part of the time.
    let part = written(&trace("allocation", &[path], &format!("{svg} --from 0.006 --to 0.0061 --width 500")));
    has(&part, &[">6 ms<", ">6.1 ms<"]);
    refused(
        &trace("allocation", &[path], &format!("{svg} --from 2 --to 1")),
        2,
        &["the time from 2 s to 1 s is empty"],
    );
    refused(&trace("allocation", &[path], "--svg /nowhere/x.svg"), 1, &["cannot write /nowhere/x.svg"]);
    refused(&trace("allocation", &[path], "--width 5"), 2, &["--width"]);
}

#[test]
fn allocation_and_affinity_are_tables() {
    let folder = run(|header| header);
    let (printed, _) = ended(&trace("allocation", &[folder.path()], "--moments 3"), 0);
    has(&printed, &["where keys were: 100 keys\n", "moving  replicas\n", "keys that moved most often\n"]);
    let json =
        parsed(&trace("allocation", &[folder.path()], "--json --rows 7"), "intendant.trace-allocation/1");
    assert_eq!(json["rows"].as_array().unwrap().len(), 7);
    let sum = |moment: &Value| {
        let owned: u64 =
            moment["owned"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
        owned + moment["moving"].as_u64().unwrap()
    };
    assert!(json["moments"].as_array().unwrap().iter().all(|moment| sum(moment) == 100), "{json}");
    let (printed, _) = ended(&trace("affinity", &[folder.path()], ""), 0);
    has(&printed, &["time at each node, in %\n", "relocations to each node\n", &format!("  {}", key())]);
    let json =
        parsed(&trace("affinity", &[folder.path()], "--keys 0..3 --json"), "intendant.trace-affinity/1");
    let keys: Vec<u64> =
        json["keys"].as_array().unwrap().iter().map(|key| key["key"].as_u64().unwrap()).collect();
    assert_eq!(keys, [0, 1, 2]);
    let (printed, _) = ended(&trace("affinity", &[folder.path()], "--keys 95"), 0);
    has(&printed, &["  95 "]);
    let output = trace("affinity", &[folder.path()], "--keys 95..105");
    refused(&output, 0, &["5 of 10 keys named by --keys: not traced; the run has 100 keys and traced all"]);
    refused(
        &trace("summary", &[folder.path()], "--keys 100..105"),
        2,
        &["none of the keys 100..105 was traced: the run has 100 keys and traced all"],
    );
    has(&ended(&trace("affinity", &[folder.path()], "--top 0"), 0).0, &["--top 0 shows no key\n"]);
    refused(
        &trace("affinity", &[folder.path()], "--keys 9..1"),
        2,
        &["names no keys; write all, keys and ranges"],
    );
}

#[test]
fn two_runs_are_compared() {
    let [a, b] = [run(|header| Header { technique: "classic".to_owned(), ..header }), run(|header| header)];
    let (printed, _) = ended(&trace("compare", &[a.path(), b.path()], ""), 0);
    has(&printed, &["classic  adaptive  ratio\n", "relocations", "1.000\n", "A trace has no local accesses"]);
    let json = parsed(&trace("compare", &[a.path(), b.path()], "--json"), "intendant.trace-compare/1");
    assert_eq!((&json["a"]["technique"], &json["b"]["technique"]), (&json!("classic"), &json!("adaptive")));
    let line = json["lines"].as_array().unwrap().iter().find(|line| line["what"] == "relocations").unwrap();
    assert_eq!((&line["a"], &line["b"]), (&json!(2.0), &json!(2.0)));
}

#[test]
fn what_is_no_run_or_damaged_is_refused_by_every_command() {
    let folder = run(|header| header);
    let empty = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| -> PathBuf {
        let path = empty.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let merged = file("run.parquet", b"");
    ended(&trace("merge", &[folder.path(), &merged], ""), 0);
    let whole = fs::read(&merged).unwrap();
    let damaged = file("damaged.parquet", &[&whole[..100], &[whole[100] ^ 1], &whole[101..]].concat());
    let mixed = run(|header| Header { run: u64::from(header.node), ..header });
    let nothing = tempfile::tempdir().unwrap();
    for (path, code, reason) in [
        (Path::new("/nowhere"), 2, "there is no such file or folder; name a folder with files node-N.trace"),
        (nothing.path(), 2, "it has no traces"),
        (&file("zeros", &[0; 5000]), 2, "it is no trace"),
        (&file("zip", b"PK\x03\x04"), 2, "unpack it first"),
        (&file("cut.parquet", &whole[..whole.len() - 9]), 5, "it has no end: it was cut off"),
        (&damaged, 5, "damaged.parquet is damaged: its content is not what was written"),
        (
            &file("node-0.trace", b"ITDTRACE\x01\0\0\0\xff\xff\xff\xff"),
            5,
            "its header would have 4294967295 bytes",
        ),
        (mixed.path(), 2, "are not of one run: their runs are"),
    ] {
        for command in ["merge", "summary", "allocation", "affinity", "key", "compare"] {
            let (out, good) = (empty.path().join("out"), folder.path());
            let paths = match command {
                "merge" => vec![path, out.as_path()],
                "key" => vec![path, Path::new("1")],
                "compare" => vec![good, path],
                _ => vec![path],
            };
            refused(&trace(command, &paths, ""), code, &[reason]);
            assert!(!out.exists());
        }
    }
    let output = trace("summary", &[folder.path()], "--max-events 5");
    refused(&output, 2, &["has more than 5 events; raise the limit (--max-events", "--trace-keys"]);
}

#[test]
fn no_command_destroys_what_it_reads() {
    let folder = run(|header| header);
    let path = folder.path();
    let files: Vec<PathBuf> = [0, 1].map(|node| path.join(format!("node-{node}.trace"))).to_vec();
    let [soft, hard, part] = ["soft.parquet", "hard.parquet", "x.parquet.part"].map(|name| path.join(name));
    std::os::unix::fs::symlink(&files[0], &soft).unwrap();
    fs::hard_link(&files[1], &hard).unwrap();
    fs::hard_link(&files[1], &part).unwrap();
    let before: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let key = PathBuf::from(key().to_string());
    for out in [&files[0], &files[1], &soft, &hard, &path.join("x.parquet")] {
        refused(&trace("merge", &[path, out], ""), 2, &["would destroy", "name another file"]);
    }
    for out in [&files[0], &soft, &hard] {
        let svg = format!("--svg {}", out.display());
        for (command, paths) in [
            ("allocation", vec![path]),
            ("affinity", vec![path]),
            ("key", vec![path, &key]),
            ("compare", vec![path, path]),
        ] {
            refused(&trace(command, &paths, &svg), 2, &["would destroy", "name another file"]);
        }
    }
    let after: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert_eq!(before, after);
    // A path that is not a file is not changed, and a link stays a link.
    refused(&trace("merge", &[path, Path::new("/dev/null")], ""), 2, &["it is no regular file"]);
    let (target, link) = (path.join("target"), path.join("link.parquet"));
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    ended(&trace("merge", &[path, &link], ""), 0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read(&target).unwrap().starts_with(b"PAR1"));
}

#[test]
fn damage_within_a_file_costs_only_what_is_damaged() {
    let folder = run(|header| header);
    let path = folder.path().join("node-1.trace");
    let whole = fs::read(&path).unwrap();
    // A block without events at the end: a node writes it if it has dropped some.
    let at = whole.len() - 5;
    let empty_block = {
        let file = folder.path().join("empty");
        Writer::start(File::create(&file).unwrap(), &Header::default()).unwrap();
        let start = fs::metadata(&file).unwrap().len() as usize;
        Writer::start(File::create(&file).unwrap(), &Header::default()).unwrap().write(&[], 3).unwrap();
        fs::read(&file).unwrap()[start..].to_vec()
    };
    let damaged = [&whole[..at], &[whole[at] ^ 1], &whole[at + 1..], &empty_block].concat();
    fs::write(&path, damaged).unwrap();
    let (printed, said) = ended(&trace("summary", &[folder.path()], ""), 0);
    has(&said, &["bytes in the middle of its file are damaged: the events in them are missing"]);
    has(&printed, &["of damage within files", "3 events dropped"]);
    let merged = folder.path().join("run.parquet");
    ended(&trace("merge", &[folder.path(), &merged], ""), 0);
    has(&ended(&trace("summary", &[&merged], ""), 0).0, &["of damage within files"]);
}

#[test]
fn names_in_a_trace_do_not_control_the_terminal() {
    let hostile = "\u{1b}]0;x\u{7}\u{1b}[31mred\nnodes        99\u{9b}2J\u{202e}\r";
    let change = |header: Header| Header {
        task: hostile.to_owned(),
        technique: hostile.to_owned(),
        settings: vec![(hostile.to_owned(), hostile.to_owned())],
        filter: hostile.to_owned(),
        ranges: header
            .ranges
            .into_iter()
            .map(|range| NamedRange { name: hostile.to_owned(), ..range })
            .collect(),
        ..header
    };
    let (folder, key) = (run(change), key().to_string());
    for command in ["summary", "allocation", "affinity", "key", "compare", "merge"] {
        for flags in ["", "--json"] {
            let out = folder.path().join("out.parquet");
            let paths = match command {
                "merge" if flags.is_empty() => vec![folder.path(), out.as_path()],
                "merge" => continue,
                "key" => vec![folder.path(), Path::new(&key)],
                "compare" => vec![folder.path(), folder.path()],
                _ => vec![folder.path()],
            };
            let (printed, said) = ended(&trace(command, &paths, flags), 0);
            for text in [&printed, &said] {
                let controls: Vec<char> =
                    text.chars().filter(|c| c.is_control() && *c != '\n' || *c == '\u{202e}').collect();
                assert!(controls.is_empty(), "{command} {flags}: {controls:?} in {text}");
                assert!(!text.contains("\nnodes        99"), "{command}: {text}");
            }
            if flags == "--json" && command == "summary" {
                let json: Value = serde_json::from_str(&printed).unwrap();
                assert_eq!(json["task"], hostile);
            }
        }
    }
}

#[test]
fn numbers_of_lost_events_that_are_as_large_as_can_be_are_added_up() {
    let folder = run(|header| header);
    for node in [0, 1] {
        let path = folder.path().join(format!("node-{node}.trace"));
        let header =
            Header { node, run: 5, filter: "all".to_owned(), ..Header::default() }.of_layout(&layout());
        Writer::start(File::create(&path).unwrap(), &header).unwrap().write(&[], u64::MAX - 1).unwrap();
        // Bytes that are not a block are lost as well.
        fs::write(&path, [fs::read(&path).unwrap().as_slice(), b"xyz"].concat()).unwrap();
    }
    let (printed, _) = ended(&trace("summary", &[folder.path()], ""), 0);
    has(&printed, &["lost: 18,446,744,073,709,551,615 events dropped, 6 B at the ends of files\n"]);
}
