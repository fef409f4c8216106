//! Channels hold what workers were admitted with and wait for the keys that they asked for, and nothing else;
//! workers respect their limit.

use super::Finding;
use intendant_engine::ChannelReport;

/// The limit per worker, and snapshot parts asked for per channel.
pub(crate) struct Bounded {
    outstanding_bytes_max: usize,
    /// How much more than what is known of from outside channels may call outstanding: with copies, what they
    /// have not sent yet. `None`: nothing.
    slack: Option<u64>,
    snapshots: Vec<usize>,
}

impl Bounded {
    pub(crate) fn new(stations: usize, outstanding_bytes_max: usize, slack: Option<u64>) -> Self {
        Self { outstanding_bytes_max, slack, snapshots: vec![0; stations] }
    }

    /// Whether a call with values of `call` bytes may start. A call that is larger than the limit must be
    /// alone.
    pub(crate) fn admits(&self, outstanding: usize, call: usize) -> bool {
        outstanding == 0 || outstanding + call <= self.outstanding_bytes_max
    }

    /// A call was started: `after` bytes are outstanding, of which `call` at most are its own.
    pub(crate) fn called(&self, after: usize, call: usize) -> Result<(), Finding> {
        if after <= self.outstanding_bytes_max.max(call) {
            return Ok(());
        }
        Err((
            "bounded",
            format!("{after} bytes are outstanding; the limit is {}", self.outstanding_bytes_max),
        ))
    }

    /// A channel asks another node for a snapshot part (`true`) or got it.
    pub(crate) fn snapshot(&mut self, station: usize, asked: bool) {
        if asked {
            self.snapshots[station] += 1;
        } else {
            self.snapshots[station] = self.snapshots[station].saturating_sub(1);
        }
    }

    /// A channel has handled an input. `waiting` operations were taken and not answered; `awaited` keys were
    /// asked for and have not arrived, and it says that `arriving` are on their way.
    pub(crate) fn handled(
        &self,
        station: usize,
        report: ChannelReport,
        waiting: usize,
        (arriving, awaited): (usize, usize),
    ) -> Result<(), Finding> {
        let outstanding = report.outstanding;
        if arriving != awaited {
            let what =
                format!("channel {station} remembers {arriving} arrivals; it waits for {awaited} keys");
            return Err(("bounded", what));
        }
        let admitted = (waiting + self.snapshots[station] + awaited) as u64;
        if (admitted..=admitted + self.slack.unwrap_or(0)).contains(&outstanding) {
            return Ok(());
        }
        let what =
            format!("channel {station} reports {outstanding} things outstanding; there are {admitted}");
        Err(("bounded", what))
    }
}
