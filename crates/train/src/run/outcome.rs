//! What comes of a run: its report, and its exported model.

use crate::error::TrainError;
use crate::export::{Exporter, Heir, Staging};
use crate::report::Report;
use intendant_core::KeyRange;
use std::path::Path;

/// The outcome of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// This node.
    pub rank: u16,
    /// The report; the same on every node but for the seconds, and the baseline, which rank 0 computes.
    pub report: Report,
}

/// Creates the folder in which a model is written.
pub(crate) fn begin_export<E>(
    ranges: &[KeyRange],
    (folder, heir): (&Path, Heir),
    exporter: &mut dyn Exporter<E>,
) -> Result<Staging, TrainError> {
    let staging = Staging::create(folder, heir).map_err(|error| TrainError::Export(error.into()))?;
    exporter.begin(staging.folder(), ranges).map_err(TrainError::Export)?;
    Ok(staging)
}
