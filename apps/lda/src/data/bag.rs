//! UCI's bag-of-words files.

use super::documents::{Documents, Entry};
use super::error::DataError;
use intendant_formats::{Names, TextError, check_gaps, lines};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

/// The fields of a line: whole numbers between blanks.
fn numbers<const N: usize>(line: &str, what: &str) -> Result<[u64; N], String> {
    let expected = || format!("found '{line}', expected {what}");
    let mut fields = line.split_ascii_whitespace();
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = fields.next().and_then(|field| field.parse().ok()).ok_or_else(expected)?;
    }
    if fields.next().is_some() { Err(expected()) } else { Ok(numbers) }
}

/// The subject of each line of the header, and its maximum.
const HEADER: [(&str, u64); 3] = [
    ("the number of documents", u32::MAX as u64),
    ("the number of words", u32::MAX as u64 - 1),
    ("the number of lines that follow", u64::MAX),
];

/// Number of words that have an entry in a list. A few bytes of a file can name a larger number; words with
/// larger numbers take memory only if they occur.
const SEEN_MAX: usize = 1 << 24;

/// A file that is being read.
struct Reader<T> {
    header: Vec<u64>,
    /// What to do with a document.
    take: T,
    /// The document that is being read, from 1.
    document: u64,
    entries: Vec<Entry>,
    /// For each word, the last document with it: a list for the first words, a map for the others.
    seen: Vec<u32>,
    seen_beyond: BTreeMap<u32, u32>,
    lines: u64,
}

impl<T: FnMut(u64, &mut Vec<Entry>) -> Result<(), String>> Reader<T> {
    const fn new(take: T) -> Self {
        Self {
            header: Vec::new(),
            take,
            document: 0,
            entries: Vec::new(),
            seen: Vec::new(),
            seen_beyond: BTreeMap::new(),
            lines: 0,
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some((what, max)) = HEADER.get(self.header.len()) {
            let [number] = numbers(line, what)?;
            if number > *max {
                return Err(format!("found {number}; {what} must be at most {max}"));
            }
            self.header.push(number);
            return Ok(());
        }
        let [documents, words, lines] = self.header[..] else {
            return Err("the header is missing".to_owned());
        };
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let [document, word, count] =
            numbers(line, "three numbers: a document, a word, and how often it occurs there")?;
        for (what, number, max) in [("document", document, documents), ("word", word, words)] {
            if number == 0 || number > max {
                return Err(format!(
                    "{what} {number} is not between 1 and {max}, as line {} says",
                    match what {
                        "document" => 1,
                        _ => 2,
                    }
                ));
            }
        }
        let number = u32::try_from(count).ok().filter(|count| *count > 0);
        let count =
            number.ok_or_else(|| format!("word {word} occurs {count} times; expected 1 to {}", u32::MAX))?;
        if document < self.document {
            return Err(format!(
                "document {document} comes after document {}; sort the lines that follow the first three by their first number",
                self.document
            ));
        }
        if self.document < document {
            check_gaps("documents", document, self.lines + 1)?;
            self.end_documents(document)?;
        }
        let word = word as u32 - 1;
        let last = if (word as usize) < SEEN_MAX {
            if self.seen.len() <= word as usize {
                self.seen.resize(word as usize + 1, 0);
            }
            &mut self.seen[word as usize]
        } else {
            self.seen_beyond.entry(word).or_default()
        };
        if std::mem::replace(last, document as u32) == document as u32 {
            return Err(format!(
                "word {} of document {document} has a second line; add up its occurrences",
                word + 1
            ));
        }
        self.entries.push(Entry { word, count });
        self.lines += 1;
        if self.lines > lines {
            return Err(format!("this is line {} of those that line 3 says are {lines}", self.lines));
        }
        Ok(())
    }

    /// Ends all documents before this one.
    fn end_documents(&mut self, next: u64) -> Result<(), String> {
        while self.document < next {
            if self.document > 0 {
                (self.take)(self.document, &mut self.entries)?;
                self.entries.clear();
            }
            self.document += 1;
        }
        Ok(())
    }
}

/// Reads the documents, and the number of words.
pub(super) fn read(file: &str, reader: impl BufRead) -> Result<(Documents, u32), TextError> {
    let mut documents = Documents::default();
    let words = each(file, reader, |document, entries| {
        documents.push(document, std::mem::take(entries));
        Ok(())
    })?;
    Ok((documents, words))
}

/// Calls `take` with the number and the entries of each document, which it may empty. Returns the number of
/// words.
pub(super) fn each(
    file: &str,
    reader: impl BufRead,
    take: impl FnMut(u64, &mut Vec<Entry>) -> Result<(), String>,
) -> Result<u32, TextError> {
    let (mut state, mut line_number) = (Reader::new(take), 0);
    lines(file, reader, |line| {
        line_number += 1;
        state.line(line)
    })?;
    let wrong =
        |problem: String| TextError::Line { file: file.to_owned(), line: line_number.max(1), problem };
    let [documents, words, lines] = state.header[..] else {
        let (what, _) = HEADER[state.header.len()];
        return Err(wrong(format!("the file ends here; expected {what}")));
    };
    if state.lines < lines {
        return Err(wrong(format!(
            "the file ends after {} of the {lines} lines that line 3 announces",
            state.lines
        )));
    }
    for (what, numbers) in [("documents", documents), ("words", words)] {
        check_gaps(what, numbers, state.lines).map_err(wrong)?;
    }
    state.end_documents(documents + 1).map_err(wrong)?;
    Ok(words as u32)
}

/// The name of a word without a vocabulary: its number, from 1.
pub(super) fn name(word: u32) -> String {
    (u64::from(word) + 1).to_string()
}

/// Names of words without a vocabulary.
pub(super) fn numbered(words: u32) -> Names {
    let mut names = Names::default();
    (0..words).for_each(|word| names.push(&name(word)));
    names
}

/// Checks that a vocabulary has as many words as the documents.
pub(super) fn check_vocabulary(
    vocabulary: &Path,
    names: &Names,
    documents: &str,
    words: u32,
) -> Result<(), DataError> {
    if names.len() == words as usize {
        return Ok(());
    }
    Err(DataError::Vocabulary {
        vocabulary: vocabulary.display().to_string(),
        words: names.len(),
        documents: documents.to_owned(),
        expected: words as usize,
    })
}
