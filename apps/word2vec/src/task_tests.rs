//! The task by itself: its steps against a naive formula, its keys, its digest, its gradients, and a text
//! that changes.

use super::*;
use crate::data::Options;
use crate::model::Optimizer;
use intendant_sampling::{Everything, Manager};
use intendant_task::{Driver, Event, Loader, LoaderEvent, LoaderOp, Op, PlainRows, Reduction, Schedule};
use std::convert::Infallible;
use std::io::{Seek, SeekFrom, Write};
use tempfile::NamedTempFile;

/// Sentences in which neighbours in the alphabet are neighbours, and one word occurs everywhere.
pub(super) fn file() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    for line in 0..60u32 {
        let start = line * 7 % 20;
        let words = (0..9).map(|at| char::from(b'a' + ((start + at * at % 5) % 20) as u8));
        let text: Vec<String> = words.map(|word| format!("{word} the ")).collect();
        writeln!(file, "{}", text.concat()).unwrap();
    }
    file.flush().unwrap();
    file
}

pub(super) fn corpus() -> Arc<Corpus> {
    let options = Options { min_count: Some(1), held_out: Some(0.1), ..Options::default() };
    Arc::new(Corpus::open(file().path(), options).unwrap())
}

pub(super) fn config() -> Config {
    Config {
        dim: 5,
        window: 3,
        negatives: 4,
        sample: 0.05,
        power: 0.75,
        optimizer: Optimizer::Sgd,
        learning_rate: 0.5,
        batch_words: 20,
        separate: false,
        epochs: 3,
        seed: 1,
    }
}

fn configs() -> impl Iterator<Item = Config> {
    [Optimizer::Sgd, Optimizer::AdaGrad].into_iter().flat_map(|optimizer| {
        [(1, 1), (20, 3), (1000, 4)].map(|(batch_words, negatives)| Config {
            optimizer,
            batch_words,
            negatives,
            // The first steps of AdaGrad are as large as the learning rate.
            learning_rate: if optimizer == Optimizer::Sgd { 0.5 } else { 0.05 },
            ..config()
        })
    })
}

pub(super) fn task(config: Config) -> Arc<Word2vec<f64>> {
    Arc::new(Word2vec::new(corpus(), config, Tests::default()).unwrap())
}

/// The initial model.
fn initial(task: &Word2vec<f64>) -> Vec<Vec<f64>> {
    let model = task.model();
    let value = |key| {
        let mut value = vec![0.0; model.len(Key(key))];
        (model.init)(Key(key), &mut value);
        value
    };
    (0..model.keys()).map(value).collect()
}

fn gathered(values: &[Vec<f64>], keys: &[Key]) -> Vec<f64> {
    keys.iter().flat_map(|key| values[key.index()].clone()).collect()
}

/// Trains with a single worker on plain memory; returns the model, the losses and the test sums.
fn train(task: &Arc<Word2vec<f64>>, epochs: u32) -> (Vec<Vec<f64>>, Vec<f64>, Reduction) {
    let mut values = initial(task);
    let (alone, schedule) = (Partition::alone(), Schedule::epochs(epochs));
    let mut loader = Loader::new(Arc::clone(task), alone, &schedule);
    let mut driver = Driver::new(Arc::clone(task), alone, schedule);
    let manager = Manager::new(task.model().sampler.clone(), 0, 0);
    let mut event = Event::Start;
    loop {
        event = match driver.step(event).unwrap() {
            Op::NextBatch => {
                let mut event = LoaderEvent::Start;
                while let LoaderOp::PrepareSample(request) = loader.step(event) {
                    let SampleRequest { distribution, samples, stream } = request;
                    let handle = manager.prepare(distribution, samples, stream, &Everything);
                    event = LoaderEvent::Prepared(handle.unwrap());
                }
                Event::Batch(loader.take())
            }
            Op::PullSample => {
                let draw = |handle: &mut _, samples, keys: &mut _| {
                    manager.draw(handle, samples, &Everything, keys, &mut Vec::new())
                };
                driver.draw(draw).unwrap();
                Event::Done
            }
            Op::Pull => {
                let (keys, pulled) = driver.pull_buffers();
                pulled.copy_from_slice(&gathered(&values, keys));
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
            Op::Snapshot(range) => {
                let keys: Vec<Key> = range.map(Key).collect();
                driver.snapshot_part(&keys, &gathered(&values, &keys));
                Event::Done
            }
            Op::Reduce => Event::Reduced(driver.reduction().clone()),
            Op::Done => break,
            // A single worker has nothing else to do.
            Op::Localize { .. }
            | Op::Barrier
            | Op::Push
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

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The pairs of a batch with their samples, as keys, in the order in which they are trained.
fn pairs(task: &Word2vec<f64>, at: BatchAt) -> Vec<(usize, usize, Vec<usize>)> {
    let prepared = task.prepare(at);
    let words = task.first_output() as usize;
    let mut samples = Vec::new();
    for request in &prepared.samples {
        let manager = Manager::new(task.model().sampler.clone(), 0, 0);
        let SampleRequest { distribution, samples: count, stream } = *request;
        let mut handle = manager.prepare(distribution, count, stream, &Everything).unwrap();
        manager.draw(&mut handle, count, &Everything, &mut samples, &mut Vec::new()).unwrap();
    }
    let part = task.course(at.subepoch.epoch).batch(at.index);
    let drawn = task.drawn(at.subepoch.epoch, part.block, 0);
    let kept = drawn.kept();
    let places = drawn.places(part.words(task.corpus.block_words(part.block)));
    let contexts = places
        .flat_map(|place| kept[place].context().filter(move |at| *at != place).map(move |at| (place, at)));
    let mut samples = samples.chunks(task.config.negatives);
    let pairs = contexts.map(|(place, at)| {
        let samples = samples.next().unwrap().iter().map(|key| key.index()).collect();
        (kept[place].word as usize, words + kept[at].word as usize, samples)
    });
    pairs.collect()
}

/// The same training, computed naively, pair by pair.
fn train_naively(task: &Word2vec<f64>, epochs: u32) -> (Vec<Vec<f64>>, Vec<f64>) {
    let config = task.config();
    let (dim, adagrad) = (config.dim, config.optimizer == Optimizer::AdaGrad);
    let mut values = initial(task);
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let mut loss = 0.0;
        let batches = task.batches(Subepoch { epoch, index: 0 }, Partition::alone());
        for index in 0..batches {
            let done = (f64::from(epoch) + index as f64 / batches as f64) / f64::from(config.epochs);
            let rate = config.learning_rate * if adagrad { 1.0 } else { 1.0 - done };
            let step = |values: &mut Vec<Vec<f64>>, key: usize, gradient: &[f64]| {
                for (at, gradient) in gradient.iter().enumerate() {
                    let mut step = rate * gradient;
                    if adagrad {
                        values[key][dim + at] += gradient * gradient;
                        step /= (values[key][dim + at] + 1e-10).sqrt();
                    }
                    values[key][at] += step;
                }
            };
            for (input, output, samples) in pairs(task, BatchAt::alone(epoch, index)) {
                let vector = values[input][..dim].to_vec();
                let mut of_input = vec![0.0; dim];
                let targets = samples.iter().filter(|sample| **sample != output).map(|sample| (*sample, 0.0));
                for (target, label) in std::iter::once((output, 1.0)).chain(targets) {
                    let score: f64 = (0..dim).map(|at| vector[at] * values[target][at]).sum();
                    loss -= sigmoid(if label > 0.0 { score } else { -score }).ln();
                    let slope = label - sigmoid(score);
                    (0..dim).for_each(|at| of_input[at] += slope * values[target][at]);
                    let of_target: Vec<f64> = vector.iter().map(|x| slope * x).collect();
                    step(&mut values, target, &of_target);
                }
                step(&mut values, input, &of_input);
            }
        }
        losses.push(loss);
    }
    (values, losses)
}

#[track_caller]
fn close(one: &[Vec<f64>], two: &[Vec<f64>]) {
    assert_eq!(one.len(), two.len());
    for (key, (one, two)) in one.iter().zip(two).enumerate() {
        for (a, b) in one.iter().zip(two) {
            assert!((a - b).abs() < 1e-9 * (1.0 + a.abs()), "key {key}: {one:?} and {two:?}");
        }
    }
}

#[test]
fn training_is_sequential_gradient_descent_whatever_the_batch() {
    for config in configs() {
        let task = task(config);
        let (naive, losses) = train_naively(&task, 3);
        let (values, trained, _) = train(&task, 3);
        close(&values, &naive);
        close(&[trained], &[losses]);
    }
}

/// Steps of one pair have the same effect as steps of one word, with the same samples and the same rate.
#[test]
fn separate_pairs_are_the_pairs_of_a_word() {
    for config in configs().filter(|config| config.batch_words == 1) {
        let whole = train(&task(config.clone()), 2);
        let separate = task(Config { separate: true, ..config });
        let pairs = train(&separate, 2);
        close(&pairs.0, &whole.0);
        close(&[pairs.1], &[whole.1]);
        let (mut alone, mut none) = (0, 0);
        for index in 0..separate.batches(Subepoch { epoch: 1, index: 0 }, Partition::alone()) {
            let step = separate.prepare(BatchAt::alone(1, index));
            let samples: usize = step.samples.iter().map(|request| request.samples).sum();
            assert_eq!(
                (step.keys.len(), samples),
                (2 * step.batch.pairs(), step.batch.pairs() * separate.config.negatives)
            );
            *if step.batch.pairs() == 1 { &mut alone } else { &mut none } += 1;
            assert!(step.keys.iter().all(|key| index % 6 > 0 || step.near.contains(key)));
        }
        assert!(alone > 500 && none > 500, "{alone} {none}");
    }
}

#[test]
fn training_lowers_the_loss_on_held_out_text() {
    for config in configs() {
        let what = format!("{config:?}");
        let task = task(Config { epochs: 30, ..config });
        let (_, losses, test) = train(&task, 30);
        let last = losses[25..].iter().sum::<f64>() / 5.0;
        assert!(last < 0.95 * losses[0], "{what}: {losses:?}");
        let untrained = train(&task, 0).2.get("quality.heldout_loss");
        // Output vectors start with zeros, so that all probabilities are one half. Few samples equal the
        // context word.
        let half = (1 + task.config.negatives) as f64 * std::f64::consts::LN_2;
        assert!((0.7 * half..=half).contains(&untrained), "{what}: {untrained}");
        assert!(test.get("quality.heldout_loss") < 0.95 * untrained, "{what}: {untrained}, {test:?}");
    }
}

/// Compares the gradient of SGD with finite differences of the reported loss. The batch has a single pair: in
/// larger batches, later pairs see the steps of earlier ones.
#[test]
fn gradients_are_derivatives_of_the_loss() {
    let config = Config { batch_words: 1, window: 1, learning_rate: 1e-3, ..config() };
    let (task, alone) = (task(config), Partition::alone());
    let mut scratch = task.scratch();
    let mut checked = 0;
    for index in 0..task.batches(Subepoch { epoch: 0, index: 0 }, alone) {
        let mut prepared = task.prepare(BatchAt::alone(0, index));
        if prepared.batch.pairs() != 1 {
            continue;
        }
        prepared.batch.rate = 1e-3;
        let (_, output, samples) = pairs(&task, BatchAt::alone(0, index)).remove(0);
        let sample_keys: Vec<Key> = samples.iter().map(|key| Key(*key as u64)).collect();
        let all: Vec<Key> = prepared.keys.iter().chain(&sample_keys).copied().collect();
        let start: Vec<Vec<f64>> = (0..task.model().keys())
            .map(|key| (0..5).map(|at| intendant_core::random::unit(stream(key, &[at])) - 0.5).collect())
            .collect();
        let mut trained = |values: &[Vec<f64>]| {
            let mut values = values.to_vec();
            let mut rows = PlainRows { keys: &all, values: &mut values };
            (task.train(&mut scratch, &prepared.batch, &all, &mut rows).loss, values)
        };
        let (_, after) = trained(&start);
        // A key that is sampled twice moves between its two uses, so that the step is a derivative only in
        // the limit.
        let distinct = |key: &Key| all.iter().filter(|other| *other == key).count() == 1;
        for key in all.iter().filter(|key| distinct(key)).map(|key| key.index()) {
            for at in 0..5 {
                let mut loss = |step: f64| {
                    let mut values = start.clone();
                    values[key][at] += step;
                    trained(&values).0
                };
                let slope = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                let moved = (after[key][at] - start[key][at]) / 1e-3;
                assert!((moved + slope).abs() < 1e-3 * (1.0 + slope.abs()), "{key}: {moved}, {slope}");
                checked += 1;
            }
        }
        assert!(all.iter().any(|key| key.index() == output));
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn who_trains_makes_no_difference_to_what_is_trained() {
    who_trains_makes_no_difference(config());
    who_trains_makes_no_difference(Config { batch_words: 1, separate: true, ..config() });
}

fn who_trains_makes_no_difference(config: Config) {
    let task = task(config.clone());
    let digest = |epoch, workers, nodes| {
        let (mut digest, mut words) = (0u64, 0);
        for partition in (Partition { workers, nodes, ..Partition::alone() }).all() {
            let subepoch = Subepoch { epoch, index: 0 };
            for index in 0..task.batches(subepoch, partition) {
                let prepared = task.prepare(BatchAt { subepoch, partition, index });
                digest = digest.wrapping_add(prepared.digest);
                words += prepared.batch.words;
            }
        }
        assert_eq!(words, task.corpus.training_words());
        digest
    };
    let one = digest(0, 1, 1);
    assert_eq!([digest(0, 3, 1), digest(0, 4, 2), digest(0, 100, 5)], [one; 3]);
    assert_ne!(one, digest(1, 1, 1));
    let other = Word2vec::<f64>::new(corpus(), Config { seed: 2, ..config }, Tests::default()).unwrap();
    assert_ne!(task.prepare(BatchAt::alone(0, 0)).digest, other.prepare(BatchAt::alone(0, 0)).digest);
}

#[test]
fn preparation_is_a_function_of_its_arguments() {
    let task = task(config());
    let at = |index| BatchAt {
        partition: Partition { worker: 1, workers: 2, ..Partition::alone() },
        ..BatchAt::alone(1, index)
    };
    let first = task.prepare(at(0));
    // Other batches are asked for in between: another epoch, another worker, another block.
    for other in
        [BatchAt::alone(0, 5), at(9), BatchAt::alone(2, 0), BatchAt::alone(3, 1), BatchAt::alone(7, 1)]
    {
        task.prepare(other);
    }
    let again = task.prepare(at(0));
    assert_eq!((first.batch, first.keys, first.samples), (again.batch, again.keys, again.samples));
    assert_eq!(first.near, again.near);
}

#[test]
fn a_text_that_changes_ends_the_run() {
    let mut file = file();
    let options = Options { min_count: Some(1), held_out: Some(0.1), memory: 0, ..Options::default() };
    let corpus = Arc::new(Corpus::open(file.path(), options).unwrap());
    let task = Word2vec::<f64>::new(Arc::clone(&corpus), config(), Tests::default()).unwrap();
    let batches = task.batches(Subepoch { epoch: 0, index: 0 }, Partition::alone());
    let failed = |epoch| {
        (0..batches).map(|index| task.prepare(BatchAt::alone(epoch, index))).find(|p| p.keys.is_empty())
    };
    assert!(failed(5).is_none() && corpus.failure().is_none());
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(b"x").unwrap();
    let prepared = failed(6).expect("the change is noticed");
    let mut rows = PlainRows { keys: &[], values: &mut [] };
    assert!(task.train(&mut task.scratch(), &prepared.batch, &[], &mut rows).loss.is_nan());
    let said = corpus.failure().unwrap().to_string();
    assert!(said.contains("changed while it was in use: what was read at byte "), "{said}");
}

#[test]
fn workers_share_the_evaluation() {
    use rand::SeedableRng;
    let task = task(config());
    let words = task.first_output() as usize;
    let number = |key: u64, at| intendant_core::random::unit(stream(key, &[at])) - 0.5;
    let values: Vec<Vec<f64>> =
        (0..2 * words as u64).map(|key| (0..5).map(|at| number(key, at)).collect()).collect();
    let evaluate = |workers| {
        let mut all = Reduction::default();
        for partition in (Partition { workers, ..Partition::alone() }).all() {
            let mut evaluation = task.evaluation(Split::Test, partition).unwrap();
            let keys = evaluation.keys().to_vec();
            assert!(keys.is_sorted_by(|a, b| a < b));
            evaluation.take(&gathered(&values, &keys));
            assert!(evaluation.range().is_empty());
            all.merge(&evaluation.finish());
        }
        assert_eq!(all.get("quality.count"), 1.0);
        all.get("quality.heldout_loss")
    };
    let (mut loss, mut pairs) = (0.0, 0.0);
    for block in task.corpus.held_out() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(stream(HELD_OUT, &[NEGATIVES, (*block).into()]));
        let drawn = task.drawn_held_out(*block);
        for (place, kept) in drawn.kept().iter().enumerate() {
            for at in kept.context().filter(|at| *at != place) {
                let output = words + drawn.kept()[at].word as usize;
                let score = |output: usize| -> f64 {
                    values[kept.word as usize].iter().zip(&values[output]).map(|(a, b)| a * b).sum()
                };
                loss -= sigmoid(score(output)).ln();
                let samples = (0..task.config.negatives).map(|_| task.distribution.draw(&mut rng).index());
                loss -=
                    samples.filter(|key| *key != output).map(|key| sigmoid(-score(key)).ln()).sum::<f64>();
                pairs += 1.0;
            }
        }
    }
    assert!(pairs > 30.0);
    for workers in [1, 3, 7] {
        let mean = evaluate(workers);
        assert!((mean - loss / pairs).abs() < 1e-9, "{mean}, not {loss} / {pairs}, with {workers} workers");
    }
}
