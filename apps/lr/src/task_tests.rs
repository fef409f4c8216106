//! The task by itself: its steps against the published algorithms and against finite differences, its keys,
//! its evaluation.

use super::*;
use crate::data::{Generator, Naming, Rows};
use crate::metrics::{Measures, Scored};
use crate::model::sigmoid;
use intendant_task::{Driver, Event, Loader, LoaderEvent, LoaderOp, Op, Reduction, Schedule};
use proptest::prelude::*;

fn data() -> Arc<Dataset> {
    Arc::new(Generator::named("sparse:200x30x6").unwrap().generate())
}

fn config(optimizer: Optimizer) -> Config {
    let (l1, l2) = if optimizer == Optimizer::Ftrl { (0.8, 0.3) } else { (0.0, 0.7) };
    let (learning_rate, beta) = (0.1, 1.0);
    Config {
        optimizer,
        learning_rate,
        beta,
        l1,
        l2,
        intercept: true,
        batch: 7,
        blocks: 3,
        delay: 0,
        kkt: None,
        reliability: 4,
        seed: 1,
    }
}

const OPTIMIZERS: [Optimizer; 3] = [Optimizer::Ftrl, Optimizer::AdaGrad, Optimizer::Sgd];

fn rows_of(prepared: &Prepared<Batch>) -> &RowsBatch {
    match &prepared.batch {
        Batch::Rows(batch) => batch,
        Batch::Block(_) => panic!("a batch of a block"),
    }
}

fn task(config: Config) -> Lr<f64> {
    Lr::new(data(), config, Weights::default()).unwrap()
}

/// The initial model.
fn initial(task: &Lr<f64>) -> Vec<Vec<f64>> {
    let model = task.model();
    let value = |key| {
        let mut value = vec![9.0; model.len(Key(key))];
        (model.init)(Key(key), &mut value);
        value
    };
    (0..model.keys()).map(value).collect()
}

/// Trains `epochs` epochs with a single worker on plain memory; returns the model, the losses and the test
/// sums.
fn train(task: Lr<f64>, epochs: u32) -> (Vec<Vec<f64>>, Vec<f64>, Reduction) {
    let task = Arc::new(task);
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
            Op::Push => {
                let (keys, update) = driver.push_buffers();
                let mut rest = update;
                for key in keys {
                    let value = &mut values[key.index()];
                    let (own, after) = rest.split_at(value.len());
                    rest = after;
                    value.iter_mut().zip(own).for_each(|(x, add)| *x += add);
                }
                Event::Done
            }
            Op::Snapshot(range) => {
                let keys: Vec<Key> = range.map(Key).collect();
                let all: Vec<f64> = keys.iter().flat_map(|key| values[key.index()].clone()).collect();
                driver.snapshot_part(&keys, &all);
                Event::Done
            }
            Op::Reduce => Event::Reduced(driver.reduction().clone()),
            Op::Done => break,
            // A single worker has nothing else to do.
            Op::Localize { .. }
            | Op::Barrier
            | Op::PullSample
            | Op::Train
            | Op::Compute(_)
            | Op::AdvanceClock
            | Op::Meet
            | Op::Synchronize
            | Op::Flush
            | Op::Quiesce => Event::Done,
        };
    }
    let combined = driver.combined();
    let losses = combined[..epochs as usize].iter().map(|epoch| epoch.get("loss")).collect();
    (values, losses, combined[epochs as usize].clone())
}

/// The state of a feature in all algorithms, as published.
#[derive(Clone, Copy, Default)]
struct Plain {
    weight: f64,
    z: f64,
    n: f64,
    passes: f64,
}

/// The same training, computed naively, batch by batch in the task's order. FTRL keeps z and n, as in its
/// source.
fn train_naively(config: &Config, epochs: u32) -> (Vec<f64>, Vec<f64>) {
    let task = task(config.clone());
    let data = task.data();
    let features = data.features() as usize;
    let mut state = vec![Plain::default(); features + 1];
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let mut loss = 0.0;
        for index in 0..task.batches(Subepoch { epoch, index: 0 }, Partition::alone()) {
            let rows: Vec<usize> = task.order(epoch).batch(index).map(|row| row as usize).collect();
            for feature in &mut state {
                if config.optimizer == Optimizer::Ftrl {
                    let Plain { z, n, passes, .. } = *feature;
                    let (l1, l2) = (config.l1 * passes, config.l2 * passes);
                    feature.weight = if z.abs() <= l1 {
                        0.0
                    } else {
                        -(z - z.signum() * l1) / ((config.beta + n.sqrt()) / config.learning_rate + l2)
                    };
                }
            }
            let mut gradients = vec![0.0; features + 1];
            let mut occurs = vec![0.0; features + 1];
            for row in rows {
                let row = data.train().row(row);
                let entries = row.entries().map(|(feature, value)| (feature as usize, f64::from(value)));
                let entries: Vec<(usize, f64)> = entries.chain([(features, 1.0)]).collect();
                let score: f64 = entries.iter().map(|(feature, value)| state[*feature].weight * value).sum();
                let y = if row.label { 1.0 } else { -1.0 };
                loss += (1.0 + (-y * score).exp()).ln();
                for (feature, value) in entries {
                    gradients[feature] += -y / (1.0 + (y * score).exp()) * value;
                    occurs[feature] += 1.0;
                }
            }
            for (feature, plain) in state.iter_mut().enumerate().filter(|(at, _)| occurs[*at] > 0.0) {
                // The intercept is not penalised.
                let passes = data.uses().get(feature).map_or(0.0, |uses| occurs[feature] / f64::from(*uses));
                let penalised = gradients[feature] + config.l2 * passes * plain.weight;
                match config.optimizer {
                    Optimizer::Ftrl => {
                        let g = gradients[feature];
                        let sigma = ((plain.n + g * g).sqrt() - plain.n.sqrt()) / config.learning_rate;
                        plain.z += g - sigma * plain.weight;
                        plain.n += g * g;
                        plain.passes += passes;
                    }
                    Optimizer::AdaGrad => {
                        plain.n += penalised * penalised;
                        plain.weight -= config.learning_rate * penalised / (plain.n + 1e-10).sqrt();
                    }
                    Optimizer::Sgd => {
                        plain.weight -= config.learning_rate / f64::from(epoch + 1).sqrt() * penalised;
                    }
                    Optimizer::Proximal => unreachable!("its tests are beside it"),
                }
            }
        }
        losses.push(loss);
    }
    let weight = |plain: &Plain| {
        let Plain { weight, z, n, passes } = *plain;
        let (l1, l2) = (config.l1 * passes, config.l2 * passes);
        match config.optimizer {
            Optimizer::Ftrl if z.abs() <= l1 => 0.0,
            Optimizer::Ftrl => {
                -(z - z.signum() * l1) / ((config.beta + n.sqrt()) / config.learning_rate + l2)
            }
            Optimizer::AdaGrad | Optimizer::Sgd | Optimizer::Proximal => weight,
        }
    };
    (state.iter().map(weight).collect(), losses)
}

#[test]
fn training_is_the_algorithm_as_it_is_printed() {
    for optimizer in OPTIMIZERS {
        let config = config(optimizer);
        let (expected, expected_losses) = train_naively(&config, 4);
        let (values, losses, _) = train(task(config.clone()), 4);
        let of = task(config);
        let weights: Vec<f64> = values.iter().map(|value| of.weight(value)).collect();
        for (at, (weight, expected)) in weights.iter().zip(&expected).enumerate() {
            assert!((weight - expected).abs() < 1e-9, "{optimizer:?}, {at}: {weight}, not {expected}");
        }
        for (loss, expected) in losses.iter().zip(&expected_losses) {
            assert!((loss / expected - 1.0).abs() < 1e-10, "{optimizer:?}: {loss}, not {expected}");
        }
        assert!(weights.iter().any(|weight| weight.abs() > 0.1), "{optimizer:?}: something was learnt");
        let zeros = weights.iter().filter(|weight| **weight == 0.0).count();
        assert_eq!(zeros > 0, optimizer == Optimizer::Ftrl, "{optimizer:?}: {zeros} weights are zero");
    }
}

/// The update of plain gradient descent is the negative gradient of the batch's part of the objective.
#[test]
fn updates_go_down_the_numeric_gradient() {
    let config = Config { learning_rate: 1.0, ..config(Optimizer::Sgd) };
    let task = task(config.clone());
    let prepared = task.prepare(BatchAt::alone(0, 3));
    let weight = |at: usize| (at as f64 * 0.7).sin();
    let mut values: Vec<f64> = (0..prepared.keys.len()).map(weight).collect();
    let objective = |values: &[f64]| {
        let mut sum = 0.0;
        for (label, places, numbers) in rows_of(&prepared).rows() {
            let terms = places.iter().zip(numbers).map(|(at, x)| values[*at as usize] * f64::from(*x));
            let score = values.last().unwrap() + terms.sum::<f64>();
            sum += (1.0 + (if label { -score } else { score }).exp()).ln();
        }
        let penalties = rows_of(&prepared).passes.iter().zip(values);
        sum + penalties.map(|(passes, weight)| config.l2 / 2.0 * passes * weight * weight).sum::<f64>()
    };
    let mut added = vec![0.0; values.len()];
    let pulled = Pulled { keys: &prepared.keys, values: &values, sample_keys: &[], sample_values: &[] };
    let mut update = Update { values: &mut added, sample_values: &mut [] };
    let report = task.compute(&mut task.scratch(), &prepared.batch, pulled, &mut update);
    let penalty: f64 = rows_of(&prepared)
        .passes
        .iter()
        .zip(&values)
        .map(|(passes, w)| config.l2 / 2.0 * passes * w * w)
        .sum();
    assert!(
        (report.loss - (objective(&values) - penalty)).abs() < 1e-10,
        "penalties are no part of the loss"
    );
    assert_eq!(report.examples, 7);
    for at in 0..values.len() {
        let before = values[at];
        values[at] = before + 1e-5;
        let above = objective(&values);
        values[at] = before - 1e-5;
        let numeric = (above - objective(&values)) / 2e-5;
        values[at] = before;
        assert!((added[at] + numeric).abs() < 1e-7, "{at}: {} is not - {numeric}", added[at]);
    }
}

proptest! {
    #[test]
    fn every_row_is_trained_once_by_one_worker(batch in 1usize..60, nodes in 1u32..4, per_node in 1u32..4) {
        let task = task(Config { batch, ..config(Optimizer::Ftrl) });
        let total = |partition: Partition| {
            let (mut digest, mut rows) = (0u64, 0);
            let mut passes = vec![0.0; task.data().features() as usize];
            for partition in partition.all() {
                let subepoch = Subepoch { epoch: 2, index: 0 };
                for index in 0..task.batches(subepoch, partition) {
                    let prepared = task.prepare(BatchAt { subepoch, partition, index });
                    digest = digest.wrapping_add(prepared.digest);
                    rows += rows_of(&prepared).labels.len();
                    assert!(prepared.keys.is_sorted_by(|a, b| a < b));
                    assert_eq!(prepared.keys.last(), Some(&Key(30)), "the intercept");
                    for (key, part) in prepared.keys.iter().zip(&rows_of(&prepared).passes) {
                        passes[key.index()] += part;
                    }
                }
            }
            (digest, rows, passes)
        };
        let (digest, rows, passes) = total(Partition::alone());
        prop_assert_eq!(rows, 200);
        for (feature, uses) in task.data().uses().iter().enumerate() {
            let once = if *uses > 0 { 1.0 } else { 0.0 };
            let passes = passes[feature];
            prop_assert!((passes - once).abs() < 1e-9, "feature {} is penalised {} times", feature, passes);
        }
        let all = total(Partition { worker: 0, workers: nodes * per_node, nodes, threads: 1 });
        prop_assert_eq!((all.0, all.1), (digest, rows));
    }
}

/// Adds up all workers' shares of an evaluation of these values.
fn evaluated(task: &Lr<f64>, values: &[Vec<f64>], split: Split, workers: u32) -> Reduction {
    let mut sums = Reduction::default();
    for partition in (Partition { workers, ..Partition::alone() }).all() {
        let mut evaluation = task.evaluation(split, partition).unwrap();
        let all =
            |keys: &[Key]| keys.iter().flat_map(|key| values[key.index()].clone()).collect::<Vec<f64>>();
        let keys = evaluation.keys().to_vec();
        evaluation.take(&all(&keys));
        let keys: Vec<Key> = evaluation.range().map(Key).collect();
        for part in keys.chunks(7) {
            evaluation.part(part, &all(part));
        }
        sums.merge(&evaluation.finish());
    }
    sums
}

#[test]
fn evaluations_are_those_of_a_person_with_all_weights() {
    let config = config(Optimizer::Ftrl);
    let (values, _, trained) = train(task(config.clone()), 3);
    let task = task(config);
    let weights: Vec<f64> = values.iter().map(|value| task.weight(value)).collect();
    let scored = |rows: &Rows| -> Vec<Scored> {
        let score = |row: crate::data::Row<'_>| {
            let terms = row.entries().map(|(feature, value)| weights[feature as usize] * f64::from(value));
            Scored { score: weights[30] + terms.sum::<f64>(), label: row.label }
        };
        rows.iter().map(score).collect()
    };
    let losses: f64 = scored(task.data().train()).iter().map(|row| log_loss(row.score, row.label)).sum();
    let penalties: f64 = weights[..30].iter().map(|w| 0.8 * w.abs() + 0.15 * w * w).sum();
    let test = scored(task.data().test());
    let measures = Measures::of(&test).unwrap();
    for (workers, sums) in [(1, trained)]
        .into_iter()
        .chain([1, 3, 50].map(|workers| (workers, evaluated(&task, &values, Split::Test, workers))))
    {
        let close = |name: &str, expected: f64| {
            let found = sums.get(&format!("quality.{name}"));
            assert!(
                (found - expected).abs() < 1e-9 * (1.0 + expected),
                "{workers}, {name}: {found}, not {expected}"
            );
        };
        close("count", 1.0);
        close("objective", losses + penalties);
        close("nonzeros", weights[..30].iter().filter(|weight| **weight != 0.0).count() as f64);
        close("log_loss", measures.log_loss);
        close("auc", measures.auc.unwrap());
        close("accuracy", measures.accuracy);
        close("predicted", measures.predicted);
        close("observed", measures.observed);
        close("calibration_error", measures.calibration_error);
        let rows: f64 = (1..=4).map(|bin| sums.get(&format!("quality.reliability_rows_{bin}"))).sum();
        assert_eq!(rows, 40.0);
        assert_eq!(sums.get("quality.reliability_rows_5"), 0.0);
    }
    let predicted = task.take_predictions().unwrap();
    assert_eq!(predicted, test.iter().map(|row| sigmoid(row.score)).collect::<Vec<f64>>());
    assert_eq!(task.take_predictions(), None);
    let valid = evaluated(&task, &values, Split::Valid, 1);
    assert_eq!(valid.sums.get("quality.reliability_rows_1"), None, "the table is one of the test");
    assert_eq!(task.take_predictions(), None, "and so are predictions");
    assert_eq!(valid.get("quality.auc"), measures.auc.unwrap());
    assert_eq!(task.criterion(), None, "test rows do not choose");
}

#[test]
fn validation_rows_are_watched_if_there_are_some() {
    let mut data = Dataset::clone(&data());
    data.hold_out(Split::Valid, 0.3, 1).unwrap();
    let rows = data.valid().len();
    let task = Lr::<f64>::new(Arc::new(data), config(Optimizer::Ftrl), Weights::default()).unwrap();
    let values = initial(&task);
    assert_eq!(task.criterion(), Some(Criterion { metric: "log_loss", better: Better::Lower }));
    let observed = |split| evaluated(&task, &values, split, 1).get("quality.observed");
    assert_eq!(observed(Split::Valid), task.data().valid().positives() as f64 / rows as f64);
    assert_eq!(observed(Split::Test), task.data().test().positives() as f64 / 40.0);
}

#[test]
fn training_begins_with_the_weights_given() {
    let weights = Weights { features: vec![(2, 0.5), (7, -1.25)], intercept: 0.25 };
    for optimizer in OPTIMIZERS {
        let task = Lr::<f64>::new(data(), config(optimizer), weights.clone()).unwrap();
        let other = Weights { intercept: 0.5, ..weights.clone() };
        let other = Lr::<f64>::new(data(), config(optimizer), other).unwrap();
        assert_ne!(task.digest(), other.digest(), "nodes with other weights refuse each other");
        let found: Vec<f64> = initial(&task).iter().map(|value| task.weight(value)).collect();
        for (feature, weight) in found.iter().enumerate() {
            let expected = [(2, 0.5), (7, -1.25), (30, 0.25)].iter().find(|(at, _)| *at == feature);
            assert!((weight - expected.map_or(0.0, |(_, weight)| *weight)).abs() < 1e-12, "{optimizer:?}");
        }
        let before = evaluated(&task, &initial(&task), Split::Test, 1).get("quality.objective");
        let (_, _, trained) = train(task, 20);
        assert!(trained.get("quality.objective") < before, "{optimizer:?}: training goes on");
    }
}

#[test]
fn accesses_are_expected_batches() {
    for (batch, expected) in [(1, None), (200, Some(1.0))] {
        let task = task(Config { batch, ..config(Optimizer::Ftrl) });
        let partition = Partition { workers: 4, nodes: 2, ..Partition::alone() };
        let frequencies = task.frequencies(partition).unwrap();
        assert!(frequencies.is_sorted_by(|a, b| a.key < b.key));
        for Frequency { key, accesses, uses, shared } in frequencies {
            let rows = task.data().uses().get(key.index()).copied().unwrap_or(200);
            assert_eq!(uses, u64::from(rows));
            assert!((accesses - expected.unwrap_or(f64::from(rows))).abs() < 1e-9, "{key:?}: {accesses}");
            assert_eq!(shared, rows > 1);
        }
    }
    // Counts over many epochs.
    let task = task(config(Optimizer::Ftrl));
    let mut counted = [0.0; 31];
    for epoch in 0..200 {
        for index in 0..task.batches(Subepoch { epoch, index: 0 }, Partition::alone()) {
            task.prepare(BatchAt::alone(epoch, index))
                .keys
                .iter()
                .for_each(|key| counted[key.index()] += 1.0 / 200.0);
        }
    }
    for Frequency { key, accesses, .. } in task.frequencies(Partition::alone()).unwrap() {
        let counted = counted[key.index()];
        assert!((accesses / counted - 1.0).abs() < 0.05, "{key:?}: {accesses}, counted {counted}");
    }
}

#[test]
fn keys_have_the_names_of_features() {
    let numbers = task(config(Optimizer::Ftrl));
    assert_eq!(numbers.keys_named("1"), [Key(0)]);
    assert_eq!(numbers.keys_named("30"), [Key(29)]);
    assert_eq!(numbers.keys_named("intercept"), [Key(30)]);
    for unknown in ["0", "31", "x"] {
        assert_eq!(numbers.keys_named(unknown), [], "{unknown}");
    }
    let without = task(Config { intercept: false, ..config(Optimizer::Ftrl) });
    assert_eq!((without.keys_named("intercept"), without.model().keys()), (vec![], 30));
}

#[test]
fn hyperparameters_have_limits() {
    let refused =
        |config: Config| Lr::<f32>::new(data(), config, Weights::default()).err().unwrap().to_string();
    let good = || config(Optimizer::AdaGrad);
    for (config, said) in [
        (Config { batch: 0, ..good() }, "batch is 0; it must be a number from 1 to 16777216"),
        (Config { learning_rate: 0.0, ..good() }, "lr is 0; it must be a number above 0"),
        (Config { beta: f64::NAN, ..good() }, "beta is NaN; it must be a number above 0"),
        (Config { l2: -1.0, ..good() }, "l2 is -1; it must be a number of at least 0"),
        (Config { l1: 1.0, ..good() }, "l1 is 1; it must be 0 or left out with adagrad and sgd"),
        (Config { reliability: 2000, ..good() }, "reliability is 2000; it must be at most 1000"),
    ] {
        let error = refused(config);
        assert!(error.starts_with(said), "{error}");
    }
    assert_eq!(Naming::Numbers.number(3), 4);
}
