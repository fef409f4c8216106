//! Limits of the input.

use intendant_core::limits::{NODES_MAX, RANGES_MAX};
use intendant_trace::Header;

/// Limits of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most events. Each takes 32 bytes of memory, and half as much again while the events are sorted. A
    /// value above [`Limits::EVENTS_MAX`] has the effect of that one.
    pub events_max: u64,
}

impl Limits {
    /// Events are numbered by 32 bits.
    pub const EVENTS_MAX: u64 = 1 << 31;
}

impl Default for Limits {
    fn default() -> Self {
        Self { events_max: 50_000_000 }
    }
}

/// The most settings of a run. A real run has some tens.
const SETTINGS_MAX: usize = 1 << 12;

/// The most ranges of keys that are replicated throughout. There may be many hot keys, far from each other.
const STATIC_MAX: usize = 1 << 20;

/// Checks that the header can be of a cluster. The error is the reason why not.
pub(crate) fn check_header(header: &Header) -> Result<(), String> {
    let nodes = usize::from(header.nodes);
    if !(1..=NODES_MAX).contains(&nodes) {
        return Err(format!("its header tells of {nodes} nodes, and clusters have 1 to {NODES_MAX}"));
    }
    if header.node >= header.nodes {
        return Err(format!("its header tells of node {} of {nodes}", header.node));
    }
    let lists = [
        (header.ranges.len(), RANGES_MAX, "ranges of keys"),
        (header.settings.len(), SETTINGS_MAX, "settings"),
        (header.static_replicas.len(), STATIC_MAX, "ranges of static replicas"),
    ];
    if let Some((found, most, what)) = lists.iter().find(|(found, most, _)| found > most) {
        return Err(format!("its header has {found} {what}; allowed are {most}"));
    }
    Ok(())
}
