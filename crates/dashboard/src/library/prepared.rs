//! Prepared runs, which are embedded in the program.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use tempfile::NamedTempFile;

/// The merged files of `traces/`, by name without extension. The build script lists them.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/prepared.rs"));

/// The descriptions of the runs.
const ABOUT: &str = include_str!("../../traces/about.toml");

/// Numbers of the runs.
const RESULTS: &str = include_str!("../../traces/results.toml");

/// The description of a prepared run, for display.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// `kge`, `word2vec` or `mf`.
    task: String,
    technique: String,
    /// `static` or `dynamic`.
    allocation: String,
    /// Techniques of parameter access locality that the task uses.
    techniques_used: Vec<String>,
    data: String,
    /// Nodes, workers and network.
    cluster: String,
    text: String,
    /// Names and values: numbers of all keys, also of those that are not traced.
    #[serde(skip_deserializing)]
    results: Vec<(&'static str, String)>,
    /// The run to compare with.
    pair: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    id: String,
    title: String,
    about: About,
}

#[derive(Debug, Deserialize)]
struct List {
    run: Vec<Described>,
}

/// Numbers of a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    epoch_seconds: f64,
    remote_share: f64,
    relocations: u64,
    replicas: u64,
    sent_bytes: u64,
}

impl Results {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let tenths = (self.sent_bytes + 50_000) / 100_000;
        let megabytes = format!("{}.{} MB", grouped(tenths / 10), tenths % 10);
        vec![
            ("time per epoch", format!("{:.3} s", self.epoch_seconds)),
            ("remote accesses", format!("{:.2} %", self.remote_share * 100.0)),
            ("relocations", grouped(self.relocations)),
            ("replicas set up", grouped(self.replicas)),
            ("bytes sent", megabytes),
        ]
    }
}

/// A number with a comma after each thousand.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let grouped = digits.char_indices().flat_map(|(at, digit)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    });
    grouped.collect()
}

/// A prepared run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) about: About,
    pub(crate) bytes: &'static [u8],
}

/// The prepared runs that are in this program, in the order of their descriptions.
pub(crate) fn all() -> Vec<Prepared> {
    let described = toml::from_str::<List>(ABOUT).map_or_else(|_| Vec::new(), |list| list.run);
    let results: BTreeMap<String, Results> = toml::from_str(RESULTS).unwrap_or_default();
    let prepared = |Described { id, title, mut about }| {
        about.results = results.get(&id).map(Results::lines).unwrap_or_default();
        let (_, bytes) = FILES.iter().find(|(name, _)| *name == id)?;
        Some(Prepared { id, title, about, bytes })
    };
    described.into_iter().filter_map(prepared).collect()
}

/// Writes a run to a temporary file, from which it can be read.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn unpack(bytes: &[u8]) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("intendant-").suffix(".parquet").tempfile()?;
    file.write_all(bytes)?;
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_after_thousands() {
        let results = |relocations, sent_bytes| {
            Results { epoch_seconds: 1.0, remote_share: 0.5, relocations, replicas: 999, sent_bytes }.lines()
        };
        let lines = results(65_107, 1_412_449_999);
        assert_eq!(lines[2].1, "65,107");
        assert_eq!(lines[3].1, "999");
        assert_eq!(lines[4].1, "1,412.4 MB");
        assert_eq!((&*results(1_000_000, 0)[2].1, &*results(0, 50_000)[4].1), ("1,000,000", "0.1 MB"));
    }

    #[test]
    fn every_prepared_run_is_described() {
        let list: List = toml::from_str(ABOUT).unwrap();
        let ids: Vec<&str> = list.run.iter().map(|run| run.id.as_str()).collect();
        for (name, bytes) in FILES {
            assert!(ids.contains(name), "traces/about.toml lacks {name}");
            assert!(bytes.starts_with(b"PAR1"), "{name}");
        }
        for run in &list.run {
            assert!(run.about.pair.as_deref().is_none_or(|pair| ids.contains(&pair)), "{}", run.id);
        }
        let results: BTreeMap<String, Results> = toml::from_str(RESULTS).unwrap();
        assert!(ids.iter().all(|id| results.contains_key(*id)) && all().len() == FILES.len());
        let bytes: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 5 << 20, "prepared traces have {bytes} bytes");
    }
}
