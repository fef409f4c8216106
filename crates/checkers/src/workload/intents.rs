//! Scenario parts for techniques with intents: which intents workers and loaders signal, and when.

use super::Failure;
use super::call::Call;
use super::program::Programs;
use super::{Mode, Scenario};
use intendant_core::{Clock, Element, Key, Tick, random};
use intendant_intent::TimingConfig;
use intendant_sim::cluster::{Caller, Cluster};
use intendant_sim::reach::Marker;
use intendant_sim::{Dice, Spread};
use intendant_wire::AccessKind;
use std::ops::Range;

/// How the workers of a run signal intents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentSettings {
    /// Calls of sixteen that signal an intent.
    pub in_16: u64,
    /// Accesses of sixteen that access keys of an active intent of the worker.
    pub announced_keys_in_16: u64,
    /// Signals of sixteen that repeat the keys of an outstanding access of the worker: for its present clock,
    /// and again for a later one. Such a replica may be acquired and dropped while the access is in flight.
    pub reannounced_in_16: u64,
    /// Number of intents that each worker's loader signals.
    pub loader: u64,
    /// Upper bound of the pauses of loaders and, at times, workers, ns.
    pub pause_ns: u64,
    /// Upper bound of the clocks from the signal to the start of an intent, except for intents far ahead.
    pub ahead: u32,
    /// Upper bound of the usual length of an intent, in clocks.
    pub length: u32,
    /// Whether workers retire at the end; otherwise they rest.
    pub retires: bool,
    /// Whether workers call `resume` after a rest.
    pub resumes: bool,
}

/// Draws the parts of a scenario that concern intents, if the technique acts on them.
pub(super) fn draw(mode: &Mode, mut scenario: Scenario, every: Tick) -> Scenario {
    if mode.technique.policy().intents.is_none() || mode.hub {
        return scenario;
    }
    let mut dice = Dice::new(random::stream(scenario.seed, &[4]));
    let dice = &mut dice;
    scenario.replication.timing = TimingConfig {
        smoothing: dice.pick(&[0.1, 0.1, 0.01, 0.5, 1.0]),
        quantile: dice.pick(&[0.9999, 0.9999, 0.9, 0.5]),
        initial: dice.pick(&[10.0, 10.0, 0.01, 1.0, 1_000.0]),
    };
    scenario.replication.round_min = Tick((every.0 * dice.pick(&[1, 1, 2, 16]) / dice.pick(&[1, 4])).max(1));
    let slowest_ns = scenario.delays.worker.max_ns.max(scenario.delays.network.latency.max_ns);
    scenario.intents = Some(IntentSettings {
        in_16: dice.pick(&[1, 3, 6]),
        announced_keys_in_16: dice.pick(&[0, 8, 15]),
        reannounced_in_16: 0,
        loader: dice.below(24) * (scenario.calls / 200).max(1),
        pause_ns: slowest_ns * dice.pick(&[1, 8, 64]),
        ahead: dice.pick(&[1, 4, 30]),
        length: dice.pick(&[1, 3, 12]),
        retires: !dice.once_in(4),
        resumes: !dice.once_in(4),
    });
    scenario.clock_once_in = (0..scenario.all_workers()).map(|_| dice.pick(&[0, 1, 1, 2, 2, 4])).collect();
    if dice.once_in(2) {
        draw_short_intents(mode, &mut scenario, dice);
    }
    scenario
}

/// A stress variant in which intents are shorter than accesses: clocks advance with every call, channels run
/// rounds often, the network is slow, and workers signal keys that they have already accessed.
fn draw_short_intents(mode: &Mode, scenario: &mut Scenario, dice: &mut Dice) {
    let Some(settings) = &mut scenario.intents else { return };
    settings.in_16 = 3;
    settings.announced_keys_in_16 = 4;
    settings.reannounced_in_16 = 12;
    scenario.clock_once_in.fill(1);
    scenario.replication.round_min = Tick((scenario.replication.round_min.0 / 32).max(1));
    scenario.delays.worker.max_ns *= 4;
    scenario.delays.network.latency =
        Spread { min_ns: 1, max_ns: dice.pick(&[3_000, 30_000]), tail_once_in: dice.pick(&[0, 4, 16]) };
    scenario.call_keys_max = scenario.call_keys_max.max(3);
    if mode.asynchronous.is_none() {
        scenario.in_flight_max = scenario.in_flight_max.max(3);
    }
}

/// The intents of a worker that it or its loader has signalled.
#[derive(Default)]
pub(super) struct Announced {
    pub(super) windows: Vec<(Vec<Key>, Range<u32>)>,
    pub(super) loader_left: u64,
}

/// Upper bound of the intents that are kept for repetition.
const REMEMBERED_MAX: usize = 16;

impl<E: Element> Programs<E> {
    /// Draws the window of an intent that is signalled when the worker's clock is `clock`.
    fn window(&mut self, settings: IntentSettings, clock: u32) -> Range<u32> {
        let dice = &mut self.dice;
        let length = 1 + dice.below(u64::from(settings.length)) as u32;
        let start = match dice.below(16) {
            0 => clock,
            // Started already; it may be over.
            1..=2 => clock.saturating_sub(dice.below(4) as u32),
            // Over.
            3 => clock.saturating_sub(length + dice.below(3) as u32),
            // Far ahead.
            4 => clock + 1_000 + dice.below(100_000) as u32,
            _ => clock + dice.below(u64::from(settings.ahead) + 1) as u32,
        };
        match dice.below(32) {
            // Empty.
            0 => start..start,
            1 => start..start.saturating_sub(3),
            // Without end.
            2 => start..u32::MAX,
            3 => start..start + 1_000,
            _ => start..start + length,
        }
    }

    /// A worker or its loader signals intent for keys.
    pub(super) fn announce(
        &mut self,
        cluster: &mut Cluster<E>,
        worker: usize,
        keys: Vec<Key>,
        caller: Caller,
    ) -> Result<(), Failure> {
        let Some(settings) = self.scenario.intents else { return Ok(()) };
        let clock = self.programs[worker].clock;
        let mut window = self.window(settings, clock);
        let mut keys = keys;
        let before = &self.announced[worker].windows;
        if !before.is_empty() && self.dice.once_in(4) {
            // Repeats an earlier intent or a part of it, for the same clocks or those after.
            let (known, at) = before[self.dice.below(before.len() as u64) as usize].clone();
            keys = known;
            keys.truncate(1 + self.dice.below(keys.len() as u64) as usize);
            let end = at.end.saturating_add(window.end.saturating_sub(window.start).min(8));
            window = if self.dice.once_in(2) { at } else { at.end.saturating_sub(1)..end };
        }
        let mut later = None;
        if caller == Caller::Worker && settings.reannounced_in_16 > 0 {
            let outstanding = &self.programs[worker].outstanding;
            let accessed = outstanding.iter().rev().find(|operation| !operation.records.is_empty());
            if let Some(operation) = accessed.filter(|_| self.dice.below(16) < settings.reannounced_in_16) {
                keys.clone_from(&operation.keys);
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

    /// Replaces the keys of `call` by keys of the worker's active intents, with the scenario's probability.
    pub(super) fn use_announced_keys(&mut self, worker: usize, call: &mut Call, kind: AccessKind) {
        let Some(settings) = self.scenario.intents else { return };
        let registers = self.scenario.registers();
        if call.keys.iter().any(|key| key.0 >= registers.start)
            || self.dice.below(16) >= settings.announced_keys_in_16
        {
            return;
        }
        debug_assert!(kind != AccessKind::Set, "only registers are overwritten");
        let clock = self.programs[worker].clock;
        let under_way = self.announced[worker].windows.iter().filter(|(_, window)| window.contains(&clock));
        let small = |key: &&Key| key.0 < self.small_keys;
        let keys: Vec<Key> = under_way.flat_map(|(keys, _)| keys.iter().filter(small)).copied().collect();
        if !keys.is_empty() {
            call.keys = (0..call.keys.len()).map(|_| self.dice.pick(&keys)).collect();
        }
    }

    /// A loader signals an intent and pauses.
    pub(super) fn load(&mut self, cluster: &mut Cluster<E>, worker: usize) -> Result<(), Failure> {
        let Some(settings) = self.scenario.intents else { return Ok(()) };
        let Some(left) = self.announced[worker].loader_left.checked_sub(1) else { return Ok(()) };
        self.announced[worker].loader_left = left;
        let Call { keys, .. } = Call::draw(&mut self.dice, &self.scenario, self.small_keys);
        self.announce(cluster, worker, keys, Caller::Loader)?;
        let pause_ns = self.dice.below(settings.pause_ns + 1);
        cluster.wake_loader(worker, pause_ns);
        Ok(())
    }
}
