//! Blocks that exchange items through a store that keeps the newest value only, in random order.

use super::*;
use crate::{Cell, Config, Quantity};
use intendant_core::random::{stream, unit};
use std::collections::BTreeMap;

const ROWS: u32 = 37;
const COLUMNS: u32 = 23;

fn cells(held_out: bool) -> impl Iterator<Item = Cell> + Clone {
    cells_of((ROWS, COLUMNS), held_out)
}

/// A matrix of rank 2 and its noise of variance 1/4; 3 of 10 cells are known, and 1 of 10 is held out.
fn cells_of((rows, columns): (u32, u32), held_out: bool) -> impl Iterator<Item = Cell> + Clone {
    let factor = |side: u64, row: u32, k: u64| 4.0 * unit(stream(side, &[row.into(), k])) - 2.0;
    let all = (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)));
    all.filter_map(move |(row, column)| {
        let word = |what: u64| stream(what, &[row.into(), column.into()]);
        let (chosen, noise) = (unit(word(7)), unit(word(8)) + unit(word(9)) + unit(word(10)) - 1.5);
        let product: f64 = (0..2).map(|k| factor(1, row, k) * factor(2, column, k)).sum();
        let is_held_out = chosen < 0.1;
        (chosen < 0.4 && is_held_out == held_out).then_some((row, column, 3.0 + product + noise))
    })
}

fn model(config: Config) -> Arc<Model> {
    let model = Model::new(config, (ROWS, COLUMNS), cells(false), cells(true), 3.0).expect("allowed");
    // Every third of the test cells is a validation cell as well.
    let watched = cells(true).filter(|(row, column, _)| (row + column) % 3 == 0);
    Arc::new(model.with_validation(watched).expect("inside"))
}

fn config() -> Config {
    Config { rank: 3, iterations: 12, burn_in: 5, alpha: 4.0, ..Config::default() }
}

/// The result of a chain, bit by bit.
#[derive(Debug, PartialEq)]
struct Outcome {
    forecasts: Vec<[u64; 2]>,
    posterior: Vec<u64>,
    /// Errors of test, training and validation entries.
    sums: [u64; 3],
}

/// Blocks with initial rows.
fn begun(model: &Arc<Model>, count: u32) -> Vec<Block> {
    (0..count).map(|index| Block::new(Arc::clone(model), index, count).expect("allowed")).collect()
}

/// Runs a chain of `count` blocks to its end.
fn run(model: &Arc<Model>, count: u32, order: u64, lazy: bool) -> (Outcome, Vec<Block>, usize) {
    let mut blocks = begun(model, count);
    let stale = go_on(model, &mut blocks, u32::MAX, order, lazy);
    assert!(blocks.iter().all(|block| block.step().is_none()), "a chain of {count} blocks hangs");
    (outcome(model, &blocks), blocks, stale)
}

/// Runs the blocks of a chain until they have completed `until` iterations. The order of steps follows from
/// `order`; a step runs when all that it needs is there. Blocks take the newest value, or keep the copy that
/// they have if it is new enough (`lazy`). Returns how many values were older than slack 0 allows.
fn go_on(model: &Model, blocks: &mut [Block], until: u32, order: u64, lazy: bool) -> usize {
    let mut store: BTreeMap<Item, (u64, Vec<f64>)> = BTreeMap::new();
    let mut copies: Vec<BTreeMap<Item, u64>> = vec![BTreeMap::new(); blocks.len()];
    let tell = |store: &mut BTreeMap<Item, (u64, Vec<f64>)>, block: &Block, produced: Produced| {
        for item in produced.items {
            let mut value = Vec::new();
            block.value(item, &mut value);
            assert_eq!(value.len(), model.words(item));
            let before = store.insert(item, (produced.clock, value));
            assert!(before.is_none_or(|(clock, _)| clock < produced.clock), "clocks grow");
        }
    };
    for block in blocks.iter() {
        tell(&mut store, block, block.begin());
    }
    let (mut scratch, mut stale) = (Scratch::new(), 0);
    let consumed: Vec<Vec<Item>> = blocks.iter().map(Block::consumed).collect();
    for turn in 0.. {
        let ready = |block: &&mut Block| {
            let has = |need: &Need| store.get(&need.item).is_some_and(|(clock, _)| *clock >= need.least());
            block.step().is_some() && block.complete() < until && block.needs().iter().all(has)
        };
        let mut ready: Vec<&mut Block> = blocks.iter_mut().filter(ready).collect();
        if ready.is_empty() {
            break;
        }
        let chosen = stream(order, &[turn]) as usize % ready.len();
        let block = &mut ready[chosen];
        let index = block.index() as usize;
        for need in block.needs() {
            assert!(consumed[index].contains(&need.item), "{:?} was not declared", need.item);
            let (clock, value) = &store[&need.item];
            let copy = copies[index].entry(need.item).or_insert(0);
            if !lazy || *copy < need.least() {
                block.put(need.item, value).expect("declared");
                *copy = *clock;
            }
            assert!(*copy >= need.least());
            stale += usize::from(*copy < need.clock);
        }
        let mut tasks = block.work().expect("all is there");
        if order % 2 == 1 {
            tasks.reverse();
        }
        tasks.into_iter().try_for_each(|task| task.run(&mut scratch)).expect("converges");
        let produced = block.finish();
        tell(&mut store, block, produced);
    }
    stale
}

/// The results of all blocks.
fn outcome(model: &Model, blocks: &[Block]) -> Outcome {
    let total = |held| model.total(blocks.iter().flat_map(|block| block.sums(held))).expect("all blocks");
    let of_test = total(Some(Held::Test));
    let forecasts = blocks.iter().flat_map(Block::forecasts);
    let posterior =
        Side::BOTH.into_iter().flat_map(|side| blocks.iter().map(move |block| block.posterior(side)));
    let posterior = posterior.flat_map(|of| of.means.into_iter().zip(of.variances));
    Outcome {
        forecasts: forecasts.map(|of| [of.mean.to_bits(), of.high.to_bits()]).collect(),
        posterior: posterior.flat_map(|(mean, variance)| [mean.to_bits(), variance.to_bits()]).collect(),
        sums: [of_test.squares, of_test.loss, total(Some(Held::Validation)).squares].map(f64::to_bits),
    }
}

#[test]
fn any_number_of_blocks_computes_the_same_bits_in_any_order() {
    let model = model(config());
    let (one, ..) = run(&model, 1, 0, false);
    assert_eq!(one.forecasts.len(), cells(true).count());
    for count in [2, 4, 7, 64] {
        for order in 0..6 {
            let (other, blocks, stale) = run(&model, count, order, order % 3 == 0);
            let differ = |a: &[u64], b: &[u64]| a.iter().zip(b).position(|(a, b)| a != b);
            assert_eq!(
                differ(&one.posterior, &other.posterior),
                None,
                "posterior of {count} blocks, order {order}"
            );
            assert!(one.forecasts == other.forecasts, "forecasts of {count} blocks, order {order}");
            assert_eq!(one.sums, other.sums, "{count} blocks, order {order}");
            assert_eq!(stale, 0);
            assert!(blocks[0].consumed().len() > 10, "something is exchanged");
        }
    }
    let seed = Config { seed: 2, ..config() };
    assert_ne!(run(&super::tests::model(seed), 2, 0, false).0, one, "another seed");
}

#[test]
fn each_item_has_one_producer_and_those_consumed_have_one() {
    let model = model(config());
    for count in [1, 3, 40, 128] {
        let blocks: Vec<Block> =
            (0..count).map(|index| Block::new(Arc::clone(&model), index, count).expect("allowed")).collect();
        let mut produced: Vec<Item> = blocks.iter().flat_map(Block::produced).collect();
        let all = produced.len();
        produced.sort_unstable();
        produced.dedup();
        assert_eq!(produced.len(), all);
        let rows = produced.iter().filter(|item| matches!(item, Item::Row(..))).count();
        assert_eq!(rows as u32, ROWS + COLUMNS);
        for block in &blocks {
            let (own, consumed) = (block.produced(), block.consumed());
            assert!(consumed.iter().all(|item| produced.binary_search(item).is_ok() && !own.contains(item)));
        }
    }
    let none = Block::new(Arc::clone(&model), 3, 3).expect_err("no such block").to_string();
    assert_eq!(none, "block 3 of 3: there can be 1 to 128 blocks, numbered from 0");
    assert!(Block::new(model, 0, 129).is_err());
}

/// The noise has a standard deviation of .5. Half of it lies within .337 of 0, so that .48 of the cells lie
/// in an interval of 50 % computed with the cell's exact mean. The bounds leave 4 standard errors for the
/// number of cells. They exclude a noise that is counted twice or not at all, and 1/alpha in place of its
/// root.
#[test]
fn held_out_cells_are_predicted_and_intervals_hold_what_they_promise() {
    const SIZE: (u32, u32) = (120, 80);
    let config = Config { iterations: 300, burn_in: 60, interval: 0.5, ..config() };
    let model = Model::new(config, SIZE, cells_of(SIZE, false), cells_of(SIZE, true), 3.0).expect("allowed");
    let (_, blocks, _) = run(&Arc::new(model), 2, 3, false);
    let total =
        blocks[0].model.total(blocks.iter().flat_map(|block| block.sums(Some(Held::Test)))).expect("all");
    let trivial: f64 = {
        let off = cells_of(SIZE, true).map(|(_, _, value)| (value - 3.0).powi(2));
        (off.sum::<f64>() / total.tested).sqrt()
    };
    assert!(total.tested > 800.0, "{}", total.tested);
    let rmse = total.rmse().expect("held out");
    assert!(rmse < 0.4 * trivial && rmse < 0.65, "{rmse}, and {trivial} without a model; the noise is .5");
    let covered = total.covered / total.tested;
    assert!((0.42..=0.56).contains(&covered), "{covered} of {} in intervals of 50 %", total.tested);
    // Twice .6745 of the noise, and an allowance for the uncertainty of the cell's mean.
    let width = total.widths / total.tested;
    assert!((0.6745..=0.9).contains(&width), "{width}");
    assert_eq!(total.examples as usize, cells_of(SIZE, false).count());
    assert!(total.loss / total.examples < 0.5, "{}", total.loss / total.examples);
}

/// Hyperparameters, and with them all rows that have entries, do not depend on rows without entries.
#[test]
fn rows_without_entries_change_nothing() {
    let chain = |rows: u32| {
        let config = Config { iterations: 8, ..config() };
        let cells = cells(false).filter(|(_, column, _)| *column > 0);
        let model = Model::new(config, (rows, COLUMNS), cells, std::iter::empty(), 3.0).expect("allowed");
        let mut block = Block::new(Arc::new(model), 0, 1).expect("allowed");
        while block.step().is_some() {
            let tasks = block.work().expect("alone");
            tasks.into_iter().try_for_each(|task| task.run(&mut Scratch::new())).expect("positive");
            block.finish();
        }
        block
    };
    let (without, with) = (chain(ROWS), chain(60 * ROWS));
    // The tree has other leaves, so that sums are rounded differently.
    for side in Side::BOTH {
        let (a, b) = (&without.part(side).hyper, &with.part(side).hyper);
        let same = a.mean.iter().chain(&a.precision).zip(b.mean.iter().chain(&b.precision));
        same.for_each(|(a, b)| assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{a} and {b}"));
    }
    let (a, b) = (without.posterior(Side::Rows).means, with.posterior(Side::Rows).means);
    assert_eq!(b.len(), 60 * a.len());
    a.iter().zip(&b).for_each(|(a, b)| assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{a} and {b}"));
    assert!(b[a.len()..].iter().any(|value| value.abs() > 1e-3), "they are drawn nevertheless");
}

#[test]
fn slack_lets_blocks_compute_with_older_rows() {
    let chain = |slack| {
        let config = Config { iterations: 300, burn_in: 60, slack, ..config() };
        let (_, blocks, stale) = run(&model(config), 4, 5, true);
        let total =
            blocks[0].model.total(blocks.iter().flat_map(|block| block.sums(Some(Held::Test)))).expect("all");
        (total.rmse().expect("held out"), stale)
    };
    let ((exact, none), (slack, stale)) = (chain(0), chain(4));
    assert_eq!(none, 0);
    assert!(stale > 1000, "{stale}");
    assert!((slack - exact).abs() < 0.1 * exact, "{exact} at slack 0, {slack} at slack 4");
}

#[test]
fn what_a_block_does_not_consume_is_refused() {
    let model = model(config());
    let mut block = Block::new(Arc::clone(&model), 1, 2).expect("allowed");
    let own = block.produced()[0];
    let said = |block: &mut Block, item, len: usize| {
        block.put(item, &vec![0.0; len]).expect_err("refused").to_string()
    };
    assert!(said(&mut block, own, 3).contains("of which it consumes 0"));
    let row = *block.consumed().iter().find(|item| matches!(item, Item::Row(..))).expect("a row");
    assert!(said(&mut block, row, 2).contains("was given 2 numbers of Row"));
    assert!(said(&mut block, Item::Statistics(Side::Rows, 1), 10).contains("consumes 0"));
    // Block 0 does not continue without the other blocks.
    let mut first = Block::new(model, 0, 2).expect("allowed");
    let missing = first.work().expect_err("statistics are missing").to_string();
    assert!(missing.contains("block 0 draws hyperparameters in iteration 1 without"), "{missing}");
}

#[test]
fn values_beyond_the_range_of_numbers_end_the_chain() {
    let huge = [(0, 0, 1e200), (1, 0, -1e200), (0, 1, 1e200)];
    let config = Config { iterations: 50, ..config() };
    let config = Config { burn_in: 5, ..config };
    let model = Model::new(config, (2, 2), huge.into_iter(), std::iter::empty(), 0.0).expect("finite");
    let mut block = Block::new(Arc::new(model), 0, 1).expect("allowed");
    let mut scratch = Scratch::new();
    let error = loop {
        assert!(block.step().is_some(), "never noticed");
        let run: Result<(), BpmfError> =
            block.work().expect("alone").into_iter().try_for_each(|task| task.run(&mut scratch));
        match run {
            Ok(()) => drop(block.finish()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BpmfError::Diverged { .. }), "{error}");
}

/// The values of a quantity, of all blocks.
fn saved(blocks: &[Block], quantity: Quantity) -> Vec<f64> {
    let (count, len) = blocks[0].model.extent(quantity);
    let mut all = vec![f64::NAN; count as usize * len];
    for block in blocks {
        let (first, values) = block.state(quantity);
        all[first as usize * len..][..values.len()].copy_from_slice(&values);
    }
    assert!(all.iter().all(|value| value.is_finite()), "{quantity:?} has all values");
    all
}

/// Blocks that continue from the state of other blocks.
fn restored(model: &Arc<Model>, from: &[Block], count: u32) -> Vec<Block> {
    let iterations = from[0].complete();
    assert!(from.iter().all(|block| block.complete() == iterations));
    let mut blocks = begun(model, count);
    for block in &mut blocks {
        let read = |quantity: Quantity, first: u64, values: &mut [f64]| -> Result<(), BpmfError> {
            let len = model.extent(quantity).1;
            values.copy_from_slice(&saved(from, quantity)[first as usize * len..][..values.len()]);
            Ok(())
        };
        block.restore(iterations, read).expect("all values are there");
        assert_eq!((block.complete(), block.begin().clock), (iterations, u64::from(iterations) + 1));
    }
    blocks
}

/// The burn-in is 5 of 12 iterations.
#[test]
fn a_chain_that_is_interrupted_goes_on_with_the_same_bits_on_any_number_of_blocks() {
    let model = model(config());
    let (one, ..) = run(&model, 1, 0, false);
    for (before, at, after) in [(1, 3, 1), (4, 5, 4), (2, 6, 7), (7, 11, 2), (1, 8, 64), (3, 12, 4)] {
        let mut blocks = begun(&model, before);
        go_on(&model, &mut blocks, at, 1, false);
        let mut blocks = restored(&model, &blocks, after);
        go_on(&model, &mut blocks, u32::MAX, 4, true);
        let mut other = outcome(&model, &blocks);
        if at == 12 {
            // The errors of the last iteration are not part of the state.
            other.sums[1] = one.sums[1];
        }
        assert!(other == one, "{before} blocks, after {at} iterations {after}");
    }
}

#[test]
fn the_clocks_of_a_chain_with_slack_go_on_after_an_interruption() {
    let model = model(Config { iterations: 40, burn_in: 10, slack: 3, ..config() });
    let mut blocks = begun(&model, 3);
    go_on(&model, &mut blocks, 20, 5, true);
    let mut blocks = restored(&model, &blocks, 4);
    // The first values are those of the interruption, and none is older.
    assert_eq!(go_on(&model, &mut blocks, 21, 5, true), 0);
    assert!(go_on(&model, &mut restored(&model, &blocks, 4), u32::MAX, 5, true) > 100);
}

#[test]
fn a_chain_can_begin_with_the_sample_of_another_one() {
    let model = model(config());
    let (_, from, _) = run(&model, 2, 0, false);
    let mut block = begun(&model, 1).remove(0);
    let read = |quantity: Quantity, first: u64, values: &mut [f64]| -> Result<(), BpmfError> {
        assert!(matches!(quantity, Quantity::Row(_)) && first == 0);
        values.copy_from_slice(&saved(&from, quantity));
        Ok(())
    };
    block.begin_with(read).expect("all values are there");
    assert_eq!((block.complete(), block.samples(), block.begin().clock), (0, 0, 1));
    for side in Side::BOTH {
        assert_eq!(block.posterior(side).means, saved(&from, Quantity::Row(side)));
    }
}

#[test]
fn parts_of_blocks_are_known_without_the_blocks() {
    let model = model(config());
    for count in [1, 3, 40] {
        for block in &begun(&model, count) {
            let index = block.index();
            assert_eq!(model.produced_by(index, count), block.produced());
            assert_eq!(model.sums_of(index, count), block.sums(None).len());
            let tests = model.held_of(Held::Test, index, count);
            assert_eq!(block.forecasts().count(), tests.len());
            for side in Side::BOTH {
                let rows = model.rows_of(side, index, count);
                let whole = block.posterior(side);
                let half = rows.start + rows.len() as u32 / 2;
                let (one, other) =
                    (block.posterior_of(side, rows.start..half), block.posterior_of(side, half..rows.end));
                assert_eq!([one.means, other.means].concat(), whole.means);
                assert_eq!([one.variances, other.variances].concat(), whole.variances);
            }
        }
    }
}
