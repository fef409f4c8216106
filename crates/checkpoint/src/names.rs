//! Names of the files and folders of checkpoints.

use std::path::{Path, PathBuf};

/// The file that commits a checkpoint.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The suffix of the names of parts.
pub(crate) const PART: &str = ".safetensors";

/// The folder of a checkpoint within a folder of checkpoints.
pub(crate) fn place(folder: &Path, cut: u64) -> PathBuf {
    folder.join(format!("cut-{cut:06}"))
}

/// The number of the cut to which this folder belongs.
pub(crate) fn number(folder: &Path) -> Option<u64> {
    let name = folder.file_name()?.to_str()?;
    let cut = name.strip_prefix("cut-")?.parse::<u64>().ok().filter(|cut| *cut < u64::MAX)?;
    // A name that spells the same number differently is that of another folder.
    (place(Path::new(""), cut).to_str() == Some(name)).then_some(cut)
}
