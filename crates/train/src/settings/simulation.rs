//! `--simulate`: the simulated cluster that the flags ask for.
//!
//! The machines and the network come from presets or files ([`intendant_sim::presets`]).

use super::flag;
use super::headings::SIMULATION;
use super::values::LocalAccess;
use crate::error::{PathDisplay, TrainError};
use intendant_core::Tick;
use intendant_sim::presets::{self, PresetError};
use intendant_sim::{Charge, Delays, Staleness, Unevenness};
use std::num::NonZeroUsize;
use std::path::Path;

/// Larger factors are a mistake: the longest value times this exceeds any machine.
const CHARGE_MAX: f64 = 1e6;

// The flags, as the user typed them. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SimulationArgs {
    /// Train in a simulated cluster: nodes and workers in virtual time, in this process, instead of processes
    /// and threads
    #[arg(long, group = flag::BASIC, help_heading = SIMULATION)]
    pub(crate) simulate: bool,

    /// Network of the simulated cluster: 10gbe, 100gib, 56gib, or a file with the same fields
    /// (docs/experiments.md) [default: 10gbe]
    #[arg(long, group = flag::SIMULATED, value_name = "NAME|FILE.toml", help_heading = SIMULATION)]
    pub(crate) net: Option<String>,

    /// Machines of the simulated cluster: xeon-e5-2640v2, xeon-silver-4216, xeon-silver-4216-petuum,
    /// xeon-e5-36-cores, or a file with the same fields [default: the machines that the papers used with this
    /// network: xeon-silver-4216 with 100gib, xeon-e5-36-cores with 56gib, else xeon-e5-2640v2]
    #[arg(long, group = flag::SIMULATED, value_name = "NAME|FILE.toml", help_heading = SIMULATION)]
    pub(crate) machine: Option<String>,

    /// Charge for values as if they were FACTOR times as long: for bytes on the network and in memory, and
    /// for arithmetic [default: 1]
    #[arg(long, group = flag::SIMULATED, value_name = "FACTOR", help_heading = SIMULATION)]
    pub(crate) charge: Option<f64>,

    /// Access the parameters of a batch that are at other nodes in operations of at most COUNT parameters,
    /// one after the other, as programs do that pull each parameter by itself [default: all in one operation]
    #[arg(long, group = flag::SIMULATED, value_name = "COUNT", help_heading = SIMULATION)]
    pub(crate) operation_keys: Option<NonZeroUsize>,
}

// Those of clusters that manage parameters. (Not a documentation comment, as above.)
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ServerSimulationArgs {
    /// Charge FACTOR times for arithmetic [default: as --charge, which is right for models that are linear in
    /// the length of values]
    #[arg(long, group = flag::SIMULATED, value_name = "FACTOR", help_heading = SIMULATION)]
    pub(crate) charge_compute: Option<f64>,

    /// The arithmetic of a batch takes up to FACTOR times as long, at random [default: 1]
    #[arg(long, group = flag::SIMULATED, value_name = "FACTOR", help_heading = SIMULATION)]
    pub(crate) uneven: Option<f64>,

    /// Compute what a parameter manager that knows the future must send at least, beside what is sent
    /// (docs/report.md), if reads see the updates of other nodes at the end of each epoch (epoch), or also
    /// those that are older than MS milliseconds; several separated by commas, as in epoch,100
    #[arg(
        long, group = flag::SIMULATED, value_name = "epoch|MS", value_parser = bounds,
        help_heading = SIMULATION,
    )]
    pub(crate) bound: Option<Bounds>,

    /// Simulate that this node dies after so many seconds; the others go on. With --simulate and --copies
    #[arg(
        long, group = flag::SIMULATED, value_name = "NODE@S", value_parser = crash,
        help_heading = SIMULATION,
    )]
    pub(crate) crash: Option<Crash>,
}

/// A simulated cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Name or file of the network.
    pub net: String,
    /// Name or file of the machines.
    pub machine: String,
    /// Factor by which bytes of values count.
    pub charge: f64,
    /// Factor by which arithmetic counts.
    pub charge_compute: f64,
    /// Upper bound of the keys of an operation on rows of other nodes, if there is one.
    pub operation_keys: Option<NonZeroUsize>,
    pub(crate) unevenness: Unevenness,
    /// The node that dies, if one does.
    pub(crate) crash: Option<Crash>,
    /// The durations that follow from these.
    pub delays: Delays,
    /// What is computed beside what is sent.
    pub(crate) bounds: Bounds,
}

/// A preset, or else the text of a file.
fn lookup<X>(
    flag: &'static str,
    name: &str,
    known: &[(&str, &str)],
    named: impl Fn(&str) -> Option<X>,
    parse: impl Fn(&str) -> Result<X, PresetError>,
) -> Result<X, TrainError> {
    if let Some(found) = named(name) {
        return Ok(found);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        return Err(TrainError::usage(format!(
            "{flag} is '{name}'; use {}, or a file that ends in .toml",
            known.join(", ")
        )));
    }
    let error = |line, reason| TrainError::Config { file: PathDisplay::from(path), line, reason };
    let text = std::fs::read_to_string(path).map_err(|e| error(None, format!("cannot be read: {e}")))?;
    parse(&text).map_err(|PresetError { line, reason }| error(line, reason))
}

/// A node that dies, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crash {
    pub(crate) node: u16,
    /// Virtual.
    pub(crate) seconds: f64,
}

/// Batches that take longer than this are no batches.
const UNEVEN_MAX: f64 = 1000.0;

fn factor(flag: &str, factor: f64) -> Result<f64, TrainError> {
    if (1e-3..=CHARGE_MAX).contains(&factor) {
        return Ok(factor);
    }
    Err(TrainError::usage(format!("{flag} is {factor}; it must be between 0.001 and {CHARGE_MAX}")))
}

/// What decides whether a run can be simulated, and how.
pub(crate) struct Simulable {
    pub(crate) local_access: LocalAccess,
    pub(crate) nodes: usize,
    pub(crate) copies: usize,
    /// Whether a launcher has started this process as one of several.
    pub(crate) is_launched: bool,
}

impl Simulation {
    /// The simulation that the flags ask for, if any.
    pub(crate) fn new(
        args: &SimulationArgs,
        server: &ServerSimulationArgs,
        of: &Simulable,
    ) -> Result<Option<Self>, TrainError> {
        if !args.simulate {
            return Ok(None);
        }
        if of.is_launched {
            return Err(TrainError::usage(
                "--simulate runs all nodes in one process, but a launcher started this process as one of several",
            ));
        }
        let net = args.net.clone().unwrap_or_else(|| "10gbe".to_owned());
        let of_paper = match net.as_str() {
            "100gib" => "xeon-silver-4216",
            "56gib" => "xeon-e5-36-cores",
            _ => "xeon-e5-2640v2",
        };
        let machine = args.machine.clone().unwrap_or_else(|| of_paper.to_owned());
        let network = lookup("--net", &net, &presets::NETWORKS, presets::network, presets::network_of)?;
        let known = &presets::MACHINES;
        let machines = lookup("--machine", &machine, known, presets::machine, presets::machine_of)?;
        let charge = factor("--charge", args.charge.unwrap_or(1.0))?;
        let charge_compute = factor("--charge-compute", server.charge_compute.unwrap_or(charge))?;
        let ipc = of.local_access == LocalAccess::Ipc;
        let delays = Delays { ipc, ..Delays::of(machines, network, Charge::new(charge, charge_compute)) };
        let bounds = server.bound.clone().unwrap_or_default();
        let operation_keys = args.operation_keys;
        let uneven = server.uneven.unwrap_or(1.0);
        if !(1.0..=UNEVEN_MAX).contains(&uneven) {
            return Err(TrainError::usage(format!(
                "--uneven is {uneven}; it must be between 1 and {UNEVEN_MAX}"
            )));
        }
        let unevenness = Unevenness::up_to(uneven);
        let crash = server.crash;
        if let Some(Crash { node, .. }) = crash {
            if of.copies == 0 {
                return Err(TrainError::usage("--crash: the others go on only with copies; add --copies K"));
            }
            if usize::from(node) >= of.nodes {
                let last = of.nodes.saturating_sub(1);
                return Err(TrainError::usage(format!(
                    "--crash: node {node} does not exist; nodes are 0 to {last}"
                )));
            }
        }
        Ok(Some(Self {
            net,
            machine,
            charge,
            charge_compute,
            operation_keys,
            unevenness,
            crash,
            delays,
            bounds,
        }))
    }

    /// How long bytes of values travel from one node to another.
    pub(crate) fn travel_ns(&self, bytes: u64) -> u64 {
        let charged = bytes as f64 * self.charge * self.delays.network.byte_ps as f64;
        (charged / 1e3) as u64
    }
}

/// Longer than any run.
const MS_MAX: f64 = 1e9;

/// The stalenesses that the user asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bounds(pub(crate) Vec<Staleness>);

/// Parses `epoch,100`.
fn bounds(text: &str) -> Result<Bounds, String> {
    let one = |text: &str| match (text, text.parse::<f64>()) {
        ("epoch", _) => Ok(Staleness::Epoch),
        (_, Ok(ms)) if (0.0..=MS_MAX).contains(&ms) => Ok(Staleness::Within(Tick((ms * 1_000.0) as u64))),
        _ => Err(format!("'{text}' is neither 'epoch' nor a number of milliseconds")),
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Bounds)
}

/// A node that dies, and when, as in `2@1.5`.
fn crash(text: &str) -> Result<Crash, String> {
    let parts =
        text.split_once('@').and_then(|(node, at)| Some((node.parse().ok()?, at.parse::<f64>().ok()?)));
    match parts {
        Some((node, seconds)) if seconds.is_finite() && seconds >= 0.0 => Ok(Crash { node, seconds }),
        Some(_) | None => {
            Err("a node and the seconds after which it dies, as in 2@1.5, are expected".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalenesses_are_epochs_and_milliseconds() {
        let within = |us| Staleness::Within(Tick(us));
        assert_eq!(bounds("epoch"), Ok(Bounds(vec![Staleness::Epoch])));
        assert_eq!(
            bounds("epoch,100,0.5,0"),
            Ok(Bounds(vec![Staleness::Epoch, within(100_000), within(500), within(0)]))
        );
        for wrong in ["", "epochs", "epoch,", "-1", "NaN", "1e10"] {
            assert!(bounds(wrong).is_err_and(|error| error.contains("milliseconds")), "{wrong}");
        }
    }
}
