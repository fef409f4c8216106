//! The text format of histories: writing, and reading several files into one history.
//!
//! ```text
//! lanes-history 1 workers 2
//! push 0 17 1200 1800        worker, key, start, end
//! pull 1 17 1500 1900 1,0    …, lanes
//! push 0 17 - ?              no start known; outcome unknown
//! push 1 17 - -              no times, but acknowledged
//! final 17 1,0               key, lanes
//! ```

use super::{EARLIEST, History, LATEST, Operation, Record, RecordId};
use intendant_core::Key;
use std::io::{self, BufRead, Write};
use std::str::FromStr;

/// Why a file cannot be read as a history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file cannot be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// A line that does not follow the format.
    #[error("line {line} of the history: {what}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

impl History {
    /// Writes the history.
    ///
    /// # Errors
    /// The first error of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "lanes-history 1 workers {}", self.workers)?;
        let start = |start: u64| if start == EARLIEST { "-".to_owned() } else { start.to_string() };
        for Record { key, worker, operation, done, start: from, end } in &self.records {
            let end = match (done, *end) {
                (false, _) => "?".to_owned(),
                (true, LATEST) => "-".to_owned(),
                (true, end) => end.to_string(),
            };
            match operation {
                Operation::Push => writeln!(out, "push {worker} {key} {} {end}", start(*from))?,
                Operation::Pull(Some(at)) => {
                    let lanes = join(self.lanes_at(*at));
                    writeln!(out, "pull {worker} {key} {} {end} {lanes}", start(*from))?;
                }
                // A pull without a value constrains nothing.
                Operation::Pull(None) => {}
            }
        }
        self.finals.iter().try_for_each(|(key, at)| writeln!(out, "final {key} {}", join(self.lanes_at(*at))))
    }

    /// Appends a written history to this one. If a worker's records are spread over several files, these must
    /// be read in program order.
    ///
    /// # Errors
    /// If the text cannot be read, does not follow the format, or has another number of workers.
    pub fn read(&mut self, text: impl BufRead) -> Result<(), TextError> {
        for (at, line) in text.lines().enumerate() {
            let line = line?;
            self.read_line(at == 0, &line).map_err(|what| TextError::Line { line: at + 1, what })?;
        }
        Ok(())
    }

    fn read_line(&mut self, first: bool, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match (first, &words[..]) {
            (true, ["lanes-history", "1", "workers", workers]) => {
                let workers: u32 = number("number of workers", workers)?;
                if workers != self.workers {
                    return Err(format!("the history has {workers} workers, expected {}", self.workers));
                }
                Ok(())
            }
            (true, _) => Err("expected 'lanes-history 1 workers N'".to_owned()),
            (false, ["push", worker, key, start, end]) => {
                let start = time(start)?;
                let id = self.push(self.worker(worker)?, Key(number("key", key)?), start);
                self.end(id, end)
            }
            (false, ["pull", worker, key, start, end, lanes]) => {
                let (start, lanes) = (time(start)?, self.split(lanes)?);
                let id = self.pull(self.worker(worker)?, Key(number("key", key)?), start);
                self.pulled(id, &lanes, None);
                self.end(id, end)
            }
            (false, ["final", key, lanes]) => {
                let lanes = self.split(lanes)?;
                self.ended(Key(number("key", key)?), &lanes);
                Ok(())
            }
            (false, []) => Ok(()),
            (false, _) => Err("expected 'push', 'pull' or 'final' with their fields".to_owned()),
        }
    }

    fn worker(&self, text: &str) -> Result<usize, String> {
        let worker: usize = number("worker", text)?;
        if worker < self.workers() {
            Ok(worker)
        } else {
            Err(format!("worker {worker} does not exist; there are {} workers", self.workers))
        }
    }

    fn end(&mut self, id: RecordId, text: &str) -> Result<(), String> {
        let record = &mut self.records[id.0 as usize];
        record.done = text != "?";
        if record.done {
            record.end = time(text)?.unwrap_or(LATEST);
        }
        Ok(())
    }

    fn split(&self, text: &str) -> Result<Vec<u32>, String> {
        let lanes = text.split(',').map(|lane| number("lane", lane)).collect::<Result<Vec<u32>, _>>()?;
        if lanes.len() == self.workers() {
            return Ok(lanes);
        }
        Err(format!("{} lanes for {} workers", lanes.len(), self.workers))
    }
}

fn join(lanes: &[u32]) -> String {
    lanes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn number<T: FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{what} '{text}' is not a number in range"))
}

fn time(text: &str) -> Result<Option<u64>, String> {
    if text == "-" { Ok(None) } else { number("time", text).map(Some) }
}
