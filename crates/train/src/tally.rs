//! What workers exchange at the end of an epoch: sums, counts and costs, in bytes.
//!
//! Every worker receives the tallies of all workers and adds them up in the same order, so that all nodes
//! have the same result, bit by bit. The encoding is little-endian with doubles as their bits: a text would
//! round.

use crate::error::TrainError;
use crate::parameters::{Accesses, Traffic};
use intendant::ManagementStats;
use intendant_core::Histogram;
use intendant_sampling::SamplingStats;
use intendant_task::Reduction;

/// One worker's part of an epoch, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) reduction: Reduction,
    /// Accesses of training; evaluation is not counted.
    pub(crate) accesses: Accesses,
    /// The part of `accesses` that came after the first 5 % of the worker's batches.
    pub(crate) late: Accesses,
    /// CPU time of a process; only in the tally of its first worker.
    pub(crate) cpu_ns: u64,
    /// Messages of a node; only in the tally of its first worker.
    pub(crate) traffic: Traffic,
    /// Parameter management of a node; only in the tally of its first worker.
    pub(crate) management: ManagementStats,
    /// Sampling of a node; only in the tally of its first worker.
    pub(crate) sampling: SamplingStats,
}

impl Tally {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in self.numbers() {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let ManagementStats {
            relocations,
            replica_setups,
            replica_drops,
            sync_rounds,
            synced_keys,
            stale_reads,
            intents,
            localization_conflicts,
            queued,
            forwards,
            relocation,
            blocking,
        } = &self.management;
        let of_copies = [replica_setups, replica_drops, sync_rounds, synced_keys, stale_reads];
        let of_keys = [relocations, intents, localization_conflicts, queued];
        for number in of_keys.into_iter().chain(of_copies).chain(forwards) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for histogram in [relocation, blocking] {
            let (sum, parts) = histogram.parts();
            let parts: Vec<(u64, u64)> = parts.collect();
            let head = [sum, parts.len() as u64];
            for number in head.into_iter().chain(parts.into_iter().flat_map(|(at, count)| [at, count])) {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        for (name, sum) in &self.reduction.sums {
            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&sum.to_bits().to_le_bytes());
        }
        bytes
    }

    fn numbers(&self) -> [u64; 19] {
        let (all, late, sampling) = (self.accesses, self.late, self.sampling);
        [
            self.reduction.digest,
            all.pull_keys,
            all.push_keys,
            all.local,
            all.remote,
            all.sampled,
            late.pull_keys,
            late.push_keys,
            late.local,
            late.remote,
            late.sampled,
            self.cpu_ns,
            self.traffic.messages,
            self.traffic.bytes,
            sampling.drawn,
            sampling.pools,
            sampling.late_pools,
            sampling.postponed,
            sampling.strayed,
        ]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = Reader(bytes);
        let mut next = || reader.number();
        let digest = next()?;
        let mut accesses = || {
            Ok::<_, &'static str>(Accesses {
                pull_keys: next()?,
                push_keys: next()?,
                local: next()?,
                remote: next()?,
                sampled: next()?,
            })
        };
        let (accesses, late) = (accesses()?, accesses()?);
        let cpu_ns = next()?;
        let traffic = Traffic { messages: next()?, bytes: next()? };
        let sampling = SamplingStats {
            drawn: next()?,
            pools: next()?,
            late_pools: next()?,
            postponed: next()?,
            strayed: next()?,
        };
        let management = ManagementStats {
            relocations: next()?,
            intents: next()?,
            localization_conflicts: next()?,
            queued: next()?,
            replica_setups: next()?,
            replica_drops: next()?,
            sync_rounds: next()?,
            synced_keys: next()?,
            stale_reads: next()?,
            forwards: [next()?, next()?, next()?, next()?],
            relocation: histogram(&mut next)?,
            blocking: histogram(&mut next)?,
        };
        let mut reduction = Reduction { digest, ..Reduction::default() };
        while !reader.0.is_empty() {
            let len = usize::try_from(reader.number()?).map_err(|_| "a name is too long")?;
            let name = std::str::from_utf8(reader.take(len)?).map_err(|_| "a name is not UTF-8")?;
            if reduction.sums.contains_key(name) {
                return Err("a name occurs twice");
            }
            let name = name.to_owned();
            reduction.sums.insert(name, f64::from_bits(reader.number()?));
        }
        Ok(Self { reduction, accesses, late, cpu_ns, traffic, management, sampling })
    }

    fn add(&mut self, other: &Self) {
        self.reduction.merge(&other.reduction);
        self.accesses = self.accesses.plus(other.accesses);
        self.late = self.late.plus(other.late);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.traffic.messages = self.traffic.messages.saturating_add(other.traffic.messages);
        self.traffic.bytes = self.traffic.bytes.saturating_add(other.traffic.bytes);
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

fn histogram(next: &mut impl FnMut() -> Result<u64, &'static str>) -> Result<Histogram, &'static str> {
    let (sum, parts) = (next()?, next()?);
    let mut read = Vec::new();
    for _ in 0..parts {
        read.push((next()?, next()?));
    }
    Histogram::from_parts(sum, read).ok_or("a histogram has no such bucket")
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        let mut raw = [0; 8];
        raw.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(seed: u64) -> Tally {
        let mut reduction = Reduction { digest: u64::MAX - seed, ..Reduction::default() };
        reduction.add("loss", 0.1 + seed as f64);
        reduction.add("quality.mrr", 1.0 / 3.0);
        let accesses = Accesses { pull_keys: seed, push_keys: 2, local: 3, remote: 4, sampled: 5 };
        let traffic = Traffic { messages: 8, bytes: 9 };
        let mut management = ManagementStats {
            relocations: seed,
            replica_setups: 11,
            replica_drops: 12,
            sync_rounds: 13,
            synced_keys: 14,
            stale_reads: 15,
            localization_conflicts: 16,
            queued: 17,
            forwards: [1, 2, 3, 4],
            ..Default::default()
        };
        (0..seed).for_each(|us| management.relocation.record(1_000 * us));
        let sampling = SamplingStats { drawn: 21, pools: 22, late_pools: 23, postponed: 24, strayed: seed };
        Tally { reduction, accesses, late: accesses.plus(accesses), cpu_ns: 7, traffic, management, sampling }
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
        assert_eq!(
            sum.accesses,
            Accesses { pull_keys: 10, push_keys: 10, local: 15, remote: 20, sampled: 25 }
        );
        assert_eq!((sum.management.relocations, sum.management.forwards), (10, [5, 10, 15, 20]));
        assert_eq!(sum.management.relocation.count(), 10);
        assert_eq!((sum.management.replica_setups, sum.management.stale_reads), (55, 75));
        assert_eq!((sum.sampling.drawn, sum.sampling.strayed), (105, 10));
        assert_eq!((sum.cpu_ns, sum.traffic), (35, Traffic { messages: 40, bytes: 45 }));
    }

    #[test]
    fn every_truncation_is_refused_or_lacks_whole_names() {
        let bytes = tally(1).encode();
        let whole = Tally::decode(&bytes).expect("well-formed");
        for len in 0..bytes.len() {
            if let Ok(part) = Tally::decode(&bytes[..len]) {
                assert!(part.reduction.sums.len() < whole.reduction.sums.len(), "{len} bytes");
            }
        }
        // Numbers, counts, the two histograms, of which one has a part.
        let names = (19 + 13 + 2 + 2 + 2) * 8;
        let twice: Vec<u8> = [bytes.as_slice(), &bytes[names..]].concat();
        assert_eq!(Tally::decode(&twice), Err("a name occurs twice"));
    }
}
