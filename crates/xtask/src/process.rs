//! Running other programs: cargo, git and the built binaries.

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
    // Training programs are installed under names that collide with no other program's.
    let name =
        if package.starts_with("intendant") { package.to_owned() } else { format!("intendant-{package}") };
    target().join(if release { "release" } else { "debug" }).join(name)
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
