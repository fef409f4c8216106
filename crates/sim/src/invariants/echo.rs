//! An owner does not send a holder what it has already: neither what it was told, nor its own updates.
//!
//! Two exceptions, both on request: a holder that asks again is told again, to learn how new its copy is; one
//! that asked for a clock that had not come is told when it has.

use intendant_wire::ReplicaUpdateKind;

/// What a holder has been told since it is registered with its present owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    told: Option<u32>,
    /// It asks, in the input that is being handled.
    asks: bool,
    /// It asked as of clocks that may not have come: so many.
    early: u32,
    /// Its delta has just been merged.
    merged: bool,
}

impl Account {
    /// The holder asks, as of a clock that may not have come.
    pub(crate) fn asked(&mut self, need: u32) {
        self.asks = true;
        self.early += u32::from(need > 0);
    }

    /// The input has been handled.
    pub(crate) fn handled(&mut self) {
        self.asks = false;
    }

    /// The owner has merged a delta of the holder.
    pub(crate) fn merged(&mut self) {
        self.merged = true;
    }

    /// The owner tells the holder something about this version. What is wrong with that, if anything.
    pub(crate) fn told(&mut self, kind: ReplicaUpdateKind, version: u32) -> Result<(), &'static str> {
        let merged = std::mem::take(&mut self.merged);
        let before = self.told.replace(version);
        let knew_the_rest = merged && before.is_some_and(|before| before + 1 == version);
        match kind {
            ReplicaUpdateKind::Acknowledged if !knew_the_rest => Err("it lacks more than that"),
            ReplicaUpdateKind::Refresh if knew_the_rest => Err("all that is new are its own updates"),
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh if std::mem::take(&mut self.asks) => Ok(()),
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh if before != Some(version) => Ok(()),
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => match self.early.checked_sub(1) {
                None => Err("it was told that already"),
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

    fn holder() -> Account {
        let mut account = Account::default();
        account.asked(0);
        assert_eq!(account.told(ReplicaUpdateKind::SetUp, 5), Ok(()));
        account
    }

    #[test]
    fn nobody_is_told_twice() {
        let mut account = holder();
        assert!(account.told(ReplicaUpdateKind::Refresh, 5).is_err(), "unasked");
        account.asked(7);
        assert_eq!(account.told(ReplicaUpdateKind::Refresh, 5), Ok(()));
        account.handled();
        assert_eq!(account.told(ReplicaUpdateKind::Refresh, 5), Ok(()), "clock 7 has come");
        assert!(account.told(ReplicaUpdateKind::Refresh, 5).is_err());
        assert_eq!(holder().told(ReplicaUpdateKind::Refresh, 6), Ok(()));
    }

    #[test]
    fn own_updates_are_acknowledged_without_a_value() {
        let merge = |kind, version| {
            let mut account = holder();
            account.merged();
            account.told(kind, version)
        };
        assert_eq!(merge(ReplicaUpdateKind::Acknowledged, 6), Ok(()));
        assert!(merge(ReplicaUpdateKind::Refresh, 6).is_err());
        assert_eq!(merge(ReplicaUpdateKind::Refresh, 7), Ok(()), "another holder was first");
        assert!(merge(ReplicaUpdateKind::Acknowledged, 7).is_err(), "it does not know of the other");
        assert!(holder().told(ReplicaUpdateKind::Acknowledged, 6).is_err(), "it sent nothing");
    }
}
