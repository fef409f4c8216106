//! Checkpoints as programs see them that do not train: which run made one, and models that are written from
//! one.

use super::origin::RunState;
use crate::error::{AppError, TrainError};
use crate::export::{self, Heir, Staging};
use crate::files::Input;
use crate::report::Made;
use intendant_checkpoint::Manifest;
use intendant_task::Rest;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The run that made a checkpoint, and where it was. The default stands for something that is no training
/// program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SavedRun {
    /// The program.
    pub program: String,
    /// Its version.
    pub version: String,
    /// What was trained.
    pub task: String,
    /// Digest of the data set, 16 hexadecimal digits.
    pub data: String,
    /// Hash of everything that was trained on, 16 hexadecimal digits, as in a report.
    pub data_digest: String,
    /// The effective configuration.
    pub config: serde_json::Value,
    /// Epochs that were trained to their end.
    pub epochs: usize,
    /// The epoch after them, if a part of it was trained.
    pub under_way: Option<UnderWay>,
    /// The checkpoints that the run has made, with this one.
    pub made: Made,
}

/// An epoch of which a part was trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UnderWay {
    /// The epoch, from 0.
    pub epoch: u32,
    /// The subepoch in which training goes on, from 0.
    pub subepoch: u32,
    /// Examples of the epoch that were trained.
    pub examples: u64,
    /// Batches of the subepoch that are left.
    pub batches_left: u64,
    /// The workers among whom the epoch is divided, and their nodes.
    pub workers: u32,
    /// See `workers`.
    pub nodes: u32,
}

impl SavedRun {
    /// The run that wrote a manifest.
    ///
    /// # Errors
    /// If no training program wrote it.
    pub fn of(manifest: &Manifest) -> Result<Self, serde_json::Error> {
        let state: RunState = serde_json::from_value(manifest.run.clone())?;
        let trained = state.epochs.iter().chain(state.under_way.as_ref().map(|(sum, _)| sum));
        let digest = trained.fold(0u64, |digest, sum| digest.wrapping_add(sum.tally.reduction.digest));
        // Programs hash no batches: their digest is that of the data.
        let data_digest = if digest == 0 { state.data.clone() } else { format!("{digest:016x}") };
        let under_way = state.under_way.map(|(sum, rest)| {
            let Rest { subepoch, workers, nodes, ref stretches } = rest;
            UnderWay {
                epoch: subepoch.epoch,
                subepoch: subepoch.index,
                examples: sum.tally.reduction.get("examples") as u64,
                batches_left: stretches.iter().map(|stretch| stretch.end.saturating_sub(stretch.first)).sum(),
                workers,
                nodes,
            }
        });
        let RunState { program, version, task, data, config, epochs, made, .. } = state;
        Ok(Self { program, version, task, data, data_digest, config, epochs: epochs.len(), under_way, made })
    }

    /// Writes a model of this run as `--export` does: `write` fills a folder beside `to`, which then replaces
    /// `to` in one step, with an `export.json` that names the run. `reads` are the files and folders that
    /// `write` reads, after the arguments that name them; `argument` names `to`. Unless it `overwrites`, a
    /// model of another program or of other data stays.
    ///
    /// # Errors
    /// If `to` cannot be replaced, holds what `write` reads or is inside of it, or `write` fails. Nothing is
    /// left then.
    pub fn export(
        &self,
        (argument, to): (&str, &Path),
        overwrites: bool,
        reads: &[(&str, PathBuf)],
        write: impl FnOnce(&Path) -> Result<(), AppError>,
    ) -> Result<(), TrainError> {
        let reads: Vec<Input> =
            reads.iter().map(|(flag, path)| Input { flag: (*flag).to_owned(), path: path.clone() }).collect();
        let Self { program, version, data, data_digest, config, .. } = self;
        let heir = Heir { program: program.clone(), data: Some(data.clone()), overwrites };
        export::check((argument, to), heir.clone(), None, &reads)?;
        let staging = Staging::create(to, heir).map_err(|error| TrainError::Export(error.into()))?;
        if let Some(input) = reads.iter().find(|input| input.contains(staging.folder())) {
            return Err(TrainError::usage(format!(
                "{argument} {} is inside of {}, which {} reads; name another folder",
                to.display(),
                input.path.display(),
                input.flag
            )));
        }
        write(staging.folder()).map_err(TrainError::Export)?;
        let manifest = export::Manifest::new(program, version, data_digest, config.clone());
        let written = staging.publish(manifest);
        written.map_err(|source| TrainError::Write { path: to.into(), source })
    }
}
