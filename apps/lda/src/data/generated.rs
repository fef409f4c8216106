//! Generated documents, whose topics are known.
//!
//! Documents are drawn as the model assumes: each has proportions of topics; each of its tokens draws a topic
//! from these, and a word from the topic. Most words of a topic are its own; a few are the common words of
//! all topics. The same specification gives the same documents: they are a data set, and independent of the
//! seed of a run.

use super::documents::{Collection, Documents, Entry};
use super::error::{DOCUMENTS_MAX, DataError};
use intendant_core::random::stream;
use intendant_formats::Names;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64Mcg;

/// Documents of generated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    documents: u32,
    words: u32,
    topics: u32,
}

/// The default data.
const DEFAULT: Generator = Generator { documents: 1000, words: 1000, topics: 20 };

/// Tokens of a document.
const TOKENS: std::ops::RangeInclusive<u32> = 50..=150;

/// The concentration of the proportions of topics in a document.
const ALPHA: f64 = 0.1;

/// The share of words that all topics have in common, and their probability in each topic.
const COMMON: f64 = 0.05;
const COMMON_PART: f64 = 0.2;

/// The seed of generated documents.
const SEED: u64 = 0x4c44_4120_646f_6373;

impl Generator {
    /// The generator of `builtin:NAME`.
    ///
    /// # Errors
    /// [`DataError::Builtin`].
    pub fn named(name: &str) -> Result<Self, DataError> {
        let found = match name.split_once(':') {
            None => (name == "topics").then_some(DEFAULT),
            Some(("topics", size)) => Self::parse(size),
            Some(_) => None,
        };
        found.ok_or_else(|| DataError::Builtin { name: name.to_owned() })
    }

    fn parse(size: &str) -> Option<Self> {
        let numbers: Option<Vec<u32>> = size.split('x').map(|number| number.parse().ok()).collect();
        let [documents, words, topics] = numbers?[..] else { return None };
        let is_possible = (1..=DOCUMENTS_MAX).contains(&documents)
            && topics > 0
            && words < 1 << 31
            && u64::from(words) >= 2 * u64::from(topics);
        is_possible.then_some(Self { documents, words, topics })
    }

    /// Number of topics.
    #[must_use]
    pub const fn topics(&self) -> u32 {
        self.topics
    }

    /// Words that belong to no topic; they come first.
    fn common(&self) -> u32 {
        // Each topic has at least one word of its own.
        ((f64::from(self.words) * COMMON).ceil() as u32).min(self.words - self.topics)
    }

    /// The number of topic `topic`'s own words: words are dealt out to the topics one by one.
    fn own(&self, topic: u32) -> u32 {
        (self.words - self.common() - topic).div_ceil(self.topics)
    }

    /// The probability of each word in topic `topic`.
    ///
    /// # Panics
    /// If there is no such topic.
    #[must_use]
    pub fn topic(&self, topic: u32) -> Vec<f64> {
        assert!(topic < self.topics, "topic {topic} of {}", self.topics);
        let mut probabilities = vec![0.0; self.words as usize];
        let common = self.common();
        let own = (0..self.own(topic)).map(|place| common + place * self.topics + topic);
        for (part, words) in
            [(COMMON_PART, (0..common).collect()), (1.0 - COMMON_PART, own.collect::<Vec<_>>())]
        {
            // Zipf's law.
            let sum: f64 = (1..=words.len()).map(|rank| 1.0 / rank as f64).sum();
            for (rank, word) in (1..).zip(words) {
                probabilities[word as usize] = part / sum / f64::from(rank);
            }
        }
        probabilities
    }

    /// The proportions of topics of a document.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn mixture(&self, document: u32) -> Vec<f64> {
        assert!(document < self.documents, "document {document} of {}", self.documents);
        let mut random = self.random(document);
        self.draw_mixture(&mut random)
    }

    fn random(&self, document: u32) -> Pcg64Mcg {
        let name = [self.words.into(), self.topics.into(), document.into()];
        Pcg64Mcg::seed_from_u64(stream(SEED, &name))
    }

    fn draw_mixture(&self, random: &mut Pcg64Mcg) -> Vec<f64> {
        let gamma = Gamma::new(ALPHA, 1.0).expect("a positive shape");
        let mut mixture: Vec<f64> = (0..self.topics).map(|_| gamma.sample(random)).collect();
        let sum: f64 = mixture.iter().sum();
        if sum > 0.0 {
            mixture.iter_mut().for_each(|part| *part /= sum);
        } else {
            // All draws were rounded to zero.
            mixture[random.random_range(0..self.topics) as usize] = 1.0;
        }
        mixture
    }

    /// The name of a word, which consists of its topic and its rank there.
    fn name(&self, word: u32) -> String {
        match word.checked_sub(self.common()) {
            None => format!("common-{}", word + 1),
            Some(of_topics) => {
                format!("topic{}-{}", of_topics % self.topics + 1, of_topics / self.topics + 1)
            }
        }
    }

    /// Draws the documents.
    pub(super) fn generate(&self) -> Collection {
        let mut words = Names::default();
        (0..self.words).for_each(|word| words.push(&self.name(word)));
        let running = |probabilities: Vec<f64>| -> Vec<f64> {
            let mut sum = 0.0;
            let add = |p: f64| {
                sum += p;
                sum
            };
            probabilities.into_iter().map(add).collect()
        };
        let topics: Vec<Vec<f64>> = (0..self.topics).map(|topic| running(self.topic(topic))).collect();
        let mut documents = Documents::default();
        for document in 0..self.documents {
            let mut random = self.random(document);
            let mixture = running(self.draw_mixture(&mut random));
            let draw = |running: &[f64], random: &mut Pcg64Mcg| {
                let at = random.random::<f64>() * running.last().copied().unwrap_or(0.0);
                running.partition_point(|sum| *sum <= at).min(running.len() - 1)
            };
            let tokens = random.random_range(TOKENS);
            let entry = |_| {
                let topic = draw(&mixture, &mut random);
                Entry { word: draw(&topics[topic], &mut random) as u32, count: 1 }
            };
            documents.push(u64::from(document) + 1, (0..tokens).map(entry).collect());
        }
        Collection { words, documents }
    }
}
