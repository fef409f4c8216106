//! How often keys are accessed in an epoch, according to the counts of words.
//!
//! A batch of several words accesses the input vector of each of its words once, the output vector of each
//! context word once, and each sample as often as it is drawn. Skipped words, windows and samples differ from
//! epoch to epoch; numbers of accesses are averages over them, for a text in random order. In real text, the
//! occurrences of a word cluster, so that slightly fewer batches access it. If each pair is a step of its
//! own, a step accesses two vectors and the pair's samples.

use crate::config::Config;
use crate::data::Corpus;
use intendant_core::Key;
use intendant_task::Frequency;

/// Frequencies of all keys that are accessed: input vectors, then output vectors. `kept` returns the
/// probability that a word is kept; `negatives` has the probability of each word to be a sample; an epoch has
/// `batches` batches.
pub(crate) fn frequencies(
    corpus: &Corpus,
    config: &Config,
    kept: impl Fn(u32) -> f64,
    negatives: &[f64],
    (batches, nodes): (u64, u32),
) -> Vec<Frequency> {
    let vocabulary = corpus.vocabulary();
    // Held-out blocks contain a word of the vocabulary as often as other blocks.
    let part = corpus.training_words() as f64 / corpus.words() as f64;
    let of_words: Vec<f64> =
        (0..).zip(vocabulary.counts()).map(|(word, count)| part * *count as f64 * kept(word)).collect();
    let all: f64 = of_words.iter().sum();
    let window = config.window;
    let pieces = corpus.pieces() as f64 * part;
    let length = all / pieces;
    // Probability that a window reaches this distance, and that the word there is in the same piece.
    let reaches = |distance: usize| {
        (window + 1 - distance) as f64 / window as f64 * (1.0 - distance as f64 / length).max(0.0)
    };
    let reaches: Vec<f64> = (1..=window).map(reaches).collect();
    let pairs = all * 2.0 * reaches.iter().sum::<f64>();
    let in_batch = all / batches as f64;
    let in_contexts = between(in_batch, |words| in_contexts(&reaches, words));
    // Number of batches that contain a word with this share of all words, if each batch has `words` words.
    let batches_with = |part: f64, words: f64| batches as f64 * -(words * (-part).ln_1p()).exp_m1();
    // Number of steps that access a word with this share of all words: as an input, and as a context word.
    let direct = |part: f64| match config.separate {
        true => [pairs * part; 2],
        false => [in_batch, in_contexts].map(|words| batches_with(part, words)),
    };
    let mut frequencies = Vec::new();
    let mut add = |key: u64, accesses: f64, word: f64| {
        if accesses > 0.0 {
            let uses = if word > 0.0 { word.round().max(1.0) as u64 } else { 0 };
            frequencies.push(Frequency { key: Key(key), accesses, uses, shared: nodes > 1 });
        }
    };
    for (key, word) in (0..).zip(&of_words) {
        add(key, direct(word / all)[0], *word);
    }
    let samples = pairs * config.negatives as f64;
    for ((key, word), sampled) in (vocabulary.len() as u64..).zip(&of_words).zip(negatives) {
        add(key, direct(word / all)[1] + samples * sampled, *word);
    }
    frequencies
}

/// The expected number of places in the context of any of `words` neighbouring words. `reaches` has the
/// probabilities that a word reaches its neighbour at each distance, from 1.
fn in_contexts(reaches: &[f64], words: usize) -> f64 {
    // The probability that none of the nearest neighbours on one side reaches a place, by their number.
    let mut missed = vec![1.0];
    for reach in reaches {
        missed.extend(missed.last().map(|before| before * (1.0 - reach)));
    }
    let of_side = |neighbours: usize| missed[neighbours.min(reaches.len())];
    let within = (0..words).map(|place| 1.0 - of_side(place) * of_side(words - 1 - place)).sum::<f64>();
    let beyond = |distance: usize| {
        1.0 - reaches.iter().skip(distance).take(words).map(|reach| 1.0 - reach).product::<f64>()
    };
    within + 2.0 * (0..reaches.len()).map(beyond).sum::<f64>()
}

/// Interpolates a function of whole numbers.
fn between(at: f64, of: impl Fn(usize) -> f64) -> f64 {
    let (low, part) = (at.floor(), at.fract());
    (1.0 - part) * of(low as usize) + part * of(low as usize + 1)
}
