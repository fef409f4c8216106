//! Which batches a worker trains in each subepoch: its own, or a share of those that an earlier run left.
//!
//! A run that continues another one may have a different number of nodes and workers. It completes the epoch
//! in which the earlier run stopped, and keeps that run's division of the epoch: the remaining batches are
//! still named by a partition of the *earlier* run, and are dealt out to the workers of this run. So every
//! example of the epoch is trained once, and a task need not know that a run continues another:
//! [`Task::prepare`] depends on the batch's name alone. Later epochs are divided among the workers of this
//! run.

use crate::{BatchAt, Partition, Subepoch, Task, equal_share};
use intendant_core::Key;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Consecutive batches of one worker in one subepoch: those with an index from `first` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stretch {
    /// The worker of the partition, from 0.
    pub worker: u32,
    /// Index of the first batch.
    pub first: u64,
    /// Index after the last batch.
    pub end: u64,
}

impl Stretch {
    const fn len(self) -> u64 {
        self.end - self.first
    }
}

/// What is left of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// The subepoch in which training continues. All batches of the later subepochs of the epoch are left,
    /// too.
    pub subepoch: Subepoch,
    /// The workers among whom the epoch is divided, and their nodes.
    pub workers: u32,
    /// See `workers`.
    pub nodes: u32,
    /// The batches that are left of that subepoch, in ascending order.
    pub stretches: Vec<Stretch>,
}

/// Why a [`Rest`] does not belong to a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestError(String);

impl Rest {
    fn partition(&self, worker: u32) -> Partition {
        Partition { worker, workers: self.workers, nodes: self.nodes, threads: 1 }
    }

    /// Checks that the batches exist and that each occurs at most once, because a `Rest` may come from a
    /// file.
    ///
    /// # Errors
    /// If a batch does not exist or occurs twice, or if the batches are not in ascending order.
    pub fn check<T: Task>(&self, task: &T) -> Result<(), RestError> {
        let error = |reason: String| Err(RestError(reason));
        if self.nodes == 0 || self.workers == 0 || !self.workers.is_multiple_of(self.nodes) {
            return error(format!("it has {} workers on {} nodes", self.workers, self.nodes));
        }
        let Subepoch { epoch, index } = self.subepoch;
        if !task.rests_within_epochs() {
            return error("it is a part of an epoch, and this task trains whole ones".to_owned());
        }
        let subepochs = task.subepochs(epoch, self.partition(0));
        if index >= subepochs {
            return error(format!("it goes on in subepoch {index} of {subepochs}"));
        }
        if let Some(Stretch { worker, first, end }) = self
            .stretches
            .iter()
            .find(|stretch| stretch.worker >= self.workers || stretch.first >= stretch.end)
        {
            return error(format!(
                "batches {first} to {end} of worker {worker} are not batches of one of {} workers",
                self.workers
            ));
        }
        if let Some([_, Stretch { worker, first, .. }]) = self
            .stretches
            .array_windows()
            .find(|[one, next]| one.worker > next.worker || one.worker == next.worker && one.end > next.first)
        {
            return error(format!("batch {first} of worker {worker} is out of order, or occurs twice"));
        }
        let beyond =
            |stretch: &&Stretch| stretch.end > task.batches(self.subepoch, self.partition(stretch.worker));
        match self.stretches.iter().find(beyond) {
            Some(Stretch { worker, end, .. }) => {
                error(format!("worker {worker} has no batch {} in the subepoch", end - 1))
            }
            None => Ok(()),
        }
    }
}

/// The batches of one worker in one subepoch, in the order in which it trains them.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    subepoch: Subepoch,
    partition: Partition,
    stretches: Vec<Stretch>,
    /// Cumulative number of batches at the end of each stretch.
    ends: Vec<u64>,
}

impl Share {
    fn new(subepoch: Subepoch, partition: Partition, stretches: Vec<Stretch>) -> Self {
        let mut end = 0;
        let ends = stretches.iter().map(|stretch| {
            end += stretch.len();
            end
        });
        Self { subepoch, partition, ends: ends.collect(), stretches }
    }

    /// Number of batches.
    pub(crate) fn batches(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The name of the `index`-th batch.
    ///
    /// # Panics
    /// If there is no such batch.
    pub(crate) fn batch(&self, index: u64) -> BatchAt {
        let at = self.ends.partition_point(|end| *end <= index);
        let stretch = self.stretches[at];
        BatchAt {
            subepoch: self.subepoch,
            partition: Partition { worker: stretch.worker, ..self.partition },
            index: stretch.end - (self.ends[at] - index),
        }
    }

    /// What is left when `trained` batches have been trained.
    fn after(&self, trained: u64) -> impl Iterator<Item = Stretch> + '_ {
        self.stretches.iter().zip(&self.ends).filter(move |(_, end)| **end > trained).map(
            move |(stretch, end)| Stretch {
                first: stretch.first.max(stretch.end.saturating_sub(end - trained)),
                ..*stretch
            },
        )
    }
}

/// The division of the batches among the workers of a run.
pub(crate) struct Course<T> {
    task: Arc<T>,
    partition: Partition,
    rest: Option<Arc<Rest>>,
}

impl<T: Task> Course<T> {
    pub(crate) const fn new(task: Arc<T>, partition: Partition, rest: Option<Arc<Rest>>) -> Self {
        Self { task, partition, rest }
    }

    /// What an earlier run left of this epoch.
    pub(crate) fn rest(&self, epoch: u32) -> Option<&Rest> {
        self.rest.as_deref().filter(|rest| rest.subepoch.epoch == epoch)
    }

    /// How the epoch is divided: among the workers of this run, or among those of an earlier run.
    fn division(&self, epoch: u32) -> Partition {
        self.rest(epoch)
            .map_or(self.partition, |rest| Partition { threads: self.partition.threads, ..rest.partition(0) })
    }

    /// Indices of the subepochs of an epoch that are to be trained.
    pub(crate) fn subepochs(&self, epoch: u32) -> Range<u32> {
        let first = self.rest(epoch).map_or(0, |rest| rest.subepoch.index);
        first..self.task.subepochs(epoch, self.division(epoch))
    }

    /// The batches of this worker.
    pub(crate) fn share(&self, subepoch: Subepoch) -> Share {
        self.share_of(self.partition, subepoch)
    }

    /// The batches of each worker of the run, in order.
    pub(crate) fn shares(&self, subepoch: Subepoch) -> impl Iterator<Item = Share> + '_ {
        self.partition.all().map(move |worker| self.share_of(worker, subepoch))
    }

    fn share_of(&self, own: Partition, subepoch: Subepoch) -> Share {
        let Some(rest) = self.rest(subepoch.epoch) else {
            let stretch = Stretch { worker: own.worker, first: 0, end: self.task.batches(subepoch, own) };
            let stretches = if stretch.end > 0 { vec![stretch] } else { Vec::new() };
            return Share::new(subepoch, own, stretches);
        };
        let division = self.division(subepoch.epoch);
        let left = if subepoch == rest.subepoch {
            rest.stretches.clone()
        } else {
            whole(self.task.as_ref(), subepoch, division)
        };
        let same = (division.workers, division.nodes) == (own.workers, own.nodes);
        let stretches = if same {
            left.into_iter().filter(|stretch| stretch.worker == own.worker).collect()
        } else if self.task.subepochs(subepoch.epoch, division) > 1 {
            // In such an epoch, the batches of one worker must be trained by one worker at a time.
            left.into_iter().filter(|stretch| stretch.worker % own.workers == own.worker).collect()
        } else {
            portion(&left, own)
        };
        Share::new(subepoch, division, stretches)
    }

    /// The keys that only this worker uses in a subepoch.
    pub(crate) fn block(&self, subepoch: Subepoch, share: &Share) -> Vec<Key> {
        if self.rest(subepoch.epoch).is_none() {
            return self.task.block(subepoch, self.partition);
        }
        let mut workers: Vec<u32> = share.stretches.iter().map(|stretch| stretch.worker).collect();
        workers.dedup();
        workers
            .into_iter()
            .flat_map(|worker| self.task.block(subepoch, Partition { worker, ..share.partition }))
            .collect()
    }

    /// What is left of the epoch when every worker has trained `trained` batches of a subepoch, or all of its
    /// batches if it has fewer.
    pub(crate) fn rest_after(&self, subepoch: Subepoch, trained: u64) -> Rest {
        let division = self.division(subepoch.epoch);
        let mut stretches: Vec<Stretch> =
            self.shares(subepoch).flat_map(|share| share.after(trained).collect::<Vec<_>>()).collect();
        stretches.sort_unstable();
        stretches.dedup_by(|next, one| {
            let joined = (one.worker, one.end) == (next.worker, next.first);
            if joined {
                one.end = next.end;
            }
            joined
        });
        Rest { subepoch, workers: division.workers, nodes: division.nodes, stretches }
    }
}

/// All batches of a subepoch.
fn whole<T: Task>(task: &T, subepoch: Subepoch, division: Partition) -> Vec<Stretch> {
    let stretch = |partition: Partition| Stretch {
        worker: partition.worker,
        first: 0,
        end: task.batches(subepoch, partition),
    };
    division.all().map(stretch).filter(|stretch| stretch.end > 0).collect()
}

/// An equal share of all batches. Its batches are consecutive, so that batches which a worker of the earlier
/// run would have trained one after the other stay together.
fn portion(left: &[Stretch], own: Partition) -> Vec<Stretch> {
    let all = left.iter().map(|stretch| stretch.len()).sum();
    let wanted = equal_share(all, own.worker.into(), own.workers.into());
    let mut before = 0;
    let mut stretches = Vec::new();
    for stretch in left {
        let here = before..before + stretch.len();
        let (from, to) = (wanted.start.max(here.start), wanted.end.min(here.end));
        if from < to {
            let first = stretch.first + (from - here.start);
            stretches.push(Stretch { worker: stretch.worker, first, end: first + (to - from) });
        }
        before = here.end;
    }
    stretches
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
