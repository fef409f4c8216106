//! Intents that workers and their loaders signal, and accesses to the keys of these.

use super::Programs;
use crate::checker::Checked;
use crate::workload::call::Call;
use crate::workload::{Failure, IntentSettings};
use intendant_core::{Clock, Element, Key};
use intendant_sim::cluster::Caller;
use intendant_sim::reach::Marker;
use intendant_wire::AccessKind;
use std::ops::Range;

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
        cluster: &mut Checked<E>,
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
    pub(crate) fn load(&mut self, cluster: &mut Checked<E>, worker: usize) -> Result<(), Failure> {
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
