//! The state of a block: a caller saves it between two iterations, and restores it into another block.

use super::Block;
use crate::item::Side;
use crate::predict::{Held, Prediction};
use crate::quantity::{PREDICTION, Quantity};
use std::borrow::Cow;

impl Block {
    /// The block's values of a quantity, between two iterations: the number of its first value, and the
    /// values.
    pub fn state(&self, quantity: Quantity) -> (u64, Cow<'_, [f64]>) {
        let of_side =
            |side: Side| (&self.sides[side as usize], u64::from(self.sides[side as usize].rows.start));
        match quantity {
            Quantity::Row(side) => {
                let (part, first) = of_side(side);
                (first, Cow::Borrowed(&part.own))
            }
            Quantity::Mean(side) => {
                let (part, first) = of_side(side);
                (first, Cow::Borrowed(&part.means))
            }
            Quantity::Squares(side) => {
                let (part, first) = of_side(side);
                (first, Cow::Borrowed(&part.squares))
            }
            Quantity::Prediction(held) => {
                let numbers = self.predictions[held as usize].iter();
                let numbers = numbers.flat_map(|of| [of.current, of.mean, of.squares]).collect();
                (self.first_of(held), Cow::Owned(numbers))
            }
        }
    }

    /// Continues after `iterations` iterations. `read` gets a quantity, the number of the first value, and a
    /// slice that it fills with values from this one on. Rows of other blocks are not part of the state: the
    /// block needs them at the clock of the iteration, whatever the slack.
    ///
    /// # Errors
    /// Those of `read`; the block is then unusable.
    pub fn restore<E>(
        &mut self,
        iterations: u32,
        read: impl FnMut(Quantity, u64, &mut [f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.load(&Quantity::ALL, read)?;
        self.begin_after(iterations);
        Ok(())
    }

    /// Begins with the sample of another chain in place of initial rows.
    ///
    /// # Errors
    /// Those of `read`; the block is then unusable.
    pub fn begin_with<E>(
        &mut self,
        read: impl FnMut(Quantity, u64, &mut [f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.load(&Quantity::ALL[..Quantity::SAMPLE], read)?;
        self.begin_after(0);
        Ok(())
    }

    fn load<E>(
        &mut self,
        quantities: &[Quantity],
        mut read: impl FnMut(Quantity, u64, &mut [f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        for quantity in quantities {
            match *quantity {
                Quantity::Row(side) => {
                    let part = &mut self.sides[side as usize];
                    read(*quantity, part.rows.start.into(), &mut part.own)?;
                }
                Quantity::Mean(side) => {
                    let part = &mut self.sides[side as usize];
                    read(*quantity, part.rows.start.into(), &mut part.means)?;
                }
                Quantity::Squares(side) => {
                    let part = &mut self.sides[side as usize];
                    read(*quantity, part.rows.start.into(), &mut part.squares)?;
                }
                Quantity::Prediction(held) => {
                    let first = self.first_of(held);
                    let predictions = &mut self.predictions[held as usize];
                    let mut numbers = vec![0.0; PREDICTION * predictions.len()];
                    read(*quantity, first, &mut numbers)?;
                    let read = numbers.as_chunks::<PREDICTION>().0;
                    for (to, [current, mean, squares]) in predictions.iter_mut().zip(read) {
                        *to = Prediction { current: *current, mean: *mean, squares: *squares };
                    }
                }
            }
        }
        Ok(())
    }

    /// The number of the first held-out entry of the block.
    fn first_of(&self, held: Held) -> u64 {
        self.model.held[held as usize].places(self.sides[0].rows.clone()).start as u64
    }
}
