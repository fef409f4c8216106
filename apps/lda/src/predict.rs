//! Writes the proportions of topics in test documents: `--predict FILE`.

use intendant_train::TrainError;
use lda::Mixtures;
use lda::data::Documents;
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::Path;

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks before the training that predictions can be written, and that they replace none of the `inputs`:
/// files that the run reads, with the names of their flags.
pub(crate) fn check(path: &Path, inputs: &[(&str, &Path)]) -> Result<(), TrainError> {
    let refused = |reason: String| TrainError::usage(format!("--predict {}: {reason}", path.display()));
    if path.is_dir() {
        return Err(refused("it is a folder; name a file".to_owned()));
    }
    let same = |other: &Path| match (path.canonicalize(), other.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if let Some((flag, _)) = inputs.iter().find(|(_, input)| same(input)) {
        return Err(refused(format!("{flag} reads this file; name another one")));
    }
    let written = tempfile::NamedTempFile::new_in(folder(path));
    written.map(drop).map_err(|error| refused(format!("cannot write there: {error}")))
}

/// Writes a line for each document. The file appears when it is complete, so that it never has only some of
/// them.
pub(crate) fn write(path: &Path, documents: &Documents, mixtures: &Mixtures) -> Result<(), TrainError> {
    let write = || {
        let mut file = BufWriter::new(tempfile::NamedTempFile::new_in(folder(path))?);
        for (document, mixture) in mixtures.iter().enumerate() {
            write!(file, "{}", documents.name(document))?;
            mixture.iter().try_for_each(|part| write!(file, "\t{part:.6}"))?;
            writeln!(file)?;
        }
        let file = file.into_inner().map_err(IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        // Readable by other users, like any file that a program creates.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(permissions)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().map_err(|source: std::io::Error| TrainError::Write { path: path.into(), source })
}
