//! Running other programs: cargo, git and the built binaries.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The cargo that started this program.
pub(crate) fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory);
    command
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// The build folder of cargo.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The path of the program that a package of the workspace builds.
pub(crate) fn program(package: &str, release: bool) -> PathBuf {
    program_in(&target(), package, release)
}

/// The path of the program that a package of the workspace builds in the build folder `target`.
pub(crate) fn program_in(target: &Path, package: &str, release: bool) -> PathBuf {
    // Training programs are installed under names that collide with no other program's.
    let name =
        if package.starts_with("intendant") { package.to_owned() } else { format!("intendant-{package}") };
    target.join(if release { "release" } else { "debug" }).join(name)
}

/// Runs `command` with inherited input and output.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// Runs `command` and captures its output.
pub(crate) fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("cannot start {command:?}: {error}"))
}

/// Runs `command` and returns its standard output; an error if it fails.
pub(crate) fn text(command: &mut Command) -> Result<String, String> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Runs `command`, to which `flag` and `file` are added, and reads the JSON that it writes there.
pub(crate) fn json(command: &mut Command, flag: &str, file: &Path) -> Result<Value, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    // A file of an earlier run must not be read as this run's.
    let _ = std::fs::remove_file(file);
    text(command.arg(flag).arg(file))?;
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}
