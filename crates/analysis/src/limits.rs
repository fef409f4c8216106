//! Bounds of what is read.

use intendant_core::limits::{NODES_MAX, RANGES_MAX};
use intendant_trace::Header;

/// Bounds of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events; each takes 32 bytes of memory, and half as much again while they are sorted. No more than
    /// [`Limits::EVENTS_MAX`] counts.
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

/// Settings of a run: ours has some tens.
const SETTINGS_MAX: usize = 1 << 12;

/// Ranges of keys that are replicated throughout: hot keys may be many, and far from each other.
const STATIC_MAX: usize = 1 << 20;

/// Whether the header may be of a cluster; the reason if not.
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
