//! Comparison of a file with the sums in its manifest.

use crate::CheckpointError;
use crate::manifest::Part;
use crate::part::sums;
use crate::store::Store;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Checks that a file exists and has its size.
pub(crate) fn size_of(store: &dyn Store, path: &Path, part: &Part) -> Option<CheckpointError> {
    match store.size(path) {
        Err(error) => Some(error),
        Ok(None) => Some(missing(path)),
        Ok(Some(found)) => (found != part.bytes).then(|| cut_off(path, part, found)),
    }
}

fn missing(path: &Path) -> CheckpointError {
    CheckpointError::damaged(path, None, "it is missing")
}

/// The error for a file of the wrong size, at the byte where it ends or should end.
fn cut_off(path: &Path, part: &Part, bytes: u64) -> CheckpointError {
    let reason = format!("it has {bytes} bytes, and was written with {}", part.bytes);
    CheckpointError::damaged(path, bytes.min(part.bytes), reason)
}

/// The differences between a file and its manifest: a wrong size, and each run of consecutive blocks that are
/// not as they were written.
pub(crate) fn sums_of(path: &Path, part: &Part) -> Vec<CheckpointError> {
    if let Err(error) = fs::metadata(path)
        && error.kind() == ErrorKind::NotFound
    {
        return vec![missing(path)];
    }
    let (bytes, blocks) = match sums(path) {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    let mut pairs = blocks.len().min(part.blocks.len());
    let mut damages = Vec::new();
    if bytes != part.bytes {
        damages.push(cut_off(path, part, bytes));
        pairs = pairs.min(bytes.min(part.bytes) as usize / Part::BLOCK);
    } else if blocks.len() != part.blocks.len() {
        let reason = format!("its manifest has {} sums for {} blocks", part.blocks.len(), blocks.len());
        damages.push(CheckpointError::damaged(path, None, reason));
    }
    let is_other = |block: usize| blocks[block] != part.blocks[block];
    let mut block = 0;
    while let Some(first) = (block..pairs).find(|block| is_other(*block)) {
        let end = (first..pairs).find(|block| !is_other(*block)).unwrap_or(pairs);
        let reason = if end == first + 1 {
            format!("the sum of its block {first} is not the one that was written")
        } else {
            format!("the sums of its blocks {first} to {} are not those that were written", end - 1)
        };
        damages.push(CheckpointError::damaged(path, (first * Part::BLOCK) as u64, reason));
        block = end;
    }
    damages
}
