//! `cargo xtask sim`: runs seeds of random workloads on all cores, sums up what they reached, and prints the
//! command that replays the first failing seed.

use clap::Parser;
use intendant_checkers::workload::{self, Mode};
use intendant_checkers::{lapser, muster, restart, views};
use intendant_engine::Storage;
use intendant_lapser::Variant;
use intendant_sim::reach::{Marker, Reach};
use intendant_techniques::{Location, Order, Technique};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of seeds that a thread takes at a time.
const SEEDS_PER_GRAB: u64 = 16;

/// Options of the runs. Options that are not given are drawn from each seed.
#[derive(clap::Args, Clone)]
pub(crate) struct Args {
    /// Parameter management technique; or hub: nodes acquire and drop replicas at random, of keys that owners
    /// relocate at random; or lapser: nodes share items by one-sided reads and writes
    #[arg(long, default_value = "classic", value_parser = parse_technique)]
    technique: TechniqueArg,
    /// Let owners relocate keys at random, instead of the technique's initiator: owner
    #[arg(long, value_parser = parse_initiator)]
    initiator: Option<InitiatorArg>,
    /// Instead of random calls: training that makes checkpoints, loses nodes, and starts again from the
    /// newest checkpoint on other nodes. Everything is drawn from the seed
    #[arg(long, conflicts_with_all = [
        "technique", "initiator", "nodes", "ops", "caches", "location", "mode", "order", "storage", "staleness",
        "pace", "faults", "expect", "trace", "variant",
    ])]
    restarts: bool,
    /// Instead of random calls: training with copies that goes on when nodes are lost, join and leave. All
    /// but the technique is drawn from the seed
    #[arg(long, conflicts_with_all = [
        "restarts", "initiator", "nodes", "ops", "caches", "location", "mode", "order", "storage",
        "staleness", "pace", "faults", "expect", "trace", "variant",
    ])]
    views: bool,
    /// Instead of random calls: processes that look for the next view of a run, while nodes are lost and cut
    /// off and others join. Everything is drawn from the seed
    #[arg(long, conflicts_with_all = [
        "restarts", "views", "technique", "initiator", "nodes", "ops", "caches", "location", "mode", "order",
        "storage", "staleness", "pace", "faults", "expect", "trace", "variant",
    ])]
    muster: bool,
    /// Number of nodes; if not given, 3 to 5, or 2 to 9 with static replicas
    #[arg(long)]
    nodes: Option<usize>,
    /// Range of seeds, end excluded: A..B
    #[arg(long, value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Calls per seed, of all workers together
    #[arg(long, default_value_t = 200)]
    ops: u64,
    /// Whether nodes cache key locations (where keys do not move: start with mostly wrong ones): on or off
    #[arg(long, value_parser = parse_switch)]
    caches: Option<bool>,
    /// How nodes find keys, where they move on request: home, home-cached, request, broadcast-relocations or
    /// broadcast-operations
    #[arg(long, conflicts_with = "caches")]
    location: Option<Location>,
    /// Whether workers wait for each operation (sync) or not (async)
    #[arg(long, value_parser = parse_mode)]
    mode: Option<ModeArg>,
    /// Order of a worker's operations on a key: fifo or chain
    #[arg(long)]
    order: Option<Order>,
    /// Store: dense or sparse
    #[arg(long)]
    storage: Option<Storage>,
    /// Staleness bound in clocks, for techniques with one; slack of all gets with lapser
    #[arg(long)]
    staleness: Option<u32>,
    /// How values reach their consumers with lapser: push, push-by-slack or pull
    #[arg(long, value_parser = parse_variant)]
    variant: Option<Variant>,
    /// When static replicas are synchronised: at a pace (every), or when workers ask for it (asked)
    #[arg(long, value_parser = parse_pace)]
    pace: Option<PaceArg>,
    /// Whether to inject slow connections, slow nodes and partitions, or, with lapser, lost hints and nodes
    /// that die: on or off
    #[arg(long, value_parser = parse_switch)]
    faults: Option<bool>,
    /// Expected histories. With `inconsistent`, at least one seed must not be sequentially consistent, and
    /// all other checks must pass for all seeds
    #[arg(long, value_enum, default_value_t = Expect::Consistent)]
    expect: Expect,
    /// Print every event
    #[arg(long)]
    trace: bool,
}

/// The histories that a set of runs must have.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Expect {
    Consistent,
    Inconsistent,
}

/// The value of `--initiator`: whether owners relocate keys at random.
#[derive(Clone, Copy)]
struct InitiatorArg(bool);

/// The value of `--mode`: whether workers are asynchronous.
#[derive(Clone, Copy)]
struct ModeArg(bool);

/// The value of `--pace`: whether static replicas are synchronised only when workers ask for it.
#[derive(Clone, Copy)]
struct PaceArg(bool);

/// The value of `--technique`.
#[derive(Clone, Copy)]
enum TechniqueArg {
    By(Technique),
    Hub,
    Lapser,
}

/// A workload, with what all its runs have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// Random calls on a cluster of engines.
    Calls(Mode),
    /// Items that are shared by one-sided operations.
    Lapser(lapser::Mode),
    /// Training that crashes and starts again.
    Restarts,
    /// Training whose nodes change.
    Views(Technique),
    /// Processes that look for the next view of a run.
    Muster,
}

impl Workload {
    /// The options that fix it, on one line.
    fn name(&self) -> String {
        match self {
            Self::Calls(mode) => mode.to_string(),
            Self::Lapser(mode) => mode.to_string(),
            Self::Restarts => "--restarts".to_owned(),
            Self::Views(technique) => format!("--views --technique {technique}"),
            Self::Muster => "--muster".to_owned(),
        }
    }

    /// The markers that a set of runs must reach, each with the number of runs that suffices for it.
    fn expected(&self) -> Vec<(Marker, u64)> {
        match self {
            Self::Calls(mode) => mode.expected(),
            Self::Lapser(mode) => mode.expected(),
            Self::Restarts => restart::expected(),
            Self::Views(_) => views::expected(),
            Self::Muster => muster::expected(),
        }
    }
}

fn parse_technique(text: &str) -> Result<TechniqueArg, String> {
    match text {
        "hub" => Ok(TechniqueArg::Hub),
        "lapser" => Ok(TechniqueArg::Lapser),
        _ => text.parse().map(TechniqueArg::By).map_err(|error| format!("{error}, hub or lapser")),
    }
}

fn parse_variant(text: &str) -> Result<Variant, String> {
    let all = [Variant::Push, Variant::PushBySlack, Variant::Pull];
    let named = all.into_iter().find(|variant| lapser::name(*variant) == text);
    named.ok_or_else(|| format!("expected {}", all.map(lapser::name).join(", ")))
}

fn parse_pace(text: &str) -> Result<PaceArg, String> {
    match text {
        "every" => Ok(PaceArg(false)),
        "asked" => Ok(PaceArg(true)),
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

fn parse_mode(text: &str) -> Result<ModeArg, String> {
    match text {
        "sync" => Ok(ModeArg(false)),
        "async" => Ok(ModeArg(true)),
        _ => Err("expected sync or async".to_owned()),
    }
}

fn parse_initiator(text: &str) -> Result<InitiatorArg, String> {
    match text {
        "owner" => Ok(InitiatorArg(true)),
        _ => Err("expected owner".to_owned()),
    }
}

/// A parser of its own, so that other subcommands can build arguments from text.
#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

impl Args {
    /// The arguments for `options` and the seeds `0..seeds`.
    pub(crate) fn of(options: &[&str], seeds: u64) -> Result<Self, String> {
        let seeds = format!("0..{seeds}");
        let line = ["sim"].iter().chain(options).copied().chain(["--seeds", &seeds]);
        CommandLine::try_parse_from(line).map(|line| line.args).map_err(|error| error.to_string())
    }

    /// What the runs are of.
    ///
    /// # Errors
    /// If an option does not apply to it.
    fn workload(&self) -> Result<Workload, String> {
        let mode = match self.technique {
            _ if self.restarts => return Ok(Workload::Restarts),
            _ if self.muster => return Ok(Workload::Muster),
            TechniqueArg::By(technique) if self.views => return Ok(Workload::Views(technique)),
            TechniqueArg::Hub | TechniqueArg::Lapser if self.views => {
                return Err("--views needs the technique of a parameter server".to_owned());
            }
            TechniqueArg::Lapser => return self.lapser().map(Workload::Lapser),
            TechniqueArg::By(technique) => {
                Mode { by_owners: self.initiator.is_some_and(|by| by.0), ..Mode::new(technique) }
            }
            TechniqueArg::Hub => Mode::hub(),
        };
        if self.variant.is_some() {
            return Err("--variant applies to --technique lapser only".to_owned());
        }
        Ok(Workload::Calls(self.calls(mode)))
    }

    fn lapser(&self) -> Result<lapser::Mode, String> {
        let given = [
            ("--initiator", self.initiator.is_some()),
            ("--caches", self.caches.is_some()),
            ("--location", self.location.is_some()),
            ("--mode", self.mode.is_some()),
            ("--order", self.order.is_some()),
            ("--storage", self.storage.is_some()),
            ("--pace", self.pace.is_some()),
            ("--expect", self.expect == Expect::Inconsistent),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(format!("{option} has no effect with technique lapser"));
        }
        if self.nodes.is_some_and(|nodes| !(1..=64).contains(&nodes)) {
            return Err("--nodes must be 1 to 64 with technique lapser".to_owned());
        }
        Ok(lapser::Mode {
            variant: self.variant,
            nodes: self.nodes,
            calls: self.ops,
            slack: self.staleness.map(u64::from),
            faults: self.faults,
        })
    }

    fn calls(&self, mode: Mode) -> Mode {
        let (location, caches) = match self.location {
            Some(Location::Home { caches }) => (None, Some(caches)),
            location => (location, None),
        };
        Mode {
            nodes: self.nodes,
            calls: self.ops,
            asynchronous: self.mode.map(|mode| mode.0),
            order: self.order,
            storage: self.storage,
            caches: self.caches.or(caches),
            location,
            staleness: self.staleness,
            asked: self.pace.map(|pace| pace.0),
            faults: self.faults,
            ..mode
        }
    }
}

/// Totals over a set of runs.
#[derive(Default)]
struct Totals {
    runs: u64,
    calls: u64,
    events: u64,
    /// Sum of all hashes, which does not depend on the order of the runs.
    hash: u64,
    reach: Reach,
    /// Number of histories that are not sequentially consistent, and the first such seed with its finding.
    inconsistent: u64,
    example: Option<(u64, String)>,
    /// The first failing seed, with the name of the check and its finding.
    failure: Option<(u64, &'static str, String)>,
}

impl Totals {
    fn add(&mut self, calls: u64, events: u64, hash: u64, reach: &Reach) {
        self.runs += 1;
        self.calls += calls;
        self.events += events;
        self.hash = self.hash.wrapping_add(hash);
        self.reach.merge(reach);
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

/// Runs the seeds. Returns an error if a seed fails, or an expected marker is not reached.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let workload = args.workload()?;
    let name = workload.name();
    let (total, took) = crate::clock::timed(|| run_all(&workload, args));
    let seconds = took.as_secs_f64().max(Duration::from_micros(1).as_secs_f64());
    println!("{name} --seeds {}..{}", args.seeds.start, args.seeds.end);
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
            "seed {seed} violates '{check}'; replay it with\n  cargo xtask sim {name} --seeds {seed}..{}{}",
            seed + 1,
            if args.restarts || args.views || args.muster { "" } else { " --trace" }
        ));
    }
    if args.expect == Expect::Inconsistent {
        let Some((seed, what)) = &total.example else {
            println!("  caught by: expectation");
            return Err(format!(
                "all {} histories are sequentially consistent; expected at least one that is not",
                total.runs
            ));
        };
        println!(
            "  {} of {} histories are not sequentially consistent, as expected",
            total.inconsistent, total.runs
        );
        println!("  the first is seed {seed}: {what}");
    }
    let missed: Vec<_> = workload
        .expected()
        .into_iter()
        .filter(|(marker, runs)| total.runs >= *runs && total.reach.count(*marker) == 0)
        .map(|(marker, _)| marker.name())
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    println!("  caught by: reach");
    Err(format!("{} seeds never reached: {}; these runs do not test it", total.runs, missed.join(", ")))
}

fn run_all(workload: &Workload, args: &Args) -> Totals {
    let threads = if args.trace { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let (next, failed) = (AtomicU64::new(args.seeds.start), AtomicBool::new(false));
    let work = || {
        let mut total = Totals::default();
        // Relaxed: no other data depends on the counters. After a failure, threads finish their present seeds
        // and take no later ones. Seeds are taken in order, so the first failing seed is always found.
        while !failed.load(Ordering::Relaxed) {
            let start = next.fetch_add(SEEDS_PER_GRAB, Ordering::Relaxed);
            if start >= args.seeds.end {
                break;
            }
            for seed in start..(start + SEEDS_PER_GRAB).min(args.seeds.end) {
                if run_one(workload, seed, args, &mut total) {
                    failed.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        total
    };
    let mut total = Totals::default();
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

/// Runs a seed and returns whether it failed. A panic of an engine counts as a failure.
fn run_one(workload: &Workload, seed: u64, args: &Args, total: &mut Totals) -> bool {
    match workload {
        Workload::Calls(mode) => run_calls(mode, seed, args, total),
        Workload::Lapser(mode) => run_lapser(mode, seed, args.trace, total),
        Workload::Restarts => run_restarts(|| restart::run(seed), seed, total),
        Workload::Views(technique) => run_restarts(|| views::run(seed, *technique), seed, total),
        Workload::Muster => run_muster(seed, total),
    }
}

/// As [`run_one`], of random calls.
fn run_calls(mode: &Mode, seed: u64, args: &Args, total: &mut Totals) -> bool {
    match catch_unwind(AssertUnwindSafe(|| workload::run(mode, seed, args.trace))) {
        Ok(run) => {
            run.trace.iter().for_each(|line| println!("{line}"));
            total.add(run.calls, run.events, run.hash, &run.reach);
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
        Err(_) => panicked(seed, total),
    }
}

/// As [`run_one`], of items that are shared by one-sided operations.
fn run_lapser(mode: &lapser::Mode, seed: u64, trace: bool, total: &mut Totals) -> bool {
    let Ok(run) = catch_unwind(AssertUnwindSafe(|| lapser::run(mode, seed, trace))) else {
        return panicked(seed, total);
    };
    run.trace.iter().for_each(|line| println!("{line}"));
    total.add(run.calls, run.events, run.hash, &run.reach);
    match run.result {
        Ok(()) => false,
        Err(violation) => {
            total.fail(seed, violation.check, violation.to_string());
            true
        }
    }
}

/// As [`run_one`], of a training that crashes and starts again.
fn run_restarts(run: impl Fn() -> restart::Run, seed: u64, total: &mut Totals) -> bool {
    let Ok(run) = catch_unwind(AssertUnwindSafe(run)) else { return panicked(seed, total) };
    total.add(0, run.events, run.hash, &run.reach);
    match run.result {
        Ok(()) => false,
        Err(failure) => {
            total.fail(seed, failure.check(), failure.to_string());
            true
        }
    }
}

/// As [`run_one`], of processes that look for the next view.
fn run_muster(seed: u64, total: &mut Totals) -> bool {
    let Ok(run) = catch_unwind(|| muster::run(seed)) else { return panicked(seed, total) };
    total.add(0, run.events, run.hash, &run.reach);
    match run.result {
        Ok(()) => false,
        Err(failure) => {
            total.fail(seed, failure.check, failure.to_string());
            true
        }
    }
}

fn panicked(seed: u64, total: &mut Totals) -> bool {
    total.runs += 1;
    total.fail(seed, "panic", "an assertion failed; its message is above".to_owned());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed command of a failing seed must parse to the same mode.
    #[test]
    fn the_text_of_a_mode_parses_to_the_mode() {
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
        let located = Mode { location: Some(Location::Request), ..Mode::new(Technique::Lapse) };
        for mode in [drawn, fixed, other, hub, stale, asked, paced, located] {
            let text = mode.to_string();
            let options: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(
                Args::of(&options, 5).and_then(|args| Ok((args.workload()?, args.seeds))),
                Ok((Workload::Calls(mode), 0..5)),
                "{text}"
            );
        }
        let drawn = lapser::Mode::default();
        let fixed = lapser::Mode {
            variant: Some(Variant::PushBySlack),
            nodes: Some(3),
            calls: 17,
            slack: Some(4),
            faults: Some(false),
        };
        for mode in [drawn, fixed] {
            let text = mode.to_string();
            let options: Vec<&str> = text.split_whitespace().collect();
            let workload = Args::of(&options, 5).and_then(|args| args.workload());
            assert_eq!(workload, Ok(Workload::Lapser(mode)), "{text}");
        }
        assert!(Args::of(&["--initiator", "home"], 1).is_err());
        let other =
            Args::of(&["--technique", "lapser", "--order", "fifo"], 1).and_then(|args| args.workload());
        assert_eq!(other, Err("--order has no effect with technique lapser".to_owned()));
        let other =
            Args::of(&["--technique", "lapse", "--variant", "pull"], 1).and_then(|args| args.workload());
        assert_eq!(other, Err("--variant applies to --technique lapser only".to_owned()));
    }
}
