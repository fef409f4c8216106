//! Cycles: files depend on each other in one direction, so that each can be understood after those that it
//! names.
//!
//! A file depends on another one if it names an item of it, by a `use` declaration or a path. It also depends
//! on a file that adds methods to its type (an inherent `impl` block outside of the type's module and those
//! below it). A re-export is a dependency only if the module itself uses the name.

use super::{Check, Finding, relative};
use crate::rust::{self, Crate};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// By file: the files that it names, each with the line and the name.
type Edges<'a> = BTreeMap<&'a Path, BTreeMap<&'a Path, (usize, String)>>;

/// Finds the files of the crate at `root_file` that are in cycles, each with a shortest one.
pub(super) fn find(root: &Path, root_file: &str) -> Result<Vec<Finding>, String> {
    let found = Crate::read(&root.join(root_file))?;
    let edges = edges(&found);
    let cycles = edges.keys().filter_map(|file| shortest(&edges, file));
    Ok(cycles.map(|cycle| describe(root, &edges, &cycle)).collect())
}

/// The finding for the first file of a cycle.
fn describe(root: &Path, edges: &Edges<'_>, cycle: &[&Path]) -> Finding {
    let names: Vec<String> = cycle
        .iter()
        .zip(cycle.iter().skip(1).chain(cycle.first()))
        .map(|(from, to)| {
            let (line, name) = &edges[from][to];
            format!("{}:{line} names `{name}` of {}", relative(root, from), relative(root, to))
        })
        .collect();
    let (line, _) = edges[cycle[0]][cycle[1]];
    let what = format!("is in a cycle of files: {}", names.join(", "));
    Finding { check: Check::Cycles, file: relative(root, cycle[0]), line, what }
}

fn edges(found: &Crate) -> Edges<'_> {
    let mut edges: Edges<'_> = BTreeMap::new();
    for file in rust::files(&found.modules).into_keys() {
        edges.insert(file, BTreeMap::new());
    }
    let mut add = |from: usize, to: usize, line: usize, name: String| {
        let (from, to) = (found.modules[from].file.as_path(), found.modules[to].file.as_path());
        if from != to {
            edges.entry(from).or_default().entry(to).or_insert((line, name));
        }
    };
    for (number, module) in found.modules.iter().enumerate() {
        for import in &module.uses {
            if import.visible && !module.words.contains(&import.name) {
                continue;
            }
            if let Some(target) = found.resolve(number, &import.path) {
                add(number, target, import.line, import.path.join("::"));
            }
        }
        for named in &module.named {
            // The scope of a visibility, as in `pub(super)`, is no dependency.
            if matches!(&named.path[..], [only] if matches!(only.as_str(), "super" | "crate" | "self")) {
                continue;
            }
            if let Some(target) = found.resolve(number, &named.path) {
                add(number, target, named.line, named.path.join("::"));
            }
        }
        for block in &module.impls {
            let Some(home) = found.resolve(number, &block.path) else { continue };
            if !module.path.starts_with(&found.modules[home].path) || found.modules[home].path.is_empty() {
                add(home, number, block.line, format!("impl {}", block.path.join("::")));
            }
        }
    }
    edges
}

/// The shortest path from `start` back to itself.
fn shortest<'a>(edges: &Edges<'a>, start: &'a Path) -> Option<Vec<&'a Path>> {
    let mut came_from: BTreeMap<&Path, &'a Path> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in edges[at].keys() {
            if *next == start {
                let mut way = vec![at];
                while let Some(before) = came_from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::tests::folder;

    fn cycle(name: &str, files: &[(&str, &str)]) -> Option<String> {
        let sources = folder(name, files);
        let findings = find(sources.parent().unwrap(), "src/lib.rs").unwrap();
        findings.first().map(ToString::to_string)
    }

    #[test]
    fn a_cycle_is_found_and_described() {
        let finding = cycle(
            "cycle",
            &[
                ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
                ("a.rs", "use crate::b::{B};\npub struct A;\n"),
                ("b.rs", "pub struct B;\nfn f() -> super::c::C { todo!() }\n"),
                ("c.rs", "pub struct C;\nuse crate::A;\n"),
            ],
        );
        let expected = "src/a.rs:1: is in a cycle of files: src/a.rs:1 names `crate::b::B` of src/b.rs, \
                        src/b.rs:2 names `super::c::C` of src/c.rs, src/c.rs:2 names `crate::A` of src/a.rs";
        assert_eq!(finding.as_deref(), Some(expected));
    }

    #[test]
    fn each_file_of_a_cycle_is_found() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "pub struct A;\nuse crate::b::B;\n"),
            ("b.rs", "pub struct B;\nuse crate::a::A;\n"),
            ("c.rs", "use crate::a::A;\n"),
        ];
        let sources = folder("files", &files);
        let findings = find(sources.parent().unwrap(), "src/lib.rs").unwrap();
        let found: Vec<&str> = findings.iter().map(|finding| finding.file.as_str()).collect();
        assert_eq!(found, ["src/a.rs", "src/b.rs"], "the one that only names them is in none");
    }

    #[test]
    fn a_type_whose_methods_are_elsewhere_depends_on_them() {
        let files = |below: &'static str| {
            [("lib.rs", "mod a;\nmod b;\n"), ("a.rs", below), ("b.rs", "use crate::a::A;\nimpl<T> A<T> {}\n")]
        };
        let finding = cycle("split", &files("pub struct A<T>(T);\n")).unwrap();
        assert!(finding.contains("src/a.rs:2 names `impl A` of src/b.rs"), "{finding}");
        let inside = [
            ("lib.rs", "mod a;\n"),
            ("a.rs", "mod below;\npub struct A;\n"),
            ("a/below.rs", "use super::A;\nimpl A {}\n"),
        ];
        assert_eq!(cycle("below", &inside), None, "one type, in a file of its own and one below");
    }

    #[test]
    fn the_scope_of_a_visibility_is_no_use() {
        let files = [
            ("lib.rs", "mod a;\n"),
            ("a.rs", "mod b;\nuse b::B;\npub struct A(B);\n"),
            ("a/b.rs", "pub struct B;\nimpl B { pub(super) fn f() {} }\n"),
        ];
        assert_eq!(cycle("visibility", &files), None);
    }

    #[test]
    fn unused_re_exports_are_no_dependency() {
        let files = [
            ("lib.rs", "mod a;\npub use a::A;\n"),
            ("a.rs", "mod b;\npub use b::B;\npub struct A;\n#[cfg(test)]\nmod tests { use super::b::B; }\n"),
            ("a/b.rs", "use crate::a::A;\npub struct B(A);\n"),
        ];
        assert_eq!(cycle("facade", &files), None);
        let used = [files[0], ("a.rs", "mod b;\npub use b::B;\npub struct A(Option<B>);\n"), files[2]];
        assert!(cycle("used", &used).is_some());
    }
}
