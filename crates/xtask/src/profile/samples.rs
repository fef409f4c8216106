//! Samples of `perf`: where which thread was, once per interval of its CPU time.

use super::frames::Frame;
use crate::process;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the profiled program, at an offset of its file.
    Program { offset: u64 },
    /// In the kernel or a library: the function, and the object as its file.
    Elsewhere(Frame),
}

/// Why there is no `perf` here, if so.
pub(super) fn check() -> Result<(), String> {
    process::text(Command::new("perf").arg("--version")).map(drop).map_err(|error| {
        format!("perf samples the threads; install it (package linux-perf or linux-tools): {error}")
    })
}

/// Executes `command` under `perf record`, which writes `data`.
pub(super) fn record(command: &Command, frequency: u32, data: &Path) -> Result<(), String> {
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--event", "cpu-clock", "--freq", &frequency.to_string(), "--output"]);
    perf.arg(data).arg("--").arg(command.get_program()).args(command.get_args());
    process::text(&mut perf).map(drop)
}

/// Adds the samples in `data` to `samples`, by the name of the thread and the place.
pub(super) fn read(
    data: &Path,
    program: &Path,
    samples: &mut BTreeMap<(String, Place), u64>,
) -> Result<(), String> {
    let mut perf = Command::new("perf");
    perf.args([
        "script",
        "--no-inline",
        "--show-mmap-events",
        "--fields",
        "comm,pid,tid,ip,sym,dso",
        "--input",
    ]);
    let text = process::text(perf.arg(data))?;
    let added = parse(&text, &program.display().to_string(), samples);
    if added == 0 { Err(format!("{} has no samples", data.display())) } else { Ok(()) }
}

/// Memory of a process that is mapped to its program.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    start: u64,
    bytes: u64,
    /// Of the file.
    offset: u64,
}

/// Adds the samples of the text of `perf script`. Returns their number.
fn parse(text: &str, program: &str, samples: &mut BTreeMap<(String, Place), u64>) -> u64 {
    let mut mappings: BTreeMap<&str, Vec<Mapping>> = BTreeMap::new();
    let mut added = 0;
    for line in text.lines() {
        let Some((thread, process, rest)) = head(line) else { continue };
        if let Some(mapping) = rest.strip_prefix("PERF_RECORD_MMAP2 ") {
            if let Some(mapping) = mapping.strip_suffix(program).and_then(mapped) {
                mappings.entry(process).or_default().push(mapping);
            }
        } else if let Some((address, symbol, object)) = sample(rest) {
            // The latest mapping: a process may have executed another program before.
            let mapping = mappings.get(process).and_then(|all| {
                all.iter()
                    .rev()
                    .find(|mapping| (mapping.start..mapping.start + mapping.bytes).contains(&address))
            });
            let place = match mapping {
                Some(mapping) => Place::Program { offset: address - mapping.start + mapping.offset },
                None => Place::Elsewhere(Frame { function: symbol.to_owned(), file: object.to_owned() }),
            };
            *samples.entry((thread.to_owned(), place)).or_default() += 1;
            added += 1;
        }
    }
    added
}

/// The name of the thread, its process, and the rest of a line. Names may contain spaces.
fn head(line: &str) -> Option<(&str, &str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ids = line.split_whitespace().find_map(|word| {
        let (process, thread) = word.split_once('/')?;
        (is_number(process) && is_number(thread)).then_some((word, process))
    });
    let (word, process) = ids?;
    let (name, rest) = line.split_once(word)?;
    Some((name.trim(), process, rest.trim_start()))
}

/// Parses `PID/TID: [0xSTART(0xBYTES) @ 0xOFFSET …`; an offset of 0 has no 0x.
fn mapped(text: &str) -> Option<Mapping> {
    let (_, text) = text.split_once('[')?;
    let (start, text) = text.split_once('(')?;
    let (bytes, text) = text.split_once(')')?;
    let offset = text.trim_start().strip_prefix('@')?.split_whitespace().next()?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    Some(Mapping { start: number(start)?, bytes: number(bytes)?, offset: number(offset)? })
}

/// Parses `ADDRESS SYMBOL (OBJECT)`.
fn sample(text: &str) -> Option<(u64, &str, &str)> {
    let (address, rest) = text.split_once(' ')?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    Some((u64::from_str_radix(address, 16).ok()?, symbol, object.strip_suffix(')')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `perf script` printed of two processes of one program.
    const PRINTED: &str = include_str!("fixtures/samples.txt");

    #[test]
    fn samples_are_read_by_thread_and_place() {
        let mut samples = BTreeMap::new();
        let added = parse(PRINTED, "/p/release/intendant-mf", &mut samples);
        let elsewhere = |function: &str, file: &str| {
            Place::Elsewhere(Frame { function: function.to_owned(), file: file.to_owned() })
        };
        let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        let read: Vec<(&str, Place, u64)> = samples
            .into_iter()
            .map(|((thread, place), count)| (thread.leak() as &str, place, count))
            .collect();
        assert_eq!(
            read,
            [
                ("channel-0-0", elsewhere("__memmove_avx512_unaligned_erms", libc), 1),
                ("channel-0-0", elsewhere("finish_task_switch.isra.0", "[kernel.kallsyms]"), 1),
                ("my thread", elsewhere("[unknown]", "[unknown]"), 1),
                // Of both processes, at different addresses.
                ("worker-0", Place::Program { offset: 0x5_6040 }, 2),
                ("worker-0", Place::Program { offset: 0x5_6044 }, 1),
            ]
        );
        assert_eq!(added, 6);
    }
}
