//! Stops of workers between their calls (meetings, rests, synchronisations), and their clocks.

use super::{OutstandingOp, Programs, Waiting};
use crate::checker::Checked;
use crate::workload::{Failure, IntentSettings, Stop};
use intendant_core::{Clock, Element};
use intendant_sim::reach::Marker;

impl<E: Element> Programs<E> {
    /// Whether all workers have reached a meeting or the end.
    pub(crate) fn all_wait(&self) -> bool {
        self.left == 0
    }

    /// The stop that all workers have reached; `None` at the end.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.scenario.stops.get(self.programs[0].stops).copied()
    }

    /// Wakes all workers after a stop that all of them have reached.
    pub(crate) fn resume_all(&mut self, cluster: &mut Checked<E>) {
        let latest = self.programs.iter().map(|program| program.clock).max().unwrap_or(0);
        let meeting_ns = cluster.meeting_ns();
        if let Some(bound) = self.scenario.bounds.get(self.programs[0].stops) {
            self.bound = *bound;
            cluster.nodes().iter().for_each(|node| node.clocks().set_staleness_bound(self.bound));
        }
        self.left = self.programs.len();
        for (worker, program) in self.programs.iter_mut().enumerate() {
            program.stops += 1;
            program.waiting = Waiting::Return;
            if self.scenario.intents.is_none() {
                program.clock = latest;
            }
            cluster.wake(worker, meeting_ns);
        }
    }

    /// The cluster rests: every copy has every push.
    pub(crate) fn rested(&mut self) {
        self.staleness.rested();
    }

    /// Takes a worker to its next stop if it is due. Returns whether the worker must wait there.
    pub(super) fn visit_stop(&mut self, cluster: &mut Checked<E>, worker: usize) -> Result<bool, Failure> {
        let program = &mut self.programs[worker];
        let stops = &self.scenario.stops;
        let parts = stops.len() as u64 + 1;
        let ahead = parts - program.stops as u64 - 1;
        if program.calls_left > program.calls * ahead / parts {
            return Ok(false);
        }
        let stop = stops.get(program.stops).copied();
        let idle = program.outstanding.is_empty();
        match stop {
            None | Some(Stop::Rest) if !idle => program.waiting = Waiting::ForAll,
            None | Some(Stop::Rest | Stop::Meeting) => {
                if program.calls_left > 0 {
                    let met = if stop == Some(Stop::Rest) { Marker::RestedBetween } else { Marker::Met };
                    cluster.reach().mark(met);
                }
                program.waiting = if stop.is_none() { Waiting::Over } else { Waiting::Others };
                self.left -= 1;
                self.staleness.set_clock(worker, None);
                match self.scenario.intents {
                    Some(IntentSettings { retires: true, .. }) if stop.is_none() => cluster.retire(worker),
                    Some(_) | None => cluster.rest(worker),
                }
            }
            Some(Stop::Synchronisation) if !cluster.admits_synchronize(worker) => {
                program.waiting = Waiting::Room
            }
            Some(Stop::Synchronisation) => {
                program.stops += 1;
                match cluster.synchronize(worker)?.op {
                    Some(op) => {
                        program.outstanding.push(OutstandingOp { op, keys: Vec::new(), records: Vec::new() });
                        program.waiting = Waiting::Synchronised(op);
                    }
                    None => {
                        self.set_clock(worker, self.programs[worker].clock + 1);
                        cluster.wake(worker, 0);
                    }
                }
            }
        }
        Ok(true)
    }

    /// A worker leaves a meeting. Clocks that serve intents only are not advanced.
    pub(super) fn leave_meeting(&mut self, cluster: &mut Checked<E>, worker: usize) {
        let clock = self.programs[worker].clock;
        self.set_clock(worker, clock);
        match self.scenario.intents {
            None => cluster.advance_clock(worker, Clock(clock)),
            Some(IntentSettings { resumes: true, .. }) => cluster.resume(worker / self.scenario.workers),
            Some(_) => {}
        }
    }

    /// Sets a worker's clock in this account.
    pub(super) fn set_clock(&mut self, worker: usize, clock: u32) {
        self.programs[worker].clock = clock;
        self.staleness.set_clock(worker, Some(clock));
    }

    /// Advances the clock of a worker with the scenario's probability.
    pub(super) fn maybe_advance_clock(&mut self, cluster: &mut Checked<E>, worker: usize) {
        let once_in = self.scenario.clock_once_in.get(worker).copied().unwrap_or(0);
        if once_in > 0 && self.dice.once_in(once_in) {
            let mut steps = if self.dice.once_in(16) { 3 } else { 1 };
            if self.scenario.intents.is_some() && self.dice.once_in(16) {
                steps = self.dice.pick(&[10, 100, 2_000]);
            }
            self.set_clock(worker, self.programs[worker].clock + steps);
            cluster.advance_clock(worker, Clock(self.programs[worker].clock));
        }
    }
}
