//! The topics of a document that was not trained, given the words of all topics.
//!
//! The proportions θ of topics are those that maximise Π_w (Σ_k θ_k φ_kw)^n_w · Π_k θ_k^α. Expectation
//! maximisation finds them: it alternates between the expected number of tokens of each topic, token by
//! token, and proportions that are proportional to these numbers plus α. The function is concave, so that
//! there is one maximum, whatever the start. Nothing is random.

use intendant_core::Element;

/// Maximum number of rounds. They end earlier when at most this part of a document's tokens changes its
/// topic.
const ROUNDS_MAX: usize = 200;
const CHANGE_MAX: f64 = 1e-4;

/// The probability of each word in each topic, word by word, from the tokens of all words in each topic, and
/// the tokens of each of these words. The model has `words` words.
pub(crate) fn probabilities<E: Element>(eta: f64, words: usize, totals: &[E], counts: &[E]) -> Vec<f64> {
    let all = words as f64 * eta;
    let probability = |(count, total): (&E, &E)| (count.to_f64() + eta) / (total.to_f64() + all);
    counts.chunks_exact(totals.len()).flat_map(|counts| counts.iter().zip(totals).map(probability)).collect()
}

/// The probabilities of words, and buffers.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    alpha: f64,
    topics: usize,
    /// The probability of each word in each topic, word by word.
    probabilities: Vec<f64>,
    expected: Vec<f64>,
    next: Vec<f64>,
    weights: Vec<f64>,
}

impl Folder {
    /// Creates a folder with the probability of each word in each topic, word by word.
    pub(crate) fn new(alpha: f64, topics: usize, probabilities: Vec<f64>) -> Self {
        let zeros = vec![0.0; topics];
        Self { alpha, topics, probabilities, expected: zeros.clone(), next: zeros.clone(), weights: zeros }
    }

    /// The proportions of topics of a document. `words` has places of words and the number of occurrences of
    /// each in the document.
    pub(crate) fn mixture(&mut self, words: &[(usize, u32)]) -> Vec<f64> {
        let Self { alpha, topics, probabilities, expected, next, weights } = self;
        let tokens: f64 = words.iter().map(|(_, count)| f64::from(*count)).sum();
        expected.fill(tokens / *topics as f64);
        for _ in 0..ROUNDS_MAX {
            next.fill(0.0);
            for (word, count) in words {
                let of_word = &probabilities[word * *topics..][..*topics];
                let mut sum = 0.0;
                for ((weight, expected), probability) in weights.iter_mut().zip(&*expected).zip(of_word) {
                    *weight = (expected + *alpha) * probability;
                    sum += *weight;
                }
                let scale = f64::from(*count) / sum;
                next.iter_mut().zip(&*weights).for_each(|(next, weight)| *next += scale * weight);
            }
            let change: f64 = next.iter().zip(&*expected).map(|(next, before)| (next - before).abs()).sum();
            std::mem::swap(expected, next);
            if change <= CHANGE_MAX * tokens {
                break;
            }
        }
        let all = tokens + *alpha * *topics as f64;
        expected.iter().map(|expected| (expected + *alpha) / all).collect()
    }

    /// The probability of a word in a document with these proportions of topics.
    pub(crate) fn probability(&self, mixture: &[f64], word: usize) -> f64 {
        let of_word = &self.probabilities[word * self.topics..][..self.topics];
        mixture.iter().zip(of_word).map(|(part, probability)| part * probability).sum()
    }
}
