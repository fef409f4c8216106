//! Streams of items: files that are read in pieces, and generated ones.
//!
//! A [`Stream`] is divided into *pieces*: the records of a file (words or lines) that begin in a range of a
//! fixed number of bytes. Where a piece begins depends only on the file and on the size of pieces. So every
//! record is in exactly one piece, a node reads only the pieces that it counts, and only the pieces in work
//! are in memory.
//!
//! This module has no keys and cells; a function of the caller turns text into numbers.

mod error;
mod items;
mod source;
mod zipf;

pub use error::DataError;
pub use items::{COUNT_MAX, Item, Items, RECORD_BYTES_MAX, Text};
pub use zipf::Zipf;

use intendant_core::random::stream;
use items::Format;
use source::Source;
use std::path::Path;
use std::sync::OnceLock;

/// How a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What an item is.
    pub items: Items,
    /// Whether each line ends with a count.
    pub counts: bool,
    /// Approximate number of bytes of a piece. A generated item counts as 8 bytes.
    pub piece_bytes: u64,
}

/// A stream of items.
#[derive(Debug)]
pub struct Stream {
    name: String,
    origin: Origin,
    options: Options,
    pieces: u64,
    failure: OnceLock<DataError>,
}

#[derive(Debug)]
enum Origin {
    File(Source),
    Zipf(Zipf),
}

/// Bytes that a generated item counts as.
const GENERATED_BYTES: u64 = 8;

impl Stream {
    /// Opens a file, plain or compressed as `.zst` or `.gz`. A compressed file is decompressed to a temporary
    /// file first.
    ///
    /// # Errors
    /// If it cannot be read. Its content is not checked.
    pub fn open(path: &Path, options: Options) -> Result<Self, DataError> {
        Ok(Self::of(Origin::File(Source::open(path)?), path.display().to_string(), options))
    }

    /// Text in memory; errors call it `name`.
    #[must_use]
    pub fn memory(name: &str, text: Vec<u8>, options: Options) -> Self {
        Self::of(Origin::File(Source::memory(name, text)), name.to_owned(), options)
    }

    /// A built-in stream of this name.
    ///
    /// # Errors
    /// If there is none, or the options do not match it.
    pub fn builtin(name: &str, options: Options) -> Result<Self, DataError> {
        let zipf = Zipf::named(name).ok_or_else(|| DataError::Builtin { name: name.to_owned() })?;
        if options.items != Items::Integers || options.counts {
            return Err(DataError::Generated);
        }
        Ok(Self::of(Origin::Zipf(zipf), format!("builtin:{name}"), options))
    }

    fn of(origin: Origin, name: String, options: Options) -> Self {
        let bytes = match &origin {
            Origin::File(source) => source.len(),
            Origin::Zipf(zipf) => zipf.items() * GENERATED_BYTES,
        };
        let pieces = bytes.div_ceil(options.piece_bytes);
        Self { name, origin, options, pieces, failure: OnceLock::new() }
    }

    /// Its name in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What an item is.
    #[must_use]
    pub fn items(&self) -> Items {
        self.options.items
    }

    /// Approximate number of bytes of a piece.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        self.options.piece_bytes
    }

    /// Number of pieces.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// The generator, if the stream is generated.
    #[must_use]
    pub fn generator(&self) -> Option<&Zipf> {
        match &self.origin {
            Origin::File(_) => None,
            Origin::Zipf(zipf) => Some(zipf),
        }
    }

    /// The largest number of items that the stream can have; `None` if items come with counts.
    #[must_use]
    pub fn items_max(&self) -> Option<u64> {
        match &self.origin {
            Origin::Zipf(zipf) => Some(zipf.items()),
            // Each item has a byte and a separator after it, which the last item need not have.
            Origin::File(source) => (!self.options.counts).then(|| source.len().div_ceil(2)),
        }
    }

    /// The approximate number of items: as if all pieces had as many as the first one. Counts are ignored.
    pub fn items_estimate(&self) -> u64 {
        match &self.origin {
            Origin::Zipf(zipf) => zipf.items(),
            Origin::File(_) => {
                let mut items = 0;
                let text = |_: &[u8]| 0;
                // Errors are reported when the stream is counted.
                let _ = self.read(0, text, |_| items += 1);
                // The first piece takes this time, if there is one.
                items * self.pieces
            }
        }
    }

    /// A hash of how the stream is read, and of samples of its bytes: equal on nodes that read the same
    /// stream.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn digest(&self) -> Result<u64, DataError> {
        let Options { items, counts, piece_bytes } = self.options;
        let content = match &self.origin {
            Origin::File(source) => source.digest()?,
            Origin::Zipf(zipf) => zipf.digest(),
        };
        let items = match items {
            Items::Words { ngrams } => ngrams.into(),
            Items::Lines => 1 << 32,
            Items::Integers => 2 << 32,
        };
        Ok(stream(content, &[items, counts.into(), piece_bytes]))
    }

    /// Calls `take` with the items of a piece, in order. `number` turns text into numbers.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is malformed. Earlier items were passed to `take`.
    ///
    /// # Panics
    /// If there is no such piece, unless there are none at all.
    pub fn read(
        &self,
        piece: u64,
        number: impl Fn(&[u8]) -> u64,
        mut take: impl FnMut(Item<'_>),
    ) -> Result<(), DataError> {
        assert!(piece < self.pieces.max(1), "piece {piece} of {}", self.pieces);
        match &self.origin {
            Origin::Zipf(zipf) => {
                let items = (self.options.piece_bytes / GENERATED_BYTES).max(1);
                let end = if piece + 1 >= self.pieces { zipf.items() } else { (piece + 1) * items };
                for at in (piece * items).min(end)..end {
                    let x = zipf.item(at);
                    take(Item { x, count: 1, text: Text::Number(x) });
                }
                Ok(())
            }
            Origin::File(source) => {
                let Options { items, counts, .. } = self.options;
                let format = Format { items, counts };
                let (start, end) = (self.start(source, piece)?, self.start(source, piece + 1)?);
                let mut text = Vec::new();
                source.read(start, end - start, &mut text)?;
                let mut from = 0;
                if start == 0 && text.starts_with(b"\xef\xbb\xbf") {
                    // A byte order mark.
                    from = 3;
                }
                format.parse(&text[from..], number, take).map_err(|wrong| {
                    let at = start + (from + wrong.at) as u64;
                    match source.line_of(at) {
                        Ok(line) => DataError::Line { file: self.name.clone(), line, problem: wrong.problem },
                        Err(error) => error,
                    }
                })
            }
        }
    }

    /// Where a piece begins: at the first record that begins in its range.
    fn start(&self, source: &Source, piece: u64) -> Result<u64, DataError> {
        let nominal = piece.saturating_mul(self.options.piece_bytes);
        if nominal == 0 || nominal >= source.len() {
            return Ok(nominal.min(source.len()));
        }
        // A record may begin exactly at the start; the byte before it tells.
        let from = nominal - 1;
        let (words, what) = match self.options.items {
            Items::Words { ngrams: 1 } if !self.options.counts => (true, "word"),
            Items::Words { .. } | Items::Lines | Items::Integers => (false, "line"),
        };
        let ends = |byte: u8| if words { items::is_space(byte) } else { byte == b'\n' };
        match source.find(from, RECORD_BYTES_MAX, ends)? {
            source::Found::At(at) => Ok(at + 1),
            source::Found::End => Ok(source.len()),
            source::Found::Nowhere => Err(DataError::Long { file: self.name.clone(), what, at: from }),
        }
    }

    /// The same for a caller that cannot return an error: the first error is stored ([`Stream::failure`]).
    /// Returns whether there was none.
    pub fn read_or_fail(
        &self,
        piece: u64,
        number: impl Fn(&[u8]) -> u64,
        take: impl FnMut(Item<'_>),
    ) -> bool {
        self.read(piece, number, take).map_err(|error| self.fail(error)).is_ok()
    }

    /// Stores an error, unless there is one already.
    pub fn fail(&self, error: DataError) {
        // Only the first error is reported.
        let _ = self.failure.set(error);
    }

    /// Why the stream could not be read. Results computed since then are invalid.
    #[must_use]
    pub fn failure(&self) -> Option<&DataError> {
        self.failure.get()
    }
}

#[cfg(test)]
mod tests;
