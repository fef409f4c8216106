//! The work of a chain in multiply-adds, for estimates of its run time.

use super::Model;
use crate::item::{Item, Side};

impl Model {
    /// Multiply-adds that it takes to draw an item, as if the chain had `rank` factors.
    ///
    /// - A row with n entries: n·K(K+1)/2 for the products of its entries and n·K for their weighted sum,
    ///   K³/6 for the factor of the precision, K² for two triangular systems, K(K+1)/2 for the statistics; of
    ///   a row of U also n·K for the training error.
    /// - Statistics: K(K+1)/2 to add a leaf to its neighbour.
    /// - Hyperparameters: K³/6 for each of the factors of the scale matrix and of the drawn precision, K³/3
    ///   for the inverse, K³/6 for the product of the drawn factor with its transpose, and one addition per
    ///   pair of blocks.
    ///
    /// # Panics
    /// If the model has no such item.
    pub fn multiply_adds(&self, item: Item, rank: u64) -> u64 {
        let triangle = rank * (rank + 1) / 2;
        match item {
            Item::Row(side, row) => {
                let entries = self.side(side).entries.of(row).0.len() as u64;
                let errors = if side == Side::Rows { entries * rank } else { 0 };
                entries * (triangle + rank) + rank.pow(3) / 6 + rank * rank + triangle + errors
            }
            Item::Statistics(..) => triangle,
            Item::Hyperparameters(_) => 5 * rank.pow(3) / 6,
        }
    }

    /// Held-out entries of a row of U, each of which takes K multiply-adds to predict.
    ///
    /// # Panics
    /// If the model has no such row.
    pub fn tested_of(&self, row: u32) -> usize {
        self.held.iter().map(|held| held.of(row).0.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn work_grows_with_entries_and_rank() {
        let cells = [(0, 0, 1.0), (0, 1, 2.0), (1, 1, 3.0)];
        let test = [(0, 2, 1.0)];
        let model = Model::new(Config::default(), (3, 3), cells.into_iter(), test.into_iter(), 0.0);
        let model = model.expect("allowed");
        // K = 2: a triangle of 3, K³/6 = 1.
        let of = |item| model.multiply_adds(item, 2);
        assert_eq!(of(Item::Row(Side::Columns, 1)), 2 * (3 + 2) + 1 + 4 + 3);
        assert_eq!(of(Item::Row(Side::Rows, 2)), 1 + 4 + 3);
        assert_eq!(of(Item::Row(Side::Rows, 0)), of(Item::Row(Side::Columns, 1)) + 2 * 2);
        assert_eq!((model.tested_of(0), model.tested_of(1)), (1, 0));
        let cubic = model.multiply_adds(Item::Hyperparameters(Side::Rows), 128) as f64;
        let small = model.multiply_adds(Item::Hyperparameters(Side::Rows), 64) as f64;
        assert!((cubic / small - 8.0).abs() < 0.01);
    }
}
