//! Alias tables (Walker 1977, Vose 1991): they draw a number with a probability in proportion to its weight,
//! from one random number.
//!
//! Each number has a cell, and all cells are chosen with the same probability. A cell stands for its own
//! number below a threshold, and for another number, its alias, from the threshold on. A cell has only 8
//! bytes, because draws wait for little else than the cell: the cells of 100,000 words fit into the L2 cache
//! of most processors.

/// An alias table.
#[derive(Clone, Debug)]
pub(crate) struct Alias(Box<[Cell]>);

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// In units of 2⁻³².
    threshold: u32,
    alias: u32,
}

impl Alias {
    /// A table of fewer than 2³² weights. They are finite, and so is their sum, which is positive.
    pub(crate) fn new(mut weights: Vec<f64>) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        let full = |at: u32| Cell { threshold: u32::MAX, alias: at };
        let mut cells: Box<[Cell]> = (0..weights.len() as u32).map(full).collect();
        // Numbers whose weights are less than a full cell, and all others.
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|at| weights[*at as usize] < 1.0);
        // Weights are rounded, so either list may run out first. But at least one weight is at least the
        // mean, up to rounding. A remaining cell that is not small is full, up to rounding.
        let heaviest = (0..weights.len()).fold(0, |a, b| if weights[b] > weights[a] { b } else { a });
        while let Some(at) = small.pop() {
            let weight = weights[at as usize];
            let alias = large.last().copied().unwrap_or(heaviest as u32);
            // A conversion to an integer saturates.
            cells[at as usize] = Cell { threshold: (weight * 2f64.powi(32)) as u32, alias };
            weights[alias as usize] -= 1.0 - weight;
            if weights[alias as usize] < 1.0 && large.pop().is_some() {
                small.push(alias);
            }
        }
        Self(cells)
    }

    /// The number that a uniformly random word of 64 bits chooses.
    #[inline]
    pub(crate) fn draw(&self, random: u64) -> u64 {
        // The integer part of the product is the cell, its fraction the place within the cell.
        let product = u128::from(random) * self.0.len() as u128;
        let (at, place) = ((product >> 64) as usize, (product >> 32) as u32);
        let Cell { threshold, alias } = self.0[at];
        // There is no branch, because no processor could predict it. (A full cell is its own alias.)
        let own = u32::from(place < threshold).wrapping_neg();
        u64::from(at as u32 & own | alias & !own)
    }

    /// The probability of each number.
    pub(crate) fn probabilities(&self) -> Vec<f64> {
        let mut probabilities = vec![0.0; self.0.len()];
        for (at, cell) in self.0.iter().enumerate() {
            let own = f64::from(cell.threshold) / 2f64.powi(32);
            probabilities[at] += own;
            probabilities[cell.alias as usize] += 1.0 - own;
        }
        let count = self.0.len() as f64;
        probabilities.iter_mut().for_each(|probability| *probability /= count);
        probabilities
    }
}
