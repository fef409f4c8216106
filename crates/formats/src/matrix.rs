//! Files that get their names when they are complete: NumPy matrices whose rows come in any order, and text.

use intendant_core::{Element, ElementType, copy_to_bytes};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refuses.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// What is left of an earlier file cannot be removed.
    #[error("cannot remove {}, which is of an earlier model: {source}", file.display())]
    Remove {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Not all rows of a matrix have come.
    #[error("the stream of values ended after {rows} of {expected} rows of {}", file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// Rows that have come.
        rows: u64,
        /// Rows of the matrix.
        expected: u64,
    },
}

/// A matrix that is being written to a `.npy` file. Rows go to their places as they come, so that memory does not grow with
/// the matrix. What is left of an earlier file is replaced when the new one is complete; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Matrix {
    path: PathBuf,
    partial: PathBuf,
    /// Gathers neighbouring rows.
    file: BufWriter<File>,
    /// Where the rows begin, and where the next byte would go.
    header_bytes: u64,
    at: u64,
    columns: usize,
    rows: u64,
    written: u64,
    bytes: Vec<u8>,
    finished: bool,
}

impl Matrix {
    /// Starts `folder/name.npy`: `rows` rows of `columns` numbers.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    pub fn create<E: Element>(
        folder: &Path,
        name: &str,
        rows: u64,
        columns: usize,
    ) -> Result<Self, WriteError> {
        let (path, partial) =
            (folder.join(format!("{name}.npy")), folder.join(format!("{name}.npy.partial")));
        let header = npy_header(E::TYPE, rows, columns);
        let file =
            File::create(&partial).map_err(|source| WriteError::Write { file: path.clone(), source })?;
        let mut matrix = Self {
            path,
            partial,
            file: BufWriter::new(file),
            header_bytes: header.len() as u64,
            at: header.len() as u64,
            columns,
            rows,
            written: 0,
            bytes: Vec::new(),
            finished: false,
        };
        let written = matrix.file.write_all(&header);
        matrix.checked(written)?;
        Ok(matrix)
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T, WriteError> {
        result.map_err(|source| WriteError::Write { file: self.path.clone(), source })
    }

    /// Writes row `index`. Each row comes once.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    ///
    /// # Panics
    /// If there is no such row, or it has another length than the matrix's.
    pub fn row<E: Element>(&mut self, index: u64, row: &[E]) -> Result<(), WriteError> {
        assert!(index < self.rows, "row {index} of a matrix of {} rows", self.rows);
        assert_eq!(row.len(), self.columns, "numbers in a row");
        self.bytes.clear();
        copy_to_bytes(row, &mut self.bytes);
        let to = self.header_bytes + index * self.bytes.len() as u64;
        if to != self.at {
            let sought = self.file.seek(SeekFrom::Start(to));
            self.checked(sought)?;
        }
        let written = self.file.write_all(&self.bytes);
        self.checked(written)?;
        self.at = to + self.bytes.len() as u64;
        self.written += 1;
        Ok(())
    }

    /// Gives the file its name, which is returned.
    ///
    /// # Errors
    /// If rows are missing, or [`WriteError::Write`].
    pub fn finish(mut self) -> Result<PathBuf, WriteError> {
        if self.written != self.rows {
            let (file, rows, expected) = (self.path.clone(), self.written, self.rows);
            return Err(WriteError::Incomplete { file, rows, expected });
        }
        let done = self.file.flush().and_then(|()| fs::rename(&self.partial, &self.path));
        self.checked(done)?;
        self.finished = true;
        Ok(self.path.clone())
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        if !self.finished {
            // Another error is on its way; this one would hide it.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Writes a text file that gets its name when it is complete.
///
/// # Errors
/// [`WriteError::Write`].
pub fn write_text(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let result = File::create(&partial).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        fs::rename(&partial, path)
    });
    if result.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&partial);
    }
    result.map_err(|source| WriteError::Write { file: path.to_owned(), source })
}

/// Removes a file that an earlier export may have left.
///
/// # Errors
/// [`WriteError::Remove`]; not if there is no such file.
pub fn remove(path: &Path) -> Result<(), WriteError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(WriteError::Remove { file: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The header of a NumPy file, format 1.0: rows of little-endian numbers, padded so that they begin at a multiple of 64 bytes.
fn npy_header(element: ElementType, rows: u64, columns: usize) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let kind = match element {
        ElementType::F32 => "<f4",
        ElementType::F64 => "<f8",
    };
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let before_text = MAGIC.len() + size_of::<u16>();
    let total = (before_text + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(total - before_text - text.len() - 1));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    // Two numbers and a fixed text: far below 65,536 bytes.
    header.extend_from_slice(&(text.len() as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        files
    }

    #[test]
    fn rows_find_their_places_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut matrix = Matrix::create::<f64>(folder.path(), "m", 3, 2).unwrap();
        for index in [1, 2, 0] {
            matrix.row(index, &[index as f64, 0.5]).unwrap();
        }
        assert_eq!(files(folder.path()), ["m.npy.partial"]);
        let path = matrix.finish().unwrap();
        assert_eq!(files(folder.path()), ["m.npy"]);
        let bytes = fs::read(path).unwrap();
        let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
        assert_eq!((npy.shape(), npy.order()), (&[3, 2][..], npyz::Order::C));
        assert_eq!(npy.into_vec::<f64>().unwrap(), [0.0, 0.5, 1.0, 0.5, 2.0, 0.5]);
        assert_eq!((bytes.len() - 6 * 8) % 64, 0, "aligned");
    }

    #[test]
    fn what_is_incomplete_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut matrix = Matrix::create::<f32>(folder.path(), "m", 3, 1).unwrap();
        matrix.row(2, &[1.0f32]).unwrap();
        let error = matrix.finish().unwrap_err().to_string();
        assert!(error.starts_with("the stream of values ended after 1 of 3 rows of "), "{error}");
        assert_eq!(files(folder.path()), [""; 0]);
        let path = folder.path().join("t.txt");
        assert!(write_text(&path, |_| Err(io::Error::other("no"))).is_err());
        assert_eq!(files(folder.path()), [""; 0]);
        write_text(&path, |text| writeln!(text, "all")).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "all\n");
    }

    #[test]
    fn what_is_not_there_need_not_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.npy");
        fs::write(&path, "old").unwrap();
        remove(&path).unwrap();
        assert_eq!(files(folder.path()), [""; 0]);
        remove(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = remove(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot remove {}, ", path.display())), "{error}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Matrix::create::<f32>(Path::new("no/such"), "m", 1, 1).unwrap_err().to_string();
        assert!(error.starts_with("cannot write no/such/m.npy: "), "{error}");
    }
}
