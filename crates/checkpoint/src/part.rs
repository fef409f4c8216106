//! A part: some keys and their values, in memory and as a safetensors file.
//!
//! For each range with keys in the part, the file has two tensors: `RANGE.keys`, 64-bit integers, and
//! `RANGE.values`, a row for each of them. So tools for safetensors can read a checkpoint.

use crate::CheckpointError;
use crate::manifest::{Part, Range};
use intendant_core::{Element, ElementType, Key};
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

#[cfg(target_endian = "big")]
compile_error!("safetensors are little-endian, and values are written as they are in memory");

/// The most rows that a range can have in one part.
pub(crate) const ROWS_MAX: u64 = u32::MAX as u64;

/// The name of the tensor with the keys of a range.
pub(crate) fn keys_name(range: &str) -> String {
    format!("{range}.keys")
}

/// The name of the tensor with their values.
pub(crate) fn values_name(range: &str) -> String {
    format!("{range}.values")
}

pub(crate) const fn dtype(element: ElementType) -> Dtype {
    match element {
        ElementType::F32 => Dtype::F32,
        ElementType::F64 => Dtype::F64,
    }
}

/// Keys and values of one range.
#[derive(Clone, Debug)]
struct RangeRows<E> {
    end: u64,
    len: usize,
    name: String,
    keys: Vec<u64>,
    values: Vec<E>,
}

/// Keys and their values, to be written as a part.
#[derive(Clone, Debug)]
pub struct Rows<E> {
    ranges: Vec<RangeRows<E>>,
}

impl<E: Element> Rows<E> {
    /// No keys yet, of a model with these ranges.
    #[must_use]
    pub fn new(ranges: &[Range]) -> Self {
        let mut end = 0;
        let ranges = ranges.iter().map(|Range { name, keys, len }| {
            end += keys;
            RangeRows { end, len: *len, name: name.clone(), keys: Vec::new(), values: Vec::new() }
        });
        Self { ranges: ranges.collect() }
    }

    /// Allocates memory for one `one_of`-th of all keys, and writes to it, so that the operating system has
    /// provided it before keys are added.
    #[inline(never)]
    pub fn make_room(&mut self, one_of: usize) {
        let mut first = 0;
        for range in &mut self.ranges {
            let keys = usize::try_from((range.end - first).div_ceil(one_of.max(1) as u64)).unwrap_or(0);
            range.keys.resize(keys, 0);
            range.values.resize(keys.saturating_mul(range.len), E::ZERO);
            first = range.end;
        }
        self.clear();
    }

    /// Forgets all keys, and keeps the memory.
    pub fn clear(&mut self) {
        for range in &mut self.ranges {
            range.keys.clear();
            range.values.clear();
        }
    }

    /// Adds keys and their values, concatenated.
    ///
    /// # Panics
    /// If a key is beyond the last range, or `values` is shorter than the keys' values.
    #[inline(never)]
    pub fn add(&mut self, keys: &[Key], values: &[E]) {
        let mut rest = values;
        for key in keys {
            let range = self.ranges.iter_mut().find(|range| key.0 < range.end);
            let range = range.unwrap_or_else(|| panic!("{key:?} is not a key of the model"));
            let (value, after) = rest.split_at(range.len);
            range.keys.push(key.0);
            range.values.extend_from_slice(value);
            rest = after;
        }
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ranges.iter().map(|range| range.keys.len() as u64).sum()
    }

    /// Writes the file and makes it durable.
    #[inline(never)]
    pub(crate) fn write(&self, path: &Path) -> Result<Part, CheckpointError> {
        if let Some(range) = self.ranges.iter().find(|range| range.keys.len() as u64 > ROWS_MAX) {
            let (name, keys) = (&range.name, range.keys.len());
            let reason = format!(
                "it would have {keys} keys of {name}, and one part can have {ROWS_MAX}; use more nodes"
            );
            return Err(CheckpointError::io("write", path)(io::Error::new(ErrorKind::InvalidInput, reason)));
        }
        let mut tensors = Vec::new();
        for RangeRows { name, len, keys, values, .. } in
            self.ranges.iter().filter(|range| !range.keys.is_empty())
        {
            let view = |dtype, shape, bytes| {
                TensorView::new(dtype, shape, bytes).expect("the shape is that of the values")
            };
            tensors.push((keys_name(name), view(Dtype::U64, vec![keys.len()], bytemuck::cast_slice(keys))));
            let shape = vec![keys.len(), *len];
            tensors.push((values_name(name), view(dtype(E::TYPE), shape, bytemuck::cast_slice(values))));
        }
        serialize_to_file(tensors, None, path)
            .map_err(|error| io::Error::other(error.to_string()))
            .and_then(|()| {
                // The library writes files that no other user can read.
                fs::set_permissions(path, mode_of_files(path)?)?;
                File::open(path)?.sync_all()
            })
            .map_err(CheckpointError::io("write", path))?;
        // The file is read again, so that the sums are those of the file.
        let (bytes, blocks) = sums(path)?;
        let file = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        Ok(Part { file, bytes, keys: self.keys(), blocks })
    }
}

/// The permissions for a file: those of its folder, without the permission to search it.
fn mode_of_files(path: &Path) -> io::Result<Permissions> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Permissions::from_mode(fs::metadata(folder)?.permissions().mode() & 0o666))
}

/// Size and sums of the blocks of a file.
pub(crate) fn sums(path: &Path) -> Result<(u64, Vec<String>), CheckpointError> {
    let mut file = crate::local::open(path).map_err(CheckpointError::io("read", path))?;
    let mut block = Vec::with_capacity(Part::BLOCK);
    let (mut bytes, mut sums) = (0, Vec::new());
    loop {
        block.clear();
        let read = Read::by_ref(&mut file).take(Part::BLOCK as u64).read_to_end(&mut block);
        match read.map_err(CheckpointError::io("read", path))? {
            0 => return Ok((bytes, sums)),
            read => {
                bytes += read as u64;
                sums.push(format!("{:016x}", xxh3_64(&block)));
            }
        }
    }
}
