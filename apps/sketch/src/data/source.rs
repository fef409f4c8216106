//! The bytes of a stream: a file that is read by position, or memory.

use super::error::DataError;
use intendant_formats::{Compression, TextError, open};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The bytes of a stream.
#[derive(Debug)]
pub(super) struct Source {
    /// The name of the stream in errors.
    name: String,
    bytes: Bytes,
    len: u64,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The byte is at this position.
    At(u64),
    /// The end of the source.
    End,
    /// The byte is not within the limit.
    Nowhere,
}

/// Number of bytes that are searched at once: most records are far shorter.
const SEARCH_BYTES: u64 = 4 << 10;

/// Number of bytes that are copied, or searched for line ends, at once.
const COPY_BYTES: u64 = 1 << 18;

/// Number of bytes at both ends of a file that its digest covers.
const DIGEST_BYTES: u64 = 64 << 10;

impl Source {
    /// A file. If its name ends in `.zst` or `.gz`, it is decompressed to a temporary file, which has no
    /// name and therefore vanishes with the process.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let name = path.display().to_string();
        let refused = |source| DataError::Read { file: name.clone(), source };
        let file = if Compression::by_name(path).is_some() {
            let temporary = |source| DataError::Temporary { file: name.clone(), source };
            let mut text = open(path).map_err(DataError::Text)?;
            let mut file = tempfile::tempfile().map_err(temporary)?;
            let mut buffer = vec![0; COPY_BYTES as usize];
            loop {
                match text.read(&mut buffer) {
                    Ok(0) => break file,
                    Ok(read) => file.write_all(&buffer[..read]).map_err(temporary)?,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(source) => return Err(refused(source)),
                }
            }
        } else {
            File::open(path).map_err(refused)?
        };
        let metadata = file.metadata().map_err(refused)?;
        if !metadata.is_file() {
            return Err(refused(io::Error::new(
                ErrorKind::InvalidInput,
                "it is no regular file, whose parts several workers can read",
            )));
        }
        let mut start = [0; Compression::MAGIC_BYTES_MAX];
        let read = file.read_at(&mut start, 0).map_err(refused)?;
        if let Some(compression) = Compression::of(&start[..read]) {
            return Err(DataError::Text(TextError::Compressed { file: name, compression }));
        }
        Ok(Self { name, bytes: Bytes::File(file), len: metadata.len() })
    }

    /// Text in memory.
    pub(super) fn memory(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), len: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    /// Bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Replaces `into` by `len` bytes from `start`.
    pub(super) fn read(&self, start: u64, len: u64, into: &mut Vec<u8>) -> Result<(), DataError> {
        into.clear();
        match &self.bytes {
            Bytes::File(file) => {
                into.resize(len as usize, 0);
                file.read_exact_at(into, start).map_err(|source| {
                    if source.kind() == ErrorKind::UnexpectedEof {
                        DataError::Changed { file: self.name.clone(), at: start + len }
                    } else {
                        DataError::Read { file: self.name.clone(), source }
                    }
                })
            }
            Bytes::Memory(bytes) => {
                into.extend_from_slice(&bytes[start as usize..(start + len) as usize]);
                Ok(())
            }
        }
    }

    /// The first byte for which `is_it` holds among the `limit` bytes from `start` on.
    pub(super) fn find(
        &self,
        start: u64,
        limit: u64,
        is_it: impl Fn(u8) -> bool,
    ) -> Result<Found, DataError> {
        let end = start.saturating_add(limit).min(self.len);
        let (mut at, mut bytes) = (start, Vec::new());
        while at < end {
            self.read(at, SEARCH_BYTES.min(end - at), &mut bytes)?;
            if let Some(found) = bytes.iter().position(|byte| is_it(*byte)) {
                return Ok(Found::At(at + found as u64));
            }
            at += bytes.len() as u64;
        }
        Ok(if end == self.len { Found::End } else { Found::Nowhere })
    }

    /// The number, from 1, of the line that contains a byte. Reads all bytes before it.
    pub(super) fn line_of(&self, at: u64) -> Result<u64, DataError> {
        let (mut line, mut from, mut bytes) = (1, 0, Vec::new());
        while from < at {
            self.read(from, COPY_BYTES.min(at - from), &mut bytes)?;
            line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            from += bytes.len() as u64;
        }
        Ok(line)
    }

    /// A hash of the length and of both ends.
    pub(super) fn digest(&self) -> Result<u64, DataError> {
        let sample = DIGEST_BYTES.min(self.len);
        let mut bytes = Vec::new();
        self.read(0, sample, &mut bytes)?;
        let start = xxh3_64_with_seed(&bytes, self.len);
        self.read(self.len - sample, sample, &mut bytes)?;
        Ok(xxh3_64_with_seed(&bytes, start))
    }
}
