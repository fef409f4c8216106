//! The topics of a document that was not trained: its tokens are sampled, while the topics stay as they are.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Sweeps over the tokens before proportions count, and those that count.
const BURN_IN: usize = 20;
const SWEEPS: usize = 40;

/// Buffers, and the probabilities of words.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    alpha: f64,
    topics: usize,
    /// The probability of each word in each topic, word by word.
    probabilities: Vec<f64>,
    assigned: Vec<usize>,
    counts: Vec<f64>,
    running: Vec<f64>,
}

impl Folder {
    /// With the probability of each word in each topic, word by word.
    pub(crate) fn new(alpha: f64, topics: usize, probabilities: Vec<f64>) -> Self {
        let (counts, running) = (vec![0.0; topics], vec![0.0; topics]);
        Self { alpha, topics, probabilities, assigned: Vec::new(), counts, running }
    }

    fn of_word(&self, word: usize) -> &[f64] {
        &self.probabilities[word * self.topics..][..self.topics]
    }

    /// The expected proportions of topics of a document with these tokens, each a place among the words. A
    /// function of its arguments: `seed` names the randomness.
    pub(crate) fn mixture(&mut self, tokens: &[usize], seed: u64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        self.counts.fill(0.0);
        self.assigned.clear();
        let mut mixture = vec![0.0; self.topics];
        for sweep in 0..BURN_IN + SWEEPS {
            for (at, word) in tokens.iter().enumerate() {
                if let Some(topic) = self.assigned.get(at) {
                    self.counts[*topic] -= 1.0;
                }
                let of_word = &self.probabilities[word * self.topics..][..self.topics];
                let mut sum = 0.0;
                for ((running, count), probability) in self.running.iter_mut().zip(&self.counts).zip(of_word)
                {
                    sum += (count + self.alpha) * probability;
                    *running = sum;
                }
                let place = random.random::<f64>() * sum;
                let topic = self.running.partition_point(|sum| *sum <= place).min(self.topics - 1);
                self.counts[topic] += 1.0;
                match self.assigned.get_mut(at) {
                    Some(before) => *before = topic,
                    None => self.assigned.push(topic),
                }
            }
            if sweep >= BURN_IN {
                mixture.iter_mut().zip(&self.counts).for_each(|(part, count)| *part += count);
            }
        }
        let all = tokens.len() as f64 + self.alpha * self.topics as f64;
        mixture.iter_mut().for_each(|part| *part = (*part / SWEEPS as f64 + self.alpha) / all);
        mixture
    }

    /// The probability of a word in a document with these proportions of topics.
    pub(crate) fn probability(&self, mixture: &[f64], word: usize) -> f64 {
        mixture.iter().zip(self.of_word(word)).map(|(part, probability)| part * probability).sum()
    }
}
