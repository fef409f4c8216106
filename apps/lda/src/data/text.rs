//! Text: a document per line.

use super::documents::{Collection, Documents, Entry};
use super::error::DataError;
use intendant_formats::{NameIndex, Names, lines_up_to};
use std::io::BufRead;

/// Maximum number of bytes of a document: a longer line indicates that the file is not a text.
const DOCUMENT_BYTES_MAX: usize = 1 << 26;

/// Maximum number of bytes of a word, for the same reason.
const WORD_BYTES_MAX: usize = 4096;

/// Reads documents, and numbers their words by first appearance.
pub(super) fn read(file: &str, reader: impl BufRead) -> Result<Collection, DataError> {
    let (mut words, mut index) = (Names::default(), NameIndex::default());
    let (mut documents, mut line_number) = (Documents::default(), 0);
    lines_up_to(DOCUMENT_BYTES_MAX, file, reader, |line| {
        line_number += 1;
        let mut entries = Vec::new();
        // The same blanks as in word2vec.
        for word in line.split([' ', '\t', '\x0b', '\x0c', '\r']).filter(|word| !word.is_empty()) {
            if word.len() > WORD_BYTES_MAX {
                return Err(format!("a word is longer than {WORD_BYTES_MAX} bytes; is this a text?"));
            }
            let number = index.intern(&mut words, word);
            let word = number.ok_or_else(|| "there are too many distinct words".to_owned())?;
            entries.push(Entry { word, count: 1 });
        }
        if !entries.is_empty() {
            documents.push(line_number, entries);
        }
        Ok(())
    })?;
    Ok(Collection { words, documents })
}
