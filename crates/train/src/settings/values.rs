//! Values of common flags: where data come from, how a worker reaches its node, which model is kept. The
//! errors of texts that are no values name what is allowed.

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The source of the training data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// A data set that is built into the application, by name.
    Builtin(String),
    /// A file or folder.
    Path(PathBuf),
}

impl FromStr for DataSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        data(text)
    }
}

/// The source of test or validation data, if it is not part of the data set.
#[derive(Clone, Debug, PartialEq)]
pub enum TestSource {
    /// This part of the training data is held out; greater than 0, less than 1.
    Fraction(f64),
    /// A file.
    File(PathBuf),
}

impl FromStr for TestSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        test(text)
    }
}

/// How workers access values that their node holds [thesis §3.2.3, §3.3.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAccess {
    /// In shared memory.
    Shared,
    /// Through the queue of a channel's thread in the same process.
    Queue,
    /// Through messages to another process. Only simulated: workers and channels of a real node share a
    /// process.
    Ipc,
}

impl LocalAccess {
    /// How the engine accesses the values.
    pub(crate) const fn of_engine(self) -> intendant::LocalAccess {
        match self {
            Self::Shared => intendant::LocalAccess::Shared,
            Self::Queue | Self::Ipc => intendant::LocalAccess::Queue,
        }
    }
}

impl fmt::Display for LocalAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Queue => "queue",
            Self::Ipc => "ipc",
        })
    }
}

impl FromStr for LocalAccess {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a way to local values", name, [Self::Shared, Self::Queue, Self::Ipc])
    }
}

/// Which checkpoints are kept, and which model of the run is tested and exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The newest ones; the last model.
    #[default]
    Last,
    /// Also the one with the best model; that model.
    Best,
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Last => "last",
            Self::Best => "best",
        })
    }
}

impl FromStr for Keep {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a model to keep", name, [Self::Last, Self::Best])
    }
}

pub(crate) fn data(text: &str) -> Result<DataSource, String> {
    match text.strip_prefix("builtin:") {
        Some("") => Err("builtin: needs the name of a data set after the colon".to_owned()),
        Some(name) => Ok(DataSource::Builtin(name.to_owned())),
        None if text.is_empty() => Err("the path is empty".to_owned()),
        None => Ok(DataSource::Path(text.into())),
    }
}

pub(crate) fn test(text: &str) -> Result<TestSource, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part < 1.0 => Ok(TestSource::Fraction(part)),
        Ok(_) => Err("a fraction must be greater than 0 and less than 1".to_owned()),
        Err(_) if text.is_empty() => Err("the path is empty".to_owned()),
        Err(_) => Ok(TestSource::File(text.into())),
    }
}

/// Seconds between two checkpoints.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    const ALLOWED: std::ops::RangeInclusive<f64> = 0.0..=604_800.0;
    match text.parse::<f64>() {
        Ok(seconds) if ALLOWED.contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("use seconds between 0 and 604800 (a week)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_data_is_a_file_or_a_proper_fraction() {
        assert_eq!(test("0.1"), Ok(TestSource::Fraction(0.1)));
        assert_eq!(test("held/out.txt"), Ok(TestSource::File("held/out.txt".into())));
        for wrong in ["0", "1", "1.5", "-0.1", "nan", ""] {
            assert!(test(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn data_names_a_built_in_set_or_a_path() {
        assert_eq!(data("builtin:codex-s"), Ok(DataSource::Builtin("codex-s".to_owned())));
        assert_eq!(data("some/folder"), Ok(DataSource::Path("some/folder".into())));
        assert!(data("builtin:").is_err());
        assert!(data("").is_err());
    }
}
