//! The formats of files of documents.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The format of a file of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// UCI bag of words: three lines with the numbers of documents, of words and of lines that follow; then
    /// lines with a document, a word (both from 1) and how often it occurs there.
    Bag,
    /// Text: a document per line, of words between blanks.
    Text,
}

impl Format {
    /// The format of a file with this name.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let is_bag = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("docword."));
        if is_bag { Self::Bag } else { Self::Text }
    }

    /// Default minimum count: words that occur less often are left out.
    #[must_use]
    pub const fn min_count(self) -> u64 {
        match self {
            Self::Bag => 1,
            Self::Text => 5,
        }
    }
}
