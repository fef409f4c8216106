//! The random draws of a block: which words are kept, and how far the context of each reaches.
//!
//! As in the original program, frequent words are skipped before windows are laid out: two words are
//! neighbours if no kept word is between them. Each kept word draws the number of words on each side that are
//! its context, from 1 to the window. Both draws depend on the block and the epoch only, not on the batches
//! of the block.

use crate::data::{UNKNOWN, Words};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// The kept words of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    kept: Vec<Kept>,
}

/// A kept word, and its context: a range of kept words around it, the word itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) word: u32,
    /// Its place among all words of the block.
    at: u32,
    first: u32,
    end: u32,
}

impl Kept {
    /// The places of its context, itself included.
    pub(crate) fn context(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// Probabilities in units of 2^-32, for each word.
#[derive(Clone, Debug)]
pub(crate) struct Keep(Vec<u32>);

impl Keep {
    pub(crate) fn new(probabilities: impl Iterator<Item = f64>) -> Self {
        // A conversion to an integer saturates.
        Self(probabilities.map(|p| (p * 2f64.powi(32)) as u32).collect())
    }

    fn keeps(&self, word: u32, rng: &mut impl Rng) -> bool {
        // The largest number stands for certainty, so that a probability of almost 1 becomes 1.
        let threshold = self.0[word as usize];
        threshold == u32::MAX || rng.next_u32() < threshold
    }
}

impl Drawn {
    /// Draws, with the random numbers of `stream`.
    pub(crate) fn new(words: &Words, keep: &Keep, window: usize, stream: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(stream);
        let mut kept: Vec<Kept> = Vec::with_capacity(words.words.len());
        let mut start = 0;
        for end in &words.ends {
            let first_kept = kept.len() as u32;
            for (at, word) in (start..*end).zip(&words.words[start..*end]) {
                if *word != UNKNOWN && keep.keeps(*word, &mut rng) {
                    kept.push(Kept { word: *word, at: at as u32, first: first_kept, end: 0 });
                }
            }
            start = *end;
            let piece = first_kept..kept.len() as u32;
            for place in piece.clone() {
                let reach = rng.random_range(1..=window as u32);
                let word = &mut kept[place as usize];
                word.first = place.saturating_sub(reach).max(piece.start);
                word.end = place.saturating_add(reach).saturating_add(1).min(piece.end);
            }
        }
        Self { kept }
    }

    /// All kept words.
    pub(crate) fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// The places of the kept words that lie in a range of all words of the block.
    pub(crate) fn places(&self, words: Range<u64>) -> Range<usize> {
        let place = |word: u64| self.kept.partition_point(|kept| u64::from(kept.at) < word);
        place(words.start)..place(words.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pieces: &[&[u32]]) -> Words {
        let mut words = Words::default();
        for piece in pieces {
            words.words.extend_from_slice(piece);
            words.ends.push(words.words.len());
        }
        words
    }

    #[test]
    fn windows_stay_within_pieces_and_reach_over_what_is_skipped() {
        let all = words(&[&[0, 1, UNKNOWN, 2], &[], &[UNKNOWN], &[3], &[4, 5]]);
        let drawn = Drawn::new(&all, &Keep::new([1.0, 0.0, 1.0, 1.0, 1.0, 1.0].into_iter()), 5, 1);
        let found: Vec<_> = drawn.kept().iter().map(|kept| (kept.word, kept.context())).collect();
        assert_eq!(found, [(0, 0..2), (2, 0..2), (3, 2..3), (4, 3..5), (5, 3..5)]);
        assert_eq!(drawn.places(0..3), 0..1);
        assert_eq!(drawn.places(3..5), 1..2, "the third is unknown, the fifth as well");
        assert_eq!(drawn.places(5..8), 2..5);
    }

    #[test]
    fn words_are_kept_and_windows_drawn_as_often_as_they_should() {
        let piece: Vec<u32> = (0..50_000).map(|i| i % 2).collect();
        let drawn = Drawn::new(&words(&[&piece]), &Keep::new([0.3, 0.9].into_iter()), 4, 7);
        let kept = |word| drawn.kept().iter().filter(|kept| kept.word == word).count() as f64 / 25_000.0;
        assert!((kept(0) - 0.3).abs() < 0.01 && (kept(1) - 0.9).abs() < 0.01, "{} {}", kept(0), kept(1));
        let inner = &drawn.kept()[10..drawn.kept().len() - 10];
        for reach in 1..=4 {
            let share = inner.iter().filter(|kept| kept.context().len() == 2 * reach + 1).count();
            assert!((share as f64 / inner.len() as f64 - 0.25).abs() < 0.01);
        }
        for (place, kept) in (10..).zip(inner) {
            assert_eq!(place - kept.context().start, kept.context().end - 1 - place, "as far on both sides");
        }
    }
}
