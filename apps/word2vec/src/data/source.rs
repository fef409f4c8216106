//! The bytes of a text: a file that is read by position, or memory.

use super::error::DataError;
use intendant_formats::{Compression, TextError, open};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes of a text.
#[derive(Debug)]
pub(super) struct Source {
    /// The name of the text in errors.
    name: String,
    bytes: Bytes,
    len: u64,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// A text file. If its name ends in `.zst` or `.gz`, it is decompressed to a temporary file, which has no
    /// name and therefore vanishes with the process.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let name = path.display().to_string();
        let refused = |source| DataError::Read { file: name.clone(), source };
        let file = if Compression::by_name(path).is_some() {
            let mut text = open(path).map_err(DataError::Text)?;
            let mut file =
                tempfile::tempfile().map_err(|source| DataError::Temporary { file: name.clone(), source })?;
            copy(&mut text, &mut file, &name)?;
            file
        } else {
            File::open(path).map_err(refused)?
        };
        let metadata = file.metadata().map_err(refused)?;
        if !metadata.is_file() {
            return Err(refused(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")));
        }
        let mut start = [0; Compression::MAGIC_BYTES_MAX];
        let read = file.read_at(&mut start, 0).map_err(refused)?;
        if let Some(compression) = Compression::of(&start[..read]) {
            return Err(DataError::Text(TextError::Compressed { file: name, compression }));
        }
        Ok(Self { name, bytes: Bytes::File(file), len: metadata.len() })
    }

    /// A text in memory.
    pub(super) fn memory(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), len: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    /// The name of the text in errors.
    pub(super) fn name(&self) -> &str {
        &self.name
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
                        DataError::Changed { file: self.name.clone(), at: start }
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

    pub(super) fn too_many_words(&self) -> DataError {
        DataError::TooManyWords { file: self.name.clone() }
    }

    pub(super) fn long_word(&self, at: u64) -> DataError {
        DataError::LongWord { file: self.name.clone(), at }
    }
}

/// Copies a compressed text. Errors of the two sides are distinguished: one is about the file, the other
/// about the disk.
fn copy(from: &mut impl io::Read, to: &mut File, name: &str) -> Result<(), DataError> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(DataError::Read { file: name.to_owned(), source }),
        };
        io::Write::write_all(to, &buffer[..read])
            .map_err(|source| DataError::Temporary { file: name.to_owned(), source })?;
    }
}
