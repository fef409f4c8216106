//! What a process answers to those that muster, as a state machine without streams.
//!
//! Processes ask again and again, and get an answer at once: an offer that is not repeated for a while has no
//! effect any more. A process is in one of these phases:
//!
//! - *in a view*, which goes on for all that it knows. It remembers who wants to join, and that another
//!   number of nodes was asked for.
//! - *following*: it asks another process, and names it.
//! - *leading*: it collects offers, and decides.
//! - *decided*: it tells the decision to those who ask.
//! - *giving up*: it tells those who ask why the run cannot go on.

use crate::decide::{Decision, Next, Offer, Process, View, decide};
use intendant_core::{Tick, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// How long an offer counts that is not repeated.
const OFFER_US: u64 = 2_000_000;

/// How long members are waited for of which nothing is known.
const PATIENCE_US: u64 = 5_000_000;

/// For so long no process may join after a view with one that joined could not be entered; twice as long
/// after each further such view in a row, up to the second number. A process that cannot be a node would keep
/// the others from their work again and again.
const CLOSED_US: u64 = 10_000_000;
const CLOSED_US_MAX: u64 = 320_000_000;

/// Offers that are kept for others than the members of the last view, about: an offer has some KiB, or MiB
/// with many cuts.
const OFFERS_MAX: usize = 4 * limits::NODES_MAX;

/// What is asked of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and none is kept")]
pub enum Asked {
    /// To be a node of the next view.
    Offer(Offer),
    /// That the run goes on with so many nodes.
    Scale(u16),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and none is kept")]
pub enum Answer {
    /// Ask again.
    Wait,
    /// Ask this process.
    Elsewhere(SocketAddr),
    /// The run is in a later view, of which the process is no member. It may join it, at this address.
    Outside(SocketAddr),
    /// The process that asks has no place in the run, for this reason.
    Refused(String),
    /// The next view, whose node 0 serves the coordinator at this address.
    Go(Next, SocketAddr),
    /// The run cannot go on with those who have come, for this reason.
    Stuck(String),
    /// The process may end: the others have all values that it holds.
    Released,
    /// The run has so many nodes, and the wish is known.
    Scaling {
        /// How many it has.
        nodes: u16,
    },
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a process has one")]
enum Phase {
    InView,
    Following(SocketAddr),
    Leading {
        since: Tick,
    },
    /// With what the decision took the members to have entered and to be entering.
    Decided(Next, SocketAddr, BTreeMap<u64, Position>),
    GivingUp(String),
}

/// The view that a process has entered, and the one that it was entering.
type Position = (Option<View>, Option<View>);

/// What a process answers to those that muster. It is in a view, follows another process, leads, has
/// decided, or gives up.
#[derive(Debug)]
pub struct Muster {
    me: Offer,
    phase: Phase,
    offers: BTreeMap<u64, (Tick, Offer)>,
    /// Views in a row in which a process joined and that could not be entered.
    spoilt: u32,
    /// Until then no process may join.
    closed: Tick,
    /// The number of nodes that was asked for last.
    wanted: Option<u16>,
    /// Processes that leave: what they hold is not needed any more from this view on, once its first cut is
    /// settled.
    released: Option<u64>,
}

impl Muster {
    /// That of a process that is in a view, or wants to be in one.
    #[must_use]
    pub fn new(me: Offer) -> Self {
        let (offers, spoilt, closed) = (BTreeMap::new(), 0, Tick(0));
        Self { me, phase: Phase::InView, offers, spoilt, closed, wanted: None, released: None }
    }

    /// What this process would tell others.
    pub fn me(&mut self) -> &mut Offer {
        &mut self.me
    }

    /// Processes that may join, and have asked lately.
    #[must_use]
    pub fn joining(&self, now: Tick) -> usize {
        if now < self.closed {
            return 0;
        }
        let fresh = |since: Tick| now.0.saturating_sub(since.0) < OFFER_US;
        let wants = |offer: &Offer| {
            !offer.leaves && !self.me.entered.as_ref().is_some_and(|view| view.has(offer.process.id))
        };
        self.offers.values().filter(|(since, offer)| fresh(*since) && wants(offer)).count()
    }

    /// The number of nodes that was asked for since this was called last.
    pub fn take_wanted(&mut self) -> Option<u16> {
        self.wanted.take()
    }

    /// A cut of the view is settled: those who left may end.
    pub fn settle(&mut self, view: u64) {
        self.released = Some(view);
    }

    /// The process asks another one.
    pub fn follow(&mut self, at: SocketAddr) {
        self.phase = Phase::Following(at);
    }

    /// The process decides from now on.
    pub fn lead(&mut self, now: Tick) {
        self.phase = Phase::Leading { since: now };
    }

    /// The process has led, and cannot go on.
    pub fn give_up(&mut self, reason: String) {
        self.phase = Phase::GivingUp(reason);
    }

    /// Answers.
    pub fn answer(&mut self, now: Tick, asked: Asked) -> Answer {
        match asked {
            Asked::Scale(nodes) if nodes == 0 || usize::from(nodes) > limits::NODES_MAX => {
                Answer::Refused(format!("{nodes} nodes; allowed are 1 to {}", limits::NODES_MAX))
            }
            Asked::Scale(nodes) => match (&self.phase, &self.me.entered) {
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
        if offer.leaves && self.released.is_some_and(|view| view > offer.seen) {
            return Answer::Released;
        }
        if let Some(what) = offer.nonsense() {
            return Answer::Refused(format!("its offer makes no sense: {what}"));
        }
        let id = offer.process.id;
        match &self.phase {
            Phase::InView => {
                let view = self.me.entered.as_ref();
                let is_later =
                    |view: &View| offer.entered.as_ref().is_some_and(|old| old.number < view.number);
                if let Some(first) = view
                    .filter(|view| is_later(view) && !view.has(id) && !offer.leaves)
                    .and_then(|view| view.members.first())
                {
                    return Answer::Outside(first.address);
                }
                let answer = match view.and_then(|view| view.members.first()) {
                    Some(first)
                        if first.id != self.me.process.id && !view.is_some_and(|view| view.has(id)) =>
                    {
                        Answer::Elsewhere(first.address)
                    }
                    Some(_) | None => Answer::Wait,
                };
                self.keep(now, offer);
                answer
            }
            Phase::Following(at) => Answer::Elsewhere(*at),
            Phase::GivingUp(reason) => Answer::Stuck(reason.clone()),
            Phase::Leading { .. } => {
                self.keep(now, offer);
                Answer::Wait
            }
            Phase::Decided(next, coordinator, taken) => {
                // A member that has called the gather of another view meanwhile must not call that of this
                // one, or both could be entered, and would follow the same view.
                let is_as_taken = taken.get(&id).is_some_and(|taken| *taken == position(&offer));
                if is_as_taken && offer.seen < next.view.number {
                    Answer::Go(next.clone(), *coordinator)
                } else {
                    // It leaves, has come too late or gone another way, or the view has failed for it.
                    self.keep(now, offer);
                    Answer::Wait
                }
            }
        }
    }

    /// The leader decides if it can. `coordinator` is where the next view would meet.
    pub fn decide(&mut self, now: Tick, coordinator: SocketAddr) -> Decision {
        let Phase::Leading { since } = self.phase else { return Decision::Wait(Vec::new()) };
        self.offers.retain(|_, (since, _)| now.0.saturating_sub(since.0) < OFFER_US);
        let others = self.offers.iter().map(|(id, (_, offer))| (*id, offer.clone()));
        let all: BTreeMap<u64, Offer> = others.chain([(self.me.process.id, self.me.clone())]).collect();
        let decision = decide(&all, now.0.saturating_sub(since.0) < PATIENCE_US, now >= self.closed);
        if let Decision::Go(next) = &decision {
            let members = all.iter().filter(|(id, _)| next.view.has(**id));
            let taken = members.map(|(id, offer)| (*id, position(offer))).collect();
            self.phase = Phase::Decided(next.clone(), coordinator, taken);
        }
        decision
    }

    /// The process is about to enter this view.
    pub fn go(&mut self, next: &Next) {
        self.me.seen = self.me.seen.max(next.view.number);
        // Else a process that is lost while the next view begins could make this one pass that view over.
        if self.me.entered.as_ref().is_none_or(|entered| entered.number <= next.follows.number) {
            self.me.entered = Some(next.follows.clone());
            // A gather that it has called since then is not forgotten before it calls that of this view, when
            // all members have met: until then, one of them may call the other one.
            self.me.entering.take_if(|entering| entering.number <= next.follows.number);
        }
    }

    /// The process calls the first gather of a view.
    pub fn entering(&mut self, view: &View) {
        self.me.seen = self.me.seen.max(view.number);
        self.me.entering = Some(view.clone());
    }

    /// It has passed that gather.
    pub fn entered(&mut self, view: &View) {
        self.me.seen = self.me.seen.max(view.number);
        (self.me.entered, self.me.entering, self.me.leaves) = (Some(view.clone()), None, false);
        self.me.gone.clear();
        self.phase = Phase::InView;
        self.offers.clear();
    }

    /// The process begins to work in this view, which it has entered.
    pub fn began(&mut self, next: &Next) {
        if next.has_joined() {
            self.spoilt = 0;
        }
    }

    /// The process could not enter this view, or not begin to work in it.
    pub fn failed(&mut self, now: Tick, next: &Next) {
        if next.has_joined() {
            let closed = (CLOSED_US << self.spoilt.min(16)).min(CLOSED_US_MAX);
            (self.spoilt, self.closed) = (self.spoilt + 1, now.after(closed));
        }
    }

    /// Keeps an offer, unless too many others want to join: it counts if it is repeated when some have gone.
    fn keep(&mut self, now: Tick, offer: Offer) {
        let id = offer.process.id;
        let is_member = self.me.entered.as_ref().is_some_and(|view| view.has(id));
        if self.offers.len() >= OFFERS_MAX && !is_member && !self.offers.contains_key(&id) {
            self.offers.retain(|_, (since, _)| now.0.saturating_sub(since.0) < OFFER_US);
            if self.offers.len() >= OFFERS_MAX {
                return;
            }
        }
        self.offers.insert(id, (now, offer));
    }

    /// The other members of the last view, and whether each has a lower rank than this process: it would lead
    /// if it lives.
    #[must_use]
    pub fn others(&self) -> Vec<(Process, bool)> {
        let Some(view) = &self.me.entered else { return Vec::new() };
        let own = view.rank(self.me.process.id).unwrap_or(0);
        let ranked = view.members.iter().enumerate().filter(|(rank, _)| *rank != own);
        let lives = |(_, member): &(usize, &Process)| !self.me.gone.contains(&member.id);
        ranked.filter(lives).map(|(rank, member)| (*member, rank < own)).collect()
    }

    /// The process wants to join the run, of which it was a node: it holds nothing that is needed.
    pub fn start_over(&mut self) {
        (self.me.entered, self.me.entering) = (None, None);
        self.me.cuts.clear();
        self.me.gone.clear();
    }
}

fn position(offer: &Offer) -> Position {
    (offer.entered.clone(), offer.entering.clone())
}

#[cfg(test)]
#[path = "muster_tests.rs"]
mod tests;
