//! Words: no words that hide the actor of a sentence, and no sources cited by a number instead of a key of
//! `docs/references.md`.

use super::{Check, Finding};

/// Endings of the files that are read.
pub(super) const KINDS: [&str; 5] = ["rs", "md", "toml", "proto", "bug"];
/// Sentences should name the actor instead.
const VAGUE: [&str; 3] = ["whoever", "nobody", "somebody"];
/// Sources have keys, listed in `docs/references.md`: `[thesis §3.2.2]`.
const NUMBERS: [&str; 5] = ["000", "001", "002", "003", "004"];
/// This file contains the words that it looks for.
const OWN_FILE: &str = "crates/xtask/src/tidy/words.rs";

pub(super) fn find(file: &str, text: &str) -> Vec<Finding> {
    if file == OWN_FILE {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut report = |what: String| {
            found.push(Finding { check: Check::Words, file: file.to_owned(), line: number + 1, what });
        };
        for (at, word) in words(line) {
            // Names are words as well: `fn nobody_waits`.
            let vague = word.split('_').find(|part| VAGUE.iter().any(|word| word.eq_ignore_ascii_case(part)));
            if let Some(vague) = vague {
                report(format!("'{vague}' hides the actor: name it"));
            } else if NUMBERS.contains(&word) && is_citation(line, at) {
                report(format!("cites '{word}': use a key of docs/references.md, such as [thesis §3.2.2]"));
            }
        }
    }
    found
}

/// The words of a line (letters, digits and underscores), with their positions.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.split(move |c: char| !inside(c)).filter(|word| !word.is_empty()).map(move |word| {
        // Both point into the same string.
        (word.as_ptr() as usize - line.as_ptr() as usize, word)
    })
}

/// Whether the three digits at `at` are a citation: they stand alone, or begin the name of a figure. They are
/// none as part of a number or range (`10,000`, `.001`, `n[001-128]`).
fn is_citation(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    let alone = before.is_none_or(|c| c.is_whitespace() || "(`\"'*/[".contains(c));
    let after = &line[at + 3..];
    let figure = after.starts_with("-fig") || after.starts_with("-tab");
    let mut next = after.chars();
    let number = match next.next() {
        Some('-' | '%') => true,
        Some('.' | ':') => next.next().is_some_and(|c| c.is_ascii_digit()),
        _ => false,
    };
    alone && (figure || !number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_words_and_numbered_sources_are_found() {
        for line in [
            "/// Whoever asks",
            "nobody's",
            "(somebody)",
            "fn nobody_waits()",
            "self.wakes_Somebody_else",
            "fn lost_whoever() {}",
            "__nobody",
            "as in 000 §4.2",
            "(000, theorem 3)",
            "`000-fig-3.8`",
            "source = \"002 Fig 9\"",
            "Source 001, table 5.2",
            "bench-configs/002-tab-3.toml",
            "so says 000.",
            "workers (000: 40,000)",
        ] {
            let found = find("a.md", line);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
        }
        assert_eq!(find("a.md", "a\n\nnobody, whoever\n").iter().map(|f| f.line).collect::<Vec<_>>(), [3, 3]);
    }

    #[test]
    fn numbers_are_no_citations() {
        for line in [
            "10,000 seeds",
            "17,000",
            "0.001",
            ".004",
            "n[001-128]",
            "n001",
            "0001-latch.md",
            "1_000",
            "MRR .003",
        ] {
            assert_eq!(find("a.md", line), [], "{line}");
        }
    }
}
