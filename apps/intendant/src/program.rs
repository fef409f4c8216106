//! `intendant NAME …` becomes the program `intendant-NAME …`.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Exit code of wrong usage.
pub(crate) const USAGE: u8 = 2;

/// Commands that are suggested for a similar name.
const COMMANDS: [&str; 10] =
    ["launch", "doctor", "checkpoint", "bpmf", "kge", "lda", "lr", "mf", "sketch", "word2vec"];

/// The minimum similarity of a suggested name, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.75;

/// Replaces this process by the program that the first of `words` names; the other words are its arguments.
/// Returns only if it cannot.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let mut words = words.into_iter();
    // The command-line parser provides at least the name.
    let name = words.next().unwrap_or_default();
    let shown = shown(&name);
    if name.as_encoded_bytes().contains(&b'/') || name.is_empty() {
        return wrong(&format!("'{shown}' is none of its commands, and no name of a program"), "");
    }
    let mut program = OsString::from("intendant-");
    program.push(&name);
    let beside = beside(&program);
    let found = beside.is_some();
    let path = beside.unwrap_or_else(|| PathBuf::from(&program));
    let error = Command::new(&path).args(words).exec();
    if !found && error.kind() == std::io::ErrorKind::NotFound {
        let what = format!(
            "'{shown}' is none of its commands, and there is no program 'intendant-{shown}' in its folder or on PATH"
        );
        return wrong(&what, &proposal(&name));
    }
    wrong(&format!("cannot run '{}': {error}", path.display()), "")
}

fn wrong(what: &str, proposal: &str) -> ExitCode {
    eprintln!("intendant: {what};{proposal} see 'intendant --help'");
    ExitCode::from(USAGE)
}

/// `name` without characters that control a terminal.
fn shown(name: &OsStr) -> String {
    name.to_string_lossy().escape_debug().to_string()
}

fn proposal(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let similar = COMMANDS.map(|command| (strsim::jaro_winkler(&name, command), command));
    let best = similar.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|best| best.0 >= SIMILARITY_MIN).map_or(String::new(), |best| format!(" is it '{}'?", best.1))
}

/// The program in the folder of this program, where `cargo install` and `cargo build` put both. The folder
/// need not be on PATH.
fn beside(program: &OsStr) -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    Some(here.parent()?.join(program)).filter(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
