//! Rests of channels between their looks, as threads of nodes take them ([`LookTimer`]).

use super::station::Station;
use super::{Cluster, Probe};
use intendant_core::{Element, Tick};
use intendant_engine::Input;
#[cfg(doc)]
use intendant_engine::LookTimer;

/// What a channel does in a turn, for the timer of its looks.
pub(super) enum LookOrInput {
    /// It looks; when its next round was due before.
    Look(Tick),
    Input,
}

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// When a channel's tick is due, its rest included.
    pub(super) fn tick_due(&self, station: usize) -> Option<Tick> {
        let Station { engine, looks, .. } = &self.stations[station];
        Some(looks.next(engine.due()?))
    }

    /// A channel is about to handle a tick, or another input.
    pub(super) fn begins_look(&mut self, station: usize, input: &Input) -> LookOrInput {
        let Station { engine, looks, .. } = &mut self.stations[station];
        if matches!(input, Input::Tick) {
            return LookOrInput::Look(engine.next_round());
        }
        // A request for a report is no activity.
        if !matches!(input, Input::Settle) && looks.stir() {
            engine.hasten_round();
        }
        LookOrInput::Input
    }

    /// A channel has handled an input, and its thread has been charged for what follows.
    pub(super) fn ends_look(&mut self, station: usize, what: LookOrInput) {
        let station = &mut self.stations[station];
        // The thread also does what follows from the input, which begins now.
        let end_ns = station.thread.end_ns();
        let busy = station.thread.load().busy_ns / 1_000;
        let took = busy - std::mem::replace(&mut station.known_busy, busy);
        match what {
            LookOrInput::Input => station.looks.worked(took),
            LookOrInput::Look(before) => {
                let round = (station.engine.next_round() != before).then_some(station.sent);
                if let Some(earliest) = station.looks.looked(Tick(end_ns / 1_000), took, round) {
                    station.engine.postpone_round(earliest);
                }
            }
        }
    }
}
