//! The quality of a sketch: whether its rows add up, how far its estimates are from the truth, which items
//! are the most frequent ones, and the estimates of the items of a query.
//!
//! The first worker does all of it: the largest error is not a sum, and workers can only add up sums.

use crate::config::Config;
use crate::data::{Item, Items, Stream};
use crate::estimate::Estimator;
use crate::shape::{Kind, Shape};
use hashbrown::HashTable;
use intendant_core::random::{mix, stream, unit};
use intendant_core::{Element, Key, lock};
use intendant_task::{Evaluation, Reduction, Split};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

/// An item and its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Its name.
    pub name: Vec<u8>,
    /// Its estimated count.
    pub estimate: f64,
}

/// The results of the test of a sketch that are not numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The most frequent items, in descending order of their estimates.
    pub top: Vec<Estimated>,
    /// The items of the query, in its order.
    pub query: Vec<Estimated>,
}

/// The input of evaluations, and the place of their results.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) config: Config,
    pub(crate) stream: Option<Stream>,
    pub(crate) query: Option<Stream>,
    /// Names of the candidates for heavy hitters.
    pub(crate) candidates: Mutex<BTreeSet<Vec<u8>>>,
    pub(crate) results: Mutex<Results>,
    /// True counts, once they are known; `None` if the stream could not be read.
    pub(crate) truth: OnceLock<Option<Truth>>,
}

impl Subject {
    /// The number of the item with this name; `None` if there is none.
    pub(crate) fn number(&self, name: &[u8]) -> Option<u64> {
        match self.config.items {
            Items::Integers => std::str::from_utf8(name).ok()?.parse().ok(),
            Items::Words { .. } | Items::Lines => Some(self.hash(name)),
        }
    }

    fn hash(&self, text: &[u8]) -> u64 {
        self.config.hashes.of_text(text)
    }
}

/// One worker's share of the evaluation: the first worker has all of it, the others nothing.
pub(crate) struct Check<E> {
    subject: Arc<Subject>,
    split: Split,
    is_first: bool,
    /// All cells, row by row.
    cells: Vec<E>,
    inserted: Vec<f64>,
}

impl<E: Element> Check<E> {
    pub(crate) fn new(subject: Arc<Subject>, split: Split, is_first: bool) -> Self {
        let Shape { width, depth, .. } = subject.config.shape;
        let cells = if is_first { vec![E::ZERO; width as usize * depth] } else { Vec::new() };
        Self { subject, split, is_first, cells, inserted: Vec::new() }
    }

    fn estimate(&self, x: u64) -> f64 {
        let Config { shape, hashes, .. } = &self.subject.config;
        Estimator { shape, hashes }.estimate(x, |cell| self.cells[cell].to_f64())
    }

    fn of_row(&self, row: usize) -> &[E] {
        let width = self.subject.config.shape.width as usize;
        &self.cells[row * width..][..width]
    }

    /// The sum over all rows of the difference between the row's sum and its expected sum.
    fn row_deviation(&self) -> f64 {
        let shape = &self.subject.config.shape;
        let of_row = |row: usize| {
            let sum: f64 = self.of_row(row).iter().map(|cell| cell.to_f64()).sum();
            (sum - shape.expected_sum(&self.inserted, row)).abs()
        };
        (0..shape.depth).map(of_row).sum()
    }

    /// The most frequent of the candidates.
    fn top(&self) -> Vec<Estimated> {
        let candidates = lock(&self.subject.candidates);
        let estimated = candidates.iter().filter_map(|name| {
            let estimate = self.estimate(self.subject.number(name)?);
            Some(Estimated { name: name.clone(), estimate })
        });
        let mut all: Vec<Estimated> = estimated.collect();
        all.sort_by(|a, b| b.estimate.total_cmp(&a.estimate).then_with(|| a.name.cmp(&b.name)));
        all.truncate(self.subject.config.top);
        all
    }

    /// The items of the query.
    fn query(&self) -> Vec<Estimated> {
        let Some(query) = &self.subject.query else { return Vec::new() };
        let mut all = Vec::new();
        for piece in 0..query.pieces() {
            let take = |item: Item<'_>| {
                let mut name = Vec::new();
                item.text.write(&mut name);
                all.push(Estimated { name, estimate: self.estimate(item.x) });
            };
            if !query.read_or_fail(piece, |text| self.subject.hash(text), take) {
                break;
            }
        }
        all
    }

    /// Compares estimates with true counts, if the user wants it and the stream can be read.
    fn compare(&self, sums: &mut Reduction, top: Option<&[Estimated]>) {
        let Config { shape, exact, epochs, .. } = &self.subject.config;
        let Some(stream) = self.subject.stream.as_ref().filter(|_| *exact > 0.0) else { return };
        let count = || Truth::count(stream, *exact, |text| self.subject.hash(text));
        let Some(truth) = self.subject.truth.get_or_init(count) else { return };
        let inserted = self.inserted[0];
        let passes = match self.split {
            Split::Test => f64::from(*epochs),
            // Between epochs only, because true counts of a part of the stream are not known.
            Split::Valid => (inserted / truth.total.max(1) as f64).round(),
        };
        let count = |count: u64| count as f64 * passes;
        let bound = match shape.kind {
            Kind::CountMin => inserted,
            Kind::CountSketch if *exact == 1.0 => {
                truth.items.iter().map(|(_, truth)| count(*truth).powi(2)).sum::<f64>().sqrt()
            }
            Kind::CountSketch => self.norm(),
        };
        let bound = bound * shape.kind.epsilon(shape.width);
        let (mut below, mut over, mut sum, mut largest) = (0u64, 0u64, 0.0, 0.0f64);
        for (x, truth) in &truth.items {
            let error = self.estimate(*x) - count(*truth);
            below += u64::from(error < 0.0);
            over += u64::from(error.abs() > bound);
            sum += error.abs();
            largest = largest.max(error.abs());
        }
        let items = truth.items.len().max(1) as f64;
        sums.add("quality.items", truth.items.len() as f64);
        sums.add("quality.error_bound", bound);
        sums.add("quality.error_max", largest);
        sums.add("quality.error_mean", sum / items);
        sums.add("quality.over_bound_share", over as f64 / items);
        if shape.kind == Kind::CountMin {
            sums.add("quality.underestimates", below as f64);
        }
        if let Some(top) = top.filter(|_| *exact == 1.0) {
            sums.add("quality.top_precision", truth.precision(top, |name| self.subject.number(name)));
        }
    }

    /// An estimate of ‖f‖₂: the root of the median of the sums of squares of rows
    /// [Charikar 2002].
    fn norm(&self) -> f64 {
        let squares = |row| self.of_row(row).iter().map(|cell| cell.to_f64().powi(2)).sum::<f64>();
        let mut all: Vec<f64> = (0..self.subject.config.shape.depth).map(squares).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() / 2].sqrt()
    }
}

impl<E: Element> Evaluation<E> for Check<E> {
    fn keys(&self) -> &[Key] {
        &[]
    }

    fn take(&mut self, _values: &[E]) {}

    fn range(&self) -> Range<u64> {
        if self.is_first { 0..self.subject.config.shape.blocks() + 1 } else { 0..0 }
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        let shape = &self.subject.config.shape;
        let mut rest = values;
        for key in keys {
            let is_block = *key != shape.inserted_key();
            let (value, after) = rest.split_at(if is_block { shape.block } else { shape.inserted_len() });
            rest = after;
            if is_block {
                self.cells[key.index() * shape.block..][..shape.block].copy_from_slice(value);
            } else {
                self.inserted = value.iter().map(|sum| sum.to_f64()).collect();
            }
        }
    }

    fn finish(self: Box<Self>) -> Reduction {
        let mut sums = Reduction::default();
        if !self.is_first {
            return sums;
        }
        // Each quality is a single number, so the denominator is 1.
        sums.add("quality.count", 1.0);
        sums.add("quality.inserted", self.inserted[0]);
        sums.add("quality.row_deviation", self.row_deviation());
        let mut top = None;
        if self.split == Split::Test {
            let results = Results { top: self.top(), query: self.query() };
            top = (self.subject.config.top > 0).then(|| results.top.clone());
            *lock(&self.subject.results) = results;
        }
        self.compare(&mut sums, top.as_deref());
        sums
    }
}

/// True counts.
#[derive(Debug)]
pub(crate) struct Truth {
    /// The numbers of items, and how often they occur in one pass.
    items: Vec<(u64, u64)>,
    /// The sum of all counts of one pass, those of items that are left out included.
    total: u64,
}

/// The stream of random numbers that chooses items whose counts are compared.
const SAMPLE: u64 = 0x6578_6163_742d_6974;

impl Truth {
    /// Counts a fraction of the distinct items of a stream, chosen by their numbers. `None` if the stream
    /// cannot be read.
    fn count(of: &Stream, part: f64, number: impl Fn(&[u8]) -> u64) -> Option<Self> {
        let is_chosen = |x: u64| part >= 1.0 || unit(stream(SAMPLE, &[x])) < part;
        let (mut items, mut total): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
        let mut found: HashTable<usize> = HashTable::new();
        for piece in 0..of.pieces() {
            let take = |item: Item<'_>| {
                total = total.saturating_add(item.count);
                if !is_chosen(item.x) {
                    return;
                }
                let hash = mix(item.x);
                match found.find(hash, |place| items[*place].0 == item.x) {
                    Some(place) => items[*place].1 = items[*place].1.saturating_add(item.count),
                    None => {
                        found.insert_unique(hash, items.len(), |place| mix(items[*place].0));
                        items.push((item.x, item.count));
                    }
                }
            };
            if !of.read_or_fail(piece, &number, take) {
                return None;
            }
        }
        Some(Self { items, total })
    }

    /// The fraction of these items that are among the most frequent ones: an item counts if it is no less
    /// frequent than the last of the `top.len()` most frequent items.
    fn precision(&self, top: &[Estimated], number: impl Fn(&[u8]) -> Option<u64>) -> f64 {
        if top.is_empty() {
            return 1.0;
        }
        let mut counts: Vec<u64> = self.items.iter().map(|(_, count)| *count).collect();
        counts.sort_unstable_by_key(|count| Reverse(*count));
        let least = counts.get(top.len() - 1).or(counts.last()).copied().unwrap_or(0);
        let wanted: BTreeSet<u64> = top.iter().filter_map(|item| number(&item.name)).collect();
        let truth: BTreeMap<u64, u64> =
            self.items.iter().filter(|(x, _)| wanted.contains(x)).copied().collect();
        let right = |x: &&u64| truth.get(x).is_some_and(|count| *count >= least);
        wanted.iter().filter(right).count() as f64 / top.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Options;

    fn numbers(text: &str) -> Stream {
        let options = Options { items: Items::Integers, counts: true, piece_bytes: 7 };
        Stream::memory("f", text.as_bytes().to_vec(), options)
    }

    #[test]
    fn truth_is_counted_and_sampled() {
        let stream = numbers("1\t2\n2\t1\n1\t3\n3\t4\n");
        let all = Truth::count(&stream, 1.0, |_| 0).unwrap();
        assert_eq!((all.items, all.total), (vec![(1, 5), (2, 1), (3, 4)], 10));
        let text: String = (0..2000).map(|x| format!("{x}\t1\n{x}\t1\n")).collect();
        let part = Truth::count(&numbers(&text), 0.25, |_| 0).unwrap();
        assert!((400..600).contains(&part.items.len()), "{}", part.items.len());
        assert!(part.items.iter().all(|(_, count)| *count == 2) && part.total == 4000);
        assert!(Truth::count(&numbers("1\t2\nx"), 1.0, |_| 0).is_none());
    }

    #[test]
    fn precision_is_the_part_of_the_most_frequent() {
        let truth = Truth { items: vec![(1, 9), (2, 5), (3, 5), (4, 1)], total: 20 };
        let precision = |names: &[u64]| {
            let top = names.iter().map(|x| Estimated { name: x.to_string().into_bytes(), estimate: 1.0 });
            let number = |name: &[u8]| std::str::from_utf8(name).unwrap().parse().ok();
            truth.precision(&top.collect::<Vec<_>>(), number)
        };
        assert_eq!((precision(&[1, 2]), precision(&[1, 3]), precision(&[1, 4])), (1.0, 1.0, 0.5));
        assert_eq!((precision(&[]), precision(&[7]), precision(&[1, 2, 3, 4])), (1.0, 0.0, 1.0));
    }
}
