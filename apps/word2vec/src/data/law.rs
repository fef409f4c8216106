//! How often the words of a generated text occur, by their ranks from the most frequent one.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;

/// The distribution of words.
#[derive(Clone, Debug)]
pub(super) enum Law {
    /// Zipf's law with exponent 1.
    Zipf(Zipf<f64>),
    /// Cumulative frequencies of words up to each rank, in any unit.
    Sums(Arc<[f64]>),
}

/// Ranks and frequencies of words in English Wikipedia: 7,803 articles of 2015 with 17.65 million words. The
/// 337 stop words of Gensim, and the names of digits, which stand for numbers in this corpus, were removed;
/// they are half of the text. The most frequent word that remains is the possessive s.
const ENGLISH: [(u32, f64); 7] = [
    (1, 132_543.0),
    (10, 14_998.0),
    (100, 6_096.0),
    (1_000, 1_543.0),
    (3_000, 550.0),
    (10_000, 126.0),
    (40_000, 12.0),
];

impl Law {
    /// Zipf's law for `words` words.
    ///
    /// # Panics
    /// If there are no words.
    pub(super) fn zipf(words: u32) -> Self {
        Self::Zipf(Zipf::new(f64::from(words), 1.0).expect("there are words, and the exponent is positive"))
    }

    /// The frequencies of English without stop words: power laws between the ranks of [`ENGLISH`], the last
    /// of which holds for all words beyond. Its exponent is 1.7; the British National Corpus has 1.9 beyond
    /// some thousand words [Ferrer i Cancho 2001].
    ///
    /// # Panics
    /// If there are no words.
    pub(super) fn english(words: u32) -> Self {
        assert!(words > 0, "there are words");
        let mut sum = 0.0;
        let sums = (1..=words).map(|rank| {
            sum += english(rank);
            sum
        });
        Self::Sums(sums.collect())
    }
}

/// The frequency of a word.
fn english(rank: u32) -> f64 {
    let next = ENGLISH.partition_point(|(known, _)| *known < rank).clamp(1, ENGLISH.len() - 1);
    let ((from, of_from), (to, of_to)) = (ENGLISH[next - 1], ENGLISH[next]);
    let exponent = (of_to / of_from).ln() / (f64::from(to) / f64::from(from)).ln();
    of_from * (f64::from(rank) / f64::from(from)).powf(exponent)
}

/// Draws ranks, from 0.
impl Distribution<u32> for Law {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u32 {
        match self {
            Self::Zipf(zipf) => zipf.sample(rng) as u32 - 1,
            Self::Sums(sums) => {
                let total = sums[sums.len() - 1];
                let drawn = rng.random::<f64>() * total;
                let rank = sums.partition_point(|sum| *sum <= drawn);
                // Because products are rounded, one may reach the total.
                rank.min(sums.len() - 1) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    /// Shares of draws below each of the ranks.
    fn below<const N: usize>(law: &Law, ranks: [u32; N]) -> [f64; N] {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut counts = [0; N];
        for _ in 0..200_000 {
            let rank = law.sample(&mut rng);
            counts.iter_mut().zip(ranks).for_each(|(count, limit)| *count += u32::from(rank < limit));
        }
        counts.map(|count| f64::from(count) / 200_000.0)
    }

    #[test]
    fn words_are_drawn_as_often_as_the_laws_say() {
        let (words, ranks) = (950_000, [1, 30, 1_600, 20_000, 950_000]);
        let check = |law: &Law, frequency: fn(u32) -> f64| {
            let up_to = |limit: u32| (1..=limit).map(frequency).sum::<f64>();
            for (share, limit) in below(law, ranks).into_iter().zip(ranks) {
                assert!((share - up_to(limit) / up_to(words)).abs() < 0.005, "{limit}: {share}");
            }
        };
        check(&Law::zipf(words), |rank| f64::from(rank).recip());
        check(&Law::english(words), english);
    }

    #[test]
    fn english_has_the_frequencies_that_were_measured() {
        for (rank, frequency) in ENGLISH {
            assert!((english(rank) / frequency - 1.0).abs() < 1e-9, "{rank}");
        }
        let exponent = (english(80_000) / english(160_000)).log2();
        assert!((1.69..1.70).contains(&exponent), "{exponent}");
        assert_eq!(below(&Law::english(1), [1]), [1.0]);
    }
}
