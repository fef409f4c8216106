//! What a member of a view has promised and accepted about the view that follows it.
//!
//! The members of a view choose the next one by Paxos (Lamport, *Paxos Made Simple*, 2001, section 2.2), once
//! per view. Each member is an acceptor; the process that leads is the proposer. It asks the members for a
//! promise in a [`Ballot`] of its own, and proposes a view when a quorum has given it: the one that was
//! accepted in the latest ballot before, if a member has accepted one, or else one that it likes. A view is
//! *chosen* when a quorum has accepted it in one ballot.
//!
//! So one view at most follows another one, whatever is late, lost or done twice, and also if several lead at
//! once: two quorums have a member in common. It tells a leader of a later ballot what it has accepted, or it
//! has promised that ballot before, and does not accept the earlier one any more.

use crate::view::{NUMBER_MAX, Next};
use serde::{Deserialize, Serialize};

/// An attempt to choose the view that follows another one. Later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    /// The number of the view that is followed.
    pub view: u64,
    /// Counts from 1 for each view.
    pub round: u64,
    /// The process that leads: two that lead at once have different ballots.
    pub leader: u64,
}

impl Ballot {
    /// Whether no run can have so many views, or attempts to choose one.
    pub(crate) const fn is_nonsense(&self) -> bool {
        self.view > NUMBER_MAX || self.round > NUMBER_MAX
    }

    /// Whether a view cannot be proposed in this ballot.
    pub(crate) fn is_no_ballot_for(&self, next: &Next) -> bool {
        self.is_nonsense() || next.is_nonsense() || next.view.number != self.view + 1
    }
}

/// The state of an acceptor. A process forgets it when it learns which view was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    promised: Ballot,
    accepted: Option<(Ballot, Next)>,
}

impl Vote {
    /// The latest ballot that was promised: nothing is accepted in earlier ones.
    #[must_use]
    pub const fn promised(&self) -> Ballot {
        self.promised
    }

    /// What was accepted in the latest ballot in which something was.
    #[must_use]
    pub const fn accepted(&self) -> Option<&(Ballot, Next)> {
        self.accepted.as_ref()
    }

    /// Whether a view was accepted in this ballot.
    pub(crate) fn has_accepted(&self, ballot: Ballot) -> bool {
        self.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot)
    }

    /// Promises a ballot, unless it has promised it or a later one. Whether it has.
    pub(crate) fn promise(&mut self, ballot: Ballot) -> bool {
        let is_new = ballot > self.promised;
        if is_new {
            self.promised = ballot;
        }
        is_new
    }

    /// Accepts a view, unless it has promised a later ballot, or has accepted it before. Whether it has.
    pub(crate) fn accept(&mut self, ballot: Ballot, next: &Next) -> bool {
        let accepts = ballot >= self.promised && !self.has_accepted(ballot);
        if accepts {
            (self.promised, self.accepted) = (ballot, Some((ballot, next.clone())));
        }
        accepts
    }

    /// Whether no member of a view can have voted like this.
    pub(crate) fn is_nonsense(&self) -> bool {
        let accepted = self.accepted.as_ref();
        self.promised.is_nonsense()
            || accepted.is_some_and(|(ballot, next)| *ballot > self.promised || ballot.is_no_ballot_for(next))
    }
}
