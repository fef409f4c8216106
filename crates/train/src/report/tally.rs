//! What workers exchange at the end of an epoch: sums, counts and costs, in bytes.
//!
//! Every worker receives the tallies of all workers and adds them up in the same order, so that all nodes
//! have the same result, bit by bit. The encoding keeps every bit of a double, which a text may round.

use crate::error::TrainError;
use intendant::ManagementStats;
use intendant::{AccessStats, NetworkStats};
use intendant_sampling::SamplingStats;
use intendant_task::Reduction;
use serde::{Deserialize, Serialize};

/// One worker's part of an epoch, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) reduction: Reduction,
    /// Accesses of training; evaluation is not counted.
    pub(crate) accesses: AccessStats,
    /// The part of `accesses` after the first 5 % of the worker's batches.
    pub(crate) late: AccessStats,
    /// CPU time of a process; only in the tally of its first worker.
    pub(crate) cpu_ns: u64,
    /// Messages of a node; only in the tally of its first worker.
    pub(crate) traffic: NetworkStats,
    /// Parameter management of a node; only in the tally of its first worker.
    pub(crate) management: ManagementStats,
    /// Sampling of a node; only in the tally of its first worker.
    pub(crate) sampling: SamplingStats,
}

impl Tally {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a tally has no part that cannot be serialised")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        match postcard::take_from_bytes(bytes) {
            Ok((tally, [])) => Ok(tally),
            Ok((_, rest)) => Err(format!("{} bytes follow it", rest.len())),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.reduction.merge(&other.reduction);
        self.accesses.merge(&other.accesses);
        self.late.merge(&other.late);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.traffic.merge(&other.traffic);
        self.management.merge(&other.management);
        self.sampling.merge(&other.sampling);
    }

    /// The sum of what all workers told, in their order.
    pub(crate) fn combine(told: &[Vec<u8>]) -> Result<Self, TrainError> {
        let mut sum = Self::default();
        for (worker, bytes) in told.iter().enumerate() {
            sum.add(&Self::decode(bytes).map_err(|what| TrainError::Tally { worker, what })?);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(seed: u64) -> Tally {
        let mut reduction = Reduction { digest: u64::MAX - seed, ..Reduction::default() };
        reduction.add("loss", 0.1 + seed as f64);
        reduction.add("quality.mrr", 1.0 / 3.0);
        let accesses = AccessStats { pull_keys: seed, push_keys: 2, ..AccessStats::default() };
        let traffic = NetworkStats { messages: 8, unix_bytes: 7, ..NetworkStats::default() };
        let mut management =
            ManagementStats { relocations: seed, forwards: [1, 2, 3, 4], ..ManagementStats::default() };
        (0..seed).for_each(|us| management.relocation.record(1_000 * us));
        let sampling = SamplingStats { drawn: 21, strayed: seed, ..SamplingStats::default() };
        let mut late = accesses;
        late.merge(&accesses);
        Tally { reduction, accesses, late, cpu_ns: 7, traffic, management, sampling }
    }

    #[test]
    fn bytes_keep_every_bit() {
        let told = tally(3);
        assert_eq!(Tally::decode(&told.encode()), Ok(told));
        assert_eq!(Tally::decode(&Tally::default().encode()), Ok(Tally::default()));
    }

    #[test]
    fn sums_are_added_in_the_order_of_workers() {
        let told: Vec<_> = (0..5).map(|seed| tally(seed).encode()).collect();
        let sum = Tally::combine(&told).expect("well-formed");
        assert_eq!(sum.reduction.get("loss").to_bits(), (0.1f64 + 1.1 + 2.1 + 3.1 + 4.1).to_bits());
        assert_eq!(sum.reduction.digest, 0u64.wrapping_sub(5 + 10));
        assert_eq!((sum.accesses.pull_keys, sum.accesses.push_keys), (10, 10));
        assert_eq!((sum.late.pull_keys, sum.late.push_keys), (20, 20));
        assert_eq!((sum.management.relocations, sum.management.forwards), (10, [5, 10, 15, 20]));
        assert_eq!(sum.management.relocation.count(), 10);
        assert_eq!((sum.sampling.drawn, sum.sampling.strayed), (105, 10));
        assert_eq!((sum.cpu_ns, sum.traffic.messages, sum.traffic.unix_bytes), (35, 40, 35));
    }

    #[test]
    fn every_truncation_and_every_extension_is_refused() {
        let bytes = tally(1).encode();
        for len in 0..bytes.len() {
            assert!(Tally::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Tally::decode(&longer), Err("1 bytes follow it".to_owned()));
    }
}
