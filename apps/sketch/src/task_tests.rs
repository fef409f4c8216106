use super::*;
use crate::data::{Items, Options, Stream};
use crate::estimate::Estimator;
use crate::hash::Hashes;
use crate::shape::{Kind, Shape};
use intendant_core::random::{mix, unit};
use intendant_task::PlainRows;
use proptest::prelude::*;
use std::collections::BTreeMap;

const INTEGERS: Items = Items::Integers;

fn config(shape: Shape, seed: u64) -> Config {
    let hashes = Hashes::new(seed, &shape);
    Config { shape, hashes, items: INTEGERS, aggregate: true, top: 0, exact: 1.0, epochs: 1 }
}

/// A stream of integers with counts, in pieces of a few lines.
fn stream_of(items: &[(u64, u64)]) -> Stream {
    let text: String = items.iter().map(|(x, count)| format!("{x}\t{count}\n")).collect();
    Stream::memory("f", text.into_bytes(), Options { items: INTEGERS, counts: true, piece_bytes: 40 })
}

/// Plain memory in place of a server.
struct Plain<E: Element> {
    task: Counting<E>,
    values: Vec<Vec<E>>,
    sums: Reduction,
}

impl<E: Element> Plain<E> {
    fn new(config: Config, stream: Stream, base: Option<Saved>) -> Self {
        let task = Counting::<E>::new(config, Some(stream), None, base).expect("settings make sense");
        let model = task.model();
        let values = (0..model.keys()).map(|key| {
            let mut value = vec![E::ONE; model.len(Key(key))];
            (model.init)(Key(key), &mut value);
            value
        });
        Self { values: values.collect(), task, sums: Reduction::default() }
    }

    /// Counts the stream with `workers` workers, one after the other.
    fn count(mut self, workers: u32) -> Self {
        let task = &self.task;
        for partition in (Partition { workers, ..Partition::alone() }).all() {
            let subepoch = Subepoch { epoch: 0, index: 0 };
            let mut scratch = task.scratch();
            for index in 0..task.batches(subepoch, partition) {
                let prepared = task.prepare(BatchAt { subepoch, partition, index });
                let mut rows = PlainRows { keys: &prepared.keys, values: &mut self.values };
                let report = task.train(&mut scratch, &prepared.batch, &prepared.keys, &mut rows);
                self.sums.digest = self.sums.digest.wrapping_add(prepared.digest);
                self.sums.add("examples", report.examples as f64);
            }
            // As workers do that meet more than once.
            let mut own = Reduction::default();
            task.settle(&mut scratch, &mut own);
            task.settle(&mut scratch, &mut own);
            self.sums.merge(&own);
        }
        task.epoch_ended(&mut task.scratch(), &self.sums);
        self
    }

    fn test(&self) -> Reduction {
        let mut all = Reduction::default();
        for partition in (Partition { workers: 2, ..Partition::alone() }).all() {
            let mut evaluation = self.task.evaluation(Split::Test, partition).expect("there is one");
            assert!(evaluation.keys().is_empty());
            let range = evaluation.range();
            for key in range {
                evaluation.part(&[Key(key)], &self.values[key as usize]);
            }
            all.merge(&evaluation.finish());
        }
        all
    }

    fn cells(&self) -> Vec<f64> {
        let blocks = self.task.config().shape.blocks() as usize;
        self.values[..blocks].iter().flatten().map(|cell| cell.to_f64()).collect()
    }
}

fn shape(kind: Kind, depth: usize, width: u64) -> Shape {
    Shape { kind, depth, width, block: 4 }
}

/// A skewed stream: few items have most of the counts.
fn skewed(seed: u64, distinct: u64) -> Vec<(u64, u64)> {
    (0..distinct).map(|x| (mix(x), 1 + (50.0 * unit(mix(seed ^ x)).powi(8)) as u64)).collect()
}

proptest! {
    /// For any stream, functions and number of workers: each row adds up to N, no estimate is below the
    /// truth, and the reported errors equal those of a naive count.
    #[test]
    fn rows_are_exact_and_estimates_are_above_the_truth(
        items in proptest::collection::vec((0u64..60, 1u64..30), 1..120),
        seed: u64, workers in 1u32..5, aggregate: bool,
    ) {
        let config = Config { aggregate, ..config(shape(Kind::CountMin, 3, 16), seed) };
        let plain = Plain::<f64>::new(config.clone(), stream_of(&items), None).count(workers);
        let total: u64 = items.iter().map(|(_, count)| count).sum();
        let test = plain.test();
        prop_assert_eq!(plain.sums.get("examples"), total as f64);
        prop_assert_eq!(test.get("quality.inserted"), total as f64);
        prop_assert_eq!(test.get("quality.row_deviation"), 0.0);
        prop_assert_eq!(test.get("quality.underestimates"), 0.0);
        let cells = plain.cells();
        for row in cells.chunks(16) {
            prop_assert_eq!(row.iter().sum::<f64>(), total as f64);
        }
        let mut truth = BTreeMap::new();
        items.iter().for_each(|(x, count)| *truth.entry(*x).or_insert(0) += count);
        let estimator = Estimator { shape: &config.shape, hashes: &config.hashes };
        let estimate = |x| estimator.estimate(x, |cell| cells[cell]);
        let errors: Vec<f64> = truth.iter().map(|(x, count)| estimate(*x) - *count as f64).collect();
        prop_assert!(errors.iter().all(|error| *error >= 0.0));
        let largest = errors.iter().copied().fold(0.0, f64::max);
        let bound = std::f64::consts::E / 16.0 * total as f64;
        prop_assert_eq!(test.get("quality.items"), truth.len() as f64);
        prop_assert_eq!(test.get("quality.error_max"), largest);
        prop_assert_eq!(test.get("quality.error_bound"), bound);
        let over = errors.iter().filter(|error| **error > bound).count();
        prop_assert_eq!(test.get("quality.over_bound_share"), over as f64 / errors.len() as f64);
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        prop_assert!((test.get("quality.error_mean") - mean).abs() < 1e-9);
    }

    /// The same for the rows of a count-sketch, and for its largest error.
    #[test]
    fn rows_of_count_sketches_are_exact(
        items in proptest::collection::vec((any::<u64>(), 1u64..30), 1..80), seed: u64, workers in 1u32..5,
    ) {
        let config = config(shape(Kind::CountSketch, 3, 16), seed);
        let plain = Plain::<f32>::new(config.clone(), stream_of(&items), None).count(workers);
        let test = plain.test();
        prop_assert_eq!(test.get("quality.row_deviation"), 0.0);
        let total: u64 = items.iter().map(|(_, count)| count).sum();
        prop_assert_eq!(test.get("quality.inserted"), total as f64);
        prop_assert!(!test.sums.contains_key("quality.underestimates"));
        for (row, functions) in config.hashes.rows.iter().enumerate() {
            let sign = |x| if functions.is_negative(x) { -1.0 } else { 1.0 };
            let signed: f64 = items.iter().map(|(x, count)| sign(*x) * *count as f64).sum();
            prop_assert_eq!(plain.cells()[row * 16..][..16].iter().sum::<f64>(), signed);
        }
    }

    /// The same stream, divided in different ways.
    #[test]
    fn a_sketch_does_not_depend_on_who_counts(
        items in proptest::collection::vec((0u64..1000, 1u64..5), 0..60), workers in 1u32..7,
    ) {
        let count = |workers| {
            let config = config(shape(Kind::CountMin, 2, 8), 1);
            let plain = Plain::<f64>::new(config, stream_of(&items), None).count(workers);
            (plain.cells(), plain.sums.digest, plain.sums.get("examples").to_bits())
        };
        prop_assert_eq!(count(1), count(workers));
    }
}

/// [Cormode 2005, theorem 1]: over the choice of functions, at most the fraction δ of the items is off by
/// more than ε N. The bound is Markov's. It is far from tight for skewed counts; uniform counts come closer.
#[test]
fn few_items_are_off_by_more_than_the_bound() {
    for (items, depth) in [(skewed(1, 2000), 1), (skewed(2, 2000), 3), (vec![(0, 1); 1], 1)] {
        let (kind, draws) = (Kind::CountMin, 40);
        let shares = (0..draws).map(|seed| {
            let plain =
                Plain::<f64>::new(config(shape(kind, depth, 32), seed), stream_of(&items), None).count(1);
            plain.test().get("quality.over_bound_share")
        });
        let mean = shares.sum::<f64>() / draws as f64;
        assert!(mean <= kind.delta(depth), "{depth}: {mean}");
    }
}

/// An adversarial stream for a single row: one item is half of the stream. The items in its cell are off by
/// more than the bound, and their share is about 1/width, not 0.
#[test]
fn items_that_share_a_cell_with_a_frequent_one_are_off() {
    let mut items: Vec<(u64, u64)> = (1..2000).map(|x| (x, 1)).collect();
    items.push((0, 2000));
    let draws = 100;
    let shares = (0..draws).map(|seed| {
        let plain =
            Plain::<f64>::new(config(shape(Kind::CountMin, 1, 32), seed), stream_of(&items), None).count(1);
        plain.test().get("quality.over_bound_share")
    });
    let mean = shares.sum::<f64>() / draws as f64;
    assert!((0.02..0.045).contains(&mean), "{mean}");
}

/// [Charikar 2002]: a row's estimate is right on average, and its variance is at most F2 / width. The median
/// is off by more than ε ‖f‖₂ for at most the fraction δ of the items.
#[test]
fn count_sketches_are_unbiased_and_of_bounded_variance() {
    const DRAWS: u64 = 4000;
    const WIDTH: u64 = 8;
    let items: Vec<(u64, u64)> = (0..40).map(|x| (x * x, 1 + x % 7)).collect();
    let squares: f64 = items.iter().map(|(_, count)| (*count * *count) as f64).sum();
    let (mut error, mut square) = (0.0, 0.0);
    for seed in 0..DRAWS {
        let config = config(shape(Kind::CountSketch, 1, WIDTH), seed);
        let row = config.hashes.rows[0];
        let mut cells = [0.0; WIDTH as usize];
        for (x, count) in &items {
            let sign = if row.is_negative(*x) { -1.0 } else { 1.0 };
            cells[row.cell(*x, WIDTH) as usize] += sign * *count as f64;
        }
        let estimator = Estimator { shape: &config.shape, hashes: &config.hashes };
        let (x, count) = items[5];
        let off = estimator.estimate(x, |cell| cells[cell]) - count as f64;
        error += off;
        square += off * off;
    }
    let bound = squares / WIDTH as f64;
    let (mean, variance) = (error / DRAWS as f64, square / DRAWS as f64);
    // 4.5 standard deviations of the mean; 10 % for the variance, whose own deviation is about 3 %.
    assert!(mean.abs() < 4.5 * (bound / DRAWS as f64).sqrt(), "{mean}");
    assert!((0.8..1.1).contains(&(variance / bound)), "{variance} of {bound}");

    let shape = crate::config::Sizes {
        kind: Kind::CountSketch,
        epsilon: Some(0.5),
        delta: Some(0.2),
        width: None,
        depth: None,
        block: 1,
    };
    let shape = shape.shape().unwrap();
    let items = skewed(3, 500);
    let shares = (0..30).map(|seed| {
        let plain = Plain::<f64>::new(config(shape, seed), stream_of(&items), None).count(1);
        plain.test().get("quality.over_bound_share")
    });
    let mean = shares.sum::<f64>() / 30.0;
    assert!(mean <= 0.2, "{mean}");
}

#[test]
fn heavy_hitters_do_not_depend_on_the_number_of_workers() {
    let zipf =
        Stream::builtin("zipf:20000x2000", Options { items: INTEGERS, counts: false, piece_bytes: 1 << 12 });
    let (zipf, top) = (zipf.unwrap(), 10);
    let counts: Vec<u64> = zipf.generator().unwrap().counts().collect();
    let options = Options { items: INTEGERS, counts: false, piece_bytes: 1 << 12 };
    for workers in [1, 3] {
        let config = Config { top, ..config(shape(Kind::CountMin, 4, 2048), 7) };
        let stream = Stream::builtin("zipf:20000x2000", options).unwrap();
        let plain = Plain::<f64>::new(config, stream, None).count(workers);
        let test = plain.test();
        assert_eq!(test.get("quality.top_precision"), 1.0, "{workers} workers");
        let results = plain.task.results();
        assert_eq!(results.top.len(), top);
        for (rank, item) in results.top.iter().enumerate() {
            assert_eq!(item.name, rank.to_string().into_bytes());
            assert!(item.estimate >= counts[rank] as f64);
        }
    }
}

#[test]
fn a_sketch_goes_on_where_another_one_ended() {
    let items = skewed(4, 300);
    let shape = shape(Kind::CountSketch, 3, 32);
    let whole = Plain::<f64>::new(config(shape, 1), stream_of(&items), None).count(1);
    let first = Plain::<f64>::new(config(shape, 1), stream_of(&items[..100]), None).count(1);
    let about = crate::saved::About { shape, hashes: Hashes::new(1, &shape), items: INTEGERS };
    let base = Saved {
        about,
        cells: first.cells(),
        inserted: first.values[shape.blocks() as usize].clone(),
        top: vec![b"5".to_vec()],
    };
    let settings = Config { exact: 0.0, top: 3, ..config(shape, 1) };
    let rest = Plain::<f64>::new(settings, stream_of(&items[100..]), Some(base)).count(2);
    assert_eq!((rest.cells(), rest.values.last()), (whole.cells(), whole.values.last()));
    assert!(lock(&rest.task.subject.candidates).contains(&b"5"[..]));
    assert_eq!(rest.test().get("quality.row_deviation"), 0.0);
    assert_ne!(rest.task.digest(), whole.task.digest());
}

#[test]
fn counts_that_are_too_large_end_the_run() {
    let plain =
        Plain::<f64>::new(config(shape(Kind::CountMin, 1, 8), 1), stream_of(&[(1, COUNT_MAX), (2, 1)]), None);
    let partition = Partition::alone();
    let prepared = plain.task.prepare(BatchAt::alone(0, 0));
    let mut values = plain.values;
    let mut rows = PlainRows { keys: &prepared.keys, values: &mut values };
    let report = plain.task.train(&mut plain.task.scratch(), &prepared.batch, &prepared.keys, &mut rows);
    assert!(report.loss.is_nan() && plain.task.batches(Subepoch { epoch: 0, index: 0 }, partition) == 1);
    assert_eq!(
        plain.task.failure().unwrap().to_string(),
        "the counts of f add up to more than 9007199254740992, up to which sums are exact"
    );
}

/// The frequencies for heuristics equal the actual ones, on average.
#[test]
fn frequencies_are_those_of_the_batches() {
    let zipf = Options { items: INTEGERS, counts: false, piece_bytes: 400 };
    let stream = Stream::builtin("zipf:5000x3000x0", zipf).unwrap();
    let task =
        Counting::<f64>::new(config(shape(Kind::CountMin, 3, 400), 3), Some(stream), None, None).unwrap();
    let partition = Partition { workers: 2, nodes: 2, ..Partition::alone() };
    let expected = task.frequencies(partition).unwrap();
    assert_eq!(expected.len(), 301);
    assert!(expected.iter().all(|of| of.shared));
    let mut accesses = vec![0.0; 301];
    for index in 0..100 {
        task.prepare(BatchAt::alone(0, index)).keys.iter().for_each(|key| accesses[key.index()] += 1.0);
    }
    let (all, told): (f64, f64) = (accesses.iter().sum(), expected.iter().map(|of| of.accesses).sum());
    assert!((told / all - 1.0).abs() < 0.01, "{told}, not {all}");
    assert_eq!((accesses[300], expected[300].accesses, expected[300].uses), (100.0, 100.0, 5000));
    assert_eq!((expected[0].uses, expected[0].key), (50, Key(0)));
}

#[test]
fn an_item_is_in_one_block_of_each_row() {
    let task = |items: Items, text: &[u8]| {
        let config = Config { items, ..config(shape(Kind::CountMin, 3, 400), 3) };
        let options = Options { items, counts: false, piece_bytes: 100 };
        let stream = Stream::memory("f", text.to_vec(), options);
        Counting::<f64>::new(config, Some(stream), None, None).unwrap()
    };
    let keys = |task: &Counting<f64>| {
        let mut keys = task.prepare(BatchAt::alone(0, 0)).keys;
        keys.pop();
        keys
    };
    let integers = task(INTEGERS, b"17\n");
    assert_eq!((integers.keys_named("17"), integers.keys_named("x")), (keys(&integers), vec![]));
    let words = task(Items::Words { ngrams: 2 }, b"a  b\n");
    assert_eq!(words.keys_named("a b"), keys(&words));
}

#[test]
fn the_items_of_a_query_are_estimated_in_order() {
    let items = Items::Words { ngrams: 1 };
    let options = Options { items, counts: false, piece_bytes: 8 };
    let memory = |text: &[u8]| Stream::memory("f", text.to_vec(), options);
    let settings = Config { items, ..config(shape(Kind::CountMin, 4, 400), 3) };
    let task = Counting::<f64>::new(settings, Some(memory(b"a b a c a")), Some(memory(b"c\nz a\na\n")), None);
    let mut plain = Plain::<f64>::new(config(shape(Kind::CountMin, 4, 400), 3), stream_of(&[]), None);
    plain.task = task.unwrap();
    let plain = plain.count(1);
    plain.test();
    let expected = [("c", 1.0), ("z", 0.0), ("a", 3.0), ("a", 3.0)];
    let found: Vec<_> =
        plain.task.results().query.into_iter().map(|item| (item.name, item.estimate)).collect();
    assert_eq!(found, expected.map(|(name, estimate)| (name.as_bytes().to_vec(), estimate)));
}
