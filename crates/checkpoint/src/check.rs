//! Comparison of a file with the sums in its manifest.

use crate::CheckpointError;
use crate::manifest::Part;
use crate::part::sums;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// In what a file differs from what its manifest says of it: a missing end, and each stretch of blocks that
/// are not as they were written.
pub(crate) fn sums_of(path: &Path, part: &Part) -> Vec<CheckpointError> {
    if let Err(error) = fs::metadata(path)
        && error.kind() == ErrorKind::NotFound
    {
        return vec![CheckpointError::damaged(path, None, "it is missing")];
    }
    let (bytes, blocks) = match sums(path) {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    let mut pairs = blocks.len().min(part.blocks.len());
    let mut damages = Vec::new();
    // A file that was cut off differs where it ends.
    if bytes != part.bytes {
        let end = bytes.min(part.bytes);
        let reason = format!("it has {bytes} bytes, and was written with {}", part.bytes);
        damages.push(CheckpointError::damaged(path, end, reason));
        pairs = pairs.min(end as usize / Part::BLOCK);
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
