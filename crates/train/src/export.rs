//! The folder of an exported model: written next to its place, then renamed, so that it holds one model as a
//! whole or none.
//!
//! Each run writes into a folder of its own, so that runs that export to one place at the same time do not
//! mix. A file in the folder ([`MANIFEST`]) says which run the model comes from and which files belong to it.

use crate::error::{AppError, TrainError};
use crate::files::{self, Input};
use intendant_checkpoint::is_address;
use intendant_core::{Key, KeyRange};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that names the run that made a model.
const MANIFEST: &str = "export.json";

/// The version of that file's schema.
const SCHEMA: &str = "intendant.export/1";

/// Unfinished exports next to one folder.
const STAGING_MAX: u32 = 1000;

/// Renames that are tried when other runs export to the same place at the same moment.
const RENAMES_MAX: usize = 1000;

/// Writes the files of a trained model. Values are streamed, so that memory does not grow with the model.
pub trait Exporter<E>: Send {
    /// Starts to write into `folder`, which is empty and belongs to this export alone. The parts that follow
    /// cover all keys of these ranges. What an earlier export wrote that did not come to its end is
    /// forgotten: a run with copies that loses a node meanwhile begins again.
    ///
    /// # Errors
    /// Any error ends the export; nothing of it is kept.
    fn begin(&mut self, folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError>;

    /// Some keys and their values, concatenated. Keys are in no particular order, each exactly once.
    ///
    /// # Errors
    /// Any error ends the export; nothing of it is kept.
    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError>;

    /// All keys were passed to [`Exporter::part`]. When this returns, all files are complete.
    ///
    /// # Errors
    /// Any error ends the export; nothing of it is kept.
    fn end(&mut self) -> Result<(), AppError>;
}

/// The run that made a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    schema: String,
    /// The program and its version.
    pub(crate) program: String,
    pub(crate) version: String,
    /// The process of rank 0.
    process: u32,
    /// As in the run's report.
    pub(crate) data_digest: String,
    /// Digest of the data, if the export knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    pub(crate) config: serde_json::Value,
    /// The model's files and their bytes.
    files: BTreeMap<String, u64>,
}

impl Manifest {
    pub(crate) fn new(program: &str, version: &str, data_digest: &str, config: serde_json::Value) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            program: program.to_owned(),
            version: version.to_owned(),
            process: std::process::id(),
            data_digest: data_digest.to_owned(),
            data: None,
            config,
            files: BTreeMap::new(),
        }
    }
}

/// Whose model may replace the one that a folder holds: one of the same program and of the same data. A model
/// that does not say what data it is of may be of the same.
#[derive(Clone, Debug)]
pub(crate) struct Heir {
    pub(crate) program: String,
    /// Digest of the data, once they are read.
    pub(crate) data: Option<String>,
    /// Any model may be replaced.
    pub(crate) overwrites: bool,
}

impl Heir {
    /// Refuses to replace a model of another program, or of other data.
    fn check(&self, earlier: &Manifest) -> io::Result<()> {
        let what = match (&self.data, &earlier.data) {
            _ if self.overwrites => return Ok(()),
            _ if earlier.program != self.program => {
                let Manifest { program, version, .. } = earlier;
                format!("it holds a model of {program} {version}, and this program is {}", self.program)
            }
            (Some(data), Some(earlier)) if data != earlier => {
                format!(
                    "it holds a model of other data: their digest is {earlier}, that of these data is {data}"
                )
            }
            _ => return Ok(()),
        };
        Err(io::Error::other(format!("{what}; name another folder, or replace that model with --overwrite")))
    }
}

/// The folder of an export that is being written. Dropped before it is published, it leaves nothing.
#[derive(Debug)]
pub(crate) struct Staging {
    /// The place of the model.
    place: PathBuf,
    /// The folder in which it is written.
    folder: PathBuf,
    heir: Heir,
}

impl Staging {
    /// Creates the folder in which the model of `path` is written, next to `path`.
    pub(crate) fn create(path: &Path, heir: Heir) -> io::Result<Self> {
        let place = place(path)?;
        check_contents(&place, &heir)?;
        let name = place.file_name().ok_or(ErrorKind::InvalidFilename)?.to_string_lossy().into_owned();
        let process = std::process::id();
        // The next number is free unless runs of other machines or containers, or killed ones, have such
        // folders.
        for number in 0..STAGING_MAX {
            let folder = place.with_file_name(format!(".{name}.{process}.{number}.partial"));
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { place, folder, heir }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!(
            "there are {STAGING_MAX} unfinished exports next to it; remove .{name}.*.partial"
        )))
    }

    /// The folder in which the files of the model are written.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the model at the place, if there is one, by this one, in one step.
    pub(crate) fn publish(self, mut manifest: Manifest) -> io::Result<()> {
        manifest.data.clone_from(&self.heir.data);
        for name in names(&self.folder)? {
            let file = File::open(self.folder.join(&name))?;
            manifest.files.insert(name, file.metadata()?.len());
            file.sync_all()?;
        }
        let mut text = serde_json::to_vec_pretty(&manifest)?;
        text.push(b'\n');
        files::create_synced(&self.folder.join(MANIFEST), &text)?;
        files::sync_folder(&self.folder)?;
        for _ in 0..RENAMES_MAX {
            match fs::rename(&self.folder, &self.place) {
                Ok(()) => return files::sync_parent(&self.place),
                Err(error) if is_taken(&error) => {
                    check_contents(&self.place, &self.heir)?;
                    match self.exchange() {
                        Ok(()) => return files::sync_parent(&self.place),
                        // Another run has just moved the earlier model away, or put its own there.
                        Err(error) if error.kind() == ErrorKind::NotFound || is_taken(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("other runs keep exporting to this folder"))
    }

    /// Swaps this folder with the one at the place. `Drop` then removes the earlier model.
    fn exchange(&self) -> io::Result<()> {
        if renameat_with(CWD, &self.folder, CWD, &self.place, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
        // Not all file systems can swap. For a moment there is no model; there are never parts of two.
        let mut aside = self.folder.clone().into_os_string();
        aside.push(".old");
        fs::rename(&self.place, &aside)?;
        let renamed = fs::rename(&self.folder, &self.place);
        fs::remove_dir_all(&aside).and(renamed)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Another error is on its way, or the model is in its place.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists)
}

/// Names of the files in a folder.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// The folder that `path` names, with links resolved. Its parent exists when this returns.
fn place(path: &Path) -> io::Result<PathBuf> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(io::Error::new(ErrorKind::NotADirectory, "it is not a folder")),
        Ok(_) => fs::canonicalize(path),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let path = files::follow(path)?;
            let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
            let parent = files::parent(&path);
            fs::create_dir_all(parent)?;
            Ok(fs::canonicalize(parent)?.join(name))
        }
        Err(error) => Err(error),
    }
}

/// Refuses to replace a folder that holds anything but an earlier export that the heir may replace.
fn check_contents(place: &Path, heir: &Heir) -> io::Result<()> {
    let found = match names(place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let manifest = fs::read(place.join(MANIFEST)).ok();
    let manifest: Option<Manifest> = manifest.and_then(|text| serde_json::from_slice(&text).ok());
    let is_ours = |name: &String| {
        manifest.as_ref().is_some_and(|manifest| name == MANIFEST || manifest.files.contains_key(name))
    };
    match found.iter().filter(|name| !is_ours(name)).min() {
        None => manifest.as_ref().map_or(Ok(()), |manifest| heir.check(manifest)),
        Some(name) => Err(io::Error::other(format!(
            "it holds {name}, which is not of an earlier export, and an export replaces the folder as a whole; name a new \
             folder"
        ))),
    }
}

/// Tells before the data are read whether an export can be written; `argument` names the folder.
pub(crate) fn check(
    (argument, path): (&str, &Path),
    heir: Heir,
    report: Option<&Path>,
    inputs: &[Input],
) -> Result<(), TrainError> {
    let refused = |reason: String| refused((argument, path), &reason);
    if is_address(path) {
        return Err(refused("models are written to local folders; name one".to_owned()));
    }
    let place = place(path).map_err(|error| refused(format!("cannot write this folder: {error}")))?;
    let here = std::env::current_dir().and_then(fs::canonicalize);
    if here.is_ok_and(|here| here.starts_with(&place)) {
        return Err(refused(
            "an export replaces the folder as a whole, and this program was started in it; name a folder inside".to_owned(),
        ));
    }
    if let Some(input) = inputs.iter().find(|input| input.is_inside(&place)) {
        return Err(refused(format!(
            "an export replaces the folder as a whole, and {} reads {}; name another folder",
            input.flag,
            input.path.display()
        )));
    }
    let inside = |report: &Path| {
        fs::canonicalize(files::parent(report)).is_ok_and(|folder| folder.starts_with(&place))
    };
    if report.is_some_and(inside) {
        return Err(refused(
            "an export replaces the folder as a whole, and --report writes into it; put the report next to it"
                .to_owned(),
        ));
    }
    let devices = [fs::metadata(&place), fs::metadata(files::parent(&place))];
    if let [Ok(folder), Ok(parent)] = devices
        && folder.dev() != parent.dev()
    {
        return Err(refused(
            "it is a mount point, which cannot be replaced; name a folder inside".to_owned(),
        ));
    }
    Staging::create(path, heir)
        .map(drop)
        .map_err(|error| refused(format!("cannot write this folder: {error}")))
}

/// Tells before the training whether the heir may replace what the folder of `--export` holds.
pub(crate) fn check_earlier(path: &Path, heir: &Heir) -> Result<(), TrainError> {
    check_contents(path, heir).map_err(|error| refused(("--export", path), &error.to_string()))
}

fn refused((argument, path): (&str, &Path), reason: &str) -> TrainError {
    TrainError::usage(format!("{argument} {}: {reason}", path.display()))
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
