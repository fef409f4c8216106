//! The rows with the largest inner products with a vector.
//!
//! Blocks of rows are multiplied by blocks of queries in the element type. The true score of a row differs
//! from that rough one by at most a bound ([`rounding_bound`]). A row is a candidate while its upper bound is
//! not below the k-th largest lower bound of its query. At the end, the candidates are scored exactly.

use crate::product::{Rows, RowsMut, multiply_transposed};
use crate::{Table, norm, rounding_bound, score};
use intendant_core::Element;
use std::ops::Range;
use std::thread;

/// Queries of one matrix product. The scores of this many queries and a block of rows fit into the cache.
const QUERIES: usize = 128;

/// Rows of one matrix product.
const ROWS: usize = 512;

/// Minimum rows per thread: a thread takes as long to start.
const ROWS_PER_THREAD: usize = 1 << 14;

/// Candidates of a query beyond twice those that are wanted, at which the list is cut.
const CANDIDATES: usize = 256;

/// Scores that are compared at once.
const LANES: usize = 32;

/// A row that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Its number.
    pub row: u32,
    /// Its [`score()`].
    pub score: f64,
}

/// For each of `queries`, which follow each other and have as many numbers as the table has columns, the
/// `count` rows of the largest scores, best first; of equal ones, that of the lowest number. A score that is
/// not a number counts as higher than all others. The rows in `left_out`, ascending, one list for each query,
/// are not found; without lists, all rows are. Uses up to `threads` threads.
///
/// # Panics
/// If `queries` has a part of a query, there is another number of lists than queries, or the table has more
/// than 2³² rows.
#[must_use]
pub fn top<E: Element>(
    table: &Table<E>,
    queries: &[E],
    count: usize,
    left_out: &[&[u32]],
    threads: usize,
) -> Vec<Vec<Hit>> {
    let columns = table.columns();
    assert!(queries.len().is_multiple_of(columns), "{} numbers in queries of {columns}", queries.len());
    let asked = queries.len() / columns;
    assert!(left_out.is_empty() || left_out.len() == asked, "{} lists for {asked} queries", left_out.len());
    assert!(u32::try_from(table.rows()).is_ok(), "{} rows are too many", table.rows());
    let threads = threads.min(table.rows() / ROWS_PER_THREAD).max(1);
    let share = table.rows().div_ceil(threads);
    let mut shares = (0..threads).map(|at| at * share..table.rows().min((at + 1) * share));
    let search = |rows| Search { table, queries, count, left_out }.run(rows);
    // This thread takes the last share: with one thread, no other is started.
    let own = shares.next_back().unwrap_or(0..0);
    let mut found = thread::scope(|scope| {
        let others: Vec<_> = shares.map(|rows| scope.spawn(|| search(rows))).collect();
        let own = search(own);
        let others = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        others.chain([own]).collect::<Vec<_>>()
    });
    let mut merged = found.pop().unwrap_or_default();
    for share in found {
        for (hits, more) in merged.iter_mut().zip(share) {
            hits.extend(more);
            order(hits, count);
        }
    }
    merged
}

/// Sorts hits, best first, and keeps the first `count`.
fn order(hits: &mut Vec<Hit>, count: usize) {
    hits.sort_unstable_by(|a, b| {
        let by_score = b.score.partial_cmp(&a.score).unwrap_or(b.score.is_nan().cmp(&a.score.is_nan()));
        by_score.then(a.row.cmp(&b.row))
    });
    hits.truncate(count);
}

/// A number of the element type that is not above `value`; minus infinity, which is above none, if `value` is
/// no number.
fn below<E: Element>(value: f64) -> E {
    if value.is_nan() {
        return E::from_f64(f64::NEG_INFINITY);
    }
    // More than the rounding to the element type.
    E::from_f64(value - value.abs() * f64::from(f32::EPSILON) - f64::from(f32::MIN_POSITIVE))
}

/// A row that may be among the best.
#[derive(Clone, Copy)]
struct Candidate {
    row: u32,
    lower: f64,
    upper: f64,
}

struct Search<'a, E> {
    table: &'a Table<E>,
    queries: &'a [E],
    count: usize,
    left_out: &'a [&'a [u32]],
}

/// The candidates of a query, and the score that at least `count` of them reach.
struct Found {
    candidates: Vec<Candidate>,
    least: f64,
}

impl Found {
    /// Drops candidates that cannot be among the best `count`.
    fn cut(&mut self, count: usize) {
        if count == 0 || self.candidates.len() <= count {
            return;
        }
        let by_lower = |a: &Candidate, b: &Candidate| b.lower.total_cmp(&a.lower);
        let (_, last, _) = self.candidates.select_nth_unstable_by(count - 1, by_lower);
        self.least = self.least.max(last.lower);
        self.candidates.retain(|candidate| candidate.upper >= self.least);
    }
}

impl<E: Element> Search<'_, E> {
    /// The best among some rows.
    fn run(&self, rows: Range<usize>) -> Vec<Vec<Hit>> {
        let columns = self.table.columns();
        let all_asked = self.queries.len() / columns;
        let mut all = Vec::with_capacity(all_asked);
        let mut scores = vec![E::ZERO; all_asked.min(QUERIES) * rows.len().min(ROWS)];
        let norms = self.table.norms();
        for (block, queries) in self.queries.chunks(QUERIES * columns).enumerate() {
            let asked = queries.len() / columns;
            let errors: Vec<f64> = queries
                .chunks_exact(columns)
                .map(|query| norm(query) * rounding_bound::<E>(columns))
                .collect();
            let start = || Found { candidates: Vec::new(), least: f64::NEG_INFINITY };
            let mut found: Vec<Found> = (0..asked).map(|_| start()).collect();
            for first in rows.clone().step_by(ROWS) {
                let here = &self.table.values()[first * columns..rows.end.min(first + ROWS) * columns];
                let count = here.len() / columns;
                let norms = &norms[first..first + count];
                let longest = norms.iter().fold(0.0, |longest, norm| f64::max(longest, *norm));
                // `max` skips what is no number.
                let longest = if norms.iter().all(|norm| norm.is_finite()) { longest } else { f64::INFINITY };
                multiply_transposed(
                    RowsMut::new(&mut scores[..asked * count], asked, count, count),
                    Rows::new(queries, asked, columns, columns),
                    Rows::new(here, count, columns, columns),
                );
                for (at, (found, scores)) in found.iter_mut().zip(scores.chunks_exact(count)).enumerate() {
                    let left_out = self.left_out.get(block * QUERIES + at).copied().unwrap_or_default();
                    self.add(found, first, (scores, (norms, longest), errors[at]), left_out);
                }
            }
            for (query, found) in queries.chunks_exact(columns).zip(found) {
                all.push(self.finish(query, found));
            }
        }
        all
    }

    /// Adds the rows from `first` that can be among the best. `longest` is the largest of `norms`.
    fn add(
        &self,
        found: &mut Found,
        first: usize,
        (scores, (norms, longest), error): (&[E], (&[f64], f64), f64),
        left_out: &[u32],
    ) {
        let overflow = E::from_f64(f64::NEG_INFINITY);
        for (lane, (scores, norms)) in scores.chunks(LANES).zip(norms.chunks(LANES)).enumerate() {
            // Almost all rows are far from the best: one comparison in the element type refuses them, without
            // a branch for each.
            let cutoff = below(found.least - error * longest);
            let are_far = |are_far, rough: &E| are_far & (*rough < cutoff) & (*rough != overflow);
            if scores.iter().fold(true, are_far) {
                continue;
            }
            for (at, (rough, norm)) in scores.iter().zip(norms).enumerate() {
                let (rough, error) = (rough.to_f64(), error * norm);
                // A value that overflows the element type may be finite in double precision.
                let (lower, upper) = match rough.is_finite() && error.is_finite() {
                    true => (rough - error, rough + error),
                    false => (f64::NEG_INFINITY, f64::INFINITY),
                };
                let row = (first + lane * LANES + at) as u32;
                if upper >= found.least && left_out.binary_search(&row).is_err() {
                    found.candidates.push(Candidate { row, lower, upper });
                    if found.candidates.len() >= 2 * self.count + CANDIDATES {
                        found.cut(self.count);
                    }
                }
            }
        }
    }

    /// The exact scores of what is left.
    fn finish(&self, query: &[E], mut found: Found) -> Vec<Hit> {
        found.cut(self.count);
        let exact = |candidate: &Candidate| Hit {
            row: candidate.row,
            score: score(query, self.table.row(candidate.row as usize)),
        };
        let mut hits: Vec<Hit> = found.candidates.iter().map(exact).collect();
        order(&mut hits, self.count);
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::random::{stream, unit};
    use proptest::prelude::*;

    /// The definition.
    fn slow<E: Element>(table: &Table<E>, query: &[E], count: usize, left_out: &[u32]) -> Vec<Hit> {
        let rows = (0..table.rows() as u32).filter(|row| !left_out.contains(row));
        let mut hits: Vec<Hit> =
            rows.map(|row| Hit { row, score: score(query, table.row(row as usize)) }).collect();
        order(&mut hits, count);
        hits
    }

    fn numbers<E: Element>(count: usize, seed: u64, steps: f64) -> Vec<E> {
        // Few different values make ties.
        let number = |at: u64| ((unit(stream(seed, &[at])) - 0.5) * steps).round() / steps;
        (0..count as u64).map(|at| E::from_f64(number(at))).collect()
    }

    fn check<E: Element>(rows: usize, columns: usize, asked: usize, count: usize, seed: u64, steps: f64) {
        let table = Table::new(numbers::<E>(rows * columns, seed, steps), columns);
        let queries = numbers::<E>(asked * columns, seed + 1, steps);
        let out: Vec<Vec<u32>> = (0..asked as u64)
            .map(|at| {
                (0..rows as u32).filter(|row| stream(at, &[u64::from(*row)]).is_multiple_of(5)).collect()
            })
            .collect();
        let out: Vec<&[u32]> = out.iter().map(Vec::as_slice).collect();
        for threads in [1, 3] {
            let found = top(&table, &queries, count, &out, threads);
            for (at, query) in queries.chunks_exact(columns).enumerate() {
                assert_eq!(found[at], slow(&table, query, count, out[at]), "query {at}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_best_rows_are_those_of_the_definition(
            rows in 0usize..3_000, columns in 1usize..20, asked in 0usize..5, count in 0usize..400,
            seed in 0u64..1_000, steps in prop::sample::select(vec![2.0, 64.0, 1e9]),
        ) {
            check::<f32>(rows, columns, asked, count, seed, steps);
            check::<f64>(rows, columns, asked, count, seed, steps);
        }
    }

    /// The terms of each score are large and cancel, so that the matrix product knows the order only roughly.
    #[test]
    fn rows_that_rounding_puts_in_another_order_are_found() {
        let (rows, columns) = (5_000, 32);
        let mut values = numbers::<f32>(rows * columns, 7, 1e9);
        for row in values.chunks_exact_mut(columns) {
            row.iter_mut().for_each(|x| *x *= 1e3);
            let (last, others) = row.split_last_mut().expect("columns");
            *last = -others.iter().sum::<f32>();
        }
        let table = Table::new(values, columns);
        let query = vec![1.0; columns];
        let rough = |row: usize| table.row(row).iter().rev().sum::<f32>();
        let found = top(&table, &query, 20, &[], 1).remove(0);
        assert_eq!(found, slow(&table, &query, 20, &[]));
        let by_rough = found.windows(2).all(|two| rough(two[0].row as usize) >= rough(two[1].row as usize));
        assert!(!by_rough, "the test would notice nothing");
    }

    #[test]
    fn threads_find_what_one_finds() {
        check::<f32>(3 * ROWS_PER_THREAD + 5, 3, 70, 10, 3, 1e9);
    }

    #[test]
    fn values_beyond_the_element_type_and_values_that_are_no_numbers_are_found_first() {
        let table = Table::new(vec![1e30f32, 0.0, 1.0, 1.0, f32::NAN, 0.0, 2e30, 0.0], 2);
        let found = top(&table, &[1e30, 1.0], 4, &[], 1);
        let rows: Vec<u32> = found[0].iter().map(|hit| hit.row).collect();
        assert_eq!(rows, [2, 3, 0, 1]);
        assert!(found[0][1].score > 1e60, "{:?}", found[0]);
    }
}
