//! Texts from traces, shortened to the length that a page shows.

use crate::library::Loaded;
use serde::Serialize;

/// The name of a key's range.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct RangeName(String);

impl RangeName {
    pub(super) fn of(run: &Loaded, key: u64) -> Self {
        Self(run.allocation.run().name(key).map_or_else(|| "unknown".to_owned(), |(name, _)| shortened(name)))
    }
}

/// The most letters of a text from a trace. The names of real runs are shorter.
const LETTERS_MAX: usize = 200;

/// Shortens a text from a trace to the length that a page shows.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
