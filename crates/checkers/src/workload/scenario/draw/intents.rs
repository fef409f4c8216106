//! Scenario parts for techniques with intents: which intents workers and loaders signal, and when.

use crate::workload::{IntentSettings, Mode, Scenario};
use intendant_core::{Tick, random};
use intendant_intent::TimingConfig;
use intendant_sim::{Dice, Spread};

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
