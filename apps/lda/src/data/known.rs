//! Documents in the words of a model.

use super::documents::{Entry, merge};
use super::error::DataError;
use super::format::Format;
use super::words::read_words;
use super::{bag, text};
use intendant_formats::{NameIndex, Names};
use std::io::BufRead;
use std::path::Path;

/// How many tokens of documents are words of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Tokens that are words of the model.
    pub known: u64,
    /// Other tokens, which are left out.
    pub unknown: u64,
}

/// Calls `take` with each document of a text that errors call `file`: its name in the source (its number, or
/// its line, from 1), and its words among `words`, ascending. Only a document is in memory. `vocabulary` has
/// the words of a bag of words.
///
/// # Errors
/// If a file cannot be read or is malformed, or no word is one of `words`. Errors of `take`.
pub fn known(
    words: &Names,
    (file, reader): (&str, impl BufRead),
    (format, vocabulary): (Format, Option<&Path>),
    mut take: impl FnMut(u64, &[Entry]) -> Result<(), String>,
) -> Result<Coverage, DataError> {
    let index = NameIndex::of(words);
    let mut coverage = Coverage::default();
    let mut entries = Vec::new();
    // Takes a document whose words are numbers of the model, if they are known.
    let mut document = |name, all: &mut dyn Iterator<Item = (Option<u32>, u32)>| {
        entries.clear();
        for (word, count) in all {
            let tokens = if word.is_some() { &mut coverage.known } else { &mut coverage.unknown };
            *tokens += u64::from(count);
            entries.extend(word.map(|word| Entry { word, count }));
        }
        merge(&mut entries);
        take(name, &entries)
    };
    match format {
        Format::Text => text::each(file, reader, |name, of_line| {
            document(name, &mut of_line.iter().map(|word| (index.find(words, word), 1)))
        })?,
        Format::Bag => {
            let vocabulary =
                vocabulary.map(|path| read_words(path).map(|names| (path, names))).transpose()?;
            let numbers: Option<Vec<Option<u32>>> = vocabulary
                .as_ref()
                .map(|(_, names)| names.iter().map(|name| index.find(words, name)).collect());
            let number = |word: u32| match &numbers {
                Some(numbers) => numbers.get(word as usize).copied().flatten(),
                None => index.find(words, &bag::name(word)),
            };
            let expected = bag::each(file, reader, |name, entries| {
                document(name, &mut entries.iter().map(|entry| (number(entry.word), entry.count)))
            })?;
            if let Some((path, names)) = vocabulary {
                bag::check_vocabulary(path, &names, file, expected)?;
            }
        }
    }
    if coverage.known == 0 && coverage.unknown > 0 {
        return Err(DataError::Unknown { file: file.to_owned(), words: words.len() });
    }
    Ok(coverage)
}
