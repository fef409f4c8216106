//! The bytes of a Parquet file, read with bounds.

use super::footer::{self, Fault, STATISTICS};
use super::thrift::{Checked, Malformed, Shape, Walk};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The most bytes of a footer. The footer of our files has some 2 kB per million events, and the description
/// of the run.
const FOOTER_BYTES_MAX: u64 = 16 << 20;

/// The most bytes, and the most values, of a page. Our pages have 1 MiB before compression.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The same for a dictionary. Our dictionaries have at most 1 MiB. Each of their values takes 32 bytes of
/// memory.
const DICTIONARY_BYTES_MAX: u64 = 2 << 20;

/// Bytes at the end of a file: the length of the footer, and the magic number.
const TAIL: u64 = 8;

/// The most bytes of the header of a page. Ours have some 30 bytes; with statistics, twice the longest text
/// is added.
const PAGE_HEADER_MAX: usize = 1 << 10;

/// A file whose pages are checked before they are decompressed.
#[derive(Debug)]
pub(super) struct Pages {
    plain: Plain,
}

impl Pages {
    pub(super) fn of(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { plain: Plain { file: Arc::new(file), len } })
    }

    /// The file without checks of pages.
    pub(super) fn plain(&self) -> Plain {
        self.plain.clone()
    }

    pub(super) fn file(&self) -> &File {
        &self.plain.file
    }

    /// Checks the end of the file, see [`footer::check`].
    pub(super) fn check_footer(&self, columns: u64) -> std::result::Result<(), Fault> {
        let len = self.plain.len;
        let mut tail = [0; TAIL as usize];
        let read = len.checked_sub(TAIL).map(|at| self.plain.file.read_exact_at(&mut tail, at));
        let is_whole = read.is_some_and(|read| read.is_ok()) && tail[4..] == *b"PAR1";
        if !is_whole {
            return Err(Fault::NoEnd);
        }
        let bytes = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        if bytes > FOOTER_BYTES_MAX || bytes + TAIL > len {
            return Err(Fault::Bytes(bytes));
        }
        let mut footer = vec![0; bytes as usize];
        let read = self.plain.file.read_exact_at(&mut footer, len - TAIL - bytes);
        read.map_err(|_| Fault::NoEnd)?;
        footer::check(&footer, columns)
    }

    /// Checks the header of a page before the library decodes the page, see [`PageHeader`].
    fn check_page(&self, start: u64) -> Result<()> {
        let mut bytes = [0; PAGE_HEADER_MAX];
        let there = self.plain.len.saturating_sub(start).min(PAGE_HEADER_MAX as u64) as usize;
        self.plain.file.read_exact_at(&mut bytes[..there], start)?;
        let page = PageHeader::of(&bytes[..there])
            .map_err(|reason| ParquetError::General(format!("the header of a page {reason}")))?;
        let bytes_max = if page.is_dictionary { DICTIONARY_BYTES_MAX } else { PAGE_BYTES_MAX };
        if page.bytes.max(page.compressed).max(page.values) > bytes_max {
            return Err(ParquetError::General(format!(
                "a page would have {} bytes, {} compressed, and {} values; allowed are {bytes_max}",
                page.bytes, page.compressed, page.values
            )));
        }
        Ok(())
    }
}

/// The header of a page. Headers other than those that this crate writes are refused: the library decodes
/// more kinds of pages, and some of its decoders panic if a page is damaged.
#[derive(Debug, Default, PartialEq, Eq)]
struct PageHeader {
    is_dictionary: bool,
    bytes: u64,
    compressed: u64,
    values: u64,
}

impl PageHeader {
    /// Types of pages: pages of data (version 1), and dictionaries.
    const DATA: u64 = 0;
    const DICTIONARY: u64 = 2;
    /// Encodings: plain, dictionary (both names), and differences.
    const ENCODINGS: [u64; 4] = [0, 2, 5, 8];
    /// Fields of a header.
    const TYPE: i16 = 1;
    const BYTES: i16 = 2;
    const COMPRESSED: i16 = 3;
    const CHECKSUM: i16 = 4;
    const OF_DATA: i16 = 5;
    const OF_DICTIONARY: i16 = 7;
    const FIELDS: Shape = Shape::Struct(&[(Self::CHECKSUM, Shape::I32)]);
    /// Fields of both structures within a header.
    const VALUES: i16 = 1;
    const ENCODING: i16 = 2;
    const FIELDS_OF_DATA: Shape = Shape::Struct(&[(3, Shape::I32), (4, Shape::I32), (5, STATISTICS)]);
    const FIELDS_OF_DICTIONARY: Shape = Shape::Struct(&[(3, Shape::Bool)]);

    fn of(bytes: &[u8]) -> Checked<Self> {
        let (mut walk, mut number) = (Walk::new(bytes), 0);
        let (mut page, mut kind, mut found) = (Self::default(), None, None);
        while let Some(field) = walk.field(&mut number)? {
            match field.number {
                Self::TYPE => kind = Some(walk.count(field)?),
                Self::BYTES => page.bytes = walk.count(field)?,
                Self::COMPRESSED => page.compressed = walk.count(field)?,
                Self::CHECKSUM => walk.value(&Self::FIELDS, field, 1)?,
                Self::OF_DATA | Self::OF_DICTIONARY if found.is_none() => {
                    walk.structure(field)?;
                    page.is_dictionary = field.number == Self::OF_DICTIONARY;
                    found = Some(if page.is_dictionary { Self::DICTIONARY } else { Self::DATA });
                    page.values = Self::within(&mut walk, page.is_dictionary)?;
                }
                _ => return Err(Malformed("has a field that those of merged traces do not have")),
            }
        }
        if kind.is_none() || kind != found {
            return Err(Malformed("is not of a page of data or a dictionary"));
        }
        Ok(page)
    }

    /// Checks the structure about the content of a page. Returns the number of values.
    fn within(walk: &mut Walk<'_>, is_dictionary: bool) -> Checked<u64> {
        let fields = if is_dictionary { &Self::FIELDS_OF_DICTIONARY } else { &Self::FIELDS_OF_DATA };
        let (mut values, mut encoding, mut number) = (0, None, 0);
        while let Some(field) = walk.field(&mut number)? {
            match field.number {
                Self::VALUES => values = walk.count(field)?,
                Self::ENCODING => encoding = Some(walk.count(field)?),
                _ => walk.value(fields, field, 2)?,
            }
        }
        if encoding.is_some_and(|encoding| Self::ENCODINGS.contains(&encoding)) {
            Ok(values)
        } else {
            Err(Malformed("names an encoding that merged traces do not have"))
        }
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.plain.len
    }
}

impl ChunkReader for Pages {
    type T = At;

    /// Only headers of pages are read this way.
    fn get_read(&self, start: u64) -> Result<At> {
        self.check_page(start)?;
        self.plain.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.plain.get_bytes(start, length)
    }
}

/// The bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    file: Arc<File>,
    len: u64,
}

impl Length for Plain {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Plain {
    type T = At;

    fn get_read(&self, start: u64) -> Result<At> {
        Ok(At { file: Arc::clone(&self.file), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!("bytes {start} to {start}+{length} are beyond its end")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// A position in a file.
#[derive(Debug)]
pub(super) struct At {
    file: Arc<File>,
    at: u64,
}

impl Read for At {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of data: 5 values, plain, 100 bytes, 40 compressed.
    const DATA: [u8; 18] =
        [0x15, 0, 0x15, 0xc8, 1, 0x15, 80, 0x2c, 0x15, 10, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];

    fn with(at: usize, replaced: usize, bytes: &[u8]) -> Checked<PageHeader> {
        let mut header = DATA.to_vec();
        header.splice(at..at + replaced, bytes.iter().copied());
        PageHeader::of(&header)
    }

    #[test]
    fn headers_of_pages_are_read_as_the_library_reads_them() {
        let page = PageHeader { is_dictionary: false, bytes: 100, compressed: 40, values: 5 };
        assert_eq!(PageHeader::of(&DATA), Ok(page));
        // The size, or the number of values, a second time. The library would use the second one.
        let order = Err(Malformed("has a field twice, or its fields in another order"));
        assert_eq!(with(17, 0, &[0x05, 4, 0xfe, 0xff, 0xff, 0xff, 0x0f]), order);
        assert_eq!(with(16, 0, &[0x05, 2, 0xfe, 0xff, 0xff, 0xff, 0x0f]), order);
        // Both structures, no structure, and the structure of the other type of page.
        assert!(with(17, 0, &[0x2c, 0x15, 2, 0x15, 0, 0]).is_err());
        assert!(with(7, 10, &[]).is_err());
        assert!(with(1, 1, &[4]).is_err());
        // A negative size, a size of 64 bits, other encodings.
        assert!(with(3, 2, &[1]).is_err());
        assert!(with(3, 2, &[0x80, 0x80, 0x80, 0x80, 0x20]).is_err());
        assert!(with(11, 1, &[14]).is_err());
        assert!((0..DATA.len()).all(|end| PageHeader::of(&DATA[..end]).is_err()));
    }
}
