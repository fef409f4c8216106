//! `intendant NAME …` becomes the program `intendant-NAME …`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Exit code of wrong usage.
const USAGE: u8 = 2;

/// Replaces this process by the program that the first of `words` names, with the others as its arguments.
/// Returns only if it cannot.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let mut words = words.into_iter();
    // The command line parser gives at least the name.
    let name = words.next().unwrap_or_default();
    let Some(program) = file(&name) else {
        eprintln!(
            "intendant: '{}' is none of its commands and no name of a program; see 'intendant --help'",
            name.display()
        );
        return ExitCode::from(USAGE);
    };
    let error = Command::new(beside(&program).unwrap_or_else(|| program.clone())).args(words).exec();
    let (name, program) = (name.display(), program.display());
    if error.kind() == std::io::ErrorKind::NotFound {
        eprintln!(
            "intendant: '{name}' is none of its commands, and there is no program '{program}' in its folder or on \
             PATH; see 'intendant --help'"
        );
    } else {
        eprintln!("intendant: cannot run '{program}': {error}");
    }
    ExitCode::from(USAGE)
}

/// The program's name, unless `name` would lead out of the folders that are searched.
fn file(name: &OsString) -> Option<PathBuf> {
    let bytes = name.as_encoded_bytes();
    let plain = !bytes.is_empty() && !bytes.contains(&b'/');
    plain.then(|| {
        let mut program = OsString::from("intendant-");
        program.push(name);
        program.into()
    })
}

/// The program in this program's folder: `cargo install` and `cargo build` put both there. The folder need
/// not be on PATH.
fn beside(program: &PathBuf) -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    Some(here.parent()?.join(program)).filter(|path| path.is_file())
}
