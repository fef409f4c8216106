//! `cargo xtask tidy`: checks rules of the sources that rustfmt and clippy do not cover.
//!
//! | check | rule |
//! | --- | --- |
//! | [`width`] | lines of Rust, and comment lines of other files, are no wider than rustfmt's limit |
//! | [`words`] | no words that hide the actor of a sentence, and no sources cited by number |
//! | [`mechanisms`] | a mechanism of the engine names no other mechanism's module |
//! | [`cycles`] | the files of a library or program have no cyclic dependencies |
//!
//! [`ALLOWED`] lists files with known findings; an entry without a finding is an error.

mod cycles;
mod finding;
mod mechanisms;
mod width;
mod words;

use crate::process;
use finding::{Check, Finding, relative};
use std::fs;
use std::path::Path;

/// Options of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also print findings that the list of exceptions allows
    #[arg(long)]
    all: bool,
}

impl Args {
    /// Only prints findings that are errors.
    pub(crate) fn verify() -> Self {
        Self { all: false }
    }
}

/// Files with known findings, by the beginning of their path. Delete an entry with its last finding; a new
/// entry needs a reason.
const ALLOWED: &[(Check, &str)] = &[
    // Generated code.
    (Check::Width, "crates/control/proto/control.rs"),
];

/// Checks the sources. Returns an error if a finding is not allowed, or an entry of the list has no finding.
#[expect(clippy::print_stdout, reason = "a command line tool prints")]
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let root = process::root();
    let findings = find(&root)?;
    if args.all {
        findings.iter().for_each(|finding| println!("{finding}"));
    }
    judge(&findings, ALLOWED)
}

fn judge(findings: &[Finding], allowed: &[(Check, &str)]) -> Result<(), String> {
    let covers = |(check, prefix): &(Check, &str), finding: &Finding| {
        *check == finding.check && finding.file.starts_with(prefix)
    };
    let mut lines: Vec<String> = findings
        .iter()
        .filter(|finding| !allowed.iter().any(|entry| covers(entry, finding)))
        .map(ToString::to_string)
        .collect();
    lines.extend(allowed.iter().filter(|entry| !findings.iter().any(|finding| covers(entry, finding))).map(
        |(check, prefix)| {
            format!(
                "crates/xtask/src/tidy/mod.rs: delete ({check:?}, {prefix:?}) from ALLOWED: it has no finding"
            )
        },
    ));
    if lines.is_empty() { Ok(()) } else { Err(format!("{} findings:\n{}", lines.len(), lines.join("\n"))) }
}

/// All findings, in the order of files.
fn find(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for file in listed(root)? {
        let ending = Path::new(&file).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let (in_words, in_width) = (words::KINDS.contains(&ending), width::reads(ending));
        if !in_words && !in_width {
            continue;
        }
        let bytes = fs::read(root.join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        // A file without an ending may be binary.
        let text = String::from_utf8_lossy(&bytes);
        if in_words {
            findings.extend(words::find(&file, &text));
        }
        if in_width {
            findings.extend(width::find(&file, ending, &text)?);
        }
    }
    findings.extend(mechanisms::find(root, "crates/engine/src/lib.rs")?);
    for file in listed(root)?.iter().filter(|file| is_root(file)) {
        findings.extend(cycles::find(root, file)?);
    }
    Ok(findings)
}

/// Files that git tracks or would add.
fn listed(root: &Path) -> Result<Vec<String>, String> {
    let mut git = std::process::Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::text(&mut git)?;
    let files = listed.split('\0').filter(|file| !file.is_empty() && root.join(file).is_file());
    Ok(files.map(str::to_owned).collect())
}

/// Whether the file is the root module of a package's library or program. The packages of `crates/models`
/// compile files of other packages.
fn is_root(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    matches!(parts[..], ["crates" | "apps", _, "src", "lib.rs" | "main.rs"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_exceptions_covers_what_it_names_and_only_shrinks() {
        let finding =
            |check, file: &str| Finding { check, file: file.to_owned(), line: 7, what: "x".to_owned() };
        let findings = [finding(Check::Width, "crates/a/b.rs"), finding(Check::Words, "crates/c/d.md")];
        let allowed = [(Check::Width, "crates/a/"), (Check::Words, "crates/c/d.md")];
        assert_eq!(judge(&findings, &allowed), Ok(()));
        let error = judge(&findings, &allowed[..1]).unwrap_err();
        assert_eq!(error, "1 findings:\ncrates/c/d.md:7: x", "not allowed");
        let error = judge(&findings[..1], &allowed).unwrap_err();
        assert!(error.contains("delete (Words, \"crates/c/d.md\")"), "no longer needed: {error}");
        assert!(judge(&findings, &[(Check::Words, "crates/")]).is_err(), "of the other check");
    }
}
