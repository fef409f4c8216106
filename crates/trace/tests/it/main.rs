//! The tests of this crate from outside.

mod events;

use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick};
use intendant_trace::{Access, Event, Filter, Header, Recorder, Target, Trace, TraceError, What, Writer};
use proptest::prelude::*;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tempfile::TempDir;

fn header() -> Header {
    let layout =
        Layout::builder().range("word", 700, 8).range("context", 300, 4).nodes(4).channels(2).shards(4);
    let layout = layout.order(KeyOrder::Hash).seed(5).build().unwrap();
    Header { node: 3, run: 77, technique: "adaptive".to_owned(), ..Header::default() }.of_layout(&layout)
}

/// An event whose content follows from its time.
fn event(at: u64) -> Event {
    let what = What::Remote { access: Access::Pull, by: NodeId(1), after: at / 2 };
    Event { at: Tick(at), channel: ChannelId(2), key: Some(Key(at % 10)), what }
}

fn written(blocks: &[Vec<Event>], dropped: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::start(&mut file, &header()).unwrap();
    blocks.iter().for_each(|block| writer.write(block, dropped).unwrap());
    file
}

fn read(folder: &TempDir, file: &[u8]) -> Result<Trace, TraceError> {
    let path = folder.path().join("node-3.trace");
    fs::write(&path, file).unwrap();
    Trace::read(&path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read(
        blocks in proptest::collection::vec(proptest::collection::vec(events::any(), 0..20), 0..6),
        dropped in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let trace = read(&folder, &written(&blocks, dropped)).unwrap();
        prop_assert_eq!(&trace.header, &header());
        prop_assert_eq!(trace.events, blocks.concat());
        let dropped = if blocks.is_empty() { 0 } else { dropped };
        prop_assert_eq!((trace.dropped, trace.unknown, trace.lost_bytes), (dropped, 0, 0));
    }

    #[test]
    fn a_file_that_is_cut_off_or_changed_has_all_complete_blocks(
        sizes in proptest::collection::vec(1usize..20, 1..6),
        at in any::<proptest::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut times = 0..;
        let mut block = |size: &usize| times.by_ref().take(*size).map(event).collect::<Vec<_>>();
        let blocks: Vec<Vec<Event>> = sizes.iter().map(&mut block).collect();
        let (all, start) = (blocks.concat(), written(&[], 0).len());
        let file = written(&blocks, 0);
        let folder = tempfile::tempdir().unwrap();
        let at = start + at.index(file.len() - start);
        let mut before = 0;
        let mut end = start;
        let mut hit = 0..0;
        for size in sizes {
            let begin = end;
            end += 24 + 32 * size;
            before += if end <= at { size } else { 0 };
            if (begin..end).contains(&at) {
                hit = begin..end;
            }
        }
        let after = before + (hit.len() - 24) / 32;
        let cut = read(&folder, &file[..at]).unwrap();
        prop_assert_eq!(&cut.events, &all[..before]);
        let mut changed = file.clone();
        changed[at] ^= 1 << bit;
        let trace = read(&folder, &changed).unwrap();
        // The reader finds all other blocks, including those behind the damage.
        prop_assert_eq!(&trace.events, &[&all[..before], &all[after..]].concat());
        let is_last = hit.end == file.len();
        let (lost, damaged) = if is_last { (hit.len(), 0) } else { (0, hit.len()) };
        prop_assert_eq!((trace.lost_bytes, trace.damaged_bytes), (lost as u64, damaged as u64));
    }
}

#[test]
fn the_search_behind_damage_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&[vec![event(1)]], 0);
    let start = written(&[], 0).len();
    let block = &file[start..];
    // A file with a gap before its second block. The gap may contain what looks like the beginnings of
    // blocks.
    let read_behind = |gap: Vec<u8>| {
        let bytes = [&file, gap.as_slice(), block].concat();
        let trace = read(&folder, &bytes).unwrap();
        (trace.events.len(), trace.damaged_bytes, trace.lost_bytes)
    };
    let block_len = block.len() as u64;
    assert_eq!(read_behind(b"BLCK".repeat(200)), (2, 800, 0));
    assert_eq!(read_behind(b"BLCK".repeat(300)), (1, 0, 1200 + block_len));
    let (far, near) = (vec![0; 1 << 25], vec![0; 1 << 20]);
    assert_eq!(read_behind(far.clone()), (1, 0, far.len() as u64 + block_len));
    assert_eq!(read_behind(near.clone()), (2, near.len() as u64, 0));
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |file: &[u8]| read(&folder, file).unwrap_err().to_string();
    for file in [&b""[..], b"PK\x03\x04", b"time,key\n1,2\n"] {
        assert!(refused(file).contains("is no trace: it does not begin as one"), "{}", refused(file));
    }
    let file = written(&[vec![event(1)]], 0);
    let changed = |at: usize, to: &[u8]| {
        let mut file = file.clone();
        file[at..at + to.len()].copy_from_slice(to);
        refused(&file)
    };
    assert!(changed(8, &9u32.to_le_bytes()).contains("has version 9, and this program reads 1"));
    assert!(changed(12, &u32::MAX.to_le_bytes()).contains("its header would have 4294967295 bytes"));
    assert!(changed(12, &1_000_000u32.to_le_bytes()).contains("its header is damaged"));
    assert!(changed(20, b"?").contains("its header is damaged"));
    let missing = Trace::read(Path::new("/nowhere/node-0.trace")).unwrap_err();
    assert!(matches!(missing, TraceError::Io { .. }), "{missing}");
}

#[test]
fn a_reader_takes_no_more_than_it_wants() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node-3.trace");
    fs::write(&path, written(&[(0..70).map(event).collect(), (70..90).map(event).collect()], 0)).unwrap();
    for wanted in [0, 10, 70, 75] {
        let trace = Trace::read_at_most(&path, wanted).unwrap();
        assert_eq!(trace.events, (0..wanted).map(event).collect::<Vec<_>>());
    }
}

#[test]
fn many_events_are_several_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (0..150_000).map(event).collect();
    let trace = read(&folder, &written(std::slice::from_ref(&events), 5)).unwrap();
    assert!(trace.events == events && trace.dropped == 5);
}

#[test]
fn sinks_of_several_threads_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node-3.trace");
    let recorder = Recorder::start(&path, &header(), |_| ()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u16 {
            let mut sink = recorder.sink();
            scope.spawn(move || {
                for at in 0..5000 {
                    sink.record([Event { channel: ChannelId(thread), ..event(at) }]);
                }
            });
        }
    });
    recorder.finish().unwrap();
    let trace = Trace::read(&path).unwrap();
    for thread in 0..4 {
        let times = trace.events.iter().filter(|event| event.channel == ChannelId(thread));
        assert!(times.map(|event| event.at.0).eq(0..5000), "in the order of their thread");
    }
    assert_eq!((trace.events.len(), trace.dropped), (20_000, 0));
}

/// A disk with room for `room` bytes. Dropping it disconnects the receiver of `_closed`.
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
    _closed: mpsc::Sender<()>,
}

impl io::Write for Disk {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let fits = from.len().min(self.room - bytes.len());
        if fits == 0 && !from.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(&from[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for Disk {
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(bytes as usize);
        Ok(())
    }
}

impl Disk {
    /// Returns a disk, the bytes that are written to it, and a receiver that is disconnected when the disk is
    /// dropped.
    fn new(room: usize) -> (Self, Arc<Mutex<Vec<u8>>>, mpsc::Receiver<()>) {
        let (closed, learns) = mpsc::channel();
        let bytes = Arc::default();
        (Self { bytes: Arc::clone(&bytes), room, _closed: closed }, bytes, learns)
    }
}

/// A timeout that is far longer than any of these tests takes.
const SAFETY_NET: Duration = Duration::from_secs(60);

#[test]
fn a_full_disk_is_said_at_once_and_costs_counted_events_and_no_time() {
    const EVENTS: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let start = written(&[], 0).len();
    // An incomplete block is at the end: 24 bytes and 32 for each event.
    for room in [start + 100_000, start + 1] {
        let (disk, bytes, _) = Disk::new(room);
        let (warned, warning) = mpsc::channel();
        let writer = Writer::start(disk, &header()).unwrap();
        let warn = move |error: &TraceError| warned.send(error.to_string()).unwrap();
        let recorder = Recorder::to(writer, Path::new("a-disk"), warn).unwrap();
        let mut sink = recorder.sink();
        (0..EVENTS / 2).for_each(|at| sink.record([event(at)]));
        let said = warning.recv_timeout(SAFETY_NET).expect("the run goes on, and it is told");
        assert!(said.starts_with("cannot write a-disk: "), "{said}");
        (EVENTS / 2..EVENTS).for_each(|at| sink.record([event(at)]));
        let Err(TraceError::Incomplete { dropped, .. }) = recorder.finish() else {
            panic!("the disk was full");
        };
        assert!(warning.try_recv().is_err(), "it is told once");
        let trace = read(&folder, &bytes.lock().unwrap()).unwrap();
        assert_eq!(trace.events.len() as u64 + dropped, EVENTS);
        if room > start + 24 {
            assert_eq!((trace.dropped, trace.lost_bytes), (dropped, 0));
        } else {
            // Not even the number of dropped events fits.
            assert_eq!((trace.dropped, trace.events.len()), (0, 0));
        }
    }
}

#[test]
fn how_much_a_full_disk_lacks_is_written_while_the_run_goes_on() {
    let start = written(&[], 0).len();
    let (disk, bytes, _) = Disk::new(start + 10_000);
    let writer = Writer::start(disk, &header()).unwrap();
    let recorder = Recorder::to(writer, Path::new("a-disk"), |_| ()).unwrap();
    let mut sink = recorder.sink();
    (0..20_000).for_each(|at| sink.record([event(at)]));
    let folder = tempfile::tempdir().unwrap();
    // As a reader sees it after the process was killed.
    let seen = || read(&folder, &bytes.lock().unwrap()).unwrap();
    let is_written = || {
        let (_keep, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(Duration::from_millis(10));
        seen().events.len() as u64 + seen().dropped == 20_000
    };
    assert!((0..6_000).any(|_| is_written()), "{}", seen().dropped);
    drop(recorder);
}

#[test]
fn a_recorder_whose_thread_panics_writes_what_waits_and_ends() {
    let (disk, bytes, closed) = Disk::new(1 << 20);
    let writer = Writer::start(disk, &header()).unwrap();
    let panics = std::thread::spawn(move || {
        let recorder = Recorder::to(writer, Path::new("a-disk"), |_| ()).unwrap();
        recorder.sink().record((0..100).map(event));
        std::panic::resume_unwind(Box::new("as after a panic"));
    });
    assert!(panics.join().is_err());
    let ended = closed.recv_timeout(SAFETY_NET);
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "its own thread still runs");
    let folder = tempfile::tempdir().unwrap();
    let trace = read(&folder, &bytes.lock().unwrap()).unwrap();
    assert_eq!(trace.events.len(), 100);
}

#[test]
fn a_device_that_is_full_is_refused_at_the_start() {
    let error = Recorder::start(Path::new("/dev/full"), &header(), |_| ()).unwrap_err();
    assert!(error.to_string().contains("cannot write /dev/full"), "{error}");
}

#[test]
fn traces_of_earlier_runs_move_aside() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = |node| intendant_trace::prepare(&folder.path().join("traces"), node).unwrap();
    for run in [5, 6, 0x12ab, 6] {
        let path = prepared(3);
        assert!(!path.exists(), "it was moved");
        drop(Writer::create(&path, &Header { run, ..header() }).unwrap());
    }
    fs::write(prepared(4), "no trace").unwrap();
    prepared(3);
    prepared(4);
    let moved = |name: &str| folder.path().join("traces").join(name);
    for (name, run) in
        [("run-0000000000000005", 5), ("run-0000000000000006", 6), ("run-00000000000012ab", 0x12ab)]
    {
        assert_eq!(Trace::read(&moved(name).join("node-3.trace")).unwrap().header.run, run);
    }
    assert_eq!(fs::read(moved("run-unreadable/node-4.trace")).unwrap(), b"no trace");
    assert_eq!(fs::read_dir(moved("")).unwrap().count(), 4, "nothing else is left");
}

#[test]
fn a_slow_disk_costs_events_and_not_memory_or_time() {
    // A pipe that nothing reads: the writing thread blocks.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("coreutils").success());
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || fs::File::open(path).unwrap())
    };
    let recorder = Recorder::start(&path, &header(), |_| ()).unwrap();
    let mut pipe = reader.join().unwrap();
    let mut sink = recorder.sink();
    (0..1_000_000).for_each(|at| sink.record([event(at)]));
    let dropped = recorder.dropped();
    assert!(dropped > 500_000, "{dropped}");
    let rest = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    });
    recorder.finish().unwrap();
    let trace = read(&folder, &rest.join().unwrap().unwrap()).unwrap();
    assert_eq!((trace.events.len() as u64 + dropped, trace.dropped), (1_000_000, dropped));
}

#[test]
fn a_header_tells_the_layout() {
    let header = header();
    let layout = header.layout().unwrap();
    assert_eq!((layout.keys(), layout.channels(), layout.shards(), layout.seed()), (1000, 2, 4, 5));
    assert_eq!(header.clone().of_layout(&layout), header);
    for broken in [
        Header { nodes: 0, ..header.clone() },
        Header { key_order: "sideways".to_owned(), ..header.clone() },
        Header { channels: 0, ..header.clone() },
        Header { shards: 3, ..header.clone() },
    ] {
        assert!(broken.layout().is_err(), "{broken:?}");
    }
    assert!(Header::default().layout().is_err());
}

/// If this variable is set, the test below runs as the process that is killed.
const RECORDS_TO: &str = "INTENDANT_TEST_RECORDS_TO";

#[test]
fn a_file_is_readable_after_its_writer_was_killed() {
    if let Some(path) = std::env::var_os(RECORDS_TO) {
        let recorder = Recorder::start(Path::new(&path), &header(), |_| ()).unwrap();
        let mut sink = recorder.sink();
        for at in 0.. {
            sink.record([event(at)]);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node-3.trace");
    let test = "a_file_is_readable_after_its_writer_was_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(RECORDS_TO, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while fs::metadata(&path).map_or(0, |file| file.len()) < 1 << 20 {
        assert!(child.try_wait().unwrap().is_none(), "it records until it is killed");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let trace = Trace::read(&path).unwrap();
    assert!(trace.events.len() > 10_000);
    let mut before = None;
    for found in &trace.events {
        assert_eq!(*found, event(found.at.0));
        assert!(before.replace(found.at).is_none_or(|before| before < found.at));
    }
}

#[test]
fn filters_accept_what_they_name() {
    let accepted = |text: &str| {
        let filter: Filter = text.parse().unwrap();
        assert_eq!(filter.to_string().parse(), Ok(filter.clone()), "{text}");
        (0..1000).filter(|key| filter.accepts(Key(*key))).collect::<Vec<_>>()
    };
    assert_eq!(accepted("all").len(), 1000);
    assert_eq!(accepted("7"), [7]);
    assert_eq!(accepted("900..903,7, 5,6..8,901..905"), [5, 6, 7, 900, 901, 902, 903, 904]);
    let sample = accepted("sample:1/10");
    assert!((60..140).contains(&sample.len()), "{}", sample.len());
    assert_eq!(accepted("sample:1/10"), sample);
    assert_eq!(accepted("sample:1/1").len(), 1000);
    for text in
        ["", "7,", "a", "9..9", "9..7", "sample:", "sample:1/0", "sample:2/3", "18446744073709551615", "-1"]
    {
        let said = text.parse::<Filter>().unwrap_err().to_string();
        assert!(said.contains("names no keys; write all, "), "{said}");
    }
}
