//! Tables of pages that follow from declarations: a test compares them, or writes them.

use std::path::{Path, PathBuf};

/// With this variable in the environment, [`compare`] writes tables instead of comparing them.
const WRITE: &str = "INTENDANT_WRITE_PAGES";

/// Compares `text` with that of the page `page` (a path from the root of the repository) from the line after
/// `<!-- NAME: ... -->` to `<!-- end -->`. With `INTENDANT_WRITE_PAGES=1` in the environment, writes it.
///
/// # Panics
/// If the page has no such place, or another text there, or cannot be read or written.
pub fn compare(page: &str, name: &str, text: &str) {
    let path = root().join(page);
    let found = std::fs::read_to_string(&path).expect("a page");
    let (before, rest) = found.split_once(&format!("<!-- {name}: ")).expect("a table begins");
    let (comment, rest) = rest.split_once("-->\n").expect("a comment ends");
    let (found, after) = rest.split_once("<!-- end -->").expect("a table ends");
    // Twice: matches do not overlap.
    let text = text.replace("|  |", "| |").replace("|  |", "| |");
    if found == text {
        return;
    }
    assert!(
        std::env::var_os(WRITE).is_some(),
        "{page} does not have the text `{name}` of the declarations; with {WRITE}=1, this test writes it:\n{text}"
    );
    let text = format!("{before}<!-- {name}: {comment}-->\n{text}<!-- end -->{after}");
    std::fs::write(&path, text).expect("written");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
