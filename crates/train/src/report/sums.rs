//! The sums of epochs over all workers, from which reports are made.

use super::exchanged::Exchanged;
use super::tally::Tally;
use crate::error::TrainError;
use intendant_task::{Progress, Reduction};
use serde::{Deserialize, Serialize};

/// An epoch, summed over all workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpochSum {
    pub(crate) tally: Tally,
    /// Measured here.
    pub(crate) seconds: f64,
    /// Mean loss per example of the initial model; the least of the workers' first losses. Only of the first
    /// epoch.
    pub(crate) untrained: Option<f64>,
    /// Only of a program whose nodes exchange values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exchanged: Option<Exchanged>,
}

impl EpochSum {
    pub(crate) fn new(told: &[Vec<u8>], seconds: f64) -> Result<Self, TrainError> {
        let mut tally = Tally::combine(told)?;
        let losses = tally.reduction.sums.extract_if(.., |name, _| name.starts_with(UNTRAINED));
        let untrained = least(losses.map(|(_, loss)| loss));
        Ok(Self { tally, seconds, untrained, exchanged: None })
    }

    /// Adds what an earlier run trained of the epoch. Its sums are in those of this run already: see
    /// [`intendant_task::Driver::resume`].
    pub(crate) fn continues(&mut self, before: &Self) {
        let Self { tally, seconds, untrained, exchanged: _ } = before;
        self.tally.add(&Tally { reduction: Reduction::default(), ..tally.clone() });
        self.seconds += seconds;
        self.untrained = *untrained;
    }
}

/// What names of first losses in a [`Reduction`] begin with; the number of the worker follows.
const UNTRAINED: &str = "untrained.";

/// Adds a worker's first loss to the sums that it sends.
pub(crate) fn add_first_loss(reduction: &mut Reduction, worker: u32, loss: f64) {
    reduction.add(&format!("{UNTRAINED}{worker}"), loss);
}

/// A mean over fewer examples says little: a word may have one pair or ten, and a batch may be a part of an
/// example.
const FIRST_EXAMPLES_MIN: u64 = 8;

/// Mean loss per example of a worker's first batch, if `progress` is that after it and the batch has enough
/// examples.
pub(crate) fn first_loss(progress: &Progress) -> Option<f64> {
    let is_first = progress.epoch == 0 && progress.batches == 1;
    (is_first && progress.examples >= FIRST_EXAMPLES_MIN).then(|| progress.loss / progress.examples as f64)
}

/// The least of some losses. A worker that starts late trains its first batch on values that others have
/// trained already, so that the least of all first losses is closest to the loss of the initial model if
/// these values are worse.
pub(crate) fn least(losses: impl IntoIterator<Item = f64>) -> Option<f64> {
    losses.into_iter().min_by(f64::total_cmp)
}

/// A run, summed over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) epochs: Vec<EpochSum>,
    pub(crate) test: Option<EpochSum>,
    /// What the nodes of a program exchanged.
    pub(crate) exchanged: Option<Exchanged>,
}

impl Totals {
    /// Mean loss per example of the initial model, if anything was trained.
    pub(crate) fn untrained(&self) -> Option<f64> {
        self.epochs.first()?.untrained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_is_that_of_a_whole_batch_of_several_examples() {
        let after =
            |epoch, batches, examples, loss| Progress { epoch, batches, batches_total: 9, examples, loss };
        assert_eq!(first_loss(&after(0, 1, 8, 16.0)), Some(2.0));
        assert_eq!(first_loss(&after(0, 1, 7, 16.0)), None, "parts of examples, or few");
        assert_eq!(first_loss(&after(0, 2, 16, 16.0)), None);
        assert_eq!(first_loss(&after(1, 1, 8, 16.0)), None);
    }
}
