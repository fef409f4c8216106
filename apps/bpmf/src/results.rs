//! The exported results of a chain: brought to node 0 and written there.
//!
//! The results of all nodes are one sequence of values: posterior means and variances of all rows, then of
//! all columns, then forecasts. Within each, the values of node 0 come first. Node 0 writes the sequence. It
//! takes the values of another node in pieces of at most 1 MiB, through an item of that node: the node sets
//! the next piece when node 0 has taken the previous one. So no memory is proportional to the results.

use crate::items::{FORECAST, Items, Section};
use bpmf::{Block, Forecast, Posterior, Side};
use intendant_formats::{Matrix, WriteError, write_text};
use intendant_ratings::{Dataset, Ids};
use intendant_train::{AppError, TrainError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The words of each piece of a section of a block.
pub(crate) fn words<'a>(
    section: Section,
    items: Items<'a>,
    block: &'a Block,
) -> Box<dyn Iterator<Item = Vec<u64>> + 'a> {
    let node = block.index() as usize;
    let pieces = section.pieces(items, node);
    let bits = |numbers: Vec<f64>| numbers.into_iter().map(f64::to_bits).collect();
    let posterior = move |side: Side, values: Range<usize>| {
        let first = items.rows_of(side, node).start;
        block.posterior_of(side, first + values.start as u32..first + values.end as u32)
    };
    match section {
        Section::Means(side) => Box::new(pieces.map(move |values| {
            let Posterior { means, .. } = posterior(side, values);
            bits(means)
        })),
        Section::Variances(side) => Box::new(pieces.map(move |values| {
            let Posterior { variances, .. } = posterior(side, values);
            bits(variances)
        })),
        Section::Forecasts => {
            let mut forecasts = block.forecasts();
            let words = |Forecast { row, column, value, mean, deviation, low, high }| {
                let [value, mean, deviation, low, high] =
                    [value, mean, deviation, low, high].map(f64::to_bits);
                [u64::from(row), u64::from(column), value, mean, deviation, low, high]
            };
            Box::new(
                pieces.map(move |values| forecasts.by_ref().take(values.len()).flat_map(words).collect()),
            )
        }
    }
}

/// The other nodes, as seen by node 0.
pub(crate) trait Others {
    /// Hands the next piece of a node to `piece`.
    fn take(&mut self, node: usize, piece: &mut dyn FnMut(&[u64])) -> Result<(), TrainError>;
}

/// Writes the files of a chain, at node 0. Without a folder, or after a file could not be written, it takes
/// the values of the other nodes and discards them. The outer error comes from the exchange with the nodes.
pub(crate) fn write(
    folder: Option<&Path>,
    (items, block, data): (Items<'_>, &Block, &Dataset),
    others: &mut dyn Others,
) -> Result<Result<(), AppError>, TrainError> {
    let mut done: Result<(), AppError> = folder.map_or(Ok(()), |folder| Ok(names(folder, data)?));
    for section in Section::ALL {
        let mut file =
            match folder.filter(|_| done.is_ok()).map(|folder| Sink::create(folder, section, items)) {
                None => None,
                Some(Ok(file)) => Some(file),
                Some(Err(error)) => {
                    done = Err(error.into());
                    None
                }
            };
        let mut put = |words: &[u64]| {
            if let Some(Err(error)) = file.as_mut().map(|file| file.write(words, data)) {
                (file, done) = (None, Err(error.into()));
            }
        };
        words(section, items, block).for_each(|words| put(&words));
        for node in 1..items.nodes {
            let each = section.extent(items, node).1;
            for piece in section.pieces(items, node) {
                // The item is as long as the longest piece.
                others.take(node, &mut |words| put(&words[..piece.len() * each]))?;
            }
        }
        if let Some(Err(error)) = file.map(Sink::finish) {
            done = Err(error.into());
        }
    }
    Ok(done)
}

/// Writes the small files.
fn names(folder: &Path, data: &Dataset) -> Result<(), WriteError> {
    let ids = |name: &str, ids: &Ids| {
        write_text(&folder.join(name), |file| {
            (0..ids.len()).filter_map(|index| ids.get(index)).try_for_each(|id| writeln!(file, "{id}"))
        })
    };
    ids("row_ids.txt", data.rows())?;
    ids("column_ids.txt", data.columns())?;
    write_text(&folder.join("mean.txt"), |file| writeln!(file, "{}", data.mean()))
}

/// A node has sent something other than its results.
pub(crate) fn malformed(node: usize) -> TrainError {
    TrainError::Stopped(format!("node {node} has sent something else than what it computed: a bug"))
}

/// A file that is being written.
enum Sink {
    Matrix { matrix: Matrix, rank: usize, next: u64 },
    Forecasts { path: PathBuf, file: BufWriter<File> },
}

impl Sink {
    fn create(folder: &Path, section: Section, items: Items<'_>) -> Result<Self, WriteError> {
        let matrix = |what: &str, side: Side| {
            let name = match side {
                Side::Rows => "row",
                Side::Columns => "column",
            };
            let (rows, rank) = (items.model.rows(side).into(), items.model.config().rank);
            let matrix = Matrix::create::<f64>(folder, &format!("{name}_{what}"), rows, rank)?;
            Ok(Self::Matrix { matrix, rank, next: 0 })
        };
        match section {
            Section::Means(side) => matrix("mean", side),
            Section::Variances(side) => matrix("variance", side),
            Section::Forecasts => {
                let path = folder.join("predictions.tsv");
                let mut file = BufWriter::new(File::create(&path).map_err(refused(&path))?);
                writeln!(file, "row\tcolumn\tvalue\tmean\tdeviation\tlow\thigh").map_err(refused(&path))?;
                Ok(Self::Forecasts { path, file })
            }
        }
    }

    /// Writes the next values.
    fn write(&mut self, words: &[u64], data: &Dataset) -> Result<(), WriteError> {
        match self {
            Self::Matrix { matrix, rank, next } => {
                let mut values = Vec::with_capacity(*rank);
                for row in words.chunks_exact(*rank) {
                    values.clear();
                    values.extend(row.iter().map(|word| f64::from_bits(*word)));
                    matrix.row(*next, &values)?;
                    *next += 1;
                }
                Ok(())
            }
            Self::Forecasts { path, file } => {
                let id = |ids: &Ids, number: u64| ids.get(number as usize).unwrap_or_default().into_owned();
                for [row, column, numbers @ ..] in words.as_chunks::<FORECAST>().0 {
                    let numbers = numbers.map(|word| f64::from_bits(word).to_string()).join("\t");
                    let (row, column) = (id(data.rows(), *row), id(data.columns(), *column));
                    writeln!(file, "{row}\t{column}\t{numbers}").map_err(refused(path))?;
                }
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<(), WriteError> {
        match self {
            Self::Matrix { matrix, .. } => matrix.finish().map(drop),
            Self::Forecasts { path, mut file } => file.flush().map_err(refused(&path)),
        }
    }
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    |source| WriteError::Write { file: path.to_owned(), source }
}
