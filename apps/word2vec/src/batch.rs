//! A batch: its pairs of a word and a word of its context, and the keys that they need.

use crate::draw::Drawn;
use intendant_core::Key;
use intendant_core::random::mix;
use std::ops::Range;

/// A word of a batch with its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Centre {
    /// Position of its input vector among the batch's keys.
    pub(crate) input: u32,
    /// Its context is `outputs[first..end]` of the batch, except for the word itself at `place`.
    pub(crate) first: u32,
    pub(crate) end: u32,
    pub(crate) place: u32,
}

impl Centre {
    /// The places of the words of its context.
    #[inline(always)]
    pub(crate) fn context(&self) -> impl Iterator<Item = usize> + use<> {
        let place = self.place;
        (self.first..self.end).filter(move |at| *at != place).map(|at| at as usize)
    }
}

/// A batch, prepared before it is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Words in the order in which they are trained. All of them have a context.
    pub(crate) centres: Vec<Centre>,
    /// Words around, by the positions of their output vectors among the batch's output keys. A word that is
    /// in no context has a position that is not used.
    pub(crate) outputs: Vec<u32>,
    /// Number of keys of input vectors; they come first.
    pub(crate) inputs: usize,
    /// Pairs of a word and a word of its context.
    pub(crate) pairs: usize,
    /// Words of the text, skipped ones included.
    pub(crate) words: u64,
    /// Learning rate; not a number if the text could not be read.
    pub(crate) rate: f64,
}

impl Batch {
    /// The batch of the kept words at `places`, and its distinct keys: input vectors first, then output
    /// vectors, each ascending. The key of the output vector of word `w` is `first_output + w`. `words` and
    /// `rate` go into the batch.
    pub(crate) fn new(
        drawn: &Drawn,
        places: Range<usize>,
        first_output: u64,
        words: u64,
        rate: f64,
    ) -> (Self, Vec<Key>) {
        let kept = drawn.kept();
        let with_context = || places.clone().filter(|place| kept[*place].context().len() > 1);
        // The words around all of them are neighbours.
        let start = with_context().map(|place| kept[place].context().start).min().unwrap_or(0);
        let end = with_context().map(|place| kept[place].context().end).max().unwrap_or(0);
        let mut is_context = vec![false; end - start];
        let mut pairs = 0;
        for place in with_context() {
            let context = kept[place].context();
            pairs += context.len() - 1;
            for at in context.filter(|at| *at != place) {
                is_context[at - start] = true;
            }
        }
        let inputs = distinct(with_context().map(|place| kept[place].word).collect());
        let around = || kept[start..end].iter().zip(&is_context);
        let outputs = distinct(around().filter(|(_, is)| **is).map(|(kept, _)| kept.word).collect());
        let position = |sorted: &[u32], word: u32| sorted.partition_point(|other| *other < word) as u32;
        let centre = |place: usize| {
            let context = kept[place].context();
            Centre {
                input: position(&inputs, kept[place].word),
                first: (context.start - start) as u32,
                end: (context.end - start) as u32,
                place: (place - start) as u32,
            }
        };
        let batch = Self {
            centres: with_context().map(centre).collect(),
            outputs: around().map(|(kept, _)| position(&outputs, kept.word)).collect(),
            inputs: inputs.len(),
            pairs,
            words,
            rate,
        };
        let keys = inputs.iter().map(|word| Key(u64::from(*word)));
        let keys = keys.chain(outputs.iter().map(|word| Key(first_output + u64::from(*word))));
        (batch, keys.collect())
    }

    /// The `nth` pair of the word at `places`, if one is kept there and has so many, as a batch of its own;
    /// its two keys.
    pub(crate) fn of_pair(
        drawn: &Drawn,
        mut places: Range<usize>,
        nth: u64,
        first_output: u64,
        words: u64,
        rate: f64,
    ) -> (Self, Vec<Key>) {
        let kept = drawn.kept();
        let pair = places.next().and_then(|place| {
            let mut context = kept[place].context().filter(|at| *at != place);
            Some((kept[place].word, kept[context.nth(nth as usize)?].word))
        });
        let Some((input, output)) = pair else {
            return (Self { words, rate, ..Self::failed() }, Vec::new());
        };
        // The word itself is behind the only place of its context.
        let centre = Centre { input: 0, first: 0, end: 1, place: 1 };
        let batch = Self { centres: vec![centre], outputs: vec![0], inputs: 1, pairs: 1, words, rate };
        (batch, vec![Key(input.into()), Key(first_output + u64::from(output))])
    }

    /// A batch without words, after which the run ends: the text could not be read.
    pub(crate) fn failed() -> Self {
        let (centres, outputs) = (Vec::new(), Vec::new());
        Self { centres, outputs, inputs: 0, pairs: 0, words: 0, rate: f64::NAN }
    }

    /// A hash of the pairs; `keys` are the batch's.
    pub(crate) fn digest(&self, keys: &[Key]) -> u64 {
        let (inputs, outputs) = keys.split_at(self.inputs);
        let mut digest = self.words;
        for centre in &self.centres {
            digest = mix(digest ^ inputs[centre.input as usize].0);
            for at in centre.context() {
                digest = mix(digest ^ outputs[self.outputs[at] as usize].0);
            }
        }
        digest
    }
}

fn distinct(mut words: Vec<u32>) -> Vec<u32> {
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Words;
    use crate::draw::Keep;

    /// The batches together have the pairs of the text, for any size of batches.
    #[test]
    fn batches_have_the_pairs_of_the_text() {
        let words: Vec<u32> = (0..60).map(|i| i * i % 7).collect();
        let all = Words { words: words.clone(), ends: vec![25, 26, 60] };
        let drawn = Drawn::new(&all, &Keep::new([1.0; 7].into_iter()), 3, 5);
        let mut expected = Vec::new();
        for (place, kept) in drawn.kept().iter().enumerate() {
            let context = kept.context().filter(|at| *at != place);
            expected.extend(context.map(|at| (u64::from(kept.word), 7 + u64::from(drawn.kept()[at].word))));
        }
        assert!(expected.len() > 150);
        for size in [1, 4, 10, 60] {
            let mut found = Vec::new();
            for start in (0..60).step_by(size) {
                let places = drawn.places(start as u64..(start + size) as u64);
                let (batch, keys) = Batch::new(&drawn, places, 7, size as u64, 0.1);
                let (inputs, outputs) = keys.split_at(batch.inputs);
                for keys in [inputs, outputs] {
                    assert!(keys.is_sorted_by(|a, b| a < b));
                }
                let before = found.len();
                let mut used = vec![false; keys.len()];
                for centre in &batch.centres {
                    used[centre.input as usize] = true;
                    for at in centre.context() {
                        let output = batch.outputs[at] as usize;
                        used[batch.inputs + output] = true;
                        found.push((inputs[centre.input as usize].0, outputs[output].0));
                    }
                }
                assert!(used.iter().all(|used| *used), "no key without use");
                assert_eq!(found.len() - before, batch.pairs);
                assert_eq!(
                    batch.centres.iter().map(|centre| centre.context().count()).sum::<usize>(),
                    batch.pairs
                );
            }
            assert_eq!(found, expected);
        }
    }

    /// The pairs of a word one by one are those of a batch of it.
    #[test]
    fn a_word_has_its_pairs_one_by_one() {
        let all = Words { words: (0..30).map(|i| i * i % 7).collect(), ends: vec![12, 13, 30] };
        let drawn = Drawn::new(&all, &Keep::new([1.0; 7].into_iter()), 3, 5);
        for word in 0..31u64 {
            let places = || drawn.places(word..word + 1);
            let (batch, keys) = Batch::new(&drawn, places(), 7, 1, 0.1);
            let mut of_batch = Vec::new();
            for at in batch.centres.iter().flat_map(Centre::context) {
                of_batch.push((keys[0], keys[batch.inputs + batch.outputs[at] as usize]));
            }
            let one_by_one =
                (0..6).map(|nth| Batch::of_pair(&drawn, places(), nth, 7, u64::from(nth == 0), 0.1));
            let mut found = Vec::new();
            for (batch, keys) in one_by_one {
                assert_eq!((batch.pairs, batch.centres.len()), (keys.len() / 2, keys.len() / 2));
                for centre in &batch.centres {
                    assert_eq!(centre.context().map(|at| batch.outputs[at]).collect::<Vec<_>>(), [0]);
                    found.push((keys[centre.input as usize], keys[1]));
                }
            }
            assert_eq!(found, of_batch, "word {word}");
        }
    }

    #[test]
    fn words_without_neighbours_have_no_keys() {
        let all = Words { words: vec![3, 2], ends: vec![1, 2] };
        let drawn = Drawn::new(&all, &Keep::new([1.0; 4].into_iter()), 3, 5);
        let (batch, keys) = Batch::new(&drawn, 0..2, 4, 2, 0.1);
        assert_eq!((keys, batch.centres.len(), batch.pairs, batch.words), (vec![], 0, 0, 2));
    }
}
