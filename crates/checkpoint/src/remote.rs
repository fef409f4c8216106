//! Checkpoints in S3-compatible stores.
//!
//! An object appears as a whole or not at all, so parts and manifests need no temporary names while they are
//! written. Two objects are created only if they do not exist: the manifest, and an object that takes the
//! number of a cut when the cut begins. So two runs never write into one cut.
//!
//! Parts are staged in files of the system's temporary folder: they are written and summed there before the
//! upload, and checked and read there after the download. No value is read over the network.

mod settings;
mod transfer;

use crate::CheckpointError;
use crate::manifest::Part;
use crate::names::MANIFEST;
use crate::store::Store;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};
use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use transfer::Failure;

/// The object that takes the number of a cut.
const BEGUN: &str = "begun";

/// Its text, for people who look into the bucket.
const BEGUN_SAYS: &[u8] = b"A checkpoint was begun here. With manifest.json, it is one.\n";

/// The time limit of requests that transfer no part.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bucket.
pub(crate) struct Remote {
    bucket: String,
    /// The server, for errors.
    endpoint: String,
    client: AmazonS3,
    /// The first request starts it. Its only thread keeps connections alive; the threads that make requests
    /// await the answers themselves.
    runtime: OnceLock<Runtime>,
}

impl std::fmt::Debug for Remote {
    // The output has nothing of the client, which has credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("bucket", &self.bucket).field("endpoint", &self.endpoint).finish()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // This does not wait, e.g. for the look-up of a server that does not exist.
            runtime.shutdown_background();
        }
    }
}

impl Remote {
    /// The bucket of an address, with the settings of the environment.
    pub(crate) fn of(address: &Path) -> Result<Self, CheckpointError> {
        let (bucket, _) = settings::split(address)?;
        let (client, endpoint) = settings::client(address, bucket)?;
        let remote = Self { bucket: bucket.to_owned(), endpoint, client, runtime: OnceLock::new() };
        remote.key(address)?;
        Ok(remote)
    }

    /// The key of the object, or the prefix of the objects, at an address.
    fn key(&self, address: &Path) -> Result<Key, CheckpointError> {
        let (_, key) = settings::split(address)?;
        Key::parse(key).map_err(|error| CheckpointError::address(address, error.to_string()))
    }

    /// Awaits a future, on the thread that calls.
    fn wait<T>(&self, future: impl Future<Output = T>) -> io::Result<T> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime.block_on(future));
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("intendant-store").enable_all().build()?;
        // Another thread may have started a runtime meanwhile.
        Ok(self.runtime.get_or_init(|| runtime).block_on(future))
    }

    /// Awaits the answer to a short request.
    fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        // The timer needs the runtime.
        match self.wait(async { tokio::time::timeout(PATIENCE, request).await })? {
            Ok(answer) => answer.map_err(|error| self.explain(&error)),
            Err(_) => Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("{} does not answer within {} s", self.endpoint, PATIENCE.as_secs()),
            )),
        }
    }

    /// Awaits the copy of a part. It needs no time limit, because each of its requests has one.
    fn transfer(&self, copy: impl Future<Output = Result<(), Failure>>) -> io::Result<()> {
        self.wait(copy)?.map_err(|failure| match failure {
            Failure::Store(error) => self.explain(&error),
            Failure::Copy(error) => of_staging(error),
        })
    }

    /// Turns an error of the client into one for the user. The client's errors begin with facts that the user
    /// knows, and quote answers of the server in XML.
    fn explain(&self, error: &Error) -> io::Error {
        let said = error.to_string();
        let quoted = |name: &str| {
            let (_, rest) = said.split_once(&format!("<{name}>"))?;
            rest.split_once('<').map(|(text, _)| text.to_owned())
        };
        // For requests that list objects, the client's errors have the status only in the text.
        let is_refusal = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
            || said.contains("status code: 403")
            || said.contains("status code: 401");
        let kind = if is_refusal {
            ErrorKind::PermissionDenied
        } else if matches!(error, Error::NotFound { .. }) {
            ErrorKind::NotFound
        } else if matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. }) {
            ErrorKind::AlreadyExists
        } else {
            ErrorKind::Other
        };
        let endpoint = &self.endpoint;
        let mut text = match (quoted("Code"), quoted("Message")) {
            (Some(code), _) if code == "NoSuchBucket" => {
                format!("there is no bucket {} at {endpoint}; create it", self.bucket)
            }
            (Some(code), _) if code == "NoSuchKey" => "there is no such object".to_owned(),
            (Some(code), Some(message)) if message != code => format!("{endpoint} answers {code}: {message}"),
            (Some(code), _) => format!("{endpoint} answers {code}"),
            (None, _) if is_refusal => format!("{endpoint} refuses access"),
            (None, _) if kind == ErrorKind::NotFound => "there is no such object".to_owned(),
            (None, _) => {
                // The innermost error says what happened; those around it name the request.
                let mut inner: &dyn std::error::Error = error;
                while let Some(source) = inner.source() {
                    inner = source;
                }
                format!("{endpoint}: {inner}")
            }
        };
        if is_refusal {
            text += "; the credentials are those of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        }
        io::Error::new(kind, text)
    }

    /// A temporary folder for copies of the files at `address`.
    fn staging(&self, address: &Path) -> Result<TempDir, CheckpointError> {
        tempfile::Builder::new()
            .prefix("intendant-checkpoint-")
            .tempdir()
            .map_err(|error| CheckpointError::io("stage", address)(of_staging(error)))
    }
}

/// An error of the temporary folder.
fn of_staging(error: io::Error) -> io::Error {
    let temporary = std::env::temp_dir();
    io::Error::new(error.kind(), format!("{error}, in the temporary folder {} (TMPDIR)", temporary.display()))
}

/// The same for an error that concerns the local copy of a file.
fn staged(error: CheckpointError, from: &Path, to: &Path) -> CheckpointError {
    match error.moved(from, to) {
        CheckpointError::Io { what, path, source } => {
            CheckpointError::Io { what, path, source: of_staging(source) }
        }
        error @ (CheckpointError::Damaged { .. }
        | CheckpointError::Version { .. }
        | CheckpointError::InUse { .. }
        | CheckpointError::Address { .. }) => error,
    }
}

fn is_missing<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

impl Store for Remote {
    fn prepare(&self, _: &Path) -> Result<(), CheckpointError> {
        // A bucket has no folders, only objects whose names begin alike.
        Ok(())
    }

    fn claim(&self, _: &Path) -> Result<Option<File>, CheckpointError> {
        // Nothing distinguishes a run that has died from one that lives. A claim is not needed, because no
        // two runs write into one cut.
        Ok(None)
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>, CheckpointError> {
        let key = self.key(folder)?;
        let found = self.ask(self.client.list_with_delimiter(Some(&key)));
        let found = found.map_err(CheckpointError::io("list", folder))?;
        let objects = found.objects.into_iter().map(|object| object.location);
        let all = found.common_prefixes.into_iter().chain(objects);
        Ok(all.filter_map(|key| key.filename().map(str::to_owned)).collect())
    }

    fn take(&self, place: &Path) -> Result<bool, CheckpointError> {
        let key = self.key(&place.join(BEGUN))?;
        let create = self.client.put_opts(&key, BEGUN_SAYS.into(), PutMode::Create.into());
        match self.ask(create) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(CheckpointError::io("create", place)(error)),
        }
    }

    fn write(
        &self,
        file: &Path,
        write: &dyn Fn(&Path) -> Result<Part, CheckpointError>,
    ) -> Result<Part, CheckpointError> {
        let (key, folder) = (self.key(file)?, self.staging(file)?);
        let copy = folder.path().join(file.file_name().unwrap_or_default());
        let parent = file.parent().unwrap_or(file);
        let part = write(&copy).map_err(|error| staged(error, folder.path(), parent))?;
        let opened =
            File::open(&copy).map_err(|error| CheckpointError::io("stage", file)(of_staging(error)))?;
        // The temporary file is unlinked here, so that nothing is left of it if this process is killed during
        // the upload, which may take long.
        drop(folder);
        let uploaded = self.transfer(transfer::upload(&self.client, &key, opened, part.bytes));
        uploaded.map_err(CheckpointError::io("write", file))?;
        Ok(part)
    }

    fn commit(&self, place: &Path, manifest: &[u8]) -> Result<(), CheckpointError> {
        let path = place.join(MANIFEST);
        let key = self.key(&path)?;
        let create = self.client.put_opts(&key, manifest.to_vec().into(), PutMode::Create.into());
        let committed = match self.ask(create) {
            Err(error) => {
                // The answer to this request, or to one that the client has repeated, may be lost. So the
                // object that is there now decides.
                if self.read(&path).is_ok_and(|found| found == manifest) {
                    return Ok(());
                }
                if error.kind() == ErrorKind::AlreadyExists {
                    Err(io::Error::new(error.kind(), "there is one already, and it is not replaced"))
                } else {
                    Err(error)
                }
            }
            Ok(_) => Ok(()),
        };
        committed.map_err(CheckpointError::io("write", &path))
    }

    fn remove(&self, place: &Path) -> Result<(), CheckpointError> {
        let (prefix, manifest) = (self.key(place)?, self.key(&place.join(MANIFEST))?);
        let removed = (|| {
            let gone = self.ask(self.client.delete(&manifest));
            if !is_missing(&gone) {
                gone?;
            }
            let listed = self.ask(self.client.list(Some(&prefix)).try_collect::<Vec<_>>())?;
            let mut keys: Vec<Key> = listed.into_iter().map(|object| object.location).collect();
            // The object that takes the number goes last, when nothing else is left of the cut.
            keys.sort_by_key(|key| key.filename() == Some(BEGUN));
            for key in keys {
                let gone = self.ask(self.client.delete(&key));
                if !is_missing(&gone) {
                    gone?;
                }
            }
            Ok(())
        })();
        removed.map_err(CheckpointError::io("remove", place))
    }

    fn has(&self, file: &Path) -> Result<bool, CheckpointError> {
        Ok(self.size(file)?.is_some())
    }

    fn size(&self, file: &Path) -> Result<Option<u64>, CheckpointError> {
        let key = self.key(file)?;
        let found = self.ask(self.client.head(&key));
        if is_missing(&found) {
            return Ok(None);
        }
        Ok(Some(found.map_err(CheckpointError::io("read", file))?.size))
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>, CheckpointError> {
        let key = self.key(file)?;
        let bytes = self.ask(async { self.client.get(&key).await?.bytes().await });
        Ok(bytes.map_err(CheckpointError::io("read", file))?.to_vec())
    }

    fn stage(
        &self,
        place: &Path,
        files: &[&str],
        check: Box<dyn FnOnce(&Path) + '_>,
    ) -> Result<(), CheckpointError> {
        let folder = self.staging(place)?;
        for name in files {
            let file = place.join(name);
            // `check` reports a missing file.
            let Some(bytes) = self.size(&file)? else { continue };
            let copy = File::create(folder.path().join(name));
            let copy = copy.map_err(|error| CheckpointError::io("stage", &file)(of_staging(error)))?;
            let key = self.key(&file)?;
            let downloaded = self.transfer(transfer::download(&self.client, &key, bytes, copy));
            downloaded.map_err(CheckpointError::io("read", &file))?;
        }
        check(folder.path());
        Ok(())
    }
}
