//! Processes as `srun` and `mpirun` start them: the tests set the launchers' environment variables.
//! `scripts/slurm.sh` and `scripts/mpi.sh` do the same with the launchers themselves.

use intendant_apptest::{App, finish, start, unused_port};
use serde_json::Value;
use std::process::{Child, Output};

const KGE: App = App::new(env!("CARGO_BIN_EXE_intendant-kge"));

const QUICK: [&str; 7] = ["--epochs", "1", "--valid-every", "0", "--dim", "8", "-q"];

type Variables = Vec<(&'static str, String)>;

/// A task of a two-task `srun` on two Slurm nodes, the first of which is this machine.
fn task(rank: usize) -> Variables {
    let text = |pairs: &[(&'static str, &str)]| -> Variables {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let mut variables = text(&[
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_NODELIST", "localhost,n[1-3]"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
        ("SLURM_LOCALID", "0"),
    ]);
    variables.push(("SLURM_PROCID", rank.to_string()));
    variables.push(("SLURM_NODEID", rank.to_string()));
    variables
}

/// A rank of an `mpirun` with two ranks on this machine. Its name differs from those of all concurrent runs.
fn rank(rank: usize) -> Variables {
    vec![
        ("OMPI_COMM_WORLD_SIZE", "2".to_owned()),
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2".to_owned()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
        ("PMIX_NAMESPACE", std::process::id().to_string()),
        ("PMIX_RANK", rank.to_string()),
    ]
}

/// Runs a process for each list of variables to its end, all with the same flags.
fn run(processes: impl IntoIterator<Item = Variables>, flags: &[&str]) -> Vec<Output> {
    let started: Vec<Child> = processes
        .into_iter()
        .map(|variables| {
            let mut command = KGE.command(flags);
            command.envs(variables);
            start(command)
        })
        .collect();
    started.into_iter().map(finish).collect()
}

/// The processes' common report.
fn report(processes: impl IntoIterator<Item = Variables>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let flags = [&QUICK[..], &["--report", file.to_str().unwrap()]].concat();
    for output in run(processes, &flags) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// All processes end with exit code 2, and their messages contain all `parts`.
#[track_caller]
fn refused(processes: impl IntoIterator<Item = Variables>, flags: &[&str], parts: &[&str]) {
    for output in run(processes, flags) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn two_processes_of_a_launcher_train_what_two_nodes_do() {
    let port = unused_port().to_string();
    let with_port = |rank| [task(rank), vec![("MASTER_PORT", port.clone())]].concat();
    let plain = KGE.report(&[&QUICK[..6], &["--nodes", "2"]].concat());
    for together in [report((0..2).map(with_port)), report((0..2).map(rank))] {
        for place in ["/nodes", "/data_digest", "/model", "/access/pull_keys", "/epochs/0/examples"] {
            assert_eq!(together.pointer(place), plain.pointer(place), "{place}");
        }
    }
}

#[test]
fn one_process_within_a_job_starts_its_own_nodes() {
    let alone = |mut variables: Variables, changes: &[(&'static str, &str)]| {
        variables.extend(changes.iter().map(|(name, value)| (*name, (*value).to_owned())));
        variables.push(("INTENDANT_NODES", "2".to_owned()));
        report([variables])["nodes"].clone()
    };
    assert_eq!(alone(task(0), &[("SLURM_STEP_NUM_TASKS", "1")]), 2);
    assert_eq!(alone(rank(0), &[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")]), 2);
    // The shell of a batch script itself, with the variables that it exports for `srun`.
    let shell: Variables = task(0).into_iter().filter(|(name, _)| !name.starts_with("SLURM_STEP")).collect();
    assert_eq!(alone(shell, &[("SLURM_NTASKS", "4"), ("MASTER_ADDR", "n1"), ("MASTER_PORT", "29500")]), 2);
}

#[test]
fn what_the_launcher_says_is_not_overruled_by_accident() {
    refused((0..2).map(task), &["--nodes", "3"], &["--nodes is 3", "SLURM_STEP_NUM_TASKS", "one of 2"]);
    refused((0..2).map(rank), &["--nodes", "4"], &["--nodes is 4", "OMPI_COMM_WORLD_SIZE", "one of 2"]);
    let other_size = |rank| [task(rank), vec![("WORLD_SIZE", "4".to_owned())]].concat();
    refused((0..2).map(other_size), &[], &["WORLD_SIZE is '4'", "SLURM_STEP_NUM_TASKS"]);
}

#[test]
fn ranks_on_several_machines_are_told_what_to_set() {
    let spread = |number| [rank(number), vec![("OMPI_COMM_WORLD_LOCAL_SIZE", "1".to_owned())]].concat();
    refused((0..2).map(spread), &[], &["mpirun", "-x MASTER_ADDR=HOST", "-x INTENDANT_TOKEN_FILE=FILE"]);
    let nowhere =
        |rank| [task(rank), vec![("SLURM_STEP_NODELIST", "no-such-host.invalid".to_owned())]].concat();
    refused((0..2).map(nowhere), &[], &["no-such-host.invalid", "set MASTER_ADDR"]);
}
