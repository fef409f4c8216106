//! The answers of a process to processes that muster, i.e. look for the next view, as a state machine without
//! streams.
//!
//! Processes ask again and again, and get an answer at once. An offer that is not repeated for a while has no
//! effect any more. A process is in one of these phases:
//!
//! - *in a view*, which goes on as far as it knows. It remembers the processes that want to join, and the
//!   number of nodes that was asked for.
//! - *following*: it asks another process, and refers others to that process.
//! - *leading*: it collects offers, and has the members of the last view [vote](crate::Vote) on the next one.
//! - *decided*: it tells processes that ask which view was chosen.
//! - *giving up*: it tells processes that ask why the run cannot go on.

use crate::decide::{Standing, Undecided};
use crate::lead::{Chosen, Lead, Offers};
use crate::message::{Answer, Asked, Offer};
use crate::view::{HeldCut, Next, Process, View};
use crate::vote::Ballot;
use intendant_core::{Tick, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// How long an offer counts if it is not repeated.
const OFFER_US: u64 = 2_000_000;

/// How long the leader waits for members of which nothing is known.
const PATIENCE_US: u64 = 5_000_000;

/// If a process has joined with a view that did not begin, and may be the reason, no process of its machine
/// may join for this time. The time doubles with each further such view in a row, up to the second number.
/// Otherwise a process that cannot be a node would keep the others from their work again and again.
const CLOSED_US: u64 = 10_000_000;
const CLOSED_US_MAX: u64 = 320_000_000;

/// About the most offers that are kept, apart from those of the members of the last view. An offer has some
/// KiB, or some MiB with many cuts.
const OFFERS_MAX: usize = 4 * limits::NODES_MAX;

#[derive(Debug)]
enum Phase {
    InView,
    Following(SocketAddr),
    Leading(Lead),
    Decided(Next, SocketAddr),
    GivingUp(String),
}

/// The decision of a process that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This view was chosen, as the process wanted.
    Go(Next),
    /// There is no decision yet.
    Wait,
    /// No view can follow unless more processes come, for this reason.
    Stuck(String),
}

/// A machine with a process because of which a view may have failed to begin.
#[derive(Clone, Copy, Debug, Default)]
struct Closed {
    /// Number of such views in a row.
    spoilt: u32,
    /// Until this time, no process of the machine may join.
    until: Tick,
}

/// The state from which a process answers others that muster. The process is in a view, follows another
/// process, leads, has decided, or gives up.
#[derive(Debug)]
pub struct Muster {
    me: Offer,
    phase: Phase,
    offers: Offers,
    /// The last view in which this process has worked.
    worked: Option<View>,
    closed: BTreeMap<IpAddr, Closed>,
    /// The number of nodes that was asked for last.
    wanted: Option<u16>,
    /// The last view of which a cut is settled. Processes that left before that view need not hold their
    /// values any more.
    released: Option<u64>,
}

impl Muster {
    /// The state of a process that is in a view, or wants to be in one.
    #[must_use]
    pub const fn new(me: Offer) -> Self {
        Self {
            me,
            phase: Phase::InView,
            offers: Offers::new(),
            worked: None,
            closed: BTreeMap::new(),
            wanted: None,
            released: None,
        }
    }

    /// The offer that this process would send to others.
    #[must_use]
    pub const fn me(&self) -> &Offer {
        &self.me
    }

    /// Sets the cuts that this process holds from now on.
    pub fn hold(&mut self, cuts: Vec<HeldCut>) {
        self.me.cuts = cuts;
    }

    /// Whether this process is a member of the last view that it knows. If not, it wants to join.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.me.is_member()
    }

    /// These processes are lost.
    pub fn lose(&mut self, gone: impl IntoIterator<Item = u64>) {
        let own = self.me.process.id;
        for id in gone.into_iter().filter(|id| *id != own) {
            if !self.me.gone.contains(&id) {
                self.me.gone.push(id);
            }
        }
    }

    /// The process at this address lives. A process whose view has ended closes its connections, and is then
    /// taken for lost.
    pub fn revive(&mut self, at: SocketAddr) {
        if let Some(id) = self.member_at(at) {
            self.me.gone.retain(|gone| *gone != id);
        }
    }

    /// The member of the last view at this address.
    #[must_use]
    pub fn member_at(&self, at: SocketAddr) -> Option<u64> {
        let mut members = self.me.last.iter().flat_map(|view| &view.members);
        members.find(|member| member.address == at).map(|member| member.id)
    }

    /// This process will be no member of the next view.
    pub const fn leave(&mut self) {
        self.me.leaves = true;
    }

    /// Whether a quorum of the last view has come, is among these, or is this process.
    #[must_use]
    pub fn is_quorum(&self, others: &[u64]) -> bool {
        let is_there = |id| id == self.me.process.id || self.offers.contains_key(&id) || others.contains(&id);
        self.me.last.as_ref().is_some_and(|last| last.is_quorum(is_there))
    }

    /// Number of processes that may join, and have asked lately.
    #[must_use]
    pub fn joining(&self, now: Tick) -> usize {
        let wants = |offer: &Offer| {
            let is_member = self.me.last.as_ref().is_some_and(|view| view.has(offer.process.id));
            !offer.leaves && !is_member && is_open(&self.closed, now, &offer.process)
        };
        self.offers.values().filter(|(since, offer)| is_fresh(*since, now) && wants(offer)).count()
    }

    /// The number of nodes that was asked for since the last call, if any.
    pub const fn take_wanted(&mut self) -> Option<u16> {
        self.wanted.take()
    }

    /// A cut of the view is settled: processes that left before this view may end.
    pub const fn settle(&mut self, view: u64) {
        self.released = Some(view);
    }

    /// The process asks the process at `at` from now on.
    pub fn follow(&mut self, at: SocketAddr) {
        self.phase = Phase::Following(at);
    }

    /// The process leads from now on.
    pub fn lead(&mut self, now: Tick) {
        self.phase = Phase::Leading(Lead::new(now, &mut self.me));
    }

    /// The process has led, and cannot go on.
    pub fn give_up(&mut self, reason: String) {
        self.phase = Phase::GivingUp(reason);
    }

    /// Answers a request.
    pub fn answer(&mut self, now: Tick, asked: Asked) -> Answer {
        match asked {
            Asked::Scale(nodes) if nodes == 0 || usize::from(nodes) > limits::NODES_MAX => {
                Answer::Refused(format!("{nodes} nodes; allowed are 1 to {}", limits::NODES_MAX))
            }
            Asked::Scale(nodes) => match (&self.phase, &self.me.last) {
                (Phase::InView, Some(view)) => match view.members.first() {
                    Some(first) if first.id != self.me.process.id => Answer::Elsewhere(first.address),
                    Some(_) | None => {
                        self.wanted = Some(nodes);
                        Answer::Scaling { nodes: view.members.len() as u16 }
                    }
                },
                (_, _) => Answer::Wait,
            },
            Asked::Offer(offer) => self.answer_offer(now, offer),
        }
    }

    fn answer_offer(&mut self, now: Tick, offer: Offer) -> Answer {
        if offer.settings != self.me.settings {
            return Answer::Refused(
                "it was started with other flags (of the model, the training, or --export), data or another build than \
                 the nodes of the run"
                    .to_owned(),
            );
        }
        self.revive(offer.process.address);
        let is_released = |view: u64| offer.last.as_ref().is_none_or(|last| view > last.number);
        if offer.leaves && self.released.is_some_and(is_released) {
            return Answer::Released;
        }
        if offer.leaves && self.me.leaves {
            return Answer::Stuck("it leaves as well".to_owned());
        }
        if let Some(what) = offer.nonsense() {
            return Answer::Refused(format!("its offer makes no sense: {what}"));
        }
        match &self.phase {
            Phase::Following(at) => Answer::Elsewhere(*at),
            Phase::GivingUp(reason) => Answer::Stuck(reason.clone()),
            Phase::InView => self.answer_from_view(now, offer),
            Phase::Leading(_) => self.answer_as_leader(now, offer),
            Phase::Decided(next, coordinator)
                if offer.is_before(&next.view) && next.view.has(offer.process.id) =>
            {
                Answer::Go(next.clone(), *coordinator)
            }
            // The process that asks leaves, has come too late, or could not enter the view.
            Phase::Decided(..) => self.answer_others(now, offer),
        }
    }

    fn answer_from_view(&mut self, now: Tick, offer: Offer) -> Answer {
        let first = self.me.last.as_ref().and_then(|view| view.members.first()).copied();
        let is_member = self.me.last.as_ref().is_some_and(|view| view.has(offer.process.id));
        match (self.answer_others(now, offer), first) {
            // Node 0 lets others in.
            (Answer::Wait, Some(first)) if !is_member && first != self.me.process => {
                Answer::Elsewhere(first.address)
            }
            (answer, _) => answer,
        }
    }

    fn answer_as_leader(&mut self, now: Tick, offer: Offer) -> Answer {
        if let Some(later) = &offer.last {
            self.me.learn(later);
        }
        match (self.answer_others(now, offer.clone()), &self.phase, &self.me.last) {
            (Answer::Wait, Phase::Leading(lead), Some(last)) => lead.answer(last, &offer),
            (answer, _, _) => answer,
        }
    }

    /// Keeps an offer. The answer has the last view, if the process that asks does not know it.
    fn answer_others(&mut self, now: Tick, offer: Offer) -> Answer {
        let news = self.me.last.as_ref().filter(|last| offer.is_before(last) && !offer.leaves).cloned();
        self.keep(now, offer);
        news.map_or(Answer::Wait, Answer::Chosen)
    }

    /// The process has got this answer. Returns whether the process's offer has changed.
    pub fn hear(&mut self, answer: &Answer) -> bool {
        let votes = |ballot: &Ballot, me: &Offer| {
            !ballot.is_nonsense()
                && me.is_member()
                && me.last.as_ref().map(|last| last.number) == Some(ballot.view)
        };
        match answer {
            Answer::Promise(ballot) => votes(ballot, &self.me) && self.me.vote.promise(*ballot),
            Answer::Accept(ballot, next) => {
                votes(ballot, &self.me)
                    && !ballot.is_no_ballot_for(next)
                    && self.me.vote.accept(*ballot, next)
            }
            Answer::Chosen(view) => !view.is_nonsense() && self.me.learn(view),
            Answer::Wait
            | Answer::Elsewhere(_)
            | Answer::Refused(_)
            | Answer::Go(..)
            | Answer::Stuck(_)
            | Answer::Released
            | Answer::Scaling { .. } => false,
        }
    }

    /// The leader decides, if it can. `coordinator` is where the next view would meet.
    pub fn decide(&mut self, now: Tick, coordinator: SocketAddr) -> Decision {
        let Phase::Leading(lead) = &mut self.phase else { return Decision::Wait };
        self.offers.retain(|_, (since, _)| is_fresh(*since, now));
        let is_patient = now.0.saturating_sub(lead.since.0) < PATIENCE_US;
        let standing = |process: &Process| {
            if self.worked.as_ref().is_none_or(|view| view.has(process.id)) {
                Standing::Proven
            } else if is_open(&self.closed, now, process) {
                Standing::Welcome
            } else {
                Standing::Barred
            }
        };
        loop {
            match lead.step(&mut self.me, &self.offers, is_patient, standing) {
                Err(Undecided::Wait) => return Decision::Wait,
                Err(Undecided::Stuck(reason)) => return Decision::Stuck(reason),
                Ok(Chosen::Next(next)) => {
                    self.me.learn(&next.view);
                    self.phase = Phase::Decided(next.clone(), coordinator);
                    return Decision::Go(next);
                }
                // The members of this view that are there choose the view that follows it.
                Ok(Chosen::Void(view)) => {
                    self.me.learn(&view);
                }
            }
        }
    }

    /// The process was told to enter this view, which was chosen. Returns whether the process is a member,
    /// and did not know the view.
    pub fn go(&mut self, next: &Next) -> bool {
        !next.is_nonsense() && next.view.has(self.me.process.id) && self.me.learn(&next.view)
    }

    /// The process has entered this view together with all other members.
    pub fn entered(&mut self, view: &View) {
        self.me.learn(view);
        if view.number == 1 {
            self.worked = Some(view.clone());
        }
        self.me.leaves = false;
        self.me.gone.clear();
        self.phase = Phase::InView;
        self.offers.clear();
    }

    /// The process begins to work in this view, which it has entered.
    pub fn began(&mut self, next: &Next) {
        let is_new = |member: &&Process| self.worked.as_ref().is_some_and(|view| !view.has(member.id));
        for joined in next.view.members.iter().filter(is_new) {
            self.closed.remove(&joined.address.ip());
        }
        self.worked = Some(next.view.clone());
    }

    /// A view did not begin, perhaps because of these processes, which have joined with it. No process of
    /// their machines may join for some time.
    pub fn failed(&mut self, now: Tick, blamed: &[Process]) {
        let machines: BTreeSet<IpAddr> = blamed.iter().map(|process| process.address.ip()).collect();
        for machine in machines {
            let closed = self.closed.entry(machine).or_default();
            let pause = (CLOSED_US << closed.spoilt.min(16)).min(CLOSED_US_MAX);
            *closed = Closed { spoilt: closed.spoilt + 1, until: now.after(pause) };
        }
    }

    /// Keeps an offer, unless too many other processes want to join. The process repeats the offer, and it
    /// counts when some others have gone.
    fn keep(&mut self, now: Tick, offer: Offer) {
        let id = offer.process.id;
        let is_member = self.me.last.as_ref().is_some_and(|view| view.has(id));
        if self.offers.len() >= OFFERS_MAX && !is_member && !self.offers.contains_key(&id) {
            self.offers.retain(|_, (since, _)| is_fresh(*since, now));
            if self.offers.len() >= OFFERS_MAX {
                return;
            }
        }
        self.offers.insert(id, (now, offer));
    }

    /// The other members of the last view, including those that this process takes for lost, and whether each
    /// has a lower rank than this process. A member of lower rank would lead if it lives.
    #[must_use]
    pub fn others(&self) -> Vec<(Process, bool)> {
        let Some(view) = &self.me.last else { return Vec::new() };
        let own = view.rank(self.me.process.id).unwrap_or(usize::MAX);
        let ranked = view.members.iter().enumerate().filter(|(rank, _)| *rank != own);
        ranked.map(|(rank, member)| (*member, rank < own)).collect()
    }
}

/// Whether an offer still counts.
const fn is_fresh(since: Tick, now: Tick) -> bool {
    now.0.saturating_sub(since.0) < OFFER_US
}

/// Whether a process may join.
fn is_open(closed: &BTreeMap<IpAddr, Closed>, now: Tick, process: &Process) -> bool {
    closed.get(&process.address.ip()).is_none_or(|closed| now >= closed.until)
}

#[cfg(test)]
#[path = "muster_tests.rs"]
mod tests;
