//! Analogies: a is to b as c is to which word?
//!
//! The answer is the word whose input vector has the largest cosine with b − a + c, where a, b and c are
//! normalised (3CosAdd); a, b and c themselves are excluded. Candidates are the most frequent words. They
//! arrive in parts, so that memory is proportional to the number of words in the questions: for each part,
//! the cosines of these words with the candidates are computed, and each question adds three of them.

use super::vectors::Vectors;
use crate::model::Shape;
use intendant_core::random::stream;
use intendant_core::{Element, Key};
use intendant_task::kernel::dot;
use intendant_task::{Partition, Reduction, Split};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// A question and its answer, in numbers of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// a, b, c and the answer: a is to b as c is to it.
    pub words: [u32; 4],
    /// Number of its section.
    pub section: u32,
}

/// Questions of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Whether the questions are about the forms of words, and not about their meaning.
    pub syntactic: bool,
    /// Number of questions with a word that is not a candidate.
    pub skipped: usize,
}

/// The analogies that are tested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analogies {
    /// Candidates are among this many of the most frequent words.
    pub words: u32,
    /// The words among these that are not candidates, because a more frequent word differs only in capitals.
    /// Ascending.
    pub left_out: Vec<u32>,
    /// The kinds of questions.
    pub sections: Vec<Section>,
    /// The questions whose words are all candidates.
    pub questions: Vec<Question>,
}

impl Analogies {
    pub(crate) fn digest(&self) -> u64 {
        self.questions.iter().fold(self.words.into(), |digest, question| {
            let [a, b, c, answer] = question.words.map(u64::from);
            stream(digest, &[a, b, c, answer, question.section.into()])
        })
    }
}

/// One worker's questions and their best answers so far.
pub(crate) struct Answers<E> {
    all: Analogies,
    shape: Shape,
    split: Split,
    is_first: bool,
    /// The worker's part of the questions.
    own: Range<usize>,
    /// The words in its questions, ascending, and their unit vectors.
    words: Vec<u32>,
    vectors: Vec<E>,
    /// For each question of this worker, the positions of a, b and c among those words.
    places: Vec<[u32; 3]>,
    /// For each question of this worker, the best candidate and its score.
    best: Vec<(E, Key)>,
}

impl<E: Element> Answers<E> {
    pub(crate) fn new(all: &Analogies, shape: Shape, split: Split, partition: Partition) -> Self {
        // Neighbouring questions share words, so each worker gets consecutive ones.
        let start = |worker: u32| all.questions.len() * worker as usize / partition.workers as usize;
        let own = start(partition.worker)..start(partition.worker + 1);
        let asked = all.questions[own.clone()].iter().flat_map(|question| question.words[..3].iter());
        let mut words: Vec<u32> = asked.copied().collect();
        words.sort_unstable();
        words.dedup();
        let place = |word: u32| words.partition_point(|other| *other < word) as u32;
        let places = all.questions[own.clone()].iter().map(|question| {
            let [a, b, c, _] = question.words;
            [a, b, c].map(place)
        });
        let places = places.collect();
        let best = vec![(E::from_f64(f64::NEG_INFINITY), Key(u64::MAX)); own.len()];
        let is_first = partition.worker == 0;
        Self { all: all.clone(), shape, split, is_first, own, vectors: Vec::new(), words, places, best }
    }

    /// Keys of the words in the questions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.words.iter().map(|word| Key(u64::from(*word)))
    }

    /// Keys of the candidates.
    pub(crate) fn candidates(&self) -> Range<u64> {
        if self.own.is_empty() { 0..0 } else { 0..self.all.words.into() }
    }

    /// Takes the vectors of the words in the questions.
    pub(crate) fn ask(&mut self, vectors: Vectors<'_, E>) {
        for word in &self.words {
            let start = self.vectors.len();
            self.vectors.extend_from_slice(vectors.of(Key((*word).into())));
            normalise(&mut self.vectors[start..]);
        }
    }

    /// Considers some candidates.
    pub(crate) fn consider(&mut self, keys: &[Key], values: &[E]) {
        let dim = self.shape.dim;
        let is_candidate =
            |key: Key| u32::try_from(key.0).is_ok_and(|word| self.all.left_out.binary_search(&word).is_err());
        let mut candidates = Vec::with_capacity(keys.len());
        let mut vectors = Vec::with_capacity(keys.len() * dim);
        for (key, value) in keys.iter().zip(values.chunks_exact(self.shape.len())) {
            if is_candidate(*key) {
                candidates.push(*key);
                let start = vectors.len();
                vectors.extend_from_slice(&value[..dim]);
                normalise(&mut vectors[start..]);
            }
        }
        Arch::new().dispatch(Consider {
            dim,
            words: &self.words,
            asked: &self.vectors,
            candidates: &candidates,
            vectors: &vectors,
            places: &self.places,
            best: &mut self.best,
        });
    }

    /// Adds this worker's shares of the means.
    pub(crate) fn add_to(&self, sums: &mut Reduction) {
        let Self { all, .. } = self;
        let count = |of: &dyn Fn(&Question) -> bool| all.questions.iter().filter(|q| of(q)).count();
        let right = || {
            let own = all.questions[self.own.clone()].iter().zip(&self.best);
            own.filter(|(question, (_, best))| best.0 == u64::from(question.words[3]))
                .map(|(question, _)| question)
        };
        let mut add = |name: &str, of: &dyn Fn(&Question) -> bool| {
            let total = count(of);
            // Without questions, there is no share of right answers.
            if total > 0 {
                let part = right().filter(|question| of(question)).count() as f64 / total as f64;
                sums.add(&format!("quality.{name}"), part);
            }
        };
        let syntactic = |question: &Question| all.sections[question.section as usize].syntactic;
        add("analogies", &|_| true);
        add("analogies_semantic", &|question| !syntactic(question));
        add("analogies_syntactic", &syntactic);
        if self.split == Split::Test {
            for (number, section) in (0..).zip(&all.sections) {
                add(&format!("analogies_in_{}", section.name), &|question| question.section == number);
            }
        }
        if self.is_first {
            let skipped: usize = all.sections.iter().map(|section| section.skipped).sum();
            sums.add("quality.analogies_questions", all.questions.len() as f64);
            sums.add("quality.analogies_skipped", skipped as f64);
        }
    }
}

/// Divides a vector by its length; a vector of zeros stays unchanged.
fn normalise<E: Element>(vector: &mut [E]) {
    let norm = vector.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x = E::from_f64(x.to_f64() / norm));
    }
}

/// The arguments of the loops.
struct Consider<'a, E> {
    dim: usize,
    words: &'a [u32],
    asked: &'a [E],
    candidates: &'a [Key],
    vectors: &'a [E],
    places: &'a [[u32; 3]],
    best: &'a mut [(E, Key)],
}

impl<E: Element> WithSimd for Consider<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { dim, words, asked, candidates, vectors, places, best } = self;
        let columns = candidates.len();
        let mut cosines = vec![E::ZERO; words.len() * columns];
        for (asked, cosines) in asked.chunks_exact(dim).zip(cosines.chunks_exact_mut(columns.max(1))) {
            for (vector, cosine) in vectors.chunks_exact(dim).zip(cosines) {
                *cosine = dot(asked, vector);
            }
        }
        for (of_question, best) in places.iter().zip(best) {
            let [a, b, c] = of_question.map(|place| &cosines[place as usize * columns..][..columns]);
            let asked = of_question.map(|place| u64::from(words[place as usize]));
            for at in 0..columns {
                let score = b[at] - a[at] + c[at];
                // Among equal scores, the more frequent word wins, in whatever order the candidates arrive.
                if score >= best.0
                    && (score > best.0 || candidates[at] < best.1)
                    && !asked.contains(&candidates[at].0)
                {
                    *best = (score, candidates[at]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Optimizer;

    /// Words on a grid: each is the sum of two vectors. The questions ask for the fourth corner.
    fn analogies() -> (Analogies, Vec<f64>) {
        let vectors = [
            [1.0, 1.0, 0.0],
            [1.0, 0.0, 1.0],
            [0.2, 1.0, 0.0],
            [0.2, 0.0, 1.0],
            [0.2, 0.0, 1.01],
            [-0.5, 0.1, 0.9],
        ];
        let question = |words, section| Question { words, section };
        let section = |name: &str, syntactic| Section { name: name.to_owned(), syntactic, skipped: 1 };
        let analogies = Analogies {
            words: 6,
            left_out: vec![4],
            sections: vec![section("places", false), section("gram1", true), section("none", true)],
            questions: vec![
                question([0, 1, 2, 3], 0),
                question([1, 0, 3, 2], 0),
                question([0, 1, 2, 5], 1),
                // The nearest word is 3 itself.
                question([1, 1, 3, 5], 1),
            ],
        };
        (analogies, vectors.concat())
    }

    fn ask(workers: u32, split: Split, part: usize) -> Reduction {
        let (analogies, values) = analogies();
        let shape = Shape { dim: 3, optimizer: Optimizer::Sgd };
        let mut sums = Reduction::default();
        for partition in (Partition { workers, ..Partition::alone() }).all() {
            let mut answers = Answers::<f64>::new(&analogies, shape, split, partition);
            let keys: Vec<Key> = answers.keys().collect();
            let of_keys: Vec<f64> =
                keys.iter().flat_map(|key| &values[3 * key.index()..][..3]).copied().collect();
            answers.ask(Vectors { keys: &keys, values: &of_keys, shape });
            let candidates: Vec<Key> = answers.candidates().map(Key).collect();
            // Parts arrive in any order.
            for part in candidates.chunks(part).rev() {
                let values: Vec<f64> =
                    part.iter().flat_map(|key| &values[3 * key.index()..][..3]).copied().collect();
                answers.consider(part, &values);
            }
            answers.add_to(&mut sums);
        }
        sums
    }

    #[test]
    fn answers_are_counted_by_section() {
        for (workers, part) in [(1, 100), (2, 1), (5, 4)] {
            let sums = ask(workers, Split::Test, part).sums;
            let found: Vec<(&str, f64)> = sums.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
            assert_eq!(
                found,
                [
                    ("quality.analogies", 0.75),
                    ("quality.analogies_in_gram1", 0.5),
                    ("quality.analogies_in_places", 1.0),
                    ("quality.analogies_questions", 4.0),
                    ("quality.analogies_semantic", 1.0),
                    ("quality.analogies_skipped", 3.0),
                    ("quality.analogies_syntactic", 0.5),
                ]
            );
        }
        assert!(
            !ask(1, Split::Valid, 3).sums.contains_key("quality.analogies_in_places"),
            "only after the last epoch"
        );
    }

    #[test]
    fn vectors_of_zeros_are_nothing_to_divide() {
        let mut zeros = [0.0f32; 5];
        normalise(&mut zeros);
        assert_eq!(zeros, [0.0; 5]);
        let mut vector = [3.0f32, 4.0];
        normalise(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
    }
}
