//! A vocabulary in a file.

use super::error::DataError;
use intendant_formats::{NameIndex, Names, lines, open};
use std::path::Path;

/// Reads a vocabulary: one word per line.
pub(super) fn read_words(path: &Path) -> Result<Names, DataError> {
    let (mut words, mut index) = (Names::default(), NameIndex::default());
    let name = path.display().to_string();
    lines(&name, open(path)?, |line| {
        let word = line.trim();
        if word.is_empty() || word.contains(char::is_whitespace) {
            return Err(format!("found '{line}', expected a word"));
        }
        if let Some(before) = index.find(&words, word) {
            return Err(format!("'{word}' is the word of line {} as well", before + 1));
        }
        index.intern(&mut words, word).map(drop).ok_or_else(|| "there are too many words".to_owned())
    })?;
    Ok(words)
}
