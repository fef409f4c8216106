//! Views: the nodes of a run from one change to the next, and the cuts of its values that they hold.

use intendant_core::limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// A process that is a node of a run, or wants to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// A random number that no other process has.
    pub id: u64,
    /// The address at which it answers others in every view.
    pub address: SocketAddr,
}

/// The nodes of a run, by rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Counts from 1. No two views of a run have the same number.
    pub number: u64,
    /// The processes, by rank.
    pub members: Vec<Process>,
    /// Their names, by rank: small numbers that they keep from view to view.
    pub names: Vec<u64>,
    /// The smallest number that no process has had as its name.
    pub next_name: u64,
    /// The cut at which it begins; `None` at the start of the run.
    pub begins: Option<CutName>,
    /// Whether a cut was settled before. If not, a view that follows may also begin at the start of the run:
    /// a cut that is not settled can be whole, but have fewer copies than it should.
    pub settled: bool,
}

/// The most views, cuts and ballots of a run: greater numbers are invalid.
pub(crate) const NUMBER_MAX: u64 = 1 << 48;

impl View {
    /// The first view of a run.
    #[must_use]
    pub fn first(members: Vec<Process>) -> Self {
        let next_name = members.len() as u64;
        let names = (0..next_name).collect();
        Self { number: 1, members, names, next_name, begins: None, settled: false }
    }

    /// Whether a process is one of the members.
    #[must_use]
    pub fn has(&self, id: u64) -> bool {
        self.rank(id).is_some()
    }

    /// The rank of a process.
    #[must_use]
    pub fn rank(&self, id: u64) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// Whether the members for which `holds` is true may decide for all: whether they are more than half, or
    /// half with node 0. Two quorums of a view have a member in common.
    pub(crate) fn is_quorum(&self, holds: impl Fn(u64) -> bool) -> bool {
        let count = self.members.iter().filter(|member| holds(member.id)).count();
        let has_first = self.members.first().is_some_and(|first| holds(first.id));
        count * 2 > self.members.len() || (count * 2 == self.members.len() && has_first)
    }

    /// Whether this is invalid as a view of a run.
    pub(crate) fn is_nonsense(&self) -> bool {
        self.members.is_empty()
            || self.members.len() != self.names.len()
            || self.members.len() > limits::NODES_MAX
            || self.members.iter().map(|member| member.id).collect::<BTreeSet<u64>>().len()
                < self.members.len()
            || self.names.iter().any(|name| *name >= self.next_name)
            || self.number.max(self.next_name) > NUMBER_MAX
    }
}

/// The name of a cut: the view that made it, and its number there. Later cuts are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CutName {
    /// The view.
    pub view: u64,
    /// Counts from 1 in each view.
    pub number: u64,
}

/// The parts of a cut that a process holds. A cut is all values of the model at a time when the cluster was
/// at rest, with a part per node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCut {
    /// Its name.
    pub name: CutName,
    /// Number of parts: nodes of the view that made it.
    pub parts: usize,
    /// The parts that the process holds, by rank of the node that owned the values.
    pub held: Vec<usize>,
    /// Whether the process knows that all nodes hold all parts that they should hold.
    pub settled: bool,
}

/// A view that follows another one, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// The view.
    pub view: View,
    /// Per part of the cut at which the view begins, the processes that hold it.
    pub sources: Vec<Vec<Process>>,
}

impl Next {
    /// Whether this is invalid as a view that follows another one.
    pub(crate) fn is_nonsense(&self) -> bool {
        self.view.is_nonsense()
            || self.sources.iter().any(|part| part.len() > 2 * limits::NODES_MAX)
            || self.sources.len() > limits::NODES_MAX
    }
}
