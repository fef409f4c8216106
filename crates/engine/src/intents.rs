//! Intents: what this node's workers announce, when it counts, and what an owner makes of it. See
//! [`intendant_techniques::policy::adaptive`].
//!
//! Once per *round* a channel looks at the workers' clocks, takes in what they announced, and finds out which of it is due
//! ([`intendant_intent::Estimate`]). How many of the node's intents for a key are active is counted; when the count
//! comes from zero or back to it, the node registers with the owner or gives its registration up, and where it owns the key, it
//! applies the rule. So nothing is told of what workers of one node want one after the other, or at once.
//!
//! A round is as long as it takes an owner to answer, as measured: then what is acted on in a round is here before the round after
//! next, which is what the estimate asks for.
//!
//! While nobody's clock moves, or nobody has announced anything, there are no rounds: the channel sleeps, and says on the
//! [`intendant_intent::Board`] what for.
//!
//! When the cluster comes to rest, a channel acts on what has been announced until then, and is held: a key that moves while somebody
//! reads a snapshot, node by node, would be read twice, or not at all. What is announced meanwhile waits until a worker goes on.

use crate::active::Active;
use crate::channel::Channel;
use crate::decisions::{Cause, Decision, DecisionKind};
use crate::shared::Shared;
use intendant_core::{Element, Key, NodeId, Tick};
use intendant_intent::{Estimate, Schedule, Timing};
use intendant_store::Entry;
use intendant_techniques::{Act, Choice, Decider, Role, SlotState};
use std::sync::Arc;

/// Rounds in a row in which no clock has moved, after which a channel sleeps.
const STOOD_MAX: u32 = 8;
/// Rounds are never longer than this, whatever has been measured: a peer that was stopped for a while does not blind this node for as long. In µs.
const ROUND_MAX: f64 = 100_000.0;
/// Weight of an answer that took longer than a round, and of one that was faster. Too short a round is worse than one that is too long.
const LONGER: f64 = 0.5;
const SHORTER: f64 = 0.1;
/// Keys of which replicas are asked for in one round where everything is replicated.
const STANDING_PER_ROUND: usize = 1 << 12;

/// What a channel knows of its workers' intents.
pub(crate) struct Intents {
    /// What to do about them; `None` if nothing, and then all else is empty.
    policy: Option<intendant_techniques::Intents>,
    timing: Timing,
    /// By worker.
    schedules: Vec<Schedule>,
    estimates: Vec<Estimate>,
    /// By worker, the clock at the last round.
    clocks: Vec<u32>,
    /// Rounds in a row in which no clock moved.
    stood: u32,
    /// Length of a round, in µs.
    length: f64,
    length_min: u64,
    /// The longest that an owner took to answer since the last round.
    answer: Option<u64>,
    next: Tick,
    asleep: bool,
    /// How many intents for a key are active.
    active: Option<Active>,
    /// Rounds so far.
    rounds: u64,
    /// By worker, the clock before which intents began in the last round.
    horizons: Vec<u32>,
    /// Keys whose intents have changed in this round; empty between rounds.
    changed: Vec<Key>,
    /// Where homes are told of every intent: of which keys, and whether it is active; empty between rounds.
    each: Vec<(Key, bool)>,
    /// Where everything is replicated: the next key to ask for.
    standing: Option<u64>,
}

impl Intents {
    pub(crate) fn new<E: Element>(shared: &Shared<E>) -> Self {
        let policy = shared.policy().intents.filter(|_| shared.board().is_some());
        let workers = shared.board().map_or(0, |board| board.workers());
        let copies = shared.copies();
        let timing = Timing::new(copies.timing).unwrap_or_else(|wrong| panic!("{wrong}"));
        let everything = policy.is_some_and(|policy| policy.choice == Choice::Everywhere);
        Self {
            policy,
            timing,
            schedules: (0..workers).map(|_| Schedule::default()).collect(),
            estimates: vec![timing.estimate(); workers],
            clocks: vec![0; workers],
            stood: 0,
            length: copies.round_min.0 as f64,
            length_min: copies.round_min.0,
            answer: None,
            next: Tick(0),
            asleep: false,
            active: policy.map(|_| Active::new(shared.layout(), shared.is_lazy())),
            rounds: 0,
            horizons: vec![0; workers],
            changed: Vec::new(),
            each: Vec::new(),
            standing: everything.then_some(0),
        }
    }

    /// Whether it is intents that direct replicas.
    pub(crate) fn direct(&self) -> bool {
        self.policy.is_some()
    }

    /// When the next round is due; `None` if the channel sleeps, or there are none.
    pub(crate) fn due(&self) -> Option<Tick> {
        (self.policy.is_some() && !self.asleep).then_some(self.next)
    }

    /// How many of the node's intents for `key` are active.
    pub(crate) fn active(&self, key: Key) -> u32 {
        self.active.as_ref().map_or(0, |active| active.of(key))
    }

    /// Who decides about keys, if intents are acted on.
    pub(crate) fn decider(&self) -> Option<Decider> {
        self.policy.map(|policy| policy.decider)
    }

    /// What must come before the node is at rest.
    pub(crate) fn outstanding(&self) -> usize {
        usize::from(self.standing.is_some())
    }

    /// An owner has answered what it was asked at `since`.
    pub(crate) fn answered(&mut self, now: Tick, since: Tick) {
        let took = now.0.saturating_sub(since.0);
        self.answer = Some(self.answer.map_or(took, |longest| longest.max(took)));
    }

    /// A round begins.
    fn start(&mut self, now: Tick) {
        if let Some(took) = self.answer.take() {
            let took = (took as f64).min(ROUND_MAX);
            let weight = if took > self.length { LONGER } else { SHORTER };
            self.length += weight * (took - self.length);
        }
        self.next = now.after((self.length as u64).max(self.length_min));
    }
}

/// Why a key is where it is, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What the node is to the key.
    pub role: Role,
    /// Where the key is; if it is elsewhere, where the node would look for it first.
    pub owner: NodeId,
    /// If the key is owned here, the nodes that hold replicas of it.
    pub holders: Vec<NodeId>,
    /// How many of the node's intents for the key are active.
    pub intents: u32,
    /// What has been decided here about the key lately, oldest first.
    pub decisions: Vec<Decision>,
}

impl<E: Element> Channel<E> {
    /// Why a key of this channel is where it is.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn explain(&self, key: Key) -> Explanation {
        let shared = &self.shared;
        let (entry, role) = shared.latch(key);
        let state = entry.state();
        drop(entry);
        let elsewhere = || state.hint().unwrap_or_else(|| shared.directory().home(key));
        let owner = if role.is_owner() { shared.node() } else { elsewhere() };
        let hub = self.hubs.hubs.get(&key);
        let holders = hub.map_or_else(Vec::new, |hub| hub.holders().iter().map(|h| h.node).collect());
        let intents = self.intents.active(key);
        Explanation { role, owner, holders, intents, decisions: self.decisions.of(key) }
    }

    pub(crate) fn note(&mut self, key: Key, what: DecisionKind) {
        if self.intents.direct() {
            self.decisions.note(self.now, key, what);
        }
    }

    /// Length of a round of intents, in µs.
    pub fn round_length(&self) -> f64 {
        self.intents.length.max(self.intents.length_min as f64)
    }

    /// Clocks per round of a worker of this node, as estimated; `None` if intents are not acted on.
    pub fn clock_rate(&self, worker: usize) -> Option<f64> {
        self.intents.estimates.get(worker).map(Estimate::rate)
    }

    /// Whether the channel has no rounds to come, or sleeps: nothing that is announced needs looking at before a clock moves, or more is announced.
    pub fn is_asleep(&self) -> bool {
        self.intents.due().is_none()
    }

    /// How many of the node's intents for a key of this channel are active. For invariant checks.
    ///
    /// # Panics
    /// If the key does not exist.
    pub fn active(&self, key: Key) -> u32 {
        self.intents.active(key)
    }

    /// Rounds of intents so far. For invariant checks.
    pub fn intent_rounds(&self) -> u64 {
        self.intents.rounds
    }

    /// The clock before which intents of a worker began in the last round; those that have started begin in any case. For
    /// invariant checks.
    pub fn horizon(&self, worker: usize) -> Option<u32> {
        self.intents.horizons.get(worker).copied()
    }

    /// Whether a replica of `key` that is here, or asked for, is wanted; `None` if there is none. For invariant checks.
    pub fn wants(&self, key: Key) -> Option<bool> {
        self.holding.held.get(&key).map(|held| held.wanted)
    }

    /// A round, and what comes after it.
    pub(crate) fn act(&mut self) -> Result<(), String> {
        self.look()?;
        let shared = Arc::clone(&self.shared);
        self.doze(&shared);
        Ok(())
    }

    /// The cluster comes to rest: acts on what has been announced, and on nothing more until a worker goes on.
    pub(crate) fn hold(&mut self) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let Some(board) = shared.board().filter(|board| !board.is_held(self.id.index())) else {
            return Ok(());
        };
        self.look()?;
        if self.intents.standing.is_none() {
            board.hold(self.id.index());
            self.intents.asleep = true;
        }
        Ok(())
    }

    /// A round: acts on what is due, and forgets what is over.
    fn look(&mut self) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let (Some(board), Some(policy)) = (shared.board(), self.intents.policy) else { return Ok(()) };
        self.intents.start(self.now);
        self.intents.rounds += 1;
        let mut moved = false;
        for worker in 0..board.workers() {
            // Before what is announced: what is announced after this belongs to later clocks.
            let clock = board.clock(worker);
            let mut schedule = std::mem::take(&mut self.intents.schedules[worker]);
            board.take(worker, self.id.index(), &mut |intent| schedule.add(intent));
            moved |= std::mem::replace(&mut self.intents.clocks[worker], clock) != clock;
            let until = self.intents.estimates[worker].round(clock, &self.intents.timing);
            let until = if policy.action == Act::AtOnce { u32::MAX } else { until };
            self.intents.horizons[worker] = until;
            schedule.begin(clock, until, |keys| self.count(keys, true));
            schedule.end(clock, |keys| self.count(keys, false));
            self.intents.schedules[worker] = schedule;
        }
        self.stand(&shared);
        let mut each = std::mem::take(&mut self.intents.each);
        for (key, active) in each.drain(..) {
            self.signal(&shared, key, active)?;
        }
        self.intents.each = each;
        let mut changed = std::mem::take(&mut self.intents.changed);
        // What was over and began again, in whatever order, has not changed.
        changed.sort_unstable();
        changed.dedup();
        for key in changed.drain(..) {
            self.reconsider(&shared, key)?;
        }
        self.intents.changed = changed;
        self.intents.stood = if moved { 0 } else { self.intents.stood.saturating_add(1) };
        Ok(())
    }

    /// Intents for `keys` become active, or are over.
    fn count(&mut self, keys: &[Key], more: bool) {
        let Intents { policy, active: Some(active), changed, each, .. } = &mut self.intents else { return };
        if policy.is_some_and(|policy| policy.decider == Decider::HomeOfEach) {
            each.extend(keys.iter().map(|key| (*key, more)));
        }
        // Where keys only move, each intent is a reason to fetch the key back.
        let every = more && policy.is_some_and(|policy| policy.choice == Choice::Relocate);
        for key in keys {
            if active.count(*key, more) == u32::from(more) || every {
                changed.push(*key);
            }
        }
        if more {
            self.stats.intents += keys.len() as u64;
        }
    }

    /// Where everything is replicated, every node has intent for every key, from the start.
    fn stand(&mut self, shared: &Shared<E>) {
        let Some(first) = self.intents.standing else { return };
        let layout = shared.layout();
        let mut keys = (first..layout.keys()).map(Key).filter(|key| layout.channel(*key) == self.id);
        let some: Vec<Key> = keys.by_ref().take(STANDING_PER_ROUND).collect();
        let next = keys.next().map(|key| key.0);
        self.count(&some, true);
        self.intents.standing = next;
    }

    /// This node has begun to have active intent for a key, or has none any more.
    fn reconsider(&mut self, shared: &Shared<E>, key: Key) -> Result<(), String> {
        let active = self.intents.active(key);
        self.note(key, if active > 0 { DecisionKind::Began } else { DecisionKind::Ended });
        if self.intents.decider() == Some(Decider::Home) {
            // The key may leave.
            self.signal(shared, key, active > 0)?;
        }
        let (mut entry, role) = shared.latch(key);
        let state = entry.state();
        match role {
            Role::Owner | Role::Hub => {
                self.decide(shared, &mut entry, Cause::Ended(shared.node()));
                Ok(())
            }
            Role::Absent | Role::Replica => {
                let unused = active == 0 && state == SlotState::default();
                if unused && shared.is_lazy() && !self.holding.held.contains_key(&key) {
                    entry.remove();
                    return Ok(());
                }
                drop(entry);
                if active > 0 {
                    return self.want(key, &state, 0);
                }
                self.unwant(key)?;
                // What was added goes with this round, not with the next one of deltas: until the owner hears of the end, it takes
                // this node for one that has intent.
                self.carry_on(key).map(drop)
            }
            Role::Arriving | Role::Leaving | Role::Static => {
                Err(format!("{key:?} is {role:?}, which intents lead to never"))
            }
        }
    }

    /// The owner's rule: the key moves, or stays, now that intent has begun or ended. True if it moves.
    pub(crate) fn decide(
        &mut self,
        shared: &Shared<E>,
        entry: &mut Entry<'_, SlotState, E>,
        cause: Cause,
    ) -> bool {
        let Some(policy) = self.intents.policy.filter(|policy| policy.decider == Decider::Owner) else {
            return false;
        };
        let to = match policy.choice {
            Choice::Adaptive => {
                let hub = self.hubs.hubs.get(&entry.key());
                let only = hub.filter(|hub| hub.holders().len() == 1).map(|hub| hub.holders()[0].node);
                only.filter(|_| self.intents.active(entry.key()) == 0)
            }
            Choice::Relocate => match cause {
                Cause::Began(node) => Some(node),
                Cause::Ended(_) | Cause::Told => None,
            },
            Choice::Replicate | Choice::Everywhere => None,
        };
        if let Some(to) = to {
            self.note(entry.key(), DecisionKind::Moved(to, cause));
            self.move_to(shared, entry, to);
        }
        to.is_some()
    }

    /// Goes to sleep if nothing will come of rounds.
    fn doze(&mut self, shared: &Shared<E>) {
        let Some(board) = shared.board() else { return };
        let intents = &self.intents;
        let idle = intents.schedules.iter().all(Schedule::is_empty);
        if intents.standing.is_some() || !(idle || intents.stood >= STOOD_MAX) {
            return;
        }
        let wake = |worker: usize| {
            let schedule = &intents.schedules[worker];
            (!schedule.is_empty()).then(|| intents.clocks[worker].saturating_add(1))
        };
        self.intents.asleep = board.sleep(self.id.index(), wake);
    }

    /// Something has come that the channel slept for.
    pub(crate) fn on_wake(&mut self) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        // Who was woken may have been held before it heard of it.
        if shared.board().is_none_or(|board| board.is_asleep(self.id.index()))
            || !std::mem::replace(&mut self.intents.asleep, false)
        {
            return Ok(());
        }
        if let Some(board) = shared.board() {
            let Intents { estimates, schedules, .. } = &mut self.intents;
            for (worker, (estimate, schedule)) in estimates.iter_mut().zip(schedules).enumerate() {
                // What a clock that nobody waited for did meanwhile says nothing about a round. One that was waited for stood, and
                // has just moved: workers that are slower than a few rounds must be known to be.
                if schedule.is_empty() {
                    estimate.resume(board.clock(worker));
                }
            }
        }
        self.intents.stood = 0;
        // Not before its time: who announces and falls silent by turns would have as many rounds as it likes.
        if self.now < self.intents.next { Ok(()) } else { self.act() }
    }
}
