//! Counts of things and names of cuts, in words.

use std::path::PathBuf;

/// `count` of a thing, in words.
pub(super) fn counted(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Lines that name the cuts without a manifest.
pub(super) fn unfinished_lines(places: &[PathBuf]) -> String {
    let line = |place: &PathBuf| {
        format!(
            "{}: not a checkpoint, it has no manifest.json: it is being written, or what wrote it has died\n",
            place.display()
        )
    };
    places.iter().map(line).collect()
}
