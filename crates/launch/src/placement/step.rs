//! What a launcher tells one of its processes, and the port that follows from the name of a run.

use super::environment::Host;
use super::launcher::Launcher;
use intendant_core::random;

/// Derived ports. Linux chooses from 32768 and above when a program asks for any port.
pub(super) const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// What a launcher tells one of its processes.
pub(super) struct Step {
    pub(super) launcher: Launcher,
    pub(super) rank: u64,
    pub(super) nodes: u64,
    pub(super) local_rank: usize,
    pub(super) local_nodes: usize,
    /// `None` if the launcher does not tell.
    pub(super) host: Option<Host>,
    pub(super) port: Option<u16>,
}

/// The port of the run with these names.
pub(super) fn port(names: &[&str]) -> u16 {
    let bytes: Vec<u64> = names.join("/").bytes().map(u64::from).collect();
    PORTS.start + (random::stream(0, &bytes) % PORTS.len() as u64) as u16
}
