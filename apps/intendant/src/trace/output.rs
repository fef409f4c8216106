//! Files that commands write: never files of the run that is read.

use super::failure::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name under which a merged file is written until it is complete.
pub(super) fn part_of(out: &Path) -> PathBuf {
    intendant_analysis::part_of(out)
}

/// Refuses to write files that belong to runs, whatever their names are: links to them are refused as well.
pub(super) fn refuse_inputs(runs: &[&Path], outs: &[&Path]) -> Result<(), Failure> {
    for out in outs {
        let Ok(written) = fs::metadata(out) else {
            continue;
        };
        let is_same = |input: &Path| {
            fs::metadata(input)
                .is_ok_and(|input| (input.dev(), input.ino()) == (written.dev(), written.ino()))
        };
        for run in runs {
            // A run that cannot be read is refused when it is opened, before anything is written.
            let files = intendant_analysis::files_of(run).unwrap_or_default();
            let input = files.into_iter().find(|input| is_same(input));
            if let Some(input) = input {
                return Err(Failure::Usage(format!(
                    "writing {} would destroy {}, which is read; name another file",
                    out.display(),
                    input.display()
                )));
            }
        }
    }
    Ok(())
}
