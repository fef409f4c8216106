//! Quiescence: when the channels report that the cluster is quiescent, nothing is in flight.

use super::finding::Finding;
use intendant_engine::ChannelReport;

/// Everything in flight, as the simulator sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Sum of the reports of all channels.
    pub(crate) report: ChannelReport,
    /// Frames on connections or received and not handled.
    pub(crate) frames: usize,
    /// Submissions and completions between workers and channels.
    pub(crate) handed: usize,
    /// Workers with outstanding keys or bytes.
    pub(crate) busy_workers: usize,
}

/// Checks that nothing is in flight.
pub(crate) fn check(found: &InFlight) -> Result<(), Finding> {
    let InFlight { report, frames, handed, busy_workers } = found;
    let counts = report.outstanding == 0 && report.sent == report.received;
    if counts && *frames == 0 && *handed == 0 && *busy_workers == 0 {
        return Ok(());
    }
    Err(("quiet", format!("the channels report quiescence with {found:?}")))
}
