//! Checks of a cluster that claims to be quiescent: nothing is in flight.

use super::station::{InboxItem, Station};
use super::worker::WorkerState;
use super::{Cluster, Probe};
use crate::invariants::{InFlight, Violation, check_quiet};
use crate::lane::Lane;
use intendant_core::Element;
use intendant_engine::{ChannelReport, Input};
use std::collections::VecDeque;

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
        let mut report = ChannelReport::default();
        self.stations.iter().for_each(|station| report.merge(station.engine.report()));
        let lanes = |state: &WorkerState<E>| {
            let queued: usize = state.to_channels.iter().map(Lane::len).sum();
            if may_localize && state.local.is_flushed() {
                return queued;
            }
            queued + state.from_channels.iter().map(Lane::len).sum::<usize>() + state.queue.len()
        };
        let received = self.stations.iter().flat_map(|s| &s.received).map(VecDeque::len).sum::<usize>();
        let inboxes = self.stations.iter().map(|s| waiting(s) + usize::from(is_busy(s))).sum::<usize>();
        let on_links =
            self.links.iter().map(|link| link.under_way.len() + link.coming_in.len()).sum::<usize>();
        let found = InFlight {
            report,
            frames: on_links + received,
            handed: self.worker_states.iter().map(lanes).sum::<usize>() + inboxes,
            busy_workers: self
                .worker_states
                .iter()
                .filter(|p| {
                    if may_localize {
                        !p.local.is_flushed()
                    } else {
                        !p.local.is_idle() || p.local.outstanding_bytes() > 0
                    }
                })
                .count(),
        };
        check_quiet(&found).map_err(|finding| self.violation(finding))?;
        let (probe, mut seen) = self.observed();
        let checked = probe.at_rest(&mut seen);
        checked.map_err(|finding| self.violation(finding))?;
        self.resting = true;
        Ok(())
    }
}

/// Whether a channel works on a request of a worker or another node. Ticks and wake-ups do not count.
fn is_busy<E>(station: &Station<E>) -> bool {
    station.current.as_ref().is_some_and(|input| !matches!(input, Input::Tick | Input::Wake))
}

/// Requests in a channel's inbox, without wake-ups.
fn waiting<E>(station: &Station<E>) -> usize {
    station.inbox.iter().filter(|(_, item)| !matches!(item, InboxItem::Wake)).count()
}
