//! Checks what is too expensive for every event, of a cluster that rests: what nodes hold and know, and
//! whether all copies of a key agree.

use super::Checker;
use crate::invariants::{Invariants, ReplicasAtRest};
use intendant_core::{Element, Key};
use intendant_engine::{AccessStats, ManagementStats};
use intendant_sim::Finding;
use intendant_sim::cluster::Seen;

/// Upper bound of the keys whose copies one check compares. It covers all keys of the runs that search for
/// defects.
const COMPARED_AT_REST_MAX: u64 = 1 << 14;

impl Checker {
    /// Checks what nodes hold and know.
    pub(super) fn check_state_at_rest<E: Element>(&mut self, seen: &Seen<'_, E>) -> Result<(), Finding> {
        let Invariants { owners, ledger, .. } = &mut self.invariants;
        owners.at_rest(seen.nodes, ledger)?;
        let mut stats = ManagementStats::default();
        seen.engines().for_each(|engine| stats.merge(engine.management()));
        self.invariants.ledger.counted(stats.relocations, stats.relocation.count())?;
        self.check_copies(seen)
    }

    /// Compares the copies of every key; of large models, a different part of the keys each time.
    fn check_copies<E: Element>(&mut self, seen: &Seen<'_, E>) -> Result<(), Finding> {
        let replicas = self.policy.replicas;
        if replicas.is_none() && self.policy.static_replicas.is_none() {
            return Ok(());
        }
        self.invariants.rounds.settled()?;
        let keys = self.layout.keys();
        let channels = self.layout.channels();
        let merged = &self.invariants.merged;
        let nodes = seen.nodes;
        let mut hubs = Vec::with_capacity(nodes.count());
        for key in (0..keys.min(COMPARED_AT_REST_MAX)).map(|at| Key((self.compared + at) % keys)) {
            let channel = self.layout.channel(key).index();
            hubs.clear();
            hubs.extend((0..nodes.count()).map(|at| seen.engine(at * channels + channel).hub(key)));
            self.check_replicas_match_intents(seen, key)?;
            let owner = self.invariants.ledger.place(key).node;
            let has_static = self.invariants.owners.has_static_replicas(key);
            ReplicasAtRest { key, nodes, owner, has_static, replicas, hubs: &hubs, merged }.check()?;
        }
        self.compared = (self.compared + COMPARED_AT_REST_MAX) % keys;
        Ok(())
    }

    /// Checks that every key of a finished access is counted once, as local or as remote.
    pub(super) fn check_accesses<E: Element>(seen: &Seen<'_, E>) -> Result<(), Finding> {
        for (worker, counted) in seen.accesses().enumerate() {
            let AccessStats { pull_keys, push_keys, local, remote, .. } = counted;
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
}
