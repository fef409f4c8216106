//! Questions by name, from standard input or a command line, and their answers for people and for programs.

use crate::input::input;
use crate::{Export, TrainedError};
use intendant_formats::{NameIndex, Names, TextError, lines};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The names of a model's rows, and what they are called.
#[derive(Debug)]
pub struct Named {
    what: &'static str,
    file: &'static str,
    names: Names,
    index: NameIndex,
}

impl Named {
    /// The names in a file of the model, one per line. Each is that of a `what`, as in "entity".
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(export: &Export, file: &'static str, what: &'static str) -> Result<Self, TrainedError> {
        Ok(Self::new(export.names(file)?, file, what))
    }

    /// Names that are known already; `file` of the model has them.
    #[must_use]
    pub fn new(names: Names, file: &'static str, what: &'static str) -> Self {
        let index = NameIndex::of(&names);
        Self { what, file, names, index }
    }

    /// The number of the row with this name.
    ///
    /// # Errors
    /// If there is none: a text for people.
    pub fn find(&self, name: &str) -> Result<u32, String> {
        let Self { what, file, .. } = self;
        self.get(name).ok_or_else(|| format!("there is no {what} '{name}'; the model's {file} lists all"))
    }

    /// The number of the row with this name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u32> {
        self.index.find(&self.names, name)
    }

    /// The name of a row; empty if there is no such row.
    #[must_use]
    pub fn name(&self, row: u32) -> &str {
        self.names.get(row as usize).unwrap_or_default()
    }

    /// All names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// As [`asked`].
    ///
    /// # Errors
    /// As [`asked`].
    pub fn asked(&self, given: &[String]) -> Result<Vec<u32>, String> {
        asked(given, |name| self.find(name))
    }
}

/// What `find` finds for the names in `given`; without any, for each line of standard input.
///
/// # Errors
/// Those of `find`, or if standard input cannot be read: a text for people.
pub fn asked<T>(given: &[String], find: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    if !given.is_empty() {
        return given.iter().map(|name| find(name)).collect();
    }
    let mut found = Vec::new();
    questions(|line| {
        found.push(find(line)?);
        Ok(())
    })
    .map_err(|error| error.to_string())?;
    Ok(found)
}

/// Calls `act` with each line of standard input.
///
/// # Errors
/// If it cannot be read, or an error of `act`, with the number of the line.
pub fn questions(act: impl FnMut(&str) -> Result<(), String>) -> Result<(), TextError> {
    let (name, text) = input(None)?;
    lines(&name, text, act)
}

/// The words of a line, which are separated by tabs and called `what`, as in "subject, relation and object".
///
/// # Errors
/// If there is another number of words: a text for people.
pub fn words<'a, const N: usize>(line: &'a str, what: &str) -> Result<[&'a str; N], String> {
    let words: Vec<&str> = line.split('\t').collect();
    words.try_into().map_err(|_| format!("expected {what}, separated by tabs"))
}

/// The answers to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The parts of the question: what each part is, and the part.
    pub asked: Vec<(&'static str, String)>,
    /// The answers and their numbers, best first.
    pub found: Vec<(String, f64)>,
}

/// How answers are shown: a table for people, or a JSON object per question.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// What an answer is, as in "entity".
    pub answer: &'static str,
    /// What its number is, as in "similarity".
    pub number: &'static str,
}

impl Style {
    /// Shows the answers to a question, as JSON or for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn show(self, out: &mut dyn Write, json: bool, answered: &Answered) -> io::Result<()> {
        if json {
            return writeln!(out, "{}", self.json(answered));
        }
        let asked: Vec<&str> = answered.asked.iter().map(|(_, part)| part.as_str()).collect();
        writeln!(out, "{}", asked.join("  "))?;
        for (rank, (name, value)) in (1..).zip(&answered.found) {
            writeln!(out, "{rank:4}  {value:10.4}  {name}")?;
        }
        Ok(())
    }

    /// The first `count` answers to a question as a JSON object, as [`Style::json`] has all.
    #[must_use]
    pub fn first(self, mut answered: Answered, count: usize) -> Value {
        answered.found.truncate(count);
        self.json(&answered)
    }

    /// The answers to a question as a JSON object: the parts of the question, and the list `answers`.
    #[must_use]
    pub fn json(self, answered: &Answered) -> Value {
        let Self { answer, number } = self;
        let answers =
            answered.found.iter().map(|(name, value)| json!({ answer: name, number: finite(*value) }));
        object(&answered.asked, [("answers", Value::Array(answers.collect()))])
    }
}

/// A JSON object: the parts of a question, and what is said about it.
#[must_use]
pub fn object<'a, S: AsRef<str>>(
    asked: &[(&str, S)],
    said: impl IntoIterator<Item = (&'a str, Value)>,
) -> Value {
    let asked = asked.iter().map(|(what, part)| ((*what).to_owned(), json!(part.as_ref())));
    let said = said.into_iter().map(|(what, value)| (what.to_owned(), value));
    Value::Object(asked.chain(said).collect::<Map<_, _>>())
}

/// Writes a JSON object in a line: the parts of a question, and what is said about it.
///
/// # Errors
/// Those of `out`.
pub fn json_line<'a>(
    out: &mut dyn Write,
    asked: &[(&str, &str)],
    said: impl IntoIterator<Item = (&'a str, Value)>,
) -> io::Result<()> {
    writeln!(out, "{}", object(asked, said))
}

/// Shows what an evaluation measured, by name: a line per measure, or a JSON object.
///
/// # Errors
/// Those of `out`.
pub fn measures(out: &mut dyn Write, json: bool, measured: &[(String, f64)]) -> io::Result<()> {
    if json {
        let said = measured.iter().map(|(name, value)| (name.clone(), finite(*value)));
        return writeln!(out, "{}", Value::Object(said.collect::<Map<_, _>>()));
    }
    let width = measured.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    measured.iter().try_for_each(|(name, value)| writeln!(out, "{name:width$}  {value}"))
}

/// A number in JSON; a text if it is not finite, as in reports.
#[must_use]
pub fn finite(number: f64) -> Value {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: bool, answers: &[(&str, f64)]) -> String {
        let mut out = Vec::new();
        let style = Style { answer: "word", number: "similarity" };
        let asked = vec![("a", "x".to_owned()), ("b", "y".to_owned())];
        let found = answers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        style.show(&mut out, json, &Answered { asked, found }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn answers_are_a_table_or_an_object_in_a_line() {
        let answers = [("u", 1.0), ("\"v\"", 0.5)];
        assert_eq!(shown(false, &answers), "x  y\n   1      1.0000  u\n   2      0.5000  \"v\"\n");
        let expected = r#"{"a":"x","answers":[{"similarity":1.0,"word":"u"},{"similarity":0.5,"word":"\"v\""}],"b":"y"}"#;
        assert_eq!(shown(true, &answers), format!("{expected}\n"));
        assert!(shown(true, &[("u", f64::NAN)]).contains(r#""similarity":"NaN""#));
    }

    #[test]
    fn names_are_found_or_refused_with_the_file_that_has_them() {
        let mut names = Names::default();
        names.push("a");
        names.push("b");
        let named = Named::new(names, "words.txt", "word");
        assert_eq!(named.asked(&["b".to_owned(), "a".to_owned()]), Ok(vec![1, 0]));
        assert_eq!(named.name(1), "b");
        let refused = named.asked(&["c".to_owned()]).unwrap_err();
        assert_eq!(refused, "there is no word 'c'; the model's words.txt lists all");
        assert_eq!(words("a\tb", "two words"), Ok(["a", "b"]));
        assert_eq!(words::<2>("a", "two words"), Err("expected two words, separated by tabs".to_owned()));
    }
}
