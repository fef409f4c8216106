//! The runs that can be shown, and those of them that are in memory.

mod loaded;
mod prepared;
mod totals;
mod upload;

pub(crate) use loaded::Loaded;
pub(crate) use prepared::About;
pub(crate) use totals::Totals;
pub(crate) use upload::{Uploaded, receive};

use crate::answer::Refusal;
use crate::error::DashboardError;
use intendant_analysis::{AnalysisError, Limits};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Uploads that are kept.
pub(crate) const UPLOADS_MAX: usize = 4;

/// The most weight of all runs in memory together, see [`Loaded::weight`]. The run that was used last stays,
/// however large it is.
const WEIGHT_IN_MEMORY: usize = 40_000_000;

/// Where a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    Prepared,
    Given,
    Uploaded,
}

/// The source from which a run is read.
#[derive(Clone, Debug)]
enum Content {
    /// The bytes of a merged file.
    Embedded(&'static [u8]),
    Path(PathBuf),
    /// Files in a folder that is removed when nothing uses it any more.
    Uploaded(Arc<Uploaded>),
}

/// A run as an entry of the list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    source: Source,
    pub(crate) title: String,
    about: Option<About>,
    /// Why the last attempt to read it failed.
    error: Option<String>,
    #[serde(skip)]
    content: Content,
}

/// An upload that was added.
#[derive(Debug, Serialize)]
pub(crate) struct Added {
    #[serde(flatten)]
    entry: Entry,
    /// The title of the older upload that it replaces.
    dropped: Option<String>,
}

/// The runs that can be shown.
#[derive(Debug)]
pub(crate) struct Library {
    entries: Mutex<Vec<Entry>>,
    /// The runs that were read, in the order of their last use.
    loaded: Mutex<Vec<Arc<Loaded>>>,
    /// Only one run is read at a time. The permit belongs to the thread that reads, not to the request, which
    /// may end earlier.
    reading: Arc<Semaphore>,
    uploads: Mutex<u64>,
    limits: Limits,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change of a list is a single call, so a list is whole even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    /// # Errors
    /// If there is nothing at one of `traces`.
    pub(crate) fn new(traces: Vec<PathBuf>, events_max: u64) -> Result<Self, DashboardError> {
        let mut entries = Vec::new();
        for (at, path) in traces.into_iter().enumerate() {
            if !path.exists() {
                return Err(DashboardError::Missing { path });
            }
            let name =
                path.canonicalize().ok().as_deref().and_then(Path::file_name).map(|name| name.to_owned());
            let title = name.unwrap_or_else(|| path.clone().into_os_string()).to_string_lossy().into_owned();
            let (id, source) = (format!("trace-{}", at + 1), Source::Given);
            let content = Content::Path(path);
            entries.push(Entry { id, source, title, about: None, error: None, content });
        }
        let prepared = prepared::all().into_iter().map(|run| Entry {
            id: run.id,
            source: Source::Prepared,
            title: run.title,
            about: Some(run.about),
            error: None,
            content: Content::Embedded(run.bytes),
        });
        entries.extend(prepared);
        Ok(Self {
            entries: Mutex::new(entries),
            loaded: Mutex::default(),
            reading: Arc::new(Semaphore::new(1)),
            uploads: Mutex::default(),
            limits: Limits { events_max },
        })
    }

    /// The ids and paths of the runs that were given at the start.
    pub(crate) fn given(&self) -> Vec<(String, PathBuf)> {
        let entries = lock(&self.entries);
        let given = entries.iter().filter_map(|entry| match &entry.content {
            Content::Path(path) => Some((entry.id.clone(), path.clone())),
            Content::Embedded(_) | Content::Uploaded(_) => None,
        });
        given.collect()
    }

    /// All runs.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        lock(&self.entries).clone()
    }

    /// Returns a run, from memory or from its files.
    ///
    /// # Errors
    /// If there is no run with this id, or it cannot be read.
    pub(crate) async fn open(self: &Arc<Self>, id: &str) -> Result<Arc<Loaded>, Refusal> {
        if let Some(loaded) = self.recall(id) {
            return Ok(loaded);
        }
        let found = lock(&self.entries).iter().find(|entry| entry.id == id).cloned();
        let entry = found.ok_or_else(|| {
            Refusal::missing(format!(
                "there is no such run; if it was an upload: the newest {UPLOADS_MAX} are kept, until the dashboard ends"
            ))
        })?;
        let place = acquire(&self.reading).await?;
        // It may have been read in the meantime.
        if let Some(loaded) = self.recall(id) {
            return Ok(loaded);
        }
        let library = Arc::clone(self);
        blocking(place, move || {
            let loaded = library.read(&entry);
            let error = loaded.as_ref().err().map(|refusal| refusal.reason().to_owned());
            if let Some(entry) = lock(&library.entries).iter_mut().find(|known| known.id == entry.id) {
                entry.error = error;
            }
            let loaded = loaded?;
            // Also if the request has ended, so that the next request for this run does not read it again.
            library.remember(&loaded);
            Ok(loaded)
        })
        .await?
    }

    /// Reads a run, which takes long.
    fn read(&self, entry: &Entry) -> Result<Arc<Loaded>, Refusal> {
        let read = |path: &Path| Loaded::read(&entry.id, &entry.title, path, self.limits);
        let unusable = |error: AnalysisError| Refusal::unusable(error.to_string());
        let loaded = match &entry.content {
            Content::Path(path) => read(path).map_err(unusable),
            Content::Embedded(bytes) => {
                let file = prepared::unpack(bytes).map_err(|error| {
                    tracing::error!("cannot write a prepared trace to a temporary file: {error}");
                    Refusal::fault()
                })?;
                read(file.path()).map_err(unusable)
            }
            Content::Uploaded(uploaded) => {
                let loaded = read(&uploaded.path).map_err(|error| uploaded.refusal(&error))?;
                uploaded.refuse_other_runs(loaded.allocation.run().ignored())?;
                Ok(loaded)
            }
        };
        loaded.map(Arc::new)
    }

    /// Returns a run that is in memory. It counts as used.
    fn recall(&self, id: &str) -> Option<Arc<Loaded>> {
        let mut loaded = lock(&self.loaded);
        let at = loaded.iter().position(|loaded| loaded.id == id)?;
        let found = loaded.remove(at);
        loaded.push(Arc::clone(&found));
        Some(found)
    }

    /// Keeps a run in memory. If all runs together weigh too much, forgets the least recently used ones.
    fn remember(&self, run: &Arc<Loaded>) {
        let mut loaded = lock(&self.loaded);
        loaded.push(Arc::clone(run));
        let mut weight: usize = loaded.iter().map(|run| run.weight()).sum();
        while weight > WEIGHT_IN_MEMORY && loaded.len() > 1 {
            weight -= loaded.remove(0).weight();
        }
    }

    /// Reads a run that was uploaded, and lists it. Removes the oldest upload if there are too many.
    ///
    /// # Errors
    /// If the upload is not a run.
    pub(crate) async fn add(self: &Arc<Self>, uploaded: Uploaded) -> Result<Added, Refusal> {
        let id = {
            let mut uploads = lock(&self.uploads);
            *uploads += 1;
            format!("upload-{}", *uploads)
        };
        let title = uploaded.title.clone();
        let content = Content::Uploaded(Arc::new(uploaded));
        let entry = Entry { id, source: Source::Uploaded, title, about: None, error: None, content };
        let place = acquire(&self.reading).await?;
        let (library, read) = (Arc::clone(self), entry.clone());
        let loaded = blocking(place, move || library.read(&read)).await??;
        let mut entries = lock(&self.entries);
        entries.push(entry.clone());
        let uploads: Vec<usize> =
            (0..entries.len()).filter(|at| entries[*at].source == Source::Uploaded).collect();
        let mut dropped = None;
        if uploads.len() > UPLOADS_MAX {
            let gone = entries.remove(uploads[0]);
            lock(&self.loaded).retain(|loaded| loaded.id != gone.id);
            dropped = Some(gone.title);
        }
        drop(entries);
        self.remember(&loaded);
        Ok(Added { entry, dropped })
    }
}

/// Waits for a place among those that may work at the same time.
///
/// # Errors
/// None in practice: semaphores are not closed.
pub(crate) async fn acquire(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(places).acquire_owned().await.map_err(|_| Refusal::fault())
}

/// Runs long work outside of the tasks that serve connections. A panic is a fault of this program, and ends
/// only the request. The place is free when the work is done, not when the request ends: the work goes on if
/// its client leaves.
pub(crate) async fn blocking<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let work = move || {
        let done = work();
        drop(place);
        done
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!("a request could not be processed: {error}");
        Refusal::fault()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_of_a_request_that_has_ended_keeps_its_place() {
        let places = Arc::new(Semaphore::new(1));
        let ((begin, began), (go_on, wait)) = (oneshot::channel(), mpsc::channel());
        let place = acquire(&places).await.unwrap();
        let work = move || (begin.send(()), wait.recv());
        let request = tokio::spawn(blocking(place, work));
        began.await.unwrap();
        // The work waits in its thread when the request is gone.
        request.abort();
        assert!(request.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(places.available_permits(), 0, "the work is not done");
        go_on.send(()).unwrap();
        assert!(acquire(&places).await.is_ok());
    }
}
