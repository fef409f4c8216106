//! How divisions deal out, sort and shuffle things, and for what they use the seed.

use intendant_core::random::{mix, stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Names of the uses of the seed.
pub(super) const ROWS: u64 = 1;
pub(super) const COLUMNS: u64 = 2;
pub(super) const SUBEPOCHS: u64 = 3;
pub(super) const VISITS: u64 = 4;
pub(super) const ENTRIES: u64 = 5;

/// Distributes items of these weights evenly over `parts` parts: in descending order of weight, each item
/// goes to the lightest part. The seed determines the order of items of equal weight.
pub(super) fn deal(weights: &[u32], parts: u32, seed: u64) -> Vec<u32> {
    let mut things: Vec<u32> = (0..weights.len() as u32).collect();
    things
        .sort_by_cached_key(|thing| (Reverse(weights[*thing as usize]), stream(seed, &[u64::from(*thing)])));
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..parts).map(|part| Reverse((0, part))).collect();
    let mut dealt = vec![0; weights.len()];
    for thing in things {
        if let Some(mut least) = loads.peek_mut() {
            dealt[thing as usize] = least.0.1;
            least.0.0 += u64::from(weights[thing as usize]);
        }
    }
    dealt
}

/// Sorts entries by a number below `buckets`. Entries with the same number keep their order.
pub(super) fn sort_by(entries: &[u32], buckets: usize, bucket: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut places = vec![0u32; buckets + 1];
    for entry in entries {
        places[bucket(*entry) as usize + 1] += 1;
    }
    for i in 1..places.len() {
        places[i] += places[i - 1];
    }
    let mut sorted = vec![0; entries.len()];
    for entry in entries {
        let place = &mut places[bucket(*entry) as usize];
        sorted[*place as usize] = *entry;
        *place += 1;
    }
    sorted
}

/// Puts things into the order that belongs to a seed.
pub(super) fn shuffle<T>(things: &mut [T], seed: u64) {
    for last in (1..things.len()).rev() {
        // The high half of the product is below the number of things that are left.
        let random = mix(seed ^ last as u64);
        let other = (u128::from(random) * (last as u128 + 1)) >> 64;
        things.swap(last, other as usize);
    }
}
