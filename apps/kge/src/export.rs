//! Writes a trained model: `--export DIR`.
//!
//! `entity.npy`, `relation.npy` and, with reciprocal relations, `reciprocal.npy` hold one embedding per row,
//! in NumPy's format, in the order of its model ([`kge::Facts::order`]); no optimiser state. `entity_ids.txt`
//! and `relation_ids.txt` name the rows, one per line. `entities.w2v.txt` has the entities in word2vec's text
//! format, with names as words ([`words`]).
//!
//! Each value is written to its place in the files as it arrives, so that memory does not grow with the
//! model.

use intendant_core::{Element, Key, KeyRange, copy_from_bytes};
use intendant_formats::{Matrices, WriteError, npy_rows, words, write_text, write_vector};
use intendant_train::{AppError, Exporter};
use kge::data::{Dataset, Names};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one model.
pub(crate) struct Export {
    data: Arc<Dataset>,
    folder: PathBuf,
    matrices: Matrices,
    /// Real numbers of an entity's embedding.
    dim: usize,
}

impl Export {
    pub(crate) fn new(data: Arc<Dataset>) -> Self {
        Self { data, folder: PathBuf::new(), matrices: Matrices::default(), dim: 0 }
    }

    fn ids(&self, name: &str, names: &Names) -> Result<(), WriteError> {
        write_text(&self.folder.join(name), |file| names.iter().try_for_each(|name| writeln!(file, "{name}")))
    }

    /// Converts the matrix of the entities row by row.
    fn word2vec<E: Element>(&self) -> Result<(), WriteError> {
        write_text(&self.folder.join("entities.w2v.txt"), |file| {
            let (entities, dim) = (self.data.entities.len(), self.dim);
            let (mut row, mut vector) = (vec![0; dim * size_of::<E>()], vec![E::ZERO; dim]);
            let mut rows = npy_rows::<E>(&self.folder.join("entity.npy"), entities, dim)?;
            writeln!(file, "{entities} {dim}")?;
            for word in words(&self.data.entities).iter() {
                rows.read_exact(&mut row)?;
                copy_from_bytes(&mut vector, &row);
                write_vector(file, word.as_bytes(), &vector)?;
            }
            Ok(())
        })
    }
}

impl<E: Element> Exporter<E> for Export {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.folder = folder.to_owned();
        self.matrices = Matrices::default();
        for range in ranges {
            // The second half of a value is the state of the optimiser.
            let dim = range.len / 2;
            if range.name == "entity" {
                self.dim = dim;
            }
            self.matrices.add::<E>(folder, range, &[(&range.name, 0..dim)])?;
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        Ok(self.matrices.write(keys, values)?)
    }

    fn end(&mut self) -> Result<(), AppError> {
        self.matrices.finish()?;
        self.ids("entity_ids.txt", &self.data.entities)?;
        self.ids("relation_ids.txt", &self.data.relations)?;
        Ok(self.word2vec::<E>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kge::data::Triple;
    use std::fs;

    /// An export of two entities and a relation, of which only the first `keys` values arrive.
    fn export(folder: &Path, names: [&str; 2], keys: u64) -> Result<String, AppError> {
        let (mut entities, mut relations) = (Names::default(), Names::default());
        names.iter().for_each(|name| entities.push(name));
        relations.push("r");
        let train = vec![Triple { subject: 0, relation: 0, object: 1 }];
        let data = Dataset::new(entities, relations, train, Vec::new(), Vec::new());
        let mut export = Export::new(Arc::new(data));
        let range = |name: &str, keys| KeyRange::new(name, keys, 4);
        let exporter: &mut dyn Exporter<f32> = &mut export;
        exporter.begin(folder, &[range("entity", 0..2), range("relation", 2..3)])?;
        // Backwards, so that every row has to find its place.
        for key in (0..keys).rev() {
            exporter.part(&[Key(key)], &[key as f32, 0.5, 9.0, 9.0])?;
        }
        exporter.end()?;
        Ok(fs::read_to_string(folder.join("entities.w2v.txt"))?)
    }

    #[test]
    fn rows_find_their_places_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(export(folder.path(), ["a", "b"], 3).unwrap(), "2 2\na 0 0.5\nb 1 0.5\n");
        let error = export(folder.path(), ["a", "b"], 1).unwrap_err().to_string();
        let file = folder.path().join("entity.npy");
        assert_eq!(error, format!("the stream of values ended after 1 of 2 rows of {}", file.display()));
    }

    #[test]
    fn entities_whose_names_differ_in_blanks_are_different_words() {
        let folder = tempfile::tempdir().unwrap();
        let text = export(folder.path(), ["New York", "New_York"], 3).unwrap();
        assert_eq!(text, "2 2\nNew_York#2 0 0.5\nNew_York 1 0.5\n");
    }
}
