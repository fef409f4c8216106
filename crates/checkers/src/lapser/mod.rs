//! Random runs of Lapser: nodes set and get items over a network of one-sided operations, and every value is
//! checked.
//!
//! [`run`] is one seed. The nodes are those of the crate `intendant-lapser`, the network that of
//! [`intendant_sim::onesided`]: it tears reads and writes, loses hints, and lets nodes end in the middle of
//! operations. Drawn are the variant, items, consumers, slacks, numbers of hints, delays, and the programs
//! of the workers: iterations in which each sets its items and gets those of others.

mod checks;
mod cluster;
mod member;
mod mode;
mod scenario;

pub use mode::{Mode, name};

use cluster::Cluster;
use intendant_sim::Violation;
use intendant_sim::reach::Reach;
use scenario::Scenario;

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// The violation, if there was one.
    pub result: Result<(), Violation>,
    /// Hash of all events and of the words that were copied.
    pub hash: u64,
    /// Number of inputs of nodes.
    pub events: u64,
    /// Number of calls of all workers.
    pub calls: u64,
    /// Virtual time at the end, ns.
    pub virtual_ns: u64,
    /// Reach markers.
    pub reach: Reach,
    /// The readable trace; empty if it was not requested.
    pub trace: Vec<String>,
}

/// Runs one seed.
#[must_use]
pub fn run(mode: &Mode, seed: u64, trace: bool) -> Run {
    let mut scenario = Scenario::draw(mode, seed);
    scenario.network.trace = trace;
    let mut cluster = match Cluster::new(scenario) {
        Ok(cluster) => cluster,
        Err((check, what)) => {
            let result = Err(Violation { check, at_ns: 0, event: 0, what });
            let (reach, trace) = (Reach::default(), Vec::new());
            return Run { result, hash: 0, events: 0, calls: 0, virtual_ns: 0, reach, trace };
        }
    };
    let result = cluster.run();
    cluster.into_run(result)
}
