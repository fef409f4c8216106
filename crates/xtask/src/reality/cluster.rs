//! Real clusters on this machine, and the machine and network files with which they are simulated.

use super::calibrate::{machine_file, network_file};
use super::{read, scratch, write};
use crate::{pinning, process};
use intendant_sim::{Machine, presets};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Mbit/s of the rate-limited network.
const RATE: f64 = 200.0;
/// Bytes per packet on the wire, and of these headers: Ethernet, IP, and TCP with timestamps.
const PACKET: f64 = 1_514.0;
const HEADERS: u64 = 66;

/// What connects the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    /// TCP over loopback.
    Loopback,
    /// A network namespace per node that sends and receives at a limited rate.
    Limited,
}

impl Net {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Limited => "200 Mbit/s",
        }
    }
}

/// Nodes of a cluster on the cores of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) nodes: usize,
    pub(super) net: Net,
    /// Cores of the machine.
    pub(super) cores: usize,
}

impl Cluster {
    fn nodes_per_core(self) -> usize {
        self.nodes.div_ceil(self.cores)
    }

    /// Cores that are used: node `n` runs on core `n` modulo this number, as in [`Machine::nodes_per_core`].
    fn used_cores(self) -> usize {
        self.nodes.div_ceil(self.nodes_per_core())
    }

    /// The command that runs `program` as this cluster.
    pub(super) fn command(self, program: &Path, args: &[String]) -> Command {
        let mut command = match self.net {
            Net::Loopback => {
                let launcher = process::program("intendant", true);
                pinning::cluster(&launcher, self.nodes, self.used_cores(), program)
            }
            Net::Limited => {
                let mut command = Command::new(script());
                let (nodes, cores) = (self.nodes.to_string(), self.used_cores().to_string());
                command.args([&nodes, &cores, &format!("{RATE}mbit")]).arg(program);
                command
            }
        };
        command.args(args).args(["--transport", "tcp"]);
        command
    }

    /// The flags with which the applications simulate this cluster, given the files of `calibrate`.
    pub(super) fn simulated(self, task: &str, calibrated: &Path) -> Result<Vec<String>, String> {
        let path = machine_file(calibrated, task);
        let parse =
            |text: &str| presets::machine_of(text).map_err(|error| format!("{}: {error}", path.display()));
        let hint = |error| format!("{error}; run `cargo xtask calibrate` first");
        let machine = parse(&read(&path).map_err(hint)?)?;
        let machine = Machine { cores: 0, nodes_per_core: self.nodes_per_core(), ..machine };
        let shared = scratch()?.join("machine-shared.toml");
        write(&shared, &toml::to_string(&machine).map_err(|error| error.to_string())?)?;
        let net = match self.net {
            Net::Loopback => calibrated.join("net-loopback.toml"),
            Net::Limited => {
                // The share of a packet that is not headers.
                let gigabits = RATE / 1e3 * (PACKET - HEADERS as f64) / PACKET;
                let limited = scratch()?.join("net-limited.toml");
                write(&limited, &network_file(gigabits, 0.0, HEADERS))?;
                limited
            }
        };
        let flags = ["--nodes", &self.nodes.to_string(), "--simulate", "--machine"].map(str::to_owned);
        let path = |path: &PathBuf| path.display().to_string();
        Ok([&flags[..], &[path(&shared), "--net".to_owned(), path(&net)]].concat())
    }
}

fn script() -> PathBuf {
    process::root().join("scripts/rate-limited.sh")
}

/// Why there is no rate-limited network here, if so.
pub(super) fn check_limited() -> Result<(), String> {
    process::text(Command::new(script()).args(["1", "1", "200mbit", "true"])).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_spread_over_cores_as_the_simulator_spreads_them() {
        let used = |nodes, cores| {
            let cluster = Cluster { nodes, net: Net::Loopback, cores };
            (cluster.nodes_per_core(), cluster.used_cores())
        };
        assert_eq!(
            [(2, 2), (4, 2), (3, 2), (2, 16), (7, 5)].map(|(n, c)| used(n, c)),
            [(1, 2), (2, 2), (2, 2), (1, 2), (2, 4)]
        );
    }

    #[test]
    fn without_calibration_the_error_says_what_to_do() {
        let cluster = Cluster { nodes: 2, net: Net::Loopback, cores: 2 };
        let error = cluster.simulated("kge", Path::new("/nonexistent")).expect_err("no file");
        assert!(error.contains("cargo xtask calibrate"), "{error}");
    }
}
