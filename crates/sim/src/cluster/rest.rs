//! Checks of a cluster that claims to be quiescent: nothing is in flight, and all copies of a key agree.

use super::{Cluster, InboxItem, Station, WorkerState};
use crate::invariants::{Finding, InFlight, Invariants, ReplicasAtRest, Violation, check_quiet};
use crate::lane::Lane;
use crate::reach::Marker;
use intendant_core::{Element, Key};
use intendant_engine::{AccessStats, ChannelReport, Input};
use std::collections::VecDeque;

/// Upper bound of the keys whose copies one check compares. It covers all keys of the runs that search for
/// defects.
const COMPARED_AT_REST_MAX: u64 = 1 << 14;

impl<E: Element> Cluster<E> {
    /// Checks that every key of a finished access is counted once, as local or as remote.
    fn check_accesses(&self) -> Result<(), Finding> {
        for (worker, state) in self.worker_states.iter().enumerate() {
            let AccessStats { pull_keys, push_keys, local, remote, .. } = state.local.stats();
            if local + remote != pull_keys + push_keys {
                return Err((
                    "accesses",
                    format!(
                        "worker {worker} has pulled {pull_keys} and pushed {push_keys} keys, but counts {local} local \
                         and {remote} remote accesses"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks that nothing is in flight. A run that searches for defects also checks the invariants that are
    /// too expensive for every event.
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
            unanswered: self.invariants.replies.open(),
        };
        check_quiet(&found).map_err(|finding| self.violation(finding))?;
        if self.checks_all() {
            self.check_state_at_rest().map_err(|finding| self.violation(finding))?;
            self.check_accesses().map_err(|finding| self.violation(finding))?;
        }
        self.resting = true;
        if self.invariants.owners.lazy() && self.nodes.iter().any(|node| node.held() > 0) {
            self.reach.mark(Marker::SparseMaterialised);
        }
        Ok(())
    }

    /// Checks what nodes hold and know.
    fn check_state_at_rest(&mut self) -> Result<(), Finding> {
        let Invariants { owners, ledger, .. } = &mut self.invariants;
        owners.at_rest(&self.nodes, ledger)?;
        let stats = self.management();
        self.invariants.ledger.counted(stats.relocations, stats.relocation.count())?;
        self.check_copies()
    }

    /// Compares the copies of every key; of large models, a different part of the keys each time.
    fn check_copies(&mut self) -> Result<(), Finding> {
        let replicas = self.policy.replicas;
        if replicas.is_none() && self.policy.static_replicas.is_none() {
            return Ok(());
        }
        self.invariants.rounds.settled()?;
        let keys = self.layout.keys();
        let channels = self.layout.channels();
        let merged = &self.invariants.merged;
        let mut hubs = Vec::with_capacity(self.nodes.len());
        for key in (0..keys.min(COMPARED_AT_REST_MAX)).map(|at| Key((self.compared + at) % keys)) {
            let channel = self.layout.channel(key).index();
            hubs.clear();
            hubs.extend(
                (0..self.nodes.len()).map(|at| self.stations[at * channels + channel].engine.hub(key)),
            );
            self.check_replicas_match_intents(key)?;
            let owner = self.invariants.ledger.place(key).node;
            let has_static = self.invariants.owners.has_static_replicas(key);
            ReplicasAtRest { key, nodes: &self.nodes, owner, has_static, replicas, hubs: &hubs, merged }
                .check()?;
        }
        self.compared = (self.compared + COMPARED_AT_REST_MAX) % keys;
        Ok(())
    }
}

/// Whether a channel works on a request of a worker or another node. Ticks and wake-ups do not count.
fn is_busy<E>(station: &Station<E>) -> bool {
    station.current.as_ref().is_some_and(|input| !matches!(input, Input::Tick | Input::Wake))
}

/// Requests in a channel's inbox, without wake-ups.
fn waiting<E>(station: &Station<E>) -> usize {
    station.inbox.iter().filter(|(_, _, item)| !matches!(item, InboxItem::Wake)).count()
}
