//! A batch: its pairs of a word and a word of its context, and the keys that they need.

use crate::draw::Drawn;
use intendant_core::Key;
use intendant_core::random::mix;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A word of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Centre {
    /// Position of its input vector among the batch's keys.
    pub(crate) input: u32,
    /// The end of its pairs: the pairs of successive words follow each other.
    pub(crate) end: u32,
}

/// A batch, prepared before it is trained. The data of a single pair is stored inside the struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Words in the order in which they are trained. All of them have a context.
    pub(crate) centres: SmallVec<[Centre; 1]>,
    /// For each pair of a word and a word of its context, the position of the latter's output vector among
    /// the batch's keys.
    pub(crate) outputs: SmallVec<[u32; 2]>,
    /// Position of the first sample: the number of keys.
    pub(crate) samples: usize,
    /// Words of the text, skipped ones included.
    pub(crate) words: u64,
    /// Learning rate; NaN if the text could not be read.
    pub(crate) rate: f64,
}

impl Batch {
    /// The batch of the kept words at `places`, and its distinct keys: input vectors first, then output
    /// vectors, each in ascending order. The key of the output vector of word `w` is `first_output + w`. The
    /// batch stores `words` and `rate`.
    pub(crate) fn new(
        drawn: &Drawn,
        places: Range<usize>,
        first_output: u64,
        words: u64,
        rate: f64,
    ) -> (Self, Vec<Key>) {
        let kept = drawn.kept();
        let with_context = || places.clone().filter(|place| kept[*place].context().len() > 1);
        // The contexts of all these words together form one range.
        let start = with_context().map(|place| kept[place].context().start).min().unwrap_or(0);
        let end = with_context().map(|place| kept[place].context().end).max().unwrap_or(0);
        let mut is_context = vec![false; end - start];
        for place in with_context() {
            let context = kept[place].context();
            is_context[context.start - start..place - start].fill(true);
            is_context[place + 1 - start..context.end - start].fill(true);
        }
        let inputs = distinct(with_context().map(|place| kept[place].word).collect());
        let around = || kept[start..end].iter().zip(&is_context);
        let outputs = distinct(around().filter(|(_, is)| **is).map(|(kept, _)| kept.word).collect());
        let position = |sorted: &[u32], word: u32| sorted.partition_point(|other| *other < word) as u32;
        let first = inputs.len() as u32;
        // A word that is in no context gets a position, too, which is not used.
        let positions: Vec<u32> = around().map(|(kept, _)| first + position(&outputs, kept.word)).collect();
        let mut batch = Self { samples: inputs.len() + outputs.len(), words, rate, ..Self::failed() };
        for place in with_context() {
            let context = kept[place].context();
            batch.outputs.extend_from_slice(&positions[context.start - start..place - start]);
            batch.outputs.extend_from_slice(&positions[place + 1 - start..context.end - start]);
            let input = position(&inputs, kept[place].word);
            batch.centres.push(Centre { input, end: batch.outputs.len() as u32 });
        }
        let keys = inputs.iter().map(|word| Key(u64::from(*word)));
        let keys = keys.chain(outputs.iter().map(|word| Key(first_output + u64::from(*word))));
        (batch, keys.collect())
    }

    /// The `nth` pair of the word at `places`, as a batch of its own, and its two keys. The batch is empty if
    /// the word was skipped or has fewer pairs.
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
        let centre = Centre { input: 0, end: 1 };
        let batch = Self { centres: smallvec![centre], outputs: smallvec![1], samples: 2, words, rate };
        (batch, vec![Key(input.into()), Key(first_output + u64::from(output))])
    }

    /// A batch without words. It ends the run, because the text could not be read.
    pub(crate) fn failed() -> Self {
        Self { centres: SmallVec::new(), outputs: SmallVec::new(), samples: 0, words: 0, rate: f64::NAN }
    }

    /// Number of pairs of a word and a word of its context.
    pub(crate) fn pairs(&self) -> usize {
        self.outputs.len()
    }

    /// A hash of the pairs; `keys` are the batch's.
    pub(crate) fn digest(&self, keys: &[Key]) -> u64 {
        let (mut digest, mut pair) = (self.words, 0);
        for centre in &self.centres {
            digest = mix(digest ^ keys[centre.input as usize].0);
            let pairs = std::mem::replace(&mut pair, centre.end as usize)..centre.end as usize;
            for at in &self.outputs[pairs] {
                digest = mix(digest ^ keys[*at as usize].0);
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

    /// The positions of the keys of each pair.
    fn pairs(batch: &Batch) -> Vec<(usize, usize)> {
        let (mut pairs, mut outputs) = (Vec::new(), batch.outputs.iter());
        for centre in &batch.centres {
            let of_word = outputs.by_ref().take(centre.end as usize - pairs.len());
            pairs.extend(of_word.map(|output| (centre.input as usize, *output as usize)));
        }
        assert_eq!(outputs.next(), None);
        pairs
    }

    /// All batches together have the pairs of the text, for any size of batches.
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
                let inputs = keys.partition_point(|key| key.0 < 7);
                for keys in [&keys[..inputs], &keys[inputs..]] {
                    assert!(keys.is_sorted_by(|a, b| a < b));
                }
                assert_eq!(batch.samples, keys.len());
                let before = found.len();
                let mut used = vec![false; keys.len()];
                for (input, output) in pairs(&batch) {
                    (used[input], used[output]) = (true, true);
                    found.push((keys[input].0, keys[output].0));
                }
                assert!(used.iter().all(|used| *used), "no key without use");
                assert_eq!(found.len() - before, batch.pairs());
            }
            assert_eq!(found, expected);
        }
    }

    /// The pairs of a word, one by one, equal those of a batch of this word.
    #[test]
    fn a_word_has_its_pairs_one_by_one() {
        let all = Words { words: (0..30).map(|i| i * i % 7).collect(), ends: vec![12, 13, 30] };
        let drawn = Drawn::new(&all, &Keep::new([1.0; 7].into_iter()), 3, 5);
        for word in 0..31u64 {
            let places = || drawn.places(word..word + 1);
            let (batch, keys) = Batch::new(&drawn, places(), 7, 1, 0.1);
            let of_keys = |keys: &[Key], batch: &Batch| -> Vec<_> {
                pairs(batch).into_iter().map(|(input, output)| (keys[input], keys[output])).collect()
            };
            let of_batch = of_keys(&keys, &batch);
            let one_by_one =
                (0..6).map(|nth| Batch::of_pair(&drawn, places(), nth, 7, u64::from(nth == 0), 0.1));
            let mut found = Vec::new();
            for (batch, keys) in one_by_one {
                assert_eq!(
                    (batch.pairs(), batch.centres.len(), batch.samples),
                    (keys.len() / 2, keys.len() / 2, keys.len())
                );
                found.extend(of_keys(&keys, &batch));
            }
            assert_eq!(found, of_batch, "word {word}");
        }
    }

    #[test]
    fn words_without_neighbours_have_no_keys() {
        let all = Words { words: vec![3, 2], ends: vec![1, 2] };
        let drawn = Drawn::new(&all, &Keep::new([1.0; 4].into_iter()), 3, 5);
        let (batch, keys) = Batch::new(&drawn, 0..2, 4, 2, 0.1);
        assert_eq!((keys, batch.centres.len(), batch.pairs(), batch.words), (vec![], 0, 0, 2));
    }
}
