//! The division of entries among workers and subepochs.
//!
//! [`Blocks`] is parameter blocking (DSGD) [thesis §3.1, §3.3.1]: with W workers, rows and columns are cut
//! into W blocks each. In every subepoch each worker trains the entries of its own row block in one column
//! block, which is another one for each worker. After W subepochs all entries have been trained. [`Columns`]
//! is the algorithm of [thesis §4.4.1, §5.4.6]: nodes have rows of their own, and one worker of a node visits
//! a column and trains all of the node's entries in it.
//!
//! Both are functions of the data, the seed and the number of workers and nodes. They use no keys and values.

use crate::data::Dataset;
use clap::ValueEnum;
use intendant_core::lock;
use intendant_core::random::{Permutation, stream};
use intendant_task::{BatchAt, Partition, Subepoch};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// How an epoch is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// Nodes keep their rows; workers visit column by column. --localize-ahead hides latency.
    Columns,
    /// Parameter blocking (DSGD): workers keep their rows and take turns with blocks of columns.
    Blocks,
}

/// The entries of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Indices of training entries, in the order in which they are trained.
    pub(crate) entries: Vec<u32>,
    /// The column that is visited, if this is the first batch of the visit.
    pub(crate) opens: Option<u32>,
}

/// A division of the entries among workers.
#[derive(Debug)]
pub(crate) enum Division {
    Blocks(Blocks),
    Columns(Columns),
}

/// Names of the uses of the seed.
const ROWS: u64 = 1;
const COLUMNS: u64 = 2;
const SUBEPOCHS: u64 = 3;
const VISITS: u64 = 4;
const ENTRIES: u64 = 5;

impl Division {
    pub(crate) fn new(algorithm: Algorithm, data: &Dataset, seed: u64, workers: u32, nodes: u32) -> Self {
        match algorithm {
            Algorithm::Blocks => Self::Blocks(Blocks::new(data, seed, workers)),
            Algorithm::Columns => Self::Columns(Columns::new(data, seed, workers, nodes)),
        }
    }

    /// Subepochs of an epoch.
    pub(crate) fn subepochs(&self) -> u32 {
        match self {
            Self::Blocks(blocks) => blocks.workers,
            Self::Columns(_) => 1,
        }
    }

    /// Batches of up to `batch` entries that a worker trains in a subepoch.
    pub(crate) fn batches(&self, subepoch: Subepoch, worker: u32, batch: usize) -> u64 {
        match self {
            Self::Blocks(blocks) => {
                let cell = blocks.cell(worker, blocks.column_block(subepoch, worker));
                cell.len().div_ceil(batch) as u64
            }
            Self::Columns(columns) => columns.runs(worker).iter().map(|run| run.batches(batch)).sum(),
        }
    }

    /// The entries of a batch of up to `batch` entries.
    ///
    /// # Panics
    /// If there is no such batch.
    pub(crate) fn choose(&self, at: BatchAt, batch: usize) -> Chosen {
        match self {
            Self::Blocks(blocks) => blocks.choose(at, batch),
            Self::Columns(columns) => columns.choose(at, batch),
        }
    }

    /// Groups of entries, each with its worker. A group is trained in a random order, in batches without
    /// entries of other groups.
    pub(crate) fn parts(&self) -> Box<dyn Iterator<Item = (u32, &[u32])> + '_> {
        match self {
            Self::Blocks(blocks) => {
                let columns = move |worker| (0..blocks.workers).map(move |columns| (worker, columns));
                let pairs = (0..blocks.workers).flat_map(columns);
                Box::new(pairs.map(|(worker, columns)| (worker, &blocks.order[blocks.cell(worker, columns)])))
            }
            Self::Columns(columns) => Box::new((0..).zip(&columns.runs).flat_map(move |(worker, runs)| {
                runs.iter().map(move |run| (worker, &columns.order[run.range()]))
            })),
        }
    }

    /// This worker's share of the rows that its node keeps.
    pub(crate) fn rows(&self, data: &Dataset, partition: Partition) -> Vec<u32> {
        let (parts, part) = match self {
            Self::Blocks(blocks) => (&blocks.row_block, partition.worker),
            Self::Columns(columns) => (&columns.row_node, partition.node()),
        };
        let mut rows: Vec<u32> = (0..).zip(parts).filter(|(_, p)| **p == part).map(|(row, _)| row).collect();
        // Rows without entries may be anywhere.
        rows.retain(|row| data.row_uses()[*row as usize] > 0);
        if let Self::Columns(_) = self {
            // Each of the node's workers takes a share of them.
            let share = partition.worker % partition.workers_per_node();
            let mut index = 0;
            rows.retain(|_| {
                index += 1;
                (index - 1) % partition.workers_per_node() == share
            });
        }
        rows
    }

    /// The columns that only this worker uses in a subepoch, ascending.
    pub(crate) fn block(&self, data: &Dataset, subepoch: Subepoch, worker: u32) -> Vec<u32> {
        match self {
            Self::Blocks(blocks) => {
                let cell = blocks.cell(worker, blocks.column_block(subepoch, worker));
                let column = |entry: &u32| data.train()[*entry as usize].column;
                let mut columns: Vec<u32> = blocks.order[cell].iter().map(column).collect();
                columns.sort_unstable();
                columns.dedup();
                columns
            }
            Self::Columns(_) => Vec::new(),
        }
    }
}

/// Distributes items of these weights evenly over `parts` parts: the heaviest first, each to the lightest
/// part. The order among equals is a function of the seed.
fn deal(weights: &[u32], parts: u32, seed: u64) -> Vec<u32> {
    let mut things: Vec<u32> = (0..weights.len() as u32).collect();
    things
        .sort_by_cached_key(|thing| (Reverse(weights[*thing as usize]), stream(seed, &[u64::from(*thing)])));
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..parts).map(|part| Reverse((0, part))).collect();
    let mut dealt = vec![0; weights.len()];
    for thing in things {
        if let Some(mut least) = loads.peek_mut() {
            dealt[thing as usize] = least.0.1;
            least.0.0 += u64::from(weights[thing as usize]);
        }
    }
    dealt
}

/// Sorts entries by a number below `buckets`, keeping the order among equals.
fn sort_by(entries: &[u32], buckets: usize, bucket: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut places = vec![0u32; buckets + 1];
    for entry in entries {
        places[bucket(*entry) as usize + 1] += 1;
    }
    for i in 1..places.len() {
        places[i] += places[i - 1];
    }
    let mut sorted = vec![0; entries.len()];
    for entry in entries {
        let place = &mut places[bucket(*entry) as usize];
        sorted[*place as usize] = *entry;
        *place += 1;
    }
    sorted
}

/// Parameter blocking.
#[derive(Debug)]
pub(crate) struct Blocks {
    workers: u32,
    seed: u64,
    /// The block of each row: its worker.
    row_block: Vec<u32>,
    /// Entries, sorted by row block, then by column block.
    order: Vec<u32>,
    /// The start of each pair of blocks among the entries, and the end of the last pair.
    starts: Vec<u32>,
}

impl Blocks {
    fn new(data: &Dataset, seed: u64, workers: u32) -> Self {
        let row_block = deal(data.row_uses(), workers, stream(seed, &[ROWS]));
        let column_block = deal(data.column_uses(), workers, stream(seed, &[COLUMNS]));
        let row = |entry: u32| row_block[data.train()[entry as usize].row as usize];
        let column = |entry: u32| column_block[data.train()[entry as usize].column as usize];
        let all: Vec<u32> = (0..data.train().len() as u32).collect();
        let order = sort_by(&sort_by(&all, workers as usize, column), workers as usize, row);
        let blocks = workers as usize;
        let mut starts = vec![0; blocks * blocks + 1];
        for entry in &order {
            starts[row(*entry) as usize * blocks + column(*entry) as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        Self { workers, seed, row_block, order, starts }
    }

    /// The block of columns that a worker trains in a subepoch: each in one subepoch of an epoch, in an order
    /// of its own in every epoch, and never the same as another worker.
    fn column_block(&self, subepoch: Subepoch, worker: u32) -> u32 {
        let seed = stream(self.seed, &[SUBEPOCHS, subepoch.epoch.into()]);
        let shift = Permutation::new(self.workers.into(), seed).apply(subepoch.index.into());
        ((u64::from(worker) + shift) % u64::from(self.workers)) as u32
    }

    /// The part of `order` in a row block and a column block.
    fn cell(&self, rows: u32, columns: u32) -> Range<usize> {
        let cell = rows as usize * self.workers as usize + columns as usize;
        self.starts[cell] as usize..self.starts[cell + 1] as usize
    }

    fn choose(&self, at: BatchAt, batch: usize) -> Chosen {
        let worker = at.partition.worker;
        let columns = self.column_block(at.subepoch, worker);
        let cell = &self.order[self.cell(worker, columns)];
        let name = [ENTRIES, at.subepoch.epoch.into(), worker.into(), columns.into()];
        let entries = slice(cell, stream(self.seed, &name), at.index, batch);
        Chosen { entries, opens: None }
    }
}

/// The `index`-th `batch` of `entries` in a seeded order.
fn slice(entries: &[u32], seed: u64, index: u64, batch: usize) -> Vec<u32> {
    let permutation = Permutation::new(entries.len() as u64, seed);
    let (start, all) = (index * batch as u64, entries.len() as u64);
    assert!(start < all, "batch {index} of {all} entries");
    let places = start..(start + batch as u64).min(all);
    places.map(|place| entries[permutation.apply(place) as usize]).collect()
}

/// Column by column.
#[derive(Debug)]
pub(crate) struct Columns {
    seed: u64,
    workers_per_node: u32,
    /// The node of each row.
    row_node: Vec<u32>,
    /// Entries, sorted by node, then by column.
    order: Vec<u32>,
    /// The columns of each worker.
    runs: Vec<Vec<Run>>,
    /// The current visit of each worker. A worker's loader asks for one batch after the other, in order.
    visits: Vec<Mutex<Option<Arc<Visit>>>>,
}

/// The entries of a column on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    column: u32,
    /// Their place in the order.
    start: u32,
    len: u32,
}

impl Run {
    const fn batches(&self, batch: usize) -> u64 {
        (self.len as usize).div_ceil(batch) as u64
    }

    const fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// The order of a worker's columns in an epoch.
#[derive(Debug)]
struct Visit {
    epoch: u32,
    batch: usize,
    /// Indices of runs.
    runs: Vec<u32>,
    /// Batches of the runs up to and including each.
    ends: Vec<u64>,
}

impl Columns {
    fn new(data: &Dataset, seed: u64, workers: u32, nodes: u32) -> Self {
        let row_node = deal(data.row_uses(), nodes, stream(seed, &[ROWS]));
        let train = data.train();
        let node = |entry: u32| row_node[train[entry as usize].row as usize];
        let all: Vec<u32> = (0..train.len() as u32).collect();
        let by_column = sort_by(&all, data.columns().len(), |entry| train[entry as usize].column);
        let order = sort_by(&by_column, nodes as usize, node);
        drop((all, by_column));
        let workers_per_node = workers / nodes;
        let mut runs = vec![Vec::new(); workers as usize];
        let mut start = 0;
        for entries in order.chunk_by(|a, b| node(*a) == node(*b)) {
            let here = node(entries[0]);
            let mut columns = Vec::new();
            for column in entries.chunk_by(|a, b| train[*a as usize].column == train[*b as usize].column) {
                let len = column.len() as u32;
                columns.push(Run { column: train[column[0] as usize].column, start, len });
                start += len;
            }
            let lens: Vec<u32> = columns.iter().map(|run| run.len).collect();
            let dealt = deal(&lens, workers_per_node, stream(seed, &[COLUMNS, here.into()]));
            for (run, worker) in columns.into_iter().zip(dealt) {
                runs[(here * workers_per_node + worker) as usize].push(run);
            }
        }
        let visits = runs.iter().map(|_| Mutex::new(None)).collect();
        Self { seed, workers_per_node, row_node, order, runs, visits }
    }

    fn runs(&self, worker: u32) -> &[Run] {
        &self.runs[worker as usize]
    }

    /// The order of a worker's columns.
    fn visit(&self, worker: u32, epoch: u32, batch: usize) -> Arc<Visit> {
        // Nothing panics while it holds the lock.
        let mut visit = lock(&self.visits[worker as usize]);
        if let Some(visit) = visit.as_ref().filter(|visit| (visit.epoch, visit.batch) == (epoch, batch)) {
            return Arc::clone(visit);
        }
        let runs = self.runs(worker);
        let seed = stream(self.seed, &[VISITS, epoch.into(), worker.into()]);
        let permutation = Permutation::new(runs.len() as u64, seed);
        let order: Vec<u32> = (0..runs.len() as u64).map(|i| permutation.apply(i) as u32).collect();
        let mut end = 0;
        let ends = order.iter().map(|run| {
            end += runs[*run as usize].batches(batch);
            end
        });
        let new = Arc::new(Visit { epoch, batch, ends: ends.collect(), runs: order });
        *visit = Some(Arc::clone(&new));
        new
    }

    fn choose(&self, at: BatchAt, batch: usize) -> Chosen {
        let (worker, epoch) = (at.partition.worker, at.subepoch.epoch);
        let visit = self.visit(worker, epoch, batch);
        let place = visit.ends.partition_point(|end| *end <= at.index);
        let run = self.runs(worker)[visit.runs[place] as usize];
        let first = place.checked_sub(1).map_or(0, |before| visit.ends[before]);
        let node = worker / self.workers_per_node;
        let seed = stream(self.seed, &[ENTRIES, epoch.into(), node.into(), run.column.into()]);
        let entries = slice(&self.order[run.range()], seed, at.index - first, batch);
        Chosen { entries, opens: (at.index == first).then_some(run.column) }
    }
}

#[cfg(test)]
#[path = "division_tests.rs"]
mod tests;
