//! What a trained model answers: the topics of documents, and the words of topics.

use crate::data::Entry;
use crate::fold::{Folder, probabilities};
use crate::summary::{Collector, Summary};
use crate::task::WordCounts;
use intendant_formats::Names;

/// A trained model.
#[derive(Debug)]
pub struct Trained {
    words: Names,
    counts: WordCounts,
    topics: usize,
    eta: f64,
}

impl Trained {
    /// A model with these counts of its words in each of `topics` topics.
    ///
    /// # Panics
    /// If there are no topics, or the number of counts does not match.
    #[must_use]
    pub fn new(words: Names, counts: WordCounts, topics: usize, eta: f64) -> Self {
        assert_eq!(counts.0.len(), words.len() * topics, "a count for each word and topic");
        assert!(topics > 0, "no topics");
        Self { words, counts, topics, eta }
    }

    /// The words, by number.
    #[must_use]
    pub fn words(&self) -> &Names {
        &self.words
    }

    /// The topics with their `top` most frequent words.
    #[must_use]
    pub fn summary(&self, top: usize) -> Summary {
        let mut collector = Collector::new(self.topics, top);
        let counts = self.counts.0.chunks_exact(self.topics);
        (0..).zip(counts).for_each(|(word, counts)| collector.add(word, counts));
        collector.finish(self.eta, self.words.len())
    }

    /// Finds the topics of documents, with this concentration of the topics of a document.
    #[must_use]
    pub fn mixer(&self, alpha: f64) -> Mixer {
        let WordCounts(counts) = &self.counts;
        let mut totals = vec![0.0; self.topics];
        counts.chunks_exact(self.topics).for_each(|of_word| {
            totals.iter_mut().zip(of_word).for_each(|(total, count)| *total += count);
        });
        let probabilities = probabilities(self.eta, self.words.len(), &totals, counts);
        Mixer { folder: Folder::new(alpha, self.topics, probabilities) }
    }
}

/// Finds the topics of documents.
#[derive(Clone, Debug)]
pub struct Mixer {
    folder: Folder,
}

impl Mixer {
    /// The proportions of topics in a document with these words of the model, which ascend: to the last digit
    /// those of an evaluation.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn mixture(&mut self, document: &[Entry]) -> Vec<f64> {
        let words: Vec<(usize, u32)> =
            document.iter().map(|entry| (entry.word as usize, entry.count)).collect();
        self.folder.mixture(&words)
    }
}
