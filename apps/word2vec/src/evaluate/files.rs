//! Files with questions.
//!
//! Capitals make no difference: a word of a file stands for the most frequent word of the vocabulary that
//! differs from it only in capitals.

use super::analogies::{Analogies, Question, Section};
use super::similarity::{Rated, Similarities};
use crate::data::Vocabulary;
use intendant_formats::{TextError, lines, open};
use std::collections::BTreeMap;
use std::path::Path;

/// A section whose name starts like this is about the forms of words, as in the original questions.
const SYNTACTIC: &str = "gram";

/// Reads questions: lines of four words, in sections that begin with a line of a colon and their name.
/// Questions, answers and candidates are among the `words` most frequent words.
///
/// # Errors
/// If the file cannot be read or is not in the format; the message names file and line.
pub fn read_analogies(path: &Path, vocabulary: &Vocabulary, words: u32) -> Result<Analogies, TextError> {
    let words = words.min(u32::try_from(vocabulary.len()).unwrap_or(u32::MAX));
    let mut numbers = BTreeMap::new();
    let mut left_out = Vec::new();
    for number in 0..words {
        let word = without_capitals(vocabulary.word(number));
        if *numbers.entry(word).or_insert(number) != number {
            left_out.push(number);
        }
    }
    let mut analogies = Analogies { words, left_out, ..Analogies::default() };
    lines(&path.display().to_string(), open(path)?, |line| {
        if let Some(name) = line.trim_start().strip_prefix(':') {
            analogies.sections.push(Section {
                name: name.split_whitespace().collect::<Vec<_>>().join("_"),
                syntactic: name.trim().to_lowercase().starts_with(SYNTACTIC),
                skipped: 0,
            });
            return Ok(());
        }
        let of_line: Vec<&str> = line.split_whitespace().collect();
        let asked: [&str; 4] = match of_line.as_slice().try_into() {
            Ok(asked) => asked,
            Err(_) if of_line.is_empty() => return Ok(()),
            Err(_) => return Err(format!("found {} words, expected 4, or ': SECTION'", of_line.len())),
        };
        let number = analogies.sections.len();
        let Some(section) = analogies.sections.last_mut() else {
            return Err("there is a question before the first line of the form ': SECTION'".to_owned());
        };
        let known = asked.map(|word| numbers.get(&without_capitals(word.as_bytes())).copied());
        match known {
            [Some(a), Some(b), Some(c), Some(answer)] => {
                let section = (number - 1) as u32;
                analogies.questions.push(Question { words: [a, b, c, answer], section });
            }
            [..] => section.skipped += 1,
        }
        Ok(())
    })?;
    Ok(analogies)
}

/// Reads ratings: lines of two words and a number, separated by tabs, commas or blanks. Further columns,
/// lines that begin with `#`, and a first line without a number are ignored.
///
/// # Errors
/// If the file cannot be read, is not in the format, or has no pair; the message names file and line.
pub fn read_similarities(path: &Path, vocabulary: &Vocabulary) -> Result<Similarities, TextError> {
    let mut pairs: Vec<(String, String, f64)> = Vec::new();
    let mut is_first = true;
    let mut number = 0;
    let mut header = None;
    let file = path.display().to_string();
    lines(&file, open(path)?, |line| {
        number += 1;
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            return Ok(());
        }
        let fields: Vec<&str> = match ['\t', ','].into_iter().find(|separator| line.contains(*separator)) {
            Some(separator) => line.split(separator).map(str::trim).collect(),
            None => line.split_whitespace().collect(),
        };
        let is_header = std::mem::replace(&mut is_first, false);
        let [a, b, score, ..] = fields.as_slice() else {
            return Err(format!("found {} columns, expected two words and a number", fields.len()));
        };
        match score.parse::<f64>() {
            Ok(score) if score.is_finite() => pairs.push(((*a).to_owned(), (*b).to_owned(), score)),
            Ok(_) => return Err(format!("the rating is {score}; it must be finite")),
            Err(_) if is_header => header = Some((number, (*score).to_owned())),
            Err(_) => return Err(format!("the third column is '{score}', which is no number")),
        }
        Ok(())
    })?;
    if pairs.is_empty() {
        let expected = "expected lines of two words and a number";
        let (line, problem) = match header {
            Some((line, score)) => (
                line,
                format!("its third column is '{score}', which is no number, and no pair follows; {expected}"),
            ),
            None => (1, format!("there are no pairs; {expected}")),
        };
        return Err(TextError::Line { file, line, problem });
    }
    let folded = |word: &str| without_capitals(word.as_bytes());
    let wanted = pairs.iter().flat_map(|(a, b, _)| [folded(a), folded(b)]);
    let mut numbers: BTreeMap<Vec<u8>, Option<u32>> = wanted.map(|word| (word, None)).collect();
    for (number, word) in (0..).zip(vocabulary.words()) {
        if let Some(known) = numbers.get_mut(&without_capitals(word)) {
            known.get_or_insert(number);
        }
    }
    let number = |word: &str| numbers.get(&folded(word)).copied().flatten();
    let rated = |(a, b, score): &(String, String, f64)| {
        Some(Rated { words: [number(a)?, number(b)?], score: *score })
    };
    let rated: Vec<Rated> = pairs.iter().filter_map(rated).collect();
    Ok(Similarities { skipped: pairs.len() - rated.len(), rated })
}

/// Most words are UTF-8; in other words, only ASCII letters have capitals.
fn without_capitals(word: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(word) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => word.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Corpus, Options};
    use std::fs;

    /// The words a to f in this order, and some capitals: É, e.
    fn vocabulary() -> Corpus {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        let words = ["a", "b", "B", "c", "é", "É", "d", "A"];
        let text: String =
            words.iter().enumerate().map(|(i, word)| format!("{word}\n").repeat(20 - i)).collect();
        fs::write(&file, text).unwrap();
        Corpus::open(&file, Options::default()).unwrap()
    }

    fn read<T>(text: &str, read: impl Fn(&Path, &Vocabulary) -> Result<T, TextError>) -> Result<T, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, text).unwrap();
        let result = read(&file, vocabulary().vocabulary());
        result.map_err(|error| error.to_string().replace(folder.path().to_str().unwrap(), "DIR"))
    }

    #[test]
    fn questions_are_read_in_sections() {
        let text = ": Capital  cities\nA B c D\n\n a b c e\n: gram1-x\na É D b\r\n";
        let analogies = read(text, |path, words| read_analogies(path, words, 30_000)).unwrap();
        let section = |name: &str, syntactic, skipped| Section { name: name.to_owned(), syntactic, skipped };
        assert_eq!(analogies.sections, [section("Capital_cities", false, 1), section("gram1-x", true, 0)]);
        assert_eq!((analogies.words, &analogies.left_out[..]), (8, &[2, 5, 7][..]));
        let question = |words, section| Question { words, section };
        assert_eq!(analogies.questions, [question([0, 1, 3, 6], 0), question([0, 4, 6, 1], 1)]);
        let few = read(text, |path, words| read_analogies(path, words, 5)).unwrap();
        assert_eq!((few.questions.len(), few.words), (0, 5), "d is no candidate");
        let error = |text| read(text, |path, words| read_analogies(path, words, 9)).unwrap_err();
        assert_eq!(error(": x\na b c\n"), "DIR/f, line 2: found 3 words, expected 4, or ': SECTION'");
        assert_eq!(
            error("a b c d\n"),
            "DIR/f, line 1: there is a question before the first line of the form ': SECTION'"
        );
    }

    #[test]
    fn ratings_are_read_whatever_separates_them() {
        for text in [
            "# comment\na\tB\t3.5\nc\tz\t1\nD\té\t-2\n",
            "Word 1,Word 2,Human (mean)\na,b,3.5\r\nc, z,1,more\nd,é,-2",
            "a b 3.5\n\nc   z 1\nd é -2\n",
        ] {
            let similarities = read(text, read_similarities).unwrap();
            let rated = |words, score| Rated { words, score };
            assert_eq!(similarities.rated, [rated([0, 1], 3.5), rated([6, 4], -2.0)], "{text}");
            assert_eq!(similarities.skipped, 1);
        }
        let error = |text| read(text, read_similarities).unwrap_err();
        let nothing = "and no pair follows; expected lines of two words and a number";
        assert_eq!(
            error("# x\na b high\n"),
            format!("DIR/f, line 2: its third column is 'high', which is no number, {nothing}")
        );
        let empty = "DIR/f, line 1: there are no pairs; expected lines of two words and a number";
        assert_eq!([error(""), error("# a b 1\n")], [empty, empty]);
        assert_eq!(error("a b 1\nb c x\n"), "DIR/f, line 2: the third column is 'x', which is no number");
        assert_eq!(error("a b\n"), "DIR/f, line 1: found 2 columns, expected two words and a number");
        assert_eq!(error("a b inf\n"), "DIR/f, line 1: the rating is inf; it must be finite");
    }
}
