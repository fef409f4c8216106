//! Instructions of a command and its children, as Valgrind counts them.

use crate::process;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

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

/// Instructions of `program` with `arguments`, and of all processes that it starts. `folder` is replaced; it
/// contains the output of Valgrind afterwards.
pub(super) fn count<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    folder: &Path,
) -> Result<u64, String> {
    let wrong = |error: io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(wrong)?;
    }
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes"]);
    // Valgrind runs one thread of a process at a time. In turn, none of them starves.
    command.arg("--fair-sched=try");
    command.arg(format!("--log-file={}/%p.log", folder.display())).arg(program).args(arguments);
    // Programs take settings from variables like these.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("INTENDANT_") {
            command.env_remove(name);
        }
    }
    process::text(&mut command)?;
    let mut total = 0;
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = std::fs::read_to_string(&path).map_err(wrong)?;
            total += collected(&log).ok_or_else(|| format!("{}: no count\n{log}", path.display()))?;
        }
    }
    Ok(total)
}

/// The count in callgrind's output: the sum of those of a process and of its forks.
fn collected(log: &str) -> Option<u64> {
    let counts = log.split("Collected :").skip(1).map(|rest| rest.split_whitespace().next()?.parse().ok());
    counts.collect::<Option<Vec<u64>>>().filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let log = "==7== Callgrind, a call-graph generating cache profiler\n==7== \n==7== Events    : Ir\n==7== Collected : 105902978\n==7== \n";
        assert_eq!(collected(log), Some(105_902_978));
        assert_eq!(collected(&log.repeat(2)), Some(211_805_956));
        assert_eq!(collected("valgrind: no such file"), None);
        assert_eq!(collected("==7== Collected : none"), None);
    }
}
