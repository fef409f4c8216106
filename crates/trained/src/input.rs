//! What a command reads, and answers that are written while it is read.

use intendant_formats::{TextError, open};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// Stands for standard input.
const STANDARD: &str = "-";

/// Opens a text file, as [`open`] does; without a file, or if it is called `-`, standard input. Returns what
/// errors call it, too.
///
/// # Errors
/// If the file cannot be opened.
pub fn input(file: Option<&Path>) -> Result<(String, Box<dyn BufRead>), TextError> {
    if let Some(file) = file.filter(|file| *file != Path::new(STANDARD)) {
        return Ok((file.display().to_string(), open(file)?));
    }
    let standard = io::stdin();
    if standard.is_terminal() {
        eprintln!("reading from standard input");
    }
    Ok(("standard input".to_owned(), Box::new(standard.lock())))
}

/// Where the answers to what is being read go.
pub struct Answers<'a> {
    out: &'a mut dyn Write,
    written: io::Result<()>,
}

impl Answers<'_> {
    /// Writes an answer.
    ///
    /// # Errors
    /// If it cannot be written. Reading should then end; its own error is not reported.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), String> {
        self.written = write(self.out);
        self.written.as_ref().map_err(ToString::to_string).copied()
    }
}

/// Reads by `read`, which writes answers to `out` meanwhile. The inner result is that of `read`. All answers
/// that were written before an error of `read` stay written.
///
/// # Errors
/// If an answer cannot be written.
pub fn answer_while_reading<E>(
    out: &mut dyn Write,
    read: impl FnOnce(&mut Answers<'_>) -> Result<(), E>,
) -> io::Result<Result<(), E>> {
    let mut answers = Answers { out, written: Ok(()) };
    let read = read(&mut answers);
    answers.written.map(|()| read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_formats::lines;

    /// Writes up to three bytes.
    struct Short(Vec<u8>);

    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() + bytes.len() > 3 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.0.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Answers each line with its first letter. Returns the number of lines that were read, too.
    fn answer(out: &mut dyn Write, text: &str) -> (usize, io::Result<Result<(), TextError>>) {
        let mut read = 0;
        let result = answer_while_reading(out, |answers| {
            lines("f", text.as_bytes(), |line| {
                read += 1;
                let first = line.chars().next().ok_or("it is empty")?;
                answers.write(|out| write!(out, "{first}"))
            })
        });
        (read, result)
    }

    #[test]
    fn answers_before_an_error_stay_and_reading_ends_if_they_cannot_be_written() {
        let mut out = Vec::new();
        let (read, result) = answer(&mut out, "one\ntwo\n\nthree\n");
        assert_eq!(result.unwrap().unwrap_err().to_string(), "f, line 3: it is empty");
        assert_eq!((read, &out[..]), (3, &b"ot"[..]));
        let mut out = Short(Vec::new());
        let (read, result) = answer(&mut out, "one\ntwo\nthree\nfour\n\nfive");
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!((read, &out.0[..]), (4, &b"ott"[..]));
        let mut out = Vec::new();
        assert!(answer(&mut out, "one\ntwo").1.unwrap().is_ok());
    }

    #[test]
    fn a_file_is_opened_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.txt");
        std::fs::write(&file, "a\n").unwrap();
        let (name, mut text) = input(Some(&file)).unwrap();
        let mut read = String::new();
        text.read_to_string(&mut read).unwrap();
        assert_eq!((name, read.as_str()), (file.display().to_string(), "a\n"));
        let missing = input(Some(&folder.path().join("g"))).err().unwrap().to_string();
        assert!(missing.starts_with("cannot read "), "{missing}");
        assert_eq!(input(Some(Path::new("-"))).unwrap().0, "standard input");
    }
}
