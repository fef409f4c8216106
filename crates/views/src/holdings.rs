//! The parts of cuts that a process holds, from the copy of its own values until they are not needed any
//! more. This module knows neither the values nor how they are transferred.

use crate::view::{CutName, HeldCut};
use std::collections::BTreeMap;

/// A cut of which a process holds parts.
#[derive(Clone, Debug)]
struct Kept<P, S> {
    name: CutName,
    /// Number of nodes of its view.
    nodes: usize,
    parts: BTreeMap<usize, P>,
    /// The state of the training at the cut; known when all nodes have copied their values.
    state: Option<S>,
    settled: bool,
}

/// The cuts of which a process holds parts `P`, and the state `S` of the training at each of them.
///
/// A cut goes through these steps at a node: the node [publishes](Holdings::publish) its own part; when all
/// nodes have done so, the cut's state is [known](Holdings::copied), and others may count on the cut; the
/// node [adds](Holdings::add) parts of others; when all nodes have the parts that they should hold, the cut
/// is [settled](Holdings::settle). The node holds older cuts until then.
#[derive(Clone, Debug)]
pub struct Holdings<P, S> {
    /// The newest last.
    cuts: Vec<Kept<P, S>>,
}

impl<P, S> Default for Holdings<P, S> {
    fn default() -> Self {
        Self { cuts: Vec::new() }
    }
}

/// The parts of others that node `rank` of `nodes` holds: those of the `copies` nodes before it.
pub fn before(rank: usize, nodes: usize, copies: usize) -> impl Iterator<Item = usize> {
    (1..=copies.min(nodes.saturating_sub(1))).map(move |before| (rank + nodes - before) % nodes)
}

impl<P, S> Holdings<P, S> {
    /// Node `rank` of `nodes` has copied its own values.
    pub fn publish(&mut self, name: CutName, (rank, nodes): (usize, usize), part: P) {
        let parts = BTreeMap::from([(rank, part)]);
        self.cuts.push(Kept { name, nodes, parts, state: None, settled: false });
    }

    /// All nodes have copied their values.
    pub fn copied(&mut self, name: CutName, state: S) {
        if let Some(cut) = self.find_mut(name) {
            cut.state = Some(state);
        }
    }

    /// The part of another node has arrived.
    pub fn add(&mut self, name: CutName, part: usize, content: P) {
        if let Some(cut) = self.find_mut(name) {
            cut.parts.insert(part, content);
        }
    }

    /// All nodes hold the parts of a cut that they should hold.
    pub fn settle(&mut self, name: CutName) {
        self.cuts.retain(|cut| cut.name >= name);
        if let Some(cut) = self.find_mut(name) {
            cut.settled = true;
        }
    }

    /// A cut is given up.
    pub fn forget(&mut self, name: CutName) {
        self.cuts.retain(|cut| cut.name != name);
    }

    /// The description of the cuts for an offer.
    #[must_use]
    pub fn held(&self) -> Vec<HeldCut> {
        let known = self.cuts.iter().filter(|cut| cut.state.is_some());
        let held = known.map(|cut| HeldCut {
            name: cut.name,
            parts: cut.nodes,
            held: cut.parts.keys().copied().collect(),
            settled: cut.settled,
        });
        held.collect()
    }

    /// A part of a cut, if this process holds it.
    #[must_use]
    pub fn part(&self, name: CutName, part: usize) -> Option<&P> {
        self.find(name)?.parts.get(&part)
    }

    /// The state of the training at a cut, if this process knows it.
    #[must_use]
    pub fn state(&self, name: CutName) -> Option<&S> {
        self.find(name)?.state.as_ref()
    }

    fn find(&self, name: CutName) -> Option<&Kept<P, S>> {
        self.cuts.iter().find(|cut| cut.name == name)
    }

    fn find_mut(&mut self, name: CutName) -> Option<&mut Kept<P, S>> {
        self.cuts.iter_mut().find(|cut| cut.name == name)
    }
}
