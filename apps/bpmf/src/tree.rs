//! A fixed binary tree of sums, so that results do not depend on how leaves are divided among blocks.
//!
//! Floating-point sums depend on their order. The leaves of a [`Tree`] are ranges of rows that follow from
//! the data alone; a node of the tree is the sum of its two halves, left before right. A block that has a
//! range of leaves sends the sums of the largest nodes inside its range ([`Tree::cover`]). A block that has
//! all of these completes the tree with the same additions that a single block would make ([`Tree::root`]).

use std::collections::BTreeMap;
use std::ops::Range;

/// What can be summed.
pub(crate) trait Merge: Clone {
    /// Adds `other`, which lies to the right.
    fn merge(&mut self, other: &Self);
}

/// A tree of `leaves`, a power of two. Node 1 is the root, the halves of node n are 2n and 2n + 1, and leaf l
/// is node `leaves + l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    leaves: u32,
}

impl Tree {
    /// A tree with at least this many leaves.
    pub(crate) const fn new(leaves: u32) -> Self {
        Self { leaves: leaves.next_power_of_two() }
    }

    /// Leaves.
    pub(crate) const fn leaves(self) -> u32 {
        self.leaves
    }

    /// One more than the number of nodes: they are numbered from 1.
    pub(crate) const fn nodes(self) -> u32 {
        2 * self.leaves
    }

    /// The leaves of block `block` of `blocks`.
    pub(crate) fn share(self, block: u32, blocks: u32) -> Range<u32> {
        let bound = |block: u32| (u64::from(self.leaves) * u64::from(block) / u64::from(blocks)) as u32;
        bound(block)..bound(block + 1)
    }

    /// The largest nodes whose leaves are all in `range`, from left to right; each leaf of `range` is below
    /// one of them.
    pub(crate) fn cover(self, range: Range<u32>) -> Vec<u32> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (mut low, mut high) = (range.start + self.leaves, range.end + self.leaves);
        while low < high {
            if low % 2 == 1 {
                left.push(low);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                right.push(high);
            }
            low /= 2;
            high /= 2;
        }
        right.reverse();
        left.extend(right);
        left
    }

    /// The sum below `node` from the sums of nodes that cover it; `None` if one is missing.
    pub(crate) fn sum<T: Merge>(self, node: u32, known: &impl Fn(u32) -> Option<T>) -> Option<T> {
        if let Some(sum) = known(node) {
            return Some(sum);
        }
        if node >= self.leaves {
            return None;
        }
        let mut sum = self.sum(2 * node, known)?;
        sum.merge(&self.sum(2 * node + 1, known)?);
        Some(sum)
    }

    /// The sum of all leaves from the sums of nodes that cover them; `None` if one is missing.
    pub(crate) fn root<T: Merge>(self, known: &BTreeMap<u32, T>) -> Option<T> {
        self.sum(1, &|node| known.get(&node).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::{stream, unit};
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Sum(f64);

    impl Merge for Sum {
        fn merge(&mut self, other: &Self) {
            self.0 += other.0;
        }
    }

    proptest! {
        #[test]
        fn sums_have_the_same_bits_for_any_division(exponent in 0u32..8, blocks in 1u32..40, seed: u64) {
            let tree = Tree::new(1 << exponent);
            let leaf = |leaf: u32| Sum(unit(stream(seed, &[leaf.into()])) - 0.3);
            let of_leaves = |node: u32| (node >= tree.leaves()).then(|| leaf(node - tree.leaves()));
            let mut known = BTreeMap::new();
            let mut next = 0;
            for block in 0..blocks {
                let share = tree.share(block, blocks);
                prop_assert_eq!(share.start, next);
                next = share.end;
                for node in tree.cover(share) {
                    known.insert(node, tree.sum(node, &of_leaves).expect("all leaves"));
                }
            }
            prop_assert_eq!(next, tree.leaves());
            let root = tree.root(&known).expect("all nodes");
            let alone = tree.sum(1, &of_leaves).expect("all leaves");
            prop_assert_eq!(root.0.to_bits(), alone.0.to_bits());
            let lost = *known.keys().next().expect("a node");
            known.remove(&lost);
            prop_assert_eq!(tree.root(&known), None);
        }
    }
}
