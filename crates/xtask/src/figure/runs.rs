//! The runs of figures: their commands, executing several at a time, and continuing after an interruption.
//!
//! Beside each report lies a record of the command and of the program that wrote it. A run whose record is
//! that of the same command of the same program is not executed again. A command that several figures have is
//! executed once.

use super::args::Args;
use super::config::{Figure, Run, Scale};
use super::metric::Report;
use super::traced::{self, Traced};
use crate::{clock, process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::Sender;

/// A run of a figure with a seed.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// Position of its figure.
    pub(crate) figure: usize,
    /// Name of the figure and of the run, and the seed, for people.
    label: String,
    /// Name of the run.
    pub(crate) run: String,
    program: PathBuf,
    args: Vec<String>,
    report: PathBuf,
    /// What is computed from the trace of the run, if it leaves one: see [`traced::wanted`].
    traced: Option<(String, Vec<f64>)>,
}

/// The report of a run with a seed, in the folder of a figure's reports.
pub(crate) fn report_of(folder: &Path, run: &str, seed: u64) -> PathBuf {
    folder.join(format!("{}.{seed}.json", run.replace([' ', '/'], "-")))
}

/// The folder of the trace of the run with a report.
pub(crate) fn trace_of(report: &Path) -> PathBuf {
    report.with_extension("trace")
}

/// How a report came about.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    args: Vec<String>,
    /// What was computed from the trace.
    #[serde(default)]
    traced: Option<(String, Vec<f64>)>,
    /// Hash of the program's file.
    program: u64,
    seconds: f64,
}

impl Planned {
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.program.display(), self.args.join(" "))
    }

    fn record(&self) -> PathBuf {
        self.report.with_extension("record")
    }

    /// What the run executes, without the places of its report and its trace: flags with their values, in any
    /// order.
    fn work(&self) -> (&Path, Vec<Vec<&str>>) {
        let places = [&self.report, &trace_of(&self.report)].map(|place| place.display().to_string());
        let args = self.args.iter().filter(|arg| !places.contains(arg));
        let args: Vec<&str> = args.map(String::as_str).collect();
        let mut flags: Vec<Vec<&str>> =
            args.chunk_by(|_, next| !next.starts_with("--")).map(<[&str]>::to_vec).collect();
        flags.sort_unstable();
        (&self.program, flags)
    }

    /// Takes over the report and the trace of a run that does the same.
    fn copy(&self, same: &Self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.report.display());
        let _ = std::fs::remove_file(self.record());
        let record = same.known().ok_or_else(|| format!("{} has no report", same.label))?;
        std::fs::copy(&same.report, &self.report).map_err(failed)?;
        if self.traced.is_some() {
            copy_folder(&trace_of(&same.report), &trace_of(&self.report))?;
        }
        if self.traced != same.traced {
            self.add_trace()?;
        }
        self.keep(&Record { args: self.args.clone(), traced: self.traced.clone(), ..record })
    }

    fn keep(&self, record: &Record) -> Result<(), String> {
        let text = serde_json::to_string(record).map_err(|error| error.to_string())?;
        std::fs::write(self.record(), text).map_err(|error| format!("{}: {error}", self.record().display()))
    }

    /// The record of an earlier execution of the same command, whichever program it was.
    fn known(&self) -> Option<Record> {
        let record: Record = serde_json::from_str(&std::fs::read_to_string(self.record()).ok()?).ok()?;
        let has_trace = self.traced.is_none() || trace_of(&self.report).exists();
        (record.args == self.args && record.traced == self.traced && has_trace).then_some(record)
    }

    fn read(&self) -> Result<Report, String> {
        let text = std::fs::read_to_string(&self.report)
            .map_err(|error| format!("{}: {error}", self.report.display()))?;
        Report::parse(&text).map_err(|error| format!("{}: {error}", self.report.display()))
    }

    /// Adds the numbers of the trace to the report, if the run leaves one.
    fn add_trace(&self) -> Result<(), String> {
        let Some((range, quantiles)) = &self.traced else { return Ok(()) };
        let numbers = Traced::read(&trace_of(&self.report))?.numbers(range, quantiles)?;
        let report = self.read()?.with_trace(numbers);
        std::fs::write(&self.report, report.text())
            .map_err(|error| format!("{}: {error}", self.report.display()))
    }

    fn execute(&self, program: u64) -> Result<f64, String> {
        // A report of an earlier run must not be read as this run's.
        let _ = std::fs::remove_file(self.record());
        let _ = std::fs::remove_file(&self.report);
        // The program would keep the traces of an earlier run beside this run's.
        let _ = std::fs::remove_dir_all(trace_of(&self.report));
        let (result, took) = clock::timed(|| process::text(Command::new(&self.program).args(&self.args)));
        result?;
        self.add_trace()?;
        let (args, traced) = (self.args.clone(), self.traced.clone());
        let record = Record { args, traced, program, seconds: took.as_secs_f64() };
        self.keep(&record)?;
        Ok(record.seconds)
    }
}

/// Copies the files of a folder in the place of another one.
fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let copy = || -> std::io::Result<()> {
        if to.exists() {
            std::fs::remove_dir_all(to)?;
        }
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(|error| format!("{}: {error}", to.display()))
}

/// The runs of a figure at a scale, each with all seeds. `place` is the folder of its reports.
///
/// # Errors
/// If a constant is to be changed that a run's presets do not have.
pub(crate) fn plan(
    at: usize,
    name: &str,
    figure: &Figure,
    args: &Args,
    place: &Path,
) -> Result<Vec<Planned>, String> {
    let wanted =
        |run: &&Run| run.is_at(args.scale) && (args.only.is_empty() || args.only.contains(&run.name));
    let of_run = |run: &Run, seed: u64| {
        let app = run.app.as_ref().unwrap_or(&figure.app);
        let report = report_of(place, &run.name, seed);
        let scaled = |all: &BTreeMap<Scale, Vec<String>>| all.get(&args.scale).cloned().unwrap_or_default();
        let mut flags: Vec<String> =
            [figure.args.clone(), scaled(&figure.scales), run.args.clone(), scaled(&run.args_at)].concat();
        if let Some(constant) = &args.scale_constant {
            constant.apply(&mut flags, &args.place())?;
        }
        let path = report.display().to_string();
        flags.extend(["--seed", &seed.to_string(), "--no-progress", "--report", &path].map(str::to_owned));
        if let Some(traced) = &run.trace {
            let folder = trace_of(&report).display().to_string();
            flags.extend(["--trace", &folder, "--trace-keys", &traced.keys].map(str::to_owned));
        }
        Ok(Planned {
            figure: at,
            label: format!(
                "{name}: {}{}",
                run.name,
                if args.seeds(figure) > 1 { format!(", seed {seed}") } else { String::new() }
            ),
            run: run.name.clone(),
            program: process::program(app, !args.dev),
            args: flags,
            report,
            traced: traced::wanted(figure, run),
        })
    };
    let runs = figure.runs.iter().filter(wanted);
    runs.flat_map(|run| (1..=args.seeds(figure)).map(move |seed| of_run(run, seed))).collect()
}

/// What is left to do.
struct Queue {
    next: usize,
    finished: usize,
    /// Seconds of the runs that were executed now, and their number.
    executed: (f64, usize),
}

/// Executes what is not up to date, `jobs` at a time, and sends each report with its position in `planned`.
pub(crate) fn execute(planned: &[Planned], jobs: usize, reports: &Sender<(usize, Result<Report, String>)>) {
    let programs = hashes(planned);
    let current = |run: &Planned| programs.get(&run.program).copied().unwrap_or_default();
    let is_current = |run: &Planned| run.known().is_some_and(|record| record.program == current(run));
    let done: Vec<bool> = planned.iter().map(|run| is_current(run) && run.read().is_ok()).collect();
    // For each run the one of those that do the same whose report the others copy, and the others.
    let mut first: BTreeMap<_, usize> = BTreeMap::new();
    let mut twins: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut is_twin = vec![false; planned.len()];
    // One that is done, if there is one: its report need not be made again.
    let in_order =
        (0..planned.len()).filter(|at| done[*at]).chain((0..planned.len()).filter(|at| !done[*at]));
    for (at, run) in in_order.map(|at| (at, &planned[at])) {
        let of = *first.entry(run.work()).or_insert(at);
        if of != at {
            twins.entry(of).or_default().push(at);
            is_twin[at] = true;
        }
    }
    let expected: Vec<Option<f64>> = planned.iter().map(|run| Some(run.known()?.seconds)).collect();
    let ready = done.iter().filter(|done| **done).count();
    if ready > 0 {
        println!("{ready} of {} runs have been executed with these programs before", planned.len());
    }
    let queue = Mutex::new(Queue { next: 0, finished: ready, executed: (0.0, 0) });
    let lock = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let take = || {
        let mut queue = lock();
        while queue.next < planned.len() && is_twin[queue.next] {
            queue.next += 1;
        }
        let at = queue.next;
        queue.next += 1;
        planned.get(at).map(|run| (at, run))
    };
    let work = || {
        while let Some((at, run)) = take() {
            let result = if done[at] {
                run.read()
            } else {
                let executed = run.execute(current(run));
                let mut queue = lock();
                queue.finished += 1;
                if let Ok(seconds) = executed {
                    queue.executed.0 += seconds;
                    queue.executed.1 += 1;
                    let usual = queue.executed.0 / queue.executed.1 as f64;
                    let left = (queue.next..planned.len()).filter(|at| !done[*at] && !is_twin[*at]);
                    let left: f64 = left.map(|at| expected[at].unwrap_or(usual)).sum();
                    println!(
                        "[{}/{}] {:<44} {seconds:>7.1} s{}",
                        queue.finished,
                        planned.len(),
                        run.label,
                        remaining(left / jobs as f64)
                    );
                }
                drop(queue);
                executed.and_then(|_| run.read())
            };
            let named = |run: &Planned, error| format!("{}: {error}", run.label);
            if reports.send((at, result.map_err(|error| named(run, error)))).is_err() {
                return;
            }
            for twin in twins.get(&at).into_iter().flatten() {
                let (copy, ready) = (&planned[*twin], done[*twin]);
                let copied = if ready { Ok(()) } else { copy.copy(run) };
                lock().finished += usize::from(!ready);
                let result = copied.and_then(|()| copy.read()).map_err(|error| named(copy, error));
                if reports.send((*twin, result)).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, planned.len().max(1)) {
            scope.spawn(work);
        }
    });
}

/// The time that is left, in words.
fn remaining(seconds: f64) -> String {
    match seconds {
        ..1.0 => String::new(),
        ..90.0 => format!("   about {seconds:.0} s left"),
        ..5400.0 => format!("   about {:.0} min left", seconds / 60.0),
        _ => format!("   about {:.1} h left", seconds / 3600.0),
    }
}

/// A hash of the file of each program; 0 if it cannot be read, in which case executing it says why.
fn hashes(planned: &[Planned]) -> BTreeMap<PathBuf, u64> {
    let mut hashes = BTreeMap::new();
    for run in planned {
        hashes.entry(run.program.clone()).or_insert_with(|| {
            let mut hasher = DefaultHasher::new();
            std::fs::read(&run.program).unwrap_or_default().hash(&mut hasher);
            hasher.finish()
        });
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A program that copies its first argument to its second, and counts its executions in its third. Its
    /// fourth tells runs apart.
    fn planned(folder: &Path) -> Vec<Planned> {
        let program = folder.join("program");
        std::fs::write(&program, "#!/bin/sh\nprintf '%s' \"$1\" > \"$2\"; echo x >> \"$3\"\n")
            .expect("a file");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        let run = |name: &str| {
            let report = folder.join(format!("{name}.json"));
            let counted = folder.join("counted").display().to_string();
            let json = r#"{"epochs":[]}"#.to_owned();
            let args = vec![json, report.display().to_string(), counted, name.to_owned()];
            Planned {
                figure: 0,
                label: name.to_owned(),
                run: name.to_owned(),
                program: program.clone(),
                args,
                report,
                traced: None,
            }
        };
        vec![run("one"), run("two"), run("three")]
    }

    #[test]
    fn runs_are_executed_once_and_again_if_the_program_changes() {
        let folder = process::target().join("tmp-figure-runs");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let all = planned(&folder);
        let run = || {
            let (sender, receiver) = mpsc::channel();
            execute(&all, 2, &sender);
            drop(sender);
            let results: Vec<_> = receiver.iter().collect();
            assert_eq!(results.iter().filter(|(_, result)| result.is_ok()).count(), 3, "{results:?}");
            std::fs::read_to_string(folder.join("counted")).expect("counts").lines().count()
        };
        assert_eq!(run(), 3);
        assert_eq!(run(), 3, "all were up to date");
        std::fs::write(&all[1].report, "half a rep").expect("a file");
        assert_eq!(run(), 4, "one report was broken");
        let program = folder.join("program");
        let text = std::fs::read_to_string(&program).expect("a program");
        std::fs::write(&program, format!("{text}# changed\n")).expect("a file");
        assert_eq!(run(), 7, "another program");
    }

    #[test]
    fn a_command_of_two_figures_is_executed_once() {
        let folder = process::target().join("tmp-figure-twins");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut all = planned(&folder);
        let mut twin = all[0].clone();
        twin.figure = 1;
        twin.report = folder.join("twin.json");
        twin.args[1] = twin.report.display().to_string();
        // In another order.
        all[0].args.extend(["--a", "1", "--b", "2"].map(str::to_owned));
        twin.args.extend(["--b", "2", "--a", "1"].map(str::to_owned));
        all.push(twin);
        let run = || {
            let (sender, receiver) = mpsc::channel();
            execute(&all, 2, &sender);
            drop(sender);
            let mut ran: Vec<usize> =
                receiver.iter().map(|(at, result)| result.map(|_| at).expect("a report")).collect();
            ran.sort_unstable();
            assert_eq!(ran, [0, 1, 2, 3]);
            std::fs::read_to_string(folder.join("counted")).expect("counts").lines().count()
        };
        assert_eq!((run(), run()), (3, 3));
        std::fs::remove_file(&all[3].report).expect("a report");
        assert_eq!(run(), 3, "copied again");
    }

    #[test]
    fn twins_have_the_trace_and_numbers_of_their_own_quantiles() {
        let folder = process::target().join("tmp-figure-traced-twins");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("source")).expect("a folder");
        traced::tests::write(&folder.join("source"));
        let mut all = planned(&folder);
        all.truncate(2);
        // Flags, the report, and the trace after another flag.
        let text = format!(
            "#!/bin/sh\nprintf '{{\"epochs\":[]}}' > \"$2\"; cp -r '{0}/source' \"$4\"; echo x >> '{0}/counted'\n",
            folder.display()
        );
        std::fs::write(&all[0].program, text).expect("a program");
        for (run, quantile) in all.iter_mut().zip([0.0, 1.0]) {
            let (report, trace) = (run.report.display().to_string(), trace_of(&run.report));
            let trace = trace.display().to_string();
            run.args = ["--report", &report, "--trace", &trace].map(str::to_owned).into();
            run.traced = Some(("a".to_owned(), vec![quantile]));
        }
        let run = || {
            let (sender, receiver) = mpsc::channel();
            execute(&all, 2, &sender);
            drop(sender);
            for (at, result) in receiver {
                let text = result.expect("a report").text();
                let numbers: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                let quantiles = numbers["trace"]["quantiles"].as_object().expect("numbers of the trace");
                assert_eq!(quantiles.keys().collect::<Vec<_>>(), [&at.to_string()]);
                assert!(trace_of(&all[at].report).join("node-1.trace").exists());
            }
            std::fs::read_to_string(folder.join("counted")).expect("counts").lines().count()
        };
        assert_eq!((run(), run()), (1, 1));
        std::fs::remove_dir_all(trace_of(&all[1].report)).expect("a trace");
        assert_eq!(run(), 1, "copied again");
    }

    #[test]
    fn a_run_that_fails_names_itself() {
        let run = Planned {
            figure: 0,
            label: "fig: one".to_owned(),
            run: "one".to_owned(),
            program: PathBuf::from("/nonexistent"),
            args: Vec::new(),
            report: process::target().join("tmp-none.json"),
            traced: None,
        };
        let (sender, receiver) = mpsc::channel();
        execute(&[run], 1, &sender);
        let (_, result) = receiver.recv().expect("a result");
        assert!(result.expect_err("it failed").starts_with("fig: one: cannot start"));
    }

    #[test]
    fn time_left_is_in_words() {
        assert_eq!(
            [0.2, 30.0, 600.0, 7200.0].map(remaining),
            ["", "   about 30 s left", "   about 10 min left", "   about 2.0 h left"]
        );
    }
}
