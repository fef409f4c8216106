//! The state of the cuts of a simulated run.

use super::config::CutConfig;
use super::disk::Disk;
use crate::invariants::Cover;
use intendant_checkpoint::protocol::{Seat, Vote};
use intendant_checkpoint::{CutDriver, CutOp, CutRules, Range, Rows};
use intendant_core::{Element, Layout};
use intendant_task::Reduction;
use std::time::Duration;

/// What a worker does for the cuts when it wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CutTask {
    /// It meets the others.
    Meet,
    /// It ends, after the last cut.
    End,
    /// It goes on with an operation of its program.
    Op(CutOp),
}

/// The cuts of a run.
pub(super) struct Cuts<E> {
    pub(super) disk: Disk<E>,
    pub(super) ranges: Vec<Range>,
    /// One per worker, and what each has voted.
    pub(super) drivers: Vec<CutDriver>,
    pub(super) votes: Vec<Option<Vote>>,
    /// Batches that each worker has trained since the last meeting.
    pub(super) batches: Vec<u64>,
    /// The sums with which the epoch ended, if workers meet between two epochs, and whether it was the last.
    pub(super) between: Option<(Reduction, bool)>,
    /// The leader: what its manifest says of the pending cut.
    pub(super) recorded: Option<serde_json::Value>,
    pub(super) copying: Option<Copying<E>>,
    /// The number of nodes with which the run goes on after the cut that was made.
    pub(super) ending: Option<u16>,
}

/// A cut whose values are being copied.
pub(super) struct Copying<E> {
    /// By node, until they are written.
    pub(super) rows: Vec<Option<Rows<E>>>,
    pub(super) cover: Cover,
    pub(super) values: Vec<Vec<E>>,
    pub(super) owners: Vec<u16>,
    /// Nodes that have not copied all of theirs.
    pub(super) open: usize,
}

impl<E: Element> Cuts<E> {
    #[inline(never)]
    pub(super) fn new(
        config: &CutConfig,
        layout: &Layout,
        workers: usize,
        seed: u64,
        newest: Option<u64>,
    ) -> Self {
        let all = layout.nodes() * workers;
        let seat = |at: usize| Seat { node: (at / workers) as u16, worker: at % workers, workers };
        let rules = CutRules {
            seconds: config.seconds,
            writes: config.folder.is_some(),
            copies: config.copies,
            first_meeting: None,
            best: None,
        };
        Self {
            disk: Disk::new(config, layout.nodes(), seed, newest),
            ranges: layout.ranges().iter().map(Range::from).collect(),
            drivers: (0..all).map(|at| CutDriver::new(seat(at), rules, Duration::ZERO)).collect(),
            votes: vec![None; all],
            batches: vec![0; all],
            between: None,
            recorded: None,
            copying: None,
            ending: None,
        }
    }

    /// Whether a worker has left.
    pub(super) fn has_left(&self, worker: usize) -> bool {
        self.drivers[worker].has_left()
    }

    pub(super) fn first_meeting(&self) -> u64 {
        self.drivers[0].first_meeting()
    }

    /// The last cut, if it is a checkpoint, or why it is none.
    pub(super) fn last(&mut self) -> Result<Option<u64>, String> {
        match self.drivers[0].unsaved() {
            Some(unsaved) => Err(unsaved.to_string()),
            None => Ok(self.drivers[0].saved()),
        }
    }
}
