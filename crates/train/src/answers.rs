//! What an application writes beside its report and its export: predictions to a file, answers to standard
//! output.

use crate::error::{PathDisplay, TrainError};
use crate::files;
use crate::settings::{DataSource, Plan, TestSource};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Checks on rank 0, before the training, that predictions can be written to the file that `--predict`
/// names, and that they replace none of the files that the run reads: those of `--data` and `--test`, and the
/// `inputs`, with the names of their flags.
///
/// # Errors
/// [`TrainError::Usage`] if they cannot, or do.
pub fn check_predictions(
    path: &Path,
    plan: &Plan,
    inputs: impl IntoIterator<Item = (&'static str, PathBuf)>,
) -> Result<(), TrainError> {
    if plan.rank() != 0 {
        return Ok(());
    }
    let refused = |reason: String| TrainError::usage(format!("--predict {}: {reason}", path.display()));
    if path.is_dir() {
        return Err(refused("it is a folder; name a file".to_owned()));
    }
    let data = match &plan.data {
        Some(DataSource::Path(path)) => Some(("--data", path.clone())),
        Some(DataSource::Builtin(_)) | None => None,
    };
    let test = match &plan.test {
        Some(TestSource::File(path)) => Some(("--test", path.clone())),
        Some(TestSource::Fraction(_)) | None => None,
    };
    let same = |other: &Path| match (path.canonicalize(), other.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let mut inputs = data.into_iter().chain(test).chain(inputs);
    if let Some((flag, _)) = inputs.find(|(_, input)| same(input)) {
        return Err(refused(format!("{flag} reads this file; name another one")));
    }
    let written = NamedTempFile::new_in(files::parent(path));
    written.map(drop).map_err(|error| refused(format!("cannot write there: {error}")))
}

/// Writes predictions. The file appears when it is complete, so that it never has only some of them.
///
/// # Errors
/// [`TrainError::Write`].
pub fn write_predictions(
    path: &Path,
    predictions: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), TrainError> {
    let write = || {
        let mut file = BufWriter::new(NamedTempFile::new_in(files::parent(path))?);
        predictions(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        // Readable by other users, like any file that a program creates.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(permissions)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().map_err(|source: io::Error| TrainError::Write { path: path.into(), source })
}

/// Writes answers to standard output. If the reader has closed it, it has read what it needed.
///
/// # Errors
/// [`TrainError::Write`].
pub fn print(answers: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), TrainError> {
    let mut output = BufWriter::new(io::stdout().lock());
    match answers(&mut output).and_then(|()| output.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(TrainError::Write { path: PathDisplay("standard output".into()), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
