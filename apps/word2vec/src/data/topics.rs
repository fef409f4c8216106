//! Generated text of any size, for experiments in which only accesses count.
//!
//! The text resembles real text in the frequencies of words, and in which words occur together. Words follow
//! a [`Law`] of frequencies. The most frequent ones occur everywhere; each of the others belongs to one of a
//! few topics, and most words of a sentence are of its topic, so that a word provides information about its
//! neighbours. Sentences have 12 words on average.
//!
//! The same specification gives the same text: it is a data set, and independent of the seed of the training.
//! A sentence is a function of its number, and no sentence is ever held in memory.

use super::law::Law;
use super::text::Words;
use super::words::{Counts, hash};
use intendant_core::random::stream;
use rand::{RngExt, SeedableRng};
use rand_distr::Distribution;
use rand_pcg::Pcg64Mcg;

/// A generated text.
#[derive(Clone, Debug)]
pub(super) struct Topics {
    words: u32,
    tokens: u64,
    /// Words that belong to no topic, the most frequent ones.
    common: u32,
    topics: u32,
    law: Law,
    block_sentences: u64,
}

/// Sentences have these numbers of words in turn: 12 on average, so that the place of a sentence in the text
/// is known.
const LENGTHS: [u64; 9] = [12, 8, 16, 11, 13, 9, 15, 10, 14];
const TURN: u64 = 9 * 12;

/// Maximum number of topics; small vocabularies have fewer, so that a topic has at least 16 words.
const TOPICS_MAX: u32 = 64;

/// Maximum number of words without topic.
const COMMON_MAX: u32 = 100;

/// The share of the words of a sentence, other than the common ones, that are of its topic.
const REGULAR: f64 = 0.8;

/// Approximate number of words of a block. Small texts have smaller blocks, and large texts have larger ones,
/// so that the number of blocks stays between the next two constants.
const BLOCK_WORDS: u64 = 1000;
const BLOCKS_MIN: u64 = 64;
const BLOCKS: u64 = 1 << 16;

/// Pairs of words whose similarity is known.
const PAIRS: u32 = 1000;

/// Their words are among this many of the most frequent words with topics, because words that people rate are
/// mostly frequent.
const PAIRS_WORDS: u32 = 2000;

/// The stream of random numbers that chooses the pairs.
const PAIRS_SEED: u64 = 0x7061_6972_732d_6f66;

/// The seed of all generated texts.
const SEED: u64 = 0x5445_5854_544f_5049;

impl Topics {
    /// The text of a built-in name: `topics:WORDSxTOKENS`, whose words follow Zipf's law, or
    /// `english:WORDSxTOKENS`, whose words are as frequent as those of English without stop words.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (law, spec) = name.split_once(':')?;
        match law {
            "topics" => Self::parse(spec, Law::zipf),
            "english" => Self::parse(spec, Law::english),
            _ => None,
        }
    }

    fn parse(spec: &str, law: impl Fn(u32) -> Law) -> Option<Self> {
        let (words, tokens) = spec.split_once('x')?;
        let (words, tokens) = (words.parse::<u32>().ok()?, tokens.parse::<u64>().ok()?);
        if !(2..1 << 31).contains(&words) || !(2 * TURN..1 << 48).contains(&tokens) {
            return None;
        }
        let common = (words / 10).clamp(1, COMMON_MAX);
        let topics = ((words - common) / 16).clamp(1, TOPICS_MAX);
        let sentences = tokens.div_ceil(TURN) * LENGTHS.len() as u64;
        let block_sentences = (sentences / BLOCKS).max((sentences / BLOCKS_MIN).clamp(1, BLOCK_WORDS / 12));
        Some(Self { words, tokens, common, topics, law: law(words), block_sentences })
    }

    fn sentences(&self) -> u64 {
        // The last turn may be incomplete.
        let turns = self.tokens / TURN;
        let (mut sentences, mut left) = (turns * LENGTHS.len() as u64, self.tokens % TURN);
        for len in LENGTHS {
            if left > 0 {
                sentences += 1;
                left = left.saturating_sub(len);
            }
        }
        sentences
    }

    /// Number of pieces of at most `piece_words_max` words.
    pub(super) fn pieces(&self, piece_words_max: u64) -> u64 {
        let of_turn: u64 = LENGTHS.iter().map(|len| len.div_ceil(piece_words_max)).sum();
        // The last turn may be incomplete.
        let full = self.tokens / TURN;
        let rest = full * LENGTHS.len() as u64..self.sentences();
        let of_rest = rest
            .map(|sentence| (self.before(sentence + 1) - self.before(sentence)).div_ceil(piece_words_max));
        full * of_turn + of_rest.sum::<u64>()
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.sentences().div_ceil(self.block_sentences)
    }

    /// Number of words before a sentence.
    fn before(&self, sentence: u64) -> u64 {
        let turns = LENGTHS.len() as u64;
        let rest: u64 = LENGTHS[..(sentence % turns) as usize].iter().sum();
        (sentence / turns * TURN + rest).min(self.tokens)
    }

    fn sentences_of(&self, block: u64) -> std::ops::Range<u64> {
        let start = block * self.block_sentences;
        start..(start + self.block_sentences).min(self.sentences())
    }

    /// Words of a block.
    pub(super) fn block_words(&self, block: u64) -> u64 {
        let sentences = self.sentences_of(block);
        self.before(sentences.end) - self.before(sentences.start)
    }

    /// Draws the words of a block, as ranks from the most frequent word.
    pub(super) fn read(&self, block: u64, piece_words_max: u64, into: &mut Words) {
        into.clear();
        for sentence in self.sentences_of(block) {
            let len = self.before(sentence + 1) - self.before(sentence);
            let mut rng = Pcg64Mcg::seed_from_u64(stream(SEED, &[self.words.into(), sentence]));
            let topic = rng.random_range(0..self.topics);
            for word in 0..len {
                into.words.push(self.draw(topic, &mut rng));
                if (word + 1) % piece_words_max == 0 {
                    into.end_generated_piece();
                }
            }
            into.end_generated_piece();
        }
    }

    fn draw(&self, topic: u32, rng: &mut Pcg64Mcg) -> u32 {
        let rank = self.law.sample(rng);
        if rank < self.common || !rng.random_bool(REGULAR) {
            return rank;
        }
        // Words are dealt out to the topics in the order of frequency, so that the chosen word is about as
        // frequent.
        let of_topic = u64::from(self.common)
            + u64::from((rank - self.common) / self.topics) * u64::from(self.topics)
            + u64::from(topic);
        u32::try_from(of_topic).ok().filter(|word| *word < self.words).unwrap_or(rank)
    }

    /// The name of a word.
    fn name(rank: u32) -> String {
        format!("w{rank}")
    }

    /// Pairs of different words that belong to topics, by their ranks, and whether both belong to the same
    /// topic, as half of the pairs do. Words of the same topic occur in the same sentences, so they are
    /// similar. Empty if no topic has two words, or if there is only one topic.
    pub(super) fn pairs(&self) -> Vec<([u32; 2], bool)> {
        let candidates = (self.words - self.common).min(PAIRS_WORDS);
        let of_topic = candidates / self.topics;
        if self.topics < 2 || of_topic < 2 {
            return Vec::new();
        }
        let mut rng = Pcg64Mcg::seed_from_u64(stream(PAIRS_SEED, &[self.words.into()]));
        let word = |topic: u32, place: u32| self.common + place * self.topics + topic;
        let pairs = (0..PAIRS).map(|number| {
            let (topic, place) = (rng.random_range(0..self.topics), rng.random_range(0..of_topic));
            let same = number % 2 == 0;
            let other = if same {
                word(topic, (place + rng.random_range(1..of_topic)) % of_topic)
            } else {
                let other_topic = (topic + rng.random_range(1..self.topics)) % self.topics;
                word(other_topic, rng.random_range(0..of_topic))
            };
            ([word(topic, place), other], same)
        });
        pairs.collect()
    }

    /// The counts of all words, also of those that do not occur.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = vec![0u64; self.words as usize];
        let mut words = Words::default();
        for block in 0..self.blocks() {
            self.read(block, u64::MAX, &mut words);
            words.words.iter().for_each(|word| counts[*word as usize] += 1);
        }
        let mut all = Counts::default();
        for (rank, count) in (0..).zip(counts) {
            let name = Self::name(rank);
            // There are fewer than 2^31 words.
            let _ = all.add(name.as_bytes(), hash(name.as_bytes()), count);
        }
        all
    }

    /// The number of each rank: what `find` returns for its name.
    pub(super) fn numbers(&self, find: impl Fn(&[u8]) -> u32) -> Vec<u32> {
        (0..self.words).map(|rank| find(Self::name(rank).as_bytes())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(topics: &Topics) -> Vec<Vec<u32>> {
        let mut sentences = Vec::new();
        let mut words = Words::default();
        for block in 0..topics.blocks() {
            topics.read(block, 1000, &mut words);
            assert_eq!(words.words.len() as u64, topics.block_words(block));
            let mut start = 0;
            for end in &words.ends {
                sentences.push(words.words[std::mem::replace(&mut start, *end)..*end].to_vec());
            }
        }
        sentences
    }

    /// Sentences have words of one topic, so words of pairs of the same topic occur together far more often.
    #[test]
    fn words_of_a_topic_occur_together() {
        let topics = Topics::named("topics:2000x200000").unwrap();
        let pairs = topics.pairs();
        assert_eq!((pairs.len(), pairs.iter().filter(|(_, same)| *same).count()), (1000, 500));
        let mut meetings = [0u32; 2];
        for sentence in read(&topics) {
            for ([a, b], same) in &pairs {
                assert_ne!(a, b);
                if sentence.contains(a) && sentence.contains(b) {
                    meetings[usize::from(*same)] += 1;
                }
            }
        }
        assert!(meetings[1] > 10 * meetings[0] && meetings[1] > 1000, "{meetings:?}");
        assert_eq!(Topics::named("topics:20x1000").unwrap().pairs(), [], "one topic");
    }

    #[test]
    fn there_are_as_many_tokens_as_specified() {
        for tokens in [216, 217, 1000, 1007, 50_001] {
            let topics = Topics::named(&format!("topics:500x{tokens}")).unwrap();
            let sentences = read(&topics);
            assert_eq!(sentences.iter().map(|s| s.len() as u64).sum::<u64>(), tokens);
            assert_eq!(sentences.len() as u64, topics.sentences());
            assert!(sentences.iter().all(|s| (1..=16).contains(&s.len())));
            assert_eq!(topics.counts().total(), tokens);
        }
    }

    #[test]
    fn pieces_are_counted() {
        for (spec, max) in [("50x1000", 1), ("50x1007", 5), ("50x323", 5), ("50x216", 12), ("50x2000", 1000)]
        {
            let topics = Topics::parse(spec, Law::zipf).unwrap();
            let mut words = Words::default();
            let mut pieces = 0;
            for block in 0..topics.blocks() {
                topics.read(block, max, &mut words);
                pieces += words.ends.len() as u64;
            }
            assert_eq!(topics.pieces(max), pieces, "{spec}, {max}");
        }
    }

    #[test]
    fn words_follow_zipfs_law_and_topics_hold_together() {
        let topics = Topics::parse("20000x400000", Law::zipf).unwrap();
        let sentences = read(&topics);
        let mut counts = vec![0.0; 20_000];
        sentences.iter().flatten().for_each(|word| counts[*word as usize] += 1.0);
        let harmonic: f64 = (1..=20_000).map(|rank| 1.0 / f64::from(rank)).sum();
        let share = |words: std::ops::Range<usize>| counts[words].iter().sum::<f64>() / 400_000.0;
        let expected =
            |words: std::ops::Range<usize>| words.map(|w| 1.0 / (w + 1) as f64).sum::<f64>() / harmonic;
        for words in [0..1, 1..10, 10..100, 100..1000, 1000..20_000] {
            let (share, expected) = (share(words.clone()), expected(words.clone()));
            assert!((share / expected - 1.0).abs() < 0.03, "{words:?}: {share}, not {expected}");
        }
        // Two words with topics in one sentence share their topic with probability .8 · .8, plus the
        // probability of sharing it by chance.
        let (mut equal, mut pairs) = (0.0, 0.0);
        for sentence in &sentences {
            let of_topics: Vec<u32> =
                sentence.iter().filter(|w| **w >= 100).map(|w| (w - 100) % 64).collect();
            for (at, one) in of_topics.iter().enumerate() {
                pairs += of_topics[..at].len() as f64;
                equal += of_topics[..at].iter().filter(|other| *other == one).count() as f64;
            }
        }
        assert!((0.62..0.68).contains(&(equal / pairs)), "{}", equal / pairs);
    }

    #[test]
    fn a_text_has_the_law_that_its_name_says() {
        let share = |name: &str| {
            let counts = Topics::named(name).unwrap().counts();
            counts.largest() as f64 / counts.total() as f64
        };
        let [zipf, english] = ["topics:20000x400000", "english:20000x400000"].map(share);
        assert!((0.090..0.100).contains(&zipf) && (0.014..0.018).contains(&english), "{zipf}, {english}");
        for name in ["english", "english:", "english:10", "German:2000x400000", "2000x400000"] {
            assert!(Topics::named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn what_is_no_specification_is_refused() {
        for spec in ["", "x", "10", "10x", "1x1000", "10x100", "10x1000x3", "9999999999x1000", "-1x1000"] {
            assert!(Topics::parse(spec, Law::zipf).is_none(), "{spec}");
        }
    }
}
