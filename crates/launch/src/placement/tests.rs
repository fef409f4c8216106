//! Environments that launchers made (Slurm 22.05, Open MPI 4.1), and the places that follow from them.
//! Variables that have nothing to do with places, or that show where they were recorded, are left out.

use super::step::PORTS;
use super::*;
use std::collections::BTreeMap;

const SRUN: &str = include_str!("recorded/srun-4-nodes.task-3");
const SRUN_CYCLIC: &str = include_str!("recorded/srun-3-nodes-5-tasks-cyclic.task-4");
const SRUN_ONE_MACHINE: &str = include_str!("recorded/srun-1-node-2-tasks.task-1");
const SRUN_ONE_TASK: &str = include_str!("recorded/srun-1-task");
const SRUN_PTY: &str = include_str!("recorded/srun-pty.task-0");
const SBATCH: &str = include_str!("recorded/sbatch-shell");
const SALLOC: &str = include_str!("recorded/salloc-shell");
const MPIRUN: &str = include_str!("recorded/mpirun-2.rank-1");
const MPIRUN_IN_SLURM: &str = include_str!("recorded/mpirun-in-slurm.rank-3");

type Changes<'a> = &'a [(&'a str, &'a str)];

const OURS: Changes<'_> =
    &[("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "10.0.0.1"), ("MASTER_PORT", "29500")];

/// The place that a process with number 7 reads from a recorded environment, after changes. An empty value
/// removes a variable.
fn read(recorded: &str, changes: Changes<'_>) -> Result<Option<Placement>, RendezvousError> {
    let mut variables: BTreeMap<&str, &str> =
        recorded.lines().filter_map(|line| line.split_once('=')).collect();
    for &(name, value) in changes {
        match value {
            "" => variables.remove(name),
            value => variables.insert(name, value),
        };
    }
    place(&Environment { lookup: &|name| variables.get(name).map(|&value| value.to_owned()), process: 7 })
}

#[track_caller]
fn found(recorded: &str, changes: Changes<'_>) -> Placement {
    read(recorded, changes).expect("it makes sense").expect("there is a launcher")
}

#[track_caller]
fn refused(recorded: &str, changes: Changes<'_>, parts: &[&str]) {
    let error = read(recorded, changes).expect_err("it makes no sense").to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

fn slurm_node(name: &str) -> Host {
    Host::SlurmNode(name.to_owned())
}

fn named(name: &str) -> Host {
    Host::Named(name.to_owned())
}

/// Rank and number of nodes, in the cluster and on this machine.
fn numbers(place: &Placement) -> (u16, usize, usize, usize) {
    (place.rank.0, place.nodes, place.local_rank, place.local_nodes)
}

#[test]
fn a_task_of_srun_finds_its_place() {
    let place = found(SRUN, &[]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::Slurm, (3, 4, 0, 1)));
    assert_eq!(place.host, slurm_node("n1"));
    assert!(PORTS.contains(&place.port));

    // Five tasks on three machines, of which the second has two.
    let place = found(SRUN_CYCLIC, &[]);
    assert_eq!((numbers(&place), place.host), ((4, 5, 1, 2), slurm_node("n1")));
    let last = found(SRUN_CYCLIC, &[("SLURM_PROCID", "2"), ("SLURM_NODEID", "2"), ("SLURM_LOCALID", "0")]);
    assert_eq!(numbers(&last), (2, 5, 0, 1));
    let elsewhere = found(SRUN, &[("SLURM_STEP_NODELIST", "gpu[07-09,12]")]);
    assert_eq!(elsewhere.host, slurm_node("gpu07"));
}

#[test]
fn tasks_on_one_machine_meet_on_loopback() {
    let place = found(SRUN_ONE_MACHINE, &[]);
    assert_eq!((numbers(&place), place.host), ((1, 2, 1, 2), named("127.0.0.1")));
    let place = found(MPIRUN, &[]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::OpenMpi, (1, 2, 1, 2)));
    assert_eq!(place.host, named("127.0.0.1"));
}

#[test]
fn steps_of_a_job_and_jobs_have_different_ports_and_all_their_tasks_the_same() {
    let port = |changes| found(SRUN, changes).port;
    let first = port(&[]);
    assert_eq!(first, port(&[("SLURM_PROCID", "0"), ("SLURM_NODEID", "0"), ("SLURMD_NODENAME", "n1")]));
    assert_ne!(first, port(&[("SLURM_STEP_ID", "1")]));
    assert_ne!(first, port(&[("SLURM_JOB_ID", "2")]));
    assert_eq!(port(&[("SLURM_STEP_RESV_PORTS", "12004-12007")]), 12004);
    assert_eq!(port(&[("SLURM_STEP_RESV_PORTS", "12004-12007"), ("MASTER_PORT", "4711")]), 4711);
    refused(SRUN, &[("SLURM_STEP_RESV_PORTS", "(null)")], &["SLURM_STEP_RESV_PORTS is '(null)'"]);
    let of_mpi = |changes| found(MPIRUN, changes).port;
    assert_eq!(of_mpi(&[]), of_mpi(&[("OMPI_COMM_WORLD_RANK", "0"), ("PMIX_RANK", "0")]));
    assert_ne!(of_mpi(&[]), of_mpi(&[("PMIX_NAMESPACE", "prterun-vm-3@1")]));
}

#[test]
fn one_process_within_a_job_is_alone() {
    for shell in [SBATCH, SALLOC, SRUN_ONE_TASK] {
        assert_eq!(read(shell, &[]).expect("fine"), None, "{shell}");
        // A batch script exports these for its `srun`.
        let exported = [("MASTER_ADDR", "n1"), ("MASTER_PORT", "29500")];
        assert_eq!(read(shell, &exported).expect("fine"), None, "{shell}");
        // A part of a place is an error there too.
        refused(shell, &[("RANK", "0")], &["WORLD_SIZE is not set although RANK is"]);
    }
    let one = [("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")];
    assert_eq!(read(MPIRUN, &one).expect("fine"), None);
    // The daemon of that `mpirun` is one task of four.
    assert_eq!(read(MPIRUN_IN_SLURM, &one).expect("fine"), None);
}

#[test]
fn a_shell_in_a_terminal_of_srun_is_none_of_its_tasks() {
    assert_eq!(read(SRUN_PTY, &[]).expect("fine"), None);
    // But a program that `srun --pty` itself starts is a task.
    assert_eq!(numbers(&found(SRUN_PTY, &[("SLURM_TASK_PID", "7")])), (0, 4, 0, 2));
}

#[test]
fn mpirun_counts_within_a_slurm_job() {
    let place = found(MPIRUN_IN_SLURM, &[]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::OpenMpi, (3, 4, 1, 2)));
    assert_eq!(place.host, slurm_node("n1"));
}

#[test]
fn mpirun_on_several_machines_must_be_told_where_rank_0_is() {
    let spread = ("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
    refused(MPIRUN, &[spread], &["mpirun", "1 of 2", "-x MASTER_ADDR=", "INTENDANT_TOKEN_FILE"]);
    let place = found(MPIRUN, &[spread, ("MASTER_ADDR", "h1")]);
    assert_eq!((place.host, place.port), (named("h1"), found(MPIRUN, &[]).port));
    let place = found(MPIRUN, &[("MASTER_ADDR", "h1"), ("MASTER_PORT", "9")]);
    assert_eq!((place.host, place.port), (named("h1"), 9));
}

#[test]
fn what_our_launcher_says_has_priority() {
    for recorded in [SRUN, MPIRUN, SBATCH, SRUN_PTY, MPIRUN_IN_SLURM] {
        let place = found(recorded, &[OURS, &[("LOCAL_WORLD_SIZE", "2"), ("LOCAL_RANK", "1")]].concat());
        assert_eq!((place.launcher, numbers(&place)), (Launcher::Variables, (1, 4, 1, 2)));
        assert_eq!((place.host, place.port), (named("10.0.0.1"), 29500));
    }
}

#[test]
fn a_part_of_it_may_add_to_a_launcher_but_not_contradict_it() {
    let place = found(SRUN, &[("WORLD_SIZE", "4"), ("RANK", "3"), ("MASTER_ADDR", "n1-ib")]);
    assert_eq!((place.rank.0, place.host), (3, named("n1-ib")));
    refused(SRUN, &[("WORLD_SIZE", "8")], &["WORLD_SIZE is '8'", "srun", "SLURM_STEP_NUM_TASKS", "4"]);
    refused(SRUN, &[("RANK", "0")], &["RANK is '0'", "SLURM_PROCID", "3"]);
    refused(MPIRUN, &[("WORLD_SIZE", "1")], &["WORLD_SIZE is '1'", "mpirun", "OMPI_COMM_WORLD_SIZE"]);
}

#[test]
fn launchers_can_be_ignored() {
    for recorded in [SRUN, MPIRUN] {
        assert_eq!(read(recorded, &[("INTENDANT_LAUNCHER", "none")]).expect("fine"), None);
        refused(recorded, &[("INTENDANT_LAUNCHER", "slurm")], &["INTENDANT_LAUNCHER is 'slurm'"]);
    }
}

#[test]
fn a_launcher_that_speaks_only_pmix_needs_the_size_and_the_address() {
    let pmix = "PMIX_RANK=2\nPMIX_NAMESPACE=prterun-vm-3@1";
    refused(pmix, &[], &["WORLD_SIZE is not set although PMIX_RANK is"]);
    refused(pmix, &[("WORLD_SIZE", "3")], &["a PMIx launcher", "MASTER_ADDR"]);
    let place = found(pmix, &[("WORLD_SIZE", "3"), ("MASTER_ADDR", "h1")]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::Pmix, (2, 3, 0, 1)));
    refused(pmix, &[("WORLD_SIZE", "2"), ("MASTER_ADDR", "h1")], &["PMIX_RANK is 2", "ranks are 0 to 1"]);
}

#[test]
fn what_makes_no_sense_is_told_with_its_variable() {
    refused(SRUN, &[("SLURM_STEP_NUM_TASKS", "2000")], &["SLURM_STEP_NUM_TASKS is '2000'", "to 1024"]);
    refused(SRUN, &[("SLURM_PROCID", "x")], &["SLURM_PROCID is 'x'"]);
    refused(SRUN, &[("SLURM_PROCID", "4")], &["SLURM_PROCID is 4", "ranks are 0 to 3"]);
    refused(SRUN, &[("SLURM_STEP_NODELIST", "n[1-")], &["SLURM_STEP_NODELIST is 'n[1-'"]);
    refused(SRUN, &[("SLURM_STEP_NODELIST", "")], &["SLURM_STEP_NODELIST is not set although"]);
    refused(MPIRUN, &[("OMPI_COMM_WORLD_SIZE", "")], &["OMPI_COMM_WORLD_SIZE is not set although"]);
}

#[test]
fn a_process_of_mpich_or_intel_mpi_needs_a_port_and_on_several_machines_an_address() {
    // Hydra 4.0, two processes on this machine.
    let hydra = "PMI_RANK=1\nPMI_FD=7\nPMI_SIZE=2\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2";
    refused(hydra, &[], &["mpiexec (PMI)", "rank 1 of 2", "MASTER_PORT", "-genv MASTER_PORT 29500"]);
    let place = found(hydra, &[("MASTER_PORT", "29500")]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::Pmi, (1, 2, 1, 2)));
    assert_eq!((place.host, place.port), (named("127.0.0.1"), 29500));
    let spread = [("MPI_LOCALNRANKS", "1"), ("MASTER_PORT", "29500")];
    refused(hydra, &spread, &["mpiexec (PMI)", "-genv MASTER_ADDR HOST", "INTENDANT_TOKEN_FILE"]);
    refused(hydra, &[("PMI_SIZE", "")], &["PMI_SIZE is not set although PMI_RANK is"]);
    refused(hydra, &[("PMI_RANK", "2"), ("MASTER_PORT", "1")], &["PMI_RANK is 2", "ranks are 0 to 1"]);
    assert_eq!(read(hydra, &[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).expect("fine"), None);
    assert_eq!(read(hydra, &[("INTENDANT_LAUNCHER", "none")]).expect("fine"), None);
}

#[test]
fn of_srun_and_mpiexec_the_inner_one_counts() {
    let pmi2 = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
    assert_eq!(found(SRUN, &pmi2).launcher, Launcher::Slurm);
    let hydra = [("PMI_RANK", "5"), ("PMI_SIZE", "8"), ("MASTER_PORT", "29500")];
    let place = found(SRUN, &hydra);
    assert_eq!((place.launcher, place.rank.0, place.nodes), (Launcher::Pmi, 5, 8));
    assert_eq!(place.host, slurm_node("n1"));
    assert_eq!(read(SRUN_PTY, &pmi2).expect("fine"), None);
}

#[test]
fn a_pod_of_an_indexed_job_needs_the_number_of_pods_and_an_address() {
    let pod = "JOB_COMPLETION_INDEX=2";
    refused(pod, &[], &["WORLD_SIZE is not set although JOB_COMPLETION_INDEX is", "INTENDANT_LAUNCHER=none"]);
    refused(pod, &[("WORLD_SIZE", "4")], &["Kubernetes", "rank 2 of 4", "MASTER_ADDR"]);
    let place = found(pod, &[("WORLD_SIZE", "4"), ("MASTER_ADDR", "job-0.job")]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::Kubernetes, (2, 4, 0, 1)));
    assert_eq!((place.host, place.port), (named("job-0.job"), 29500));
    refused(pod, &[("WORLD_SIZE", "2"), ("MASTER_ADDR", "h")], &["JOB_COMPLETION_INDEX is 2", "0 to 1"]);
    let one = [("JOB_COMPLETION_INDEX", "0"), ("WORLD_SIZE", "1")];
    assert_eq!(read(pod, &one).expect("fine"), None);
    assert_eq!(read(pod, &[("INTENDANT_LAUNCHER", "none")]).expect("fine"), None);
}

/// The variables that torchrun 2.5 sets with `--standalone --no-python --nproc-per-node 2`.
const TORCHRUN: &str = "LOCAL_RANK=1\nRANK=1\nGROUP_RANK=0\nROLE_RANK=1\nROLE_NAME=default\n\
                        LOCAL_WORLD_SIZE=2\n\
                        WORLD_SIZE=2\nGROUP_WORLD_SIZE=1\nROLE_WORLD_SIZE=2\nMASTER_ADDR=machine.example\n\
                        MASTER_PORT=41327\nTORCHELASTIC_RESTART_COUNT=0\nTORCHELASTIC_MAX_RESTARTS=0\n\
                        TORCHELASTIC_RUN_ID=3f2a\nTORCHELASTIC_USE_AGENT_STORE=True";

#[test]
fn nodes_of_torchrun_do_not_meet_where_its_agent_listens() {
    let place = found(TORCHRUN, &[]);
    assert_eq!((place.launcher, numbers(&place)), (Launcher::Torchrun, (1, 2, 1, 2)));
    assert_eq!(place.host, named("127.0.0.1"));
    assert!(PORTS.contains(&place.port));
    assert_eq!(place.port, found(TORCHRUN, &[("RANK", "0"), ("LOCAL_RANK", "0")]).port);
    assert_ne!(place.port, found(TORCHRUN, &[("TORCHELASTIC_RUN_ID", "other")]).port);
    let several = found(TORCHRUN, &[("LOCAL_WORLD_SIZE", "1")]);
    assert_eq!((several.host, several.port), (named("machine.example"), place.port));
    assert_eq!(found(TORCHRUN, &[("INTENDANT_MASTER_PORT", "4711")]).port, 4711);
    assert_eq!(found(TORCHRUN, &[("TORCHELASTIC_USE_AGENT_STORE", "False")]).port, 41327);
}
