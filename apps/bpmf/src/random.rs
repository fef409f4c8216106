//! Random numbers that are named instead of counted: each draw has its own generator, which follows from the
//! seed of the chain, the side, the iteration and the row. So it does not matter which thread or node draws
//! first.

use crate::Side;
use intendant_core::random::stream;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The use of random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Initial = 1,
    Hyperparameters = 2,
    Row = 3,
}

/// The generator of one draw.
pub(crate) fn generator(seed: u64, purpose: Use, side: Side, iteration: u32, row: u32) -> Pcg64Mcg {
    let name = [purpose as u64, side as u64, iteration.into(), row.into()];
    Pcg64Mcg::seed_from_u64(stream(seed, &name))
}
