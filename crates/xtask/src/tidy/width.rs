//! Width: lines are no wider than rustfmt's limit. This covers comments, which rustfmt does not wrap.

use super::{Check, Finding};
use crate::rust;
use proc_macro2::TokenTree;
use std::ops::Range;

/// `max_width` of `rustfmt.toml`.
const WIDTH_MAX: usize = 110;

/// Lines that are too wide. A string literal may be as wide as its text.
pub(super) fn find(file: &str, text: &str) -> Result<Vec<Finding>, String> {
    let wide: Vec<(usize, usize, Range<usize>)> = lines(text)
        .enumerate()
        .map(|(number, bytes)| (number + 1, text[bytes.clone()].chars().count(), bytes))
        .filter(|(_, columns, _)| *columns > WIDTH_MAX)
        .collect();
    if wide.is_empty() {
        return Ok(Vec::new());
    }
    let mut strings = Vec::new();
    literals(rust::tokens(text).map_err(|what| format!("{file} {what}"))?, text, &mut strings);
    let finding = |(line, columns, bytes): (usize, usize, Range<usize>)| {
        let limit =
            text[bytes.clone()].char_indices().nth(WIDTH_MAX).map_or(bytes.end, |(at, _)| bytes.start + at);
        let in_string = strings.iter().any(|string| string.contains(&limit));
        (!in_string).then(|| Finding {
            check: Check::Width,
            file: file.to_owned(),
            line,
            what: format!("has {columns} columns; at most {WIDTH_MAX} are allowed, also in comments"),
        })
    };
    Ok(wide.into_iter().filter_map(finding).collect())
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
        let lines: Vec<usize> = find("f.rs", &text).unwrap().iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2, 4, 6, 7, 8]);
    }

    #[test]
    fn the_limit_is_that_of_the_formatter() {
        let rules = std::fs::read_to_string(crate::process::root().join("rustfmt.toml")).unwrap();
        assert!(rules.contains(&format!("max_width = {WIDTH_MAX}\n")), "{rules}");
    }
}
