//! How often keys are accessed in an epoch.
//!
//! A batch accesses each of its rows and columns once: the server receives a pull of distinct keys. The
//! entries of a batch differ from epoch to epoch; numbers of accesses are averages over all orders. With
//! batches of one entry, the accesses equal the uses, which are the entries of each row and column. With
//! larger batches, a column is accessed once per batch of its visit, and its rows once per entry: by its
//! accesses, no column is hot, though some are in use for a large part of the epoch. With tiles, a column is
//! accessed once per batch of each of its visits.

use crate::data::Dataset;
use crate::division::Division;
use intendant_core::Key;
use intendant_task::{Frequency, Partition, expected_batches};

/// Counts of a row or column.
#[derive(Clone, Copy, Default)]
struct Count {
    accesses: f64,
    /// The first node that accesses it.
    node: Option<u32>,
    shared: bool,
    uses: u64,
    /// Entries in the part that is being counted.
    here: u32,
}

/// Frequencies of all keys that are accessed: rows, then columns. A row is never shared; nor is a column
/// whose entries are all in the rows of one node.
pub(crate) fn frequencies(
    data: &Dataset,
    division: &Division,
    batch: usize,
    partition: Partition,
) -> Vec<Frequency> {
    let first_column = data.rows().len();
    let mut counts = vec![Count::default(); first_column + data.columns().len()];
    if let Division::Tiles(tiles) = division {
        for (row, uses) in data.row_uses().iter().enumerate() {
            (counts[row].accesses, counts[row].uses) = (f64::from(*uses), u64::from(*uses));
        }
        tiles.visit_sizes(data, |column, node, entries, all| {
            let count = &mut counts[first_column + column as usize];
            count.accesses += expected_pieces(all as u64, batch as u64, entries as u64);
            count.uses += entries as u64;
            count.shared |= *count.node.get_or_insert(node) != node;
        });
    }
    for (worker, part) in division.parts() {
        let node = worker / partition.workers_per_node();
        let keys = |entry: &u32| {
            let entry = data.train()[*entry as usize];
            [entry.row as usize, first_column + entry.column as usize]
        };
        part.iter().flat_map(keys).for_each(|key| counts[key].here += 1);
        for key in part.iter().flat_map(keys) {
            let count = &mut counts[key];
            // The count of a key is taken at its first entry, and covers all of its entries.
            let here = std::mem::take(&mut count.here).into();
            count.accesses += expected_batches(part.len() as u64, batch as u64, here);
            count.uses += here;
            count.shared |= *count.node.get_or_insert(node) != node;
        }
    }
    let frequency = |(key, count): (u64, &Count)| Frequency {
        key: Key(key),
        accesses: count.accesses,
        uses: count.uses,
        shared: count.shared,
    };
    (0..).zip(&counts).map(frequency).filter(|frequency| frequency.accesses > 0.0).collect()
}

/// The average number of pieces of `entries` successive entries of a tile, if the tile's `all` entries are
/// divided into batches. The average is over the places at which the tile may begin.
fn expected_pieces(all: u64, batch: u64, entries: u64) -> f64 {
    let batches = all.div_ceil(batch) as f64;
    // In a tile with a single column, the column follows itself.
    if entries == all { batches } else { 1.0 + (entries - 1) as f64 * batches / all as f64 }
}
