//! Perplexity compared with that of the true topics, mixtures in closed form, and counts that do not agree.

use super::*;
use crate::Lda;
use crate::data::{Generator, HeldOut, Source};
use crate::task::tests::{config, corpus, evaluate, initial, train};
use intendant_task::{Partition, Split};
use proptest::prelude::*;

fn perplexity(sums: &Reduction) -> f64 {
    (sums.get("quality.ln perplexity") / sums.get("quality.count")).exp()
}

/// The learned model predicts about as well as the topics from which the documents were drawn.
#[test]
fn trained_topics_predict_like_the_true_ones() {
    let generator = Generator::named("topics:400x200x5").unwrap();
    let corpus = Corpus::open(&Source::Generated(generator), &HeldOut::Every(10)).unwrap();
    let corpus = Arc::new(corpus);
    let config = Config { alpha: 0.1, eta: 0.01, batch: 8, ..config(5) };
    let task = Lda::<f32>::new(Arc::clone(&corpus), config.clone(), None).unwrap();
    let mut values = initial(&task);
    let untrained = perplexity(&evaluate(&task, Split::Valid, 1, &values));
    assert!((untrained / 200.0 - 1.0).abs() < 1e-9, "all words are equally probable: {untrained}");
    (0..60).for_each(|epoch| {
        train(&task, Partition::alone(), epoch, &mut values);
    });
    let sums = evaluate(&task, Split::Test, 1, &values);
    let topics: Vec<Vec<f64>> = (0..5).map(|topic| generator.topic(topic)).collect();
    let by_word = (0..200).flat_map(|word| topics.iter().map(move |topic| topic[word]).collect::<Vec<_>>());
    let mut folder = Folder::new(config.alpha, 5, by_word.collect());
    let (mut loss, mut scored) = (0.0, 0);
    for entries in corpus.test().iter() {
        let words: Vec<_> = entries.iter().map(|entry| (entry.word as usize, entry.count)).collect();
        let (of_document, hidden) = complete(&mut folder, &words);
        (loss, scored) = (loss + of_document, scored + hidden);
    }
    assert_eq!(sums.get("quality.count"), scored as f64);
    let (learnt, truth) = (perplexity(&sums), (loss / scored as f64).exp());
    assert!((0.99..1.03).contains(&(learnt / truth)), "{learnt}, and {truth} with the true topics");
    // Each topic is found: its most frequent words are those of one true topic.
    let summary = task.take_summary().unwrap();
    let mut owners: Vec<String> = Vec::new();
    for topic in summary.topics() {
        let names = topic.words.iter().map(|(word, _)| corpus.words().get(*word as usize).unwrap());
        owners.extend(
            names.filter_map(|name| Some(name.strip_prefix("topic")?.split_once('-')?.0.to_owned())).next(),
        );
    }
    owners.sort();
    assert_eq!(owners, ["1", "2", "3", "4", "5"]);
    // The shares of all workers give the whole.
    let shared = evaluate(&task, Split::Test, 3, &values);
    assert!((perplexity(&shared) / learnt - 1.0).abs() < 1e-12);
    assert_eq!(task.take_mixtures(), None);
    let task = task.mixing();
    assert!((perplexity(&evaluate(&task, Split::Test, 3, &values)) / learnt - 1.0).abs() < 1e-12);
    let mixtures = task.take_mixtures().unwrap();
    assert_eq!(mixtures.len(), corpus.test().len());
    assert!(mixtures.iter().all(|mixture| (mixture.iter().sum::<f64>() - 1.0).abs() < 1e-9));
}

proptest! {
    /// Compares with an enumeration of the tokens, one by one.
    #[test]
    fn tokens_are_given_and_hidden_by_turns(counts in proptest::collection::vec(1u32..6, 0..9)) {
        let words: Vec<(usize, u32)> = counts.into_iter().enumerate().collect();
        let tokens: Vec<usize> =
            words.iter().flat_map(|(word, count)| std::iter::repeat_n(*word, *count as usize)).collect();
        for (place, half) in halves(&words).into_iter().enumerate() {
            let found: Vec<usize> =
                half.iter().flat_map(|(word, count)| std::iter::repeat_n(*word, *count as usize)).collect();
            let expected: Vec<usize> = tokens.iter().copied().skip(place).step_by(2).collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// At the maximum, the derivatives with respect to all proportions are equal, because their sum is fixed.
    /// There is only one maximum.
    #[test]
    fn mixtures_are_the_most_probable_ones(
        probabilities in proptest::collection::vec(0.05f64..1.0, 12),
        counts in proptest::collection::vec(0u32..5, 4),
    ) {
        const ALPHA: f64 = 0.4;
        let words = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        let words: Vec<(usize, u32)> = words.collect();
        let mut folder = Folder::new(ALPHA, 3, probabilities.clone());
        let mixture = folder.mixture(&words);
        prop_assert!((mixture.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let tokens: f64 = words.iter().map(|(_, count)| f64::from(*count)).sum();
        for topic in 0..3 {
            let of_word = |(word, count): &(usize, u32)| {
                f64::from(*count) * probabilities[word * 3 + topic] / folder.probability(&mixture, *word)
            };
            let derivative = words.iter().map(of_word).sum::<f64>() + ALPHA / mixture[topic];
            let expected = tokens + 3.0 * ALPHA;
            let ratio = derivative / expected;
            prop_assert!((ratio - 1.0).abs() < 0.02, "{:?}: {}", mixture, ratio);
        }
    }
}

/// Changes a trained model and evaluates it; returns the panic of the check at the end of a run, if there is
/// one.
fn panics(change: impl FnOnce(&Layout, &mut [Vec<f64>])) -> Option<String> {
    let task = Lda::<f64>::new(corpus(4, &[vec![(0, 70), (1, 2)], vec![(2, 3), (1, 1)]]), config(3), None);
    let task = task.unwrap();
    let mut values = initial(&task);
    (0..3).for_each(|epoch| {
        train(&task, Partition::alone(), epoch, &mut values);
    });
    change(task.layout(), &mut values);
    let check = std::panic::AssertUnwindSafe(|| evaluate(&task, Split::Test, 1, &values));
    let panic = std::panic::catch_unwind(check).err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn counts_that_do_not_agree_are_noticed() {
    assert_eq!(panics(|_, _| ()), None);
    let said = panics(|layout, values| values[layout.totals().index()][1] += 1.0).unwrap();
    assert!(said.starts_with("topic 2 has ") && said.contains(" by the totals, and "), "{said}");
    let said = panics(|layout, values| {
        let word = layout.word(3).index();
        (values[word][0], values[layout.totals().index()][0]) =
            (1.0, values[layout.totals().index()][0] + 1.0);
    });
    assert!(said.unwrap().starts_with("topic 1 has "));
    // A token gets another word, which leaves all sums unchanged.
    let said = panics(|layout, values| {
        let (from, to) = (layout.word(0).index(), layout.word(3).index());
        let topic = values[from].iter().position(|count| *count > 0.0).unwrap();
        (values[from][topic], values[to][topic]) = (values[from][topic] - 1.0, 1.0);
    });
    assert!(said.unwrap().starts_with("the counts of words are not those of the assignments"));
    // Two tokens of different words exchange their topics.
    let said = panics(|layout, values| {
        let (first, second) = (layout.blocks(0).start as usize, layout.blocks(1).start as usize);
        let other = (values[second][0] as usize) % 3 + 1;
        let at = values[first].iter().position(|topic| *topic as usize == other);
        let at = at.unwrap_or(0);
        let (a, b) = (values[first][at], values[second][0]);
        (values[first][at], values[second][0]) = if a == b { (a, b + 0.5) } else { (b, a) };
    });
    assert!(said.is_some());
    let said = panics(|layout, values| values[layout.word(1).index()][2] -= 100.0).unwrap();
    assert!(said.starts_with("the value of k1 ") && said.contains("which is none"), "{said}");
    let said = panics(|layout, values| values[layout.blocks(1).start as usize][4] = 1.0).unwrap();
    assert!(said.contains("which is none"), "behind the last token: {said}");
}
