//! `cargo xtask validate-sim`: runs tasks as processes on this machine and in the simulator, with the
//! constants of `cargo xtask calibrate`, and compares what both report.
//!
//! Each node has one worker, one channel and one loader. All threads of a node run on one core: nodes of the
//! real cluster are pinned, and the simulated machine has `nodes_per_core`. Real runs and simulations take
//! turns, each simulation with a seed of its own delays; medians are compared.

use super::cluster::{Cluster, Net, check_limited};
use super::table::{Row, render};
use super::{Workload, calibrate, json, programs, shown_in_page, workloads};
use crate::{pinning, process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compare simulated with real runs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder with the files of `cargo xtask calibrate` [default: where it writes them]
    #[arg(long, value_name = "DIR")]
    calibrated: Option<PathBuf>,
    /// Number of real runs of each row; medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Epochs of each run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    epochs: u16,
    /// Only tasks whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Techniques
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "classic,lapse,adaptive")]
    techniques: Vec<String>,
    /// Numbers of nodes
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,4")]
    nodes: Vec<usize>,
    /// Do not use the rate-limited network
    #[arg(long)]
    loopback_only: bool,
    /// Write the table to docs/simulator.md
    #[arg(long)]
    write: bool,
    /// Do not build the programs
    #[arg(long)]
    no_build: bool,
}

/// Compares, and prints the table. What is not within the bounds is no failure of the command: it is a
/// result.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let tasks = workloads(&args.only)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    pinning::check(cores)?;
    programs(&tasks, !args.no_build)?;
    let calibrated = args.calibrated.clone().unwrap_or_else(calibrate::place);
    let mut nets = vec![Net::Loopback];
    if !args.loopback_only {
        match check_limited() {
            Ok(()) => nets.push(Net::Limited),
            Err(reason) => println!("skipped: there is no rate-limited network here: {reason}"),
        }
    }
    let mut rows = Vec::new();
    for net in nets {
        for &nodes in &args.nodes {
            for task in &tasks {
                for technique in &args.techniques {
                    let row = compare(args, task, technique, Cluster { nodes, net, cores }, &calibrated)?;
                    println!("{}", render(std::slice::from_ref(&row)).lines().nth(2).unwrap_or_default());
                    rows.push(row);
                }
            }
        }
    }
    let table = render(&rows);
    println!("\n{table}");
    if args.write { shown_in_page("cargo xtask validate-sim --write", &table) } else { Ok(()) }
}

fn compare(
    args: &Args,
    task: &Workload,
    technique: &str,
    cluster: Cluster,
    calibrated: &Path,
) -> Result<Row, String> {
    let mut flags = task.args(0, usize::from(args.epochs));
    flags.extend(["--technique".to_owned(), technique.to_owned()]);
    let program = process::program(&task.name, true);
    let simulated = cluster.simulated(&task.name, calibrated)?;
    let (mut real_reports, mut simulated_reports): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for seed in 1..=args.runs {
        let flags = [&flags[..], &["--seed".to_owned(), seed.to_string()]].concat();
        real_reports.push(json(&mut cluster.command(&program, &flags), "--report")?);
        simulated_reports.push(json(Command::new(&program).args(&flags).args(&simulated), "--report")?);
    }
    let name = format!("{}, {technique}, {} nodes, {}", task.name, cluster.nodes, cluster.net.name());
    Row::new(name, &real_reports, &simulated_reports)
}
