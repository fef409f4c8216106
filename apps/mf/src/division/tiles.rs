//! Tile by tile: columns are visited once per tile of rows, if the rows of a node do not fit into the cache
//! of a core.
//!
//! The rows of a node are divided into tiles that fit. A worker goes through the tiles in a random order, and
//! in each tile through the entries column by column. So a row is loaded from memory once per visit of its
//! tile, not once per entry.
//!
//! On several nodes, columns are divided into blocks, and a node goes through all of its tiles with one block
//! before it starts the next. Nodes take the blocks in the same random order, as a circle, which they enter
//! at equal distances. So a node has the columns of a block for itself for a while, as long as nodes are
//! about equally fast, and a column goes from node to node once per epoch and node, however many tiles there
//! are. With smaller blocks, nodes combine what they learn earlier, and load each tile more often.
//!
//! In the first epoch of several nodes, columns are visited once, in a random order of each worker. Nodes
//! that begin with different blocks learn factors of their own, which do not match when they meet in a
//! column: on two nodes, the test error after one epoch was .81 instead of .78, and after five .006 larger.
//! From the second epoch on, there is no such difference.
//!
//! All workers of a node go through blocks and tiles in the same order. In different tiles they would not
//! wait for each other's cache lines, but each would learn factors of its own for a while: with two workers,
//! the test error after one epoch was .642 instead of .598, and that after six .006 larger.
//!
//! The columns of a tile are stored in a random order. An epoch visits them in this order, from a random
//! place on, so that the loader reads entries one after the other. The entries of a column are taken in steps
//! of a random length, which costs less than a shuffle.
//!
//! A process sorts and keeps only the entries of the nodes whose batches it is asked for, that is, its own.
//! It counts the entries of other nodes.

use super::arrange::{COLUMNS, ENTRIES, ROWS, SUBEPOCHS, VISITS, deal, shuffle, sort_by};
use crate::data::{Dataset, Entry};
use intendant_core::lock;
use intendant_core::random::{mix, stream};
use intendant_task::BatchAt;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};

/// Bytes of a tile's rows: a part of the second cache of a core, through which columns and entries pass as
/// well.
const TILE_BYTES: usize = 1 << 19;

/// Minimum number of entries of a column in a tile, on average. Each visit of a column copies it twice.
const RUN_ENTRIES_MIN: usize = 8;

/// Blocks of columns for each of several nodes: enough that two nodes seldom use the same block, although one
/// may be faster than another for a while. Each further block loads all tiles of a node once more per epoch:
/// with 8 instead of 4, the arithmetic of two nodes has 1.3 times as many misses of a cache of 1 MiB. With 2,
/// 8 nodes on two cores have a greater loss (`docs/performance.md`).
const BLOCKS_PER_NODE: u32 = 4;

/// Minimum number of columns of a block, on average.
const BLOCK_COLUMNS_MIN: usize = 16;

/// The number of tiles into which the rows of each node are divided, if a row takes `row_bytes`.
pub(crate) fn count(data: &Dataset, row_bytes: usize, nodes: u32) -> u32 {
    let nodes = nodes as usize;
    let rows = data.rows().len().div_ceil(nodes).saturating_mul(row_bytes).div_ceil(TILE_BYTES);
    let runs = data.train().len() / (RUN_ENTRIES_MIN * data.columns().len() * nodes).max(1);
    rows.min(runs).clamp(1, u32::MAX as usize) as u32
}

/// The number of blocks into which the columns are divided.
fn blocks(data: &Dataset, nodes: u32) -> u32 {
    let most = (data.columns().len() / BLOCK_COLUMNS_MIN).clamp(1, u32::MAX as usize) as u32;
    if nodes == 1 { 1 } else { (nodes * BLOCKS_PER_NODE).min(most) }
}

/// Tiles of rows.
#[derive(Debug)]
pub(crate) struct Tiles {
    seed: u64,
    nodes: u32,
    workers_per_node: u32,
    tiles: u32,
    blocks: u32,
    /// For each row, its node and tile, as `node * tiles + tile`.
    row_place: Vec<u32>,
    /// For each column, its block and its worker within each node, as `block * workers_per_node + worker`.
    column_place: Vec<u32>,
    /// For each worker and cell, the number of its entries.
    sizes: Vec<u32>,
    /// The sorted entries of each node.
    shares: Vec<OnceLock<Share>>,
    /// The visits of each worker. A worker's loader asks for one batch after the other, in order.
    visits: Vec<Mutex<Visit>>,
}

/// The entries of a node, by worker, cell and column. A cell is a tile in a block, `block * tiles + tile`.
/// The columns of each cell are in an order of their own.
#[derive(Debug, Default)]
struct Share {
    rows: Vec<u32>,
    values: Vec<f64>,
    /// The runs: for each column in a cell, the place of its entries; in the same order.
    runs: Vec<Run>,
    /// For each worker and cell, the first of its runs; at the end, the number of runs.
    starts: Vec<u32>,
}

/// The entries of a column in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    column: u32,
    /// The place of its first entry among all entries of the node.
    start: u32,
    len: u32,
}

/// The position of a worker.
#[derive(Debug, Default)]
struct Visit {
    /// The epoch and the batch size to which `cells` and `ends` belong.
    of: Option<(u32, usize)>,
    /// The cells in the order of their visits, and the cumulative number of batches at the end of each.
    cells: Vec<u32>,
    ends: Vec<u64>,
    /// The place of the current cell in `cells`.
    place: usize,
    /// The next batch, and the run with which it begins, unless the batch is the first of a cell.
    next: u64,
    run: usize,
    /// In an epoch without cells: the worker's runs in the order of their visits, and the cumulative number
    /// of entries at the end of each.
    runs: Vec<(u32, usize)>,
}

impl Tiles {
    pub(crate) fn new(data: &Dataset, seed: u64, (workers, nodes): (u32, u32), tiles: u32) -> Self {
        let (blocks, workers_per_node) = (blocks(data, nodes), workers / nodes);
        let row_place = deal(data.row_uses(), nodes * tiles, stream(seed, &[ROWS]));
        let column_seed = stream(seed, &[COLUMNS, 0]);
        let column_place = deal(data.column_uses(), blocks * workers_per_node, column_seed);
        let mut new = Self {
            seed,
            nodes,
            workers_per_node,
            tiles,
            blocks,
            row_place,
            column_place,
            sizes: vec![0; workers as usize * (blocks * tiles) as usize],
            shares: (0..nodes).map(|_| OnceLock::new()).collect(),
            visits: (0..workers).map(|_| Mutex::default()).collect(),
        };
        for entry in data.train() {
            let (node, cell) = new.place(entry);
            let cell = node as usize * new.cells_of_node() + cell;
            new.sizes[cell] += 1;
        }
        new
    }

    /// Cells of a worker.
    pub(super) const fn cells(&self) -> usize {
        (self.blocks * self.tiles) as usize
    }

    /// Cells of all workers of a node.
    const fn cells_of_node(&self) -> usize {
        self.workers_per_node as usize * self.cells()
    }

    /// The node of an entry, and its cell among those of all workers of the node.
    pub(super) fn place(&self, entry: &Entry) -> (u32, usize) {
        let (row, column) = (self.row_place[entry.row as usize], self.column_place[entry.column as usize]);
        let (block, worker) = (column / self.workers_per_node, column % self.workers_per_node);
        let cell = (worker * self.blocks + block) * self.tiles + row % self.tiles;
        (row / self.tiles, cell as usize)
    }

    /// The node of each row.
    pub(crate) fn row_nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.row_place.iter().map(|place| place / self.tiles)
    }

    /// The nodes whose entries are kept sorted, with the number of these entries.
    #[cfg(test)]
    pub(super) fn sorted(&self) -> Vec<(usize, usize)> {
        let shares = self.shares.iter().map(OnceLock::get).enumerate();
        shares.filter_map(|(node, share)| Some((node, share?.rows.len()))).collect()
    }

    /// Sorts the entries of a node.
    fn share(&self, data: &Dataset, node: u32) -> Share {
        let train = data.train();
        let column = |entry: u32| train[entry as usize].column;
        let cell = |entry: u32| self.place(&train[entry as usize]).1;
        let is_here = |entry: &u32| self.row_place[train[*entry as usize].row as usize] / self.tiles == node;
        let all: Vec<u32> = (0..train.len() as u32).filter(is_here).collect();
        let by_column = sort_by(&all, data.columns().len(), column);
        drop(all);
        let order = sort_by(&by_column, self.cells_of_node(), |entry| cell(entry) as u32);
        drop(by_column);
        let mut share = Share { starts: vec![0], ..Share::default() };
        (share.rows, share.values) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
        let first = node as usize * self.cells_of_node();
        let mut left = &*order;
        for number in first..first + self.cells_of_node() {
            let (here, others) = left.split_at(self.sizes[number] as usize);
            left = others;
            let mut columns: Vec<&[u32]> = here.chunk_by(|a, b| column(*a) == column(*b)).collect();
            shuffle(&mut columns, stream(self.seed, &[VISITS, number as u64]));
            for run in columns {
                let (start, len) = (share.rows.len() as u32, run.len() as u32);
                share.runs.push(Run { column: column(run[0]), start, len });
                share.rows.extend(run.iter().map(|entry| train[*entry as usize].row));
                share.values.extend(run.iter().map(|entry| train[*entry as usize].value));
            }
            share.starts.push(share.runs.len() as u32);
        }
        share
    }

    /// Entries of a worker in a cell.
    fn size(&self, worker: u32, cell: usize) -> usize {
        self.sizes[worker as usize * self.cells() + cell] as usize
    }

    /// Whether columns are visited once in this epoch.
    const fn is_by_column(&self, epoch: u32) -> bool {
        self.nodes > 1 && epoch == 0
    }

    /// Batches of a worker in an epoch.
    pub(crate) fn batches(&self, epoch: u32, worker: u32, batch: usize) -> u64 {
        if self.is_by_column(epoch) {
            let entries: usize = (0..self.cells()).map(|cell| self.size(worker, cell)).sum();
            return entries.div_ceil(batch) as u64;
        }
        (0..self.cells()).map(|cell| self.size(worker, cell).div_ceil(batch) as u64).sum()
    }

    /// Calls `each` for each column of each cell, as epochs with cells visit them: with the column, the node,
    /// the number of its entries in the cell, and the number of entries of its worker in the cell.
    pub(crate) fn visit_sizes(&self, data: &Dataset, mut each: impl FnMut(u32, u32, usize, usize)) {
        for node in 0..self.nodes {
            let sorted;
            let share = match self.shares[node as usize].get() {
                Some(share) => share,
                // The sorted entries are kept only at a node that trains them.
                None => {
                    sorted = self.share(data, node);
                    &sorted
                }
            };
            for cell in 0..self.cells_of_node() {
                let runs = share.runs(cell);
                runs.iter().for_each(|run| each(run.column, node, run.len as usize, entries(runs)));
            }
        }
    }

    /// Calls `each` with the row, the column and the value of each entry of a batch, in order.
    pub(crate) fn choose(
        &self,
        data: &Dataset,
        at: BatchAt,
        batch: usize,
        mut each: impl FnMut(u32, u32, f64),
    ) {
        let (worker, epoch) = (at.partition.worker, at.subepoch.epoch);
        let node = worker / self.workers_per_node;
        let share = self.shares[node as usize].get_or_init(|| self.share(data, node));
        let visit = &mut *lock(&self.visits[worker as usize]);
        let is_new = visit.of != Some((epoch, batch));
        if self.is_by_column(epoch) {
            if is_new {
                *visit = self.visit_by_column(share, worker, epoch, batch);
            }
            return self.choose_by_column(share, &visit.runs, at, batch, each);
        }
        if is_new {
            *visit = self.visit(worker, epoch, batch);
        }
        let begin = |place: usize| place.checked_sub(1).map_or(0, |before| visit.ends[before]);
        if !(begin(visit.place)..visit.ends[visit.place]).contains(&at.index) {
            visit.place = visit.ends.partition_point(|end| *end <= at.index);
        }
        let cell = visit.cells[visit.place] as usize;
        let all = self.size(worker, cell);
        let name = [ENTRIES, epoch.into(), worker.into(), cell as u64];
        let seed = stream(self.seed, &name);
        let runs = share.runs((worker % self.workers_per_node) as usize * self.cells() + cell);
        let start = (at.index - begin(visit.place)) as usize * batch;
        let end = (start + batch).min(all);
        // The place where the batch begins, as the visit of the cell begins at a random place.
        let mut place = (below(seed, all) + start) % all;
        let mut left = end - start;
        let place_of = |run: &Run| (run.start - runs[0].start) as usize;
        let mut run = if visit.next == at.index && start > 0 {
            visit.run
        } else {
            runs.partition_point(|run| place_of(run) <= place) - 1
        };
        while left > 0 {
            let Run { column, start: here, len } = runs[run];
            let from = place - place_of(&runs[run]);
            let to = (len as usize).min(from + left);
            let here = here as usize..here as usize + len as usize;
            let (rows, values) = (&share.rows[here.clone()], &share.values[here]);
            let order = Order::new(len, mix(seed ^ run as u64));
            order.places(from..to).for_each(|place| each(rows[place], column, values[place]));
            place += to - from;
            left -= to - from;
            if to == len as usize {
                run += 1;
                if run == runs.len() {
                    (run, place) = (0, 0);
                }
            }
        }
        (visit.next, visit.run) = (at.index + 1, run);
    }

    /// Like [`Tiles::choose`], with columns that are visited once.
    fn choose_by_column(
        &self,
        share: &Share,
        runs: &[(u32, usize)],
        at: BatchAt,
        batch: usize,
        mut each: impl FnMut(u32, u32, f64),
    ) {
        let name = [ENTRIES, at.subepoch.epoch.into(), at.partition.worker.into()];
        let seed = stream(self.seed, &name);
        let mut place = at.index as usize * batch;
        let mut left = batch;
        let first = runs.partition_point(|(_, end)| *end <= place);
        for (run, end) in &runs[first..] {
            let Run { column, start, len } = share.runs[*run as usize];
            let (start, len) = (start as usize, len as usize);
            let from = place - (end - len);
            let to = len.min(from + left);
            let (rows, values) = (&share.rows[start..start + len], &share.values[start..start + len]);
            let order = Order::new(len as u32, mix(seed ^ u64::from(*run)));
            order.places(from..to).for_each(|place| each(rows[place], column, values[place]));
            (place, left) = (place + (to - from), left - (to - from));
            if left == 0 {
                break;
            }
        }
    }

    /// The order of a worker's columns.
    fn visit_by_column(&self, share: &Share, worker: u32, epoch: u32, batch: usize) -> Visit {
        let seed = stream(self.seed, &[VISITS, epoch.into(), worker.into()]);
        let first = (worker % self.workers_per_node) as usize * self.cells();
        let runs = share.starts[first]..share.starts[first + self.cells()];
        let mut runs: Vec<(u32, usize)> = runs.map(|run| (run, 0)).collect();
        runs.sort_by_cached_key(|(run, _)| {
            let column = share.runs[*run as usize].column;
            (mix(seed ^ u64::from(column)), column)
        });
        let mut entries = 0;
        for (run, end) in &mut runs {
            entries += share.runs[*run as usize].len as usize;
            *end = entries;
        }
        Visit { of: Some((epoch, batch)), runs, ..Visit::default() }
    }

    /// The order of a worker's cells.
    fn visit(&self, worker: u32, epoch: u32, batch: usize) -> Visit {
        let mut blocks: Vec<u32> = (0..self.blocks).collect();
        shuffle(&mut blocks, stream(self.seed, &[SUBEPOCHS, epoch.into()]));
        let node = worker / self.workers_per_node;
        blocks.rotate_left((u64::from(node) * u64::from(self.blocks) / u64::from(self.nodes)) as usize);
        let tiles = |block: u32| {
            let mut tiles: Vec<u32> = (0..self.tiles).collect();
            let visit = u64::from(node) * u64::from(self.blocks) + u64::from(block);
            shuffle(&mut tiles, stream(self.seed, &[VISITS, epoch.into()]) ^ visit << 32);
            tiles.into_iter().map(move |tile| block * self.tiles + tile)
        };
        let cells: Vec<u32> = blocks.into_iter().flat_map(tiles).collect();
        let mut end = 0;
        let ends = cells.iter().map(|cell| {
            end += self.size(worker, *cell as usize).div_ceil(batch) as u64;
            end
        });
        Visit { of: Some((epoch, batch)), ends: ends.collect(), cells, ..Visit::default() }
    }
}

impl Share {
    /// The runs of a worker in a cell.
    fn runs(&self, cell: usize) -> &[Run] {
        &self.runs[self.starts[cell] as usize..self.starts[cell + 1] as usize]
    }
}

/// The number of entries in these runs of a worker in a cell.
fn entries(runs: &[Run]) -> usize {
    match (runs.first(), runs.last()) {
        (Some(first), Some(last)) => (last.start + last.len - first.start) as usize,
        _ => 0,
    }
}

/// A number below `len`, determined by a random word.
fn below(random: u64, len: usize) -> usize {
    ((u128::from(random) * len as u128) >> 64) as usize
}

/// An order of the numbers below `len`: each number is its predecessor plus `step`, modulo `len`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    first: u64,
    step: u64,
    len: u64,
}

impl Order {
    /// The order that a random word determines.
    pub(super) fn new(len: u32, mut random: u64) -> Self {
        let first = below(random, len as usize) as u64;
        loop {
            random = mix(random);
            let step = below(random, len as usize) as u32;
            if greatest_divisor(step, len) == 1 {
                return Self { first, step: step.into(), len: len.into() };
            }
        }
    }

    /// The numbers at these places.
    pub(super) fn places(self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let mut number = (self.first + range.start as u64 * self.step) % self.len;
        range.map(move |_| {
            let found = number as usize;
            number += self.step;
            number -= if number >= self.len { self.len } else { 0 };
            found
        })
    }
}

/// The greatest common divisor.
const fn greatest_divisor(mut a: u32, mut b: u32) -> u32 {
    while a > 0 {
        (a, b) = (b % a, a);
    }
    b
}
