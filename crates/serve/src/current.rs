//! The model that answers now, and the next one.
//!
//! A request keeps the model that was current when it began. A new export is noticed by its files, as the
//! file system describes them: an export takes the place of the folder as a whole, and other programs may
//! copy files into it one by one. So the files must be the same before and after they are read.

use crate::counts::Counts;
use crate::error::ServeError;
use crate::program::{Model, Program, Question};
use intendant_core::lock;
use intendant_trained::{Export, MANIFEST, TrainedError};
use serde_json::{Map, Value};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// How often files that change while they are read are read again at the start.
const ATTEMPTS: usize = 5;

/// A model in memory.
pub(crate) struct Loaded {
    model: Box<dyn Model>,
    manifest: Map<String, Value>,
    /// Which load of this process it is, from 1.
    load: u64,
}

impl Loaded {
    pub(crate) fn new(model: Box<dyn Model>, manifest: Map<String, Value>, load: u64) -> Self {
        Self { model, manifest, load }
    }

    pub(crate) fn answer(
        &self,
        endpoint: &str,
        questions: &[Question],
        threads: usize,
    ) -> Vec<Result<Value, String>> {
        self.model.answer(endpoint, questions, threads)
    }

    /// What it is: the answer to `/v1/model`.
    pub(crate) fn about(&self) -> Value {
        let member = |name: &str| self.manifest.get(name).cloned().unwrap_or_default();
        let sizes = self.model.sizes().into_iter().map(|(what, size)| (what.to_owned(), size.into()));
        let mut about: Map<String, Value> = ["program", "version", "config", "files", "data_digest"]
            .iter()
            .map(|name| ((*name).to_owned(), member(name)))
            .collect();
        // Earlier exports have no digest of the data.
        if let Some(data) = self.manifest.get("data") {
            about.insert("data".to_owned(), data.clone());
        }
        about.insert("sizes".to_owned(), Value::Object(sizes.collect()));
        about.insert("load".to_owned(), self.load.into());
        Value::Object(about)
    }
}

/// What the file system says of the files of a model.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stamp(Vec<(String, Option<[u64; 5]>)>);

impl Stamp {
    fn of<'a>(folder: &Path, files: impl IntoIterator<Item = &'a str>) -> Self {
        let of = |name: &str| {
            let found = fs::metadata(folder.join(name)).ok()?;
            let time = [found.mtime() as u64, found.mtime_nsec() as u64];
            Some([found.dev(), found.ino(), found.len(), time[0], time[1]])
        };
        Self([MANIFEST].into_iter().chain(files).map(|name| (name.to_owned(), of(name))).collect())
    }

    /// The same files as they are now.
    fn again(&self, folder: &Path) -> Self {
        Self::of(folder, self.0.iter().skip(1).map(|(name, _)| name.as_str()))
    }
}

/// What a load has found.
enum Found {
    Model(Box<Loaded>, Stamp),
    /// The files changed while they were read.
    Unsteady,
}

/// The current model of a folder.
pub(crate) struct Current {
    folder: PathBuf,
    program: &'static Program,
    loaded: Mutex<Arc<Loaded>>,
    /// The files that were read last, whether they are a model or not.
    seen: Mutex<Stamp>,
    counts: Arc<Counts>,
}

impl Current {
    /// Loads the model of a folder.
    pub(crate) fn open(
        folder: &Path,
        program: &'static Program,
        counts: Arc<Counts>,
    ) -> Result<Self, ServeError> {
        for _ in 0..ATTEMPTS {
            if let Found::Model(loaded, stamp) = read(folder, program, 1)? {
                counts.loaded(true);
                let (loaded, seen) = (Mutex::new(loaded.into()), Mutex::new(stamp));
                return Ok(Self { folder: folder.to_owned(), program, loaded, seen, counts });
            }
        }
        Err(ServeError::Unsteady(folder.display().to_string()))
    }

    /// The model for a request that begins now.
    pub(crate) fn get(&self) -> Arc<Loaded> {
        Arc::clone(&lock(&self.loaded))
    }

    /// Whether the files are others than those that were read last.
    pub(crate) fn has_changed(&self) -> bool {
        let seen = lock(&self.seen).clone();
        seen.again(&self.folder) != seen
    }

    /// Reads the folder again. If it has a model, that is the current one from now on. Otherwise, this says
    /// why, and the model stays.
    pub(crate) fn renew(&self) {
        let seen = lock(&self.seen).again(&self.folder);
        let load = self.get().load + 1;
        let folder = self.folder.display();
        match read(&self.folder, self.program, load) {
            Ok(Found::Model(loaded, stamp)) => {
                *lock(&self.seen) = stamp;
                // Requests under way hold the last model: the last of them frees its memory.
                *lock(&self.loaded) = loaded.into();
                self.counts.loaded(true);
                tracing::info!("the model in {folder} was loaded again");
            }
            Ok(Found::Unsteady) => tracing::info!("the model in {folder} is being written"),
            Err(error) => {
                *lock(&self.seen) = seen;
                self.counts.loaded(false);
                tracing::error!("the new model cannot be used, and the last one stays: {error}");
            }
        }
    }
}

/// Reads the model of a folder.
fn read(folder: &Path, program: &Program, load: u64) -> Result<Found, TrainedError> {
    let manifest = Stamp::of(folder, []);
    let export = Export::open(folder, program.name);
    let files = |export: &Export| Stamp::of(folder, export.files());
    let before = export.as_ref().ok().map(files);
    let model = export.and_then(|export| Ok(((program.load)(&export)?, export)));
    // An error may come from reading parts of two models, and is none then.
    let is_steady = manifest == manifest.again(folder)
        && before
            .as_ref()
            .is_none_or(|before| before.again(folder) == *before && before.0[..1] == manifest.0[..]);
    if !is_steady {
        return Ok(Found::Unsteady);
    }
    let (model, export) = model?;
    let loaded = Loaded::new(model, export.manifest().clone(), load);
    Ok(Found::Model(Box::new(loaded), before.unwrap_or(manifest)))
}
