//! Writes a sketch: `--export DIR`. See [`sketch::saved`].

use intendant_core::{Element, Key, KeyRange};
use intendant_formats::{Matrices, write_text};
use intendant_train::{AppError, Exporter};
use sketch::saved::{About, about_path, about_text, top_path};
use sketch::{COUNTERS, Counting, Estimated};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes one sketch.
pub(crate) struct Export<E> {
    task: Arc<Counting<E>>,
    folder: PathBuf,
    matrices: Matrices,
    inserted: Vec<f64>,
}

impl<E: Element> Export<E> {
    pub(crate) fn new(task: Arc<Counting<E>>) -> Self {
        Self { task, folder: PathBuf::new(), matrices: Matrices::default(), inserted: Vec::new() }
    }
}

/// Writes items with their estimates, one per line. Names come last, because they may contain tabs.
pub(crate) fn lines(items: &[Estimated], to: &mut dyn Write) -> io::Result<()> {
    heading(to)?;
    items.iter().try_for_each(|item| line(item, to))
}

/// The heading of such lines.
pub(crate) fn heading(to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "estimate\titem")
}

/// The line of an item.
pub(crate) fn line(Estimated { name, estimate }: &Estimated, to: &mut dyn Write) -> io::Result<()> {
    write!(to, "{estimate}\t")?;
    to.write_all(name)?;
    to.write_all(b"\n")
}

impl<E: Element> Exporter<E> for Export<E> {
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.folder = folder.to_owned();
        self.matrices = Matrices::default();
        for range in ranges.iter().filter(|range| range.name == COUNTERS) {
            self.matrices.add::<E>(folder, range, &[(COUNTERS, 0..range.len)])?;
        }
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let shape = self.task.config().shape;
        let mut rest = values;
        for key in keys {
            let is_block = *key != shape.inserted_key();
            let (value, after) = rest.split_at(if is_block { shape.block } else { shape.inserted_len() });
            rest = after;
            if is_block {
                self.matrices.write(&[*key], value)?;
            } else {
                self.inserted = value.iter().map(|sum| sum.to_f64()).collect();
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        self.matrices.finish()?;
        let config = self.task.config();
        let about = About { shape: config.shape, hashes: config.hashes.clone(), items: config.items };
        let text = about_text(&about, E::TYPE, &self.inserted);
        write_text(&about_path(&self.folder), |file| file.write_all(text.as_bytes()))?;
        let results = self.task.results();
        if config.top > 0 {
            write_text(&top_path(&self.folder), |file| lines(&results.top, file))?;
        }
        if !results.query.is_empty() {
            write_text(&self.folder.join("query.tsv"), |file| lines(&results.query, file))?;
        }
        Ok(())
    }
}
