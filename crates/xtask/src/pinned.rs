//! The tasks of `bench-configs/measured/pinned.toml`, and how they run with equal means per node.
//!
//! Each node has one core and one worker; technique `single` has all its threads on one core.

use crate::{pinning, process};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// Cores that are used. More nodes than these share them.
pub(crate) const CORES: usize = 2;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    tasks: Vec<Task>,
}

/// A task, and the clusters that it is measured on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    /// The name by which options choose it.
    pub(crate) id: String,
    /// What it trains, for tables.
    pub(crate) name: String,
    /// Package of the application.
    pub(crate) program: String,
    /// `builtin:…`, or a file or folder of `--data-dir`.
    data: String,
    args: Vec<String>,
    pub(crate) clusters: Vec<Goals>,
}

/// A cluster, and what it should reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Goals {
    pub(crate) nodes: usize,
    /// Seconds of `single` over seconds.
    pub(crate) speed_up_at_least: Option<f64>,
    /// CPU seconds over those of `single`.
    pub(crate) cpu_at_most: Option<f64>,
    /// Loss of the last epoch over that of `single`.
    pub(crate) loss_at_most: Option<f64>,
}

/// What trains a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// Technique `single` with all its threads on one core.
    Single,
    /// So many nodes with the default technique. The first nodes have a core each; others share them.
    Nodes(usize),
}

impl Case {
    /// Whether each node has a core of its own, so that seconds can be compared.
    pub(crate) const fn has_cores(self) -> bool {
        match self {
            Self::Single => true,
            Self::Nodes(nodes) => nodes <= CORES,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Single => formatter.write_str("`single`"),
            Self::Nodes(1) => formatter.write_str("1 node"),
            Self::Nodes(nodes) if self.has_cores() => write!(formatter, "{nodes} nodes"),
            Self::Nodes(nodes) => write!(formatter, "{nodes} nodes on {CORES} cores"),
        }
    }
}

impl Task {
    /// The value of `--data`, or why the data is not there.
    fn data(&self, folder: Option<&Path>) -> Result<String, String> {
        if self.data.starts_with("builtin:") {
            return Ok(self.data.clone());
        }
        let Some(folder) = folder else {
            return Err(format!("{} is not built in; name its folder by --data-dir", self.data));
        };
        let path = folder.join(&self.data);
        if path.exists() { Ok(path.display().to_string()) } else { Err(format!("no {}", path.display())) }
    }

    /// The command that trains the task with the release programs of the build folder `target`.
    pub(crate) fn command(
        &self,
        case: Case,
        target: &Path,
        folder: Option<&Path>,
    ) -> Result<Command, String> {
        let data = self.data(folder)?;
        let program = process::program_in(target, &self.program, true);
        let mut command = match case {
            Case::Single | Case::Nodes(1) => pinning::alone(&program),
            Case::Nodes(nodes) => {
                let launcher = process::program_in(target, "intendant", true);
                pinning::cluster(&launcher, nodes, CORES, &program)
            }
        };
        command.args(["--data", &data]).args(&self.args);
        command.args(["--valid-every", "0", "--workers", "1", "--no-progress"]);
        match case {
            Case::Single => command.args(["--nodes", "1", "--technique", "single"]),
            Case::Nodes(1) => command.args(["--nodes", "1"]),
            Case::Nodes(_) => &mut command,
        };
        Ok(command)
    }
}

/// The tasks for which `wanted` holds and whose data is there; the others are named.
pub(crate) fn tasks(wanted: impl Fn(&Task) -> bool, folder: Option<&Path>) -> Result<Vec<Task>, String> {
    let path = process::root().join("bench-configs/measured/pinned.toml");
    let wrong = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    let List { mut tasks } = toml::from_str(&text).map_err(|error| wrong(&error))?;
    tasks.retain(wanted);
    let named = !tasks.is_empty();
    tasks.retain(|task| {
        let absent = task.data(folder).err();
        if let Some(reason) = &absent {
            println!("skipped: {}: {reason}", task.name);
        }
        absent.is_none()
    });
    match tasks.is_empty() {
        true if named => Err("none of these tasks has its data here".to_owned()),
        true => Err(format!("{} has no such task", path.display())),
        false => Ok(tasks),
    }
}

/// The packages of the programs that the tasks need.
pub(crate) fn packages(tasks: &[Task]) -> impl Iterator<Item = &str> {
    tasks.iter().map(|task| task.program.as_str()).chain(["intendant-cli"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Task {
        tasks(|task| task.id == "words", None).expect("a list").remove(0)
    }

    fn line(case: Case) -> String {
        format!("{:?}", words().command(case, Path::new("target"), None).expect("built in")).replace('"', "")
    }

    #[test]
    fn each_case_has_its_cores_and_technique() {
        let single = line(Case::Single);
        assert!(
            single.starts_with("taskset -c 0 target/release/intendant-word2vec --data builtin:"),
            "{single}"
        );
        assert!(single.ends_with("--workers 1 --no-progress --nodes 1 --technique single"), "{single}");
        let one = line(Case::Nodes(1));
        assert_eq!(one, single.replace(" --technique single", ""));
        let four = line(Case::Nodes(4));
        assert!(four.starts_with("target/release/intendant launch -n 4 -- sh -c exec taskset"), "{four}");
        assert!(four.contains("RANK % 2") && !four.contains("--nodes"), "{four}");
    }

    #[test]
    fn the_list_has_the_tasks_of_the_table_and_sane_goals() {
        let all = tasks(|_| true, None).expect("a list");
        let ids: Vec<&str> = all.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "words",
                "mf-small",
                "mf-large",
                "kge-10k",
                "kge-300k",
                "lda",
                "lr",
                "codex-s",
                "kge-300k-default"
            ]
        );
        for task in &all {
            let nodes: Vec<usize> = task.clusters.iter().map(|goals| goals.nodes).collect();
            assert!(nodes.starts_with(&[1, 2]) && nodes.is_sorted(), "{}", task.id);
            for goals in &task.clusters {
                let has_cores = Case::Nodes(goals.nodes).has_cores();
                assert!(has_cores || goals.speed_up_at_least.is_none(), "{}: nodes share cores", task.id);
            }
        }
    }

    #[test]
    fn data_that_is_absent_is_named() {
        let task = Task { data: "no-such-file".to_owned(), ..words() };
        assert!(task.data(None).expect_err("no folder").contains("--data-dir"));
        let folder = process::root();
        let error = task.data(Some(&folder)).expect_err("no file");
        assert!(error.ends_with("no-such-file"), "{error}");
        let task = Task { data: "Cargo.toml".to_owned(), ..task };
        assert_eq!(task.data(Some(&folder)), Ok(folder.join("Cargo.toml").display().to_string()));
        assert_eq!(
            tasks(|task| task.id == "fb15k-237", None).expect_err("skipped"),
            "none of these tasks has its data here"
        );
        assert!(tasks(|_| false, None).expect_err("none").contains("pinned.toml has no such task"));
    }
}
