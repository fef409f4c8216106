//! The files of a model: NumPy matrices whose rows come in any order, and text.
//!
//! Files are not renamed when they are complete. The caller writes into a folder of its own, and renames that
//! folder when the whole model is there.

use intendant_core::{Element, ElementType, Key, KeyRange, copy_to_bytes};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
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
    /// Rows of a matrix are missing.
    #[error("the stream of values ended after {rows} of {expected} rows of {}", file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// Rows that were written.
        rows: u64,
        /// Rows of the matrix.
        expected: u64,
    },
    /// A key is in none of the model's ranges.
    #[error("key {0} is in none of the model's ranges")]
    NoSuchKey(Key),
}

/// A matrix that is being written to a `.npy` file. Each row is written at its place as it comes, so that
/// memory does not grow with the matrix.
#[derive(Debug)]
pub struct Matrix {
    path: PathBuf,
    /// Gathers neighbouring rows.
    file: BufWriter<File>,
    /// Where the rows begin.
    header_bytes: u64,
    /// Where the next byte would go.
    at: u64,
    columns: usize,
    rows: u64,
    written: u64,
    bytes: Vec<u8>,
}

impl Matrix {
    /// Creates `folder/name.npy`: `rows` rows of `columns` numbers.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    pub fn create<E: Element>(
        folder: &Path,
        name: &str,
        rows: u64,
        columns: usize,
    ) -> Result<Self, WriteError> {
        let path = folder.join(format!("{name}.npy"));
        let header = npy_header(E::TYPE, rows, columns);
        let file = File::create(&path).map_err(|source| WriteError::Write { file: path.clone(), source })?;
        let mut matrix = Self {
            path,
            file: BufWriter::new(file),
            header_bytes: header.len() as u64,
            at: header.len() as u64,
            columns,
            rows,
            written: 0,
            bytes: Vec::new(),
        };
        let written = matrix.file.write_all(&header);
        matrix.checked(written)?;
        Ok(matrix)
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T, WriteError> {
        result.map_err(|source| WriteError::Write { file: self.path.clone(), source })
    }

    /// Writes row `index`. Each row is written once.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    ///
    /// # Panics
    /// If there is no such row, or its length is not the number of columns.
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

    /// Completes the file and returns its path.
    ///
    /// # Errors
    /// If rows are missing, or [`WriteError::Write`].
    pub fn finish(mut self) -> Result<PathBuf, WriteError> {
        if self.written != self.rows {
            let (file, rows, expected) = (self.path.clone(), self.written, self.rows);
            return Err(WriteError::Incomplete { file, rows, expected });
        }
        let flushed = self.file.flush();
        self.checked(flushed)?;
        Ok(self.path)
    }
}

/// The matrices of a model: each key range fills the rows of one matrix or several, in the order of its keys.
#[derive(Debug, Default)]
pub struct Matrices(Vec<RangeMatrices>);

#[derive(Debug)]
struct RangeMatrices {
    range: KeyRange,
    /// The matrices with the elements of a value that each of them holds.
    parts: Vec<(Range<usize>, Matrix)>,
}

impl Matrices {
    /// Creates the matrices of a range in `folder`. `parts` names each of them and the elements of a value
    /// that it holds.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    pub fn add<E: Element>(
        &mut self,
        folder: &Path,
        range: &KeyRange,
        parts: &[(&str, Range<usize>)],
    ) -> Result<(), WriteError> {
        let rows = range.keys.end - range.keys.start;
        let create = |(name, elements): &(&str, Range<usize>)| {
            let matrix = Matrix::create::<E>(folder, name, rows, elements.len())?;
            Ok((elements.clone(), matrix))
        };
        let parts = parts.iter().map(create).collect::<Result<_, WriteError>>()?;
        self.0.push(RangeMatrices { range: range.clone(), parts });
        Ok(())
    }

    /// Writes the rows of some keys; `values` are their values, concatenated.
    ///
    /// # Errors
    /// [`WriteError::NoSuchKey`] and [`WriteError::Write`].
    ///
    /// # Panics
    /// If there are fewer `values` than the keys have.
    pub fn write<E: Element>(&mut self, keys: &[Key], values: &[E]) -> Result<(), WriteError> {
        let mut rest = values;
        for key in keys {
            let found = self.0.iter_mut().find(|of_range| of_range.range.keys.contains(&key.0));
            let RangeMatrices { range, parts } = found.ok_or(WriteError::NoSuchKey(*key))?;
            let (value, after) = rest.split_at(range.len);
            rest = after;
            for (elements, matrix) in parts {
                matrix.row(key.0 - range.keys.start, &value[elements.clone()])?;
            }
        }
        Ok(())
    }

    /// Completes all files and returns their paths, in the order in which they were added.
    ///
    /// # Errors
    /// If rows are missing, or [`WriteError::Write`].
    pub fn finish(&mut self) -> Result<Vec<PathBuf>, WriteError> {
        let matrices = self.0.drain(..).flat_map(|of_range| of_range.parts);
        matrices.map(|(_, matrix)| matrix.finish()).collect()
    }
}

/// The rows of a `.npy` file that [`Matrix`] wrote: `rows` rows of `columns` numbers, in bytes.
///
/// # Errors
/// If the file cannot be read, or is too short.
pub fn npy_rows<E: Element>(path: &Path, rows: usize, columns: usize) -> io::Result<BufReader<File>> {
    let mut file = BufReader::new(File::open(path)?);
    // The rows are the end of the file.
    file.seek(SeekFrom::End(-((rows * columns * size_of::<E>()) as i64)))?;
    Ok(file)
}

/// Creates a text file.
///
/// # Errors
/// [`WriteError::Write`].
pub fn write_text(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let result = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    result.map_err(|source| WriteError::Write { file: path.to_owned(), source })
}

/// The header of a NumPy file, format 1.0: rows of little-endian numbers, padded so that they begin at a
/// multiple of 64 bytes.
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
    use std::io::Read;

    #[test]
    fn rows_find_their_places_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut matrix = Matrix::create::<f64>(folder.path(), "m", 3, 2).unwrap();
        for index in [1, 2, 0] {
            matrix.row(index, &[index as f64, 0.5]).unwrap();
        }
        let bytes = std::fs::read(matrix.finish().unwrap()).unwrap();
        let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
        assert_eq!((npy.shape(), npy.order()), (&[3, 2][..], npyz::Order::C));
        assert_eq!(npy.into_vec::<f64>().unwrap(), [0.0, 0.5, 1.0, 0.5, 2.0, 0.5]);
        assert_eq!((bytes.len() - 6 * 8) % 64, 0, "aligned");
    }

    #[test]
    fn values_are_divided_among_the_matrices_of_their_range() {
        let folder = tempfile::tempdir().unwrap();
        let range = |name: &str, keys, len| KeyRange::new(name, keys, len);
        let mut matrices = Matrices::default();
        matrices.add::<f32>(folder.path(), &range("a", 0..2, 3), &[("a", 0..1), ("a_rest", 1..3)]).unwrap();
        matrices.add::<f32>(folder.path(), &range("b", 2..3, 2), &[("b", 0..1)]).unwrap();
        matrices.write(&[Key(2), Key(1)], &[7.0f32, 8.0, 1.0, 2.0, 3.0]).unwrap();
        let unknown = matrices.write(&[Key(3)], &[0.0f32]).unwrap_err().to_string();
        assert_eq!(unknown, "key 3 is in none of the model's ranges");
        matrices.write(&[Key(0)], &[4.0f32, 5.0, 6.0]).unwrap();
        let files = matrices.finish().unwrap();
        let numbers = |path: &PathBuf| {
            npyz::NpyFile::new(&std::fs::read(path).unwrap()[..]).unwrap().into_vec::<f32>().unwrap()
        };
        let expected = [&[4.0, 1.0][..], &[5.0, 6.0, 2.0, 3.0], &[7.0]];
        assert_eq!(files.iter().map(numbers).collect::<Vec<_>>(), expected);
        let mut rows = Vec::new();
        npy_rows::<f32>(&files[1], 2, 2).unwrap().read_to_end(&mut rows).unwrap();
        assert_eq!(rows.len(), 16);
    }

    #[test]
    fn a_matrix_without_all_of_its_rows_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut matrix = Matrix::create::<f32>(folder.path(), "m", 3, 1).unwrap();
        matrix.row(2, &[1.0f32]).unwrap();
        let error = matrix.finish().unwrap_err().to_string();
        assert!(error.starts_with("the stream of values ended after 1 of 3 rows of "), "{error}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Matrix::create::<f32>(Path::new("no/such"), "m", 1, 1).unwrap_err().to_string();
        assert!(error.starts_with("cannot write no/such/m.npy: "), "{error}");
        let error = write_text(Path::new("no/such.txt"), |_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("cannot write no/such.txt: "), "{error}");
    }
}
