//! Compares frequencies with the pulls of batches.

use super::tests::config;
use super::*;
use crate::data::Options;
use crate::model::Optimizer;
use intendant_sampling::{Everything, Manager};

/// Mean number of pulls of each key per epoch, over some epochs.
fn pulls(task: &Word2vec<f32>, epochs: u32) -> Vec<f64> {
    let mut pulls = vec![0.0; task.model().keys() as usize];
    for epoch in 0..epochs {
        for index in 0..task.batches(Subepoch { epoch, index: 0 }, Partition::alone()) {
            let prepared = task.prepare(BatchAt::alone(epoch, index));
            prepared.keys.iter().for_each(|key| pulls[key.index()] += 1.0);
            for request in prepared.samples {
                let manager = Manager::new(task.model().sampler.clone(), 0, 0);
                let SampleRequest { distribution, samples, stream } = request;
                let handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
                handle.ahead().for_each(|key| pulls[key.index()] += 1.0);
            }
        }
    }
    pulls.iter_mut().for_each(|count| *count /= f64::from(epochs));
    pulls
}

fn task(data: &str, config: Config) -> Word2vec<f32> {
    let corpus = Corpus::builtin(data, Options::default()).unwrap();
    Word2vec::new(Arc::new(corpus), config, Tests::default()).unwrap()
}

/// Compares sums over groups of keys of similar frequency, for input vectors and for output vectors.
fn compare(task: &Word2vec<f32>, seen: &[f64], tolerance: f64) {
    let two_nodes = Partition { workers: 4, nodes: 2, ..Partition::alone() };
    let frequencies = task.frequencies(two_nodes).unwrap();
    assert!(frequencies.is_sorted_by(|a, b| a.key < b.key) && frequencies.iter().all(|f| f.shared));
    assert!(task.frequencies(Partition::alone()).unwrap().iter().all(|f| !f.shared));
    let mut expected = vec![0.0; seen.len()];
    frequencies.iter().for_each(|f| expected[f.key.index()] = f.accesses);
    let words = seen.len() / 2;
    for first in [0, words] {
        let mut start = 0;
        for end in [10, 100, 1000, words].into_iter().filter(|end| *end <= words) {
            let sum = |of: &[f64]| of[first + start..first + end].iter().sum::<f64>();
            let ratio = sum(seen) / sum(&expected);
            assert!((ratio - 1.0).abs() < tolerance, "{:?} of {first}: {ratio}", start..end);
            start = end;
        }
    }
    let never = (0..).zip(&expected).filter(|(_, expected)| **expected == 0.0);
    assert!(never.into_iter().all(|(key, _): (usize, _)| seen[key] == 0.0));
}

#[test]
fn frequencies_are_how_often_keys_are_pulled() {
    let base = Config { dim: 1, negatives: 2, ..config() };
    for (sample, batch_words, window) in [(0.0, 100, 5), (1e-3, 100, 5), (1e-2, 12, 2), (0.0, 1, 4)] {
        let task = task("topics:3000x60000", Config { sample, batch_words, window, ..base.clone() });
        compare(&task, &pulls(&task, 2), 0.12);
    }
    let separate = Config { sample: 1e-2, batch_words: 1, separate: true, window: 4, ..base };
    let task = task("topics:3000x60000", separate);
    compare(&task, &pulls(&task, 2), 0.12);
}

/// In real text, words come in bursts.
#[test]
fn frequencies_of_real_text_are_about_right() {
    let config = Config { dim: 1, negatives: 5, sample: 1e-4, window: 5, batch_words: 100, ..config() };
    let task = task("wiki", Config { optimizer: Optimizer::AdaGrad, ..config });
    compare(&task, &pulls(&task, 1), 0.3);
}

#[test]
fn uses_are_words_of_the_training_text_that_are_not_skipped() {
    let task = task("topics:300x60000", Config { sample: 0.0, ..config() });
    let frequencies = task.frequencies(Partition::alone()).unwrap();
    let words = task.corpus().training_words() as f64;
    for side in [0, 300] {
        let of_side = frequencies.iter().filter(|f| (side..side + 300).contains(&f.key.0));
        let uses = of_side.map(|f| f.uses).sum::<u64>() as f64;
        assert!((uses / words - 1.0).abs() < 0.01, "{uses} of {words}");
    }
}
