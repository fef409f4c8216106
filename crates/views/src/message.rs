//! The messages of processes that muster, i.e. look for the next view.

use crate::view::{HeldCut, NUMBER_MAX, Next, Process, View};
use crate::vote::{Ballot, Vote};
use intendant_core::limits;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The most cuts that an offer lists, and the most processes that it lists as lost. Views that failed early
/// leave some of both.
const LISTED_MAX: usize = 4096;

/// The state that a process sends to others when it musters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The process itself.
    pub process: Process,
    /// A digest of its settings and data. Processes with different ones cannot train together.
    pub settings: u64,
    /// The last view that it knows to be chosen; `None` if it knows none. If the process is no member of that
    /// view, it wants to join.
    pub last: Option<View>,
    /// Its promise and acceptance for the view that follows.
    pub vote: Vote,
    /// The cuts of which it holds parts.
    pub cuts: Vec<HeldCut>,
    /// Processes that it takes for lost. The leader does not wait for them.
    pub gone: Vec<u64>,
    /// Whether it will be no member of the next view.
    pub leaves: bool,
}

impl Offer {
    /// The offer of a process that holds nothing; `last` is the view from which it comes.
    #[must_use]
    pub fn of(process: Process, last: Option<View>) -> Self {
        let (vote, cuts, gone) = (Vote::default(), Vec::new(), Vec::new());
        Self { process, settings: 0, last, vote, cuts, gone, leaves: false }
    }

    /// Whether the process is a member of the last view that it knows.
    pub(crate) fn is_member(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.has(self.process.id))
    }

    /// Whether the process is a member of this view, and knows of no later one: its vote is about the view
    /// that follows this one.
    pub(crate) fn votes_in(&self, view: &View) -> bool {
        view.has(self.process.id) && self.last.as_ref().is_some_and(|last| last.number == view.number)
    }

    /// Whether the process knows of no view as late as this one.
    pub(crate) fn is_before(&self, view: &View) -> bool {
        self.last.as_ref().is_none_or(|last| last.number < view.number)
    }

    /// The process learns that a view was chosen. Returns whether it did not know that. A process that leaves
    /// ignores views without it.
    pub(crate) fn learn(&mut self, view: &View) -> bool {
        let is_news = self.is_before(view) && (!self.leaves || view.has(self.process.id));
        if is_news {
            (self.last, self.vote) = (Some(view.clone()), Vote::default());
        }
        is_news
    }

    /// Names the part of the offer that is invalid, if any.
    pub(crate) fn nonsense(&self) -> Option<&'static str> {
        if self.last.as_ref().is_some_and(View::is_nonsense) || self.vote.is_nonsense() {
            return Some("a view that cannot be");
        }
        let is_wrong = |cut: &HeldCut| {
            !(1..=limits::NODES_MAX).contains(&cut.parts)
                || cut.held.iter().any(|part| *part >= cut.parts)
                || cut.name.view.max(cut.name.number) > NUMBER_MAX
        };
        let too_many = self.cuts.len() > LISTED_MAX || self.gone.len() > LISTED_MAX;
        (too_many || self.cuts.iter().any(is_wrong)).then_some("a cut that cannot be")
    }
}

/// A request to a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and none is kept")]
pub enum Asked {
    /// The sender wants to be a node of the next view.
    Offer(Offer),
    /// The run should go on with this number of nodes.
    Scale(u16),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Ask again.
    Wait,
    /// Promise this ballot, and ask again.
    Promise(Ballot),
    /// Accept this view in this ballot, and ask again.
    Accept(Ballot, Next),
    /// This view was chosen. Ask again: the process that asks is a member, or may join it.
    Chosen(View),
    /// Ask the process at this address.
    Elsewhere(SocketAddr),
    /// The process that asks has no place in the run, for this reason.
    Refused(String),
    /// The next view was chosen. Its node 0 serves the coordinator at this address.
    Go(Next, SocketAddr),
    /// The run cannot go on with the processes that have come, for this reason.
    Stuck(String),
    /// The process may end: the others have all values that it holds.
    Released,
    /// The run has noted the number of nodes that was asked for.
    Scaling {
        /// The number of nodes that it has now.
        nodes: u16,
    },
}
