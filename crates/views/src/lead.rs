//! The process that leads handles the offers of the others here. It is the proposer of [votes](crate::vote).

use crate::decide::{Standing, Undecided, quorum, successor};
use crate::message::{Answer, Offer};
use crate::view::{Next, Process, View};
use crate::vote::{Ballot, Vote};
use intendant_core::Tick;
use std::collections::BTreeMap;

/// The offers of other processes, by id, and when each came.
pub(crate) type Offers = BTreeMap<u64, (Tick, Offer)>;

/// The state of a process that leads.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) since: Tick,
    /// The ballot for which it asks the members to vote.
    ballot: Ballot,
    /// The view that it has proposed in this ballot.
    proposal: Option<Next>,
}

/// A view was chosen.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// It can begin: all of its members are there, and the leader is its node 0.
    Next(Next),
    /// It cannot begin, because a leader that was lost has proposed it, or because a member is lost. It
    /// counts nevertheless: another view follows it.
    Void(View),
}

impl Lead {
    pub(crate) fn new(since: Tick, me: &mut Offer) -> Self {
        let mut new = Self { since, ballot: Ballot::default(), proposal: None };
        if let Some(last) = me.last.clone() {
            new.renew(&last, me, &BTreeMap::new());
        }
        new
    }

    /// The answer to a process whose offer it has kept.
    pub(crate) fn answer(&self, last: &View, offer: &Offer) -> Answer {
        if !offer.votes_in(last) || self.ballot.view != last.number {
            return Answer::Wait;
        }
        if offer.vote.promised() < self.ballot {
            return Answer::Promise(self.ballot);
        }
        match &self.proposal {
            Some(next) if offer.vote.promised() == self.ballot && !offer.vote.has_accepted(self.ballot) => {
                Answer::Accept(self.ballot, next.clone())
            }
            Some(_) | None => Answer::Wait,
        }
    }

    /// Advances the vote as far as these offers allow. Returns the view that was chosen.
    ///
    /// # Errors
    /// The reason for which no view is chosen yet.
    pub(crate) fn step(
        &mut self,
        me: &mut Offer,
        others: &Offers,
        is_patient: bool,
        standing: impl Fn(&Process) -> Standing,
    ) -> Result<Chosen, Undecided> {
        let Some(last) = me.last.clone() else {
            return Err(Undecided::Stuck("no process that musters was a node of the run".to_owned()));
        };
        self.renew(&last, me, others);
        quorum(&last, &all(me, others), is_patient)?;
        let ballot = self.ballot;
        if !is_vote(&last, &all(me, others), |vote| vote.promised() == ballot) {
            return Err(Undecided::Wait);
        }
        let proposal = match self.proposal.take() {
            Some(proposal) => proposal,
            None => propose(&last, ballot, me, others, standing)?,
        };
        let next = self.proposal.insert(proposal);
        me.vote.accept(ballot, next);
        if !is_vote(&last, &all(me, others), |vote| vote.has_accepted(ballot)) {
            return Err(Undecided::Wait);
        }
        let is_there = |member: &Process| member.id == me.process.id || others.contains_key(&member.id);
        let begins = next.view.rank(me.process.id) == Some(0) && next.view.members.iter().all(is_there);
        Ok(if begins { Chosen::Next(next.clone()) } else { Chosen::Void(next.view.clone()) })
    }

    /// Begins a later ballot, if a member has promised a ballot of another leader, or if the last view has
    /// changed.
    fn renew(&mut self, last: &View, me: &mut Offer, others: &Offers) {
        let voters = others.values().map(|(_, offer)| offer).filter(|offer| offer.votes_in(last));
        // Its own ballots count too, even if it is no member, so that it uses none twice.
        let promised = voters.chain([&*me]).map(|offer| offer.vote.promised());
        let latest = promised.max().unwrap_or_default();
        if self.ballot.view != last.number || latest > self.ballot {
            let round = latest.round + 1;
            self.ballot = Ballot { view: last.number, round, leader: me.process.id };
            self.proposal = None;
            me.vote.promise(self.ballot);
        }
    }
}

/// The view to propose in a ballot that a quorum has promised.
fn propose(
    last: &View,
    ballot: Ballot,
    me: &Offer,
    others: &Offers,
    standing: impl Fn(&Process) -> Standing,
) -> Result<Next, Undecided> {
    let offers = all(me, others);
    let promised = |offer: &&&Offer| offer.vote.promised() == ballot;
    let accepted = offers.values().filter(promised).filter_map(|offer| offer.vote.accepted());
    if let Some((_, next)) = accepted.max_by_key(|(ballot, _)| *ballot) {
        // This view may have been chosen.
        return Ok(next.clone());
    }
    successor(last, me.process.id, &offers, standing).map_err(Undecided::Stuck)
}

/// Whether `holds` is true for the votes of a quorum of a view.
fn is_vote(last: &View, offers: &BTreeMap<u64, &Offer>, holds: impl Fn(&Vote) -> bool) -> bool {
    last.is_quorum(|id| offers.get(&id).is_some_and(|offer| holds(&offer.vote)))
}

/// All offers.
fn all<'a>(me: &'a Offer, others: &'a Offers) -> BTreeMap<u64, &'a Offer> {
    let others = others.iter().map(|(id, (_, offer))| (*id, offer));
    others.chain([(me.process.id, me)]).collect()
}
