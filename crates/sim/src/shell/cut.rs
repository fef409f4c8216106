//! A cut of a simulated run, and runs that begin at one.

use super::failure::TaskFailure;
use intendant_checkpoint::{Checkpoint, Folder};
use intendant_core::{Element, Initialiser, Key};
use intendant_task::{Reduction, Rest, Start, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a run needs besides its parameters, to go on where a cut was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// The sums of the epochs that were trained.
    pub epochs: Vec<Reduction>,
    /// The sums of the next one so far, and what is left of it; `None` between epochs.
    pub under_way: Option<(Reduction, Rest)>,
}

impl Trained {
    /// As a checkpoint keeps it.
    pub(super) fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("sums and names of batches can be serialised")
    }
}

/// A cut that was made, and may be committed later.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Its number.
    pub number: u64,
    /// The values of all keys when nothing was in flight, concatenated.
    pub values: Vec<f64>,
    /// The node that owned each key.
    pub owners: Vec<u16>,
    /// What was trained until then.
    pub trained: Trained,
}

/// Where a run begins that continues an earlier one.
#[derive(Clone)]
pub struct Origin<E> {
    /// The cut, as it was read.
    pub cut: Cut,
    /// Whether the cut is the newest one of the folder.
    is_read: bool,
    start: Start,
    init: Initialiser<E>,
}

impl<E: Element> Origin<E> {
    /// Reads the newest checkpoint of a folder; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is not one of the task.
    pub fn find<T: Task<Element = E>>(task: &T, folder: &Folder) -> Result<Option<Self>, TaskFailure> {
        let lost = |error: &dyn std::fmt::Display| TaskFailure::Checkpoint(error.to_string());
        let Some(latest) = folder.latest().map_err(|error| lost(&error))? else { return Ok(None) };
        if let Some(error) = latest.skipped.first() {
            return Err(lost(error));
        }
        let checkpoint: Arc<Checkpoint> = Arc::new(latest.checkpoint);
        let manifest = checkpoint.manifest();
        let trained: Trained = serde_json::from_value(manifest.run.clone()).map_err(|error| lost(&error))?;
        let rest = trained.under_way.as_ref().map(|(_, rest)| Arc::new(rest.clone()));
        if let Some(rest) = &rest {
            rest.check(task).map_err(|error| lost(&error))?;
        }
        let mut values = Vec::new();
        for key in (0..task.model().keys()).map(Key) {
            let mut value = vec![E::ZERO; task.model().range(key).row()];
            checkpoint.read(key, &mut value).map_err(|error| lost(&error))?;
            values.extend(value.into_iter().map(E::to_f64));
        }
        let start = Start { epochs: trained.epochs.clone(), rest };
        let cut = Cut { number: manifest.cut, values, owners: Vec::new(), trained };
        let init: Initialiser<E> = Arc::new(move |key: Key, value: &mut [E]| {
            checkpoint.read(key, value).expect("it was read before, and files stay while they are open");
        });
        Ok(Some(Self { cut, is_read: true, start, init }))
    }

    /// Begins where a cut was made, with the values that it has.
    ///
    /// # Errors
    /// If it is not one of the task.
    pub fn of_cut<T: Task<Element = E>>(task: &T, cut: Cut) -> Result<Self, TaskFailure> {
        let rest = cut.trained.under_way.as_ref().map(|(_, rest)| Arc::new(rest.clone()));
        if let Some(rest) = &rest {
            rest.check(task).map_err(|error| TaskFailure::Checkpoint(error.to_string()))?;
        }
        let start = Start { epochs: cut.trained.epochs.clone(), rest };
        let mut at = 0;
        let rows: Vec<Vec<E>> = (0..task.model().keys())
            .map(|key| {
                let row = at..at + task.model().range(Key(key)).row();
                at = row.end;
                cut.values[row].iter().map(|value| E::from_f64(*value)).collect()
            })
            .collect();
        let init: Initialiser<E> =
            Arc::new(move |key: Key, value: &mut [E]| value.copy_from_slice(&rows[key.index()]));
        Ok(Self { cut, is_read: false, start, init })
    }

    /// The newest cut of the folder, by its number.
    pub(super) fn newest(&self) -> Option<u64> {
        self.is_read.then_some(self.cut.number)
    }

    /// Where training begins.
    pub(super) const fn start(&self) -> &Start {
        &self.start
    }

    /// The sums with which a worker begins.
    pub(super) fn sums(&self, worker: u32) -> Reduction {
        match &self.cut.trained.under_way {
            Some((sums, _)) if worker == 0 => sums.clone(),
            Some(_) | None => Reduction::default(),
        }
    }

    /// Initial values.
    pub(super) fn init(&self) -> Initialiser<E> {
        Arc::clone(&self.init)
    }
}
