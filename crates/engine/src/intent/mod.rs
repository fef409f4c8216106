//! Intents: the channel collects what this node's workers signal, decides when to act on it, and applies the
//! rule of the technique to keys. See [`intendant_techniques::policy::adaptive`].
//!
//! Once per *round* a channel reads the workers' clocks, takes the intents that they signalled, and finds out
//! which of them are due ([`intendant_intent::Estimate`]). It counts the active intents of the node per key.
//! When the count of a key becomes nonzero, the node registers with the owner; when it becomes zero again,
//! the node drops its registration. For a key that it owns, it applies the rule. Overlapping intents of a
//! node for a key therefore cause one registration. Consecutive intents do too, if the end of one and the
//! start of the next are found in the same round.
//!
//! Intents begin so early that the key arrives before it is used: ahead of use by twice the time that owners
//! take to answer, converted to clocks of the worker. That time is a moving average of the longest answer of
//! each round; a single answer counts as at most 100 ms. A round takes as long as this average, but at least
//! `round_min` and at most 10 ms: workers signal intents some 100 ms before their start, and the time that an
//! intent waits for the next round is lost.
//!
//! The channel sleeps, and has no rounds, if no intent is waiting or active, or if no clock has moved for
//! `IDLE_ROUNDS_MAX` rounds. It notes on the [`intendant_intent::Board`] what wakes it.
//!
//! When the cluster rests, a channel acts on the intents signalled so far, and then on no more until a worker
//! continues. Otherwise a key could move while a node reads the snapshots of all nodes one by one, and the
//! snapshots would contain it twice or not at all.
//!
//! [`home`] is the ablation in which homes apply the rule instead of owners.

mod active;
pub(crate) mod home;

use crate::channel::core::Core;
use crate::channel::effects::Output;
use active::Active;
use home::Home;
use intendant_core::{Element, Key, NodeId, Tick};
use intendant_intent::{Board, Estimate, Schedule, Timing};
use intendant_techniques::replication::Hub;
use intendant_techniques::{Act, Choice, Decider};
use intendant_trace::Cause;

/// Rounds in a row in which no clock has moved, after which a channel sleeps.
const IDLE_ROUNDS_MAX: u32 = 8;
/// Longest round, in µs.
const ROUND_MAX: f64 = 10_000.0;
/// Longest answer, in µs: a peer that was stopped for a while must not make intents begin earlier by all the
/// time for which it was stopped.
const ANSWER_MAX: f64 = 100_000.0;
/// Weight, in the moving average of answers, of an answer that took longer. Acting too late is worse than
/// acting too early.
const WEIGHT_SLOWER: f64 = 0.5;
/// Weight of a faster answer, and of the time between two rounds in its average.
const WEIGHT_FASTER: f64 = 0.1;
/// Intents begin this many answer times before their keys are used.
const ANSWERS_AHEAD: f64 = 2.0;
/// With `Choice::Everywhere`, number of keys for which one round asks for replicas.
const STANDING_PER_ROUND: usize = 1 << 12;

/// A channel's knowledge of its workers' intents.
pub(crate) struct Intents {
    /// What intents lead to; `None` if the technique ignores them: then all other fields are empty.
    policy: Option<intendant_techniques::IntentPolicy>,
    timing: Timing,
    /// By worker.
    schedules: Vec<Schedule>,
    /// What a worker has signalled since the last round; empty between uses.
    taken: intendant_intent::Signalled,
    /// By worker.
    estimates: Vec<Estimate>,
    /// By worker, the clock at the last round.
    clocks: Vec<u32>,
    /// Rounds in a row in which no clock moved.
    idle_rounds: u32,
    /// How long owners take to answer, in µs.
    answers: f64,
    /// The longest time, in µs, that an owner took to answer since the last round.
    answer: Option<u64>,
    length_min: f64,
    /// The last round, and the average time between two rounds, in µs: looks may be late.
    last: Option<Tick>,
    interval: f64,
    next: Tick,
    asleep: bool,
    /// Number of active intents by key.
    active: Option<Active>,
    /// Rounds so far.
    rounds: u64,
    /// By worker, the clock before which intents began in the last round.
    horizons: Vec<u32>,
    /// What the current round has found; empty between rounds.
    pub(crate) found: Found,
    /// With `Choice::Everywhere`: the next key to ask for.
    standing: Option<u64>,
    /// If homes decide: the intents that nodes have reported to this home.
    pub(crate) home: Home,
}

/// Keys whose intents have changed in a round.
#[derive(Default)]
pub(crate) struct Found {
    /// Keys whose number of active intents has become nonzero or zero again.
    pub(crate) changed: Vec<Key>,
    /// With `Decider::HomeOfEach`: the key of each intent, and whether the intent has become active.
    pub(crate) each: Vec<(Key, bool)>,
}

impl Intents {
    pub(crate) fn new<E: Element>(core: &Core<E>) -> Self {
        let shared = &core.shared;
        let policy = core.policy().intents.filter(|_| shared.clocks().board().is_some());
        let workers = shared.clocks().board().map_or(0, Board::workers);
        let config = shared.replication();
        let timing = Timing::new(config.timing).unwrap_or_else(|wrong| panic!("{wrong}"));
        let everything = policy.is_some_and(|policy| policy.choice == Choice::Everywhere);
        Self {
            policy,
            timing,
            schedules: (0..workers).map(|_| Schedule::default()).collect(),
            taken: intendant_intent::Signalled::default(),
            estimates: vec![timing.estimate(); workers],
            clocks: vec![0; workers],
            idle_rounds: 0,
            answers: config.round_min.0 as f64,
            answer: None,
            length_min: config.round_min.0 as f64,
            last: None,
            interval: config.round_min.0 as f64,
            next: Tick(0),
            asleep: false,
            active: policy.map(|_| Active::new(shared.layout(), shared.is_lazy())),
            rounds: 0,
            horizons: vec![0; workers],
            found: Found::default(),
            standing: everything.then_some(0),
            home: Home::default(),
        }
    }

    /// Whether intents lead to anything.
    pub(crate) fn are_used(&self) -> bool {
        self.policy.is_some()
    }

    /// When the next round is due; `None` if the channel sleeps, or there are no rounds.
    pub(crate) fn due(&self) -> Option<Tick> {
        (self.policy.is_some() && !self.asleep).then_some(self.next)
    }

    /// Number of the node's active intents for `key`.
    pub(crate) fn active(&self, key: Key) -> u32 {
        self.active.as_ref().map_or(0, |active| active.of(key))
    }

    /// Prefetches the counts of the keys behind the one at `at`.
    pub(crate) fn prefetch(&self, keys: &[Key], at: usize) {
        if let Some(active) = &self.active {
            active.prefetch(keys, at);
        }
    }

    /// Who decides about keys, if intents lead to anything.
    pub(crate) fn decider(&self) -> Option<Decider> {
        self.policy.map(|policy| policy.decider)
    }

    /// Number of things that must be done before the node is at rest.
    pub(crate) fn outstanding(&self) -> usize {
        usize::from(self.standing.is_some())
    }

    /// Length of a round, in µs.
    pub(crate) fn round_length(&self) -> f64 {
        self.answers.min(ROUND_MAX).max(self.length_min)
    }

    /// Clocks per round of a worker, as estimated.
    pub(crate) fn clock_rate(&self, worker: usize) -> Option<f64> {
        self.estimates.get(worker).map(Estimate::rate)
    }

    /// Rounds so far.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The clock before which intents of `worker` began in the last round.
    pub(crate) fn horizon(&self, worker: usize) -> Option<u32> {
        self.horizons.get(worker).copied()
    }

    /// An owner has answered a request made at `since`.
    pub(crate) fn owner_answered(&mut self, now: Tick, since: Tick) {
        let took = now.0.saturating_sub(since.0);
        self.answer = Some(self.answer.map_or(took, |longest| longest.max(took)));
    }

    /// Begins a round. Returns how many rounds before the use of their keys intents begin.
    fn begin_round(&mut self, now: Tick) -> f64 {
        if let Some(took) = self.answer.take() {
            let took = (took as f64).min(ANSWER_MAX);
            let weight = if took > self.answers { WEIGHT_SLOWER } else { WEIGHT_FASTER };
            self.answers += weight * (took - self.answers);
        }
        if let Some(last) = self.last.replace(now) {
            let spent = (now.0.saturating_sub(last.0) as f64).min(ANSWER_MAX);
            self.interval += WEIGHT_FASTER * (spent - self.interval);
        }
        self.next = now.after(self.round_length() as u64);
        // If answers take no longer than a round, the result is two rounds.
        ANSWERS_AHEAD * (self.answers / self.interval.max(self.round_length())).max(1.0)
    }

    /// Starts a round: finds intents that are due and intents that have ended. The caller takes the keys out
    /// of `found`, and acts on them. Returns false if there are no rounds.
    pub(crate) fn find_due<E: Element>(&mut self, core: &Core<E>, out: &mut Output) -> bool {
        let (Some(board), Some(policy)) = (core.shared.clocks().board(), self.policy) else { return false };
        let rounds_ahead = self.begin_round(core.now);
        self.rounds += 1;
        let mut moved = false;
        for worker in 0..board.workers() {
            // The clock is read before the intents: an intent that is signalled after this belongs to later
            // clocks.
            let clock = board.clock(worker);
            let mut schedule = std::mem::take(&mut self.schedules[worker]);
            board.take(worker, core.id.index(), &mut self.taken);
            self.taken.iter().for_each(|(keys, start, end)| schedule.add(keys, start, end));
            self.taken.clear();
            moved |= std::mem::replace(&mut self.clocks[worker], clock) != clock;
            let until = self.estimates[worker].round(clock, rounds_ahead, &self.timing);
            let until = if policy.action == Act::AtOnce { u32::MAX } else { until };
            self.horizons[worker] = until;
            schedule.begin(clock, until, |keys| self.count(out, keys, true));
            schedule.end(clock, |keys| self.count(out, keys, false));
            self.schedules[worker] = schedule;
        }
        self.stand(core, out);
        // An intent that has ended and begun again, in either order, changes nothing.
        self.found.changed.sort_unstable();
        self.found.changed.dedup();
        self.idle_rounds = if moved { 0 } else { self.idle_rounds.saturating_add(1) };
        true
    }

    /// Counts intents for `keys` that become active or end.
    fn count(&mut self, out: &mut Output, keys: &[Key], more: bool) {
        let Self { policy, active: Some(active), found, .. } = self else { return };
        if policy.is_some_and(|policy| policy.decider == Decider::HomeOfEach) {
            found.each.extend(keys.iter().map(|key| (*key, more)));
        }
        // If keys only move, each intent is a reason to fetch the key back.
        let every = more && policy.is_some_and(|policy| policy.choice == Choice::Relocate);
        for (at, key) in keys.iter().enumerate() {
            active.prefetch(keys, at);
            if active.count(*key, more) == u32::from(more) || every {
                found.changed.push(*key);
            }
        }
        if more {
            out.stats.intents += keys.len() as u64;
        }
    }

    /// With `Choice::Everywhere`, every node has intent for every key from the start: begins some of these
    /// intents.
    fn stand<E: Element>(&mut self, core: &Core<E>, out: &mut Output) {
        let Some(first) = self.standing else { return };
        let layout = core.shared.layout();
        let mut keys = (first..layout.keys()).map(Key).filter(|key| layout.channel(*key) == core.id);
        let some: Vec<Key> = keys.by_ref().take(STANDING_PER_ROUND).collect();
        let next = keys.next().map(|key| key.0);
        self.count(out, &some, true);
        self.standing = next;
    }

    /// The owner's rule: the node to which a key owned here moves now that an intent has begun or ended;
    /// `None` if it stays. `hub` is the key's record of replicas elsewhere.
    pub(crate) fn choose(&self, key: Key, hub: Option<&Hub>, cause: Cause) -> Option<NodeId> {
        let policy = self.policy.filter(|policy| policy.decider == Decider::Owner)?;
        match policy.choice {
            Choice::Adaptive => {
                let only = hub.filter(|hub| hub.holders().len() == 1).map(|hub| hub.holders()[0].node);
                only.filter(|_| self.active(key) == 0)
            }
            Choice::Relocate => match cause {
                Cause::Began(node) => Some(node),
                Cause::Ended(_) | Cause::Ordered | Cause::Asked => None,
            },
            Choice::Replicate | Choice::Everywhere => None,
        }
    }

    /// Goes to sleep if rounds would find nothing.
    pub(crate) fn doze<E: Element>(&mut self, core: &Core<E>) {
        let Some(board) = core.shared.clocks().board() else { return };
        let idle = self.schedules.iter().all(Schedule::is_empty);
        if self.standing.is_some() || !(idle || self.idle_rounds >= IDLE_ROUNDS_MAX) {
            return;
        }
        let wake = |worker: usize| {
            let schedule = &self.schedules[worker];
            (!schedule.is_empty()).then(|| self.clocks[worker].saturating_add(1))
        };
        self.asleep = board.sleep(core.id.index(), wake);
    }

    /// Whether the cluster's rest begins for this channel now. If so, the channel runs one more round and is
    /// then held.
    pub(crate) fn may_be_held<E: Element>(&self, core: &Core<E>) -> bool {
        core.shared.clocks().board().is_some_and(|board| !board.is_held(core.id.index()))
    }

    /// Holds the channel until a worker continues, unless there are keys left to ask for.
    pub(crate) fn hold<E: Element>(&mut self, core: &Core<E>) {
        if let Some(board) = core.shared.clocks().board().filter(|_| self.standing.is_none()) {
            board.hold(core.id.index());
            self.asleep = true;
        }
    }

    /// The event for which the channel slept has happened. Returns whether a round is due now.
    pub(crate) fn wake<E: Element>(&mut self, core: &Core<E>) -> bool {
        // The channel may be held, or sleep again, when it gets this input.
        let Some(board) = core.shared.clocks().board().filter(|board| !board.is_asleep(core.id.index()))
        else {
            return false;
        };
        if !std::mem::replace(&mut self.asleep, false) {
            return false;
        }
        for (worker, (estimate, schedule)) in self.estimates.iter_mut().zip(&self.schedules).enumerate() {
            // A clock for which the channel did not wait may have advanced any number of times during the
            // sleep, which says nothing about a round: its estimate restarts. A clock for which the channel
            // waited stood still until now. Its estimate continues, because it must reflect workers whose
            // clocks take longer than a few rounds.
            if schedule.is_empty() {
                estimate.resume(board.clock(worker));
            }
        }
        (self.idle_rounds, self.last) = (0, None);
        // Not before the round's time: otherwise a worker that alternately signals and pauses would cause any
        // number of rounds.
        core.now >= self.next
    }
}
