//! Tile by tile: the order of [`super::Algorithm::Columns`] on one node, if its rows do not fit into the
//! cache of a core.
//!
//! Rows are cut into tiles that fit. A worker goes through the tiles in a random order, and in each tile
//! through the entries column by column. So a row comes from memory once per epoch, not once per entry.
//! Nothing has to be localized on one node, so no column must be visited in one go.
//!
//! All workers go through the tiles in the same order. In different tiles they would not wait for each
//! other's cache lines, but each would learn factors of its own for a while: with two workers, the test error
//! after one epoch was .642 instead of .598, and that after six .006 larger.
//!
//! The columns of a tile are stored in a random order. An epoch takes them in this order, from a random place
//! on, so that the loader reads entries one after the other. The entries of a column are taken in steps of a
//! random length, for less than a shuffle costs.

use super::{COLUMNS, ENTRIES, ROWS, VISITS, deal, shuffle, sort_by};
use crate::data::{Dataset, Entry};
use intendant_core::lock;
use intendant_core::random::{mix, stream};
use intendant_task::BatchAt;
use std::ops::Range;
use std::sync::Mutex;

/// Bytes of a tile's rows: a part of the second cache of a core, which columns and entries pass through.
const TILE_BYTES: usize = 1 << 19;

/// Entries of a column in a tile, on average, at least. Each visit of a column copies it twice.
const RUN_ENTRIES_MIN: usize = 8;

/// Into how many tiles the rows are cut, if each takes `row_bytes`.
pub(crate) fn count(data: &Dataset, row_bytes: usize) -> u32 {
    let rows = data.rows().len().saturating_mul(row_bytes).div_ceil(TILE_BYTES);
    let runs = data.train().len() / (RUN_ENTRIES_MIN * data.columns().len()).max(1);
    rows.min(runs).clamp(1, u32::MAX as usize) as u32
}

/// Tiles of rows.
#[derive(Debug)]
pub(crate) struct Tiles {
    seed: u64,
    tiles: u32,
    workers: u32,
    /// Of the entries, by worker, tile and column: rows and values. Each tile has its columns in an order of
    /// its own.
    rows: Vec<u32>,
    values: Vec<f64>,
    /// The entries of a column in a tile, in the same order.
    runs: Vec<Run>,
    /// By worker and tile: the first of its runs; then the number of runs.
    starts: Vec<u32>,
    /// What each worker visits. A worker's loader asks for one batch after the other, in order.
    visits: Vec<Mutex<Visit>>,
}

/// The entries of a column in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    column: u32,
    /// Where its entries start among all entries.
    start: u32,
    len: u32,
}

/// Where a worker is.
#[derive(Debug, Default)]
struct Visit {
    /// Epoch and size of batches that `tiles` and `ends` are for.
    of: Option<(u32, usize)>,
    /// The tiles in the order of their visits, and the batches up to the end of each.
    tiles: Vec<u32>,
    ends: Vec<u64>,
    /// The place in `tiles` of the current one.
    place: usize,
    /// The next batch, and the run with which it begins, unless it is the first of a tile.
    next: u64,
    run: usize,
}

impl Tiles {
    pub(crate) fn new(data: &Dataset, seed: u64, workers: u32, tiles: u32) -> Self {
        let tile = deal(data.row_uses(), tiles, stream(seed, &[ROWS]));
        let worker = deal(data.column_uses(), workers, stream(seed, &[COLUMNS, 0]));
        let train = data.train();
        let of = |entry: u32| {
            let Entry { row, column, .. } = train[entry as usize];
            (worker[column as usize], tile[row as usize], column)
        };
        let all: Vec<u32> = (0..train.len() as u32).collect();
        let by_column = sort_by(&all, data.columns().len(), |entry| of(entry).2);
        drop(all);
        let by_tile = sort_by(&by_column, tiles as usize, |entry| of(entry).1);
        drop(by_column);
        let order = sort_by(&by_tile, workers as usize, |entry| of(entry).0);
        drop(by_tile);
        let (mut rows, mut values) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
        let (mut runs, mut starts) = (Vec::new(), vec![0]);
        let mut groups = order.chunk_by(|a, b| (of(*a).0, of(*a).1) == (of(*b).0, of(*b).1)).peekable();
        for number in 0..workers * tiles {
            let is_this = |group: &&[u32]| of(group[0]).0 * tiles + of(group[0]).1 == number;
            let group = groups.next_if(is_this).unwrap_or_default();
            let mut columns: Vec<&[u32]> = group.chunk_by(|a, b| of(*a).2 == of(*b).2).collect();
            shuffle(&mut columns, stream(seed, &[VISITS, number.into()]));
            for run in columns {
                runs.push(Run { column: of(run[0]).2, start: rows.len() as u32, len: run.len() as u32 });
                rows.extend(run.iter().map(|entry| train[*entry as usize].row));
                values.extend(run.iter().map(|entry| train[*entry as usize].value));
            }
            starts.push(runs.len() as u32);
        }
        let visits = (0..workers).map(|_| Mutex::default()).collect();
        Self { seed, tiles, workers, rows, values, runs, starts, visits }
    }

    /// The runs of a worker in a tile.
    fn runs(&self, worker: u32, tile: u32) -> &[Run] {
        let at = worker as usize * self.tiles as usize + tile as usize;
        &self.runs[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// Batches of a worker in an epoch.
    pub(crate) fn batches(&self, worker: u32, batch: usize) -> u64 {
        (0..self.tiles).map(|tile| entries(self.runs(worker, tile)).div_ceil(batch) as u64).sum()
    }

    /// For each column of each tile: the column, its entries in the tile, and those of its worker in the
    /// tile.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u32, usize, usize)> + '_ {
        let pairs = (0..self.workers).flat_map(|worker| (0..self.tiles).map(move |tile| (worker, tile)));
        pairs.flat_map(|(worker, tile)| {
            let runs = self.runs(worker, tile);
            runs.iter().map(move |run| (run.column, run.len as usize, entries(runs)))
        })
    }

    /// The entries of a batch.
    pub(crate) fn choose(&self, at: BatchAt, batch: usize) -> Vec<Entry> {
        let (worker, epoch) = (at.partition.worker, at.subepoch.epoch);
        let visit = &mut *lock(&self.visits[worker as usize]);
        if visit.of != Some((epoch, batch)) {
            *visit = self.visit(worker, epoch, batch);
        }
        let begin = |place: usize| place.checked_sub(1).map_or(0, |before| visit.ends[before]);
        if !(begin(visit.place)..visit.ends[visit.place]).contains(&at.index) {
            visit.place = visit.ends.partition_point(|end| *end <= at.index);
        }
        let tile = visit.tiles[visit.place];
        let runs = self.runs(worker, tile);
        let all = entries(runs);
        let name = [ENTRIES, epoch.into(), worker.into(), tile.into()];
        let seed = stream(self.seed, &name);
        let start = (at.index - begin(visit.place)) as usize * batch;
        let end = (start + batch).min(all);
        // Where the batch begins, if the visit of the tile begins at a random place.
        let mut place = (below(seed, all) + start) % all;
        let mut chosen = Vec::with_capacity(end - start);
        let place_of = |run: &Run| (run.start - runs[0].start) as usize;
        let mut run = if visit.next == at.index && start > 0 {
            visit.run
        } else {
            runs.partition_point(|run| place_of(run) <= place) - 1
        };
        while start + chosen.len() < end {
            let Run { column, start: here, len } = runs[run];
            let from = place - place_of(&runs[run]);
            let to = (len as usize).min(from + end - start - chosen.len());
            let order = Order::new(len, mix(seed ^ run as u64));
            chosen.extend(order.places(from..to).map(|place| {
                let at = here as usize + place;
                Entry { row: self.rows[at], column, value: self.values[at] }
            }));
            place += to - from;
            if to == len as usize {
                run += 1;
                if run == runs.len() {
                    (run, place) = (0, 0);
                }
            }
        }
        (visit.next, visit.run) = (at.index + 1, run);
        chosen
    }

    /// The order of a worker's tiles.
    fn visit(&self, worker: u32, epoch: u32, batch: usize) -> Visit {
        let mut tiles: Vec<u32> = (0..self.tiles).collect();
        shuffle(&mut tiles, stream(self.seed, &[VISITS, epoch.into()]));
        let mut end = 0;
        let ends = tiles.iter().map(|tile| {
            end += entries(self.runs(worker, *tile)).div_ceil(batch) as u64;
            end
        });
        Visit { of: Some((epoch, batch)), ends: ends.collect(), tiles, ..Visit::default() }
    }
}

/// The entries of the runs of a worker in a tile.
fn entries(runs: &[Run]) -> usize {
    match (runs.first(), runs.last()) {
        (Some(first), Some(last)) => (last.start + last.len - first.start) as usize,
        _ => 0,
    }
}

/// A number below `len` that belongs to a random word.
fn below(random: u64, len: usize) -> usize {
    ((u128::from(random) * len as u128) >> 64) as usize
}

/// An order of the numbers below `len`: each is the one before and `step`, modulo `len`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    first: u64,
    step: u64,
    len: u64,
}

impl Order {
    /// The order that belongs to a random word.
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
