//! Writes a trained model: `--export DIR`.
//!
//! `row.npy` and `column.npy` hold the factors, one row or column of the matrix per row, in NumPy's format.
//! With biases, `row_bias.npy` and `column_bias.npy` hold the biases, and `mean.txt` the mean to which they
//! are added. `row_ids.txt` and `column_ids.txt` name the rows of these files as the data does, one per line.
//! Optimiser state is left out.

use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrices, WriteError, write_text};
use intendant_train::{AppError, Exporter};
use mf::Config;
use mf::data::{Dataset, Ids};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export {
    data: Arc<Dataset>,
    rank: usize,
    bias: bool,
    folder: PathBuf,
    matrices: Matrices,
}

impl Export {
    pub(crate) fn new(data: Arc<Dataset>, config: &Config) -> Self {
        let (rank, bias) = (config.rank, config.bias);
        Self { data, rank, bias, folder: PathBuf::new(), matrices: Matrices::default() }
    }

    fn ids(&self, name: &str, ids: &Ids) -> Result<(), WriteError> {
        write_text(&self.folder.join(name), |file| {
            (0..ids.len()).filter_map(|index| ids.get(index)).try_for_each(|id| writeln!(file, "{id}"))
        })
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.folder = folder.to_owned();
        self.matrices = Matrices::default();
        let rank = self.rank;
        for range in ranges {
            let bias = format!("{}_bias", range.name);
            let parts = [(range.name.as_str(), 0..rank), (bias.as_str(), rank..rank + 1)];
            self.matrices.add::<E>(folder, range, &parts[..if self.bias { 2 } else { 1 }])?;
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        Ok(self.matrices.write(keys, values)?)
    }

    fn end(&mut self) -> Result<(), AppError> {
        self.matrices.finish()?;
        self.ids("row_ids.txt", self.data.rows())?;
        self.ids("column_ids.txt", self.data.columns())?;
        if self.bias {
            write_text(&self.folder.join("mean.txt"), |file| writeln!(file, "{}", self.data.mean()))?;
        }
        Ok(())
    }
}
