//! Writes a trained model: `--export DIR`.
//!
//! `row.npy` and `column.npy` hold the factors, one row or column of the matrix per row, in NumPy's format; with biases,
//! `row_bias.npy` and `column_bias.npy` hold those, and `mean.txt` the mean that they are around. `row_ids.txt` and
//! `column_ids.txt` name the rows of these files as the data does, one per line. Optimiser state is left out.
//!
//! Files get their names when they are complete. Those of an earlier export are replaced, and removed if this model has none
//! of their kind.

use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrix, WriteError, remove, write_text};
use intendant_train::{AppError, Exporter};
use mf::Config;
use mf::data::{Dataset, Ids};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export {
    folder: PathBuf,
    data: Arc<Dataset>,
    rank: usize,
    bias: bool,
    /// Rows, columns.
    sides: Vec<Side>,
}

struct Side {
    range: KeyRange,
    factors: Matrix,
    biases: Option<Matrix>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("key {0} is in none of the model's ranges")]
    NoSuchKey(Key),
}

impl Export {
    /// Creates the folder.
    pub(crate) fn create(folder: &Path, data: Arc<Dataset>, config: &Config) -> Result<Self, ExportError> {
        fs::create_dir_all(folder).map_err(|source| WriteError::Write { file: folder.to_owned(), source })?;
        let (rank, bias) = (config.rank, config.bias);
        Ok(Self { folder: folder.to_owned(), data, rank, bias, sides: Vec::new() })
    }

    fn ids(&self, name: &str, ids: &Ids) -> Result<(), WriteError> {
        write_text(&self.folder.join(name), |file| {
            (0..ids.len()).filter_map(|index| ids.get(index)).try_for_each(|id| writeln!(file, "{id}"))
        })
    }

    fn row<E: Element>(&mut self, key: Key, value: &[E]) -> Result<(), ExportError> {
        let (rank, sides) = (self.rank, &mut self.sides);
        let side = sides.iter_mut().find(|side| side.range.keys.contains(&key.0));
        let side = side.ok_or(ExportError::NoSuchKey(key))?;
        let row = key.0 - side.range.keys.start;
        side.factors.row(row, &value[..rank])?;
        if let Some(biases) = &mut side.biases {
            biases.row(row, &value[rank..=rank])?;
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<(), ExportError> {
        for side in self.sides.drain(..) {
            side.factors.finish()?;
            side.biases.map(Matrix::finish).transpose()?;
        }
        self.ids("row_ids.txt", self.data.rows())?;
        self.ids("column_ids.txt", self.data.columns())?;
        if self.bias {
            write_text(&self.folder.join("mean.txt"), |file| writeln!(file, "{}", self.data.mean()))?;
        } else {
            ["row_bias.npy", "column_bias.npy", "mean.txt"]
                .into_iter()
                .try_for_each(|name| remove(&self.folder.join(name)))?;
        }
        Ok(())
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, ranges: &[KeyRange]) -> Result<(), AppError> {
        for range in ranges {
            let rows = range.keys.end - range.keys.start;
            let factors = Matrix::create::<E>(&self.folder, &range.name, rows, self.rank)?;
            let name = format!("{}_bias", range.name);
            let biases = self.bias.then(|| Matrix::create::<E>(&self.folder, &name, rows, 1)).transpose()?;
            self.sides.push(Side { range: range.clone(), factors, biases });
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let len = values.len().checked_div(keys.len()).unwrap_or(1).max(1);
        for (key, value) in keys.iter().zip(values.chunks_exact(len)) {
            self.row(*key, value)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        Ok(self.complete()?)
    }
}
