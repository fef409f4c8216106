//! Reads a checkpoint. All of it is checked before any value is used.

mod windows;

pub use windows::Values;

use crate::manifest::{Manifest, Part};
use crate::names::{MANIFEST, number};
use crate::part::{ROWS_MAX, dtype, keys_name, values_name};
use crate::store::Store;
use crate::{CheckpointError, address, check};
use intendant_core::{Element, ElementType, Key, copy_from_bytes};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The most bytes of a header. Our headers are shorter: a part has two tensors for each range.
const HEADER_BYTES_MAX: u64 = 1 << 24;

/// Keys of a part that are in memory at once.
const KEYS_AT_ONCE: u64 = 1 << 16;

/// The place of a key without a value.
const NOWHERE: u32 = u32::MAX;

/// A checkpoint that is whole: every key has a value, and every file is as it was written.
#[derive(Debug)]
pub struct Checkpoint {
    manifest: Manifest,
    element: ElementType,
    tables: Vec<Table>,
    /// For each key, its table and its row.
    places: Vec<(u32, u32)>,
}

/// The values of a range in a part.
#[derive(Debug)]
struct Table {
    file: File,
    /// The offset of the first row in the file.
    offset: u64,
    /// Elements per row.
    len: usize,
    rows: u32,
}

impl Table {
    /// Reads neighbouring rows; `bytes` has the length of these rows.
    fn read(&self, row: u32, row_bytes: usize, bytes: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(bytes, self.offset + u64::from(row) * row_bytes as u64)
    }
}

/// The damage of a checkpoint: the first error, and all others.
type Damages = (CheckpointError, Vec<CheckpointError>);

/// Folders of checkpoints are paths or addresses.
impl Checkpoint {
    /// Whether there is a manifest in a folder: it is a checkpoint, whole or damaged.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn is_in(folder: &Path) -> Result<bool, CheckpointError> {
        address::store_of(folder)?.has(&folder.join(MANIFEST))
    }

    /// Reads the manifest of the checkpoint in a folder, and nothing else.
    ///
    /// # Errors
    /// If there is no manifest, or it is damaged or of another version.
    pub fn manifest_in(folder: &Path) -> Result<Manifest, CheckpointError> {
        Self::read_manifest(&*address::store_of(folder)?, folder)
    }

    pub(crate) fn read_manifest(store: &dyn Store, folder: &Path) -> Result<Manifest, CheckpointError> {
        let path = folder.join(MANIFEST);
        Manifest::of_file(&path, &store.read(&path)?)
    }

    /// Reads the manifest of the checkpoint in a folder, and compares the sizes of the parts with it. This
    /// finds the damage that can be known without reading the parts. The second value is this damage.
    ///
    /// # Errors
    /// As [`Checkpoint::manifest_in`].
    pub fn glance(folder: &Path) -> Result<(Manifest, Vec<CheckpointError>), CheckpointError> {
        let store = address::store_of(folder)?;
        let manifest = Self::read_manifest(&*store, folder)?;
        let wrong = manifest.parts.iter().filter_map(|part| match part_path(folder, part) {
            Ok(path) => check::size_of(&*store, &path, part),
            Err(error) => Some(error),
        });
        let mut wrong: Vec<_> = wrong.collect();
        wrong.extend(Self::check_manifest(folder, &manifest).err());
        Ok((manifest, wrong))
    }

    /// Opens the checkpoint in a folder, and checks all of it.
    ///
    /// # Errors
    /// If a file is missing or not as it was written, or if a key has no value or two values.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        Self::verify(folder).map_err(|(first, _)| first)
    }

    /// Opens the checkpoint in a folder as [`Checkpoint::open`] does, and reads all of a damaged one, so that
    /// all damage is named.
    ///
    /// # Errors
    /// The damage: the first error and all others. Only if the sums of all parts are right, the contents of
    /// the parts are checked as well; the first error in them ends the search.
    pub fn verify(folder: &Path) -> Result<Self, Damages> {
        let store = address::store_of(folder).map_err(alone)?;
        Self::verify_in(&*store, folder)
    }

    pub(crate) fn verify_in(store: &dyn Store, folder: &Path) -> Result<Self, Damages> {
        let manifest = Self::read_manifest(store, folder).map_err(alone)?;
        let element = Self::check_manifest(folder, &manifest).map_err(alone)?;
        let parts = manifest.parts.clone();
        let files: Vec<&str> = parts
            .iter()
            .filter(|part| part_path(folder, part).is_ok())
            .map(|part| part.file.as_str())
            .collect();
        let mut verified = None;
        let check = |local: &Path| {
            // An error in a copy is reported as an error in the original.
            let there = |(first, others): Damages| {
                let moved = |error: CheckpointError| error.moved(local, folder);
                (moved(first), others.into_iter().map(moved).collect())
            };
            verified = Some(Self::of_files(local, manifest, element).map_err(there));
        };
        store.stage(folder, &files, Box::new(check)).map_err(alone)?;
        verified.expect("a store that has staged the files lets them be checked")
    }

    /// Checks parts and finds the values in them.
    fn of_files(folder: &Path, manifest: Manifest, element: ElementType) -> Result<Self, Damages> {
        let damages = manifest.parts.iter().flat_map(|part| match part_path(folder, part) {
            Ok(path) => check::sums_of(&path, part),
            Err(error) => vec![error],
        });
        let mut damages = damages.collect::<Vec<_>>().into_iter();
        if let Some(first) = damages.next() {
            return Err((first, damages.collect()));
        }
        Self::of_whole_files(folder, manifest, element).map_err(alone)
    }

    /// Checks that a manifest is consistent. Returns its element type.
    fn check_manifest(folder: &Path, manifest: &Manifest) -> Result<ElementType, CheckpointError> {
        let of_manifest = |reason: String| CheckpointError::damaged(&folder.join(MANIFEST), None, reason);
        let element: ElementType =
            manifest.element.parse().map_err(|error| of_manifest(format!("{error}")))?;
        // The folder of a copy may have any name that is not that of another cut.
        if let Some(cut) = number(folder).filter(|cut| *cut != manifest.cut) {
            let is = manifest.cut;
            return Err(of_manifest(format!(
                "it is the manifest of checkpoint {is} and not of {cut}; rename the folder to cut-{is:06}"
            )));
        }
        let keys = manifest.keys();
        let listed = manifest.parts.iter().fold(0u64, |keys, part| keys.saturating_add(part.keys));
        if listed != keys {
            return Err(of_manifest(format!("its parts have {listed} of {keys} keys")));
        }
        Ok(element)
    }

    /// Finds the values in parts whose sums are right.
    fn of_whole_files(
        folder: &Path,
        manifest: Manifest,
        element: ElementType,
    ) -> Result<Self, CheckpointError> {
        let of_manifest = |reason: String| CheckpointError::damaged(&folder.join(MANIFEST), None, reason);
        let keys =
            usize::try_from(manifest.keys()).map_err(|_| of_manifest("it has too many keys".to_owned()))?;
        // A key and its value take more than 8 bytes. So the memory allocated below is in proportion to the
        // files.
        if let Some(part) = manifest.parts.iter().find(|part| part.keys > part.bytes / 8) {
            let Part { file, bytes, keys, .. } = part;
            return Err(of_manifest(format!("{file} of {bytes} bytes cannot have {keys} keys")));
        }
        let mut whole =
            Self { manifest, element, tables: Vec::new(), places: vec![(NOWHERE, NOWHERE); keys] };
        for part in whole.manifest.parts.clone() {
            whole.add(folder, &part)?;
        }
        match whole.places.iter().position(|place| place.0 == NOWHERE) {
            Some(key) => Err(of_manifest(format!("no part has key {key}"))),
            None => Ok(whole),
        }
    }

    /// Adds the places of the values of a part whose sums are right.
    fn add(&mut self, folder: &Path, part: &Part) -> Result<(), CheckpointError> {
        let path = part_path(folder, part)?;
        let file = crate::local::open(&path).map_err(CheckpointError::io("read", &path))?;
        let (start, header) = header(&file, &path)?;
        let tensors = header.tensors();
        let (mut first, mut keys_in_part) = (0u64, 0);
        for range in &self.manifest.ranges {
            let (name, end) = (keys_name(&range.name), first.saturating_add(range.keys));
            if let Some(info) = tensors.get(&name) {
                let keys = Tensor { path: &path, name: &name, info, start };
                let rows = keys.checked(Dtype::U64, &[], part.keys)?;
                let name = values_name(&range.name);
                let info = tensors.get(&name);
                let info = info.ok_or_else(|| {
                    CheckpointError::damaged(&path, None, format!("it has no tensor {name}"))
                })?;
                let values = Tensor { path: &path, name: &name, info, start };
                let of_values = values.checked(dtype(self.element), &[range.len], part.keys)?;
                if of_values != rows {
                    return Err(CheckpointError::damaged(
                        &path,
                        None,
                        format!("{name} has {of_values} rows for {rows} keys"),
                    ));
                }
                if rows > ROWS_MAX {
                    let reason = format!("{name} has {rows} rows, and one part can have {ROWS_MAX}");
                    return Err(CheckpointError::damaged(&path, None, reason));
                }
                let (offset, table) = (values.offset(), self.tables.len() as u32);
                let mut bytes = vec![0; rows.min(KEYS_AT_ONCE) as usize * 8];
                for row in 0..rows {
                    let in_block = (row % KEYS_AT_ONCE) as usize * 8;
                    let at = keys.offset() + row * 8;
                    if in_block == 0 {
                        bytes.truncate((rows - row).min(KEYS_AT_ONCE) as usize * 8);
                        file.read_exact_at(&mut bytes, at).map_err(CheckpointError::io("read", &path))?;
                    }
                    let key = bytes[in_block..].first_chunk().map_or(0, |key| u64::from_le_bytes(*key));
                    if !(first..end).contains(&key) {
                        let reason = format!("key {key} is not of range {} ({first} to {end})", range.name);
                        return Err(CheckpointError::damaged(&path, at, reason));
                    }
                    let place = &mut self.places[key as usize];
                    if place.0 != NOWHERE {
                        return Err(CheckpointError::damaged(&path, at, format!("key {key} occurs twice")));
                    }
                    *place = (table, row as u32);
                }
                keys_in_part += rows;
                let file = file.try_clone().map_err(CheckpointError::io("read", &path))?;
                self.tables.push(Table { file, offset, len: range.len, rows: rows as u32 });
            }
            first = end;
        }
        if keys_in_part != part.keys {
            let reason = format!("it has {keys_in_part} keys, and its manifest says {}", part.keys);
            return Err(CheckpointError::damaged(&path, None, reason));
        }
        Ok(())
    }

    /// The contents of the checkpoint.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The element type of its values.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// Elements of the value of a key.
    ///
    /// # Panics
    /// If the model has no such key.
    #[must_use]
    pub fn value_len(&self, key: Key) -> usize {
        self.tables[self.place(key).0].len
    }

    /// The table of a key, and its row.
    fn place(&self, key: Key) -> (usize, u32) {
        let (table, row) = self.places[key.index()];
        (table as usize, row)
    }

    fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Reads the value of a key, from any thread.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    ///
    /// # Panics
    /// If the model has no such key, or its values have another type or length.
    #[inline(never)]
    pub fn read<E: Element>(&self, key: Key, value: &mut [E]) -> std::io::Result<()> {
        assert_eq!(E::TYPE, self.element, "values are read as what they are");
        let (table, row) = self.place(key);
        let Table { file, offset, len, .. } = &self.tables[table];
        assert_eq!(value.len(), *len, "the length of a value of {key:?}");
        let mut bytes = [0; 4096];
        let mut at = offset + u64::from(row) * (size_of_val(value)) as u64;
        for piece in value.chunks_mut(bytes.len() / size_of::<E>()) {
            let read = &mut bytes[..size_of_val(piece)];
            file.read_exact_at(read, at)?;
            copy_from_bytes(piece, read);
            at += read.len() as u64;
        }
        Ok(())
    }
}

fn alone(error: CheckpointError) -> Damages {
    (error, Vec::new())
}

/// The path of a part. A manifest names files of its own folder.
fn part_path(folder: &Path, part: &Part) -> Result<PathBuf, CheckpointError> {
    match Path::new(&part.file).file_name() {
        Some(name) if name == part.file.as_str() => Ok(folder.join(name)),
        Some(_) | None => {
            let reason = format!("'{}' is not the name of a file", part.file);
            Err(CheckpointError::damaged(&folder.join(MANIFEST), None, reason))
        }
    }
}

/// The header of a part, and the offset of the data after it.
fn header(file: &File, path: &Path) -> Result<(u64, Metadata), CheckpointError> {
    let mut len = [0; 8];
    file.read_exact_at(&mut len, 0).map_err(CheckpointError::io("read", path))?;
    let len = u64::from_le_bytes(len);
    if len > HEADER_BYTES_MAX {
        return Err(CheckpointError::damaged(path, 0, format!("its header would have {len} bytes")));
    }
    let mut bytes = vec![0; 8 + len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(CheckpointError::io("read", path))?;
    let header: Metadata = serde_json::from_slice(&bytes[8..])
        .map_err(|error| CheckpointError::damaged(path, 8, error.to_string()))?;
    let (whole, found) =
        (bytes.len() as u64 + header.data_len() as u64, file.metadata().map(|file| file.len()));
    if found.is_ok_and(|found| found != whole) {
        return Err(CheckpointError::damaged(path, 8, format!("its tensors would need {whole} bytes")));
    }
    Ok((bytes.len() as u64, header))
}

/// A tensor of a part.
struct Tensor<'a> {
    path: &'a Path,
    name: &'a str,
    info: &'a TensorInfo,
    /// The offset at which the tensors of the file begin.
    start: u64,
}

impl Tensor<'_> {
    /// The number of its rows, if the tensor has this type, rows of this shape, and at most `rows_max` rows.
    fn checked(&self, dtype: Dtype, row: &[usize], rows_max: u64) -> Result<u64, CheckpointError> {
        let Self { path, name, info, .. } = self;
        match info.shape.split_first() {
            Some((rows, of_row)) if info.dtype == dtype && of_row == row && *rows as u64 <= rows_max => {
                Ok(*rows as u64)
            }
            _ => {
                let reason = format!("{name} has type {:?} and shape {:?}", info.dtype, info.shape);
                Err(CheckpointError::damaged(path, None, reason))
            }
        }
    }

    fn offset(&self) -> u64 {
        self.start + self.info.data_offsets.0 as u64
    }
}
