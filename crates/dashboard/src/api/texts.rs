//! Texts of traces, as long as a page shows them.

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

/// Letters of a text from a trace. Names are short; others come from no run of ours.
const LETTERS_MAX: usize = 200;

/// Text of a trace, as long as a page shows it.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
