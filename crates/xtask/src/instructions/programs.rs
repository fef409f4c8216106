//! Instructions per example of whole programs: with shared memory, on one adaptive node alone, and on two
//! that are simulated.

use super::band::outside;
use super::valgrind;
use crate::process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A training program with some data.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    /// Its package.
    pub(super) task: String,
    /// Its arguments, separated by blanks.
    args: String,
    /// Epochs of the shorter and the longer run. The difference of the runs is the cost of the examples of
    /// the other epochs: starting, and what is done in the first epochs only, does not count.
    epochs: [u32; 2],
    runs: BTreeMap<Mode, Counted>,
}

/// How a program runs. [`Mode::Single`] is the first: the others are divided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// Plain shared memory.
    Single,
    /// One adaptive node.
    OneNode,
    /// Two adaptive nodes, simulated. Two processes take turns in another order in each run, and Valgrind
    /// slows them down but not the timers of rounds; simulated nodes do the same in each run.
    TwoNodes,
}

/// A program on some nodes.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    /// Instructions per example.
    instructions: f64,
    /// Tolerated difference.
    within_percent: f64,
    /// Instructions over those with [`Mode::Single`].
    #[serde(skip_serializing_if = "Option::is_none")]
    over_single: Option<f64>,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::OneNode => "one node",
            Self::TwoNodes => "two nodes",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Single => &["--technique", "single", "--nodes", "1"],
            Self::OneNode => &["--technique", "adaptive", "--nodes", "1"],
            Self::TwoNodes => &["--technique", "adaptive", "--nodes", "2", "--simulate"],
        }
    }
}

impl Program {
    /// Counts, prints, and says which counts are outside of their bands.
    pub(super) fn compare(&self) -> Result<Vec<String>, String> {
        let mut off = Vec::new();
        let mut single = None;
        for (mode, counted) in &self.runs {
            let what = format!("{}, {}", self.task, mode.name());
            let now = Now::new(self.count(*mode)?, *mode, &mut single);
            counted.print(&what, now);
            off.extend(counted.judge(&what, now));
        }
        Ok(off)
    }

    /// Counts, prints and records.
    pub(super) fn record(&mut self) -> Result<(), String> {
        let mut single = None;
        let modes: Vec<_> = self.runs.keys().copied().collect();
        for mode in modes {
            let now = Now::new(self.count(mode)?, mode, &mut single);
            let what = format!("{}, {}", self.task, mode.name());
            if let Some(counted) = self.runs.get_mut(&mode) {
                counted.print(&what, now);
                counted.instructions = now.instructions.round();
                counted.over_single = now.over_single.map(|ratio| (ratio * 100.0).round() / 100.0);
            }
        }
        Ok(())
    }

    /// Instructions per example.
    fn count(&self, mode: Mode) -> Result<f64, String> {
        let run = |epochs| self.total(mode, epochs);
        let [fewer, more] = self.epochs;
        let (fewer, more) = std::thread::scope(|scope| {
            let fewer = scope.spawn(|| run(fewer));
            let more = run(more);
            let fewer = fewer.join().map_err(|_| "a thread that counts has panicked".to_owned())?;
            Ok::<_, String>((fewer?, more?))
        })?;
        let examples = more.examples.checked_sub(fewer.examples).filter(|examples| *examples > 0);
        let examples =
            examples.ok_or_else(|| format!("{}: the longer run has no more examples", self.task))?;
        Ok(more.instructions.saturating_sub(fewer.instructions) as f64 / examples as f64)
    }

    fn total(&self, mode: Mode, epochs: u32) -> Result<Total, String> {
        let place = process::target().join(format!("instructions/{}-{epochs}", self.task));
        let (report, profile) = (place.with_extension("json"), place.with_extension("out"));
        let epochs = epochs.to_string();
        let mut arguments: Vec<_> = self.args.split_whitespace().map(Into::into).collect();
        arguments.extend(mode.arguments().iter().map(Into::into));
        let rest = ["--workers", "1", "--valid-every", "0", "--no-progress", "--epochs", &epochs, "--report"];
        arguments.extend(rest.map(Into::into));
        arguments.push(report.clone().into_os_string());
        let instructions = valgrind::count(&process::program(&self.task, true), arguments, &profile)?;
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", report.display());
        let text = std::fs::read_to_string(&report).map_err(|error| wrong(&error))?;
        let report: Report = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        Ok(Total { instructions, examples: report.epochs.iter().map(|epoch| epoch.examples).sum() })
    }
}

/// What was counted now.
#[derive(Clone, Copy)]
struct Now {
    instructions: f64,
    over_single: Option<f64>,
}

impl Now {
    /// `single` has the count of that mode, once it is known.
    fn new(instructions: f64, mode: Mode, single: &mut Option<f64>) -> Self {
        if mode == Mode::Single {
            *single = Some(instructions);
            return Self { instructions, over_single: None };
        }
        Self { instructions, over_single: single.map(|single| instructions / single) }
    }
}

impl Counted {
    fn judge(&self, what: &str, now: Now) -> Vec<String> {
        let count = outside(what, "example", now.instructions, self.instructions, self.within_percent);
        // A lower ratio is no reason to worry, and the counts have bands of their own.
        let ratio = now.over_single.zip(self.over_single).and_then(|(ratio, recorded)| {
            let most = recorded * (1.0 + self.within_percent / 100.0);
            (ratio > most).then(|| {
                format!(
                    "{what}: {ratio:.2} times the instructions of single; recorded {recorded:.2}, accepted \
                     up to {most:.2}"
                )
            })
        });
        count.into_iter().chain(ratio).collect()
    }

    fn print(&self, what: &str, now: Now) {
        print!("{what:<60} {:>10.0} {:>10.0}", now.instructions, self.instructions);
        match now.over_single.zip(self.over_single) {
            Some((ratio, recorded)) => println!("   over single {ratio:.2}, recorded {recorded:.2}"),
            None => println!(),
        }
    }
}

/// What a run has executed.
struct Total {
    instructions: u64,
    examples: u64,
}

/// What is read of a program's report.
#[derive(Deserialize)]
struct Report {
    epochs: Vec<Epoch>,
}

#[derive(Deserialize)]
struct Epoch {
    examples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ratios_are_judged() {
        let recorded = Counted { instructions: 1000.0, within_percent: 10.0, over_single: Some(2.0) };
        let judge = |instructions, over_single| {
            recorded.judge("mf, two nodes", Now { instructions, over_single: Some(over_single) })
        };
        assert_eq!(judge(1099.0, 2.19), Vec::<String>::new());
        assert_eq!(judge(901.0, 1.0), Vec::<String>::new(), "a lower ratio is accepted");
        let count =
            "mf, two nodes: 1101 instructions per example, +10 %; recorded 1000, accepted 900 to 1100";
        assert_eq!(judge(1101.0, 2.0), [count]);
        let ratio =
            "mf, two nodes: 2.21 times the instructions of single; recorded 2.00, accepted up to 2.20";
        assert_eq!(judge(1000.0, 2.21), [ratio]);
    }

    #[test]
    fn others_are_divided_by_single() {
        let mut single = None;
        assert_eq!(Now::new(500.0, Mode::Single, &mut single).over_single, None);
        assert_eq!(Now::new(600.0, Mode::OneNode, &mut single).over_single, Some(1.2));
        assert_eq!(Now::new(1500.0, Mode::TwoNodes, &mut single).over_single, Some(3.0));
    }
}
