//! Programs on given cores of this machine.

use crate::process;
use std::path::Path;
use std::process::Command;

/// Why processes cannot be pinned to the cores below `cores`, if so.
pub(crate) fn check(cores: usize) -> Result<(), String> {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    enough(usable, cores)?;
    for core in 0..cores {
        process::text(Command::new("taskset").args(["-c", &core.to_string(), "true"])).map_err(|error| {
            format!("processes are pinned to core {core} with taskset (util-linux): {error}")
        })?;
    }
    Ok(())
}

fn enough(usable: usize, cores: usize) -> Result<(), String> {
    if usable >= cores {
        return Ok(());
    }
    Err(format!("{cores} cores are needed, one for each pinned process, but this process may use {usable}"))
}

/// The command that runs `program` on core 0.
pub(crate) fn alone(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program);
    command
}

/// The command that runs `program` as `nodes` processes, started by the program `launcher`. Node `n` runs on
/// core `n` modulo `cores`.
pub(crate) fn cluster(launcher: &Path, nodes: usize, cores: usize, program: &Path) -> Command {
    let mut command = Command::new(launcher);
    command.args(["launch", "-n", &nodes.to_string(), "--", "sh", "-c"]);
    command.arg(format!("exec taskset -c $((RANK % {cores})) \"$0\" \"$@\"")).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_cores_are_an_error_with_both_numbers() {
        assert_eq!(enough(2, 2), Ok(()));
        let error = enough(1, 2).expect_err("one core");
        assert!(error.contains("2 cores are needed") && error.ends_with("may use 1"), "{error}");
    }

    #[test]
    fn each_node_runs_on_its_core() {
        // The shell executes what the launcher would, for three nodes.
        let command = cluster(Path::new("intendant"), 3, 2, Path::new("program"));
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert_eq!(args[..6], ["launch", "-n", "3", "--", "sh", "-c"]);
        assert_eq!(args[7..], ["program"]);
        let shown = args[6].replace("exec", "echo");
        let run = |rank: &str| {
            process::text(Command::new("sh").args(["-c", &shown, "program", "--flag"]).env("RANK", rank))
        };
        let of = |core: usize| Ok(format!("taskset -c {core} program --flag\n"));
        assert_eq!([run("0"), run("1"), run("2")], [of(0), of(1), of(0)]);
    }
}
