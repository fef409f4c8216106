//! All-reduce: after each round, all nodes have bitwise equal static replicas. (The sums that workers see
//! show that each update is in exactly one round.)

use intendant_core::{Element, WorkerId, copy_to_bytes};
use intendant_sim::Finding;
use intendant_wire::OpId;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// The rounds of all channels.
pub(crate) struct Rounds {
    nodes: usize,
    /// By channel and round, as long as some nodes have not completed it: hash of the agreed values, and
    /// number of nodes that have completed the round.
    agreed: BTreeMap<(usize, u32), (u64, usize)>,
    /// By station: number of completed rounds, and whether the next one has begun.
    stations: Vec<(u32, bool)>,
    /// Synchronisations that workers wait for, by station: the number of rounds after which they may
    /// complete.
    waiting: BTreeMap<(usize, WorkerId, OpId), u32>,
    bytes: Vec<u8>,
}

impl Rounds {
    pub(crate) fn new(nodes: usize, channels: usize) -> Self {
        let stations = vec![(0, false); nodes * channels];
        Self { nodes, agreed: BTreeMap::new(), stations, waiting: BTreeMap::new(), bytes: Vec::new() }
    }

    /// A channel's completed rounds, and whether it has begun the next.
    pub(crate) fn of(&self, station: usize) -> (u32, bool) {
        self.stations[station]
    }

    /// A channel receives a worker's synchronisation. It may complete after a round that has not begun yet,
    /// because that round includes everything pushed before.
    pub(crate) fn asked(&mut self, station: usize, worker: WorkerId, op: OpId) {
        let (rounds, running) = self.stations[station];
        self.waiting.insert((station, worker, op), rounds + 1 + u32::from(running));
    }

    /// Checks an answered operation. Must be called after [`Rounds::handled`].
    pub(crate) fn answered(&mut self, station: usize, worker: WorkerId, op: OpId) -> Result<(), Finding> {
        let (rounds, _) = self.stations[station];
        match self.waiting.remove(&(station, worker, op)) {
            Some(least) if rounds < least => {
                let what = format!(
                    "{op:?} of {worker:?} must wait for round {least}, and completes after round {rounds}"
                );
                Err(("rounds", format!("channel {station}: {what}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks a channel that has handled an input: it has completed `rounds` rounds with the values `agreed`,
    /// and has begun the next if `running`. Returns whether it has completed another round.
    pub(crate) fn handled<E: Element>(
        &mut self,
        station: usize,
        channel: usize,
        (rounds, agreed): (u32, &[E]),
        running: bool,
    ) -> Result<bool, Finding> {
        let (before, _) = std::mem::replace(&mut self.stations[station], (rounds, running));
        if rounds == before {
            return Ok(false);
        }
        // No node completes two rounds at once: the other nodes contribute to the second only after they have
        // completed the first.
        if rounds != before + 1 {
            return Err((
                "rounds",
                format!("channel {station} has completed {rounds} rounds, directly after {before}"),
            ));
        }
        self.bytes.clear();
        copy_to_bytes(agreed, &mut self.bytes);
        let hash = xxh3_64(&self.bytes);
        let (first, count) = self.agreed.entry((channel, rounds)).or_insert((hash, 0));
        *count += 1;
        if *first != hash {
            return Err((
                "rounds",
                format!("channel {station} has other values than other nodes after round {rounds}"),
            ));
        }
        if *count == self.nodes {
            self.agreed.remove(&(channel, rounds));
        }
        Ok(true)
    }

    /// Checks at rest that all nodes have completed the same rounds.
    pub(crate) fn settled(&self) -> Result<(), Finding> {
        match self.agreed.keys().next() {
            None => Ok(()),
            Some((channel, round)) => Err((
                "rounds",
                format!(
                    "the cluster rests, and some nodes have not completed round {round} of channel {channel}"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_agree_round_by_round() {
        let mut rounds = Rounds::new(2, 1);
        let mut step = |station, round, value: f32| rounds.handled(station, 0, (round, &[value]), false);
        assert_eq!(step(0, 1, 0.1), Ok(true));
        assert_eq!(step(0, 1, 0.3), Ok(false), "nothing new");
        assert!(step(1, 1, 0.100_000_01).is_err(), "almost");
        assert!(step(0, 3, 0.1).is_err(), "one is left out");
        let mut rounds = Rounds::new(2, 1);
        assert_eq!(rounds.handled(0, 0, (1, &[0.5f64]), true), Ok(true));
        assert!(rounds.settled().is_err(), "node 1 has not");
        assert_eq!(rounds.handled(1, 0, (1, &[0.5f64]), false), Ok(true));
        assert_eq!(rounds.settled(), Ok(()));
        let (worker, op) = (WorkerId(0), OpId(3));
        rounds.asked(0, worker, op);
        assert!(rounds.answered(0, worker, op).is_err(), "no round since");
        rounds.asked(1, worker, op);
        rounds.handled(1, 0, (2, &[0.5f64]), false).unwrap();
        assert_eq!(rounds.answered(1, worker, op), Ok(()));
    }
}
