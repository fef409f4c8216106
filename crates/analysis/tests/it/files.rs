//! Files: folders with the files of nodes, merged files, files that are neither, and damaged files.

use crate::made::{History, NODES, acts, header, write};
use intendant_analysis::{AnalysisError, Flat, Limits, NodeInfo, Run};
use intendant_trace::{Event, Header, Trace, What};
use parquet::basic::Compression;
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A history that is the same in every run.
fn history(acts_count: usize) -> History {
    let mut runner = TestRunner::deterministic();
    let acts = proptest::collection::vec((1..30u64, crate::made::act()), acts_count);
    History::of(&acts.new_tree(&mut runner).unwrap().current(), 100)
}

/// The folder of a run.
fn folder(history: &History) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    history.traces(&[3, 50, 0], 1).iter().for_each(|trace| write(folder.path(), trace));
    folder
}

fn open(path: &Path) -> Result<Run, AnalysisError> {
    Run::open(path, Limits::default())
}

fn content(run: &Run) -> (Vec<Flat>, Vec<NodeInfo>, Header) {
    let rows = (0..run.len()).map(|at| run.flat(at).unwrap()).collect();
    (rows, run.nodes().to_vec(), run.header().clone())
}

#[track_caller]
fn refused(path: &Path, reason: &str) -> AnalysisError {
    let error = open(path).unwrap_err();
    assert!(error.to_string().contains(reason), "'{reason}' is not in: {error}");
    assert!(error.to_string().contains(&*path.file_name().unwrap().to_string_lossy()), "{error}");
    error
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_merged_file_is_the_run_of_its_folder(acts in acts(200), lost in 0..9u64) {
        let history = History::of(&acts, 100);
        let folder = folder(&history);
        let mut trace = Trace::read(&folder.path().join("node-1.trace")).unwrap();
        trace.dropped = lost;
        write(folder.path(), &trace);
        let run = open(folder.path()).unwrap();
        prop_assert_eq!(run.len(), history.events.len());
        prop_assert_eq!(run.nodes()[1].dropped, lost);
        let merged = folder.path().join("run.parquet");
        run.write_parquet(&merged).unwrap();
        let again = open(&merged).unwrap();
        prop_assert_eq!(content(&run), content(&again));
        prop_assert_eq!(run.alignment(), again.alignment());
        prop_assert!(run.events().eq(again.events()));
        prop_assert!(!folder.path().join("run.parquet.part").exists());
    }
}

#[test]
fn a_run_of_several_row_groups_and_pages_is_read_as_it_was_written() {
    let history = history(100);
    let mut traces = history.traces(&[0; 3], 0);
    let event = traces[0].events[0];
    traces[0].events.extend((0..1_200_000u64).map(|at| Event {
        at: intendant_core::Tick(at),
        key: Some(intendant_core::Key(at * 7919 % 1_000_003)),
        what: What::Remote {
            access: intendant_trace::Access::Push,
            by: intendant_core::NodeId(1),
            after: at * at,
        },
        ..event
    }));
    let run = Run::of_traces(traces).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let merged = folder.path().join("run.parquet");
    run.write_parquet(&merged).unwrap();
    assert!(run.events().eq(open(&merged).unwrap().events()));
    let small = Limits { events_max: 1_200_000 };
    let error = Run::open(&merged, small).unwrap_err();
    assert!(matches!(error, AnalysisError::TooMany { .. }) && error.is_usage(), "{error}");
    assert!(error.to_string().contains("has more than 1200000 events; raise the limit"), "{error}");
    assert!(error.to_string().contains("--trace-keys"), "{error}");
}

#[test]
fn more_events_than_allowed_are_refused() {
    let folder = folder(&history(100));
    let all = open(folder.path()).unwrap().len() as u64;
    assert!(Run::open(folder.path(), Limits { events_max: all }).is_ok());
    let error = Run::open(folder.path(), Limits { events_max: all - 1 }).unwrap_err();
    assert!(matches!(error, AnalysisError::TooMany { .. }), "{error}");
}

#[test]
fn nodes_without_files_and_lost_bytes_are_told() {
    let folder = folder(&history(100));
    fs::remove_file(folder.path().join("node-1.trace")).unwrap();
    let path = folder.path().join("node-2.trace");
    let file = fs::read(&path).unwrap();
    fs::write(&path, &file[..file.len() - 7]).unwrap();
    let run = open(folder.path()).unwrap();
    let told: Vec<String> = run.problems().into_iter().map(|problem| problem.text).collect();
    assert!(told[0].contains("there is no file of node 1:"), "{told:?}");
    assert!(told.iter().any(|text| text.contains("bytes at the end of its file are no events")), "{told:?}");
    assert_eq!(run.nodes().len(), usize::from(NODES));
    assert_eq!(run.nodes()[1].file, None);
    // One file is enough.
    let run = open(&folder.path().join("node-0.trace")).unwrap();
    assert!(!run.is_empty() && run.problems()[0].text.contains("nodes 1, 2"), "{:?}", run.problems());
}

#[test]
fn events_that_name_what_cannot_be_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut traces = history(20).traces(&[0; 3], 0);
    let before = traces[2].events.len();
    let event = traces[2].events[0];
    let to = intendant_core::NodeId(NODES);
    traces[2].events.push(Event { what: What::Sent { to, bytes: 1 }, ..event });
    traces[2].events.push(Event { at: intendant_core::Tick(u64::MAX), ..event });
    traces.iter().for_each(|trace| write(folder.path(), trace));
    for run in [open(folder.path()).unwrap(), Run::of_traces(traces).unwrap()] {
        assert_eq!((run.nodes()[2].events, run.nodes()[2].refused), (before as u64, 2));
    }
}

#[test]
fn files_of_different_runs_are_refused() {
    let history = history(20);
    let differ = |header: Header| {
        let folder = folder(&history);
        let trace =
            Trace { header: Header { epoch_us: 1, ..header }, ..history.traces(&[0; 3], 1).remove(1) };
        write(folder.path(), &trace);
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, AnalysisError::Mixed { .. }) && error.is_usage(), "{error}");
        error.to_string()
    };
    assert!(
        differ(Header { run: 8, ..header(1) })
            .contains("their runs are 0000000000000007 and 0000000000000008")
    );
    assert!(differ(Header { nodes: 4, ..header(1) }).contains("their numbers of nodes are 3 and 4"));
    assert!(
        differ(Header { technique: "lapse".to_owned(), ..header(1) })
            .contains("techniques are adaptive and lapse")
    );
    assert!(
        differ(Header { filter: "7".to_owned(), ..header(1) }).contains("their traced keys are all and 7")
    );
    assert!(differ(Header { layout_seed: 9, ..header(1) }).contains("their keys have other ranges"));
    // An earlier run had more nodes.
    let mixed = folder(&history);
    let old = Header { run: 6, node: 3, nodes: 4, epoch_us: 0, ..header(0) };
    write(mixed.path(), &Trace { header: old, ..history.traces(&[0; 3], 1).remove(1) });
    let run = open(mixed.path()).unwrap();
    assert_eq!((run.header().run, run.nodes().len()), (7, 3));
    let problems = run.problems();
    assert_eq!(problems[0].text, "files of earlier runs are ignored: node-3.trace");
    // Two files of one node.
    let folder = folder(&history);
    fs::copy(folder.path().join("node-1.trace"), folder.path().join("node-01.trace")).unwrap();
    assert!(open(folder.path()).unwrap_err().to_string().contains("both are of node 1"));
}

#[test]
fn what_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |content: &[u8]| {
        let path = folder.path().join("some-file");
        fs::write(&path, content).unwrap();
        path
    };
    for (path, reason) in [
        (
            folder.path().join("missing"),
            "there is no such file or folder; name a folder with files node-N.trace",
        ),
        (folder.path().to_owned(), "it has no traces"),
        (PathBuf::from("/dev/null"), "it is neither a file nor a folder"),
    ] {
        assert!(refused(&path, reason).is_usage());
    }
    for content in [&b""[..], b"PAR", &[0; 100_000], b"time,key\n1,2\n", b"<script>alert(1)</script>"] {
        assert!(refused(&file(content), "it is no trace; name a folder").is_usage());
    }
    for content in [&b"PK\x03\x04zeros"[..], b"\x1f\x8b\x08zeros"] {
        assert!(refused(&file(content), "it is an archive or compressed: unpack it first").is_usage());
    }
    let header = |header: Header| {
        let path = folder.path().join("node-0.trace");
        write(
            folder.path(),
            &Trace { header, events: vec![], dropped: 0, unknown: 0, lost_bytes: 0, damaged_bytes: 0 },
        );
        assert!(refused(&path, "its header tells of").is_damage());
        fs::remove_file(path).unwrap();
    };
    header(Header { nodes: 0, node: 0, ..Header::default() });
    header(Header { nodes: 2000, node: 0, ..Header::default() });
    // A file whose header says that it is of node 5 of 2.
    let path = folder.path().join("node-5.trace");
    let wrong = Header { nodes: 2, node: 5, ..Header::default() };
    write(
        folder.path(),
        &Trace { header: wrong, events: vec![], dropped: 0, unknown: 0, lost_bytes: 0, damaged_bytes: 0 },
    );
    assert!(refused(&path, "its header tells of node 5 of 2").is_damage());
    let mut old = fs::read(&path).unwrap();
    old[8] = 9;
    fs::write(&path, &old).unwrap();
    assert!(refused(&path, "has version 9, and this program reads 1").is_usage());
}

#[test]
fn headers_without_a_layout_and_with_hostile_numbers_are_tolerated() {
    let history = history(60);
    let ranges = |keys| vec![intendant_trace::NamedRange { name: "<script>".to_owned(), keys, len: 1 }];
    for hostile in [
        Header { ranges: vec![], ..header(0) },
        Header { ranges: ranges(u64::MAX - 1), filter: "sample:1/3".to_owned(), ..header(0) },
        Header { ranges: ranges(1 << 40), key_order: "sideways".to_owned(), ..header(0) },
        Header { filter: "<script>".to_owned(), static_replicas: vec![[5, 2], [0, u64::MAX]], ..header(0) },
        Header { channels: 0, shards: 0, ..header(0) },
    ] {
        let mut traces = history.traces(&[0; 3], u64::MAX);
        for trace in &mut traces {
            let (node, epoch_us) =
                (trace.header.node, trace.header.epoch_us / (1 + u64::from(trace.header.node)));
            trace.header = Header { node, epoch_us, ..hostile.clone() };
            trace.events.retain(|event| !matches!(event.what, What::Came { .. }));
        }
        let run = Arc::new(Run::of_traces(traces).unwrap());
        let allocation = intendant_analysis::Allocation::of(&run, &intendant_trace::Filter::All);
        let summary = intendant_analysis::Summary::of(&allocation, 10);
        assert!(summary.events.len() > 5);
        let keys = allocation.keys().spread(20);
        let window = intendant_analysis::Window::new(0, u64::MAX, u32::MAX);
        assert_eq!(allocation.rows(&keys, window).len(), keys.len());
        assert_eq!(allocation.affinity(&[0, u64::MAX - 1]).len(), 2);
        assert_eq!(allocation.history(u64::MAX, 10).counts.relocations, 0);
    }
}

/// A small merged file, and what it holds.
fn merged(folder: &TempDir) -> (PathBuf, Run) {
    let run = history(40).run();
    let path = folder.path().join("run.parquet");
    run.write_parquet(&path).unwrap();
    (path, run)
}

#[test]
fn a_merged_file_that_is_cut_off_anywhere_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = merged(&folder);
    let whole = fs::read(&path).unwrap();
    for len in 4..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let error = open(&path).expect_err("the end is missing");
        assert!(error.is_damage(), "{len}: {error}");
    }
}

#[test]
fn a_merged_file_with_a_bit_changed_anywhere_is_refused_or_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (path, run) = merged(&folder);
    let whole = fs::read(&path).unwrap();
    let expected = content(&run);
    let mut refused = 0;
    for at in 4..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        match open(&path) {
            Err(_) => refused += 1,
            // The reader does not use statistics, names of encodings and the like.
            Ok(again) => assert_eq!(content(&again), expected, "byte {at}"),
        }
    }
    assert!(refused > whole.len() / 2, "{refused} of {}", whole.len());
}

#[test]
fn other_parquet_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = merged(&folder);
    let about = {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let entries = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
        entries.into_iter().find(|entry| entry.key == "intendant.trace").unwrap().value.unwrap()
    };
    let other = |message: &str, about: Option<String>, rows: usize| {
        let schema = Arc::new(parse_message_type(message).unwrap());
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let properties = Arc::new(properties.set_data_page_size_limit(1 << 30).build());
        let file = File::create(&path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        while let Some(mut column) = group.next_column().unwrap() {
            column.typed::<Int64Type>().write_batch(&vec![0; rows], None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        if let Some(about) = about {
            writer.append_key_value_metadata(KeyValue::new("intendant.trace".to_owned(), about));
        }
        writer.close().unwrap();
    };
    for message in [
        "message other { REQUIRED INT64 at_us; }",
        "message other { REQUIRED group g { REQUIRED INT64 a; } }",
    ] {
        for about in [None, Some(about.clone())] {
            other(message, about, 10);
            assert!(
                refused(&path, "it is a Parquet file, but no merged trace: it has other columns").is_usage()
            );
        }
    }
    let eleven = |first: &str| {
        let others: String = (1..11).map(|at| format!("REQUIRED INT64 c{at};")).collect();
        format!("message other {{ REQUIRED INT64 {first}; {others} }}")
    };
    let message = &eleven("at_us");
    other(message, None, 10);
    assert!(refused(&path, "it is a Parquet file, but no merged trace: its metadata").is_usage());
    other(message, Some(about.clone()), 10);
    assert!(refused(&path, "its column 1 is not 'node', or of another type").is_damage());
    other(&eleven("node"), Some(about.clone()), 10);
    assert!(refused(&path, "its column 0 is not 'at_us', or of another type").is_damage());
    other(message, Some(about.replace("intendant.trace/1", "intendant.trace/2")), 10);
    assert!(
        refused(&path, "has the schema 'intendant.trace/2', and this version reads intendant.trace/1")
            .is_usage()
    );
    other(message, Some("{".to_owned()), 10);
    assert!(refused(&path, "its 'intendant.trace': ").is_damage());
    other(message, Some(about.replace("\"nodes\":3", "\"nodes\":2")), 10);
    assert!(refused(&path, "it does not tell of each node once").is_damage());
}
