//! Detects when nothing is in flight (Mattern's four-counter method).
//!
//! Every worker waits for its operations and then enters a meeting, to which each node contributes the report
//! of its channels. The cluster is quiescent when two such waves in a row report nothing outstanding, the
//! same counts, and as many messages received as sent. Both waves are needed: a report of the first wave may
//! be older than the last operation of a worker that arrived later. All reports of the second wave are
//! younger than all operations, and equal counts show that nothing was in flight between the two.

/// What one channel reports, or the sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelReport {
    /// Operations that wait for an answer.
    pub outstanding: u64,
    /// Messages sent to other nodes so far.
    pub sent: u64,
    /// Messages received from other nodes so far.
    pub received: u64,
}

impl ChannelReport {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Self) {
        self.outstanding += other.outstanding;
        self.sent += other.sent;
        self.received += other.received;
    }

    /// The report as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (to, count) in bytes.chunks_exact_mut(8).zip([self.outstanding, self.sent, self.received]) {
            to.copy_from_slice(&count.to_le_bytes());
        }
        bytes
    }

    /// Reads a report; `None` if `bytes` is not 24 bytes long.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let count = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        (bytes.len() == 24).then_some(())?;
        Some(Self { outstanding: count(0)?, sent: count(8)?, received: count(16)? })
    }
}

/// Judges wave after wave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waves {
    previous: Option<ChannelReport>,
}

impl Waves {
    /// Takes the sum of all reports of a wave; true if the cluster is quiescent.
    pub fn judge(&mut self, wave: ChannelReport) -> bool {
        let quiet = wave.outstanding == 0 && wave.sent == wave.received;
        let confirmed = quiet && self.previous == Some(wave);
        self.previous = Some(wave);
        confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outstanding: u64, sent: u64, received: u64) -> ChannelReport {
        ChannelReport { outstanding, sent, received }
    }

    #[test]
    fn two_equal_quiet_waves_are_needed() {
        let mut waves = Waves::default();
        assert!(!waves.judge(report(0, 5, 5)));
        assert!(waves.judge(report(0, 5, 5)));
        let mut waves = Waves::default();
        assert!(!waves.judge(report(0, 5, 4)), "a message is in flight");
        assert!(!waves.judge(report(0, 5, 4)));
        assert!(!waves.judge(report(0, 5, 5)), "it arrived only now");
        assert!(waves.judge(report(0, 5, 5)));
        let mut waves = Waves::default();
        assert!(!waves.judge(report(1, 5, 5)));
        assert!(!waves.judge(report(1, 5, 5)), "an operation is outstanding");
    }

    #[test]
    fn reports_travel() {
        let r = report(1, u64::MAX, 3);
        assert_eq!(ChannelReport::from_bytes(&r.to_bytes()), Some(r));
        assert_eq!(ChannelReport::from_bytes(&[0; 23]), None);
    }
}
