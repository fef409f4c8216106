//! Width: lines of Rust, and comment lines of configurations, scripts and protocols, are no wider than
//! rustfmt's limit. rustfmt does not wrap comments.

use super::{Check, Finding};
use crate::rust;
use proc_macro2::TokenTree;
use std::ops::Range;

/// `max_width` of `rustfmt.toml`.
const WIDTH_MAX: usize = 110;

/// Endings of the files whose comment lines are checked, and what begins a comment. A file without an ending
/// is checked if it is a script.
const COMMENTS: [(&str, &str); 5] = [("toml", "#"), ("sh", "#"), ("yml", "#"), ("", "#"), ("proto", "//")];

/// A line that is too wide.
struct Wide {
    /// From 1.
    line: usize,
    columns: usize,
    bytes: Range<usize>,
}

/// Whether the check reads files with this ending.
pub(super) fn reads(ending: &str) -> bool {
    ending == "rs" || mark(ending).is_some()
}

/// Lines of a file that are too wide.
pub(super) fn find(file: &str, ending: &str, text: &str) -> Result<Vec<Finding>, String> {
    let mut wide: Vec<Wide> = wide(text).collect();
    if wide.is_empty() || ending.is_empty() && !text.starts_with("#!") {
        return Ok(Vec::new());
    }
    match mark(ending) {
        Some(mark) => wide.retain(|line| text[line.bytes.clone()].trim_start().starts_with(mark)),
        None => retain_outside_strings(file, text, &mut wide)?,
    }
    let finding = |Wide { line, columns, .. }| Finding {
        check: Check::Width,
        file: file.to_owned(),
        line,
        what: format!("has {columns} columns; at most {WIDTH_MAX} are allowed, also in comments"),
    };
    Ok(wide.into_iter().map(finding).collect())
}

/// What begins a comment in files with this ending; `None` for Rust.
fn mark(ending: &str) -> Option<&'static str> {
    COMMENTS.iter().find(|(known, _)| *known == ending).map(|(_, mark)| *mark)
}

/// The lines that are wider than the limit.
fn wide(text: &str) -> impl Iterator<Item = Wide> + '_ {
    lines(text)
        .enumerate()
        .map(|(number, bytes)| Wide { line: number + 1, columns: text[bytes.clone()].chars().count(), bytes })
        .filter(|line| line.columns > WIDTH_MAX)
}

/// Removes lines of Rust that exceed the limit in a string literal, which may be as wide as its text.
fn retain_outside_strings(file: &str, text: &str, wide: &mut Vec<Wide>) -> Result<(), String> {
    let mut strings = Vec::new();
    literals(rust::tokens(text).map_err(|what| format!("{file} {what}"))?, text, &mut strings);
    wide.retain(|Wide { bytes, .. }| {
        let limit =
            text[bytes.clone()].char_indices().nth(WIDTH_MAX).map_or(bytes.end, |(at, _)| bytes.start + at);
        !strings.iter().any(|string| string.contains(&limit))
    });
    Ok(())
}

/// The byte ranges of lines, without line breaks.
fn lines(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let bytes = start..start + line.trim_end_matches(['\r', '\n']).len();
        start += line.len();
        bytes
    })
}

/// Appends the byte ranges of literals. Documentation comments, which the compiler treats as literals, are
/// left out.
fn literals(trees: Vec<TokenTree>, text: &str, found: &mut Vec<Range<usize>>) {
    for tree in trees {
        match tree {
            TokenTree::Group(group) => literals(group.stream().into_iter().collect(), text, found),
            TokenTree::Literal(literal) => {
                let bytes = literal.span().byte_range();
                if !text[bytes.clone()].starts_with('/') {
                    found.push(bytes);
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_obey_the_width_and_strings_may_exceed_it() {
        let long = "é".repeat(120);
        let text = format!(
            "//! {long}\n/// {long}\nfn f() {{\n    // {long}\n    let a = \"{long}\";\n    let b = 1; // {long}\n    \
             /* {long} */\n    let c = \"\"; // {long}\n}}\n// {}\n",
            &long[..2 * 107]
        );
        assert_eq!(wide_lines("f.rs", "rs", &text), [1, 2, 4, 6, 7, 8]);
    }

    #[test]
    fn comment_lines_of_other_files_obey_the_width() {
        let long = "é".repeat(120);
        let fits = "é".repeat(108);
        let text = format!("#!/bin/sh\n# {long}\n  # {long}\na = '{long}' # {long}\n# {fits}\n// {long}\n");
        for ending in ["toml", "sh", "yml", ""] {
            assert_eq!(wide_lines("f", ending, &text), [2, 3], "{ending}");
        }
        assert_eq!(wide_lines("f.proto", "proto", &text), [6]);
        let no_script = text.trim_start_matches("#!");
        assert!(wide_lines("LICENSE", "", no_script).is_empty(), "a text that is no script");
        assert!(reads("rs") && reads("") && reads("proto") && !reads("md"));
    }

    fn wide_lines(file: &str, ending: &str, text: &str) -> Vec<usize> {
        find(file, ending, text).unwrap().iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_limit_is_that_of_the_formatter() {
        let rules = std::fs::read_to_string(crate::process::root().join("rustfmt.toml")).unwrap();
        assert!(rules.contains(&format!("max_width = {WIDTH_MAX}\n")), "{rules}");
    }
}
