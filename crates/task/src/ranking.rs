//! The distinct items of a batch, and the place of each item among them.

use intendant_core::lock;
use std::sync::Mutex;

/// Finds the distinct items of batches; the number of possible items is fixed. Loaders share a `Ranking`.
///
/// Each loader at work has a table with a number per item, which is kept for the next batch. So an item costs
/// two accesses to the table, and only distinct items are sorted.
#[derive(Debug)]
pub struct Ranking {
    items: usize,
    /// Tables that no loader uses at the moment.
    spare: Mutex<Vec<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    /// For each item of the batch, first its number of occurrences, then its place; 0 for all other items.
    numbers: Vec<u32>,
    distinct: Vec<u32>,
    occurrences: Vec<u32>,
}

/// The distinct items of a batch.
#[derive(Debug)]
pub struct Ranks<'a>(&'a Table);

impl Ranking {
    /// A ranking of items from 0 to before `items`.
    #[must_use]
    pub const fn new(items: usize) -> Self {
        Self { items, spare: Mutex::new(Vec::new()) }
    }

    /// Calls `act` with the distinct items of a batch; returns the result of `act`.
    ///
    /// # Panics
    /// If an item is not below the number of items.
    pub fn rank<R>(&self, items: impl Iterator<Item = u32>, act: impl FnOnce(&Ranks<'_>) -> R) -> R {
        let spare = lock(&self.spare).pop();
        let mut table = spare.unwrap_or_else(|| Table { numbers: vec![0; self.items], ..Table::default() });
        table.fill(items);
        let result = act(&Ranks(&table));
        table.clear();
        lock(&self.spare).push(table);
        result
    }
}

impl Table {
    fn fill(&mut self, items: impl Iterator<Item = u32>) {
        let Self { numbers, distinct, occurrences } = self;
        for item in items {
            let count = &mut numbers[item as usize];
            if *count == 0 {
                distinct.push(item);
            }
            *count += 1;
        }
        distinct.sort_unstable();
        for (place, item) in (0..).zip(&*distinct) {
            occurrences.push(std::mem::replace(&mut numbers[*item as usize], place));
        }
    }

    fn clear(&mut self) {
        for item in self.distinct.drain(..) {
            self.numbers[item as usize] = 0;
        }
        self.occurrences.clear();
    }
}

impl Ranks<'_> {
    /// The distinct items, ascending.
    #[must_use]
    pub fn items(&self) -> &[u32] {
        &self.0.distinct
    }

    /// The number of occurrences of each of them in the batch, in the same order.
    #[must_use]
    pub fn occurrences(&self) -> &[u32] {
        &self.0.occurrences
    }

    /// The place of an item of the batch among the distinct ones. For an item not in the batch, any number.
    ///
    /// # Panics
    /// If the item is not below the number of items.
    #[must_use]
    #[inline]
    pub fn place(&self, item: u32) -> u32 {
        self.0.numbers[item as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Ranks one batch after the other, and one inside the other, as two loaders would.
        #[test]
        fn items_are_ranked_as_sorting_says(
            batches in proptest::collection::vec(proptest::collection::vec(0u32..30, 0..60), 1..8),
        ) {
            let ranking = Ranking::new(30);
            for pair in batches.windows(2) {
                let check = |batch: &[u32], ranks: &Ranks<'_>| {
                    let mut sorted = batch.to_vec();
                    sorted.sort_unstable();
                    let distinct: Vec<(u32, u32)> =
                        sorted.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect();
                    let found = ranks.items().iter().copied().zip(ranks.occurrences().iter().copied());
                    assert!(found.eq(distinct.iter().copied()), "{batch:?}");
                    for item in batch {
                        assert_eq!(ranks.items()[ranks.place(*item) as usize], *item);
                    }
                };
                let [outer, inner] = pair else { unreachable!("windows of two") };
                ranking.rank(outer.iter().copied(), |ranks| {
                    ranking.rank(inner.iter().copied(), |within| check(inner, within));
                    check(outer, ranks);
                });
            }
            prop_assert!(lock(&ranking.spare).len() <= 2, "tables are used again");
        }
    }
}
