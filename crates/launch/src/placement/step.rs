//! The place that a launcher gives one of its processes, and the port that follows from the name of a run.

use super::environment::Host;
use super::launcher::Launcher;
use intendant_core::random;

/// The range of derived ports. Linux chooses ports from 32768 upwards when a program asks for any port.
pub(super) const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The place that a launcher gives one of its processes.
pub(super) struct Step {
    pub(super) launcher: Launcher,
    pub(super) rank: u64,
    pub(super) nodes: u64,
    pub(super) local_rank: usize,
    pub(super) local_nodes: usize,
    /// `None` if the launcher does not say.
    pub(super) host: Option<Host>,
    pub(super) port: Option<u16>,
}

/// The port of the run with these names.
pub(super) fn port(names: &[&str]) -> u16 {
    let bytes: Vec<u64> = names.join("/").bytes().map(u64::from).collect();
    PORTS.start + (random::stream(0, &bytes) % PORTS.len() as u64) as u16
}
