//! What word vectors answer: the most similar words, analogies, and how well they do in tests.

use crate::data::Vocabulary;
use crate::evaluate::Quality;
use crate::model::{Optimizer, Shape};
use crate::{Analogies, Similarities, Tests};
use intendant_core::{Element, Key};
use intendant_task::{Evaluation, Partition, Split};
use intendant_trained::{Export, Hit, Table, TrainedError, top};
use std::borrow::Cow;
use std::sync::OnceLock;

/// The file with the words and their counts.
const VOCABULARY: &str = "vocab.txt";

/// Trained word vectors.
#[derive(Debug)]
pub struct Trained<E> {
    vocabulary: Vocabulary,
    vectors: Table<E>,
    /// The vectors, each scaled to length 1, once words were asked for.
    unit: OnceLock<Table<E>>,
}

impl<E: Element> Trained<E> {
    /// Reads an export.
    ///
    /// # Errors
    /// If a file cannot be read, or the files do not fit to each other.
    pub fn read(export: &Export) -> Result<Self, TrainedError> {
        let text = export.bytes(VOCABULARY)?;
        let mut counted = Vec::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let space = line.iter().rposition(|byte| *byte == b' ');
            let count = space.and_then(|at| Some((at, str::from_utf8(&line[at + 1..]).ok()?.parse().ok()?)));
            match count {
                Some((at, count)) => counted.push((&line[..at], count)),
                None if line.is_empty() => {}
                None => {
                    let reason = format!("line {number} is not a word and its count, separated by a blank");
                    return Err(export.wrong(VOCABULARY, reason));
                }
            }
        }
        let vocabulary = Vocabulary::of(counted).map_err(|reason| export.wrong(VOCABULARY, reason))?;
        let vectors = export.table::<E>("input")?;
        if vectors.rows() != vocabulary.len() {
            let (rows, words) = (vectors.rows(), vocabulary.len());
            return Err(
                export.wrong("input.npy", format!("it has {rows} rows, and {VOCABULARY} has {words} words"))
            );
        }
        Ok(Self { vocabulary, vectors, unit: OnceLock::new() })
    }

    /// Computes now what answers need and share. Otherwise the first answers compute it.
    pub fn prepare(&self) {
        self.unit().norms();
    }

    fn unit(&self) -> &Table<E> {
        self.unit.get_or_init(|| self.vectors.unit())
    }

    /// Numbers of a vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.vectors.columns()
    }

    /// The words.
    #[must_use]
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The number of a word.
    ///
    /// # Errors
    /// If there is none: a text for people.
    pub fn find(&self, word: &str) -> Result<u32, String> {
        let found = self.vocabulary.find(word.as_bytes());
        found.ok_or_else(|| format!("there is no word '{word}'; the model's {VOCABULARY} lists all"))
    }

    /// A word as text.
    ///
    /// # Panics
    /// If there is no such word.
    #[must_use]
    pub fn word(&self, word: u32) -> Cow<'_, str> {
        String::from_utf8_lossy(self.vocabulary.word(word))
    }

    /// For each of `words`, the `count` others whose vectors have the largest cosine similarity with its own.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn similar(&self, words: &[u32], count: usize, threads: usize) -> Vec<Vec<Hit>> {
        self.nearest(words.iter().map(std::slice::from_ref), |[word]: [&[E]; 1], at| word[at], count, threads)
    }

    /// For each analogy "a is to b as c is to which word?", the `count` words whose vectors have the largest
    /// inner product with b − a + c, all of length 1 (3CosAdd). a, b and c are no answers.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn analogies(&self, asked: &[[u32; 3]], count: usize, threads: usize) -> Vec<Vec<Hit>> {
        let asked = asked.iter().map(<[u32; 3]>::as_slice);
        self.nearest(asked, |[a, b, c]: [&[E]; 3], at| b[at] - a[at] + c[at], count, threads)
    }

    /// For each of `asked`, the words nearest to what `query` makes of the unit vectors of its `N` words,
    /// number by number.
    fn nearest<'a, const N: usize>(
        &self,
        asked: impl Iterator<Item = &'a [u32]>,
        query: impl Fn([&[E]; N], usize) -> E,
        count: usize,
        threads: usize,
    ) -> Vec<Vec<Hit>> {
        let unit = self.unit();
        let (mut queries, mut left_out) = (Vec::new(), Vec::new());
        for words in asked {
            let vectors: [&[E]; N] = std::array::from_fn(|at| unit.row(words[at] as usize));
            queries.extend((0..unit.columns()).map(|at| query(vectors, at)));
            let mut words = words.to_vec();
            words.sort_unstable();
            left_out.push(words);
        }
        let left_out: Vec<&[u32]> = left_out.iter().map(Vec::as_slice).collect();
        top(unit, &queries, count, &left_out, threads)
    }

    /// The evaluation of these tests, and the value of each of its keys.
    pub fn quality(
        &self,
        analogies: Option<Analogies>,
        similarities: Option<Similarities>,
    ) -> (impl Evaluation<E>, impl Fn(Key, &mut Vec<E>)) {
        // Exports leave accumulators out.
        let shape = Shape { dim: self.vectors.columns(), optimizer: Optimizer::Sgd };
        let tests = Tests { analogies, similarities };
        let quality = Quality::new(None, &tests, shape, Split::Test, Partition::alone());
        let value = |key: Key, values: &mut Vec<E>| values.extend_from_slice(self.vectors.row(key.index()));
        (quality, value)
    }
}
