//! `cargo xtask plant`: shows that the checks of the simulator find known bugs.
//!
//! Each bug of `bugs/` is planted in a scratch copy of the workspace, and the copy's simulator must find it
//! with one of the checks that the description names. Before that, the unmodified copy must pass all runs
//! (control). Bugs that make a technique worse and leave it correct are found by figures: at scale ci, those
//! that the description names must have claims that do not hold, or a baseline that does not learn.
//!
//! Other tests cover bugs that no simulated run can show: reactions to peers that violate the protocol
//! (`crates/engine/tests/it/hostile.rs`), and races of two threads within a step
//! (`crates/store/tests/loom.rs`).

use crate::bug::{self, Bug, Sources};
use crate::process::{self, cargo};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask plant`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of files in crates/xtask/bugs, without .bug; or all
    #[arg(default_value = "all")]
    names: Vec<String>,
    /// Only check that all bugs fit the sources; plant none
    #[arg(long)]
    check: bool,
}

impl Args {
    /// Plants all bugs.
    pub(crate) fn all() -> Self {
        Self { names: vec!["all".to_owned()], check: false }
    }

    /// Only checks that all bugs fit the sources.
    pub(crate) fn check() -> Self {
        Self { check: true, ..Self::all() }
    }
}

/// The scratch copy of the workspace, and its build folder.
struct Scratch {
    tree: PathBuf,
    build: PathBuf,
}

/// Plants bugs. Returns an error if one is not caught as described.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let root = process::root();
    let mut bugs = bug::read_all(&root.join("crates/xtask/bugs"))?;
    if args.names != ["all"] {
        if let Some(unknown) = args.names.iter().find(|name| bugs.iter().all(|bug| bug.name != **name)) {
            let known: Vec<_> = bugs.iter().map(|bug| bug.name.as_str()).collect();
            return Err(format!("there is no bug '{unknown}'; there are: {}", known.join(", ")));
        }
        bugs.retain(|bug| args.names.contains(&bug.name));
    }
    if args.check {
        return check(&root, &bugs);
    }
    let scratch = copy(&root)?;
    scratch.build()?;
    control(&scratch, &bugs)?;
    let figures: BTreeSet<&str> = bugs.iter().flat_map(|bug| &bug.figures).map(String::as_str).collect();
    for figure in figures {
        if !scratch.holds(figure)? {
            return Err(format!("without any bug, figure {figure} does not hold"));
        }
    }
    let mut missed = Vec::new();
    for bug in &bugs {
        println!("{}: {}", bug.name, bug.about.trim());
        match plant(&scratch, bug) {
            Ok(found) => found.iter().for_each(|line| println!("  {line}")),
            Err(what) => {
                println!("  {what}");
                missed.push(bug.name.as_str());
            }
        }
    }
    if missed.is_empty() {
        println!("control passed, {} of {} as expected", bugs.len(), bugs.len());
        return Ok(());
    }
    Err(format!("not as expected: {}", missed.join(", ")))
}

/// Returns an error that names every bug that does not fit the sources.
fn check(root: &Path, bugs: &[Bug]) -> Result<(), String> {
    let mut sources = Sources::new(root);
    let unfit = |bug: &Bug| bug.apply(&mut sources).err().map(|what| format!("{}: {what}", bug.name));
    let unfit: Vec<String> = bugs.iter().filter_map(unfit).collect();
    if unfit.is_empty() {
        println!("{} bugs fit the sources", bugs.len());
        return Ok(());
    }
    Err(format!("{} of {} bugs do not fit the sources:\n{}", unfit.len(), bugs.len(), unfit.join("\n")))
}

/// Copies all files that git tracks or would add. Unchanged files keep their time stamps, so that builds are
/// incremental.
fn copy(root: &Path) -> Result<Scratch, String> {
    let target = root.join("target").join("plant");
    let scratch = Scratch { tree: target.join("tree"), build: target.join("build") };
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::text(&mut git)?;
    let is_there =
        |file: &&str| !file.is_empty() && (root.join(file).is_file() || root.join(file).is_symlink());
    let wanted: Vec<&str> = listed.split('\0').filter(is_there).collect();
    // First: a file must not be written behind a link of an earlier copy.
    let made = fs::create_dir_all(&scratch.tree);
    made.map_err(|error| format!("cannot create {}: {error}", scratch.tree.display()))?;
    remove_others(&scratch.tree, &scratch.tree, &wanted)?;
    for file in &wanted {
        if root.join(file).is_symlink() {
            scratch.link(file, root)?;
            continue;
        }
        let content = fs::read(root.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        scratch.write(file, &content)?;
    }
    Ok(scratch)
}

/// Removes files and folders of an earlier copy that no longer exist: an empty folder may look like a
/// package.
fn remove_others(tree: &Path, directory: &Path, wanted: &[&str]) -> Result<(), String> {
    let failed = |error| format!("cannot clean {}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // Links to folders are removed like files; the files behind them are copied on their own.
        if path.is_dir() && !path.is_symlink() {
            remove_others(tree, &path, wanted)?;
            if fs::read_dir(&path).map_err(failed)?.next().is_none() {
                fs::remove_dir(&path).map_err(failed)?;
            }
        } else if path.strip_prefix(tree).is_ok_and(|file| !wanted.iter().any(|w| Path::new(w) == file))
            // Cargo maintains the lock file of the copy.
            && !path.ends_with("Cargo.lock")
        {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

impl Scratch {
    fn write(&self, file: impl AsRef<Path>, content: &[u8]) -> Result<(), String> {
        let path = self.tree.join(file);
        if fs::read(&path).is_ok_and(|old| old == content) {
            return Ok(());
        }
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, content)
        };
        write().map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Creates the same symbolic link as in `root`; the packages of `models` share the engine's sources by
    /// links.
    fn link(&self, file: &str, root: &Path) -> Result<(), String> {
        let path = self.tree.join(file);
        let target =
            fs::read_link(root.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        if fs::read_link(&path).is_ok_and(|old| old == target) {
            return Ok(());
        }
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            std::os::unix::fs::symlink(&target, &path)
        };
        write().map_err(|error| format!("cannot link {}: {error}", path.display()))
    }

    fn build(&self) -> Result<(), String> {
        let mut command = cargo(&self.tree);
        command.args(["build", "--quiet", "--offline", "--package", "xtask"]);
        process::text(self.settings(&mut command)).map(drop)
    }

    /// How the copy is built.
    fn settings<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("CARGO_TARGET_DIR", &self.build)
            // Every bug compiles the engine and what is above it anew, which takes longer than most of its
            // seeds.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            // A planted bug may cause warnings, such as unused variables.
            .env("RUSTFLAGS", "--cap-lints=allow")
    }

    fn program(&self) -> Command {
        let name = format!("xtask{}", std::env::consts::EXE_SUFFIX);
        let mut command = Command::new(self.build.join("debug").join(name));
        command.current_dir(&self.tree);
        command
    }

    /// Judges a figure at scale ci in the copy: whether its claims hold, and its baseline learns.
    ///
    /// # Errors
    /// If a run fails.
    fn holds(&self, figure: &str) -> Result<bool, String> {
        let mut command = self.program();
        command.args(["figure", figure, "--scale", "ci", "--dev"]);
        let output = process::output(self.settings(&mut command))?;
        if output.status.success() {
            return Ok(true);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut problems = errors.lines().skip_while(|line| !line.ends_with("problems:")).skip(1).peekable();
        let is_judged = |line: &str| {
            [": does not hold: ", ": the baseline does not learn"].iter().any(|what| line.contains(what))
        };
        if problems.peek().is_some() && problems.all(is_judged) {
            return Ok(false);
        }
        Err(format!("{command:?} failed: {errors}"))
    }

    /// Runs seeds in the copy. Returns the output, and the check that failed, if any.
    fn simulate(&self, options: &[String], seeds: u64) -> Result<(String, Option<String>), String> {
        let mut command = self.program();
        command.arg("sim").args(options).args(["--seeds", &format!("0..{seeds}")]);
        let output = process::output(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let check = text.lines().find_map(|line| line.trim().strip_prefix("caught by: ")).map(str::to_owned);
        if output.status.success() || check.is_some() {
            return Ok((text, check));
        }
        Err(format!(
            "{command:?} failed: {}\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

/// Checks that without a bug, every run that is to find one passes.
fn control(scratch: &Scratch, bugs: &[Bug]) -> Result<(), String> {
    let mut runs: BTreeMap<&[String], u64> = BTreeMap::new();
    for bug in bugs {
        for options in &bug.runs {
            let seeds = runs.entry(options).or_default();
            *seeds = bug.seeds.max(*seeds);
        }
    }
    for (options, seeds) in runs {
        if let (text, Some(check)) = scratch.simulate(options, seeds)? {
            return Err(format!("without any bug, {} is caught by {check}:\n{text}", options.join(" ")));
        }
    }
    Ok(())
}

/// Plants one bug, checks that every run finds it, and restores the sources.
fn plant(scratch: &Scratch, bug: &Bug) -> Result<Vec<String>, String> {
    let changed = bug.apply(&mut Sources::new(&scratch.tree))?;
    let mut originals = Vec::new();
    for file in changed.keys() {
        let path = scratch.tree.join(file);
        let text = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        originals.push((file, text));
    }
    let edited = changed.iter().try_for_each(|(file, text)| scratch.write(file, text.as_bytes()));
    let found = edited.and_then(|()| scratch.build()).and_then(|()| {
        let mut found =
            bug.runs.iter().map(|options| find(scratch, bug, options)).collect::<Result<Vec<_>, _>>()?;
        for figure in &bug.figures {
            if scratch.holds(figure)? {
                return Err(format!("figure {figure} holds, and must not"));
            }
            found.push(format!("figure {figure} does not hold"));
        }
        Ok(found)
    });
    for (file, original) in originals {
        scratch.write(file, &original)?;
    }
    found
}

fn find(scratch: &Scratch, bug: &Bug, options: &[String]) -> Result<String, String> {
    let (text, check) = scratch.simulate(options, bug.seeds)?;
    let options = options.join(" ");
    match check {
        None if bug.caught_by.is_empty() => Ok(format!("{options}: passes, as expected")),
        None => Err(format!("{options}: NOT caught in {} seeds", bug.seeds)),
        Some(check) if bug.caught_by.contains(&check) => {
            let seed = text.lines().find_map(|line| line.trim().strip_prefix("seed ")?.split(':').next());
            let after =
                seed.map_or_else(|| format!("all {} seeds", bug.seeds), |seed| format!("seed {seed}"));
            Ok(format!("{options}: caught by {check} at {after}"))
        }
        Some(check) => {
            let expected = bug.caught_by.join(", ");
            Err(format!("{options}: caught by '{check}', but expected one of '{expected}':\n{text}"))
        }
    }
}
