//! Finds the items of a crate: functions, constants and types, with their text, in all its files.

use crate::rust::{
    Crate, DEFINING, after_generics, after_item, end_of, is_ident, is_punct, path_at, shipped, tokens,
};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A function, constant or type, and the range of its text.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) file: PathBuf,
    /// The type or trait whose block contains the item.
    pub(crate) within: Option<String>,
    pub(crate) name: String,
    pub(crate) bytes: Range<usize>,
}

/// All items of the crate with the source folder `folder`.
pub(crate) fn find(folder: &Path) -> Result<Vec<Item>, String> {
    let root = ["lib.rs", "main.rs"].iter().map(|name| folder.join(name)).find(|path| path.is_file());
    let root = root.ok_or_else(|| format!("{} has neither lib.rs nor main.rs", folder.display()))?;
    let mut found = Vec::new();
    let files: BTreeSet<PathBuf> =
        Crate::read(&root)?.modules.into_iter().map(|module| module.file).collect();
    for file in files {
        let text =
            fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let trees = shipped(tokens(&text).map_err(|what| format!("{} {what}", file.display()))?);
        items_of(&trees, &file, None, &mut found);
    }
    Ok(found)
}

/// Appends the items of `trees`, at all depths.
fn items_of(trees: &[TokenTree], file: &Path, within: Option<&str>, found: &mut Vec<Item>) {
    let mut start = 0;
    let mut at = 0;
    let mut below: Option<String> = within.map(str::to_owned);
    while at < trees.len() {
        match &trees[at] {
            TokenTree::Ident(keyword) => {
                let keyword = keyword.to_string();
                let name = trees.get(at + 1).filter(|tree| matches!(tree, TokenTree::Ident(_)));
                if let Some(name) = name.filter(|_| DEFINING.contains(&keyword.as_str())) {
                    let constant = matches!(keyword.as_str(), "const" | "static" | "type");
                    if !(constant && (is_ident(name, "fn") || is_ident(name, "unsafe"))) {
                        let end = if constant {
                            (end_of(trees, at, ";") + 1).min(trees.len())
                        } else {
                            after_item(trees, at)
                        };
                        let bytes =
                            trees[start].span().byte_range().start..trees[end - 1].span().byte_range().end;
                        let name = name.to_string();
                        found.push(Item {
                            file: file.to_owned(),
                            within: within.map(str::to_owned),
                            name: name.clone(),
                            bytes,
                        });
                        let inner = if keyword == "trait" { Some(name.as_str()) } else { within };
                        for tree in &trees[at..end] {
                            if let TokenTree::Group(group) = tree {
                                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                                items_of(&inside, file, inner, found);
                            }
                        }
                        at = end;
                        start = end;
                        continue;
                    }
                }
                if keyword == "impl" {
                    below = implemented(&trees[at..]).or(below);
                }
                at += 1;
            }
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                items_of(&inside, file, below.as_deref(), found);
                at += 1;
                if group.delimiter() == Delimiter::Brace {
                    below = within.map(str::to_owned);
                    start = at;
                }
            }
            TokenTree::Punct(punct) => {
                at += 1;
                if matches!(punct.as_char(), ';' | ',') {
                    start = at;
                }
            }
            TokenTree::Literal(_) => at += 1,
        }
    }
}

/// The type of an `impl` block; `trees` start at `impl`.
fn implemented(trees: &[TokenTree]) -> Option<String> {
    let header: Vec<TokenTree> = trees
        .iter()
        .take_while(|tree| !is_ident(tree, "where"))
        .take_while(|tree| !matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace))
        .cloned()
        .collect();
    let start = header
        .iter()
        .position(|tree| is_ident(tree, "for"))
        .map_or_else(|| after_generics(&header, 1), |at| at + 1);
    let start = (start..header.len()).find(|at| {
        matches!(&header[*at], TokenTree::Ident(ident) if *ident != "mut" && *ident != "dyn")
            && !(*at > 0 && is_punct(&header[*at - 1], '\''))
    })?;
    path_at(&header, start)?.0.pop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::tests::folder;

    #[test]
    fn items_are_found_wherever_they_are() {
        let text = "#[derive(Debug)]\nstruct S { a: u8 }\nimpl<T: Fn() -> u8> Trait for S {\n    \
                    const N: u8 = 1;\n    /// W.\n    pub(crate) const fn f(&self) -> u8 {\n        \
                    fn nested() {}\n        1\n    }\n}\n\
                    #[cfg(test)]\nfn f() {}\nfn g(a: u8, b: u8) { a; b }\nconst K: [u8; 2] = [1, 2];\n";
        let sources = folder("items", &[("lib.rs", text)]);
        let found: Vec<(String, String)> = find(&sources)
            .unwrap()
            .iter()
            .map(|item| {
                let name = item.within.iter().chain([&item.name]).cloned().collect::<Vec<_>>().join("::");
                (name, text[item.bytes.clone()].to_owned())
            })
            .collect();
        let expected = [
            ("S", "#[derive(Debug)]\nstruct S { a: u8 }"),
            ("S::N", "const N: u8 = 1;"),
            (
                "S::f",
                "/// W.\n    pub(crate) const fn f(&self) -> u8 {\n        fn nested() {}\n        1\n    }",
            ),
            ("S::nested", "fn nested() {}"),
            ("g", "fn g(a: u8, b: u8) { a; b }"),
            ("K", "const K: [u8; 2] = [1, 2];"),
        ];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
}
