//! Text to learn from: a corpus of any size. The vocabulary, an index, and the words of a bounded part of the
//! text are in memory.
//!
//! [`Corpus::open`] reads a text file once, with all cores: it counts words and records where *blocks* begin.
//! A block is a few kilobytes of whole pieces (lines, or parts of long lines). It is the unit of later reads,
//! which are by position and in any order. The first pass numbers the words, and keeps blocks in memory as
//! numbers as far as [`Options::memory`] allows; these blocks are not read again. Some blocks are held out
//! for the evaluation. [`Corpus::builtin`] has a small text, and generates others.
//!
//! This module has no keys and values, draws nothing at random, and does not define the order of training.

mod error;
mod law;
mod scan;
mod source;
mod text;
mod topics;
mod words;

pub use error::DataError;
pub use text::Words;
pub use words::{UNKNOWN, Vocabulary};

use intendant_core::random::{Permutation, stream};
use intendant_formats::ZstdReader;
use scan::{Division, Scan, machine_threads, scan};
use source::Source;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;
use text::Block;
use topics::Topics;

/// How a text becomes a corpus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Maximum number of words of a piece; longer lines are several pieces.
    pub piece_words_max: u64,
    /// Words that occur less often are left out; `None` means 5, or 0 for generated text, whose words are all
    /// kept.
    pub min_count: Option<u64>,
    /// The part of the blocks that is held out; `None` means 1 %, up to 500,000 words, or 5 % of a built-in
    /// text. At least one block is held out, and at least one is not.
    pub held_out: Option<f64>,
    /// Bytes of memory for blocks that are kept as numbers of words, if the text is a file. Other blocks are
    /// read, and their words looked up, each time that they are trained.
    pub memory: u64,
}

/// Default number of bytes of memory for the words of a text: enough for 60 million words, which are about
/// 350 MB of English text.
pub const MEMORY: u64 = 256 << 20;

impl Default for Options {
    fn default() -> Self {
        Self { piece_words_max: 1000, min_count: None, held_out: None, memory: MEMORY }
    }
}

/// Maximum number of held-out words by default: more words do not improve comparisons.
const HELD_OUT_WORDS_MAX: u64 = 500_000;

/// A text, its vocabulary, and an index of its blocks.
#[derive(Debug)]
pub struct Corpus {
    text: Text,
    piece_words_max: u64,
    vocabulary: Vocabulary,
    /// The number of words of each block, unknown ones included.
    words: Vec<u64>,
    /// Numbers of the blocks, ascending.
    training: Vec<u32>,
    held_out: Vec<u32>,
    digest: u64,
    failure: OnceLock<DataError>,
}

#[derive(Debug)]
enum Text {
    Read {
        source: Source,
        /// Blocks, and the words of the blocks that are kept.
        blocks: Vec<(Block, Option<Words>)>,
    },
    /// A generated text, with the number of each rank's word.
    Topics { topics: Topics, numbers: Vec<u32> },
}

/// A few articles of English Wikipedia; see `data/ATTRIBUTION.md`.
const WIKI: &[u8] = include_bytes!("../../data/wiki.txt.zst");

/// The stream of random numbers that chooses held-out blocks. It does not depend on the seed of a run, so
/// that runs can be compared.
const HELD_OUT: u64 = 0x6865_6c64_2d6f_7574;

/// The initial value of digests.
const DIGEST: u64 = 0x7477_6f72_6473_2121;

impl Corpus {
    /// Opens a text file, plain or compressed as `.zst` or `.gz`.
    ///
    /// # Errors
    /// If it cannot be read, is not a text, or is too small.
    pub fn open(path: &Path, options: Options) -> Result<Self, DataError> {
        Self::scanned(Source::open(path)?, options, (0.01, HELD_OUT_WORDS_MAX))
    }

    /// A built-in text: `wiki`, `topics:WORDSxTOKENS` or `english:WORDSxTOKENS`.
    ///
    /// # Errors
    /// If there is none of this name, or no word is frequent enough.
    pub fn builtin(name: &str, options: Options) -> Result<Self, DataError> {
        const HELD_OUT: (f64, u64) = (0.05, HELD_OUT_WORDS_MAX);
        let unknown = || DataError::Builtin { name: name.to_owned() };
        if name == "wiki" {
            let mut bytes = Vec::new();
            let read = ZstdReader::new(WIKI).read_to_end(&mut bytes);
            read.map_err(|source| DataError::Read { file: "builtin:wiki".to_owned(), source })?;
            return Self::scanned(Source::memory("builtin:wiki", bytes), options, HELD_OUT);
        }
        let topics = Topics::named(name).ok_or_else(unknown)?;
        let counts = topics.counts();
        let min_count = options.min_count.unwrap_or(0);
        let vocabulary = Vocabulary::new(&counts, min_count);
        if vocabulary.total() == 0 {
            let (words, largest) = (counts.len(), counts.largest());
            return Err(DataError::NoWords { file: format!("builtin:{name}"), min_count, words, largest });
        }
        let numbers = topics.numbers(|word| vocabulary.find(word).unwrap_or(UNKNOWN));
        let words = (0..topics.blocks()).map(|block| topics.block_words(block)).collect();
        let text = Text::Topics { topics, numbers };
        Self::assembled((text, &format!("builtin:{name}")), words, vocabulary, options, HELD_OUT)
    }

    fn scanned(source: Source, options: Options, held_out: (f64, u64)) -> Result<Self, DataError> {
        let division = Division::new(source.len(), options.piece_words_max, options.memory);
        let Scan { counts, mut blocks } = scan(&source, division, machine_threads())?;
        let min_count = options.min_count.unwrap_or(5);
        let vocabulary = Vocabulary::new(&counts, min_count);
        if vocabulary.is_empty() {
            let (words, largest) = (counts.len(), counts.largest());
            return Err(DataError::NoWords { file: source.name().to_owned(), min_count, words, largest });
        }
        let numbers = vocabulary.numbers(&counts);
        blocks.iter_mut().filter_map(|(_, kept)| kept.as_mut()).for_each(|words| words.renumber(&numbers));
        let words = blocks.iter().map(|(block, _)| block.words).collect();
        let name = source.name().to_owned();
        Self::assembled((Text::Read { source, blocks }, &name), words, vocabulary, options, held_out)
    }

    fn assembled(
        (text, name): (Text, &str),
        words: Vec<u64>,
        vocabulary: Vocabulary,
        options: Options,
        (part, words_max): (f64, u64),
    ) -> Result<Self, DataError> {
        let piece_words_max = options.piece_words_max;
        let blocks = words.len() as u64;
        if blocks < 2 {
            return Err(DataError::OneBlock { file: name.to_owned(), piece_words_max });
        }
        let held = match options.held_out {
            Some(part) => blocks as f64 * part,
            None => {
                let mean = words.iter().sum::<u64>() as f64 / blocks as f64;
                (blocks as f64 * part).min(words_max as f64 / mean)
            }
        };
        let held = (held.round() as u64).clamp(1, blocks - 1);
        let order = Permutation::new(blocks, stream(HELD_OUT, &[blocks]));
        let mut is_held = vec![false; words.len()];
        (0..held).for_each(|at| is_held[order.apply(at) as usize] = true);
        let (held_out, training) = (0..words.len() as u32).partition(|block| is_held[*block as usize]);
        let mut digest = vocabulary.digest(stream(DIGEST, &[piece_words_max, held]));
        match &text {
            Text::Read { blocks, .. } => {
                for (block, _) in blocks {
                    digest = stream(digest, &[block.start, block.hash]);
                }
            }
            Text::Topics { .. } => {}
        }
        let failure = OnceLock::new();
        Ok(Self { text, piece_words_max, vocabulary, words, training, held_out, digest, failure })
    }

    /// The words that are trained.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Pairs of words of a generated text, by their numbers, and whether both words are of the same topic.
    /// `None` if the text is a file.
    pub fn topic_pairs(&self) -> Option<Vec<([u32; 2], bool)>> {
        let Text::Topics { topics, numbers } = &self.text else { return None };
        let number = |rank: u32| numbers[rank as usize];
        Some(topics.pairs().into_iter().map(|(ranks, same)| (ranks.map(number), same)).collect())
    }

    /// The blocks to learn from, ascending.
    pub fn training(&self) -> &[u32] {
        &self.training
    }

    /// The blocks to test on, ascending.
    pub fn held_out(&self) -> &[u32] {
        &self.held_out
    }

    /// Words of a block, unknown ones included.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_words(&self, block: u32) -> u64 {
        self.words[block as usize]
    }

    /// Words of all blocks.
    pub fn words(&self) -> u64 {
        self.words.iter().sum()
    }

    /// Pieces of all blocks.
    pub fn pieces(&self) -> u64 {
        match &self.text {
            Text::Read { blocks, .. } => blocks.iter().map(|(block, _)| block.pieces).sum(),
            Text::Topics { topics, .. } => topics.pieces(self.piece_words_max),
        }
    }

    /// Words of all blocks to learn from.
    pub fn training_words(&self) -> u64 {
        self.training.iter().map(|block| self.block_words(*block)).sum()
    }

    /// A hash of the words, their order, and the choice of held-out blocks.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The words of a block, which is read if it is not in memory.
    ///
    /// # Errors
    /// If the file cannot be read any more, or has changed.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn read(&self, block: u32) -> Result<Cow<'_, Words>, DataError> {
        let mut words = Words::default();
        match &self.text {
            Text::Read { source, blocks } => {
                let (block, kept) = &blocks[block as usize];
                if let Some(kept) = kept {
                    return Ok(Cow::Borrowed(kept));
                }
                let mut text = Vec::new();
                source.read(block.start, block.bytes, &mut text)?;
                let find = |word: &[u8], hash| self.vocabulary.find_hashed(word, hash);
                if words.read(&text, self.piece_words_max, find) != block.hash {
                    return Err(DataError::Changed { file: source.name().to_owned(), at: block.start });
                }
            }
            Text::Topics { topics, numbers } => {
                topics.read(block.into(), self.piece_words_max, &mut words);
                words.renumber(numbers);
            }
        }
        Ok(Cow::Owned(words))
    }

    /// The words of a block, for a caller that cannot return an error. If an error occurs, it is stored, and
    /// the block is empty. See [`Corpus::failure`].
    ///
    /// # Panics
    /// If there is no such block.
    pub fn read_or_fail(&self, block: u32) -> Cow<'_, Words> {
        self.read(block).unwrap_or_else(|error| {
            // Only the first error is reported.
            let _ = self.failure.set(error);
            Cow::default()
        })
    }

    /// Why a block could not be read. Results computed since then are invalid.
    pub fn failure(&self) -> Option<&DataError> {
        self.failure.get()
    }
}
