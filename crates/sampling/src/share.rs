//! The share of a distribution that a node has.
//!
//! All nodes draw equally many samples. A node that has less than its share of π, because other nodes were
//! faster to move keys, would draw the few keys that it has again and again. So a node estimates the
//! probability M that it accepts a draw from π: it looks at many draws to find one that is local, and counts
//! them. If M is below 1/N, the node draws only the fraction N·M of its samples locally. The others are
//! independent draws, chosen and announced ahead, wherever their keys are. Then no key is drawn locally more
//! often than π says. A node that keeps its keys by weight knows its share ([`crate::NearKeys::share`]), and
//! estimates nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Draws after which older draws count half: the larger of [`MEMORY`] and [`MEMORY_PER_NODE`] times the
/// number of nodes. One of N draws is accepted, so the estimate of n draws has a relative standard deviation
/// of √(N/n): at most 3.2 % immediately after older draws were halved, a third of the tolerance, and at most
/// 8.8 % when the first draws are used ([decision 15](../../../docs/decisions/0015-local-samples.md)).
const MEMORY: u32 = 1 << 13;
const MEMORY_PER_NODE: u32 = 1 << 11;

/// The factor by which a key may be drawn too often: the estimate fluctuates, and so does the node's share.
const TOLERANCE: f64 = 1.1;

fn memory(nodes: u32) -> u32 {
    MEMORY.max(nodes.saturating_mul(MEMORY_PER_NODE))
}

/// Counts of the draws that a node has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// All draws.
    pub(crate) all: u32,
    /// Draws that the node accepted.
    pub(crate) accepted: u32,
}

/// The estimated share of a distribution that a node owns.
#[derive(Debug, Default)]
pub(crate) struct Share(AtomicU64);

impl Share {
    fn looks(&self) -> Looks {
        // Relaxed: the two numbers are one word, and nothing else depends on them.
        let both = self.0.load(Ordering::Relaxed);
        Looks { all: (both >> 32) as u32, accepted: both as u32 }
    }

    /// Adds draws of one of `nodes` nodes. Draws that another thread adds at the same time may be lost.
    pub(crate) fn record(&self, looks: Looks, nodes: u32) {
        let Looks { mut all, mut accepted } = self.looks();
        all = all.saturating_add(looks.all);
        accepted = accepted.saturating_add(looks.accepted);
        while all > memory(nodes) {
            (all, accepted) = (all / 2, accepted / 2);
        }
        self.0.store(u64::from(all) << 32 | u64::from(accepted), Ordering::Relaxed);
    }

    /// The fraction of samples that one of `nodes` nodes should not draw locally.
    pub(crate) fn elsewhere(&self, nodes: u32) -> f64 {
        let Looks { all, accepted } = self.looks();
        // Until there is an estimate, the node assumes that it owns its share.
        if all < memory(nodes) / 16 {
            return 0.0;
        }
        elsewhere(f64::from(accepted) / f64::from(all), nodes)
    }
}

/// The fraction of samples that one of `nodes` nodes should not draw locally, if it has this share of the
/// distribution.
pub(crate) fn elsewhere(share: f64, nodes: u32) -> f64 {
    (1.0 - TOLERANCE * f64::from(nodes) * share).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn a_node_that_owns_its_share_draws_locally() {
        let share = Share::default();
        assert_eq!(share.elsewhere(4), 0.0);
        share.record(Looks { all: 4000, accepted: 1000 }, 4);
        assert_eq!((share.elsewhere(4), share.elsewhere(2)), (0.0, 1.0 - 1.1 * 0.5));
        assert_eq!(share.elsewhere(1), 1.0 - 1.1 * 0.25);
    }

    #[test]
    fn a_node_that_owns_nothing_draws_elsewhere_until_it_does() {
        let share = Share::default();
        share.record(Looks { all: 100, accepted: 0 }, 2);
        assert_eq!(share.elsewhere(2), 0.0, "too few to tell");
        for _ in 0..100 {
            share.record(Looks { all: 1000, accepted: 0 }, 2);
        }
        assert_eq!(share.elsewhere(2), 1.0);
        assert!(share.looks().all <= memory(2));
        for _ in 0..100 {
            share.record(Looks { all: 1000, accepted: 500 }, 2);
        }
        assert_eq!(share.elsewhere(2), 0.0);
    }

    #[test]
    fn nodes_that_own_their_shares_draw_locally_however_many_they_are() {
        for nodes in [8, 32, 128, 512] {
            let (share, mut rng) = (Share::default(), Pcg64Mcg::seed_from_u64(nodes.into()));
            let (mut sum, steps) = (0.0, 2000);
            for _ in 0..steps {
                // The number of draws that it takes to find some samples.
                let all = 16 * nodes;
                let accepted = (0..all).filter(|_| rng.random_ratio(1, nodes)).count() as u32;
                share.record(Looks { all, accepted }, nodes);
                sum += share.elsewhere(nodes);
            }
            let mean = sum / f64::from(steps);
            assert!(mean < 0.001, "{nodes} nodes: {mean}");
        }
    }
}
