//! Copies files to a store and from it, in chunks, of which a few are in flight at a time.

use futures_util::{StreamExt, stream};
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, WriteMultipart};
use std::fs::File;
use std::io::{self, Read, Write};

/// Bytes of a chunk. Stores want 5 MiB or more.
const CHUNK: u64 = 8 << 20;

/// The most chunks of an object. Stores accept 10,000.
const CHUNKS_MAX: u64 = 9_000;

/// Chunks in flight at a time.
const AT_ONCE: usize = 4;

/// The reason for which a file was not copied.
pub(super) enum Failure {
    /// The store failed.
    Store(object_store::Error),
    /// The local copy cannot be read or written.
    Copy(io::Error),
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Copy(error)
    }
}

/// Copies a file of `bytes` bytes to an object.
pub(super) async fn upload(client: &AmazonS3, key: &Key, mut file: File, bytes: u64) -> Result<(), Failure> {
    let chunk = CHUNK.max(bytes / CHUNKS_MAX);
    let mut next = || -> io::Result<Vec<u8>> {
        let mut read = Vec::with_capacity(chunk.min(bytes) as usize);
        Read::by_ref(&mut file).take(chunk).read_to_end(&mut read)?;
        Ok(read)
    };
    if bytes <= chunk {
        client.put(key, next()?.into()).await?;
        return Ok(());
    }
    let mut writer = WriteMultipart::new_with_chunk_size(client.put_multipart(key).await?, chunk as usize);
    let written: Result<(), Failure> = async {
        loop {
            let read = next()?;
            if read.is_empty() {
                return Ok(());
            }
            writer.wait_for_capacity(AT_ONCE).await?;
            writer.put(read.into());
        }
    }
    .await;
    match written {
        Ok(()) => Ok(writer.finish().await.map(drop)?),
        Err(failure) => {
            // The store keeps uploaded chunks until it is told to drop them.
            let _ = writer.abort().await;
            Err(failure)
        }
    }
}

/// Copies an object of `bytes` bytes to a file.
pub(super) async fn download(
    client: &AmazonS3,
    key: &Key,
    bytes: u64,
    mut file: File,
) -> Result<(), Failure> {
    let starts = (0..bytes).step_by(CHUNK as usize);
    let requests = starts.map(|start| client.get_range(key, start..bytes.min(start + CHUNK)));
    let mut chunks = stream::iter(requests).buffered(AT_ONCE);
    while let Some(chunk) = chunks.next().await {
        file.write_all(&chunk?)?;
    }
    Ok(())
}
