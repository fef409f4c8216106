//! The task by itself: its steps against a naive formula, its keys, its digest, its learning rate.

use super::*;
use crate::Algorithm;
use crate::data::{Entry, Ids};
use intendant_task::{Driver, Event, Loader, LoaderEvent, LoaderOp, Op, PlainRows, Schedule};
use proptest::prelude::*;
use std::convert::Infallible;

pub(super) fn ids(count: u32) -> Ids {
    Ids::Numbers { first: 0, count }
}

/// Row 5 and column 4 have no training entries.
pub(super) fn data() -> Arc<Dataset> {
    let cell = |i: u32| Entry { row: i * 7 % 5, column: i * 3 % 4, value: f64::from(i % 6) - 1.0 };
    let train = (0..37).map(cell).collect();
    let test = vec![
        Entry { row: 5, column: 0, value: 2.0 },
        Entry { row: 0, column: 1, value: 1.0 },
        Entry { row: 2, column: 4, value: -1.0 },
    ];
    Arc::new(Dataset::new(ids(6), ids(5), train, test))
}

pub(super) fn config() -> Config {
    Config {
        rank: 3,
        bias: true,
        algorithm: Algorithm::Columns,
        optimizer: Optimizer::AdaGrad,
        batch: 4,
        learning_rate: 0.1,
        bold_driver: false,
        l2: Some(0.5),
        l2_bias: Some(0.25),
        l2_scope: Scope::Key,
        init_scale: 0.3,
        seed: 1,
    }
}

fn configs() -> impl Iterator<Item = Config> {
    let optimizers = [Optimizer::Sgd, Optimizer::AdaGrad, Optimizer::RowAdaGrad];
    let all = optimizers.into_iter().flat_map(|optimizer| {
        [(true, Scope::Key), (false, Scope::Use)].map(|(bias, l2_scope)| (optimizer, bias, l2_scope))
    });
    all.map(|(optimizer, bias, l2_scope)| Config { optimizer, bias, l2_scope, ..config() })
}

/// The initial model.
fn initial(task: &Mf<f64>) -> Vec<Vec<f64>> {
    let model = task.model();
    let value = |key| {
        let mut value = vec![0.0; model.len(Key(key))];
        (model.init)(Key(key), &mut value);
        value
    };
    (0..model.keys()).map(value).collect()
}

/// Trains `epochs` epochs with a single worker on plain memory; returns the model, the losses and the test
/// sums.
fn train(config: Config, epochs: u32) -> (Vec<Vec<f64>>, Vec<f64>, Reduction) {
    let task = Arc::new(Mf::<f64>::new(data(), config).unwrap());
    let mut values = initial(&task);
    let (alone, schedule) = (Partition::alone(), Schedule::epochs(epochs));
    let mut loader = Loader::new(Arc::clone(&task), alone, &schedule);
    let mut driver = Driver::new(Arc::clone(&task), alone, schedule);
    let mut event = Event::Start;
    loop {
        event = match driver.step(event).unwrap() {
            Op::NextBatch => {
                assert_eq!(loader.step(LoaderEvent::Start), LoaderOp::Deliver);
                Event::Batch(loader.take())
            }
            Op::Pull => {
                let (keys, pulled) = driver.pull_buffers();
                let all: Vec<f64> = keys.iter().flat_map(|key| values[key.index()].clone()).collect();
                pulled.copy_from_slice(&all);
                Event::Done
            }
            Op::Train => {
                let trained = driver.train(|keys, act| {
                    assert!(act(&mut PlainRows { keys, values: &mut values }));
                    Ok::<(), Infallible>(())
                });
                trained.unwrap();
                Event::Done
            }
            Op::Reduce => Event::Reduced(driver.reduction().clone()),
            Op::Done => break,
            // A single worker has nothing else to do.
            Op::Localize { .. }
            | Op::Barrier
            | Op::PullSample
            | Op::Push
            | Op::Compute(_)
            | Op::AdvanceClock
            | Op::Meet
            | Op::Synchronize
            | Op::Flush
            | Op::Quiesce
            | Op::Snapshot(_) => Event::Done,
        };
    }
    let combined = driver.combined();
    let losses = combined[..epochs as usize].iter().map(|epoch| epoch.get("loss")).collect();
    (values, losses, combined[epochs as usize].clone())
}

/// The same training, computed naively, entry by entry in the task's order.
fn train_naively(config: &Config, epochs: u32) -> (Vec<Vec<f64>>, Vec<f64>) {
    let task = Mf::<f64>::new(data(), config.clone()).unwrap();
    let data = task.data();
    let mut values = initial(&task);
    let (k, adagrad) = (config.rank, config.optimizer == Optimizer::AdaGrad);
    let parameters = k + usize::from(config.bias);
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let mut loss = 0.0;
        for index in 0..task.batches(Subepoch { epoch, index: 0 }, Partition::alone()) {
            let at = BatchAt::alone(epoch, index);
            let mut entries = Vec::new();
            let each = |row, column, value| entries.push(Entry { row, column, value });
            task.division(Partition::alone()).choose(data, at, config.batch, each);
            for Entry { row, column, value } in entries {
                let (r, c) = (values[row as usize].clone(), values[6 + column as usize].clone());
                let product: f64 = (0..k).map(|i| r[i] * c[i]).sum();
                let error = value - if config.bias { data.mean() + r[k] + c[k] + product } else { product };
                loss += error * error;
                let uses = [data.row_uses()[row as usize], data.column_uses()[column as usize]];
                let share = |side: usize| match config.l2_scope {
                    Scope::Key => 1.0 / f64::from(uses[side]),
                    Scope::Use => 1.0,
                };
                if config.optimizer == Optimizer::RowAdaGrad {
                    let keys = [row as usize, 6 + column as usize];
                    step_by_row(config, error, [&r, &c], [share(0), share(1)], keys, &mut values);
                    continue;
                }
                for i in 0..parameters {
                    let (of_row, of_column, l2) = if i < k {
                        (c[i], r[i], config.l2.unwrap())
                    } else {
                        (1.0, 1.0, config.l2_bias.unwrap())
                    };
                    for (side, other, mine, key) in
                        [(0, of_row, &r, row as usize), (1, of_column, &c, 6 + column as usize)]
                    {
                        let gradient = -error * other + l2 * share(side) * mine[i];
                        let mut step = config.learning_rate * gradient;
                        if adagrad {
                            values[key][parameters + i] += gradient * gradient;
                            step /= (values[key][parameters + i] + 1e-10).sqrt();
                        }
                        values[key][i] -= step;
                    }
                }
            }
        }
        losses.push(loss);
    }
    (values, losses)
}

/// A step with accumulators per row, computed naively.
fn step_by_row(
    config: &Config,
    error: f64,
    [r, c]: [&[f64]; 2],
    shares: [f64; 2],
    keys: [usize; 2],
    values: &mut [Vec<f64>],
) {
    let (k, biases) = (config.rank, usize::from(config.bias));
    let gradient = |own: &[f64], other: &[f64], share: f64| -> Vec<f64> {
        let factors = (0..k).map(|i| -error * other[i] + config.l2.unwrap() * share * own[i]);
        let bias = (k..k + biases).map(|i| -error + config.l2_bias.unwrap() * share * own[i]);
        factors.chain(bias).collect()
    };
    let gradients = [gradient(r, c, shares[0]), gradient(c, r, shares[1])];
    let mean = |gradient: &[f64]| gradient.iter().map(|g| g * g).sum::<f64>() / gradient.len().max(1) as f64;
    // Of factors and biases, by side; without biases, the last place is unused.
    let squares = gradients.each_ref().map(|g| [mean(&g[..k]), mean(&g[k..])]);
    let sums = [r, c].map(|value| [value[k + biases], if biases > 0 { value[k + 2] } else { 0.0 }]);
    let parts = 1 + biases;
    let is_small = (0..2).all(|side| (0..parts).all(|part| squares[side][part] <= sums[side][part]));
    for (side, key) in keys.into_iter().enumerate() {
        for part in 0..parts {
            let after = sums[side][part] + squares[side][part];
            let root = (if is_small { sums[side][part] } else { after } + 1e-10).sqrt();
            for i in if part == 0 { 0..k } else { k..k + 1 } {
                values[key][i] -= config.learning_rate * gradients[side][i] / root;
            }
            values[key][k + biases + part] = after;
        }
    }
}

#[track_caller]
fn close(one: &[Vec<f64>], two: &[Vec<f64>]) {
    for (key, (one, two)) in one.iter().zip(two).enumerate() {
        for (a, b) in one.iter().zip(two) {
            assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "key {key}: {one:?} and {two:?}");
        }
    }
}

#[test]
fn training_is_sequential_gradient_descent_whatever_the_batch() {
    for config in configs() {
        for algorithm in [Algorithm::Columns, Algorithm::Tiles, Algorithm::Blocks] {
            for batch in [1, 4, 100] {
                let config = Config { algorithm, batch, ..config.clone() };
                let (naive, losses) = train_naively(&config, 3);
                let (values, trained, _) = train(config, 3);
                close(&values, &naive);
                close(&[trained], &[losses]);
            }
        }
    }
}

#[test]
fn training_lowers_the_loss() {
    for config in configs() {
        let (_, losses, _) = train(config, 30);
        assert!(losses[29] < 0.8 * losses[0], "{losses:?}");
    }
}

#[test]
fn what_is_never_trained_predicts_nothing() {
    for config in configs() {
        let (bias, rank) = (config.bias, config.rank);
        let (values, _, test) = train(config, 5);
        assert!([5, 10].iter().all(|key| values[*key].iter().all(|x| *x == 0.0)));
        assert!([0, 4, 6, 9].iter().all(|key: &usize| values[*key][..rank].iter().all(|x| *x != 0.0)));
        let predict = |row: usize, column: usize| -> f64 {
            let (row, column) = (&values[row], &values[6 + column]);
            let product: f64 = (0..rank).map(|i| row[i] * column[i]).sum();
            if bias { data().mean() + row[rank] + column[rank] + product } else { product }
        };
        let errors = [2.0 - predict(5, 0), 1.0 - predict(0, 1), -1.0 - predict(2, 4)];
        assert_eq!(test.get("quality.count"), 3.0);
        let squares: f64 = errors.iter().map(|e| e * e).sum();
        let sizes: f64 = errors.iter().map(|e| e.abs()).sum();
        assert!((test.get("quality.rmse^2") - squares).abs() < 1e-9);
        assert!((test.get("quality.mae") - sizes).abs() < 1e-9);
    }
}

fn prepared(task: &Mf<f64>, nodes: u32, per_node: u32, epoch: u32) -> Vec<(Partition, Prepared<Batch>)> {
    let workers = nodes * per_node;
    let partition = |worker| Partition { worker, workers, nodes, threads: 1 };
    let mut all = Vec::new();
    for index in 0..task.subepochs(epoch, partition(0)) {
        let subepoch = Subepoch { epoch, index };
        for partition in (0..workers).map(partition) {
            let batches = 0..task.batches(subepoch, partition);
            all.extend(
                batches.map(|index| (partition, task.prepare(BatchAt { subepoch, partition, index }))),
            );
        }
    }
    all
}

proptest! {
    #[test]
    fn the_digest_depends_on_neither_workers_nor_algorithm(nodes in 1u32..4, per_node in 1u32..8, batch in 1usize..9) {
        let digest = |algorithm, nodes, per_node, batch, epoch| {
            let task = Mf::<f64>::new(data(), Config { algorithm, batch, ..config() }).unwrap();
            let digests = prepared(&task, nodes, per_node, epoch).into_iter().map(|(_, p)| p.digest);
            digests.fold(0u64, u64::wrapping_add)
        };
        let alone = digest(Algorithm::Columns, 1, 1, 1, 0);
        for algorithm in [Algorithm::Columns, Algorithm::Tiles, Algorithm::Blocks] {
            prop_assert_eq!(digest(algorithm, nodes, per_node, batch, 0), alone);
            prop_assert_ne!(digest(algorithm, nodes, per_node, batch, 1), alone, "epochs differ");
        }
    }

    /// This includes more workers than there are rows or columns.
    #[test]
    fn keys_are_those_of_the_entries(nodes in 1u32..4, per_node in 1u32..8) {
        for algorithm in [Algorithm::Columns, Algorithm::Tiles, Algorithm::Blocks] {
            let task = Mf::<f64>::new(data(), Config { algorithm, ..config() }).unwrap();
            let (mut opened, mut used) = (Vec::new(), Vec::new());
            for (partition, prepared) in prepared(&task, nodes, per_node, 0) {
                let residents: Vec<Key> = (0..per_node)
                    .map(|i| Partition { worker: partition.node() * per_node + i, ..partition })
                    .flat_map(|partition| task.residents(partition))
                    .collect();
                let keys = prepared.keys.len();
                let (rows, columns) = prepared.keys.split_at(prepared.batch.rows);
                prop_assert!(rows.iter().all(|key| residents.contains(key)), "rows are at their node");
                prop_assert!(columns.iter().all(|key| (6..10).contains(&key.0)));
                let examples = &prepared.batch.examples;
                prop_assert!(examples.iter().all(|e| (e.row as usize) < rows.len()));
                let runs = &prepared.batch.runs;
                prop_assert!(runs.iter().all(|run| (rows.len()..keys).contains(&(run.column as usize))));
                prop_assert_eq!(runs.last().map(|run| run.end), Some(examples.len()));
                match algorithm {
                    Algorithm::Blocks => prop_assert_eq!(&prepared.near, &[]),
                    // The matrix is too small for several tiles.
                    Algorithm::Columns | Algorithm::Tiles => {
                        prop_assert_eq!(columns.len(), 1, "one column at a time");
                        prop_assert!(prepared.near.iter().all(|key| columns.contains(key)));
                        used.push((partition.node(), columns[0]));
                        opened.extend(prepared.near.iter().map(|key| (partition.node(), *key)));
                    }
                }
            }
            let all = opened.len();
            opened.sort_unstable();
            opened.dedup();
            prop_assert_eq!(opened.len(), all, "each column is localized once per node");
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(opened, used, "and none is forgotten");
        }
    }
}

#[test]
fn the_bold_driver_changes_the_rate_equally_for_all() {
    let config = Config { bold_driver: true, optimizer: Optimizer::Sgd, ..config() };
    let task = Mf::<f64>::new(data(), config.clone()).unwrap();
    let steady = Mf::<f64>::new(data(), Config { bold_driver: false, ..config }).unwrap();
    let (mut scratch, mut other) = (task.scratch(), steady.scratch());
    let mut rates = Vec::new();
    for loss in [9.0, 8.0, 7.0, 7.0, 7.5, 6.0] {
        let mut combined = Reduction::default();
        combined.add("loss", loss);
        task.epoch_ended(&mut scratch, &combined);
        steady.epoch_ended(&mut other, &combined);
        rates.push(scratch.rate);
        assert_eq!(other.rate, 0.1);
    }
    let bolder = 1.05 * 0.1;
    let expected = [0.1, bolder, 1.05 * bolder, 0.525 * bolder, 0.2625 * bolder, 0.275625 * bolder];
    assert!(rates.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{rates:?}");
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let refused = |change: fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    assert!(refused(|c| c.rank = 0).starts_with("rank is 0; it must be a number from 1 to"));
    assert!(refused(|c| c.batch = 0).starts_with("batch is 0; it must be"));
    assert!(refused(|c| (c.rank, c.batch) = (10_000, 1 << 20)).contains("so small that its values"));
    assert!(refused(|c| c.learning_rate = 0.0).starts_with("lr is 0; it must be a number above 0"));
    assert!(refused(|c| c.init_scale = f64::NAN).starts_with("init-scale is NaN"));
    assert!(refused(|c| c.l2 = Some(-1.0)).starts_with("l2 is -1; it must be a number of at least 0"));
    assert!(refused(|c| c.l2_bias = Some(f64::INFINITY)).starts_with("l2-bias is inf"));
    assert!(refused(|c| c.bold_driver = true).starts_with("bold-driver is true; it must be left out"));
}
