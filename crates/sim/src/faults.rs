//! What goes wrong: slow connections, slow NICs, slow nodes, partitions. All of it heals, and nothing is
//! lost.
//!
//! A partition holds frames between its two groups until it heals, as TCP does by sending again: nothing is
//! lost, and order is kept. Real nodes take a peer that is silent for [`PARTITION_NS_MAX`] for dead and end
//! the run; the simulator models what is over before that.

use crate::dice::Dice;
use intendant_core::{NodeId, random};

/// Partitions must heal within this time: real nodes suspect a silent peer after it.
pub const PARTITION_NS_MAX: u64 = 5_000_000_000;

/// What is wrong during an interval.
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
    /// Bytes occupy a node's NIC `factor` times as long.
    SlowNic {
        /// The node.
        node: NodeId,
        /// At least 1.
        factor: u32,
    },
    /// All threads of a node need `factor` times as long.
    SlowNode {
        /// The node.
        node: NodeId,
        /// At least 1.
        factor: u32,
    },
    /// Nodes below `first` and the others do not reach each other.
    Partition {
        /// The first node of the second group; neither 0 nor the number of nodes, or nothing is parted.
        first: NodeId,
    },
    /// A node reaches no other node.
    Isolated {
        /// The node.
        node: NodeId,
    },
}

/// A fault and when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// It begins here.
    pub from_ns: u64,
    /// It is over here.
    pub until_ns: u64,
    /// What is wrong meanwhile.
    pub fault: Fault,
}

/// Why a plan of faults is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// A partition that real nodes would not survive.
    #[error(
        "{fault:?} lasts {} ms; nodes end a run when a peer is silent for {} ms",
        lasts_ns / 1_000_000, PARTITION_NS_MAX / 1_000_000
    )]
    TooLong {
        /// The fault.
        fault: Fault,
        /// How long it lasts.
        lasts_ns: u64,
    },
    /// A factor of 0: nothing takes no time because it is faulty.
    #[error("{fault:?}: a factor must be at least 1")]
    Factor {
        /// The fault.
        fault: Fault,
    },
}

/// A plan of faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Episode>);

impl Faults {
    /// Nothing goes wrong.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// These faults; they may overlap.
    ///
    /// # Errors
    /// If the simulation would not be one of something real: see [`FaultError`].
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
                Fault::SlowConnection { .. } => {}
            }
        }
        Ok(Self(episodes))
    }

    /// A few faults of all kinds, drawn from `seed`, within the first `horizon_ns` of a cluster of `nodes`.
    /// With one node, only those that one node can have.
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

    /// The faults.
    #[must_use]
    pub fn episodes(&self) -> &[Episode] {
        &self.0
    }

    /// Whether nothing ever goes wrong.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    fn now(&self, at_ns: u64) -> impl Iterator<Item = &Episode> {
        self.0.iter().filter(move |e| (e.from_ns..e.until_ns).contains(&at_ns))
    }

    /// How much longer the threads of a node need.
    pub(crate) fn slowdown(&self, at_ns: u64, node: usize) -> u64 {
        let factor = |fault| match fault {
            Fault::SlowNode { node: slow, factor } => (slow.index() == node).then_some(factor),
            Fault::SlowConnection { .. }
            | Fault::SlowNic { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. } => None,
        };
        self.now(at_ns).filter_map(|e| factor(e.fault)).map(u64::from).product()
    }

    /// How much longer bytes occupy the NIC of a node.
    pub(crate) fn nic_slowdown(&self, at_ns: u64, node: usize) -> u64 {
        let factor = |fault| match fault {
            Fault::SlowNic { node: slow, factor } => (slow.index() == node).then_some(factor),
            Fault::SlowConnection { .. }
            | Fault::SlowNode { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. } => None,
        };
        self.now(at_ns).filter_map(|e| factor(e.fault)).map(u64::from).product()
    }

    /// How much longer a frame is under way.
    pub(crate) fn more_latency_ns(&self, at_ns: u64, from: usize, to: usize) -> u64 {
        let ends = (from, to);
        let more = |fault| match fault {
            Fault::SlowConnection { from, to, more_ns } => {
                ((from.index(), to.index()) == ends).then_some(more_ns)
            }
            Fault::SlowNic { .. }
            | Fault::SlowNode { .. }
            | Fault::Partition { .. }
            | Fault::Isolated { .. } => None,
        };
        self.now(at_ns).filter_map(|e| more(e.fault)).sum()
    }

    /// If two nodes cannot reach each other: when this may be over.
    pub(crate) fn parted_until_ns(&self, at_ns: u64, from: usize, to: usize) -> Option<u64> {
        let parts = |e: &&Episode| match e.fault {
            Fault::Partition { first } => (from < first.index()) != (to < first.index()),
            Fault::Isolated { node } => (from == node.index()) != (to == node.index()),
            Fault::SlowConnection { .. } | Fault::SlowNic { .. } | Fault::SlowNode { .. } => false,
        };
        self.now(at_ns).filter(parts).map(|e| e.until_ns).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(from_ns: u64, until_ns: u64, fault: Fault) -> Result<Faults, FaultError> {
        Faults::new(vec![Episode { from_ns, until_ns, fault }])
    }

    #[test]
    fn faults_hold_for_their_interval_and_whom_they_name() {
        let slow = one(10, 20, Fault::SlowNode { node: NodeId(1), factor: 3 }).expect("accepted");
        assert_eq!([9, 10, 19, 20].map(|at| slow.slowdown(at, 1)), [1, 3, 3, 1]);
        assert_eq!((slow.slowdown(15, 0), slow.nic_slowdown(15, 1)), (1, 1));
        let parted = one(10, 20, Fault::Partition { first: NodeId(2) }).expect("accepted");
        assert_eq!(parted.parted_until_ns(15, 0, 2), Some(20));
        assert_eq!(parted.parted_until_ns(15, 3, 1), Some(20));
        assert_eq!(parted.parted_until_ns(15, 0, 1), None);
        assert_eq!(parted.parted_until_ns(15, 3, 2), None);
        assert_eq!(parted.parted_until_ns(20, 0, 2), None);
        let lonely = one(0, 5, Fault::Isolated { node: NodeId(1) }).expect("accepted");
        assert_eq!(
            [(0, 1), (1, 2), (0, 2)].map(|(a, b)| lonely.parted_until_ns(0, a, b)),
            [Some(5), Some(5), None]
        );
    }

    #[test]
    fn what_would_end_a_real_run_or_makes_no_sense_is_refused() {
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
                }] += 1;
            }
            Faults::new(plan.0).expect("a valid plan");
        }
        assert!(kinds.iter().all(|count| *count > 20), "{kinds:?}");
    }
}
