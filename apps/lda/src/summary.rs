//! The topics of a model in readable form: the number of tokens of each, and its most frequent words.

use intendant_core::Element;
use intendant_formats::Names;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;

/// A word of a topic. Words with more tokens come first; ties are in ascending order of number.
type Ranked = (u64, Reverse<u32>);

/// A topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    /// Its tokens.
    pub tokens: u64,
    /// Its most frequent words, and their tokens in the topic.
    pub words: Vec<(u32, u64)>,
}

/// All topics.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    topics: Vec<Topic>,
    eta: f64,
    words: usize,
}

/// Collects the topics while the counts of words arrive.
#[derive(Clone, Debug)]
pub struct Collector {
    top: usize,
    totals: Vec<u64>,
    /// The most frequent words so far, the least frequent of them on top.
    best: Vec<BinaryHeap<Reverse<Ranked>>>,
}

impl Collector {
    /// A collector without counts, for `topics` topics with `top` words each.
    #[must_use]
    pub fn new(topics: usize, top: usize) -> Self {
        Self { top, totals: vec![0; topics], best: vec![BinaryHeap::new(); topics] }
    }

    /// Adds the counts of a word.
    pub fn add<E: Element>(&mut self, word: u32, counts: &[E]) {
        for ((total, best), count) in self.totals.iter_mut().zip(&mut self.best).zip(counts) {
            let count = count.to_f64() as u64;
            if count == 0 {
                continue;
            }
            *total += count;
            best.push(Reverse((count, Reverse(word))));
            if best.len() > self.top {
                best.pop();
            }
        }
    }

    /// The tokens of each topic.
    pub(crate) fn totals(&self) -> &[u64] {
        &self.totals
    }

    /// The topics, after all words were added. There are `words` words.
    #[must_use]
    pub fn finish(self, eta: f64, words: usize) -> Summary {
        let topic = |(tokens, best): (u64, BinaryHeap<Reverse<Ranked>>)| {
            let words =
                best.into_sorted_vec().into_iter().map(|Reverse((count, Reverse(word)))| (word, count));
            Topic { tokens, words: words.collect() }
        };
        Summary { topics: self.totals.into_iter().zip(self.best).map(topic).collect(), eta, words }
    }
}

impl Summary {
    /// The topics, by number.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn tokens(&self) -> u64 {
        self.topics.iter().map(|topic| topic.tokens).sum()
    }

    /// The part of all tokens that a topic has.
    #[must_use]
    pub fn share(&self, topic: &Topic) -> f64 {
        topic.tokens as f64 / self.tokens().max(1) as f64
    }

    /// The probability of a word in a topic that has `count` of its tokens.
    #[must_use]
    pub fn probability(&self, topic: &Topic, count: u64) -> f64 {
        (count as f64 + self.eta) / (topic.tokens as f64 + self.eta * self.words as f64)
    }

    /// A table of the topics in descending order of tokens, each with its share of all tokens and its words.
    #[must_use]
    pub fn table(&self, names: &Names) -> String {
        let mut order: Vec<usize> = (0..self.topics.len()).collect();
        order.sort_by_key(|topic| Reverse(self.topics[*topic].tokens));
        let mut text = String::from("topic  share  words\n");
        for number in order {
            let topic = &self.topics[number];
            let share = 100.0 * self.share(topic);
            let words: Vec<&str> =
                topic.words.iter().map(|(word, _)| names.get(*word as usize).unwrap_or_default()).collect();
            let line = format!("{:>5} {share:>5.1}%  {}", number + 1, words.join(" "));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The same words with probabilities: a line for each word of each topic, with tabs between fields.
    #[must_use]
    pub fn tsv(&self, names: &Names) -> String {
        let mut text = String::from("topic\ttopic_tokens\ttopic_share\trank\tword\ttokens\tprobability\n");
        for (number, topic) in (1..).zip(&self.topics) {
            let share = self.share(topic);
            for (rank, (word, count)) in (1..).zip(&topic.words) {
                let name = names.get(*word as usize).unwrap_or_default();
                let probability = self.probability(topic, *count);
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "{number}\t{}\t{share:.6}\t{rank}\t{name}\t{count}\t{probability:.6}",
                    topic.tokens
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_words_of_each_topic_are_shown() {
        let mut names = Names::default();
        ["a", "b", "c"].iter().for_each(|name| names.push(name));
        let mut collector = Collector::new(3, 2);
        collector.add(2, &[3.0, 0.0, 0.0]);
        collector.add(0, &[3.0f32, 1.0, 0.0]);
        collector.add(1, &[4.0, 8.0, 0.0]);
        assert_eq!(collector.totals(), [10, 9, 0]);
        let summary = collector.finish(0.5, 3);
        let words: Vec<_> = summary.topics().iter().map(|topic| topic.words.clone()).collect();
        assert_eq!(words, [vec![(1, 4), (0, 3)], vec![(1, 8), (0, 1)], vec![]]);
        let table = "topic  share  words\n    1  52.6%  b a\n    2  47.4%  b a\n    3   0.0%\n";
        assert_eq!(summary.table(&names), table);
        let tsv = summary.tsv(&names);
        assert!(
            tsv.ends_with("2\t9\t0.473684\t1\tb\t8\t0.809524\n2\t9\t0.473684\t2\ta\t1\t0.142857\n"),
            "{tsv}"
        );
    }
}
