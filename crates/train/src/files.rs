//! Files that a run writes, and the files that it must not write over.
//!
//! A regular file is written under another name and then renamed: a reader sees the old file or the new one,
//! never a part. Links are followed. A device, a pipe, and a file that already is this process's output are
//! written as streams, and stay what they are.

use crate::error::TrainError;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every configuration that a run writes begins with this line.
pub(crate) const CONFIG_HEADER: &str = "# Effective configuration of a run; --config reads it.";

/// Links that are followed to a file that does not exist, as the Linux kernel does.
const LINKS_MAX: usize = 40;

/// A file or folder that the run reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// The flag that names it.
    pub(crate) flag: String,
    pub(crate) path: PathBuf,
}

impl Input {
    /// What a flag names.
    pub(crate) fn new(flag: &str, path: impl Into<PathBuf>) -> Self {
        Self { flag: flag.to_owned(), path: path.into() }
    }

    /// Whether it is in a folder, or is the folder.
    pub(crate) fn is_inside(&self, folder: &Path) -> bool {
        fs::canonicalize(&self.path).is_ok_and(|path| path.starts_with(folder))
    }

    /// Whether it is a folder that contains another one.
    pub(crate) fn contains(&self, folder: &Path) -> bool {
        let resolved = [fs::canonicalize(&self.path), fs::canonicalize(folder)];
        matches!(resolved, [Ok(this), Ok(other)] if other.starts_with(&this))
    }

    /// Whether writing `path` would change it: it is that file, or a folder with that file, unless that is an
    /// earlier report.
    fn is_changed_by(&self, path: &Path) -> bool {
        let Ok(written) = fs::metadata(path) else { return false };
        match fs::metadata(&self.path) {
            Ok(read) if read.is_dir() => {
                let folders = [fs::canonicalize(path), fs::canonicalize(&self.path)];
                matches!(folders, [Ok(file), Ok(folder)] if file.parent() == Some(&folder))
                    && !is_report(path)
            }
            Ok(read) => is_same(&written, &read),
            Err(_) => false,
        }
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether a file begins like a report, or like the history or the configuration next to one.
fn is_report(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    let start = String::from_utf8_lossy(&start);
    let is_ours = start.contains("\"intendant.report/") || start.contains("\"intendant.history/");
    read.is_ok() && (is_ours || start.starts_with(CONFIG_HEADER))
}

/// The destination of the bytes of an output.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// A regular file, or none yet; links are resolved.
    File(PathBuf),
    /// A device, a pipe, or a file that is open as standard output or error.
    Stream,
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() || is_open(&found) => Ok(Self::Stream),
            Ok(_) => Ok(Self::File(fs::canonicalize(path)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::File(follow(path)?)),
            Err(error) => Err(error),
        }
    }
}

/// Whether a file is this process's standard output or error.
fn is_open(file: &Metadata) -> bool {
    let open = [rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())];
    open.into_iter().flatten().any(|open| (file.dev(), file.ino()) == (open.st_dev, open.st_ino))
}

/// The end of a chain of links that ends at no file.
pub(crate) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = parent(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("there are too many links"))
}

/// The folder of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether an output can have other files next to it.
pub(crate) fn has_place_beside(path: &Path) -> bool {
    !matches!(Target::of(path), Ok(Target::Stream))
}

/// Checks before the training whether an output can be written: `flag` writes `what` to `path`.
pub(crate) fn check(flag: &str, what: &str, path: &Path, inputs: &[Input]) -> Result<(), TrainError> {
    let refused = |reason: String| TrainError::usage(format!("{flag} {}: {reason}", path.display()));
    if let Some(input) = inputs.iter().find(|input| input.is_changed_by(path)) {
        return Err(TrainError::usage(format!(
            "{flag} would write {what} over {}, which {} reads; name another {}",
            path.display(),
            input.flag,
            flag.trim_start_matches("--")
        )));
    }
    let target = match Target::of(path) {
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            return Err(refused("this is a folder; name a file in it".to_owned()));
        }
        Err(error) => return Err(refused(format!("cannot be written: {error}"))),
    };
    let Target::File(file) = target else { return Ok(()) };
    let folder = parent(&file);
    if !folder.is_dir() {
        return Err(refused(format!("there is no folder {}; create it", folder.display())));
    }
    let probe = folder.join(format!(".intendant.{}.probe", std::process::id()));
    let probed = File::create(&probe).and_then(|_| fs::remove_file(&probe));
    probed.map_err(|error| refused(format!("cannot write in {}: {error}", folder.display())))
}

/// Writes an output.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match Target::of(path)? {
        // Appended: what else this process has written there must stay.
        Target::Stream => OpenOptions::new().append(true).open(path)?.write_all(bytes),
        Target::File(file) => write_whole(&file, bytes),
    }
}

/// Replaces an output that grows by what it begins with; the file that more is appended to.
pub(crate) fn begin(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let open = |path: &Path| OpenOptions::new().append(true).open(path);
    match Target::of(path)? {
        Target::Stream => {
            let mut stream = open(path)?;
            stream.write_all(bytes)?;
            Ok(stream)
        }
        Target::File(file) => {
            write_whole(&file, bytes)?;
            open(&file)
        }
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(ErrorKind::InvalidFilename)?.to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = create_synced(&partial, bytes)
        .and_then(|()| match fs::metadata(path) {
            Ok(earlier) => fs::set_permissions(&partial, earlier.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| fs::rename(&partial, path))
        .and_then(|()| sync_parent(path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Creates a file that survives a power failure.
pub(crate) fn create_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder survive a power failure.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems do not sync folders.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Makes the name of a file survive a power failure.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    sync_folder(parent(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn input(path: &Path) -> Input {
        Input { flag: "--data".to_owned(), path: path.to_owned() }
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.json");
        write(&path, b"old and longer").expect("written");
        write(&path, b"new").expect("replaced");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        let blocked = folder.path().join("folder");
        fs::create_dir(&blocked).expect("a folder in the way");
        assert!(write(&blocked, b"x").is_err());
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).expect("listed").map(|e| e.expect("entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["folder", "r.json"]);
    }

    #[test]
    fn links_are_followed_and_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, chain, file) =
            (folder.path().join("link"), folder.path().join("chain"), folder.path().join("file"));
        symlink("file", &link).expect("linked");
        symlink(&link, &chain).expect("linked");
        for text in [&b"first"[..], b"second"] {
            write(&chain, text).expect("written");
            assert_eq!(fs::read(&file).expect("there"), text);
            assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
            assert!(fs::symlink_metadata(&chain).expect("there").is_symlink());
        }
        let circle = folder.path().join("circle");
        symlink("circle", &circle).expect("linked");
        assert!(write(&circle, b"x").is_err());
    }

    #[test]
    fn devices_and_pipes_are_written_as_streams() {
        write(Path::new("/dev/null"), b"x").expect("taken");
        let full = write(Path::new("/dev/full"), b"x").expect_err("it is full");
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).expect("read")
        });
        write(&pipe, b"through").expect("written");
        assert_eq!(reader.join().expect("no panic"), b"through");
        assert!(!fs::symlink_metadata(&pipe).expect("there").is_file());
    }

    #[test]
    fn what_the_run_reads_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (read, link, other) =
            (folder.path().join("in"), folder.path().join("link"), folder.path().join("out"));
        fs::write(&read, "mine").expect("written");
        symlink(&read, &link).expect("linked");
        let refused = |path: &Path, inputs: &[Input]| {
            check("--report", "the report", path, inputs).map_err(|error| error.to_string())
        };
        let said = refused(&link, &[input(&read)]).expect_err("the same file");
        assert!(
            said.starts_with("--report would write the report over ") && said.contains("which --data reads"),
            "{said}"
        );
        assert_eq!(refused(&other, &[input(&read), input(folder.path())]), Ok(()));
        // In a folder that is read, a file may come on top, and a report replace a report.
        assert!(refused(&read, &[input(folder.path())]).is_err());
        fs::write(&other, "{\n  \"schema\": \"intendant.report/1\",\n").expect("written");
        assert_eq!(refused(&other, &[input(folder.path())]), Ok(()));
    }

    #[test]
    fn an_output_that_cannot_be_written_is_known_before_training() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused =
            |path: &Path| check("--report", "the report", path, &[]).expect_err("refused").to_string();
        assert!(check("--report", "the report", &folder.path().join("r.json"), &[]).is_ok());
        assert!(
            check("--report", "the report", Path::new("/dev/full"), &[]).is_ok(),
            "a device takes it or not"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0, "the probe is gone");
        assert!(refused(folder.path()).contains("this is a folder"));
        assert!(refused(&folder.path().join("no/r.json")).contains("there is no folder"));
        // Not even root can create files there.
        #[cfg(target_os = "linux")]
        assert!(refused(Path::new("/proc/r.json")).contains("cannot write in /proc"));
    }
}
