//! Counting as a training task: the keys of a batch, and the amounts that are added to their values.
//!
//! Keys: the blocks of cells, row by row; then one key with N, the sum of all counts so far.
//!
//! Batches are trained in place. Cells of blocks on this node are changed in place, so that only blocks that
//! change are read. Blocks on other nodes are pulled, and their changes are pushed.

use crate::batch::{Batch, Maker};
use crate::config::Config;
use crate::data::{COUNT_MAX, DataError, Stream};
use crate::evaluate::{Check, Results, Subject};
use crate::saved::Saved;
use crate::summary::{Summary, names};
use intendant_core::random::stream;
use intendant_core::{Element, Key, lock};
use intendant_sampling::Sampler;
use intendant_task::{
    BatchAt, Cost, Evaluation, Frequency, Model, ModelRange, Partition, Prepared, Reduction, Rows, Split,
    StepReport, Subepoch, Task, equal_share,
};
use intendant_train::SettingError;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Names of the key ranges.
pub const COUNTERS: &str = "counters";
/// The range of the one key with N.
pub const INSERTED: &str = "inserted";

/// Candidates of a worker per wanted heavy hitter. An item that occurs more often than one in ten times the
/// number of wanted heavy hitters is a candidate.
const CANDIDATES: usize = 10;

/// Number of rows by which prefetching is ahead of the row that is changed.
const PREFETCH: usize = 8;

/// Counting a stream.
pub struct Counting<E> {
    subject: Arc<Subject>,
    model: Model<E>,
    digest: u64,
    maker: Maker,
    /// N of the initial sketch.
    inserted_before: f64,
    /// The sum of the counts of all batches that this process has prepared.
    counted: AtomicU64,
}

/// Buffers of a worker.
#[derive(Debug)]
pub struct Scratch {
    summary: Summary,
    /// N, as far as this worker knows it.
    inserted: f64,
}

impl<E: Element> Counting<E> {
    /// The task of counting `stream`; without a stream, it counts nothing. `base` is the initial sketch: its
    /// shape and functions are those of `config`. `query` has the items to estimate at the end.
    ///
    /// # Errors
    /// If a setting is out of its limits, or the stream cannot be read.
    pub fn new(
        config: Config,
        stream_of: Option<Stream>,
        query: Option<Stream>,
        base: Option<Saved>,
    ) -> Result<Self, CountingError> {
        let shape = config.shape;
        let digest = match &stream_of {
            None => 0,
            Some(of) => {
                config.check(of.piece_bytes())?;
                of.digest()?
            }
        };
        let candidates: BTreeSet<Vec<u8>> = base.iter().flat_map(|base| base.top.iter().cloned()).collect();
        let digest = base.iter().fold(digest, |digest, base| stream(digest, &[base.digest()]));
        let inserted_before = base.as_ref().map_or(0.0, |base| base.inserted[0]);
        let init: intendant_core::Initialiser<E> = match base {
            None => Arc::new(|_, value: &mut [E]| value.fill(E::ZERO)),
            Some(base) => {
                let block = shape.block;
                Arc::new(move |key: Key, value: &mut [E]| {
                    let from = if key == shape.inserted_key() {
                        &base.inserted[..]
                    } else {
                        &base.cells[key.index() * block..][..block]
                    };
                    value.iter_mut().zip(from).for_each(|(to, from)| *to = E::from_f64(*from));
                })
            }
        };
        let ranges = vec![
            ModelRange::new(COUNTERS, shape.blocks(), shape.block),
            ModelRange::new(INSERTED, 1, shape.inserted_len()),
        ];
        Ok(Self {
            subject: Arc::new(Subject {
                config,
                stream: stream_of,
                query,
                candidates: Mutex::new(candidates),
                results: Mutex::default(),
                truth: OnceLock::new(),
            }),
            model: Model { ranges, init, sampler: Sampler::default() },
            digest,
            maker: Maker::default(),
            inserted_before,
            counted: AtomicU64::new(0),
        })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.subject.config
    }

    /// The results of the test: available at the end of a run, in the process with the first worker.
    pub fn results(&self) -> Results {
        lock(&self.subject.results).clone()
    }

    /// Why the stream or the query could not be read, if that happened; the results are then invalid.
    pub fn failure(&self) -> Option<&DataError> {
        [&self.subject.stream, &self.subject.query].into_iter().flatten().find_map(Stream::failure)
    }

    fn pieces(&self) -> u64 {
        self.subject.stream.as_ref().map_or(0, Stream::pieces)
    }
}

/// Why a stream cannot be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountingError {
    /// A setting is out of its limits.
    #[error("--{0}")]
    Setting(#[from] SettingError),
    /// The stream cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl<E: Element> Task for Counting<E> {
    type Element = E;
    type Batch = Batch<E>;
    type Scratch = Scratch;

    fn name(&self) -> &'static str {
        "sketch"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn digest(&self) -> u64 {
        self.digest
    }

    fn batches(&self, _subepoch: Subepoch, partition: Partition) -> u64 {
        let own = equal_share(self.pieces(), partition.worker.into(), partition.workers.into());
        own.end - own.start
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch<E>> {
        let BatchAt { partition, index, .. } = at;
        let own = equal_share(self.pieces(), partition.worker.into(), partition.workers.into());
        let of = self.subject.stream.as_ref().expect("a stream without pieces has no batches");
        let (mut batch, keys, digest) = self.maker.make::<E>(self.config(), of, own.start + index);
        // Relaxed, because only the sum matters.
        let before = self.counted.fetch_add(batch.count.min(COUNT_MAX), Ordering::Relaxed);
        if batch.count > COUNT_MAX || before > COUNT_MAX - batch.count {
            of.fail(DataError::TooMany { file: of.name().to_owned() });
            batch.failed = true;
        }
        Prepared { batch, near: keys.clone(), keys, samples: Vec::new(), handles: Vec::new(), digest }
    }

    fn keys_named(&self, name: &str) -> Vec<Key> {
        let Config { shape, hashes, .. } = self.config();
        let Some(x) = self.subject.number(name.as_bytes()) else { return Vec::new() };
        let rows = hashes.rows.iter().enumerate();
        rows.map(|(row, functions)| Key(shape.place(row, functions.cell(x, shape.width)).0)).collect()
    }

    /// Hashing makes the blocks of a row equally frequent. The number of items is an estimate.
    fn frequencies(&self, partition: Partition) -> Option<Vec<Frequency>> {
        let shape = &self.config().shape;
        let items = self.subject.stream.as_ref().map_or(0, Stream::items_estimate);
        let pieces = self.pieces();
        if items == 0 || pieces == 0 {
            return Some(Vec::new());
        }
        let blocks = shape.row_blocks() as f64;
        // The probability that a batch with this many items touches a block.
        let touched = 1.0 - (1.0 - 1.0 / blocks).powf(items as f64 / pieces as f64);
        let of_block = Frequency {
            key: Key(0),
            accesses: pieces as f64 * touched,
            uses: (items as f64 / blocks).ceil() as u64,
            shared: partition.nodes > 1,
        };
        let mut all: Vec<_> =
            (0..shape.blocks()).map(|key| Frequency { key: Key(key), ..of_block }).collect();
        all.push(Frequency { key: shape.inserted_key(), accesses: pieces as f64, uses: items, ..of_block });
        Some(all)
    }

    fn scratch(&self) -> Scratch {
        let summary = Summary::new(CANDIDATES * self.config().top);
        Scratch { summary, inserted: self.inserted_before }
    }

    fn trains_in_place(&self) -> bool {
        true
    }

    fn train(
        &self,
        scratch: &mut Scratch,
        batch: &Batch<E>,
        keys: &[Key],
        rows: &mut dyn Rows<E>,
    ) -> StepReport {
        if batch.failed {
            // The run ends; the reported error is the failure of the stream.
            return StepReport { loss: f64::NAN, examples: 0, cost: Cost(0) };
        }
        let block = self.config().shape.block;
        (0..PREFETCH.min(keys.len())).for_each(|at| rows.prefetch(at));
        let mut add = |at: usize, what: &[E]| {
            rows.prefetch(at + PREFETCH);
            let mut row = rows.row(at);
            row.iter_mut().zip(what).for_each(|(cell, more)| *cell += *more);
        };
        batch.cells.chunks_exact(block).enumerate().for_each(|(at, cells)| add(at, cells));
        if let Some(last) = keys.len().checked_sub(1) {
            add(last, &batch.inserted);
        }
        batch.named_items().for_each(|(item, name)| scratch.summary.add(item.x, item.count, name));
        StepReport { loss: 0.0, examples: batch.count, cost: Cost(batch.cells.len() as u64) }
    }

    fn settle(&self, scratch: &mut Scratch, sums: &mut Reduction) {
        scratch.summary.settle(sums, |name| self.subject.number(name));
    }

    fn epoch_ended(&self, scratch: &mut Scratch, combined: &Reduction) {
        scratch.inserted += combined.get("examples");
        if let Some(of) = self.subject.stream.as_ref().filter(|_| scratch.inserted > COUNT_MAX as f64) {
            of.fail(DataError::TooMany { file: of.name().to_owned() });
        }
        lock(&self.subject.candidates).extend(names(combined));
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        Some(Box::new(Check::new(Arc::clone(&self.subject), split, partition.worker == 0)))
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
