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

pub use cluster::Run;
pub use mode::{Mode, name};

use cluster::Cluster;
use intendant_sim::Violation;
use intendant_sim::reach::Reach;
use scenario::Scenario;

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
