//! Sums of samples by thread and path, and their table.

use super::frames::Frame;
use super::paths::{Kind, Paths};
use super::samples::Place;
use crate::pinned::Case;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Functions that are named of each path.
const NAMED: usize = 5;
/// Smallest share that is named, in units of `single`'s total = 100.
const NAMED_LEAST: f64 = 0.3;

/// The line of a sample: a path of a kind of threads; without a path, the rest of the kind; without a kind,
/// other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Other,
    Of { kind: usize, path: Option<usize> },
}

/// Samples of a case.
#[derive(Debug, Default)]
pub(super) struct Sums {
    lines: BTreeMap<Line, u64>,
    functions: BTreeMap<(Line, String), u64>,
}

impl Sums {
    /// Sums up `samples`. `functions` has the frames of the program's addresses; names of files are shown
    /// without `root`.
    pub(super) fn new(
        samples: &BTreeMap<(String, Place), u64>,
        functions: &BTreeMap<u64, Vec<Frame>>,
        paths: &Paths,
        root: &Path,
    ) -> Self {
        let mut sums = Self::default();
        for ((thread, place), count) in samples {
            let frames = match place {
                Place::Program { offset } => functions.get(offset).map_or(&[][..], Vec::as_slice),
                Place::Elsewhere(frame) => std::slice::from_ref(frame),
            };
            let line = match paths.kind(thread) {
                Some(kind) => Line::Of { kind, path: paths.path(kind, frames) },
                None => Line::Other,
            };
            *sums.lines.entry(line).or_default() += count;
            *sums.functions.entry((line, named(frames, root))).or_default() += count;
        }
        sums
    }

    /// Samples of the lines for which `of` holds.
    fn sum(&self, of: impl Fn(Line) -> bool) -> u64 {
        self.lines.iter().filter(|(line, _)| of(**line)).map(|(_, count)| count).sum()
    }

    fn of_kinds(&self) -> u64 {
        self.sum(|line| line != Line::Other)
    }

    /// The largest functions of a line, in units of `unit` samples.
    fn largest(&self, of: Line, unit: f64) -> Vec<String> {
        let functions = self.functions.iter().filter(|((line, _), _)| *line == of);
        let mut functions: Vec<(&str, f64)> =
            functions.map(|((_, name), &count)| (name.as_str(), count as f64 / unit)).collect();
        functions.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let named = functions.into_iter().take(NAMED).filter(|(_, share)| *share >= NAMED_LEAST);
        named.map(|(name, share)| format!("{share:.1} {name}")).collect()
    }
}

/// What to call frames: the innermost function of the workspace; else the innermost function.
fn named(frames: &[Frame], root: &Path) -> String {
    let own = frames.iter().find_map(|frame| Some((frame, Path::new(&frame.file).strip_prefix(root).ok()?)));
    match own.or_else(|| frames.first().map(|frame| (frame, Path::new(&frame.file)))) {
        Some((frame, file)) => format!("{} ({})", frame.function, file.display()),
        None => "unknown".to_owned(),
    }
}

/// The table of all cases, of which the first is the unit, and below it the largest functions of what belongs
/// to no path; with `all`, of each line.
pub(super) fn render(cases: &[Case], all_sums: &[Sums], paths: &Paths, all: bool) -> String {
    let unit = all_sums.first().map_or(1, Sums::of_kinds).max(1) as f64 / 100.0;
    let cells = |of: &dyn Fn(&Sums) -> u64| -> String {
        all_sums.iter().map(|sums| format!(" {:.1} |", of(sums) as f64 / unit)).collect()
    };
    let headings: String = cases.iter().map(|case| format!(" {case} |")).collect();
    let mut table =
        format!("| CPU time, `single` = 100 |{headings}\n| --- |{}\n", " --- |".repeat(cases.len()));
    let mut largest = String::new();
    let mut name = |line: Line, what: &str| {
        for (case, sums) in cases.iter().zip(all_sums) {
            let functions = sums.largest(line, unit);
            if !functions.is_empty() {
                let _ = writeln!(largest, "{what}, {case}:\n  {}", functions.join("\n  "));
            }
        }
    };
    for (kind, Kind { name: thread, .. }) in paths.threads.iter().enumerate() {
        let of_kind = |line| matches!(line, Line::Of { kind: other, .. } if other == kind);
        let _ = writeln!(table, "| **{thread}** |{}", cells(&|sums| sums.sum(of_kind)));
        for path in paths.of(kind).map(Some).chain([None]) {
            let line = Line::Of { kind, path };
            if all_sums.iter().any(|sums| sums.lines.contains_key(&line)) {
                let what = path.map_or("rest", |path| &paths.paths[path].name);
                let _ = writeln!(table, "| {what} |{}", cells(&|sums| sums.sum(|other| other == line)));
                if all || path.is_none() {
                    name(line, &format!("{thread}, {what}"));
                }
            }
        }
    }
    let _ = writeln!(table, "| **total** |{}", cells(&Sums::of_kinds));
    let _ = writeln!(table, "| other threads |{}", cells(&|sums| sums.sum(|line| line == Line::Other)));
    if all {
        name(Line::Other, "other threads");
    }
    format!("{table}\n{largest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_units_of_the_first_case() {
        let paths = Paths::parse(
            "threads = [{name = 'worker', begin = 'worker-'}, {name = 'channel', begin = 'channel-'}]
             [[paths]]
             name = 'rows'
             of = ['worker']
             functions = ['row.rs']",
        )
        .expect("valid");
        let frame =
            |function: &str, file: &str| Frame { function: function.to_owned(), file: file.to_owned() };
        let functions = BTreeMap::from([
            (1, vec![frame("row", "/w/row.rs")]),
            (
                2,
                vec![
                    frame("load", "/rustc/atomic.rs"),
                    frame("step", "/w/driver.rs"),
                    frame("run", "/w/run.rs"),
                ],
            ),
        ]);
        let program = |thread: &str, offset| (thread.to_owned(), Place::Program { offset });
        let libc = ("channel-0-0".to_owned(), Place::Elsewhere(frame("free", "libc.so")));
        let single = BTreeMap::from([
            (program("worker-0", 1), 30),
            (program("worker-0", 2), 10),
            (program("main", 2), 4),
        ]);
        let two = BTreeMap::from([(program("worker-0", 1), 20), (program("worker-1", 1), 20), (libc, 60)]);
        let sums = [single, two].map(|samples| Sums::new(&samples, &functions, &paths, Path::new("/w")));
        let cases = [Case::Single, Case::Nodes(2)];
        let expected = "\
| CPU time, `single` = 100 | `single` | 2 nodes |
| --- | --- | --- |
| **worker** | 100.0 | 100.0 |
| rows | 75.0 | 100.0 |
| rest | 25.0 | 0.0 |
| **channel** | 0.0 | 150.0 |
| rest | 0.0 | 150.0 |
| **total** | 100.0 | 250.0 |
| other threads | 10.0 | 0.0 |

worker, rest, `single`:
  25.0 step (driver.rs)
channel, rest, 2 nodes:
  150.0 free (libc.so)
";
        assert_eq!(render(&cases, &sums, &paths, false), expected);
        let all = render(&cases, &sums, &paths, true);
        assert!(all.contains("worker, rows, 2 nodes:\n  100.0 row (row.rs)\n"), "{all}");
        assert!(all.contains("other threads, `single`:\n  10.0 step (driver.rs)\n"), "{all}");
    }
}
