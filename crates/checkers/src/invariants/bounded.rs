//! Bounds: a channel has nothing outstanding but admitted submissions, requested snapshot parts and requested
//! keys. (The simulator checks that workers respect their limit of outstanding bytes.)

use intendant_engine::ChannelReport;
use intendant_sim::Finding;

/// The outstanding snapshot parts per channel.
pub(crate) struct Bounded {
    /// Upper bound of what channels with replicas may report as outstanding beyond what the simulator can
    /// count: unsynchronised updates. `None` without replicas.
    slack: Option<u64>,
    snapshots: Vec<usize>,
}

impl Bounded {
    pub(crate) fn new(stations: usize, slack: Option<u64>) -> Self {
        Self { slack, snapshots: vec![0; stations] }
    }

    /// A channel requests a snapshot part from another node (`true`), or receives one.
    pub(crate) fn snapshot(&mut self, station: usize, requested: bool) {
        if requested {
            self.snapshots[station] += 1;
        } else {
            self.snapshots[station] = self.snapshots[station].saturating_sub(1);
        }
    }

    /// Checks a channel's report. `waiting` operations have been taken and not answered; `awaited` keys have
    /// been requested and have not arrived; the channel itself counts `arriving` keys.
    pub(crate) fn handled(
        &self,
        station: usize,
        report: ChannelReport,
        waiting: usize,
        (arriving, awaited): (usize, usize),
    ) -> Result<(), Finding> {
        let outstanding = report.outstanding;
        if arriving != awaited {
            let what = format!("channel {station} counts {arriving} arriving keys; it requested {awaited}");
            return Err(("bounded", what));
        }
        let admitted = (waiting + self.snapshots[station] + awaited) as u64;
        if (admitted..=admitted + self.slack.unwrap_or(0)).contains(&outstanding) {
            return Ok(());
        }
        let what = format!("channel {station} reports {outstanding} outstanding items; there are {admitted}");
        Err(("bounded", what))
    }
}
