//! Documents as bags of words: read from a UCI file ([`Format::Bag`]) or from text ([`Format::Text`]),
//! generated, and held out.
//!
//! All documents are in memory: eight bytes for each distinct word of each document. A document keeps its
//! place in the file, even if it has no words, because places determine which documents are held out.
//!
//! This module has no keys and values, and draws nothing but generated documents at random.

mod bag;
mod documents;
mod error;
mod format;
mod generated;
mod known;
mod text;
mod words;

pub use documents::{Documents, Entry};
pub use error::DataError;
pub use format::Format;
pub use generated::Generator;
pub use known::{Coverage, known};

use documents::Collection;
use intendant_core::random::stream;
use intendant_formats::{Names, open};
use std::path::{Path, PathBuf};
use words::read_words;

/// Where documents come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A file of documents, and a file with the words of a bag of words.
    File {
        /// The documents.
        path: PathBuf,
        /// Their format.
        format: Format,
        /// One word per line.
        vocabulary: Option<PathBuf>,
        /// Words that occur less often are left out.
        min_count: u64,
    },
    /// Generated.
    Generated(Generator),
}

/// Which documents test the model instead of training it.
#[derive(Clone, Debug, PartialEq)]
pub enum HeldOut {
    /// One of this many documents, beginning with the first.
    Every(u64),
    /// The documents of a file of the same format. Words that the training documents do not have are left
    /// out.
    File(PathBuf),
}

/// Documents for training and for the test, and the words.
#[derive(Clone, Debug)]
pub struct Corpus {
    words: Names,
    training: Documents,
    test: Documents,
    /// Number of occurrences in test documents of words that are not in the vocabulary.
    unknown: u64,
}

/// The initial value of digests of documents.
const DIGEST: u64 = 0x6c64_612d_646f_6373;

impl Corpus {
    /// Reads or generates documents, and holds some of them out.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed, no word is frequent enough, or nothing is left to train on
    /// or to test on.
    pub fn open(source: &Source, held_out: &HeldOut) -> Result<Self, DataError> {
        let (collection, format, names) = match source {
            Source::Generated(generator) => (generator.generate(), Format::Text, None),
            Source::File { path, format, vocabulary, min_count } => {
                let names = vocabulary.as_deref();
                let collection = read(path, *format, names)?;
                (keep_frequent(collection, *min_count, *format, path)?, *format, names)
            }
        };
        let Collection { words, documents } = collection;
        match held_out {
            HeldOut::Every(every) => {
                let (test, training) = documents.split(|place| (place as u64).is_multiple_of(*every));
                let total = documents.len();
                for (part, purpose) in [(&training, "train on"), (&test, "test on")] {
                    if part.tokens() == 0 {
                        return Err(DataError::HeldOut { every: *every, documents: total, purpose });
                    }
                }
                Ok(Self { words, training, test, unknown: 0 })
            }
            HeldOut::File(path) => {
                let (test, unknown) = read_known(path, format, names, &words)?;
                Ok(Self { words, training: documents, test, unknown })
            }
        }
    }

    /// Documents that test a model with these words; none for training.
    ///
    /// # Errors
    /// If the file cannot be read or is malformed.
    pub fn to_test(
        words: Names,
        path: &Path,
        format: Format,
        vocabulary: Option<&Path>,
    ) -> Result<Self, DataError> {
        let (test, unknown) = read_known(path, format, vocabulary, &words)?;
        Ok(Self { words, training: Documents::default(), test, unknown })
    }

    /// A corpus of these documents.
    #[must_use]
    pub const fn new(words: Names, training: Documents, test: Documents) -> Self {
        Self { words, training, test, unknown: 0 }
    }

    /// The words, by number.
    #[must_use]
    pub const fn words(&self) -> &Names {
        &self.words
    }

    /// Documents for training.
    #[must_use]
    pub const fn training(&self) -> &Documents {
        &self.training
    }

    /// Documents for the test.
    #[must_use]
    pub const fn test(&self) -> &Documents {
        &self.test
    }

    /// Number of occurrences, in a file of test documents, of words that are not in the vocabulary.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// A hash of words and documents.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let words = self.words.digest(DIGEST);
        stream(words, &[self.training.digest(), self.test.digest()])
    }
}

fn read(path: &Path, format: Format, vocabulary: Option<&Path>) -> Result<Collection, DataError> {
    let name = path.display().to_string();
    match format {
        Format::Text => text::read(&name, open(path)?),
        Format::Bag => {
            let (documents, words) = bag::read(&name, open(path)?)?;
            let names = match vocabulary {
                Some(vocabulary) => {
                    let names = read_words(vocabulary)?;
                    bag::check_vocabulary(vocabulary, &names, &name, words)?;
                    names
                }
                None => bag::numbered(words),
            };
            Ok(Collection { words: names, documents })
        }
    }
}

/// Reads documents and finds their words by name. Also returns the number of occurrences of unknown words.
fn read_known(
    path: &Path,
    format: Format,
    vocabulary: Option<&Path>,
    words: &Names,
) -> Result<(Documents, u64), DataError> {
    let (name, mut documents) = (path.display().to_string(), Documents::default());
    let coverage = known(words, (&name, open(path)?), (format, vocabulary), |name, entries| {
        documents.push(name, entries.to_vec());
        Ok(())
    })?;
    Ok((documents, coverage.unknown))
}

/// Leaves out words that occur less often than `min_count` times. Words of texts are numbered again, in
/// descending order of count; ties are in the order of their bytes. Words of bags keep their order.
fn keep_frequent(
    collection: Collection,
    min_count: u64,
    format: Format,
    path: &Path,
) -> Result<Collection, DataError> {
    let Collection { words, documents } = collection;
    let counts = documents.counts(words.len());
    let mut kept: Vec<u32> =
        (0..).zip(&counts).filter(|(_, n)| **n >= min_count).map(|(word, _)| word).collect();
    if kept.is_empty() || documents.tokens() == 0 {
        let largest = counts.iter().copied().max().unwrap_or(0);
        let file = path.display().to_string();
        return Err(DataError::NoWords { file, min_count: min_count.max(1), words: words.len(), largest });
    }
    let name = |word: &u32| words.get(*word as usize).unwrap_or_default();
    if format == Format::Text {
        kept.sort_by(|a, b| {
            let by_count = counts[*b as usize].cmp(&counts[*a as usize]);
            by_count.then_with(|| name(a).cmp(name(b)))
        });
    } else if kept.len() == words.len() {
        return Ok(Collection { words, documents });
    }
    let mut numbers = vec![None; words.len()];
    let mut names = Names::default();
    for (number, word) in (0..).zip(&kept) {
        numbers[*word as usize] = Some(number);
        names.push(name(word));
    }
    let documents = documents.renumbered(&numbers);
    Ok(Collection { words: names, documents })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
