//! Text: a document per line.

use super::documents::{Collection, Documents, Entry};
use super::error::DataError;
use intendant_formats::{NameIndex, Names, TextError, lines_up_to};
use std::io::BufRead;

/// Maximum number of bytes of a document: a longer line indicates that the file is not a text.
const DOCUMENT_BYTES_MAX: usize = 1 << 26;

/// Maximum number of bytes of a word, for the same reason.
const WORD_BYTES_MAX: usize = 4096;

/// Calls `take` with the number and the words of each line that is not blank.
pub(super) fn each(
    file: &str,
    reader: impl BufRead,
    mut take: impl FnMut(u64, &[&str]) -> Result<(), String>,
) -> Result<(), TextError> {
    let mut line_number = 0;
    lines_up_to(DOCUMENT_BYTES_MAX, file, reader, |line| {
        line_number += 1;
        // The same blanks as in word2vec.
        let words = line.split([' ', '\t', '\x0b', '\x0c', '\r']).filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        if words.iter().any(|word| word.len() > WORD_BYTES_MAX) {
            return Err(format!("a word is longer than {WORD_BYTES_MAX} bytes; is this a text?"));
        }
        if words.is_empty() { Ok(()) } else { take(line_number, &words) }
    })
}

/// Reads documents, and numbers their words by first appearance.
pub(super) fn read(file: &str, reader: impl BufRead) -> Result<Collection, DataError> {
    let (mut words, mut index) = (Names::default(), NameIndex::default());
    let mut documents = Documents::default();
    each(file, reader, |line_number, of_line| {
        let mut entries = Vec::with_capacity(of_line.len());
        for word in of_line {
            let number = index.intern(&mut words, word);
            let word = number.ok_or_else(|| "there are too many distinct words".to_owned())?;
            entries.push(Entry { word, count: 1 });
        }
        documents.push(line_number, entries);
        Ok(())
    })?;
    Ok(Collection { words, documents })
}
