//! Word similarity: do cosines order pairs of words as people do?

use super::vectors::Vectors;
use crate::data::{Corpus, UNKNOWN};
use intendant_core::random::stream;
use intendant_core::{Element, Key};

/// Two words and their similarity as rated by people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rated {
    /// Numbers of the words.
    pub words: [u32; 2],
    /// The larger the more similar.
    pub score: f64,
}

/// Pairs of words that people have rated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Similarities {
    /// Pairs of words of the vocabulary.
    pub rated: Vec<Rated>,
    /// Number of pairs with other words.
    pub skipped: usize,
}

impl Similarities {
    /// Pairs of words of a generated text, with a score of 1 if both are of the same topic, else 0. Half of
    /// the ratings are equal, so perfect vectors reach √3/2 = 0.87. `None` if the text is not generated.
    pub fn of_topics(corpus: &Corpus) -> Option<Self> {
        let pairs = corpus.topic_pairs()?;
        let known = pairs.iter().filter(|(words, _)| !words.contains(&UNKNOWN));
        let rated = known.map(|(words, same)| Rated { words: *words, score: f64::from(u8::from(*same)) });
        let rated: Vec<Rated> = rated.collect();
        Some(Self { skipped: pairs.len() - rated.len(), rated })
    }

    pub(crate) fn digest(&self) -> u64 {
        let rated = self.rated.iter();
        rated.fold(self.skipped as u64, |digest, rated| {
            let [a, b] = rated.words.map(u64::from);
            stream(digest, &[a, b, rated.score.to_bits()])
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.rated.iter().flat_map(|rated| rated.words).map(|word| Key(word.into()))
    }
}

/// Spearman's rank correlation between the scores and the cosines of input vectors; `None` if it does not
/// exist, that is, if there are fewer than two pairs, or all ratings or all cosines are equal.
pub(crate) fn spearman<E: Element>(similarities: &Similarities, vectors: Vectors<'_, E>) -> Option<f64> {
    let scores: Vec<f64> = similarities.rated.iter().map(|rated| rated.score).collect();
    let cosines = similarities.rated.iter().map(|rated| {
        let [a, b] = rated.words.map(|word| vectors.of(Key(word.into())));
        cosine(a, b)
    });
    correlation(&ranks(&scores), &ranks(&cosines.collect::<Vec<_>>()))
}

/// The cosine, in double precision; 0 if a vector consists of zeros.
fn cosine<E: Element>(a: &[E], b: &[E]) -> f64 {
    let product = |a: &[E], b: &[E]| a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum::<f64>();
    let norms = product(a, a).sqrt() * product(b, b).sqrt();
    if norms > 0.0 { product(a, b) / norms } else { 0.0 }
}

/// The rank of each number, from 1; equal numbers get the mean of their ranks.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_unstable_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut before = 0;
    for equal in order.chunk_by(|a, b| numbers[*a] == numbers[*b]) {
        let rank = before as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|at| ranks[*at] = rank);
        before += equal.len();
    }
    ranks
}

/// Pearson's correlation; `None` if one side does not vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        both += (a - mean_a) * (b - mean_b);
        of_a += (a - mean_a) * (a - mean_a);
        of_b += (b - mean_b) * (b - mean_b);
    }
    (of_a > 0.0 && of_b > 0.0).then(|| both / (of_a * of_b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Optimizer, Shape};

    #[test]
    fn equal_numbers_share_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, -2.0, 3.0]), [4.0, 2.0, 4.0, 1.0, 4.0]);
        assert_eq!(ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    /// The example of Spearman's coefficient in Wikipedia: −29/165; and ties, computed by hand.
    #[test]
    fn correlations_are_those_of_a_textbook() {
        let iq = [106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0];
        let hours = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        let rho = correlation(&ranks(&iq), &ranks(&hours)).unwrap();
        assert!((rho + 29.0 / 165.0).abs() < 1e-12, "{rho}");
        // Ranks 1.5, 1.5, 3 and 1, 2.5, 2.5.
        let rho = correlation(&ranks(&[5.0, 5.0, 9.0]), &ranks(&[0.0, 1.0, 1.0])).unwrap();
        assert!((rho - 0.5).abs() < 1e-12, "{rho}");
        assert_eq!(correlation(&[1.5, 1.5], &[1.0, 2.0]), None);
        assert_eq!(correlation(&[], &[]), None);
    }

    #[test]
    fn cosines_are_ordered_as_scores() {
        let shape = Shape { dim: 2, optimizer: Optimizer::AdaGrad };
        let keys = [0, 1, 2, 5].map(Key);
        // The elements after a vector are optimiser state.
        let values = [1.0f64, 0.0, 9.0, 9.0, 10.0, 1.0, 9.0, 9.0, 0.1, 0.1, 9.0, 9.0, -3.0, 0.0, 9.0, 9.0];
        let vectors = Vectors { keys: &keys, values: &values, shape };
        let rated = |scores: [f64; 3]| {
            let of = |(word, score)| Rated { words: [0, word], score };
            Similarities { rated: [1, 2, 5].into_iter().zip(scores).map(of).collect(), skipped: 0 }
        };
        let rho = |scores| spearman(&rated(scores), vectors).unwrap();
        assert_eq!((rho([9.0, 5.0, 1.0]), rho([1.0, 5.0, 9.0]), rho([5.0, 9.0, 1.0])), (1.0, -1.0, 0.5));
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 0.0]), 0.0);
    }
}
