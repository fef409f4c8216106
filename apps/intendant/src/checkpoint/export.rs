//! `intendant checkpoint export`. Values are read and written one after the other, so that memory does not
//! grow with them.

use super::args::{ExportArgs, Format};
use super::source::Source;
use crate::stdout::print;
use intendant_checkpoint::{Checkpoint, Values};
use intendant_core::{Element, ElementType, Key};
use intendant_formats::{Matrix, Names, lines, open, safetensors_header, words, write_text, write_vector};
use intendant_train::{AppError, SavedRun, TrainError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A range that is exported.
struct Chosen {
    name: String,
    keys: Range<u64>,
    /// Number of elements of a value.
    len: usize,
    /// The elements that are exported.
    elements: Range<usize>,
}

impl Chosen {
    fn rows(&self) -> u64 {
        self.keys.end - self.keys.start
    }
}

/// Writes the files.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, TrainError> {
    if args.names.is_some() && args.format != Format::Word2vec {
        return Err(TrainError::usage("--names is for --format word2vec; the other formats have no words"));
    }
    let (checkpoint, place) = Source::find(&args.dir)?.open()?;
    let chosen = choose(args, &checkpoint)?;
    let names = args.names.as_deref().map(|path| read_names(path, &chosen)).transpose()?;
    // A checkpoint that no training program wrote has values, too.
    let run = SavedRun::of(checkpoint.manifest()).unwrap_or_default();
    let mut reads = vec![("DIR", args.dir.clone()), ("DIR", place.clone())];
    reads.extend(args.names.iter().map(|path| ("--names", path.clone())));
    let format = args.format;
    run.export(("OUT", &args.out), args.overwrite, &reads, |folder| match checkpoint.element() {
        ElementType::F32 => write::<f32>(&checkpoint, &chosen, format, names.as_ref(), folder),
        ElementType::F64 => write::<f64>(&checkpoint, &chosen, format, names.as_ref(), folder),
    })?;
    let rows: u64 = chosen.iter().map(Chosen::rows).sum();
    let named = match (format, &names) {
        (Format::Npy | Format::Safetensors, _) => "; rows are in the order of keys, of which it has no names",
        (Format::Word2vec, None) => "; words are the numbers of keys, of which it has no names (--names)",
        (Format::Word2vec, Some(_)) => "",
    };
    let text = format!("{rows} rows of {} to {}{named}\n", place.display(), args.out.display());
    Ok(print(&text, 0))
}

/// The ranges that the user asks for.
fn choose(args: &ExportArgs, checkpoint: &Checkpoint) -> Result<Vec<Chosen>, TrainError> {
    let ranges = &checkpoint.manifest().ranges;
    let names = || ranges.iter().map(|range| range.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = args.ranges.iter().find(|name| ranges.iter().all(|range| range.name != **name)) {
        return Err(TrainError::usage(format!(
            "--range {unknown}: the model has no such range; it has {}",
            names()
        )));
    }
    let (mut start, mut chosen) = (0, Vec::new());
    for range in ranges {
        let keys = start..start + range.keys;
        start = keys.end;
        if !args.ranges.is_empty() && !args.ranges.contains(&range.name) {
            continue;
        }
        let elements = args.elements.clone().unwrap_or(0..range.len);
        if elements.end > range.len {
            return Err(TrainError::usage(format!(
                "--elements {}..{}: values of {} have {} elements; choose ranges by --range",
                elements.start, elements.end, range.name, range.len
            )));
        }
        // The name of the range becomes the name of a file.
        if range.name.is_empty() || range.name.starts_with('.') || range.name.contains(['/', '\0']) {
            return Err(TrainError::usage(format!(
                "the range '{}' cannot be the name of a file",
                range.name
            )));
        }
        chosen.push(Chosen { name: range.name.clone(), keys, len: range.len, elements });
    }
    Ok(chosen)
}

/// The words of the exported keys.
fn read_names(path: &Path, chosen: &[Chosen]) -> Result<Names, TrainError> {
    let (file, mut names) = (path.display().to_string(), Names::default());
    let read = open(path).and_then(|text| {
        lines(&file, text, |line| {
            names.push(line);
            Ok(())
        })
    });
    read.map_err(|error| TrainError::usage(format!("--names: {error}")))?;
    let rows: u64 = chosen.iter().map(Chosen::rows).sum();
    if names.len() as u64 != rows {
        return Err(TrainError::usage(format!(
            "--names {file}: it has {} lines for {rows} keys; write one line for each exported key, in their order",
            names.len()
        )));
    }
    Ok(words(&names))
}

/// Reads the values of a range, one after the other.
struct Rows<'a, E> {
    values: Values<'a, E>,
    value: Vec<E>,
}

impl<E: Element> Rows<'_, E> {
    /// Hands the exported elements of each key of a range to `write`.
    fn each(&mut self, of: &Chosen, mut write: impl FnMut(u64, &[E]) -> io::Result<()>) -> io::Result<()> {
        self.value.resize(of.len, E::ZERO);
        for key in of.keys.clone() {
            let read = self.values.read(Key(key), &mut self.value);
            read.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot read the value of key {key}: {error}"))
            })?;
            write(key, &self.value[of.elements.clone()])?;
        }
        Ok(())
    }
}

fn write<E: Element>(
    checkpoint: &Checkpoint,
    chosen: &[Chosen],
    format: Format,
    names: Option<&Names>,
    folder: &Path,
) -> Result<(), AppError> {
    let mut rows = Rows::<E> { values: checkpoint.values(), value: Vec::new() };
    match format {
        Format::Npy => {
            for of in chosen {
                let mut matrix = Matrix::create::<E>(folder, &of.name, of.rows(), of.elements.len())?;
                rows.each(of, |key, value| matrix.row(key - of.keys.start, value).map_err(io::Error::other))?;
                matrix.finish()?;
            }
        }
        Format::Safetensors => {
            safetensors(&mut rows, checkpoint, chosen, folder.join("model.safetensors"))?;
        }
        Format::Word2vec => {
            let mut at = 0;
            for of in chosen {
                write_text(&folder.join(format!("{}.txt", of.name)), |file| {
                    writeln!(file, "{} {}", of.rows(), of.elements.len())?;
                    rows.each(of, |key, value| {
                        let name = names.and_then(|names| names.get(at));
                        at += 1;
                        match name {
                            Some(word) => write_vector(file, word.as_bytes(), value),
                            None => write_vector(file, key.to_string().as_bytes(), value),
                        }
                    })
                })?;
            }
        }
    }
    Ok(())
}

fn safetensors<E: Element>(
    rows: &mut Rows<'_, E>,
    checkpoint: &Checkpoint,
    chosen: &[Chosen],
    path: PathBuf,
) -> Result<(), AppError> {
    let shape = |of: &Chosen| vec![of.rows(), of.elements.len() as u64];
    let tensors: Vec<_> = chosen.iter().map(|of| (of.name.as_str(), shape(of))).collect();
    let metadata =
        [("cut", checkpoint.manifest().cut.to_string()), ("rows", "in the order of keys".to_owned())];
    let header = safetensors_header(E::TYPE, &tensors, &metadata);
    write_text(&path, |file: &mut BufWriter<File>| {
        file.write_all(&header)?;
        let mut bytes = Vec::new();
        chosen.iter().try_for_each(|of| {
            rows.each(of, |_, value| {
                bytes.clear();
                intendant_core::copy_to_bytes(value, &mut bytes);
                file.write_all(&bytes)
            })
        })
    })?;
    Ok(())
}
