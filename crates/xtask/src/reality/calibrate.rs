//! `cargo xtask calibrate`: measures the constants of this machine, and writes them as files for `--machine`
//! and `--net`.
//!
//! Every constant is a slope or an intercept of two measurements of different sizes, and a median over
//! several runs. Times are CPU times where possible, because they depend less on other load. Negative results
//! of noise count as 0.
//!
//! **Workers**, from `intendant-bench local`, the mean of a pull and a push, with 10,000 keys:
//!
//! | field | from |
//! | --- | --- |
//! | `byte_ps` | 128 keys per call, values of 512 and of 16 elements |
//! | `key_ns` | values of 16 elements, 128 keys per call and 1, without their bytes |
//! | `call_ns` | the call with 1 key, without its key and its bytes |
//!
//! **Channels**, from `intendant-bench remote --op pull` over TCP, CPU time of both processes, which share a
//! core (`--cores together`) unless stated otherwise. A pull is a call of the worker, three inputs of
//! channels (submission, request, response), two frames, and a copy at the worker. A single pull wakes four
//! threads (each channel, the first one twice, and the worker); 64 concurrent ones wake practically none.
//! "Single" below is one pull at a time of values of 16 elements.
//!
//! | field | from |
//! | --- | --- |
//! | `wake_ns` | single, 1 key, and 64 concurrent pulls; the mean of a busy and an idle core (`apart`) |
//! | `channel_byte_ps` | single, 128 keys, and values of 512: a byte is sent, received, and copied |
//! | `input_key_ns` | single, 128 keys and 1: a key is in three inputs and in the worker's call |
//! | `input_ns`, `send_ns` | 64 concurrent pulls of 1 key; an input and a frame are taken to cost the same |
//!
//! **Tasks**, from the applications, on one node with one worker (`--technique classic`, whose workers train
//! rows of the store in place; `single` has no store), at two sizes, CPU time of the second epoch. The
//! simulator counts: a simulation in which only one constant is not zero takes this constant times the number
//! of its occurrences. With the constants above, the two measurements are two equations for the two unknowns:
//!
//! | field | from |
//! | --- | --- |
//! | `multiply_add_ps` | slope: the difference of both sizes |
//! | `prepare_ns` | intercept: the remainder per batch |
//!
//! Tasks differ in their loops, so each has its own machine file. `prepare_ns` includes what workers do per
//! batch beside calls and multiply-adds. This does not matter where a loader shares its worker's core.
//!
//! **Network**: loopback has no NIC. Its copies are the channels' work, so its bandwidth is set so high that
//! it does not count, and its latency is 0. Spread and tail are not measured, and are 0.

use super::{Workload, json, median, programs, scratch, workloads, write};
use crate::process;
use intendant_sim::Machine;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measure the constants of this machine for simulations.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of the files machine-TASK.toml and net-loopback.toml [default: calibrated in cargo's build
    /// folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of measurements of each quantity; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Seconds of each measurement of an operation
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Do not build the programs
    #[arg(long)]
    no_build: bool,
}

/// Elements of short and long values, and their bytes.
const SHORT: usize = 16;
const LONG: usize = 512;
const ELEMENT_BYTES: f64 = 4.0;
/// Keys of a large call.
const MANY: usize = 128;
/// Concurrent calls.
const CONCURRENT: usize = 64;
/// Gbit/s of a network that never is the bottleneck.
const UNLIMITED: f64 = 10_000.0;

/// Where `calibrate` writes by default.
pub(crate) fn place() -> PathBuf {
    process::target().join("calibrated")
}

/// Path of a task's machine file.
pub(crate) fn machine_file(folder: &Path, task: &str) -> PathBuf {
    folder.join(format!("machine-{task}.toml"))
}

/// Measures, and writes the files.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let tasks = workloads("")?;
    programs(&tasks, !args.no_build)?;
    let folder = args.out.clone().unwrap_or_else(place);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let operations = Operations::measure(args)?;
    let machine = operations.machine();
    for task in &tasks {
        let machine = of_task(task, machine, args.runs)?;
        let text = format!(
            "# This machine with {}, measured by `cargo xtask calibrate`.\n\n{}",
            task.name,
            toml::to_string(&machine).map_err(|error| error.to_string())?
        );
        let path = machine_file(&folder, &task.name);
        println!("== {}\n{text}", path.display());
        write(&path, &text)?;
    }
    let text = network_file(UNLIMITED, 0.0, 0);
    let path = folder.join("net-loopback.toml");
    println!("== {}\n{text}", path.display());
    write(&path, &text)
}

/// The text of a network file.
pub(crate) fn network_file(gigabits: f64, latency_us: f64, frame_bytes: u64) -> String {
    format!(
        "gigabits_per_second = {gigabits:.6}\nlatency_us = {latency_us:.3}\nspread_us = 0\ntail_once_in = 0\n\
         frame_bytes = {frame_bytes}\n"
    )
}

/// Medians of what `intendant-bench` measured, ns per call unless stated otherwise.
#[derive(Clone, Copy, Debug)]
struct Operations {
    /// A local call: one short value, many short ones, many long ones.
    local: [f64; 3],
    /// A remote pull of the same, CPU time.
    remote: [f64; 3],
    /// The same of one short value, with processes on cores of their own.
    apart: f64,
    /// One of many concurrent remote pulls of one short value, CPU time.
    concurrent: f64,
}

impl Operations {
    fn measure(args: &Args) -> Result<Self, String> {
        let mut runs = Vec::new();
        for run in 1..=args.runs {
            println!("operations, run {run} of {}", args.runs);
            let mut all = Self { local: [0.0; 3], remote: [0.0; 3], concurrent: 0.0, apart: 0.0 };
            for (at, (len, batch)) in [(SHORT, 1), (SHORT, MANY), (LONG, MANY)].into_iter().enumerate() {
                let per_call = |row: &Value, field| Ok::<f64, String>(number(row, field)? * batch as f64);
                let rows = bench(args, &["local"], len, batch)?;
                let cpu: Result<Vec<f64>, String> =
                    rows.iter().map(|row| per_call(row, "cpu_ns_per_key")).collect();
                let cpu = cpu?;
                all.local[at] = cpu.iter().sum::<f64>() / cpu.len() as f64;
                all.remote[at] = remote(args, "together", len, batch, 1)?;
            }
            all.concurrent = remote(args, "together", SHORT, 1, CONCURRENT)?;
            all.apart = remote(args, "apart", SHORT, 1, 1)?;
            runs.push(all);
        }
        let of = |field: &dyn Fn(&Self) -> f64| median(&runs.iter().map(field).collect::<Vec<_>>());
        Ok(Self {
            local: [0, 1, 2].map(|at| of(&|run| run.local[at])),
            remote: [0, 1, 2].map(|at| of(&|run| run.remote[at])),
            concurrent: of(&|run| run.concurrent),
            apart: of(&|run| run.apart),
        })
    }

    /// The constants of workers and channels; no arithmetic, no preparation.
    fn machine(&self) -> Machine {
        let short = SHORT as f64 * ELEMENT_BYTES;
        let per_byte = |all: &[f64; 3]| (all[2] - all[1]) / (MANY * (LONG - SHORT)) as f64 / ELEMENT_BYTES;
        let per_key = |all: &[f64; 3]| (all[1] - all[0]) / (MANY - 1) as f64;
        let byte = per_byte(&self.local).max(0.0);
        let key = (per_key(&self.local) - short * byte).max(0.0);
        let call = (self.local[0] - key - short * byte).max(0.0);
        let channel_byte = ((per_byte(&self.remote) - byte) / 2.0).max(0.0);
        let bytes = short * (byte + 2.0 * channel_byte);
        let input_key = ((per_key(&self.remote) - key - bytes) / 3.0).max(0.0);
        let message = ((self.concurrent - call - key - bytes - 3.0 * input_key) / 5.0).max(0.0);
        let wake = ((f64::midpoint(self.remote[0], self.apart) - self.concurrent) / 4.0).max(0.0);
        let round = |number: f64| number.round() as u64;
        Machine {
            call_ns: round(call),
            key_ns: round(key),
            byte_ps: round(byte * 1e3),
            wake_ns: round(wake),
            input_ns: round(message),
            input_key_ns: round(input_key),
            send_ns: round(message),
            channel_byte_ps: round(channel_byte * 1e3),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            ..Machine::infinitely_fast()
        }
    }
}

/// CPU time of a remote pull of `batch` values with `len` elements, of which several are under way.
fn remote(args: &Args, cores: &str, len: usize, batch: usize, in_flight: usize) -> Result<f64, String> {
    let concurrent = in_flight.to_string();
    let mode = ["remote", "--op", "pull", "--transport", "tcp", "--cores", cores, "--in-flight", &concurrent];
    let rows = bench(args, &mode, len, batch)?;
    let row = rows.first().ok_or("intendant-bench remote wrote no row")?;
    Ok(number(row, "cpu_ns_per_key")? * batch as f64)
}

fn bench(args: &Args, mode: &[&str], len: usize, batch: usize) -> Result<Vec<Value>, String> {
    let mut command = Command::new(process::program("intendant-bench", true));
    command.args(mode).args(["--len", &len.to_string(), "--batch", &batch.to_string(), "--keys", "10000"]);
    command.args(["--seconds", &args.seconds.to_string(), "--rounds", "3"]);
    let rows = json(&mut command, "--json")?;
    rows.as_array().cloned().ok_or_else(|| "intendant-bench wrote no rows".to_owned())
}

fn number(row: &Value, field: &str) -> Result<f64, String> {
    row[field].as_f64().ok_or_else(|| format!("the report has no number {field}"))
}

/// Adds the constants of a task's arithmetic and preparation.
fn of_task(task: &Workload, machine: Machine, runs: u16) -> Result<Machine, String> {
    let mut equations = [Equation::default(); 2];
    for (size, equation) in equations.iter_mut().enumerate() {
        let args = task.args(size, 2);
        let epoch = |command: &mut Command, field| {
            let report = json(command, "--report")?;
            number(&report["epochs"][1], field).map_err(|error| format!("{}: {error}", task.name))
        };
        let program = process::program(&task.name, true);
        let mut cpu = Vec::new();
        for run in 1..=runs {
            println!("{} {}, run {run} of {runs}", task.name, args.join(" "));
            cpu.push(epoch(
                Command::new(&program).args(&args).args(["--technique", "classic"]),
                "cpu_seconds",
            )?);
        }
        let simulated = |machine: Machine| {
            let [net, file] =
                ["net-none.toml", "machine-unit.toml"].map(|name| scratch().map(|at| at.join(name)));
            let (net, file) = (net?, file?);
            write(&net, &network_file(UNLIMITED, 0.0, 0))?;
            let text = toml::to_string(&Machine { cores: 0, nodes_per_core: 1, ..machine });
            write(&file, &text.map_err(|error| error.to_string())?)?;
            let mut command = Command::new(&program);
            command.args(&args).args(["--technique", "classic", "--simulate", "--net"]).arg(net);
            epoch(command.arg("--machine").arg(file), "seconds")
        };
        const UNIT: u64 = 1_000_000;
        let none = Machine::infinitely_fast();
        *equation = Equation {
            seconds: median(&cpu) - simulated(machine)?,
            multiply_adds: simulated(Machine { multiply_add_ps: UNIT, ..none })? / UNIT as f64,
            batches: simulated(Machine { prepare_ns: UNIT, ..none })? / UNIT as f64,
        };
    }
    let (multiply_add, prepare) = solve(equations);
    let round = |number: f64| number.max(0.0).round() as u64;
    Ok(Machine { multiply_add_ps: round(multiply_add), prepare_ns: round(prepare), ..machine })
}

/// `seconds = multiply_adds · multiply_add_ps + batches · prepare_ns`, where the two numbers are in seconds
/// per unit of the constants.
#[derive(Clone, Copy, Debug, Default)]
struct Equation {
    seconds: f64,
    multiply_adds: f64,
    batches: f64,
}

/// `multiply_add_ps` and `prepare_ns`. The second is not negative: if it would be, the first alone explains
/// the smaller size.
fn solve([small, large]: [Equation; 2]) -> (f64, f64) {
    let determinant = small.multiply_adds * large.batches - large.multiply_adds * small.batches;
    let multiply_add = (small.seconds * large.batches - large.seconds * small.batches) / determinant;
    let prepare = (small.seconds - multiply_add * small.multiply_adds) / small.batches;
    if prepare < 0.0 { (small.seconds / small.multiply_adds, 0.0) } else { (multiply_add, prepare) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine with known constants would measure gives these constants.
    #[test]
    fn constants_are_recovered_from_what_they_cause() {
        let machine = Machine {
            call_ns: 20,
            key_ns: 11,
            byte_ps: 90,
            wake_ns: 3_000,
            input_ns: 400,
            input_key_ns: 30,
            send_ns: 400,
            channel_byte_ps: 310,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            ..Machine::infinitely_fast()
        };
        let sizes = [(1, SHORT), (MANY, SHORT), (MANY, LONG)]
            .map(|(keys, len)| (keys as f64, (4 * keys * len) as f64));
        let call = |(keys, bytes): (f64, f64)| 20.0 + 11.0 * keys + 0.09 * bytes;
        let busy =
            |size: (f64, f64)| call(size) + 3.0 * (400.0 + 30.0 * size.0) + 2.0 * (400.0 + 0.31 * size.1);
        let measured = Operations {
            local: sizes.map(call),
            remote: sizes.map(|size| busy(size) + 4.0 * 1_000.0),
            concurrent: busy(sizes[0]),
            apart: busy(sizes[0]) + 4.0 * 5_000.0,
        };
        assert_eq!(measured.machine(), machine);
        assert!(intendant_sim::presets::network_of(&network_file(0.2, 7.0, 66)).is_ok());
        assert!(intendant_sim::presets::machine_of(&toml::to_string(&machine).expect("text")).is_ok());
    }

    #[test]
    fn two_sizes_give_slope_and_intercept() {
        let equation = |multiply_adds, batches, seconds| Equation { seconds, multiply_adds, batches };
        let (slope, intercept) = solve([equation(10.0, 2.0, 70.0), equation(40.0, 2.0, 220.0)]);
        assert!((slope - 5.0).abs() < 1e-9 && (intercept - 10.0).abs() < 1e-9, "{slope} {intercept}");
        let (slope, intercept) = solve([equation(10.0, 2.0, 50.0), equation(40.0, 2.0, 260.0)]);
        assert_eq!((slope, intercept), (5.0, 0.0));
    }
}
