//! Data clustering: which node trains which triples.
//!
//! Triples are clustered by relation: the fewer nodes train triples of a relation, the fewer
//! nodes access its parameters. If a single node trains them, the parameters stay at this node for the whole
//! run. Relations differ in size. They are assigned by their number of triples, the largest first, each to
//! the node with the fewest triples so far.
//!
//! An epoch takes as long as its slowest node. A relation with more triples than a node should train poses a
//! choice. If it stays whole, the other nodes wait. If it is split, its parameters reside at only one of its
//! nodes, and each triple of the others takes a round trip over the network; a relation that is a matrix is
//! large for that. A round trip takes about as long as a triple of a small model. Therefore a relation stays
//! whole, as in the papers, unless its node would take more than [`OVERLOAD_MAX`] times as long as the
//! average. Then it is split into parts that are no larger than the average. So no node ever has more than
//! [`OVERLOAD_MAX`] times the average.
//!
//! The clusters depend on the triples and on the number of nodes only. They do not assign triples to workers:
//! the triples of a node are dealt out to its workers like those of a run without clusters.

use crate::data::Triple;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A relation with more than this multiple of the triples of an average node is split.
pub(crate) const OVERLOAD_MAX: u64 = 2;

/// The triples and the resident relations of each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// Numbers of the triples, node by node, ascending within each.
    triples: Vec<u32>,
    /// The start of each node's triples, and the end of the last node's.
    starts: Vec<usize>,
    /// The relations that reside at each node, ascending.
    relations: Vec<Vec<u32>>,
    /// Relations with triples at more than one node.
    split: usize,
}

/// Some of the triples of a relation.
#[derive(Clone, Copy, Debug)]
struct Part {
    relation: usize,
    triples: u64,
}

impl Clusters {
    /// Clusters the triples of `relations` relations for `nodes` nodes.
    ///
    /// # Panics
    /// If there are no nodes, more than 2³² triples, or a triple has another relation.
    #[must_use]
    pub fn by_relation(train: &[Triple], relations: usize, nodes: u32) -> Self {
        assert!(nodes > 0 && u32::try_from(train.len()).is_ok(), "triples are numbered with 32 bits");
        let mut counts = vec![0u64; relations];
        train.iter().for_each(|triple| counts[triple.relation as usize] += 1);
        let parts = parts(&counts, train.len() as u64, nodes);
        let nodes_of_parts = balance(&parts, nodes);

        // Per relation, its parts: how many triples, at which node.
        let mut places: Vec<Vec<(u64, u32)>> = vec![Vec::new(); relations];
        for (part, node) in parts.iter().zip(&nodes_of_parts) {
            places[part.relation].push((part.triples, *node));
        }
        let mut of_nodes: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
        let mut split = 0;
        for (relation, places) in places.iter().enumerate() {
            let mut shares = places.clone();
            shares.sort_unstable_by_key(|(_, node)| *node);
            shares.dedup_by(|next, first| {
                let same = next.1 == first.1;
                first.0 += if same { next.0 } else { 0 };
                same
            });
            split += usize::from(shares.len() > 1);
            // A relation resides at the node with most of its triples. If several nodes have equally many, it
            // resides at the first of them.
            if let Some((_, node)) = shares.iter().max_by_key(|(triples, node)| (*triples, Reverse(*node))) {
                of_nodes[*node as usize].push(relation as u32);
            }
        }

        let mut by_node: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
        // The loop below takes parts from the ends of these lists.
        places.iter_mut().for_each(|places| places.reverse());
        for (number, triple) in train.iter().enumerate() {
            let places = &mut places[triple.relation as usize];
            while places.last().is_some_and(|(left, _)| *left == 0) {
                places.pop();
            }
            let (left, node) = places.last_mut().expect("the parts have all triples of their relation");
            *left -= 1;
            by_node[*node as usize].push(number as u32);
        }
        let mut starts = vec![0];
        starts.extend(by_node.iter().scan(0, |end, triples| {
            *end += triples.len();
            Some(*end)
        }));
        Self { triples: by_node.concat(), starts, relations: of_nodes, split }
    }

    /// Numbers of the triples that a node trains, ascending.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn triples(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.triples[self.starts[node]..self.starts[node + 1]]
    }

    /// The relations that reside at a node, ascending: the node trains more of their triples than any other
    /// node. Relations without triples reside nowhere.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn relations(&self, node: u32) -> &[u32] {
        &self.relations[node as usize]
    }

    /// How many relations have triples at more than one node.
    #[must_use]
    pub const fn split_relations(&self) -> usize {
        self.split
    }

    /// The largest number of triples of a node over the average: the factor by which an epoch takes longer
    /// than with equal shares.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        let most = self.starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        let nodes = self.starts.len() - 1;
        if self.triples.is_empty() { 1.0 } else { most as f64 * nodes as f64 / self.triples.len() as f64 }
    }
}

/// The relations that have triples, split where they must be.
fn parts(counts: &[u64], triples: u64, nodes: u32) -> Vec<Part> {
    let nodes = u64::from(nodes);
    let mut parts = Vec::with_capacity(counts.len());
    for (relation, count) in counts.iter().copied().enumerate() {
        let pieces = match count {
            0 => 0,
            _ if count * nodes <= OVERLOAD_MAX * triples => 1,
            _ => (count * nodes).div_ceil(triples).min(count),
        };
        let bound = |piece: u64| count * piece / pieces;
        parts.extend((0..pieces).map(|piece| Part { relation, triples: bound(piece + 1) - bound(piece) }));
    }
    parts
}

/// The node of each part. Parts are assigned in descending order of size, each to the node with the fewest
/// triples so far; among several such nodes, to the first.
fn balance(parts: &[Part], nodes: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| Reverse(parts[*at].triples));
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..nodes).map(|node| Reverse((0, node))).collect();
    let mut nodes_of_parts = vec![0; parts.len()];
    for at in order {
        let Reverse((load, node)) = loads.pop().expect("there is a node");
        nodes_of_parts[at] = node;
        loads.push(Reverse((load + parts[at].triples, node)));
    }
    nodes_of_parts
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
