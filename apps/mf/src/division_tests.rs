//! Who trains what, for random matrices and any number of workers and nodes.

use super::*;
use crate::data::{Entry, Ids};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A batch, with where and when it is trained.
struct Trained {
    subepoch: Subepoch,
    worker: u32,
    chosen: Chosen,
}

/// A matrix of some cells, rows and columns of very different sizes among them.
fn matrix(rows: u32, columns: u32, entries: usize, seed: u64) -> Dataset {
    let place = |index: u64, count: u32, side: u64| {
        let random = intendant_core::random::unit(stream(seed, &[side, index]));
        (random * random * f64::from(count)) as u32
    };
    let train = (0..entries as u64).map(|index| Entry {
        row: place(index, rows, 0),
        column: place(index, columns, 1),
        value: index as f64,
    });
    let ids = |count| Ids::Numbers { first: 0, count };
    Dataset::new(ids(rows), ids(columns), train.collect(), Vec::new())
}

fn partition(worker: u32, nodes: u32, per_node: u32) -> Partition {
    Partition { worker, workers: nodes * per_node, nodes, threads: 1 }
}

/// All batches of an epoch, subepoch by subepoch, worker by worker.
fn epoch(division: &Division, epoch: u32, nodes: u32, per_node: u32, batch: usize) -> Vec<Trained> {
    let mut trained = Vec::new();
    for index in 0..division.subepochs() {
        let subepoch = Subepoch { epoch, index };
        for worker in 0..nodes * per_node {
            for index in 0..division.batches(subepoch, worker, batch) {
                let at = BatchAt { subepoch, partition: partition(worker, nodes, per_node), index };
                trained.push(Trained { subepoch, worker, chosen: division.choose(at, batch) });
            }
        }
    }
    trained
}

/// A matrix, nodes, workers on each, and a batch size.
fn settings() -> impl Strategy<Value = (Dataset, u32, u32, usize, u64)> {
    let sizes = (1u32..40, 1u32..20, 1usize..300, any::<u64>());
    let matrix = sizes.prop_map(|(rows, columns, entries, seed)| matrix(rows, columns, entries, seed));
    (matrix, 1u32..5, 1u32..4, 1usize..9, any::<u64>())
}

proptest! {
    #[test]
    fn every_entry_is_trained_once_in_an_epoch((data, nodes, per_node, batch, seed) in settings()) {
        for algorithm in [Algorithm::Blocks, Algorithm::Columns] {
            let division = Division::new(algorithm, &data, seed, nodes * per_node, nodes);
            for number in 0..2 {
                let mut times = vec![0; data.train().len()];
                for Trained { chosen, .. } in epoch(&division, number, nodes, per_node, batch) {
                    prop_assert!((1..=batch).contains(&chosen.entries.len()));
                    chosen.entries.iter().for_each(|entry| times[*entry as usize] += 1);
                }
                prop_assert!(times.iter().all(|times| *times == 1), "{algorithm:?}: {times:?}");
            }
        }
    }

    /// What makes all accesses within a subepoch local.
    #[test]
    fn a_worker_has_its_rows_and_its_block_for_itself((data, nodes, per_node, batch, seed) in settings()) {
        let workers = nodes * per_node;
        let division = Division::new(Algorithm::Blocks, &data, seed, workers, nodes);
        let mut owner = BTreeMap::new();
        for worker in 0..workers {
            for row in division.rows(&data, partition(worker, nodes, per_node)) {
                prop_assert_eq!(owner.insert(row, worker), None, "row {} has two workers", row);
            }
        }
        let used_rows = data.row_uses().iter().filter(|uses| **uses > 0).count();
        prop_assert_eq!(owner.len(), used_rows, "every row with entries has an owner");
        let mut used: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
        for Trained { subepoch, worker, chosen } in epoch(&division, 1, nodes, per_node, batch) {
            prop_assert_eq!(chosen.opens, None);
            for entry in chosen.entries {
                let entry = data.train()[entry as usize];
                prop_assert_eq!(owner[&entry.row], worker);
                used.entry((subepoch.index, worker)).or_default().insert(entry.column);
            }
        }
        let mut met = BTreeSet::new();
        for index in 0..workers {
            let subepoch = Subepoch { epoch: 1, index };
            let mut taken = BTreeSet::new();
            for worker in 0..workers {
                let block = division.block(&data, subepoch, worker);
                let expected = used.remove(&(index, worker)).unwrap_or_default();
                prop_assert_eq!(&block, &expected.into_iter().collect::<Vec<_>>());
                for column in block {
                    prop_assert!(taken.insert(column), "column {} is in two blocks", column);
                }
                let Division::Blocks(blocks) = &division else { unreachable!() };
                prop_assert!(met.insert((worker, blocks.column_block(subepoch, worker))));
            }
        }
        prop_assert_eq!(met.len(), (workers * workers) as usize, "every worker meets every block");
    }

    /// What makes a node localize each column once per epoch.
    #[test]
    fn a_node_visits_each_of_its_columns_once((data, nodes, per_node, batch, seed) in settings()) {
        let division = Division::new(Algorithm::Columns, &data, seed, nodes * per_node, nodes);
        let mut home = BTreeMap::new();
        for worker in 0..nodes * per_node {
            for row in division.rows(&data, partition(worker, nodes, per_node)) {
                prop_assert_eq!(home.insert(row, worker / per_node), None, "row {} is named twice", row);
            }
        }
        let mut opened = BTreeSet::new();
        let mut open: Option<(u32, u32)> = None;
        let mut visited = BTreeSet::new();
        for Trained { worker, chosen, .. } in epoch(&division, 0, nodes, per_node, batch) {
            if let Some(column) = chosen.opens {
                prop_assert!(opened.insert((worker / per_node, column)), "column {} is opened twice", column);
                open = Some((worker, column));
            }
            for entry in chosen.entries {
                let entry = data.train()[entry as usize];
                prop_assert_eq!(open, Some((worker, entry.column)), "only the open column is trained");
                prop_assert_eq!(home[&entry.row], worker / per_node);
                visited.insert((worker / per_node, entry.column));
            }
        }
        prop_assert_eq!(opened, visited);
    }

    #[test]
    fn parts_weigh_about_the_same(weights in proptest::collection::vec(0u32..50, 0..200), parts in 1u32..9) {
        let dealt = deal(&weights, parts, 1);
        let mut loads = vec![0; parts as usize];
        for (part, weight) in dealt.iter().zip(&weights) {
            loads[*part as usize] += weight;
        }
        let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        prop_assert!(most - least <= weights.iter().copied().max().unwrap_or(0), "{:?}", loads);
    }
}

#[test]
fn what_is_heavy_is_outweighed_by_much_that_is_light() {
    let dealt = deal(&[1, 1, 1, 1, 8, 1, 1, 1, 1, 0], 2, 1);
    assert!((0..9).all(|thing| thing == 4 || dealt[thing] != dealt[4]), "{dealt:?}");
}

#[test]
fn epochs_differ_in_every_order() {
    let data = matrix(60, 30, 2000, 3);
    let blocks = Division::new(Algorithm::Blocks, &data, 9, 8, 2);
    let order = |number| {
        let Division::Blocks(blocks) = &blocks else { unreachable!() };
        (0..8).map(|index| blocks.column_block(Subepoch { epoch: number, index }, 0)).collect::<Vec<_>>()
    };
    let orders: BTreeSet<Vec<u32>> = (0..6).map(order).collect();
    assert!(orders.len() >= 5, "orders of subepochs: {orders:?}");
    let columns = Division::new(Algorithm::Columns, &data, 9, 4, 2);
    let visits = |number| -> (Vec<u32>, Vec<u32>) {
        let trained = epoch(&columns, number, 2, 2, 1000);
        let columns = trained.iter().filter_map(|t| t.chosen.opens).collect();
        (columns, trained.into_iter().flat_map(|t| t.chosen.entries).collect())
    };
    let (first, second) = (visits(0), visits(1));
    assert!(first.0 != second.0 && first == visits(0), "the order of columns is the epoch's");
    // Entries of the first node's most frequent column.
    let within = |(_, entries): &(Vec<u32>, Vec<u32>)| -> Vec<u32> {
        entries.iter().copied().filter(|e| data.train()[*e as usize].column == 0).collect()
    };
    assert_ne!(within(&first), within(&second), "entries within a column are shuffled");
}

/// Nodes that visit columns in the same order would fight for them.
#[test]
fn workers_visit_columns_in_different_orders() {
    let data = matrix(200, 30, 4000, 3);
    let division = Division::new(Algorithm::Columns, &data, 9, 2, 2);
    let trained = epoch(&division, 0, 2, 1, 1000);
    let of = |worker| -> Vec<u32> {
        trained.iter().filter(|t| t.worker == worker).filter_map(|t| t.chosen.opens).collect()
    };
    let (one, two) = (of(0), of(1));
    assert_eq!((one.len(), two.len()), (30, 30));
    let together = one.iter().zip(&two).filter(|(a, b)| a == b).count();
    assert!(together < 8, "{together} of 30 columns are visited at the same time");
}
