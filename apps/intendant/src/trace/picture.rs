//! Pictures of runs: their content and their files.

use super::args::PictureArgs;
use super::failure::Failure;
use super::output;
use intendant_analysis::{Allocation, Window};
use std::fs;
use std::path::Path;

/// The part of a run that a picture shows.
pub(super) fn window(allocation: &Allocation, picture: &PictureArgs) -> Result<Window, Failure> {
    let (first, last) = allocation.run().span_us();
    let (from, to) = (picture.from.unwrap_or(first), picture.to.unwrap_or(last));
    if from > to {
        let [from, to] = [from, to].map(|us| us as f64 / 1e6);
        return Err(Failure::Usage(format!(
            "the time from {from} s to {to} s is empty; --to must not be before --from"
        )));
    }
    Ok(Window::new(from, to, picture.width))
}

/// Writes a picture of runs.
pub(super) fn write_picture(path: &Path, picture: &str, runs: &[&Path]) -> Result<(), Failure> {
    output::refuse_inputs(runs, &[path])?;
    fs::write(path, picture).map_err(|error| Failure::Picture(path.to_owned(), error))
}
