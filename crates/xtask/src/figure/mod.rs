//! `cargo xtask figure`: runs the programs of a figure or table of the sources, prints our numbers beside the
//! source's, and checks the figure's claims.
//!
//! A figure is a file in `bench-configs/`: the program and the flags of each run ([`config`]), the numbers of
//! the reports that are shown ([`metric`]), and the claims about them ([`claim`]). Simulated runs are
//! deterministic, so a claim that holds once always holds; absolute times are those of the model, not of this
//! machine.

mod claim;
mod config;
mod metric;
mod table;

use crate::clock;
use crate::process::{self, cargo};
use config::{Figure, Scale};
use metric::{Report, Reports};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reproduce a figure or table of the sources.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of a file in bench-configs, without its ending, or all
    name: String,
    /// Amount of work: ci (seconds), small (minutes) or full (up to hours)
    #[arg(long, default_value = "small")]
    scale: Scale,
    /// Number of runs at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Only these runs; claims that need other runs are skipped
    #[arg(long, value_name = "RUN")]
    only: Vec<String>,
    /// Do not build the programs
    #[arg(long)]
    no_build: bool,
    /// Use programs of the dev profile, which build faster and run slower
    #[arg(long)]
    dev: bool,
    /// Print the commands without running them
    #[arg(long)]
    dry_run: bool,
}

impl Args {
    /// All figures at scale ci, with programs of the dev profile.
    pub(crate) fn ci() -> Self {
        let name = "all".to_owned();
        Self { name, scale: Scale::Ci, jobs: 2, only: Vec::new(), no_build: false, dev: true, dry_run: false }
    }
}

/// Runs the figures. Returns an error if a claim does not hold.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let folder = process::root().join("bench-configs");
    let names = if args.name == "all" { names(&folder)? } else { vec![args.name.clone()] };
    let mut broken = Vec::new();
    for name in &names {
        let path = folder.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(|error| match names_line(&folder) {
            Ok(known) => format!("there is no figure {name} ({error}); there are: {known}"),
            Err(problem) => problem,
        })?;
        let figure = Figure::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        broken.extend(one(name, &figure, args)?.into_iter().map(|claim| format!("{name}: {claim}")));
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(format!("these claims do not hold:\n  {}", broken.join("\n  ")))
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = listed
        .filter_map(|entry| {
            entry.ok()?.file_name().into_string().ok()?.strip_suffix(".toml").map(str::to_owned)
        })
        .collect();
    names.sort();
    Ok(names)
}

fn names_line(folder: &Path) -> Result<String, String> {
    names(folder).map(|names| names.join(", "))
}

/// Runs a figure, prints it, and returns the claims that do not hold.
fn one(name: &str, figure: &Figure, args: &Args) -> Result<Vec<String>, String> {
    if let Some(unknown) = args.only.iter().find(|only| figure.runs.iter().all(|run| run.name != **only)) {
        let known: Vec<&str> = figure.runs.iter().map(|run| run.name.as_str()).collect();
        return Err(format!("{name} has no run '{unknown}'; there are: {}", known.join(", ")));
    }
    let wanted =
        |run: &&config::Run| run.is_at(args.scale) && (args.only.is_empty() || args.only.contains(&run.name));
    let runs: Vec<&config::Run> = figure.runs.iter().filter(wanted).collect();
    let place = process::root().join("target/figures").join(name).join(args.scale.name());
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let commands: Vec<PlannedRun<'_>> = runs.iter().map(|run| plan(figure, run, args, &place)).collect();
    println!("== {name}: {} ({})", figure.title, figure.source);
    if args.dry_run {
        commands.iter().for_each(|planned| println!("{}", planned.line()));
        return Ok(Vec::new());
    }
    if !args.no_build {
        build(figure, args.dev)?;
    }
    let by_run = run_all(&commands, usize::from(args.jobs))?;
    let reports = Reports { by_run, quality: figure.quality.clone(), scale: args.scale };
    println!("{}", table::render(figure, &reports));
    println!("  Numbers of the source are in brackets. Reports: {}", place.display());
    figure.notes.iter().for_each(|note| println!("  {note}"));
    let mut judged = 0;
    let mut broken = Vec::new();
    for claim in &figure.claims {
        let judged_claim = claim::judge(claim, &reports, args.scale)?;
        println!("{judged_claim}");
        judged += usize::from(judged_claim.judged());
        if judged_claim.broken() {
            broken.push(claim.text.clone());
        }
    }
    if judged == 0 && !figure.claims.is_empty() && args.only.is_empty() {
        let nothing = format!("{name}: no claim is judged at scale {}", args.scale.name());
        // Full scale takes hours and is inspected by hand. At the smaller scales, a figure must be able to
        // fail.
        if args.scale != Scale::Full {
            return Err(nothing);
        }
        println!("  {nothing}");
    }
    Ok(broken)
}

/// A run with its complete command.
struct PlannedRun<'a> {
    run: &'a config::Run,
    program: PathBuf,
    args: Vec<String>,
    report: PathBuf,
}

impl PlannedRun<'_> {
    fn line(&self) -> String {
        format!("{} {}", self.program.display(), self.args.join(" "))
    }
}

fn plan<'a>(figure: &'a Figure, run: &'a config::Run, args: &Args, place: &Path) -> PlannedRun<'a> {
    let app = run.app.as_ref().unwrap_or(&figure.app);
    let report = place.join(format!("{}.json", run.name.replace([' ', '/'], "-")));
    let scaled = |all: &'a BTreeMap<config::Scale, Vec<String>>| {
        all.get(&args.scale).map(Vec::as_slice).unwrap_or_default()
    };
    let mut flags: Vec<String> =
        [&figure.args[..], scaled(&figure.scales), &run.args, scaled(&run.args_at)].concat();
    flags.extend(["--no-progress".to_owned(), "--report".to_owned(), report.display().to_string()]);
    PlannedRun { run, program: process::program(app, !args.dev), args: flags, report }
}

fn build(figure: &Figure, dev: bool) -> Result<(), String> {
    let mut apps: Vec<&str> =
        figure.runs.iter().map(|run| run.app.as_ref().unwrap_or(&figure.app).as_str()).collect();
    apps.sort_unstable();
    apps.dedup();
    let packages = apps.iter().flat_map(|app| ["--package", app]);
    let profile = if dev { "dev" } else { "release" };
    process::run(cargo(&process::root()).args(["build", "--quiet", "--profile", profile]).args(packages))
}

/// Runs all commands, `jobs` at a time, and reads their reports.
fn run_all(commands: &[PlannedRun<'_>], jobs: usize) -> Result<BTreeMap<String, Report>, String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        // Relaxed: no other data depends on the counter.
        while let Some(planned) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (result, took) = clock::timed(|| execute(planned));
            println!("  {:<24} {:>7.1} s", planned.run.name, took.as_secs_f64());
            if let Ok(mut results) = results.lock() {
                results.insert(planned.run.name.clone(), result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, commands.len().max(1)) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().map_err(|_| "a thread that ran programs panicked".to_owned())?;
    results.into_iter().map(|(name, result)| Ok((name, result?))).collect()
}

fn execute(planned: &PlannedRun<'_>) -> Result<Report, String> {
    // A report of an earlier run must not be read as this run's.
    let _ = std::fs::remove_file(&planned.report);
    process::text(Command::new(&planned.program).args(&planned.args))?;
    let text = std::fs::read_to_string(&planned.report)
        .map_err(|error| format!("{}: {error}", planned.report.display()))?;
    Report::parse(&text).map_err(|error| format!("{}: {error}", planned.report.display()))
}
