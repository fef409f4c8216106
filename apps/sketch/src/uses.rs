//! The command that asks an exported sketch: `intendant sketch query`.

use crate::export::{heading, line};
use clap::Args;
use intendant_train::{TrainError, Use, print};
use intendant_trained::{Answers, answer_while_reading, finite, input, json_line};
use sketch::Estimated;
use sketch::data::{Items, RECORD_BYTES_MAX};
use sketch::saved::Saved;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub(crate) fn query() -> Use {
    Use::new("query", "Estimates how often items were counted", |args: QueryArgs| args.run())
}

#[derive(Args, Clone, Debug)]
struct QueryArgs {
    /// Folder that --export wrote
    #[arg(value_name = "SKETCH")]
    sketch: PathBuf,

    /// Items. Without any, standard input has them, as the stream had: each word, each pair of neighbouring
    /// words, each line or integer
    #[arg(value_name = "ITEM")]
    items: Vec<OsString>,

    /// Print a JSON object per item instead of a table
    #[arg(long)]
    json: bool,
}

impl QueryArgs {
    fn run(self) -> Result<(), TrainError> {
        let sketch = Saved::read(&self.sketch).map_err(TrainError::usage)?;
        let given: Result<Vec<Estimated>, String> =
            self.items.iter().map(|item| one(&sketch, item)).collect();
        let (given, mut asked) = (given.map_err(TrainError::usage)?, Ok(()));
        print(|out| {
            if !self.json {
                heading(out)?;
            }
            asked = answer_while_reading(out, |answers| match &given[..] {
                [] => self.lines(&sketch, answers),
                given => given.iter().try_for_each(|item| self.show(item, answers)),
            })?;
            Ok(())
        })?;
        asked.map_err(TrainError::usage)
    }

    fn show(&self, item: &Estimated, answers: &mut Answers<'_>) -> Result<(), String> {
        answers.write(|out| {
            if self.json {
                let name = String::from_utf8_lossy(&item.name);
                json_line(out, &[("item", &name)], [("estimate", finite(item.estimate))])
            } else {
                line(item, out)
            }
        })
    }

    /// Answers the items of standard input, line by line.
    fn lines(&self, sketch: &Saved, answers: &mut Answers<'_>) -> Result<(), String> {
        let (file, mut text) = input(None).map_err(|error| error.to_string())?;
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            let limit = RECORD_BYTES_MAX + 1;
            let read = (&mut text).take(limit).read_until(b'\n', &mut line);
            let read = read.map_err(|error| format!("cannot read {file}: {error}"))?;
            let wrong = |problem: String| format!("{file}, line {number}: {problem}");
            match read as u64 {
                0 => break,
                read if read == limit => {
                    return Err(wrong(format!(
                        "it is longer than {RECORD_BYTES_MAX} bytes; is this a text?"
                    )));
                }
                _ => {}
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let mut found = Vec::new();
            sketch.ask(line, |item| found.push(item)).map_err(wrong)?;
            found.iter().try_for_each(|item| self.show(item, answers))?;
        }
        Ok(())
    }
}

/// The item that an argument is, with its estimate.
fn one(sketch: &Saved, item: &OsStr) -> Result<Estimated, String> {
    let mut found = Vec::new();
    sketch.ask(item.as_bytes(), |item| found.push(item))?;
    if found.len() == 1
        && let Some(found) = found.pop()
    {
        return Ok(found);
    }
    let what = match sketch.about.items {
        Items::Words { ngrams: 1 } => "a word".to_owned(),
        Items::Words { ngrams } => format!("{ngrams} neighbouring words"),
        Items::Lines => "a line".to_owned(),
        Items::Integers => "an integer".to_owned(),
    };
    Err(format!("'{}' is {} items; an item of this sketch is {what}", item.display(), found.len()))
}
