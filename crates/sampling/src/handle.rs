//! Prepared samples.

use crate::DistributionId;
use intendant_core::Key;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Prepared samples. [`crate::Manager::draw`] consumes it; dropping it early is allowed.
#[derive(Debug)]
pub struct Handle {
    pub(crate) distribution: DistributionId,
    pub(crate) source: Source,
    /// Keys to move here that are not among the samples: they belong to pools that will be used later.
    pub(crate) later: Vec<Key>,
}

/// The source of a handle's samples.
#[derive(Debug)]
pub(crate) enum Source {
    /// The samples are chosen.
    Chosen(VecDeque<Key>),
    /// The samples are chosen; the first `fresh` of them may still be moved to the end, if they are not here.
    Postponing { keys: VecDeque<Key>, fresh: usize },
    /// Some samples are chosen; `left` others are still to be chosen among the keys that are here.
    Local { chosen: VecDeque<Key>, left: usize, rng: Pcg64Mcg },
    /// `left` samples are to be chosen among the keys that were pulled recently.
    Repurposing { left: usize, rng: Pcg64Mcg },
}

impl Handle {
    /// Samples that can still be drawn.
    pub fn left(&self) -> usize {
        match &self.source {
            Source::Chosen(keys) | Source::Postponing { keys, .. } => keys.len(),
            Source::Local { chosen, left, .. } => chosen.len() + left,
            Source::Repurposing { left, .. } => *left,
        }
    }

    /// The distribution of the samples.
    pub fn distribution(&self) -> DistributionId {
        self.distribution
    }

    /// The keys that this handle will yield, as far as they are chosen already.
    pub fn ahead(&self) -> impl ExactSizeIterator<Item = Key> + '_ {
        static NONE: VecDeque<Key> = VecDeque::new();
        let chosen = match &self.source {
            Source::Chosen(keys) | Source::Postponing { keys, .. } | Source::Local { chosen: keys, .. } => {
                keys
            }
            Source::Repurposing { .. } => &NONE,
        };
        chosen.iter().copied()
    }

    /// The keys to move to this node, if keys move at all: [`Handle::ahead`], and those of pools that will be
    /// used later. Some may be here.
    pub fn near(&self) -> impl Iterator<Item = Key> {
        self.ahead().chain(self.later.iter().copied())
    }
}
