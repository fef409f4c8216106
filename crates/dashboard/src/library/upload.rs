//! Uploads of files, which are streamed to a temporary folder, up to a limit.
//!
//! The body of an upload is a line of JSON, `[{"name": NAME, "bytes": BYTES}, …]`, and then the bytes of
//! these files one after the other. So the server need not search the body for the ends of files, and knows
//! all sizes before the first file.

use crate::answer::Refusal;
use axum::body::{Body, BodyDataStream};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;
use http::StatusCode;
use intendant_analysis::{AnalysisError, WHAT_TO_NAME};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

/// The most files of an upload: each node of a cluster has one.
const FILES_MAX: usize = 1024;

/// Bytes of the first line.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How far an upload may fall behind [`BYTES_PER_SECOND`].
const BEHIND_MAX: Duration = Duration::from_secs(30);

/// The speed that an upload must keep up with, because it occupies a place.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Names of files in a message.
const LISTED_MAX: usize = 8;

/// Characters of a title, and of the name of a file in a message.
const TITLE_MAX: usize = 80;

/// An upload that is complete.
#[derive(Debug)]
pub(crate) struct Uploaded {
    pub(crate) folder: TempDir,
    /// The path to read: the file, or the folder if there are several files.
    pub(crate) path: PathBuf,
    pub(crate) title: String,
    /// Each file, and its name as the user knows it.
    pub(crate) names: Vec<(PathBuf, String)>,
}

/// A file that the first line announces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Announced {
    name: String,
    bytes: u64,
}

/// Receives files.
///
/// # Errors
/// If there are no files or too many, if they have more bytes than allowed, or if the body does not have as
/// many bytes as its first line says.
pub(crate) async fn receive(body: Body, bytes_max: u64) -> Result<Uploaded, Refusal> {
    let mut incoming = Incoming::new(body.into_data_stream());
    let files = incoming.head().await?;
    let bytes = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
    if bytes > bytes_max {
        return Err(too_large(bytes_max));
    }
    let folder = tempfile::Builder::new().prefix("intendant-upload-").tempdir().map_err(temporary)?;
    let mut names: Vec<(PathBuf, String)> = Vec::with_capacity(files.len());
    for file in &files {
        let path = path_of(folder.path(), &file.name, &names);
        incoming.save(&path, file.bytes).await?;
        let name = name_of(&file.name, &names);
        names.push((path, name));
    }
    incoming.end().await?;
    let title = title_of(&files);
    let path = match names.as_slice() {
        [(path, _)] => path.clone(),
        _ => folder.path().to_owned(),
    };
    Ok(Uploaded { folder, path, title, names })
}

impl Uploaded {
    /// Why the files are not a run, in terms that the user knows: with the names of the files as they were
    /// sent, and without the names in the temporary folder.
    pub(super) fn refusal(&self, error: &AnalysisError) -> Refusal {
        let text = if let AnalysisError::Mixed { first, second, reason } = error {
            let (first, second) = (first.display(), second.display());
            format!(
                "{first} and {second} are not of one run: {reason}; upload the files of each run by themselves"
            )
        } else {
            error.to_string()
        };
        let folder = self.folder.path().display().to_string();
        let named = self
            .names
            .iter()
            .fold(text, |text, (path, name)| text.replace(&path.display().to_string(), name));
        let mut text = named.replace(&folder, "the upload").replace(WHAT_TO_NAME, UPLOAD_IT);
        if error.is_damage() || matches!(error, AnalysisError::NotARun { .. }) && !text.contains(UPLOAD_IT) {
            text = format!("{text}; {UPLOAD_IT}");
        }
        Refusal::unusable(text)
    }

    /// Refuses the upload if some files are of an earlier run than the others. `ignored` has the names of
    /// these files in the temporary folder.
    pub(super) fn refuse_other_runs(&self, ignored: &[String]) -> Result<(), Refusal> {
        if ignored.is_empty() {
            return Ok(());
        }
        let is_ignored = |path: &Path| {
            path.file_name().is_some_and(|name| ignored.iter().any(|other| name == other.as_str()))
        };
        let (other, newest): (Vec<_>, Vec<_>) = self.names.iter().partition(|(path, _)| is_ignored(path));
        let list = |names: &[&(PathBuf, String)]| {
            let names = names.iter().take(LISTED_MAX).map(|(_, name)| name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let reason = format!(
            "these files are of different runs: {} of one, {} of an earlier one; upload the files of each run by \
             themselves",
            list(&newest),
            list(&other)
        );
        Err(Refusal::unusable(reason))
    }
}

/// The name of a file as the user knows it. If an earlier file has the same name, the name gets the file's
/// number.
fn name_of(name: &str, others: &[(PathBuf, String)]) -> String {
    let short: String = name.chars().filter(|c| !c.is_control()).take(TITLE_MAX).collect();
    let number = others.len() + 1;
    if short.is_empty() {
        format!("file {number}")
    } else if others.iter().any(|(_, other)| *other == short) {
        format!("{short} (file {number})")
    } else {
        short
    }
}

/// The path at which a file is stored. Names come from outside: the names of the files of nodes are kept, and
/// other names are not used in paths.
fn path_of(folder: &Path, name: &str, others: &[(PathBuf, String)]) -> PathBuf {
    let rank = name.strip_prefix("node-").and_then(|name| name.strip_suffix(".trace"));
    let is_rank =
        |rank: &&str| (1..=5).contains(&rank.len()) && rank.bytes().all(|digit| digit.is_ascii_digit());
    let own = rank.filter(is_rank).map(|rank| folder.join(format!("node-{rank}.trace")));
    own.filter(|path| !others.iter().any(|(other, _)| other == path))
        .unwrap_or_else(|| folder.join(format!("node-of-file-{}.trace", others.len() + 1)))
}

fn title_of(files: &[Announced]) -> String {
    let name = files.first().map_or("", |file| file.name.as_str());
    let name: String = name.chars().filter(|c| !c.is_control()).take(TITLE_MAX).collect();
    let name = if name.is_empty() { "upload".to_owned() } else { name };
    if files.len() < 2 { name } else { format!("{name} and {} more", files.len() - 1) }
}

/// The body of a request, and the received bytes that are not used yet.
struct Incoming {
    body: BodyDataStream,
    rest: Bytes,
    received: u64,
    start: Instant,
}

impl Incoming {
    fn new(body: BodyDataStream) -> Self {
        Self { body, rest: Bytes::new(), received: 0, start: Instant::now() }
    }

    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        let due = BEHIND_MAX + Duration::from_secs(self.received / BYTES_PER_SECOND);
        let arrived = tokio::time::timeout_at(self.start + due, self.body.next()).await;
        let slow =
            || Refusal::new(StatusCode::REQUEST_TIMEOUT, "the upload arrives too slowly, or has stopped");
        let bytes = arrived.map_err(|_| slow())?.transpose();
        let bytes = bytes.map_err(|error| Refusal::wrong(format!("the upload was cut off: {error}")))?;
        self.received = self.received.saturating_add(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
        Ok(bytes)
    }

    /// Reads the first line.
    async fn head(&mut self) -> Result<Vec<Announced>, Refusal> {
        let mut head = BytesMut::new();
        loop {
            let Some(bytes) = self.next().await? else {
                return Err(Refusal::wrong(format!("{FORMAT}; this one has no first line")));
            };
            // A body that begins with a file, without the first line, is refused before its first line break
            // is reached.
            if let Some(first) = head.first().or(bytes.first()).filter(|first| **first != b'[') {
                let first = char::from(*first).escape_default();
                let reason = format!("{FORMAT}; the first line of the upload begins with '{first}'");
                return Err(Refusal::wrong(reason));
            }
            let line = bytes.iter().position(|byte| *byte == b'\n');
            let part = line.unwrap_or(bytes.len());
            if head.len() + part > HEAD_BYTES_MAX {
                let reason =
                    format!("{FORMAT}; the first line of the upload has more than {HEAD_BYTES_MAX} bytes");
                return Err(Refusal::wrong(reason));
            }
            head.extend_from_slice(&bytes[..part]);
            if line.is_some() {
                self.rest = bytes.slice(part + 1..);
                break;
            }
        }
        let files: Vec<Announced> = serde_json::from_slice(&head)
            .map_err(|error| Refusal::wrong(format!("{FORMAT}; the first line of the upload: {error}")))?;
        if files.is_empty() {
            return Err(Refusal::wrong(format!("the upload has no file; {UPLOAD_IT}")));
        }
        if files.len() > FILES_MAX {
            return Err(Refusal::wrong(format!("an upload has at most {FILES_MAX} files")));
        }
        Ok(files)
    }

    /// Writes the next bytes to a file.
    async fn save(&mut self, path: &Path, bytes: u64) -> Result<(), Refusal> {
        let mut file = File::create(path).await.map_err(temporary)?;
        let mut left = bytes;
        while left > 0 {
            if self.rest.is_empty() {
                let cut_off = || Refusal::wrong("the upload ends before its last file does: send it again");
                self.rest = self.next().await?.ok_or_else(cut_off)?;
            }
            let part = self.rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.write_all(&self.rest[..part]).await.map_err(temporary)?;
            self.rest.advance(part);
            left -= part as u64;
        }
        file.flush().await.map_err(temporary)
    }

    /// Nothing may follow the last file.
    async fn end(mut self) -> Result<(), Refusal> {
        while self.rest.is_empty() {
            match self.next().await? {
                Some(bytes) => self.rest = bytes,
                None => return Ok(()),
            }
        }
        Err(Refusal::wrong(format!("the upload goes on after its last file; {FORMAT}")))
    }
}

/// The advice to users who uploaded something else.
const UPLOAD_IT: &str = "upload a merged Parquet file, or the files node-N.trace of one run";

/// The advice to programs; the page follows it.
const FORMAT: &str = "an upload is a line [{\"name\": NAME, \"bytes\": BYTES}, …] and then the bytes of these files, \
                      neither a form (curl -F) nor a file alone";

fn temporary(error: std::io::Error) -> Refusal {
    tracing::error!("cannot keep an upload in a temporary folder: {error}");
    Refusal::new(StatusCode::INSUFFICIENT_STORAGE, format!("the upload cannot be kept: {error}"))
}

fn too_large(bytes_max: u64) -> Refusal {
    let limit = match bytes_max {
        mebibytes if mebibytes.is_multiple_of(1 << 20) => format!("{} MiB", mebibytes >> 20),
        bytes => format!("{bytes} bytes"),
    };
    let reason = format!(
        "the upload has more than {limit}; record fewer keys (--trace-keys), or start the dashboard with \
         a larger --upload-max"
    );
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_arrives_byte_by_byte_ends() {
        let head = Bytes::from_static(b"[{\"name\":\"a\",\"bytes\":100000000}]\n");
        let bytes = stream::unfold(head, |next| async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Some((Ok::<Bytes, Infallible>(next), Bytes::from_static(b"x")))
        });
        let received = receive(Body::from_stream(bytes), 1 << 30);
        let refused = tokio::time::timeout(Duration::from_secs(120), received).await.expect("it ends");
        assert!(format!("{refused:?}").contains("too slowly"), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_takes_long_is_received() {
        let head = Bytes::from_static(b"[{\"name\":\"a\",\"bytes\":20000000}]\n");
        let parts = std::iter::once(head).chain(std::iter::repeat_n(Bytes::from(vec![7; 1_000_000]), 20));
        let bytes = stream::iter(parts).then(|part| async {
            tokio::time::sleep(Duration::from_secs(12)).await;
            Ok::<Bytes, Infallible>(part)
        });
        let uploaded = receive(Body::from_stream(bytes), 1 << 30).await.unwrap();
        assert_eq!(std::fs::metadata(&uploaded.path).unwrap().len(), 20_000_000);
    }
}
