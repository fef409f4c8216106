//! Instructions of a program, as Valgrind counts them.

use crate::process;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

/// Functions with this in their names do not count: they stand for networks, threads and clocks.
const SIMULATOR: &str = "intendant_sim::";

/// Why nothing can be counted here that could be compared; `None` if it can.
pub(super) fn unavailable() -> Result<Option<String>, String> {
    // Valgrind has no AVX-512. With AVX2, programs run the same kernels under it on all of these processors.
    #[cfg(target_arch = "x86_64")]
    let is_comparable = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let is_comparable = false;
    if !is_comparable {
        return Ok(Some("the recorded counts are for x86-64 with AVX2".to_owned()));
    }
    match Command::new("valgrind").arg("--version").output() {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Some("valgrind is not installed".to_owned()))
        }
        Err(error) => Err(format!("cannot start valgrind: {error}")),
    }
}

/// Instructions of `program` with `arguments`, without those of the simulator. The program must not start
/// others. `profile` is written: the instructions of each function.
pub(super) fn count<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    profile: &Path,
) -> Result<u64, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", profile.display());
    if let Some(folder) = profile.parent() {
        std::fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
    }
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", profile.display()));
    command.arg(program).args(arguments);
    // Programs take settings from variables like these.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("INTENDANT_") {
            command.env_remove(name);
        }
    }
    process::text(&mut command)?;
    let text = std::fs::read(profile).map_err(|error| wrong(&error))?;
    counted(&String::from_utf8_lossy(&text), SIMULATOR).map_err(|error| wrong(&error))
}

/// The sum of the instructions of all functions in a profile of callgrind, except of those with `without` in
/// their names.
fn counted(profile: &str, without: &str) -> Result<u64, String> {
    // A name is written once, with a number that stands for it from then on.
    let mut names: BTreeMap<&str, bool> = BTreeMap::new();
    let (mut all, mut some, mut total) = (0, 0, None);
    let (mut counts, mut is_call) = (true, false);
    for line in profile.lines() {
        if let Some((key, value)) = line.split_once(['=', ':']) {
            match key {
                "fn" | "cfn" => {
                    let (number, name) = value.split_once(' ').unwrap_or((value, ""));
                    let named = names.entry(number).or_insert_with(|| !name.contains(without));
                    if key == "fn" {
                        counts = *named;
                    }
                }
                // The next line has the instructions of callees.
                "calls" => is_call = true,
                "totals" => total = value.trim().parse().ok(),
                _ => {}
            }
            continue;
        }
        if std::mem::take(&mut is_call) {
            continue;
        }
        // A position, which may be relative, and the instructions there.
        if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            && let Some(at) = line.split_whitespace().nth(1)
        {
            let at: u64 = at.parse().map_err(|_| format!("'{line}' has no number of instructions"))?;
            all += at;
            some += if counts { at } else { 0 };
        }
    }
    if total == Some(all) { Ok(some) } else { Err(format!("{all} instructions of {total:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "# callgrind format\npositions: line\nevents: Ir\n\n\
        fl=(1) a.rs\nfn=(1) main\n10 5\n+1 7\ncfn=(2) sim::run\ncalls=1 0 \n* 1100\n-3 8\n\n\
        fn=(2)\n20 100\ncfn=(3) work\ncalls=2 0 \n+4 1000\n\n\
        fn=(3)\nfi=(2) b.rs\n0 1000\n\ntotals: 1120\n";

    #[test]
    fn functions_are_counted_once_and_those_of_the_simulator_not() {
        assert_eq!(counted(PROFILE, "absent"), Ok(1120));
        assert_eq!(counted(PROFILE, "sim::"), Ok(1020));
        assert_eq!(counted(PROFILE, "main"), Ok(1100));
    }

    #[test]
    fn a_profile_that_was_read_wrongly_is_an_error() {
        assert!(counted(&PROFILE.replace("totals: 1120", "totals: 1121"), "sim::").is_err());
        assert!(counted("valgrind: no such file", "sim::").is_err());
    }
}
