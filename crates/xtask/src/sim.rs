//! `cargo xtask sim`: seeds of random workloads, on all cores.

use clap::Parser;
use intendant_checkers::workload::{self, Mode, Run};
use intendant_engine::Storage;
use intendant_sim::reach::Reach;
use intendant_techniques::{Order, Technique};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Seeds that a thread takes at a time.
const SEEDS_PER_GRAB: u64 = 16;

/// What to run. What is not given is drawn from each seed.
#[derive(clap::Args, Clone)]
pub(crate) struct Args {
    /// Parameter management technique, or hub: replicas through the owner that come and go at random, of keys
    /// that owners move at random
    #[arg(long, default_value = "classic", value_parser = parse_technique)]
    technique: Managed,
    /// Who moves keys, instead of whom the technique lets move them: owner
    #[arg(long, value_parser = parse_initiator)]
    initiator: Option<ByOwners>,
    /// Number of nodes; 3 to 5 if not given
    #[arg(long)]
    nodes: Option<usize>,
    /// Seeds, end excluded: A..B
    #[arg(long, value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Calls of all workers together, per seed
    #[arg(long, default_value_t = 200)]
    ops: u64,
    /// Whether nodes remember where keys were (where keys do not move: start with wrong ideas of it): on or
    /// off
    #[arg(long, value_parser = parse_switch)]
    caches: Option<bool>,
    /// Whether workers wait for each operation: sync or async
    #[arg(long, value_parser = parse_mode)]
    mode: Option<Asynchronous>,
    /// Order of a worker's operations on a key: fifo or chain
    #[arg(long)]
    order: Option<Order>,
    /// Store: dense or sparse
    #[arg(long, value_parser = parse_storage)]
    storage: Option<Storage>,
    /// Staleness bound in clocks, where there is one
    #[arg(long)]
    staleness: Option<u32>,
    /// When static replicas are brought in step: every so often, or when workers ask for it
    #[arg(long, value_parser = parse_pace)]
    pace: Option<Asked>,
    /// Whether connections and machines are slow and parted at times: on or off
    #[arg(long, value_parser = parse_switch)]
    faults: Option<bool>,
    /// What the histories of the seeds are to be. With `inconsistent`, at least one must not be sequentially
    /// consistent, and everything else must hold for all of them
    #[arg(long, value_enum, default_value_t = Expect::Consistent)]
    expect: Expect,
    /// Print what happens, event by event
    #[arg(long)]
    trace: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Expect {
    Consistent,
    Inconsistent,
}

/// Not a `bool`: the command line library would take that for a flag.
#[derive(Clone, Copy)]
struct ByOwners(bool);

/// Not a `bool`, for the same reason.
#[derive(Clone, Copy)]
struct Asynchronous(bool);

/// Not a `bool`, for the same reason.
#[derive(Clone, Copy)]
struct Asked(bool);

/// What manages keys.
#[derive(Clone, Copy)]
enum Managed {
    By(Technique),
    Hub,
}

fn parse_technique(text: &str) -> Result<Managed, String> {
    match text {
        "hub" => Ok(Managed::Hub),
        _ => text.parse().map(Managed::By).map_err(|error| format!("{error}, or hub")),
    }
}

fn parse_pace(text: &str) -> Result<Asked, String> {
    match text {
        "every" => Ok(Asked(false)),
        "asked" => Ok(Asked(true)),
        _ => Err("expected every or asked".to_owned()),
    }
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let parts = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parts.filter(|range: &Range<u64>| !range.is_empty()).ok_or_else(|| "expected A..B with A < B".to_owned())
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

fn parse_mode(text: &str) -> Result<Asynchronous, String> {
    match text {
        "sync" => Ok(Asynchronous(false)),
        "async" => Ok(Asynchronous(true)),
        _ => Err("expected sync or async".to_owned()),
    }
}

fn parse_initiator(text: &str) -> Result<ByOwners, String> {
    match text {
        "owner" => Ok(ByOwners(true)),
        _ => Err("expected owner".to_owned()),
    }
}

fn parse_storage(text: &str) -> Result<Storage, String> {
    match text {
        "dense" => Ok(Storage::Dense),
        "sparse" => Ok(Storage::Sparse),
        _ => Err("expected dense or sparse".to_owned()),
    }
}

/// A command of its own, so that the other subcommands can build arguments from text.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

impl Args {
    /// The arguments that `options` and the first `seeds` seeds stand for.
    pub(crate) fn of(options: &[&str], seeds: u64) -> Result<Self, String> {
        let seeds = format!("0..{seeds}");
        let line = ["sim"].iter().chain(options).copied().chain(["--seeds", &seeds]);
        Line::try_parse_from(line).map(|line| line.args).map_err(|error| error.to_string())
    }

    fn mode(&self) -> Mode {
        let mode = match self.technique {
            Managed::By(technique) => {
                Mode { by_owners: self.initiator.is_some_and(|by| by.0), ..Mode::new(technique) }
            }
            Managed::Hub => Mode::hub(),
        };
        Mode {
            nodes: self.nodes,
            calls: self.ops,
            asynchronous: self.mode.map(|mode| mode.0),
            order: self.order,
            storage: self.storage,
            caches: self.caches,
            staleness: self.staleness,
            asked: self.pace.map(|pace| pace.0),
            faults: self.faults,
            ..mode
        }
    }
}

/// What a set of runs amounts to.
#[derive(Default)]
struct Total {
    runs: u64,
    calls: u64,
    events: u64,
    /// Sum of all hashes: the same set of seeds has the same sum, in whichever order they ran.
    hash: u64,
    reach: Reach,
    /// Histories that are not sequentially consistent, and the first seed of them with what was found.
    inconsistent: u64,
    example: Option<(u64, String)>,
    /// The first failing seed, with what found it and what it found.
    failure: Option<(u64, &'static str, String)>,
}

impl Total {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.calls += run.calls;
        self.events += run.events;
        self.hash = self.hash.wrapping_add(run.hash);
        self.reach.merge(&run.reach);
    }

    fn fail(&mut self, seed: u64, check: &'static str, what: String) {
        if self.failure.as_ref().is_none_or(|(first, ..)| seed < *first) {
            self.failure = Some((seed, check, what));
        }
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.calls += other.calls;
        self.events += other.events;
        self.hash = self.hash.wrapping_add(other.hash);
        self.reach.merge(&other.reach);
        self.inconsistent += other.inconsistent;
        let first = |example: &(u64, String)| example.0;
        self.example = [self.example.take(), other.example].into_iter().flatten().min_by_key(first);
        if let Some((seed, check, what)) = other.failure {
            self.fail(seed, check, what);
        }
    }
}

/// Runs the seeds; an error if one of them fails, or they do not reach what they should.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mode = args.mode();
    let (total, took) = crate::clock::timed(|| run_all(&mode, args));
    let seconds = took.as_secs_f64().max(Duration::from_micros(1).as_secs_f64());
    println!("{mode} --seeds {}..{}", args.seeds.start, args.seeds.end);
    println!(
        "  {} seeds in {seconds:.1} s: {:.0} seeds/s, {:.0} calls/s, {:.0} events/s, hash {:016x}",
        total.runs,
        total.runs as f64 / seconds,
        total.calls as f64 / seconds,
        total.events as f64 / seconds,
        total.hash,
    );
    println!("  reached: {}", total.reach);
    if let Some((seed, check, what)) = total.failure {
        println!("  caught by: {check}");
        println!("  seed {seed}: {what}");
        return Err(format!(
            "seed {seed} violates '{check}'; replay it with\n  cargo xtask sim {mode} --seeds {seed}..{} --trace",
            seed + 1
        ));
    }
    if args.expect == Expect::Inconsistent {
        let Some((seed, what)) = &total.example else {
            println!("  caught by: expectation");
            return Err(format!(
                "all {} histories are sequentially consistent, which they should not be",
                total.runs
            ));
        };
        println!(
            "  {} of {} histories are not sequentially consistent, as expected",
            total.inconsistent, total.runs
        );
        println!("  the first is that of seed {seed}: {what}");
    }
    let missed: Vec<_> = mode
        .expected()
        .into_iter()
        .filter(|(marker, runs)| total.runs >= *runs && total.reach.count(*marker) == 0)
        .map(|(marker, _)| marker.name())
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    println!("  caught by: reach");
    Err(format!(
        "{} seeds never reached: {}; such runs prove nothing about it",
        total.runs,
        missed.join(", ")
    ))
}

fn run_all(mode: &Mode, args: &Args) -> Total {
    let threads = if args.trace { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let (next, failed) = (AtomicU64::new(args.seeds.start), AtomicBool::new(false));
    let work = || {
        let mut total = Total::default();
        // Relaxed: the counters order nothing but themselves. After a failure seeds in progress are finished,
        // later ones are left out; since seeds are taken in order, the first failure is found in any case.
        while !failed.load(Ordering::Relaxed) {
            let start = next.fetch_add(SEEDS_PER_GRAB, Ordering::Relaxed);
            if start >= args.seeds.end {
                break;
            }
            for seed in start..(start + SEEDS_PER_GRAB).min(args.seeds.end) {
                if run_one(mode, seed, args, &mut total) {
                    failed.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        total
    };
    let mut total = Total::default();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for handle in handles {
            match handle.join() {
                Ok(part) => total.merge(part),
                Err(_) => {
                    total.fail(args.seeds.start, "panic", "a thread of the simulator panicked".to_owned())
                }
            }
        }
    });
    total
}

/// Returns whether the seed failed. An assertion of an engine is a failure like any other.
fn run_one(mode: &Mode, seed: u64, args: &Args, total: &mut Total) -> bool {
    match catch_unwind(AssertUnwindSafe(|| workload::run(mode, seed, args.trace))) {
        Ok(run) => {
            run.trace.iter().for_each(|line| println!("{line}"));
            total.add(&run);
            match run.result {
                Ok(_) => false,
                Err(failure) if args.expect == Expect::Inconsistent && failure.is_of_order() => {
                    total.inconsistent += 1;
                    total.example.get_or_insert((seed, failure.to_string()));
                    false
                }
                Err(failure) => {
                    total.fail(seed, failure.check(), failure.to_string());
                    true
                }
            }
        }
        Err(_) => {
            total.runs += 1;
            total.fail(seed, "panic", "an assertion failed; its message is above".to_owned());
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a failing seed prints replays it.
    #[test]
    fn a_mode_is_what_its_text_says() {
        let drawn = Mode::new(Technique::Lapse);
        let fixed = Mode {
            by_owners: true,
            nodes: Some(7),
            calls: 9,
            asynchronous: Some(true),
            order: Some(Order::Chain),
            storage: Some(Storage::Sparse),
            caches: Some(false),
            faults: Some(true),
            ..drawn
        };
        let other = Mode {
            asynchronous: Some(false),
            order: Some(Order::Fifo),
            storage: Some(Storage::Dense),
            caches: Some(true),
            faults: Some(false),
            ..Mode::new(Technique::Classic)
        };
        let hub = Mode { storage: Some(Storage::Dense), ..Mode::hub() };
        let stale = Mode { staleness: Some(3), ..Mode::new(Technique::Essp) };
        let asked = Mode { asked: Some(true), ..Mode::new(Technique::FullReplication) };
        let paced = Mode { asked: Some(false), ..Mode::new(Technique::Nups) };
        for mode in [drawn, fixed, other, hub, stale, asked, paced] {
            let text = mode.to_string();
            let options: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(
                Args::of(&options, 5).map(|args| (args.mode(), args.seeds)),
                Ok((mode, 0..5)),
                "{text}"
            );
        }
        assert!(Args::of(&["--initiator", "home"], 1).is_err());
    }
}
