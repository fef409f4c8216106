//! Estimates of items from the cells of a sketch.

use crate::hash::{Hashes, Row};
use crate::shape::{Kind, Shape};

/// Estimates counts from the cells of a sketch.
#[derive(Clone, Copy, Debug)]
pub struct Estimator<'a> {
    /// Its size.
    pub shape: &'a Shape,
    /// Its functions.
    pub hashes: &'a Hashes,
}

impl Estimator<'_> {
    /// The estimated count of an item; `read` returns a cell, by its place among the cells of all rows.
    #[must_use]
    pub fn estimate(&self, x: u64, read: impl Fn(usize) -> f64) -> f64 {
        let width = self.shape.width;
        let of_row = |(row, functions): (usize, &Row)| {
            let value = read(row * width as usize + functions.cell(x, width) as usize);
            // This avoids -0.
            if functions.is_negative(x) { 0.0 - value } else { value }
        };
        let rows = self.hashes.rows.iter().enumerate().map(of_row);
        match self.shape.kind {
            Kind::CountMin => rows.fold(f64::INFINITY, f64::min),
            Kind::CountSketch => {
                let mut rows: Vec<f64> = rows.collect();
                rows.sort_unstable_by(f64::total_cmp);
                let (below, above) = (rows[(rows.len() - 1) / 2], rows[rows.len() / 2]);
                // Both are the same cell if the number of rows is odd.
                below.midpoint(above)
            }
        }
    }
}
