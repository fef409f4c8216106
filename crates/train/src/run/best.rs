//! The best model of a run (`--keep best`): which epochs are cut in any case, and how the model of an earlier
//! epoch is tested and exported after the training.
//!
//! Workers make a cut after each epoch whose validation is better than all before it, and the manifests of
//! later cuts name it, so that it is kept ([`Manifest::best`]). If the last epoch is not the best one, tests
//! and exports read values from that checkpoint instead of the model in memory. The latter stays as it is:
//! its checkpoint is the last one, from which a run with more epochs goes on.
//!
//! [`Manifest::best`]: intendant_checkpoint::Manifest::best

use super::nodes::Nodes;
use super::origin::{Origin, RunState};
use super::parameters::Part;
use crate::error::TrainError;
use crate::report::EpochSum;
use crate::settings::Plan;
use intendant_checkpoint::{Checkpoint, Folder};
use intendant_core::{Element, Key};
use intendant_task::Criterion;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Keys of a part of a snapshot.
const SNAPSHOT_KEYS: u64 = 1 << 12;

/// The model of an earlier epoch.
#[derive(Debug)]
pub(crate) struct Kept {
    checkpoint: Checkpoint,
    /// The epoch, from 1.
    pub(crate) epoch: usize,
    place: String,
}

/// Which epochs of a run are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    criterion: Option<Criterion>,
    /// The first one. A run that is resumed, and kept no best model before, has those of earlier epochs no
    /// longer.
    first: usize,
}

impl Compared {
    pub(crate) fn new(plan: &Plan, origin: &Origin) -> Self {
        Self { criterion: plan.best, first: origin.best.map_or(origin.epochs.len(), |best| best.epoch) }
    }

    /// The best one, from 0, if the run keeps the best model.
    pub(crate) fn best(self, epochs: &[EpochSum]) -> Option<usize> {
        let compared = epochs.iter().skip(self.first).map(|epoch| &epoch.tally.reduction);
        self.criterion?.best(compared).map(|best| self.first + best.epoch)
    }

    /// Whether the last one is the best one, and its model is to be kept.
    pub(crate) fn is_last_best(self, epochs: &[EpochSum]) -> bool {
        self.best(epochs).is_some_and(|best| best + 1 == epochs.len())
    }
}

/// Opens the checkpoint of the best epoch (from 0) on all nodes. The leader knows its number. All workers
/// meet; the first one of each node opens it for the others. If a node cannot, all of them go on with the
/// model in memory, and the leader says why.
pub(crate) fn open<E: Element, P: Nodes<E>>(
    nodes: &mut P,
    (folder, kept): (&Folder, &OnceLock<Arc<Kept>>),
    (rank, is_first): (u16, bool),
    epoch: usize,
    cut: Option<u64>,
) -> Result<Option<Arc<Kept>>, TrainError> {
    let cut = cut.map_or(Vec::new(), |cut| cut.to_le_bytes().to_vec());
    let told = nodes.gather("best", cut)?;
    let cut = told.first().and_then(|told| Some(u64::from_le_bytes(*told.first_chunk()?)));
    let opened = match cut {
        _ if !is_first => Ok(()),
        None => Err(format!("no checkpoint has the model of epoch {}", epoch + 1)),
        Some(cut) => Kept::open(&folder.place(cut), epoch).map(|opened| {
            let _ = kept.set(Arc::new(opened));
        }),
    };
    let told = nodes.gather("opened", opened.err().unwrap_or_default().into_bytes())?;
    let refused = told.iter().position(|refused| !refused.is_empty());
    let is_leader = rank == 0 && is_first;
    match (refused, kept.get()) {
        (None, Some(kept)) => {
            if is_leader {
                tracing::info!("the best model is that of epoch {}: {}", kept.epoch, kept.place);
            }
            Ok(Some(Arc::clone(kept)))
        }
        (refused, _) => {
            if let (Some(worker), true) = (refused, is_leader) {
                let reason = String::from_utf8_lossy(&told[worker]);
                tracing::warn!("the last model is tested and exported, and not the best one: {reason}");
            }
            Ok(None)
        }
    }
}

impl Kept {
    fn open(place: &Path, epoch: usize) -> Result<Self, String> {
        let checkpoint = Checkpoint::open(place).map_err(|error| error.to_string())?;
        let state = serde_json::from_value::<RunState>(checkpoint.manifest().run.clone());
        let is_of_epoch = state.is_ok_and(|run| run.epochs.len() == epoch + 1 && run.under_way.is_none());
        if !is_of_epoch {
            return Err(format!("{} does not have the model of epoch {}", place.display(), epoch + 1));
        }
        Ok(Self { checkpoint, epoch: epoch + 1, place: place.display().to_string() })
    }

    /// Reads the values of `keys`, concatenated.
    pub(crate) fn pull<E: Element>(&self, keys: &[Key], values: &mut [E]) -> Result<(), TrainError> {
        let mut reader = self.checkpoint.values();
        let mut rest = values;
        for key in keys {
            let (value, after) = rest.split_at_mut(self.checkpoint.value_len(*key));
            reader.read(*key, value).map_err(|source| self.refused(source))?;
            rest = after;
        }
        Ok(())
    }

    /// Streams all values of a range of keys.
    pub(crate) fn snapshot<E: Element>(
        &self,
        range: Range<u64>,
        part: &mut Part<'_, E>,
    ) -> Result<(), TrainError> {
        let mut reader = self.checkpoint.values();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let mut start = range.start;
        while start < range.end {
            let end = (start + SNAPSHOT_KEYS).min(range.end);
            keys.clear();
            values.clear();
            for key in (start..end).map(Key) {
                let at = values.len();
                values.resize(at + self.checkpoint.value_len(key), E::ZERO);
                reader.read(key, &mut values[at..]).map_err(|source| self.refused(source))?;
                keys.push(key);
            }
            part(&keys, &values);
            start = end;
        }
        Ok(())
    }

    fn refused(&self, source: std::io::Error) -> TrainError {
        let path = self.place.clone().into();
        TrainError::Checkpoint(intendant_checkpoint::CheckpointError::Io { what: "read", path, source })
    }
}
