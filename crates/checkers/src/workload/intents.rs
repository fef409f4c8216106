//! What workers announce, and when.

use super::Failure;
use super::plan::Plan;
use super::program::Programs;
use super::{Mode, Scenario};
use intendant_core::{Clock, Element, Key, Tick, random};
use intendant_intent::TimingConfig;
use intendant_sim::cluster::{Caller, Cluster};
use intendant_sim::reach::Marker;
use intendant_sim::{Dice, Spread};
use intendant_wire::AccessKind;
use std::ops::Range;

/// How the workers of a run announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcing {
    /// Of sixteen calls, how many announce something.
    pub in_16: u64,
    /// Of sixteen accesses, how many are to keys of an intent that is under way.
    pub obedient_in_16: u64,
    /// Of sixteen announcements of a worker, how many are for the keys of an access that it has under way:
    /// for its present clock, and again for a later one. Such a replica may come and go while the access is
    /// away.
    pub afterthoughts_in_16: u64,
    /// Announcements of each worker's loader.
    pub loader: u64,
    /// Pauses of loaders and, at times, workers at most, in ns.
    pub pause_ns: u64,
    /// Clocks at most from when something is announced to its start, unless it is far ahead.
    pub ahead: u32,
    /// Clocks at most that an intent is for, usually.
    pub length: u32,
    /// Whether workers retire when they are finished, or just rest.
    pub retires: bool,
    /// Whether all workers say so when they go on after a rest.
    pub resumes: bool,
}

/// Draws the rest of a scenario in which intents are acted on.
pub(super) fn draw(mode: &Mode, mut scenario: Scenario, every: Tick) -> Scenario {
    if mode.technique.policy().intents.is_none() || mode.hub {
        return scenario;
    }
    let mut dice = Dice::new(random::stream(scenario.seed, &[4]));
    let dice = &mut dice;
    scenario.copies.timing = TimingConfig {
        smoothing: dice.pick(&[0.1, 0.1, 0.01, 0.5, 1.0]),
        quantile: dice.pick(&[0.9999, 0.9999, 0.9, 0.5]),
        initial: dice.pick(&[10.0, 10.0, 0.01, 1.0, 1_000.0]),
    };
    scenario.copies.round_min = Tick((every.0 * dice.pick(&[1, 1, 2, 16]) / dice.pick(&[1, 4])).max(1));
    let slowest_ns = scenario.delays.worker.max_ns.max(scenario.delays.network.latency.max_ns);
    scenario.intents = Some(Announcing {
        in_16: dice.pick(&[1, 3, 6]),
        obedient_in_16: dice.pick(&[0, 8, 15]),
        afterthoughts_in_16: 0,
        loader: dice.below(24) * (scenario.calls / 200).max(1),
        pause_ns: slowest_ns * dice.pick(&[1, 8, 64]),
        ahead: dice.pick(&[1, 4, 30]),
        length: dice.pick(&[1, 3, 12]),
        retires: !dice.once_in(4),
        resumes: !dice.once_in(4),
    });
    scenario.clock_once_in = (0..scenario.all_workers()).map(|_| dice.pick(&[0, 1, 1, 2, 2, 4])).collect();
    if dice.once_in(2) {
        hurry(mode, &mut scenario, dice);
    }
    scenario
}

/// Intents last shorter than accesses: clocks advance with every call, channels look at them all the time,
/// the network is slow, and workers announce keys that they have accessed already.
fn hurry(mode: &Mode, scenario: &mut Scenario, dice: &mut Dice) {
    let Some(announcing) = &mut scenario.intents else { return };
    announcing.in_16 = 3;
    announcing.obedient_in_16 = 4;
    announcing.afterthoughts_in_16 = 12;
    scenario.clock_once_in.fill(1);
    scenario.copies.round_min = Tick((scenario.copies.round_min.0 / 32).max(1));
    scenario.delays.worker.max_ns *= 4;
    scenario.delays.network.latency =
        Spread { min_ns: 1, max_ns: dice.pick(&[3_000, 30_000]), tail_once_in: dice.pick(&[0, 4, 16]) };
    scenario.call_keys_max = scenario.call_keys_max.max(3);
    if mode.asynchronous.is_none() {
        scenario.in_flight_max = scenario.in_flight_max.max(3);
    }
}

/// What a worker has announced, or its loader for it.
#[derive(Default)]
pub(super) struct Announced {
    pub(super) windows: Vec<(Vec<Key>, Range<u32>)>,
    pub(super) loader_left: u64,
}

/// Announcements that are remembered.
const REMEMBERED_MAX: usize = 16;

impl<E: Element> Programs<E> {
    /// The clocks of some intent that is announced when the worker is at `clock`.
    fn window(&mut self, announcing: Announcing, clock: u32) -> Range<u32> {
        let dice = &mut self.dice;
        let length = 1 + dice.below(u64::from(announcing.length)) as u32;
        let start = match dice.below(16) {
            0 => clock,
            // Late, by less than its length or more.
            1..=2 => clock.saturating_sub(dice.below(4) as u32),
            // Past.
            3 => clock.saturating_sub(length + dice.below(3) as u32),
            // Far too early.
            4 => clock + 1_000 + dice.below(100_000) as u32,
            _ => clock + dice.below(u64::from(announcing.ahead) + 1) as u32,
        };
        match dice.below(32) {
            // For no clock at all.
            0 => start..start,
            1 => start..start.saturating_sub(3),
            // For ever.
            2 => start..u32::MAX,
            3 => start..start + 1_000,
            _ => start..start + length,
        }
    }

    /// A worker announces keys, or its loader does.
    pub(super) fn announce(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: Vec<Key>,
        caller: Caller,
    ) -> Result<(), Failure> {
        let Some(announcing) = self.scenario.intents else { return Ok(()) };
        let clock = self.programs[worker].clock;
        let mut window = self.window(announcing, clock);
        let mut keys = keys;
        let before = &self.announced[worker].windows;
        if !before.is_empty() && self.dice.once_in(4) {
            // Again what was announced, or a part of it: the same clocks, or those after.
            let (known, at) = before[self.dice.below(before.len() as u64) as usize].clone();
            keys = known;
            keys.truncate(1 + self.dice.below(keys.len() as u64) as usize);
            let end = at.end.saturating_add(window.end.saturating_sub(window.start).min(8));
            window = if self.dice.once_in(2) { at } else { at.end.saturating_sub(1)..end };
        }
        let mut later = None;
        if caller == Caller::Worker && announcing.afterthoughts_in_16 > 0 {
            let flights = &self.programs[worker].flights;
            let accessed = flights.iter().rev().find(|flight| !flight.notes.is_empty());
            if let Some(flight) = accessed.filter(|_| self.dice.below(16) < announcing.afterthoughts_in_16) {
                keys.clone_from(&flight.keys);
                window = clock..clock + 1;
                later = Some(clock + 2..clock + 3 + self.dice.below(3) as u32);
            }
        }
        if caller == Caller::Loader && cluster.rests() {
            cluster.reach().mark(Marker::AnnouncedAtRest);
        }
        cluster.intend(worker, &keys, Clock(window.start)..Clock(window.end), caller)?;
        if let Some(later) = &later {
            cluster.intend(worker, &keys, Clock(later.start)..Clock(later.end), caller)?;
        }
        let windows = &mut self.announced[worker].windows;
        if windows.len() == REMEMBERED_MAX {
            windows.remove(0);
        }
        windows.push((keys, later.unwrap_or(window)));
        Ok(())
    }

    /// Keys that the worker has announced for its present clock, if that is what it accesses next.
    pub(super) fn obey(&mut self, worker: usize, plan: &mut Plan, kind: AccessKind) {
        let Some(announcing) = self.scenario.intents else { return };
        let registers = self.scenario.registers();
        if plan.keys.iter().any(|key| key.0 >= registers.start)
            || self.dice.below(16) >= announcing.obedient_in_16
        {
            return;
        }
        debug_assert!(kind != AccessKind::Set, "only registers are overwritten");
        let clock = self.programs[worker].clock;
        let under_way = self.announced[worker].windows.iter().filter(|(_, window)| window.contains(&clock));
        let small = |key: &&Key| key.0 < self.small_keys;
        let keys: Vec<Key> = under_way.flat_map(|(keys, _)| keys.iter().filter(small)).copied().collect();
        if !keys.is_empty() {
            plan.keys = (0..plan.keys.len()).map(|_| self.dice.pick(&keys)).collect();
        }
    }

    /// A loader announces something, and pauses.
    pub(super) fn load(&mut self, cluster: &mut Cluster<E>, worker: usize) -> Result<(), Failure> {
        let Some(announcing) = self.scenario.intents else { return Ok(()) };
        let Some(left) = self.announced[worker].loader_left.checked_sub(1) else { return Ok(()) };
        self.announced[worker].loader_left = left;
        let Plan { keys, .. } = Plan::draw(&mut self.dice, &self.scenario, self.small_keys);
        self.announce(cluster, worker, keys, Caller::Loader)?;
        let pause_ns = self.dice.below(announcing.pause_ns + 1);
        cluster.wake_loader(worker, pause_ns);
        Ok(())
    }
}
