//! Which worker trains what, for random matrices and any number of workers and nodes.

use super::*;
use crate::data::{Entry, Ids};
use intendant_core::random::mix;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A batch, with the place and the time of its training.
struct Trained {
    subepoch: Subepoch,
    worker: u32,
    entries: Vec<Entry>,
    chosen: Chosen,
}

/// A batch of a division.
fn choose(division: &Division, data: &Dataset, at: BatchAt, batch: usize) -> (Vec<Entry>, Chosen) {
    let mut entries = Vec::new();
    let each = |row, column, value| entries.push(Entry { row, column, value });
    let chosen = division.choose(data, at, batch, each);
    (entries, chosen)
}

/// A matrix of some cells; the sizes of its rows and columns differ widely.
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

/// The index of an entry of [`matrix`].
fn index(entry: &Entry) -> usize {
    entry.value as usize
}

/// All batches of an epoch, subepoch by subepoch, worker by worker.
fn epoch(
    data: &Dataset,
    division: &Division,
    epoch: u32,
    nodes: u32,
    per_node: u32,
    batch: usize,
) -> Vec<Trained> {
    let mut trained = Vec::new();
    for index in 0..division.subepochs() {
        let subepoch = Subepoch { epoch, index };
        for worker in 0..nodes * per_node {
            for index in 0..division.batches(subepoch, worker, batch) {
                let at = BatchAt { subepoch, partition: partition(worker, nodes, per_node), index };
                let (entries, chosen) = choose(division, data, at, batch);
                trained.push(Trained { subepoch, worker, entries, chosen });
            }
        }
    }
    trained
}

/// A matrix, the number of nodes, the number of workers on each, the batch size, and the seed.
fn settings() -> impl Strategy<Value = (Dataset, u32, u32, usize, u64)> {
    let sizes = (1u32..40, 1u32..20, 1usize..300, any::<u64>());
    let matrix = sizes.prop_map(|(rows, columns, entries, seed)| matrix(rows, columns, entries, seed));
    (matrix, 1u32..5, 1u32..4, 1usize..9, any::<u64>())
}

proptest! {
    #[test]
    fn every_entry_is_trained_once_in_an_epoch(
        (data, nodes, per_node, batch, seed) in settings(),
        tiles in 1u32..6,
    ) {
        for algorithm in [Algorithm::Blocks, Algorithm::Columns, Algorithm::Tiles] {
            let division = Division::new(algorithm, &data, seed, (nodes * per_node, nodes), tiles);
            prop_assert_eq!(
                matches!(division, Division::Tiles(_)),
                tiles > 1
                    && (algorithm == Algorithm::Tiles || nodes == 1 && algorithm == Algorithm::Columns)
            );
            for number in 0..2 {
                let mut times = vec![0; data.train().len()];
                for Trained { entries, .. } in epoch(&data, &division, number, nodes, per_node, batch) {
                    prop_assert!((1..=batch).contains(&entries.len()));
                    entries.iter().for_each(|entry| times[index(entry)] += 1);
                    prop_assert!(entries.iter().all(|entry| *entry == data.train()[index(entry)]));
                }
                prop_assert!(times.iter().all(|times| *times == 1), "{algorithm:?}: {times:?}");
            }
        }
    }

    /// This makes all accesses within a subepoch local.
    #[test]
    fn a_worker_has_its_rows_and_its_block_for_itself((data, nodes, per_node, batch, seed) in settings()) {
        let workers = nodes * per_node;
        let division = Division::new(Algorithm::Blocks, &data, seed, (workers, nodes), 1);
        let mut owner = BTreeMap::new();
        for worker in 0..workers {
            for row in division.rows(&data, partition(worker, nodes, per_node)) {
                prop_assert_eq!(owner.insert(row, worker), None, "row {} has two workers", row);
            }
        }
        let used_rows = data.row_uses().iter().filter(|uses| **uses > 0).count();
        prop_assert_eq!(owner.len(), used_rows, "every row with entries has an owner");
        let mut used: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
        for Trained { subepoch, worker, entries, chosen } in
            epoch(&data, &division, 1, nodes, per_node, batch)
        {
            prop_assert_eq!(chosen.opens, None);
            for entry in entries {
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

    /// So a node localizes each column once per epoch.
    #[test]
    fn a_node_visits_each_of_its_columns_once((data, nodes, per_node, batch, seed) in settings()) {
        let division = Division::new(Algorithm::Columns, &data, seed, (nodes * per_node, nodes), 1);
        let mut home = BTreeMap::new();
        for worker in 0..nodes * per_node {
            for row in division.rows(&data, partition(worker, nodes, per_node)) {
                prop_assert_eq!(home.insert(row, worker / per_node), None, "row {} is named twice", row);
            }
        }
        let mut opened = BTreeSet::new();
        let mut open: Option<(u32, u32)> = None;
        let mut visited = BTreeSet::new();
        for Trained { worker, entries, chosen, .. } in
            epoch(&data, &division, 0, nodes, per_node, batch)
        {
            if let Some(column) = chosen.opens {
                prop_assert!(opened.insert((worker / per_node, column)), "column {} is opened twice", column);
                open = Some((worker, column));
            }
            for entry in entries {
                prop_assert_eq!(open, Some((worker, entry.column)), "only the open column is trained");
                prop_assert_eq!(home[&entry.row], worker / per_node);
                visited.insert((worker / per_node, entry.column));
            }
        }
        prop_assert_eq!(opened, visited);
    }

    /// A tile's rows stay in the cache while the tile is trained, and they stay at their node. A column
    /// belongs to one worker of a node.
    #[test]
    fn workers_of_a_node_go_through_the_tiles_in_the_same_order(
        (data, nodes, per_node, batch, seed) in settings(),
        count in 2u32..6,
    ) {
        let division = Division::new(Algorithm::Tiles, &data, seed, (nodes * per_node, nodes), count);
        let Division::Tiles(tiles) = &division else { unreachable!() };
        let mut home = BTreeMap::new();
        for worker in 0..nodes * per_node {
            for row in division.rows(&data, partition(worker, nodes, per_node)) {
                prop_assert_eq!(home.insert(row, worker / per_node), None, "row {} is named twice", row);
            }
        }
        let mut orders = vec![Vec::new(); (nodes * per_node) as usize];
        let mut owners = BTreeMap::new();
        for Trained { worker, entries, chosen, .. } in epoch(&data, &division, 1, nodes, per_node, batch) {
            prop_assert_eq!(chosen.opens, None, "no column is visited in one go");
            let node = worker / per_node;
            let cells: BTreeSet<usize> =
                entries.iter().map(|entry| tiles.place(entry).1 % tiles.cells()).collect();
            prop_assert_eq!(cells.len(), 1, "a batch is of one tile and block");
            orders[worker as usize].extend(cells);
            for entry in &entries {
                prop_assert_eq!(home[&entry.row], node);
                prop_assert_eq!(*owners.entry((node, entry.column)).or_insert(worker), worker);
            }
        }
        for of_node in orders.chunks_mut(per_node as usize) {
            of_node.iter_mut().for_each(|order| order.dedup());
            for order in of_node.iter() {
                let distinct: BTreeSet<usize> = order.iter().copied().collect();
                prop_assert_eq!(distinct.len(), order.len(), "a cell is visited once");
            }
            let place = |cell| move |order: &Vec<usize>| order.iter().position(|c| *c == cell);
            for one in 0..tiles.cells() {
                for two in 0..one {
                    let before = of_node.iter().filter_map(|o| Some(place(one)(o)? < place(two)(o)?));
                    let before: BTreeSet<bool> = before.collect();
                    prop_assert!(before.len() < 2, "cells {one} and {two}: {of_node:?}");
                }
            }
        }
    }

    /// A batch is a function of its index, no matter which batches were asked for before.
    #[test]
    fn batches_of_tiles_may_be_chosen_in_any_order(
        (data, nodes, per_node, batch, seed) in settings(),
        asked in proptest::collection::vec((0u32..3, any::<u32>(), any::<u64>()), 1..20),
    ) {
        let workers = nodes * per_node;
        let new = || Division::new(Algorithm::Tiles, &data, seed, (workers, nodes), 3);
        let (division, mut expected) = (new(), BTreeMap::new());
        for number in 0..3 {
            for worker in 0..workers {
                let subepoch = Subepoch { epoch: number, index: 0 };
                for index in 0..division.batches(subepoch, worker, batch) {
                    let at = BatchAt { subepoch, partition: partition(worker, nodes, per_node), index };
                    expected.insert((number, worker, index), choose(&division, &data, at, batch));
                }
            }
        }
        let division = new();
        for (number, worker, index) in asked {
            let (worker, subepoch) = (worker % workers, Subepoch { epoch: number, index: 0 });
            let batches = division.batches(subepoch, worker, batch);
            if batches > 0 {
                let index = index % batches;
                let at = BatchAt { subepoch, partition: partition(worker, nodes, per_node), index };
                let expected = &expected[&(number, worker, index)];
                prop_assert_eq!(&choose(&division, &data, at, batch), expected);
            }
        }
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
fn epochs_of_tiles_differ_in_every_order() {
    let data = matrix(60, 5, 2000, 3);
    let division = Division::new(Algorithm::Columns, &data, 9, (1, 1), 4);
    let rows = deal(data.row_uses(), 4, stream(9, &[ROWS]));
    let order = |number| -> Vec<Entry> {
        epoch(&data, &division, number, 1, 1, 64).into_iter().flat_map(|t| t.entries).collect()
    };
    let orders: Vec<Vec<Entry>> = (0..6).map(order).collect();
    let differing = |of: &dyn Fn(&[Entry]) -> Vec<u32>| -> usize {
        orders.iter().map(|order| of(order)).collect::<BTreeSet<_>>().len()
    };
    let tiles = |order: &[Entry]| -> Vec<u32> { order.iter().map(|e| rows[e.row as usize]).collect() };
    let of_tile = |order: &[Entry]| -> Vec<Entry> {
        order.iter().copied().filter(|e| rows[e.row as usize] == 0).collect()
    };
    let columns = |order: &[Entry]| -> Vec<u32> { of_tile(order).iter().map(|e| e.column).collect() };
    let entries = |order: &[Entry]| -> Vec<u32> {
        of_tile(order).iter().filter(|e| e.column == 0).map(|e| index(e) as u32).collect()
    };
    assert!(differing(&tiles) >= 4, "orders of tiles");
    assert!(differing(&columns) >= 3, "orders of columns: from each of five on");
    assert_eq!(differing(&entries), 6, "orders of entries");
    assert_eq!(orders[0], order(0));
}

#[test]
fn steps_of_a_length_without_common_divisor_reach_every_number() {
    for len in 1..200 {
        for seed in 0..20 {
            let order = tiles::Order::new(len, mix(seed));
            let mut reached: Vec<usize> = order.places(0..len as usize).collect();
            assert_eq!(
                order.places(len as usize / 2..len as usize).next(),
                reached.get(len as usize / 2).copied()
            );
            reached.sort_unstable();
            assert!(reached.into_iter().eq(0..len as usize), "{len}");
        }
    }
}

/// If few rows fit into a cache, and rows and columns have few entries, visits of columns would be too short.
#[test]
fn large_matrices_with_enough_entries_have_tiles() {
    let on =
        |nodes, rows, columns, entries, bytes| tiles::count(&matrix(rows, columns, entries, 1), bytes, nodes);
    let count = |rows, columns, entries, bytes| on(1, rows, columns, entries, bytes);
    assert_eq!(count(1000, 10, 100_000, 512), 1);
    assert_eq!(count(2000, 10, 100_000, 512), 2);
    assert_eq!(count(2000, 10, 100_000, 4096), 16);
    assert_eq!(count(2000, 1000, 24_000, 4096), 3, "8 entries of a column in a tile");
    assert_eq!(count(2000, 1000, 2000, 4096), 1);
    // Each node has its share of rows and of entries.
    assert_eq!(on(4, 2000, 10, 100_000, 4096), 4);
    assert_eq!(on(2, 2000, 1000, 48_000, 4096), 3);
}

#[test]
fn epochs_differ_in_every_order() {
    let data = matrix(60, 30, 2000, 3);
    let blocks = Division::new(Algorithm::Blocks, &data, 9, (8, 2), 1);
    let order = |number| {
        let Division::Blocks(blocks) = &blocks else { unreachable!() };
        (0..8).map(|index| blocks.column_block(Subepoch { epoch: number, index }, 0)).collect::<Vec<_>>()
    };
    let orders: BTreeSet<Vec<u32>> = (0..6).map(order).collect();
    assert!(orders.len() >= 5, "orders of subepochs: {orders:?}");
    let columns = Division::new(Algorithm::Columns, &data, 9, (4, 2), 1);
    let visits = |number| -> (Vec<u32>, Vec<u32>) {
        let trained = epoch(&data, &columns, number, 2, 2, 1000);
        let columns = trained.iter().filter_map(|t| t.chosen.opens).collect();
        (columns, trained.into_iter().flat_map(|t| t.entries).map(|e| index(&e) as u32).collect())
    };
    let (first, second) = (visits(0), visits(1));
    assert!(first.0 != second.0 && first == visits(0), "the order of columns is the epoch's");
    // Entries of the first node's most frequent column.
    let within = |(_, entries): &(Vec<u32>, Vec<u32>)| -> Vec<u32> {
        entries.iter().copied().filter(|e| data.train()[*e as usize].column == 0).collect()
    };
    assert_ne!(within(&first), within(&second), "entries within a column are shuffled");
}

/// Nodes that visit columns in the same order would compete for them.
#[test]
fn workers_visit_columns_in_different_orders() {
    let data = matrix(200, 30, 4000, 3);
    let division = Division::new(Algorithm::Columns, &data, 9, (2, 2), 1);
    let trained = epoch(&data, &division, 0, 2, 1, 1000);
    let of = |worker| -> Vec<u32> {
        trained.iter().filter(|t| t.worker == worker).filter_map(|t| t.chosen.opens).collect()
    };
    let (one, two) = (of(0), of(1));
    assert_eq!((one.len(), two.len()), (30, 30));
    let together = one.iter().zip(&two).filter(|(a, b)| a == b).count();
    assert!(together < 8, "{together} of 30 columns are visited at the same time");
}

/// Otherwise they would compete for the columns, and every column would move back and forth once per tile.
#[test]
fn nodes_are_at_different_blocks_of_columns_and_visit_each_once() {
    const NODES: u32 = 3;
    let data = matrix(400, 600, 40_000, 3);
    let division = Division::new(Algorithm::Tiles, &data, 9, (NODES, NODES), 4);
    let Division::Tiles(tiles) = &division else { unreachable!() };
    let mut orders = Vec::new();
    for number in 1..3 {
        let mut blocks = vec![Vec::new(); NODES as usize];
        for Trained { worker, entries, .. } in epoch(&data, &division, number, NODES, 1, 100) {
            blocks[worker as usize].push(tiles.place(&entries[0]).1 / 4);
        }
        // All nodes take about equally long for a batch.
        let batches = blocks.iter().map(Vec::len).min().unwrap();
        for at in 0..batches {
            let now: BTreeSet<usize> = blocks.iter().map(|blocks| blocks[at]).collect();
            assert_eq!(now.len(), NODES as usize, "batch {at}: {now:?}");
        }
        blocks.iter_mut().for_each(|blocks| blocks.dedup());
        for blocks in &blocks {
            let visited: BTreeSet<usize> = blocks.iter().copied().collect();
            assert_eq!((visited.len(), blocks.len()), (12, 12), "{blocks:?}");
        }
        orders.push(blocks);
    }
    assert_ne!(orders[0], orders[1], "the order of blocks is the epoch's");
}

/// Otherwise nodes would learn factors of their own.
#[test]
fn in_the_first_epoch_nodes_visit_each_column_once_in_an_order_of_their_own() {
    let data = matrix(400, 60, 20_000, 3);
    let division = Division::new(Algorithm::Tiles, &data, 9, (4, 2), 4);
    let mut visits = vec![Vec::new(); 4];
    for Trained { worker, entries, .. } in epoch(&data, &division, 0, 2, 2, 50) {
        visits[worker as usize].extend(entries.iter().map(|entry| entry.column));
    }
    visits.iter_mut().for_each(|columns| columns.dedup());
    for node in visits.chunks(2) {
        let all: Vec<u32> = node.concat();
        let distinct: BTreeSet<u32> = all.iter().copied().collect();
        assert_eq!((all.len(), distinct.len()), (60, 60), "{node:?}");
    }
    let order: Vec<u32> = visits[2].iter().copied().filter(|column| visits[0].contains(column)).collect();
    assert!(order.len() > 20 && !visits[0].ends_with(&order), "{visits:?}");
    // A single node learns one set of factors, whatever the order.
    let alone = Division::new(Algorithm::Tiles, &data, 9, (1, 1), 4);
    let mut columns: Vec<u32> = epoch(&data, &alone, 0, 1, 1, 50)
        .iter()
        .flat_map(|trained| trained.entries.iter().map(|entry| entry.column))
        .collect();
    columns.dedup();
    assert!(columns.len() > 200, "{} visits", columns.len());
}

/// A node keeps the entries of its own rows only, which bounds its memory.
#[test]
fn a_process_sorts_the_entries_of_the_nodes_that_it_trains() {
    let data = matrix(400, 60, 20_000, 3);
    let division = Division::new(Algorithm::Tiles, &data, 9, (4, 2), 4);
    let Division::Tiles(tiles) = &division else { unreachable!() };
    let subepoch = Subepoch { epoch: 0, index: 0 };
    let batches: u64 = (0..4).map(|worker| division.batches(subepoch, worker, 1)).sum();
    assert_eq!(batches, 20_000);
    let mut seen = 0;
    tiles.visit_sizes(&data, |_, _, entries, _| seen += entries);
    assert_eq!((seen, tiles.sorted()), (20_000, vec![]), "counting keeps nothing");
    choose(&division, &data, BatchAt { subepoch, partition: partition(2, 2, 2), index: 0 }, 10);
    let here = (0..2).map(|worker| division.batches(subepoch, 2 + worker, 1)).sum::<u64>() as usize;
    assert_eq!(tiles.sorted(), [(1, here)]);
}
