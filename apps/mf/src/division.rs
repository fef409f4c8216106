//! The division of entries among workers and subepochs.
//!
//! [`Blocks`] is parameter blocking (DSGD) [thesis §3.1, §3.3.1]: with W workers, rows and columns are
//! divided into W blocks each. In every subepoch, each worker trains the entries of its own row block in one
//! column block; no two workers have the same column block. After W subepochs all entries have been trained.
//! [`Columns`] is the algorithm of [thesis §4.4.1, §5.4.6]: nodes have rows of their own, and one worker of a
//! node visits a column and trains all of the node's entries in it.
//!
//! [`Tiles`] is the same with several visits of a column, each for the rows that fit into a cache. On one
//! node, tiles take the place of columns.
//!
//! All three are functions of the data, the seed and the number of workers and nodes. They use no keys and no
//! values. Only the number of tiles depends on the bytes of a value.

mod arrange;
pub(crate) mod tiles;

use crate::data::{Dataset, Entry};
use arrange::{COLUMNS, ENTRIES, ROWS, SUBEPOCHS, VISITS, deal, shuffle, sort_by};
use clap::ValueEnum;
use intendant_core::lock;
use intendant_core::random::{Permutation, stream};
use intendant_task::{BatchAt, Partition, Subepoch};
use std::ops::Range;
use std::sync::Mutex;
use tiles::Tiles;

/// How an epoch is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// Nodes keep their rows; workers visit column by column. --localize-ahead hides latency. On one node
    /// the same as tiles.
    Columns,
    /// Nodes keep their rows; workers visit columns once for as many rows as fit into a cache.
    Tiles,
    /// Parameter blocking (DSGD): workers keep their rows and take turns with blocks of columns.
    Blocks,
}

/// How a batch is trained.
#[derive(Debug, PartialEq)]
pub(crate) struct Chosen {
    /// The visited column, if this is the first batch of its only visit in the epoch.
    pub(crate) opens: Option<u32>,
    /// True: the batch accesses a row once per entry, and a column once per run of its entries. False: it
    /// accesses each row and each column once.
    pub(crate) by_run: bool,
}

/// A division of the entries among workers.
#[derive(Debug)]
pub(crate) enum Division {
    Blocks(Blocks),
    Columns(Columns),
    Tiles(Tiles),
}

impl Division {
    /// `tiles` is the number of tiles of each node. With one tile, columns are visited once.
    pub(crate) fn new(
        algorithm: Algorithm,
        data: &Dataset,
        seed: u64,
        (workers, nodes): (u32, u32),
        tiles: u32,
    ) -> Self {
        match algorithm {
            Algorithm::Blocks => Self::Blocks(Blocks::new(data, seed, workers)),
            Algorithm::Columns | Algorithm::Tiles
                if tiles > 1 && (nodes == 1 || algorithm == Algorithm::Tiles) =>
            {
                Self::Tiles(Tiles::new(data, seed, (workers, nodes), tiles))
            }
            Algorithm::Columns | Algorithm::Tiles => Self::Columns(Columns::new(data, seed, workers, nodes)),
        }
    }

    /// Subepochs of an epoch.
    pub(crate) fn subepochs(&self) -> u32 {
        match self {
            Self::Blocks(blocks) => blocks.workers,
            Self::Columns(_) | Self::Tiles(_) => 1,
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
            Self::Tiles(tiles) => tiles.batches(subepoch.epoch, worker, batch),
        }
    }

    /// Calls `each` with the row, the column and the value of each entry of a batch of up to `batch` entries,
    /// in the order in which they are trained.
    ///
    /// # Panics
    /// If there is no such batch.
    pub(crate) fn choose(
        &self,
        data: &Dataset,
        at: BatchAt,
        batch: usize,
        mut each: impl FnMut(u32, u32, f64),
    ) -> Chosen {
        let (entries, chosen) = match self {
            Self::Blocks(blocks) => blocks.choose(at, batch),
            Self::Columns(columns) => columns.choose(at, batch),
            Self::Tiles(tiles) => {
                tiles.choose(data, at, batch, each);
                return Chosen { opens: None, by_run: true };
            }
        };
        for entry in entries {
            let Entry { row, column, value } = data.train()[entry as usize];
            each(row, column, value);
        }
        chosen
    }

    /// Groups of entries, each with its worker. A group is trained in a random order, in batches without
    /// entries of other groups. Tiles have none: see [`Tiles::visit_sizes`].
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
            Self::Tiles(_) => Box::new(std::iter::empty()),
        }
    }

    /// This worker's share of the rows that stay at its node.
    pub(crate) fn rows(&self, data: &Dataset, partition: Partition) -> Vec<u32> {
        let of = |parts: &[u32], part: u32| -> Vec<u32> {
            (0..).zip(parts).filter(|(_, p)| **p == part).map(|(row, _)| row).collect()
        };
        let mut rows = match self {
            Self::Blocks(blocks) => of(&blocks.row_block, partition.worker),
            Self::Columns(columns) => of(&columns.row_node, partition.node()),
            Self::Tiles(tiles) => {
                let here = (0..).zip(tiles.row_nodes()).filter(|(_, node)| *node == partition.node());
                here.map(|(row, _)| row).collect()
            }
        };
        // Rows without entries may be anywhere.
        rows.retain(|row| data.row_uses()[*row as usize] > 0);
        if let Self::Columns(_) | Self::Tiles(_) = self {
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
            Self::Columns(_) | Self::Tiles(_) => Vec::new(),
        }
    }
}

/// Parameter blocking.
#[derive(Debug)]
pub(crate) struct Blocks {
    workers: u32,
    seed: u64,
    /// The block of each row, which is the number of its worker.
    row_block: Vec<u32>,
    /// Entries, sorted by row block, then by column block.
    order: Vec<u32>,
    /// The start of each pair of blocks among the entries, and the end of the last pair.
    starts: Vec<u32>,
    /// One for each worker.
    shuffles: Vec<Mutex<Shuffle>>,
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
        let shuffles = (0..workers).map(|_| Mutex::default()).collect();
        Self { workers, seed, row_block, order, starts, shuffles }
    }

    /// The block of columns that a worker trains in a subepoch. Over the subepochs of an epoch, a worker
    /// trains each block once, in an order that differs from epoch to epoch. In a subepoch, no two workers
    /// have the same block.
    fn column_block(&self, subepoch: Subepoch, worker: u32) -> u32 {
        let seed = stream(self.seed, &[SUBEPOCHS, subepoch.epoch.into()]);
        let shift = Permutation::new(self.workers.into(), seed).apply(subepoch.index.into());
        ((u64::from(worker) + shift) % u64::from(self.workers)) as u32
    }

    /// The part of `order` that lies in a row block and a column block.
    fn cell(&self, rows: u32, columns: u32) -> Range<usize> {
        let cell = rows as usize * self.workers as usize + columns as usize;
        self.starts[cell] as usize..self.starts[cell + 1] as usize
    }

    /// The entries of a batch.
    fn choose(&self, at: BatchAt, batch: usize) -> (Vec<u32>, Chosen) {
        let worker = at.partition.worker;
        let columns = self.column_block(at.subepoch, worker);
        let cell = &self.order[self.cell(worker, columns)];
        let name = [ENTRIES, at.subepoch.epoch.into(), worker.into(), columns.into()];
        let mut shuffle = lock(&self.shuffles[worker as usize]);
        let entries = shuffle.slice(cell, stream(self.seed, &name), at.index, batch);
        (entries, Chosen { opens: None, by_run: false })
    }
}

/// `BLOCK` entries stay together when blocks of entries are shuffled; `WINDOW` entries are shuffled one by
/// one. A window is small enough for the cache of a core, and large enough to separate entries that are
/// adjacent in the data.
const BLOCK: usize = 64;
const WINDOW: usize = 1024 * BLOCK;

/// The seeded order of some entries, of which it holds one window at a time. First, blocks of entries are
/// shuffled. A window consists of successive blocks in their new order; then its entries are shuffled.
#[derive(Debug, Default)]
struct Shuffle {
    /// The content of `window`: the seed and the number of a window.
    seed: Option<(u64, usize)>,
    window: Vec<u32>,
}

impl Shuffle {
    /// The `index`-th `batch` of `entries` in the order that belongs to `seed`. The result depends on the
    /// arguments only; it is fast if the caller asks for one batch after the other.
    fn slice(&mut self, entries: &[u32], seed: u64, index: u64, batch: usize) -> Vec<u32> {
        let (start, all) = (index as usize * batch, entries.len());
        assert!(start < all, "batch {index} of {all} entries");
        let end = (start + batch).min(all);
        let mut chosen = Vec::with_capacity(end - start);
        while start + chosen.len() < end {
            let at = start + chosen.len();
            let number = at / WINDOW;
            if self.seed != Some((seed, number)) {
                self.shuffle(entries, seed, number);
            }
            let range = at - number * WINDOW..(end - number * WINDOW).min(self.window.len());
            chosen.extend_from_slice(&self.window[range]);
        }
        chosen
    }

    fn shuffle(&mut self, entries: &[u32], seed: u64, number: usize) {
        self.seed = Some((seed, number));
        self.window.clear();
        let range = number * WINDOW..((number + 1) * WINDOW).min(entries.len());
        if entries.len() <= WINDOW {
            self.window.extend_from_slice(entries);
        } else {
            // The entries after the last whole block stay at the end.
            let blocks = Permutation::new((entries.len() / BLOCK) as u64, seed);
            for block in range.start / BLOCK..range.end / BLOCK {
                let block = blocks.apply(block as u64) as usize;
                self.window.extend_from_slice(&entries[block * BLOCK..][..BLOCK]);
            }
            self.window.extend_from_slice(&entries[range.end / BLOCK * BLOCK..range.end]);
        }
        shuffle(&mut self.window, stream(seed, &[number as u64]));
    }
}

/// The division of [`Algorithm::Columns`].
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
    /// The visits of each worker. A worker's loader asks for one batch after the other, in order.
    visits: Vec<Mutex<Visits>>,
}

/// The current visit of a worker, and the order of its entries.
#[derive(Debug, Default)]
struct Visits {
    visit: Visit,
    /// Index among the worker's columns in the order of the visit.
    place: usize,
    shuffle: Shuffle,
}

/// The entries of a column on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    column: u32,
    /// The place of its first entry in `Columns::order`.
    start: u32,
    len: u32,
    /// Whether a cell occurs more than once.
    repeats: bool,
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
#[derive(Debug, Default)]
struct Visit {
    epoch: u32,
    /// Batch size; 0 before the first visit.
    batch: usize,
    /// Indices of runs.
    runs: Vec<u32>,
    /// Cumulative number of batches up to and including each run.
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
        // For each row, the start of the run in which it occurred last, plus one.
        let mut last_seen = vec![0; data.rows().len()];
        let mut start = 0;
        for entries in order.chunk_by(|a, b| node(*a) == node(*b)) {
            let here = node(entries[0]);
            let mut columns = Vec::new();
            for column in entries.chunk_by(|a, b| train[*a as usize].column == train[*b as usize].column) {
                let len = column.len() as u32;
                let mut seen = |entry: &u32| {
                    let (row, here) = (train[*entry as usize].row as usize, start + 1);
                    std::mem::replace(&mut last_seen[row], here) == here
                };
                let repeats = column.iter().any(&mut seen);
                columns.push(Run { column: train[column[0] as usize].column, start, len, repeats });
                start += len;
            }
            let lens: Vec<u32> = columns.iter().map(|run| run.len).collect();
            let dealt = deal(&lens, workers_per_node, stream(seed, &[COLUMNS, here.into()]));
            for (run, worker) in columns.into_iter().zip(dealt) {
                runs[(here * workers_per_node + worker) as usize].push(run);
            }
        }
        let visits = runs.iter().map(|_| Mutex::default()).collect();
        Self { seed, workers_per_node, row_node, order, runs, visits }
    }

    fn runs(&self, worker: u32) -> &[Run] {
        &self.runs[worker as usize]
    }

    /// The order of a worker's columns.
    fn visit(&self, worker: u32, epoch: u32, batch: usize) -> Visit {
        let runs = self.runs(worker);
        let seed = stream(self.seed, &[VISITS, epoch.into(), worker.into()]);
        let permutation = Permutation::new(runs.len() as u64, seed);
        let order: Vec<u32> = (0..runs.len() as u64).map(|i| permutation.apply(i) as u32).collect();
        let mut end = 0;
        let ends = order.iter().map(|run| {
            end += runs[*run as usize].batches(batch);
            end
        });
        Visit { epoch, batch, ends: ends.collect(), runs: order }
    }

    /// The entries of a batch.
    fn choose(&self, at: BatchAt, batch: usize) -> (Vec<u32>, Chosen) {
        let (worker, epoch) = (at.partition.worker, at.subepoch.epoch);
        // If this panics, the visit still belongs to its epoch.
        let Visits { visit, place, shuffle } = &mut *lock(&self.visits[worker as usize]);
        if (visit.epoch, visit.batch) != (epoch, batch) {
            (*visit, *place) = (self.visit(worker, epoch, batch), 0);
        }
        let begin = |place: usize| place.checked_sub(1).map_or(0, |before| visit.ends[before]);
        if !(begin(*place)..visit.ends[*place]).contains(&at.index) {
            *place = visit.ends.partition_point(|end| *end <= at.index);
        }
        let (run, first) = (self.runs(worker)[visit.runs[*place] as usize], begin(*place));
        let node = worker / self.workers_per_node;
        let seed = stream(self.seed, &[ENTRIES, epoch.into(), node.into(), run.column.into()]);
        let entries = shuffle.slice(&self.order[run.range()], seed, at.index - first, batch);
        let opens = (at.index == first).then_some(run.column);
        (entries, Chosen { opens, by_run: !run.repeats })
    }
}

#[cfg(test)]
#[path = "division_tests.rs"]
mod tests;
