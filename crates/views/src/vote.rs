//! The promise and the acceptance of a member of a view for the view that follows it.
//!
//! The members of a view choose the next one by Paxos (Lamport, *Paxos Made Simple*, 2001, section 2.2), once
//! per view. Each member is an acceptor; the process that leads is the proposer. It asks the members for a
//! promise in a [`Ballot`] of its own, and proposes a view when a quorum has given the promise. If a member
//! has accepted a view before, the proposer proposes the view that was accepted in the latest ballot, else
//! one of its own choice. A view is *chosen* when a quorum has accepted it in one ballot.
//!
//! So at most one view follows another one, even if messages are late, lost or repeated, and even if several
//! processes lead at once. The reason is that two quorums have a member in common. Either this member tells
//! the leader of the later ballot what it has accepted, or it has promised the later ballot before, and
//! accepts nothing in the earlier ballot any more.

use crate::view::{NUMBER_MAX, Next};
use serde::{Deserialize, Serialize};

/// An attempt to choose the view that follows another one. Later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    /// The number of the view that is followed.
    pub view: u64,
    /// Counts from 1 for each view.
    pub round: u64,
    /// The process that leads, so that two processes that lead at once have different ballots.
    pub leader: u64,
}

impl Ballot {
    /// Whether the numbers are too high for any run.
    pub(crate) const fn is_nonsense(&self) -> bool {
        self.view > NUMBER_MAX || self.round > NUMBER_MAX
    }

    /// Whether a view cannot be proposed in this ballot.
    pub(crate) fn is_no_ballot_for(&self, next: &Next) -> bool {
        self.is_nonsense() || next.is_nonsense() || next.view.number != self.view + 1
    }
}

/// The state of an acceptor. A process resets it when it learns which view was chosen.
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

    /// The view that was accepted in the latest ballot, and that ballot; `None` if no view was accepted.
    #[must_use]
    pub const fn accepted(&self) -> Option<&(Ballot, Next)> {
        self.accepted.as_ref()
    }

    /// Whether a view was accepted in this ballot.
    pub(crate) fn has_accepted(&self, ballot: Ballot) -> bool {
        self.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot)
    }

    /// Promises a ballot, unless this or a later ballot was promised before. Returns whether it promises now.
    pub(crate) fn promise(&mut self, ballot: Ballot) -> bool {
        let is_new = ballot > self.promised;
        if is_new {
            self.promised = ballot;
        }
        is_new
    }

    /// Accepts a view, unless a later ballot was promised, or the view was accepted in this ballot before.
    /// Returns whether it accepts now.
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
