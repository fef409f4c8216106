//! `cargo xtask plant`: a check that cannot fail is worthless.
//!
//! Each bug of `bugs/` is planted in a scratch copy of the workspace, whose simulator must find it: first the
//! copy as it is must pass (control), then every bug must be caught, by one of the checks that its
//! description names.
//!
//! Bugs that no simulated run can show are not here: what an engine believes of a peer that breaks the
//! protocol (`crates/engine/tests/it/hostile.rs`), and what happens between two threads within a step
//! (`crates/store/tests/loom.rs`).

use crate::bug::{self, Bug, Sources};
use crate::process::{self, cargo};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which bugs to plant.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of bugs, as in crates/xtask/bugs
    #[arg(default_value = "all")]
    names: Vec<String>,
    /// Only check that the bugs fit the sources: plant none
    #[arg(long)]
    check: bool,
}

impl Args {
    /// All bugs.
    pub(crate) fn all() -> Self {
        Self { names: vec!["all".to_owned()], check: false }
    }

    /// Whether all bugs fit the sources.
    pub(crate) fn check() -> Self {
        Self { check: true, ..Self::all() }
    }
}

/// The scratch copy.
struct Scratch {
    tree: PathBuf,
    build: PathBuf,
}

/// Plants bugs; an error if one is not caught.
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

/// An error that names every bug that does not fit the sources.
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

/// Copies what git knows or would add. Files that did not change keep their time stamps, so that builds are
/// incremental.
fn copy(root: &Path) -> Result<Scratch, String> {
    let target = root.join("target").join("plant");
    let scratch = Scratch { tree: target.join("tree"), build: target.join("build") };
    let mut git = std::process::Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::text(&mut git)?;
    let is_there =
        |file: &&str| !file.is_empty() && (root.join(file).is_file() || root.join(file).is_symlink());
    let wanted: Vec<&str> = listed.split('\0').filter(is_there).collect();
    for file in &wanted {
        if root.join(file).is_symlink() {
            scratch.link(file, root)?;
            continue;
        }
        let content = fs::read(root.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        scratch.write(file, &content)?;
    }
    remove_others(&scratch.tree, &scratch.tree, &wanted)?;
    Ok(scratch)
}

/// Removes files of an earlier copy that no longer exist.
fn remove_others(tree: &Path, directory: &Path, wanted: &[&str]) -> Result<(), String> {
    let failed = |error| format!("cannot clean {}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // A link to a folder is removed like a file: what it leads to is looked at where it is.
        if path.is_dir() && !path.is_symlink() {
            remove_others(tree, &path, wanted)?;
        } else if path.strip_prefix(tree).is_ok_and(|file| !wanted.iter().any(|w| Path::new(w) == file))
            // The copy's own lock file is cargo's.
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

    /// Makes the same link as in `root`; the models' packages share the sources of those that ship.
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
        command
            .args(["build", "--quiet", "--offline", "--package", "xtask"])
            .env("CARGO_TARGET_DIR", &self.build);
        // A planted bug may leave something unused.
        command.env("RUSTFLAGS", "--cap-lints=allow");
        process::text(&mut command).map(drop)
    }

    /// Runs seeds. Returns what they printed, and the check that found something.
    fn simulate(&self, options: &[String], seeds: u64) -> Result<(String, Option<String>), String> {
        let program = self.build.join("debug").join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
        let mut command = std::process::Command::new(program);
        command.current_dir(&self.tree).arg("sim").args(options).args(["--seeds", &format!("0..{seeds}")]);
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

/// Without a bug, every run that is to find one passes.
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

/// Plants one bug, lets the runs find it, and takes it out again.
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
        bug.runs.iter().map(|options| find(scratch, bug, options)).collect::<Result<Vec<_>, _>>()
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
        None if bug.caught_by.is_empty() => Ok(format!("{options}: passes, as it must")),
        None => Err(format!("{options}: NOT caught in {} seeds", bug.seeds)),
        Some(check) if bug.caught_by.contains(&check) => {
            let seed = text.lines().find_map(|line| line.trim().strip_prefix("seed ")?.split(':').next());
            let after =
                seed.map_or_else(|| format!("all {} seeds", bug.seeds), |seed| format!("seed {seed}"));
            Ok(format!("{options}: caught by {check} at {after}"))
        }
        Some(check) => {
            Err(format!("{options}: caught by '{check}', which is not what should find it:\n{text}"))
        }
    }
}
