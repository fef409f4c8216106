//! When the cluster says that it is quiescent, nothing is in flight anywhere.

use super::Finding;
use intendant_engine::ChannelReport;

/// What the simulator, which sees everything, finds in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Sum over all channels.
    pub(crate) report: ChannelReport,
    /// Frames on connections or received and not handled.
    pub(crate) frames: usize,
    /// Submissions and completions between workers and channels.
    pub(crate) handed: usize,
    /// Workers with outstanding keys or bytes.
    pub(crate) busy_workers: usize,
    /// An operation that is not answered.
    pub(crate) debt: Option<String>,
}

/// Whether really nothing is.
pub(crate) fn check(found: &InFlight) -> Result<(), Finding> {
    let InFlight { report, frames, handed, busy_workers, debt } = found;
    let counts = report.outstanding == 0 && report.sent == report.received;
    if counts && *frames == 0 && *handed == 0 && *busy_workers == 0 && debt.is_none() {
        return Ok(());
    }
    Err(("quiet", format!("the cluster calls itself quiescent with {found:?}")))
}
