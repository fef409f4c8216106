//! Farewells: with a farewell, a node that has finished tells the others that it sets nothing any more, so
//! that no get waits for a value that will not come.
//!
//! A farewell is a slot without a value, which a node writes to all others once its other operations have
//! ended. It comes after everything that the node has written before. A read that begins after the farewell
//! was heard finds the last value.

use crate::directory::ANY;
use crate::{Directory, Effect};
use intendant_segment::Segment;
use intendant_segment::slot::{self, Written};

/// The only clock of a farewell.
const CLOCK: u64 = 1;

#[derive(Debug)]
pub(crate) struct Farewells {
    rank: usize,
    /// The nodes by rank; empty if there is only one node.
    others: Vec<Other>,
    /// Writes in flight.
    writing: usize,
    /// Number of the first write of a farewell; lower numbers are writes of the producer.
    first: usize,
}

/// The farewells between this node and another node.
#[derive(Debug)]
struct Other {
    incarnation: u64,
    /// Place of its farewell in this node's segment.
    at: usize,
    /// Place of this node's farewell in its segment.
    remote: usize,
    heard: bool,
    writing: bool,
}

impl Farewells {
    /// The farewells of node `rank`, whose writes are numbered from `first` on.
    pub(crate) fn new(directory: &Directory, rank: usize, first: usize) -> Self {
        let other = |node: usize| {
            Some(Other {
                incarnation: directory.incarnation(node)?,
                at: directory.farewell_at(node, rank)?,
                remote: directory.farewell_at(rank, node)?,
                heard: false,
                writing: false,
            })
        };
        Self { rank, others: (0..directory.nodes()).filter_map(other).collect(), writing: 0, first }
    }

    /// Whether node `node` has finished: it has set and pushed everything that it ever will.
    pub(crate) fn heard(&mut self, segment: &Segment, node: usize) -> bool {
        let Some(other) = self.others.get_mut(node) else { return false };
        if !other.heard && slot::peek_clock(segment, other.at) != 0 {
            let told = slot::read(segment, other.at, other.incarnation, node as u64, &mut []);
            other.heard = told == Ok(CLOCK);
        }
        other.heard
    }

    /// Whether a write is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.writing > 0
    }

    /// Whether write `id` is that of a farewell.
    pub(crate) fn owns(&self, id: u64) -> bool {
        (id >> 1) as usize >= self.first
    }

    /// Writes the farewell of this node to all others.
    pub(crate) fn say(&mut self, segment: &Segment, out: &mut Vec<Effect>) {
        let Some(own) = self.others.get(self.rank) else { return };
        let (at, incarnation) = (own.at, own.incarnation);
        // If another node has written the slot by mistake, this node sends no farewell, and gets of others
        // keep waiting.
        let key = (incarnation, self.rank as u64);
        if slot::set_known(segment, at, key, &mut Written::default(), CLOCK, &[]).is_err() {
            return;
        }
        for (node, other) in self.others.iter_mut().enumerate().filter(|(node, _)| *node != self.rank) {
            other.writing = true;
            self.writing += 1;
            out.push(Effect::Write {
                to: node,
                local: at,
                remote: other.remote,
                words: slot::words(0),
                hint: Some(ANY),
                id: ((self.first + node) as u64) << 1 | 1,
            });
        }
    }

    /// Handles the end of the write `id`, successful or not.
    ///
    /// # Panics
    /// If no such write is in flight.
    pub(crate) fn written(&mut self, id: u64) {
        let node = (id >> 1) as usize - self.first;
        let other = self.others.get_mut(node).filter(|other| other.writing);
        let Some(other) = other else { panic!("the window reports write {id}, which is not in flight") };
        other.writing = false;
        self.writing -= 1;
    }
}
