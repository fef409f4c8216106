//! Text files, line by line.

use crate::ZstdReader;
use flate2::bufread::MultiGzDecoder;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The longest line that is accepted, so that a file that is not text is refused before it fills the memory.
pub const LINE_BYTES_MAX: usize = 1 << 16;

/// Why a text file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// It cannot be opened, read or decompressed.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A line is not in the format.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// The file is compressed in a format that is not read here.
    #[error("{file} is compressed by {compression}; {}", compression.advice(file))]
    Compressed {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
    },
}

/// How a file is compressed, according to its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `gzip`.
    Gzip,
    /// `xz`.
    Xz,
    /// `bzip2`.
    Bzip2,
    /// `zstd`.
    Zstd,
}

impl Compression {
    /// The number of bytes that [`Compression::of`] needs at most.
    pub const MAGIC_BYTES_MAX: usize = 10;

    /// The compression of a file that starts with these bytes, if it has one. No text starts like a
    /// compressed file.
    #[must_use]
    pub fn of(start: &[u8]) -> Option<Self> {
        let is = |magic: &[u8]| start.starts_with(magic);
        // The byte between the two parts of bzip2's magic is its level.
        let bzip2 = is(b"BZh") && start.get(4..).is_some_and(|rest| rest.starts_with(b"1AY&SY"));
        [
            (is(b"\x1f\x8b\x08"), Self::Gzip),
            (is(b"\xfd7zXZ\0"), Self::Xz),
            (bzip2, Self::Bzip2),
            (is(b"\x28\xb5\x2f\xfd"), Self::Zstd),
        ]
        .into_iter()
        .find_map(|(is_it, compression)| is_it.then_some(compression))
    }

    /// The compression that a name promises and that is read here: `.zst` or `.gz`.
    #[must_use]
    pub fn by_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        [("zst", Self::Zstd), ("gz", Self::Gzip)]
            .into_iter()
            .find_map(|(of, it)| (of == extension).then_some(it))
    }

    /// A file's name without what says that it is compressed.
    #[must_use]
    pub fn without_ending(path: &Path) -> &Path {
        match Self::by_name(path) {
            Some(_) => path.file_stem().map_or(path, Path::new),
            None => path,
        }
    }

    /// The program that decompresses such files.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
        }
    }

    /// How to use a file that is compressed like this, although its name does not say so.
    fn advice(self, file: &str) -> String {
        match self {
            Self::Zstd => "rename it so that its name ends in .zst".to_owned(),
            Self::Gzip => "rename it so that its name ends in .gz".to_owned(),
            Self::Xz | Self::Bzip2 => {
                let program = self.program();
                format!(
                    "decompress it, or compress it by zstd instead: {program} --decompress --stdout {file} | zstd > NAME.zst"
                )
            }
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// Opens a text file; one whose name ends in `.zst` or `.gz` is decompressed.
///
/// # Errors
/// [`TextError::Read`]; [`TextError::Compressed`] if the file is compressed and has another name.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, TextError> {
    let name = || path.display().to_string();
    let refused = |source| TextError::Read { file: name(), source };
    let mut file = BufReader::new(File::open(path).map_err(refused)?);
    match Compression::by_name(path) {
        Some(Compression::Zstd) => return Ok(Box::new(BufReader::new(ZstdReader::new(file)))),
        // A file may consist of several compressed ones, as zstd's.
        Some(Compression::Gzip) => return Ok(Box::new(BufReader::new(MultiGzDecoder::new(file)))),
        Some(Compression::Xz | Compression::Bzip2) | None => {}
    }
    match Compression::of(file.fill_buf().map_err(refused)?) {
        Some(compression) => Err(TextError::Compressed { file: name(), compression }),
        None => Ok(Box::new(file)),
    }
}

/// Calls `take` with every line, without its line ending (and the first without a byte order mark). Errors
/// call the file `file`.
///
/// # Errors
/// [`TextError::Read`]; [`TextError::Line`] if a line is longer than [`LINE_BYTES_MAX`], is not UTF-8, or has
/// a problem that `take` returns.
pub fn lines(
    file: &str,
    reader: impl BufRead,
    take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), TextError> {
    lines_up_to(LINE_BYTES_MAX, file, reader, take)
}

/// Like [`lines`], for formats with another maximum length of lines: `bytes_max` bytes, line endings
/// included.
///
/// # Errors
/// As [`lines`].
pub fn lines_up_to(
    bytes_max: usize,
    file: &str,
    mut reader: impl BufRead,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), TextError> {
    let (mut bytes, mut line) = (Vec::new(), 0);
    loop {
        bytes.clear();
        let limit = bytes_max as u64 + 1;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut bytes);
        let read = read.map_err(|source| TextError::Read { file: file.to_owned(), source })?;
        if read == 0 {
            return Ok(());
        }
        line += 1;
        let wrong = |problem: String| TextError::Line { file: file.to_owned(), line, problem };
        if read > bytes_max {
            return Err(wrong(format!("the line is longer than {bytes_max} bytes")));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("the line is not UTF-8 text".to_owned()))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let text = if line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        take(text).map_err(wrong)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Result<Vec<String>, TextError> {
        let mut all = Vec::new();
        lines("f", bytes, |line| {
            all.push(line.to_owned());
            if line == "bad" { Err("it is bad".to_owned()) } else { Ok(()) }
        })?;
        Ok(all)
    }

    #[test]
    fn line_ends_and_byte_order_marks_are_no_part_of_lines() {
        assert_eq!(read("\u{feff}a\r\n\nb\n\u{feff}c".as_bytes()).unwrap(), ["a", "", "b", "\u{feff}c"]);
        assert_eq!(read(b"").unwrap(), [""; 0]);
    }

    #[test]
    fn lines_that_are_wrong_are_named() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(error(b"a\nbad\nb"), "f, line 2: it is bad");
        assert_eq!(error(b"a\n\xff\n"), "f, line 2: the line is not UTF-8 text");
        assert!(error(&[b'x'; LINE_BYTES_MAX + 1]).starts_with("f, line 1: the line is longer than"));
        assert!(read(&[b'x'; LINE_BYTES_MAX]).is_ok());
        let up_to = |bytes_max, text: &str| lines_up_to(bytes_max, "f", text.as_bytes(), |_| Ok(()));
        assert_eq!(
            up_to(4, "abc\nabcd\n").unwrap_err().to_string(),
            "f, line 2: the line is longer than 4 bytes"
        );
        assert!(up_to(2 * LINE_BYTES_MAX, &"x".repeat(LINE_BYTES_MAX + 1)).is_ok());
    }

    #[test]
    fn a_compressed_file_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let error = |start: &[u8]| {
            std::fs::write(&path, start).unwrap();
            open(&path).err().map(|error| error.to_string())
        };
        for (start, program) in [(&b"\xfd7zXZ\0"[..], "xz"), (b"BZh91AY&SY", "bzip2")] {
            let said = error(start).unwrap();
            assert!(said.contains(&format!("t.csv is compressed by {program}; decompress it")), "{said}");
            assert!(said.contains(&format!("{program} --decompress --stdout ")), "{said}");
        }
        for (start, program, ending) in
            [(&b"\x28\xb5\x2f\xfd\0"[..], "zstd", ".zst"), (b"\x1f\x8b\x08\0", "gzip", ".gz")]
        {
            let said = error(start).unwrap();
            let expected = format!("is compressed by {program}; rename it so that its name ends in {ending}");
            assert!(said.ends_with(&expected), "{said}");
        }
        assert_eq!(error(b"BZh,1\n"), None);
        assert_eq!(error(b""), None);
    }

    #[test]
    fn gzip_is_read_and_damage_is_an_error() {
        let compressed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv.gz");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let mut text = String::new();
            open(&path).unwrap().read_to_string(&mut text).map(|_| text)
        };
        let parts = [compressed("a\nb\n"), compressed("c\n")].concat();
        assert_eq!(read(&parts).unwrap(), "a\nb\nc\n");
        for cut in 1..parts.len() {
            // Between the two files, what is left is whole.
            let is_whole = cut == compressed("a\nb\n").len();
            assert_eq!(read(&parts[..cut]).is_ok(), is_whole, "{cut} bytes");
        }
        let mut damaged = parts.clone();
        let sum = damaged.len() - 8;
        damaged[sum] ^= 1;
        assert!(read(&damaged).is_err(), "the checksum is wrong");
        assert!(read(b"a,b\n").is_err(), "it is not compressed");
        assert_eq!(Compression::without_ending(&path), Path::new("t.csv"));
        assert_eq!(Compression::without_ending(Path::new("d/t.csv")), Path::new("d/t.csv"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = open(Path::new("no/such.txt")).err().unwrap().to_string();
        assert!(error.starts_with("cannot read no/such.txt: "), "{error}");
    }
}
