//! Perplexity on test documents by document completion. At the end of a run, also the topics, and a check
//! that all counts agree.
//!
//! The tokens of a test document are sorted by word. The proportions of its topics are inferred from the
//! tokens at even places (the first is at place 0), and predict the tokens at odd places. The perplexity is
//! the exponential of the mean negative logarithm of their probabilities [Wallach 2009].
//!
//! The first worker receives the whole model at the end of a run. The counts of words, the totals and the
//! assignments agree: this is an invariant of every technique. The run panics if they do not agree.

use crate::config::Config;
use crate::data::Corpus;
use crate::fold::{Folder, probabilities};
use crate::layout::Layout;
use crate::summary::{Collector, Summary};
use intendant_core::random::mix;
use intendant_core::{Element, Key, lock};
use intendant_task::{Evaluation, Reduction};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The tokens of a document at even places and those at odd places, where the first token is at place 0: the
/// number of occurrences of each word there.
fn halves(words: &[(usize, u32)]) -> [Vec<(usize, u32)>; 2] {
    let mut halves = [Vec::new(), Vec::new()];
    let mut place = 0;
    for (word, count) in words {
        // If the number of tokens is odd, the half in which the word begins has one more.
        for (half, count) in [(place, count.div_ceil(2)), (1 - place, count / 2)] {
            if count > 0 {
                halves[half].push((*word, count));
            }
        }
        place = (place + *count as usize) % 2;
    }
    halves
}

/// The sum of the negative logarithms of the probabilities of the tokens at odd places, given those at even
/// places; and the number of tokens at odd places.
fn complete(folder: &mut Folder, words: &[(usize, u32)]) -> (f64, u64) {
    let [given, hidden] = halves(words);
    let mixture = folder.mixture(&given);
    let loss =
        hidden.iter().map(|(word, count)| -f64::from(*count) * folder.probability(&mixture, *word).ln());
    (loss.sum(), hidden.iter().map(|(_, count)| u64::from(*count)).sum())
}

/// The proportions of topics in the test documents, document by document.
pub type Mixtures = Vec<Vec<f64>>;

/// The results of the last evaluation on the test documents, which callers can take.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) summary: Option<Summary>,
    pub(crate) mixtures: Option<Mixtures>,
}

/// One worker's share of the evaluation.
pub(crate) struct Quality {
    corpus: Arc<Corpus>,
    layout: Arc<Layout>,
    config: Config,
    /// The test documents of this worker.
    documents: Range<usize>,
    /// The keys of the totals, and of the words of these documents, ascending.
    keys: Vec<Key>,
    /// Whether the caller wants proportions of topics.
    mixes: bool,
    mixtures: Vec<Vec<f64>>,
    /// Sum of the negative logarithms of probabilities, and their number.
    loss: f64,
    scored: u64,
    whole: Option<Whole>,
}

impl Quality {
    /// `found` is given to the worker that receives the whole model.
    pub(crate) fn new(
        (corpus, layout, config): (Arc<Corpus>, Arc<Layout>, Config),
        documents: Range<usize>,
        found: Option<Arc<Mutex<Found>>>,
        mixes: bool,
    ) -> Self {
        let mut used = vec![false; layout.words()];
        let entries = documents.clone().flat_map(|document| corpus.test().get(document));
        entries.for_each(|entry| used[entry.word as usize] = true);
        let words = (0..).zip(&used).filter(|(_, used)| **used).map(|(word, _)| layout.word(word));
        let keys = std::iter::once(layout.totals()).chain(words).collect();
        let whole = found.map(|found| Whole::new(&corpus, &layout, config.top_words, found));
        Self {
            corpus,
            layout,
            config,
            documents,
            keys,
            mixes,
            mixtures: Vec::new(),
            loss: 0.0,
            scored: 0,
            whole,
        }
    }
}

impl<E: Element> Evaluation<E> for Quality {
    fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn take(&mut self, values: &[E]) {
        let Config { alpha, eta, .. } = self.config;
        let (totals, counts) = values.split_at(self.layout.topics());
        let probabilities = probabilities(eta, self.layout.words(), totals, counts);
        let mut folder = Folder::new(alpha, self.layout.topics(), probabilities);
        let words = &self.keys[1..];
        let corpus = Arc::clone(&self.corpus);
        for document in self.documents.clone() {
            let words = corpus.test().get(document).iter().map(|entry| {
                let key = self.layout.word(entry.word);
                (words.partition_point(|word| *word < key), entry.count)
            });
            let words: Vec<(usize, u32)> = words.collect();
            let (loss, scored) = complete(&mut folder, &words);
            self.loss += loss;
            self.scored += scored;
            if self.mixes {
                self.mixtures.push(folder.mixture(&words));
            }
        }
    }

    fn range(&self) -> Range<u64> {
        if self.whole.is_some() { 0..self.layout.keys() } else { 0..0 }
    }

    fn part(&mut self, keys: &[Key], values: &[E]) {
        let Some(whole) = &mut self.whole else { return };
        let mut rest = values;
        for key in keys {
            let (value, after) = rest.split_at(self.layout.len(*key));
            rest = after;
            whole.add(*key, value);
        }
    }

    fn finish(self: Box<Self>) -> Reduction {
        let mut sums = Reduction::default();
        if self.scored > 0 {
            sums.add("quality.ln perplexity", self.loss);
            sums.add("quality.count", self.scored as f64);
        }
        if let Some(whole) = self.whole {
            let found = Arc::clone(&whole.found);
            let summary = whole.finish(self.config.eta);
            let mut found = lock(&found);
            found.summary = Some(summary);
            found.mixtures = self.mixes.then_some(self.mixtures);
        }
        sums
    }
}

/// The whole model, as it arrives in parts.
struct Whole {
    corpus: Arc<Corpus>,
    layout: Arc<Layout>,
    found: Arc<Mutex<Found>>,
    collector: Collector,
    /// Tokens of each topic, according to the totals and to the assignments.
    totals: Vec<f64>,
    assigned: Vec<u64>,
    /// Sums of hashes of the words and topics of all tokens, according to the counts and to the assignments.
    counted_hash: u64,
    assigned_hash: u64,
    /// A value that is not a valid count.
    wrong: Option<(Key, f64)>,
    /// A document, and the words of its tokens.
    words: Option<(usize, Vec<u32>)>,
}

/// The hash of a token of a word in a topic.
fn hash(word: u32, topic: usize) -> u64 {
    mix(u64::from(word) << 32 | topic as u64)
}

impl Whole {
    fn new(corpus: &Arc<Corpus>, layout: &Arc<Layout>, top: usize, found: Arc<Mutex<Found>>) -> Self {
        let topics = layout.topics();
        Self {
            corpus: Arc::clone(corpus),
            layout: Arc::clone(layout),
            found,
            collector: Collector::new(topics, top),
            totals: vec![0.0; topics],
            assigned: vec![0; topics],
            counted_hash: 0,
            assigned_hash: 0,
            wrong: None,
            words: None,
        }
    }

    fn add<E: Element>(&mut self, key: Key, value: &[E]) {
        let is_wrong = |x: &&E| !(x.to_f64() >= 0.0 && x.to_f64().fract() == 0.0);
        if let Some(wrong) = value.iter().find(is_wrong) {
            self.wrong.get_or_insert((key, wrong.to_f64()));
            return;
        }
        if key == self.layout.totals() {
            self.totals.iter_mut().zip(value).for_each(|(total, x)| *total = x.to_f64());
        } else if let Some((document, first)) = self.layout.document(key) {
            self.assignments(key, document, first, value);
        } else {
            let word = key.0 as u32;
            self.collector.add(word, value);
            for (topic, count) in value.iter().enumerate().filter(|(_, count)| **count > E::ZERO) {
                let of_tokens = hash(word, topic).wrapping_mul(count.to_f64() as u64);
                self.counted_hash = self.counted_hash.wrapping_add(of_tokens);
            }
        }
    }

    /// Adds the assignments of the tokens of a document, from `first` on.
    fn assignments<E: Element>(&mut self, key: Key, document: usize, first: usize, topics: &[E]) {
        if self.words.as_ref().is_none_or(|(known, _)| *known != document) {
            let entries = self.corpus.training().get(document).iter();
            let words = entries.flat_map(|entry| std::iter::repeat_n(entry.word, entry.count as usize));
            self.words = Some((document, words.collect()));
        }
        let words = self.words.as_ref().map_or(&[][..], |(_, words)| &words[first..]);
        for (place, topic) in topics.iter().enumerate() {
            let Some(topic) = (topic.to_f64() as usize).checked_sub(1) else { continue };
            match (words.get(place), self.assigned.get_mut(topic)) {
                (Some(word), Some(assigned)) => {
                    *assigned += 1;
                    self.assigned_hash = self.assigned_hash.wrapping_add(hash(*word, topic));
                }
                (None, _) | (_, None) => {
                    self.wrong.get_or_insert((key, topic as f64 + 1.0));
                }
            }
        }
    }

    /// The topics.
    ///
    /// # Panics
    /// If counts do not agree.
    fn finish(self, eta: f64) -> Summary {
        const BUG: &str = "a bug, unless --from names a checkpoint of other documents";
        if let Some((key, count)) = self.wrong {
            panic!("the value of {key:?} has the count or topic {count}, which is none: {BUG}");
        }
        // A model from a file has no assignments.
        let has_assignments = !self.corpus.training().is_empty();
        for (topic, (words, total)) in self.collector.totals().iter().zip(&self.totals).enumerate() {
            let assigned = if has_assignments { self.assigned[topic] } else { *words };
            assert!(
                *words as f64 == *total && *words == assigned,
                "topic {} has {words} tokens by the counts of words, {total} by the totals, and {assigned} by the assignments: {BUG}",
                topic + 1
            );
        }
        assert!(
            !has_assignments || self.counted_hash == self.assigned_hash,
            "the counts of words are not those of the assignments: {BUG}"
        );
        self.collector.finish(eta, self.layout.words())
    }
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
