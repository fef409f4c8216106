//! Parses Rust sources as token trees: just enough syntax to find modules, the paths that they name, and
//! items.
//!
//! Start at [`Crate::read`]. Code under `#[cfg(test)]` is ignored. Types are not resolved, so the target of a
//! method call `x.f()` is unknown.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Upper bound of the `use` declarations that a name is followed through; a longer chain is a cycle of
/// re-exports.
const REEXPORTS_MAX: usize = 16;

/// The modules of a library or program.
pub(crate) struct Crate {
    /// The root is first.
    pub(crate) modules: Vec<Module>,
}

/// A module: a file, or an inline `mod x { … }` of one.
pub(crate) struct Module {
    /// Path from the root; empty for the root.
    pub(crate) path: Vec<String>,
    pub(crate) file: PathBuf,
    pub(crate) uses: Vec<Use>,
    pub(crate) named: Vec<Named>,
    /// Inherent `impl` blocks.
    pub(crate) impls: Vec<Named>,
    /// Names of items that are defined here.
    defined: BTreeSet<String>,
    /// Names that occur outside of `use` declarations.
    pub(crate) words: BTreeSet<String>,
}

/// One name that a `use` declaration imports.
pub(crate) struct Use {
    pub(crate) path: Vec<String>,
    /// The imported name; `*` for a glob.
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Whether it is a re-export.
    pub(crate) visible: bool,
}

/// A path in code.
pub(crate) struct Named {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
}

/// The token trees of a file.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenTree>, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("is not Rust: {error}"))?;
    Ok(stream.into_iter().collect())
}

impl Crate {
    /// The crate whose root module is the file `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut result = Self { modules: Vec::new() };
        let folder = root.parent().unwrap_or(root).to_owned();
        result.read_file(root, &folder, Vec::new())?;
        Ok(result)
    }

    /// Reads a module's file, whose submodules are in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, path: Vec<String>) -> Result<(), String> {
        let text =
            fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let trees = tokens(&text).map_err(|what| format!("{} {what}", file.display()))?;
        self.add(file, folder, path, shipped(trees))
    }

    fn add(
        &mut self,
        file: &Path,
        folder: &Path,
        path: Vec<String>,
        trees: Vec<TokenTree>,
    ) -> Result<(), String> {
        let (trees, children) = split_modules(trees);
        let mut module = Module {
            path: path.clone(),
            file: file.to_owned(),
            uses: Vec::new(),
            named: Vec::new(),
            impls: Vec::new(),
            defined: definitions(&trees),
            words: BTreeSet::new(),
        };
        module.scan(&trees);
        // A variable or a field may have the name of a submodule.
        let is_child = |only: &String| children.iter().any(|(name, _)| name == only);
        module.named.retain(|named| named.path.len() > 1 || !is_child(&named.path[0]));
        module.defined.extend(children.iter().map(|(name, _)| name.clone()));
        self.modules.push(module);
        for (name, body) in children {
            let below = path.iter().cloned().chain([name.clone()]).collect();
            if let Some(body) = body {
                self.add(file, &folder.join(&name), below, body)?;
                continue;
            }
            let (flat, nested) = (folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs"));
            let found = if flat.is_file() { flat } else { nested };
            self.read_file(&found, &folder.join(&name), below)?;
        }
        Ok(())
    }

    /// The number of the module at `path`.
    pub(crate) fn find(&self, path: &[String]) -> Option<usize> {
        self.modules.iter().position(|module| module.path == path)
    }

    /// The module that defines what `path` names in module `from`; `None` for items of other crates.
    pub(crate) fn resolve(&self, from: usize, path: &[String]) -> Option<usize> {
        self.follow(from, path, REEXPORTS_MAX)
    }

    fn follow(&self, from: usize, path: &[String], uses_left: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let (at, rest) = match first.as_str() {
            "crate" => (0, rest),
            "self" => (from, rest),
            "super" => {
                let above = self.modules[from].path.split_last()?.1;
                (self.find(above)?, rest)
            }
            _ => return self.lookup(from, path, uses_left),
        };
        if rest.is_empty() { Some(at) } else { self.lookup(at, rest, uses_left) }
    }

    /// Looks `path` up among the names of module `at`.
    fn lookup(&self, at: usize, path: &[String], uses_left: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        if first == "super" || first == "self" {
            return self.follow(at, path, uses_left);
        }
        let module = &self.modules[at];
        let below: Vec<String> = module.path.iter().cloned().chain([first.clone()]).collect();
        if let Some(child) = self.find(&below) {
            return if rest.is_empty() { Some(child) } else { self.lookup(child, rest, uses_left) };
        }
        if module.defined.contains(first) {
            return Some(at);
        }
        let uses_left = uses_left.checked_sub(1)?;
        let with_rest = |prefix: &[String]| -> Vec<String> {
            prefix.iter().cloned().chain(rest.iter().cloned()).collect()
        };
        if let Some(import) = module.uses.iter().find(|import| import.name == *first) {
            // A name such as `wire` of `use wire::x as wire` names a crate.
            let own = import.path.first() != Some(first) || import.path.len() > 1;
            return if own { self.follow(at, &with_rest(&import.path), uses_left) } else { None };
        }
        let globs = module.uses.iter().filter(|import| import.name == "*");
        globs
            .filter_map(|import| {
                let inside: Vec<String> = import.path.iter().cloned().chain([first.clone()]).collect();
                self.follow(at, &with_rest(&inside), uses_left)
            })
            .next()
    }
}

impl Module {
    /// Records the paths that are named, at all depths.
    fn scan(&mut self, trees: &[TokenTree]) {
        let mut at = 0;
        while at < trees.len() {
            if is_ident(&trees[at], "use") {
                let visible = at > 0
                    && (is_ident(&trees[at - 1], "pub") || matches!(&trees[at - 1], TokenTree::Group(_)));
                let end = end_of(trees, at, ";");
                imports(&trees[at + 1..end], &[], visible, &mut self.uses);
                at = end + 1;
            } else if is_ident(&trees[at], "impl") {
                if let Some(named) = inherent(&trees[at..]).filter(|_| begins_block(trees, at)) {
                    self.impls.push(named);
                }
                at += 1;
            } else if let Some((path, after)) = path_at(trees, at) {
                self.words.extend(path.iter().cloned());
                self.named.push(Named { path, line: line(&trees[at]) });
                at = after;
            } else {
                if let TokenTree::Group(group) = &trees[at] {
                    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.scan(&inside);
                }
                at += 1;
            }
        }
    }
}

/// The line on which a token starts, from 1.
pub(crate) fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}

pub(crate) fn is_ident(tree: &TokenTree, name: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if *ident == name)
}

pub(crate) fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// Whether `::` is at `at`.
fn is_separator(trees: &[TokenTree], at: usize) -> bool {
    trees.get(at).is_some_and(|tree| is_punct(tree, ':'))
        && trees.get(at + 1).is_some_and(|tree| is_punct(tree, ':'))
}

/// Index of the first of the punctuation characters `ends`, from `at` on.
pub(crate) fn end_of(trees: &[TokenTree], at: usize, ends: &str) -> usize {
    let found = trees[at..]
        .iter()
        .position(|tree| matches!(tree, TokenTree::Punct(punct) if ends.contains(punct.as_char())));
    found.map_or(trees.len(), |offset| at + offset)
}

/// The path that starts at `at`, and the index after it; `None` for names of fields and methods.
pub(crate) fn path_at(trees: &[TokenTree], at: usize) -> Option<(Vec<String>, usize)> {
    let TokenTree::Ident(first) = &trees[at] else { return None };
    let mut path = vec![first.to_string()];
    let mut next = at + 1;
    while is_separator(trees, next) {
        let Some(TokenTree::Ident(ident)) = trees.get(next + 2) else { break };
        path.push(ident.to_string());
        next += 3;
    }
    let member = at > 0 && is_punct(&trees[at - 1], '.');
    Some((if member { Vec::new() } else { path }, next)).filter(|(path, _)| !path.is_empty())
}

/// Appends the names that a `use` tree imports.
fn imports(trees: &[TokenTree], prefix: &[String], visible: bool, found: &mut Vec<Use>) {
    let mut path = prefix.to_vec();
    let mut at = if is_separator(trees, 0) { 2 } else { 0 };
    let Some(first) = trees.get(at) else { return };
    let line = line(first);
    let mut name = None;
    while let Some(tree) = trees.get(at) {
        match tree {
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inside.split(|tree| is_punct(tree, ',')) {
                    imports(part, &path, visible, found);
                }
                return;
            }
            TokenTree::Ident(ident) if *ident == "as" => {
                name = trees.get(at + 1).map(ToString::to_string);
                break;
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => name = Some("*".to_owned()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
    if path.len() > prefix.len() && path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
    found.push(Use { path, name, line, visible });
}

/// Whether the `impl` at `at` begins a block; otherwise it is a part of a type, as in `&impl Trait`.
fn begins_block(trees: &[TokenTree], at: usize) -> bool {
    let is_body =
        |tree: &TokenTree| matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    let is_after_item = at.checked_sub(1).is_none_or(|before| {
        let before = &trees[before];
        // Of `pub mod x;`, `pub` is left.
        matches!(before, TokenTree::Group(_)) || is_punct(before, ';') || is_ident(before, "pub")
    });
    is_after_item && trees[at..].iter().any(is_body)
}

/// The type of an `impl` block without a trait; `trees` start at `impl`.
fn inherent(trees: &[TokenTree]) -> Option<Named> {
    let header: Vec<&TokenTree> = trees
        .iter()
        .take_while(|tree| !is_ident(tree, "where"))
        .take_while(|tree| !matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace))
        .collect();
    if header.iter().any(|tree| is_ident(tree, "for")) {
        return None;
    }
    let header: Vec<TokenTree> = header.into_iter().cloned().collect();
    let start = after_generics(&header, 1);
    let (path, _) = path_at(&header, start).filter(|_| start < header.len())?;
    Some(Named { path, line: line(&header[0]) })
}

/// Index after the `<…>` at `at`; `at` itself if there is none.
pub(crate) fn after_generics(trees: &[TokenTree], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, tree) in trees.iter().enumerate().skip(at) {
        let arrow = index > 0 && is_punct(&trees[index - 1], '-');
        if is_punct(tree, '<') {
            depth += 1;
        } else if is_punct(tree, '>') && !arrow {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return index + 1;
            }
        } else if depth == 0 {
            return index;
        }
    }
    trees.len()
}

/// The trees without code under `#[cfg(test)]`, at all depths.
pub(crate) fn shipped(trees: Vec<TokenTree>) -> Vec<TokenTree> {
    let mut kept: Vec<TokenTree> = Vec::new();
    let mut at = 0;
    while at < trees.len() {
        if is_punct(&trees[at], '#') && trees.get(at + 1).is_some_and(is_test_only) {
            at = after_item(&trees, at + 2);
            continue;
        }
        kept.push(match &trees[at] {
            TokenTree::Group(group) => {
                let inside = shipped(group.stream().into_iter().collect());
                let mut copy = proc_macro2::Group::new(group.delimiter(), inside.into_iter().collect());
                copy.set_span(group.span());
                TokenTree::Group(copy)
            }
            other @ (TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) => other.clone(),
        });
        at += 1;
    }
    kept
}

/// Whether an attribute's brackets hold `cfg(test)` or a conjunction with it.
fn is_test_only(tree: &TokenTree) -> bool {
    let text = tree.to_string().replace(char::is_whitespace, "");
    text == "[cfg(test)]"
        || (text.starts_with("[cfg(all(") && text.contains("test") && !text.contains("not(test"))
}

/// Index after the item, field or statement that starts at `at`.
pub(crate) fn after_item(trees: &[TokenTree], mut at: usize) -> usize {
    // Further attributes belong to it.
    while trees.get(at).is_some_and(|tree| is_punct(tree, '#')) {
        at += 2;
    }
    let keyword = |tree: &TokenTree| {
        if let TokenTree::Ident(ident) = tree { Some(ident.to_string()) } else { None }
    };
    let blocks = ["fn", "mod", "impl", "struct", "enum", "union", "trait", "macro_rules"];
    let lines = ["use", "const", "static", "type", "let"];
    let mut ends_at_block = true;
    let mut ends = ";,";
    for name in trees[at..].iter().take_while(|tree| !is_punct(tree, ';')).filter_map(keyword) {
        if blocks.contains(&name.as_str()) {
            ends = ";";
            break;
        }
        if lines.contains(&name.as_str()) && name != "const" || name == "const" && is_constant(&trees[at..]) {
            (ends, ends_at_block) = (";", false);
            break;
        }
    }
    for (index, tree) in trees.iter().enumerate().skip(at) {
        let block = matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if (block && ends_at_block) || ends.chars().any(|end| is_punct(tree, end)) {
            return index + 1;
        }
    }
    trees.len()
}

/// Whether `const` starts a constant here, not a function.
fn is_constant(trees: &[TokenTree]) -> bool {
    let after = trees.iter().position(|tree| is_ident(tree, "const")).and_then(|at| trees.get(at + 1));
    !after.is_some_and(|tree| is_ident(tree, "fn") || is_ident(tree, "unsafe"))
}

/// A submodule, with its body if that is inline.
type Child = (String, Option<Vec<TokenTree>>);

/// Splits the trees of a module into its own and its submodules.
fn split_modules(trees: Vec<TokenTree>) -> (Vec<TokenTree>, Vec<Child>) {
    let (mut own, mut children) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < trees.len() {
        let name = trees.get(at + 1).filter(|_| is_ident(&trees[at], "mod"));
        match (name, trees.get(at + 2)) {
            (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) => {
                children.push((name.to_string(), Some(body.stream().into_iter().collect())));
                at += 3;
            }
            (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(_))) => {
                children.push((name.to_string(), None));
                at += 3;
            }
            _ => {
                own.push(trees[at].clone());
                at += 1;
            }
        }
    }
    (own, children)
}

pub(crate) const DEFINING: [&str; 8] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];

/// Names of the items of a module.
fn definitions(trees: &[TokenTree]) -> BTreeSet<String> {
    let names = trees.windows(2).filter_map(|pair| match pair {
        [TokenTree::Ident(keyword), TokenTree::Ident(name)]
            if DEFINING.contains(&keyword.to_string().as_str()) =>
        {
            Some(name.to_string())
        }
        _ => None,
    });
    names.collect()
}

/// The modules of each file.
pub(crate) fn files(modules: &[Module]) -> BTreeMap<&Path, Vec<usize>> {
    let mut files: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (number, module) in modules.iter().enumerate() {
        files.entry(&module.file).or_default().push(number);
    }
    files
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder with a crate of these files below `src`.
    pub(crate) fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = crate::process::root().join("target").join("xtask-tests").join(name);
        // Removes files of an earlier run.
        let _ = fs::remove_dir_all(&folder);
        for (file, text) in files {
            let path = folder.join("src").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder.join("src")
    }

    fn path(text: &str) -> Vec<String> {
        text.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn a_name_is_resolved_to_the_module_that_defines_it() {
        let sources = folder(
            "resolve",
            &[
                ("lib.rs", "mod a;\nmod b;\npub use a::inner::Thing;\n#[cfg(test)]\nmod tests;\n"),
                ("a/mod.rs", "pub(crate) mod inner;\npub(crate) use inner::*;\nuse super::b as other;\n"),
                ("a/inner.rs", "pub struct Thing;\npub fn act() {}\n"),
                ("b.rs", "use crate::{Thing, a::{self, act as go}};\nfn f() { super::a::inner::act() }\n"),
            ],
        );
        let found = Crate::read(&sources.join("lib.rs")).unwrap();
        let names: Vec<String> = found.modules.iter().map(|module| module.path.join("::")).collect();
        assert_eq!(names, ["", "a", "a::inner", "b"], "without tests");
        let from_b = |text| found.resolve(3, &path(text)).map(|at| names[at].as_str());
        for (text, module) in [
            ("crate::Thing", Some("a::inner")),
            ("Thing", Some("a::inner")),
            ("a::Thing", Some("a::inner")),
            ("go", Some("a::inner")),
            ("crate::a::other::f", Some("b")),
            ("super::a", Some("a")),
            ("std::fmt", None),
        ] {
            assert_eq!(from_b(text), module, "{text}");
        }
    }

    #[test]
    fn types_with_impl_and_variables_named_as_modules_name_nothing() {
        let sources = folder(
            "parts",
            &[
                ("lib.rs", "pub mod a;\nimpl S {}\nfn f(a: impl T, b: (impl U,)) -> impl W { a::g(a) }\n"),
                ("a.rs", "#[derive(Clone)]\npub struct A;\nimpl<T> A<T> {}\nimpl X for A {}\n"),
            ],
        );
        let found = Crate::read(&sources.join("lib.rs")).unwrap();
        let paths = |named: &[Named]| named.iter().map(|named| named.path.join("::")).collect::<Vec<_>>();
        let impls: Vec<_> = found.modules.iter().map(|module| paths(&module.impls)).collect();
        assert_eq!(impls, [["S"], ["A"]]);
        let named = paths(&found.modules[0].named);
        assert!(named.contains(&"a::g".to_owned()) && !named.contains(&"a".to_owned()), "{named:?}");
    }
}
