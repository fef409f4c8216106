//! `cargo xtask figure`: runs the programs of a figure or table of the sources, prints our numbers beside the
//! source's, checks the figure's claims, and writes a page with pictures.
//!
//! A figure is a file in `bench-configs/`: the program and the flags of each run ([`config`]), the numbers of
//! the reports that are shown ([`metric`]), and the claims about them ([`claim`]). Simulated runs are
//! deterministic, so a claim that holds once always holds; absolute times are those of the model, not of this
//! machine. [`runs`] executes the runs of all figures, and [`page`] writes what they gave.

mod args;
mod claim;
mod config;
mod constant;
mod metric;
mod page;
mod picture;
mod runs;
mod table;
mod traced;

use crate::process::{self, cargo};
pub(crate) use args::Args;
use claim::JudgedClaim;
pub(crate) use claim::Outcome;
use config::{Figure, Scale};
pub(crate) use constant::{ScaledConstant, fields};
use metric::{Report, Reports};
use page::{Page, Tally};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// A figure with its name and the folder of its page.
struct Named {
    name: String,
    figure: Figure,
    folder: PathBuf,
}

/// Runs the figures. Returns an error if a run fails or a claim does not hold.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    if args.write && args.scale != Scale::Small {
        return Err("--write is for --scale small: docs/figures has the pages of this scale".to_owned());
    }
    let place = args.place();
    let figures = read(args, &place)?;
    if args.dry_run {
        plan(&figures, args)?.iter().for_each(|run| println!("{}", run.line()));
        return Ok(());
    }
    if !args.no_build {
        build(&figures, args.dev)?;
    }
    let (pages, mut problems) = judge(&figures, args)?;
    if args.name == "all" {
        page::index(&pages, args.scale.name(), &place)?;
        println!("Claims: {}. All figures: {}", tally(&pages).words(), place.join("index.html").display());
    }
    if args.write {
        keep(&pages, &place)?;
    }
    for page in &pages {
        let broken = page.claims.iter().filter(|claim| claim.broken());
        problems.extend(broken.map(|claim| format!("{}: does not hold: {}", page.name, claim.line())));
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("problems:\n  {}", problems.join("\n  "))) }
}

/// The text and the outcome of each claim that is judged. Returns an error if a run fails.
pub(crate) fn outcomes(args: &Args) -> Result<Vec<(String, Outcome)>, String> {
    let (pages, problems) = judge(&read(args, &args.place())?, args)?;
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let of_page = |page: &Page| {
        let claim = |claim: &JudgedClaim| Some((claim.text().to_owned(), claim.outcome()?));
        page.claims.iter().filter_map(claim).collect::<Vec<_>>()
    };
    Ok(pages.iter().flat_map(of_page).collect())
}

fn plan(figures: &[Named], args: &Args) -> Result<Vec<runs::Planned>, String> {
    let of_figure = |(at, named): (usize, &Named)| {
        runs::plan(at, &named.name, &named.figure, args, &named.folder.join("reports"))
    };
    let planned: Result<Vec<_>, String> = figures.iter().enumerate().map(of_figure).collect();
    Ok(planned?.into_iter().flatten().collect())
}

/// Executes the runs of figures, and judges those that are complete. Returns also what went wrong.
fn judge(figures: &[Named], args: &Args) -> Result<(Vec<Page>, Vec<String>), String> {
    let planned = plan(figures, args)?;
    for Named { folder, .. } in figures {
        let reports = folder.join("reports");
        std::fs::create_dir_all(&reports).map_err(|error| format!("{}: {error}", reports.display()))?;
    }
    let mut problems = Vec::new();
    let mut pages = Vec::new();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let planned = &planned;
        scope.spawn(move || runs::execute(planned, args.jobs(), &sender));
        let mut missing: Vec<usize> =
            (0..figures.len()).map(|at| planned.iter().filter(|run| run.figure == at).count()).collect();
        let mut reports: Vec<Option<Report>> = planned.iter().map(|_| None).collect();
        for (at, result) in receiver {
            let figure = planned[at].figure;
            missing[figure] -= 1;
            match result {
                Ok(report) => reports[at] = Some(report),
                Err(problem) => problems.push(problem),
            }
            if missing[figure] == 0 {
                match complete(figure, &figures[figure], planned, &mut reports, args) {
                    Ok(page) => pages.push((figure, page)),
                    Err(problem) => problems.push(format!("{}: {problem}", figures[figure].name)),
                }
            }
        }
    });
    pages.sort_by_key(|(figure, _)| *figure);
    Ok((pages.into_iter().map(|(_, page)| page).collect(), problems))
}

fn tally(pages: &[Page]) -> Tally {
    Tally::of(pages.iter().flat_map(|page| &page.claims))
}

/// Reads the files of the figures.
fn read(args: &Args, place: &Path) -> Result<Vec<Named>, String> {
    let folder = process::root().join("bench-configs");
    let names = if args.name == "all" { names(&folder)? } else { vec![args.name.clone()] };
    let mut figures = Vec::new();
    for name in names {
        let path = folder.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(|error| match names_line(&folder) {
            Ok(known) => format!("there is no figure {name} ({error}); there are: {known}"),
            Err(problem) => problem,
        })?;
        let figure = Figure::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some(unknown) = args.only.iter().find(|only| figure.runs.iter().all(|run| run.name != **only))
        {
            let known: Vec<&str> = figure.runs.iter().map(|run| run.name.as_str()).collect();
            return Err(format!("{name} has no run '{unknown}'; there are: {}", known.join(", ")));
        }
        figures.push(Named { folder: place.join(&name), name, figure });
    }
    Ok(figures)
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

/// Prints a figure whose runs are complete, judges it, and writes its page.
fn complete(
    at: usize,
    Named { name, figure, folder }: &Named,
    planned: &[runs::Planned],
    reports: &mut [Option<Report>],
    args: &Args,
) -> Result<Page, String> {
    let mut by_run: BTreeMap<String, Vec<Report>> = BTreeMap::new();
    for (run, report) in planned.iter().zip(reports).filter(|(run, _)| run.figure == at) {
        let report = report.take().ok_or("not judged, because a run failed")?;
        by_run.entry(run.run.clone()).or_default().push(report);
    }
    let reports = Reports { by_run, quality: figure.quality.clone(), scale: args.scale };
    if !args.quiet {
        println!("== {name}: {} ({})", figure.title, figure.source);
        println!("{}", table::render(figure, &reports));
        println!("  Numbers of the source are in brackets. Page: {}", folder.join("README.md").display());
        figure.notes.iter().for_each(|note| println!("  {note}"));
    }
    let judge = |claim| claim::judge(claim, &reports, args.scale);
    let claims = figure.claims.iter().map(judge).collect::<Result<Vec<_>, String>>()?;
    if !args.quiet {
        claims.iter().for_each(|claim| println!("{claim}"));
    }
    if claims.iter().all(|claim| !claim.judged()) && !claims.is_empty() && args.only.is_empty() {
        let nothing = format!("no claim is judged at scale {}", args.scale.name());
        // Full scale takes hours and is inspected by hand. At the smaller scales, a figure must be able to
        // fail.
        if args.scale != Scale::Full {
            return Err(nothing);
        }
        println!("  {nothing}");
    }
    page::write(name, figure, &reports, claims, &args.command(name, figure), folder)
}

/// Copies pages, their numbers and their pictures as SVG to `docs/figures`, and writes the index of all pages
/// there.
fn keep(pages: &[Page], place: &Path) -> Result<(), String> {
    let docs = process::root().join("docs/figures");
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let copy = |from: PathBuf, to: PathBuf| {
        std::fs::copy(&from, &to).map(|_| ()).map_err(|error| failed(&to, error))
    };
    for page in pages {
        let (from, to) = (place.join(&page.name), docs.join(&page.name));
        if to.exists() {
            std::fs::remove_dir_all(&to).map_err(|error| failed(&to, error))?;
        }
        std::fs::create_dir_all(&to).map_err(|error| failed(&to, error))?;
        let pictures = page.pictures().map(|file| format!("{file}.svg"));
        for file in ["README.md".to_owned(), "numbers.csv".to_owned()].into_iter().chain(pictures) {
            copy(from.join(&file), to.join(&file))?;
        }
    }
    let index = docs.join("README.md");
    std::fs::write(&index, page::list(&docs, Scale::Small.name())?).map_err(|error| failed(&index, error))
}

fn build(figures: &[Named], dev: bool) -> Result<(), String> {
    let mut apps: Vec<&str> = figures
        .iter()
        .flat_map(|Named { figure, .. }| {
            figure.runs.iter().map(|run| run.app.as_ref().unwrap_or(&figure.app).as_str())
        })
        .collect();
    apps.sort_unstable();
    apps.dedup();
    let packages = apps.iter().flat_map(|app| ["--package", app]);
    let profile = if dev { "dev" } else { "release" };
    process::run(cargo(&process::root()).args(["build", "--quiet", "--profile", profile]).args(packages))
}
