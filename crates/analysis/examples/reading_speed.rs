//! Measures this crate on a run of many events:
//! `cargo run --release -p intendant-analysis --example reading_speed [EVENTS]`. It generates the run: 8
//! nodes and a million keys, few of which are hot.

use intendant_analysis::{Allocation, By, Limits, Run, Summary, Window};
use intendant_core::{ChannelId, Key, Layout, NodeId, Tick, random};
use intendant_trace::{Access, Cause, Event, Filter, Header, What, Writer};
use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const NODES: u16 = 8;
const KEYS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let events: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |count| count.parse())?;
    let folder = tempfile::tempdir()?;
    timed("write the files of all nodes", || make(folder.path(), events))?;
    let limits = Limits { events_max: 2 * events };
    let run = Arc::new(timed("read them, align clocks, sort", || Run::open(folder.path(), limits))?);
    say("events", &run.len().to_string());
    memory("most memory so far", "VmHWM")?;
    let merged = folder.path().join("run.parquet");
    timed("write the merged file", || run.write_parquet(&merged))?;
    say("its size", &format!("{:.1} MB", fs::metadata(&merged)?.len() as f64 / 1e6));
    let allocation = timed("where keys were", || Allocation::of(&run, &Filter::All));
    memory("memory of both", "VmRSS")?;
    timed("summary", || black_box(Summary::of(&allocation, 20)));
    let (from, to) = run.span_us();
    let window = Window::new(from, to, 1200);
    let keys = allocation.keys().spread(400);
    timed("400 rows of 1200 pixels", || black_box(allocation.rows(&keys, window)));
    let all = allocation.keys().spread(100_000);
    timed("owners and replicas of 100,000 keys at a moment", || {
        black_box(allocation.moment(&all, from + (to - from) / 2))
    });
    let top = timed("the 20 keys that moved most often", || allocation.top(By::Relocations, 20));
    let hottest = top.first().map_or(0, |counts| counts.key);
    let count = allocation.events_of(hottest).count();
    timed(&format!("history of a key with {count} events, 1000 items"), || {
        black_box(allocation.history(hottest, 1000))
    });
    timed("its rows", || black_box(allocation.node_rows(hottest, window)));
    let hot: Vec<u64> = top.iter().map(|counts| counts.key).collect();
    timed("affinity of 20 keys", || black_box(allocation.affinity(&hot)));
    timed("the 100 longest waits", || black_box(allocation.longest_waits(100)));
    drop((allocation, run));
    timed("read the merged file", || Run::open(&merged, limits))?;
    Ok(())
}

/// Prints a number of the kernel about the memory of this process.
fn memory(what: &str, line: &str) -> Result<(), Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    say(what, found.unwrap_or("not known").trim());
    Ok(())
}

/// Runs `act` and prints how long it took.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = act();
    say(what, &format!("{:.1} ms", start.elapsed().as_secs_f64() * 1e3));
    result
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn say(what: &str, result: &str) {
    println!("{what:<50} {result:>12}");
}

/// Writes the files of a run: keys move between nodes, and are accessed.
fn make(folder: &Path, events: u64) -> Result<(), Box<dyn Error>> {
    let layout = Layout::builder().range("entity", KEYS, 64).nodes(NODES.into()).build()?;
    let mut owners: Vec<u16> = (0..KEYS).map(|key| layout.home(Key(key)).0).collect();
    let mut writers = Vec::new();
    for node in 0..NODES {
        let file = File::create(folder.join(format!("node-{node}.trace")))?;
        let header = Header { node, filter: "all".to_owned(), epoch_us: 1, ..Header::default() };
        writers.push((Writer::start(file, &header.of_layout(&layout))?, Vec::new()));
    }
    let mut add = |at, node: u16, key, what| -> std::io::Result<()> {
        let (writer, waiting) = &mut writers[usize::from(node)];
        waiting.push(Event { at: Tick(at), channel: ChannelId(0), key, what });
        if waiting.len() == 1 << 12 {
            writer.write(waiting, 0)?;
            waiting.clear();
        }
        Ok(())
    };
    let mut count = 0;
    let mut at = 1000;
    while count < events {
        let word = random::stream(7, &[count]);
        at += word % 20;
        // A fourth power: few keys are hot.
        let key = (random::unit(random::mix(word)).powi(4) * KEYS as f64) as u64;
        let (from, to) = (owners[key as usize], (word >> 32) as u16 % NODES);
        if from == to {
            add(
                at,
                (to + 1) % NODES,
                Some(Key(key)),
                What::Remote { access: Access::Pull, by: NodeId(to), after: word % 1000 },
            )?;
            count += 1;
            continue;
        }
        let k = Some(Key(key));
        add(at, to, k, What::IntentBegan)?;
        add(at + 3, from, k, What::Left { to: NodeId(to), cause: Cause::Began(NodeId(to)) })?;
        add(at + 5, to, k, What::Arrived { from: NodeId(from), after: 0 })?;
        add(at + 8, to, k, What::IntentEnded)?;
        owners[key as usize] = to;
        (count, at) = (count + 4, at + 8);
        if count % 100_000 < 4 {
            for node in 0..NODES {
                add(at, node, None, What::Came { meeting: count / 100_000 })?;
                add(at + 10, node, None, What::WentOn { meeting: count / 100_000 })?;
            }
            at += 10;
        }
    }
    for (mut writer, waiting) in writers {
        writer.write(&waiting, 0)?;
    }
    Ok(())
}
