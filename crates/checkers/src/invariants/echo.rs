//! Redundant updates: an owner does not send a holder a value that the holder already has, neither a version
//! that it was sent before nor its own updates.
//!
//! Two exceptions, both on request. A holder that asks again is answered again, so that it learns how fresh
//! its copy is. A holder that asked for a clock in the future is answered when that clock has come.

use intendant_wire::ReplicaUpdateKind;

/// What the present owner has sent to a holder since its registration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holder {
    /// The last version sent.
    sent: Option<u32>,
    /// The current input is a request of the holder.
    asks: bool,
    /// Number of requests for clocks that may lie in the future.
    early: u32,
    /// The owner has merged a delta of the holder and has not answered it yet.
    merged: bool,
}

impl Holder {
    /// The owner receives a request for clock `need`, which may lie in the future; 0 for any clock.
    pub(crate) fn asked(&mut self, need: u32) {
        self.asks = true;
        self.early += u32::from(need > 0);
    }

    /// The owner has handled the current input.
    pub(crate) fn handled(&mut self) {
        self.asks = false;
    }

    /// The owner has merged a delta of the holder.
    pub(crate) fn merged(&mut self) {
        self.merged = true;
    }

    /// Checks an update of `version` that the owner sends to the holder. The error says why it is wrong.
    pub(crate) fn sent(&mut self, kind: ReplicaUpdateKind, version: u32) -> Result<(), &'static str> {
        let merged = std::mem::take(&mut self.merged);
        let before = self.sent.replace(version);
        let knew_the_rest = merged && before.is_some_and(|before| before + 1 == version);
        match kind {
            ReplicaUpdateKind::Acknowledged if !knew_the_rest => {
                Err("the holder lacks other updates as well")
            }
            ReplicaUpdateKind::Refresh if knew_the_rest => Err("the holder lacks only its own updates"),
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh if std::mem::take(&mut self.asks) => Ok(()),
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh if before != Some(version) => Ok(()),
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => match self.early.checked_sub(1) {
                None => Err("the holder already has this version"),
                Some(left) => {
                    self.early = left;
                    Ok(())
                }
            },
            ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_up() -> Holder {
        let mut holder = Holder::default();
        holder.asked(0);
        assert_eq!(holder.sent(ReplicaUpdateKind::SetUp, 5), Ok(()));
        holder
    }

    #[test]
    fn no_version_is_sent_twice() {
        let mut holder = set_up();
        assert!(holder.sent(ReplicaUpdateKind::Refresh, 5).is_err(), "unasked");
        holder.asked(7);
        assert_eq!(holder.sent(ReplicaUpdateKind::Refresh, 5), Ok(()));
        holder.handled();
        assert_eq!(holder.sent(ReplicaUpdateKind::Refresh, 5), Ok(()), "clock 7 has come");
        assert!(holder.sent(ReplicaUpdateKind::Refresh, 5).is_err());
        assert_eq!(set_up().sent(ReplicaUpdateKind::Refresh, 6), Ok(()));
    }

    #[test]
    fn own_updates_are_acknowledged_without_a_value() {
        let merge = |kind, version| {
            let mut holder = set_up();
            holder.merged();
            holder.sent(kind, version)
        };
        assert_eq!(merge(ReplicaUpdateKind::Acknowledged, 6), Ok(()));
        assert!(merge(ReplicaUpdateKind::Refresh, 6).is_err());
        assert_eq!(merge(ReplicaUpdateKind::Refresh, 7), Ok(()), "another holder was first");
        assert!(merge(ReplicaUpdateKind::Acknowledged, 7).is_err(), "it lacks the other holder's update");
        assert!(set_up().sent(ReplicaUpdateKind::Acknowledged, 6).is_err(), "it sent nothing");
    }
}
