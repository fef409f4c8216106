//! Checks of a cluster that claims to be quiescent: nothing is in flight.

use super::machinery::Machinery;
use super::station::Station;
use super::worker::WorkerState;
use super::{Cluster, Probe};
use crate::invariants::{InFlight, Violation, check_quiet};
use crate::lane::Lane;
use intendant_core::Element;

impl<E: Element, P: Probe<E>> Cluster<E, P> {
    /// Checks that nothing is in flight. The probe may check more ([`Probe::at_rest`]).
    ///
    /// # Errors
    /// The first violation.
    #[inline(never)]
    pub fn check_quiescent(&mut self) -> Result<(), Violation> {
        self.check_quiet(false)
    }

    /// As [`Cluster::check_quiescent`], of workers that have flushed: they may have localized keys, for which
    /// they need not wait. The keys are here; the news of it may be on its way from channel to worker.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_quiescent_flushed(&mut self) -> Result<(), Violation> {
        self.check_quiet(true)
    }

    fn check_quiet(&mut self, may_localize: bool) -> Result<(), Violation> {
        let Machinery { stations, workers, connections, .. } = &self.machinery;
        let lanes = |state: &WorkerState<E>| {
            let queued: usize = state.to_channels.iter().map(Lane::len).sum();
            if may_localize && state.local.is_flushed() {
                return queued;
            }
            queued + state.from_channels.iter().map(Lane::len).sum::<usize>() + state.queue.len()
        };
        let is_busy = |state: &&WorkerState<E>| {
            let local = &state.local;
            if may_localize { !local.is_flushed() } else { !local.is_idle() || local.outstanding_bytes() > 0 }
        };
        let received: usize = stations.all().iter().map(Station::frames).sum();
        let inboxes: usize = stations.all().iter().map(Station::requests).sum();
        let found = InFlight {
            report: stations.report(),
            frames: connections.in_flight() + received,
            handed: workers.all().iter().map(lanes).sum::<usize>() + inboxes,
            busy_workers: workers.all().iter().filter(is_busy).count(),
        };
        check_quiet(&found).map_err(|finding| self.violation(finding))?;
        let (probe, mut seen) = self.machinery.observed();
        let checked = probe.at_rest(&mut seen);
        checked.map_err(|finding| self.violation(finding))?;
        self.machinery.rests = true;
        Ok(())
    }
}
