//! Writes a trained model: `--export DIR`.
//!
//! `weights.npy` holds the weight of each feature, `intercept.npy` that of the intercept, if there is one, in
//! NumPy's format. `--model` reads `weights.tsv` and `model.toml` (`saved`). State of the optimiser is left
//! out.
//!
//! Each value is written to its place in the NumPy files as it arrives. The text is converted from these, so
//! that memory does not grow with the model.

use crate::saved::{HEADER, INTERCEPT, Settings, joined_names, settings_path, weights_path};
use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrix, WriteError, npy_rows, write_text};
use intendant_train::{AppError, Exporter};
use lr::Lr;
use lr::data::Dataset;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export<E> {
    task: Arc<Lr<E>>,
    data: Arc<Dataset>,
    settings: Settings,
    folder: PathBuf,
    /// The matrices, each with its first key and the number of elements of a value.
    matrices: Vec<(KeyRange, Matrix)>,
}

/// The names of the matrices, in the order of their keys.
const WEIGHTS: &str = "weights";

impl<E: Element> Export<E> {
    pub(crate) fn new(task: Arc<Lr<E>>, data: Arc<Dataset>, settings: Settings) -> Self {
        Self { task, data, settings, folder: PathBuf::new(), matrices: Vec::new() }
    }

    /// Calls `take` with each number of a complete matrix of one column.
    fn numbers(
        &self,
        name: &str,
        rows: usize,
        mut take: impl FnMut(E) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut file = npy_rows::<E>(&self.folder.join(format!("{name}.npy")), rows, 1)?;
        let mut bytes = vec![0; size_of::<E>()];
        for _ in 0..rows {
            file.read_exact(&mut bytes)?;
            take(E::read_le(&bytes))?;
        }
        Ok(())
    }

    /// Writes the features whose weights are not zero.
    fn text(&self) -> Result<(), WriteError> {
        let names = joined_names(self.data.naming());
        write_text(&weights_path(&self.folder), |file| {
            writeln!(file, "{HEADER}")?;
            if self.settings.intercept {
                self.numbers(INTERCEPT, 1, |weight| writeln!(file, "{INTERCEPT}\t{}\t", weight.to_f64()))?;
            }
            let (mut names, mut feature) = (names.iter().peekable(), 0);
            self.numbers(WEIGHTS, self.settings.features as usize, |weight| {
                let name = names.next_if(|(of, _)| *of == feature).map_or("", |(_, name)| name);
                let number = self.data.naming().number(feature);
                feature += 1;
                // In double precision, so that readers get exactly the weight, whatever precision they have.
                let weight = weight.to_f64();
                if weight == 0.0 { Ok(()) } else { writeln!(file, "{number}\t{weight}\t{name}") }
            })
        })
    }
}

impl<E: Element> Exporter<E> for Export<E> {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.folder = folder.to_owned();
        self.matrices.clear();
        for range in ranges {
            let name = if range.name == INTERCEPT { INTERCEPT } else { WEIGHTS };
            let matrix = Matrix::create::<E>(folder, name, range.keys.end - range.keys.start, 1)?;
            self.matrices.push((range.clone(), matrix));
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let mut rest = values;
        for key in keys {
            let found = self.matrices.iter_mut().find(|(range, _)| range.keys.contains(&key.0));
            let (range, matrix) = found.ok_or(WriteError::NoSuchKey(*key))?;
            let (value, after) = rest.split_at(range.len);
            rest = after;
            matrix.row(key.0 - range.keys.start, &[E::from_f64(self.task.weight(value))])?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        for (_, matrix) in self.matrices.drain(..) {
            matrix.finish()?;
        }
        self.text()?;
        let settings = toml::to_string(&self.settings)?;
        Ok(write_text(&settings_path(&self.folder), |file| file.write_all(settings.as_bytes()))?)
    }
}
