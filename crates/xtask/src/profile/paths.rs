//! To which path a sample belongs: the table `bench-configs/measured/profile.toml`.

use super::frames::Frame;
use crate::process;
use serde::Deserialize;
use std::fmt;

/// Kinds of threads, and their paths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paths {
    pub(super) threads: Vec<Kind>,
    pub(super) paths: Vec<Path>,
}

/// A kind of threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kind {
    pub(super) name: String,
    /// With what names of threads begin.
    begin: String,
}

/// A path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Path {
    pub(super) name: String,
    /// Kinds of threads.
    of: Vec<String>,
    functions: Vec<Pattern>,
}

/// `FILE`, `fn NAME` or `FILE fn NAME`: parts of a function's file and name.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
struct Pattern {
    file: String,
    function: String,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        let (file, function) = match text.strip_prefix("fn ") {
            Some(function) => ("", function),
            None => text.split_once(" fn ").unwrap_or((&text, "")),
        };
        Self { file: file.to_owned(), function: function.to_owned() }
    }
}

impl Pattern {
    fn matches(&self, frame: &Frame) -> bool {
        frame.file.contains(&self.file) && frame.function.contains(&self.function)
    }
}

impl Paths {
    /// Reads the table.
    pub(super) fn read() -> Result<Self, String> {
        let path = process::root().join("bench-configs/measured/profile.toml");
        let wrong = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
        Self::parse(&text).map_err(|error| wrong(&error))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let paths: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for path in &paths.paths {
            if let Some(kind) =
                path.of.iter().find(|kind| paths.threads.iter().all(|other| other.name != **kind))
            {
                return Err(format!("path '{}' is of threads '{kind}', which do not exist", path.name));
            }
        }
        Ok(paths)
    }

    /// The kind of a thread, as its position; `None` for threads of no kind.
    pub(super) fn kind(&self, thread: &str) -> Option<usize> {
        self.threads.iter().position(|kind| thread.starts_with(&kind.begin))
    }

    /// The path of frames of a kind of threads, as its position; `None` for the rest. It is the first one to
    /// which any frame belongs.
    pub(super) fn path(&self, kind: usize, frames: &[Frame]) -> Option<usize> {
        self.of(kind).find(|&path| {
            let patterns = &self.paths[path].functions;
            frames.iter().any(|frame| patterns.iter().any(|pattern| pattern.matches(frame)))
        })
    }

    /// The paths of a kind of threads, as positions.
    pub(super) fn of(&self, kind: usize) -> impl Iterator<Item = usize> {
        let name = &self.threads[kind].name;
        self.paths
            .iter()
            .enumerate()
            .filter(move |(_, path)| path.of.contains(name))
            .map(|(position, _)| position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame { function: function.to_owned(), file: file.to_owned() }
    }

    #[test]
    fn the_first_path_of_any_frame_counts() {
        let paths = Paths::parse(
            "threads = [{name = 'worker', begin = 'worker-'}, {name = 'channel', begin = 'channel-'}]
             [[paths]]
             name = 'samples'
             of = ['worker']
             functions = ['cluster.rs fn sample']
             [[paths]]
             name = 'rows'
             of = ['worker', 'channel']
             functions = ['cluster.rs', 'fn latch']",
        )
        .expect("valid");
        let path = |thread: &str, frames: &[Frame]| {
            let path = paths.path(paths.kind(thread).expect("a kind"), frames)?;
            Some(paths.paths[path].name.as_str())
        };
        let (core, cluster) = ("/library/core/src/ptr.rs", "crates/train/src/cluster.rs");
        let sample = frame("sample<f32>", cluster);
        let latch = frame("latch", "store/src/latch.rs");
        assert_eq!(path("worker-0", &[frame("read", core), latch.clone()]), Some("rows"), "an outer frame");
        assert_eq!(path("worker-0", &[latch, sample.clone()]), Some("samples"), "the first path");
        assert_eq!(path("worker-1", &[frame("row", cluster)]), Some("rows"), "the function matters, too");
        assert_eq!(path("channel-0-0", &[sample]), Some("rows"), "samples are a path of workers");
        assert_eq!(path("worker-0", &[frame("read", core)]), None);
        assert_eq!(paths.kind("loader-0"), None);
        assert_eq!(paths.of(1).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_table_of_the_project_knows_its_functions() {
        let paths = Paths::read().expect("valid");
        for (thread, function, file, name) in KNOWN {
            let kind = paths.kind(thread).expect("a kind");
            let found =
                paths.path(kind, &[frame(function, file)]).map(|path| paths.paths[path].name.as_str());
            assert_eq!(found, Some(name), "{thread}: {function} of {file}");
        }
        let error = Paths::parse("threads = []\n[[paths]]\nname = 'a'\nof = ['b']\nfunctions = []");
        assert!(error.expect_err("no threads").contains("threads 'b', which do not exist"));
    }

    /// Thread, function, file, path.
    const KNOWN: [(&str, &str, &str, &str); 14] = [
        ("worker-0", "imp", "/registry/pulp-0.22.3/src/x86/v3.rs", "arithmetic"),
        ("worker-0", "train<f32>", "/w/apps/word2vec/src/train.rs", "arithmetic"),
        ("worker-0", "sample<f32>", "/w/crates/train/src/cluster.rs", "samples"),
        (
            "worker-0",
            "row<f32>",
            "/w/crates/train/src/cluster.rs",
            "rows, latches, marks, absent checks, copies",
        ),
        (
            "worker-0",
            "mark<f32>",
            "/w/crates/engine/src/node/mod.rs",
            "rows, latches, marks, absent checks, copies",
        ),
        ("worker-0", "?", "/w/crates/store/src/prefetch.rs", "prefetch of rows (waits for memory)"),
        ("loader-0", "new", "/w/apps/mf/src/batch.rs", "data and batches"),
        ("loader-0", "draw", "/w/crates/sampling/src/distribution.rs", "samples"),
        ("channel-0-0", "add<f32>", "/w/crates/techniques/src/combine.rs", "combine"),
        ("channel-0-0", "get_mut<u32>", "/w/crates/engine/src/key_table.rs", "key table"),
        ("channel-0-0", "carry_on<f32>", "/w/crates/engine/src/replication/holder/sending.rs", "replicas"),
        ("channel-0-0", "on_message<f32>", "/w/crates/engine/src/channel/mod.rs", "rest of the engine"),
        ("channel-0-0", "__memmove_avx512_unaligned_erms", "/usr/lib/libc.so.6", "memcpy, memset, memcmp"),
        ("channel-0-0", "clear_page_erms", "[kernel.kallsyms]", "kernel"),
    ];
}
