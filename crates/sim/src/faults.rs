//! Faults: slow connections, slow NICs, slow nodes, partitions, crashes. All faults but crashes end, and lose
//! no frame. A crash ends the run ([`crate::TaskFailure::Crashed`]).
//!
//! A partition delays frames between its two groups until it heals, as TCP retransmission does: no frame is
//! lost, and order is kept. Real nodes consider a peer dead that is silent for [`PARTITION_NS_MAX`], and end
//! the run; the simulator only models shorter partitions.

use crate::dice::Dice;
use intendant_core::{NodeId, random};

/// Partitions must heal within this time, after which real nodes consider a silent peer dead.
pub const PARTITION_NS_MAX: u64 = 5_000_000_000;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Frames from one node to another take `more_ns` longer.
    SlowConnection {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Added to the latency.
        more_ns: u64,
    },
    /// Each byte occupies the node's NIC `factor` times as long.
    SlowNic {
        /// The node.
        node: NodeId,
        /// At least 1.
        factor: u32,
    },
    /// All threads of the node are slower by `factor`.
    SlowNode {
        /// The node.
        node: NodeId,
        /// At least 1.
        factor: u32,
    },
    /// Nodes below `first` and the other nodes cannot reach each other.
    Partition {
        /// The first node of the second group. With 0 or the number of nodes, nothing is partitioned.
        first: NodeId,
    },
    /// The node cannot reach any other node.
    Isolated {
        /// The node.
        node: NodeId,
    },
    /// The node dies at the start of the interval, and with it, as in reality, the whole cluster. Training
    /// runs have this fault.
    Crash {
        /// The node.
        node: NodeId,
    },
}

/// A fault and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Start of the interval, ns.
    pub from_ns: u64,
    /// End of the interval, ns, excluded.
    pub until_ns: u64,
    /// The fault.
    pub fault: Fault,
}

/// Why a plan of faults is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// A partition that lasts longer than real nodes tolerate.
    #[error(
        "{fault:?} lasts {} ms; nodes end a run when a peer is silent for {} ms",
        lasts_ns / 1_000_000, PARTITION_NS_MAX / 1_000_000
    )]
    TooLong {
        /// The fault.
        fault: Fault,
        /// Its duration, ns.
        lasts_ns: u64,
    },
    /// A factor of 0, which would make the faulty part infinitely fast.
    #[error("{fault:?}: a factor must be at least 1")]
    Factor {
        /// The fault.
        fault: Fault,
    },
}

/// A plan of faults: any number of episodes, which may overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Episode>);

impl Faults {
    /// The empty plan.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// A plan of these episodes.
    ///
    /// # Errors
    /// If an episode is impossible in a real cluster: see [`FaultError`].
    pub fn new(episodes: Vec<Episode>) -> Result<Self, FaultError> {
        for Episode { from_ns, until_ns, fault } in &episodes {
            match *fault {
                Fault::Partition { .. } | Fault::Isolated { .. } => {
                    let lasts_ns = until_ns.saturating_sub(*from_ns);
                    if lasts_ns >= PARTITION_NS_MAX {
                        return Err(FaultError::TooLong { fault: *fault, lasts_ns });
                    }
                }
                Fault::SlowNic { factor, .. } | Fault::SlowNode { factor, .. } => {
                    if factor == 0 {
                        return Err(FaultError::Factor { fault: *fault });
                    }
                }
                Fault::SlowConnection { .. } | Fault::Crash { .. } => {}
            }
        }
        Ok(Self(episodes))
    }

    /// One to five faults of random kinds, drawn from `seed`, that start within the first `horizon_ns` of a
    /// cluster of `nodes`. With one node, only slow nodes are drawn.
    #[must_use]
    pub fn random(seed: u64, nodes: usize, horizon_ns: u64) -> Self {
        let dice = &mut Dice::new(random::stream(seed, &[2]));
        let horizon_ns = horizon_ns.max(2);
        let episodes = (0..dice.between(1, 5)).map(|_| {
            let from_ns = dice.below(horizon_ns);
            let lasts_ns = dice.between(1, horizon_ns / 2).min(PARTITION_NS_MAX - 1);
            let mut node = || NodeId(dice.below(nodes as u64) as u16);
            let (one, other) = (node(), node());
            let factor = dice.between(2, 50) as u32;
            let fault = match dice.below(if nodes > 1 { 5 } else { 1 }) {
                0 => Fault::SlowNode { node: one, factor },
                1 => Fault::SlowNic { node: one, factor },
                2 => Fault::SlowConnection { from: one, to: other, more_ns: dice.between(1, horizon_ns / 2) },
                3 => Fault::Isolated { node: one },
                _ => Fault::Partition { first: NodeId(dice.between(1, nodes as u64 - 1) as u16) },
            };
            Episode { from_ns, until_ns: from_ns + lasts_ns, fault }
        });
        Self(episodes.collect())
    }

    /// The episodes.
    #[must_use]
    pub fn episodes(&self) -> &[Episode] {
        &self.0
    }

    /// Whether the plan is empty.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    fn active_at(&self, at_ns: u64) -> impl Iterator<Item = &Episode> {
        self.0.iter().filter(move |e| (e.from_ns..e.until_ns).contains(&at_ns))
    }

    /// Factor by which the threads of a node are slower.
    pub(crate) fn slowdown(&self, at_ns: u64, node: usize) -> u64 {
        let factor = |fault| match fault {
            Fault::SlowNode { node: slow, factor } => (slow.index() == node).then_some(factor),
            Fault::SlowConnection { .. }
            | Fault::SlowNic { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. }
            | Fault::Crash { .. } => None,
        };
        self.active_at(at_ns).filter_map(|e| factor(e.fault)).map(u64::from).product()
    }

    /// Factor by which a node's NIC is slower.
    pub(crate) fn nic_slowdown(&self, at_ns: u64, node: usize) -> u64 {
        let factor = |fault| match fault {
            Fault::SlowNic { node: slow, factor } => (slow.index() == node).then_some(factor),
            Fault::SlowConnection { .. }
            | Fault::SlowNode { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. }
            | Fault::Crash { .. } => None,
        };
        self.active_at(at_ns).filter_map(|e| factor(e.fault)).map(u64::from).product()
    }

    /// Additional latency of a frame.
    pub(crate) fn more_latency_ns(&self, at_ns: u64, from: usize, to: usize) -> u64 {
        let ends = (from, to);
        let more = |fault| match fault {
            Fault::SlowConnection { from, to, more_ns } => {
                ((from.index(), to.index()) == ends).then_some(more_ns)
            }
            Fault::SlowNic { .. }
            | Fault::SlowNode { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. }
            | Fault::Crash { .. } => None,
        };
        self.active_at(at_ns).filter_map(|e| more(e.fault)).sum()
    }

    /// The node that has died by now, if one has.
    pub(crate) fn crashed(&self, at_ns: u64) -> Option<NodeId> {
        self.0.iter().filter(|episode| episode.from_ns <= at_ns).find_map(|episode| match episode.fault {
            Fault::Crash { node } => Some(node),
            Fault::SlowConnection { .. }
            | Fault::SlowNic { .. }
            | Fault::SlowNode { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. } => None,
        })
    }

    /// If two nodes cannot reach each other: the end of the longest episode that separates them now. Another
    /// one may follow.
    pub(crate) fn partitioned_until_ns(&self, at_ns: u64, from: usize, to: usize) -> Option<u64> {
        let parts = |e: &&Episode| match e.fault {
            Fault::Partition { first } => (from < first.index()) != (to < first.index()),
            Fault::Isolated { node } => (from == node.index()) != (to == node.index()),
            Fault::SlowConnection { .. }
            | Fault::SlowNic { .. }
            | Fault::SlowNode { .. }
            | Fault::Crash { .. } => false,
        };
        self.active_at(at_ns).filter(parts).map(|e| e.until_ns).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(from_ns: u64, until_ns: u64, fault: Fault) -> Result<Faults, FaultError> {
        Faults::new(vec![Episode { from_ns, until_ns, fault }])
    }

    #[test]
    fn faults_are_active_in_their_interval_and_for_their_nodes() {
        let slow = one(10, 20, Fault::SlowNode { node: NodeId(1), factor: 3 }).expect("accepted");
        assert_eq!([9, 10, 19, 20].map(|at| slow.slowdown(at, 1)), [1, 3, 3, 1]);
        assert_eq!((slow.slowdown(15, 0), slow.nic_slowdown(15, 1)), (1, 1));
        let parted = one(10, 20, Fault::Partition { first: NodeId(2) }).expect("accepted");
        assert_eq!(parted.partitioned_until_ns(15, 0, 2), Some(20));
        assert_eq!(parted.partitioned_until_ns(15, 3, 1), Some(20));
        assert_eq!(parted.partitioned_until_ns(15, 0, 1), None);
        assert_eq!(parted.partitioned_until_ns(15, 3, 2), None);
        assert_eq!(parted.partitioned_until_ns(20, 0, 2), None);
        let isolated = one(0, 5, Fault::Isolated { node: NodeId(1) }).expect("accepted");
        assert_eq!(
            [(0, 1), (1, 2), (0, 2)].map(|(a, b)| isolated.partitioned_until_ns(0, a, b)),
            [Some(5), Some(5), None]
        );
    }

    #[test]
    fn impossible_faults_are_rejected() {
        assert!(one(7, 7 + PARTITION_NS_MAX, Fault::Partition { first: NodeId(1) }).is_err());
        assert!(one(7, 6 + PARTITION_NS_MAX, Fault::Partition { first: NodeId(1) }).is_ok());
        assert!(one(0, 1, Fault::SlowNic { node: NodeId(0), factor: 0 }).is_err());
    }

    #[test]
    fn random_plans_are_valid_and_have_every_kind() {
        let mut kinds = [0; 5];
        for seed in 0..200 {
            let plan = Faults::random(seed, 4, 1_000_000);
            assert_eq!(plan, Faults::random(seed, 4, 1_000_000));
            for episode in plan.episodes() {
                kinds[match episode.fault {
                    Fault::SlowConnection { .. } => 0,
                    Fault::SlowNic { .. } => 1,
                    Fault::SlowNode { .. } => 2,
                    Fault::Partition { .. } => 3,
                    Fault::Isolated { .. } => 4,
                    Fault::Crash { .. } => panic!("crashes are not drawn"),
                }] += 1;
            }
            Faults::new(plan.0).expect("a valid plan");
        }
        assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
    }
}
