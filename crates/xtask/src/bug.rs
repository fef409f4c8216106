//! Planted bugs: parses the descriptions in `bugs/*.bug` and applies their edits to the sources.
//!
//! ```text
//! Description of the bug.
//! caught-by: history values      checks that may find it; `nothing` for a control, which must pass
//! run: --mode async              options of `cargo xtask sim`; one line per run, each of which must find it
//! seeds: 500                     number of seeds within which a run must find it
//! figures: thesis-fig-5.14       instead of `run:` and `seeds:`: figures that must fail at scale ci
//! in: engine::Channel::handle    crate, type or trait, item (function, constant or type), in any file
//! <<<<
//! text that occurs exactly once in the item, however it is formatted
//! ====
//! text that replaces it
//! >>>>
//! ```
//!
//! The type may be omitted if the text occurs in only one item of that name. Moving an item to another file
//! or type therefore needs no change of a description.

use crate::items::{self, Item};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An edit of an item: replaces a text that occurs in it once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Folder below `crates` of the crate with the item.
    package: String,
    /// The type or trait whose block contains the item.
    within: Option<String>,
    item: String,
    find: String,
    replace: String,
}

/// The items of the unmodified workspace, found once per crate.
pub(crate) struct Sources {
    root: PathBuf,
    packages: BTreeMap<String, Vec<Item>>,
}

impl Sources {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), packages: BTreeMap::new() }
    }

    fn items(&mut self, package: &str) -> Result<&[Item], String> {
        if !self.packages.contains_key(package) {
            let found = items::find(&self.root.join("crates").join(package).join("src"))?;
            self.packages.insert(package.to_owned(), found);
        }
        Ok(&self.packages[package])
    }
}

/// A located edit: a byte range of a file and its new text.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    file: PathBuf,
    bytes: Range<usize>,
    text: String,
}

impl Bug {
    /// The changed files: path from the root of the workspace, and new text.
    pub(crate) fn apply(&self, sources: &mut Sources) -> Result<BTreeMap<PathBuf, String>, String> {
        let mut changes = Vec::new();
        for edit in &self.edits {
            changes.push(edit.locate(sources.items(&edit.package)?)?);
        }
        let root = &sources.root;
        // Later ranges first, so that earlier ranges stay valid.
        changes.sort_by_key(|change| std::cmp::Reverse(change.bytes.start));
        let mut texts = BTreeMap::new();
        for change in changes {
            let file = change.file.strip_prefix(root).unwrap_or(&change.file).to_owned();
            let text = match texts.remove(&file) {
                Some(text) => text,
                None => read(&change.file)?,
            };
            let (before, after) = (&text[..change.bytes.start], &text[change.bytes.end..]);
            let changed = format!("{before}{}{after}", change.text);
            texts.insert(file, changed);
        }
        Ok(texts)
    }
}

impl Edit {
    fn new(place: &str) -> Result<Self, String> {
        let parts: Vec<&str> = place.split("::").collect();
        let (package, within, item) = match parts[..] {
            [package, item] => (package, None, item),
            [package, within, item] => (package, Some(within.to_owned()), item),
            _ => return Err(format!("'{place}' is neither crate::item nor crate::Type::item")),
        };
        let (package, item) = (package.to_owned(), item.to_owned());
        Ok(Self { package, within, item, find: String::new(), replace: String::new() })
    }

    fn place(&self) -> String {
        let parts = [Some(&self.package), self.within.as_ref(), Some(&self.item)];
        parts.into_iter().flatten().cloned().collect::<Vec<_>>().join("::")
    }

    /// Finds the only place among `items` that the edit can mean.
    fn locate(&self, items: &[Item]) -> Result<Change, String> {
        let named: Vec<&Item> = items
            .iter()
            .filter(|item| item.name == self.item && (self.within.is_none() || item.within == self.within))
            .collect();
        if named.is_empty() {
            return Err(format!("there is no {}", self.place()));
        }
        let mut changes = Vec::new();
        for item in named {
            let text = read(&item.file)?;
            for bytes in occurrences(&text[item.bytes.clone()], &self.find) {
                changes.push(Change {
                    file: item.file.clone(),
                    bytes: item.bytes.start + bytes.start..item.bytes.start + bytes.end,
                    text: self.replace.trim_start().to_owned(),
                });
            }
        }
        let times = changes.len();
        match changes.pop() {
            Some(change) if times == 1 => Ok(change),
            _ => Err(format!(
                "{} has the text to replace {times} times; it must have it once:\n{}",
                self.place(),
                self.find
            )),
        }
    }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// The places of `wanted` in `text`, independent of formatting.
fn occurrences(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let (squeezed, places) = squeeze(text);
    let (wanted, _) = squeeze(wanted);
    let found = squeezed.match_indices(&wanted);
    found.map(|(at, _)| places[at]..places[at + wanted.len() - 1] + 1).collect()
}

/// The text without what rustfmt may change: white space, and commas before closing brackets; and the
/// position of each remaining byte.
fn squeeze(text: &str) -> (String, Vec<usize>) {
    let (mut squeezed, mut places) = (String::new(), Vec::new());
    for (at, character) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        if matches!(character, ')' | ']' | '}') && squeezed.ends_with(',') {
            squeezed.pop();
            places.pop();
        }
        squeezed.push(character);
        places.extend(at..at + character.len_utf8());
    }
    (squeezed, places)
}

/// A parsed description.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bug {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Checks that may find it; empty for a control.
    pub(crate) caught_by: Vec<String>,
    pub(crate) runs: Vec<Vec<String>>,
    pub(crate) seeds: u64,
    /// Figures that must not hold at scale ci.
    pub(crate) figures: Vec<String>,
    pub(crate) edits: Vec<Edit>,
}

/// All bugs of a directory, sorted by name.
pub(crate) fn read_all(directory: &Path) -> Result<Vec<Bug>, String> {
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    let mut bugs = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "bug") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            bugs.push(parse(&name, &text).map_err(|what| format!("{}: {what}", path.display()))?);
        }
    }
    bugs.sort_by(|a: &Bug, b: &Bug| a.name.cmp(&b.name));
    Ok(bugs)
}

fn parse(name: &str, text: &str) -> Result<Bug, String> {
    let mut bug = Bug { name: name.to_owned(), ..Bug::default() };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(checks) = line.strip_prefix("caught-by:") {
            bug.caught_by = words(checks).into_iter().filter(|check| check != "nothing").collect();
        } else if let Some(options) = line.strip_prefix("run:") {
            bug.runs.push(words(options));
        } else if let Some(seeds) = line.strip_prefix("seeds:") {
            bug.seeds = seeds.trim().parse().map_err(|_| format!("'{seeds}' is not a number of seeds"))?;
        } else if let Some(figures) = line.strip_prefix("figures:") {
            bug.figures = words(figures);
        } else if let Some(place) = line.strip_prefix("in:") {
            bug.edits.push(Edit::new(place.trim())?);
        } else if line == "<<<<" {
            let edit = bug.edits.last_mut().ok_or("an edit needs 'in:' before it")?;
            edit.find = block(&mut lines, "====")?;
            edit.replace = block(&mut lines, ">>>>")?;
        } else {
            bug.about.push_str(line.trim());
            bug.about.push(' ');
        }
    }
    if bug.edits.is_empty() || bug.edits.iter().any(|edit| edit.find.is_empty()) {
        return Err("every 'in:' needs an edit".to_owned());
    }
    if bug.figures.is_empty() && (bug.runs.is_empty() || bug.seeds == 0) {
        return Err("'run:' and 'seeds:' are needed, or 'figures:'".to_owned());
    }
    Ok(bug)
}

/// The lines up to the line `end`, each with its line break.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in lines {
        if line == end {
            return Ok(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("an edit ends without '{end}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::tests::folder;

    const TEXT: &str = "fn f() -> u8 {\n    g(\n        é,\n        y,\n    );\n    1\n}\n\nimpl A {\n    fn f() {\n        2;\n    }\n}\n\n\
                        impl B {\n    fn f() {\n        2;\n        3;\n    }\n}\n";

    fn bug(edits: &[(&str, &str, &str)]) -> Bug {
        let blocks: String = edits
            .iter()
            .map(|(place, find, replace)| format!("in: {place}\n<<<<\n{find}\n====\n{replace}\n>>>>\n"))
            .collect();
        parse("n", &format!("Breaks a.\ncaught-by: x y\nrun: --mode async\nseeds: 7\n{blocks}")).unwrap()
    }

    #[test]
    fn a_description_is_read() {
        let bug = bug(&[("engine::A::f", "a", "b\nc")]);
        let run = ["--mode".to_owned(), "async".to_owned()];
        assert_eq!((bug.caught_by.len(), bug.seeds, &bug.runs[0][..]), (2, 7, &run[..]));
        let edit = Edit {
            find: "a\n".to_owned(),
            replace: "b\nc\n".to_owned(),
            ..Edit::new("engine::A::f").unwrap()
        };
        assert_eq!(bug.edits, [edit]);
        let by_figures = parse("n", "figures: one two\nin: a::f\n<<<<\na\n====\n>>>>\n").unwrap();
        assert_eq!(
            (&by_figures.figures[..], by_figures.seeds),
            (&["one".to_owned(), "two".to_owned()][..], 0)
        );
        assert!(parse("n", "in: a::f\n<<<<\na\n====\n>>>>\n").is_err(), "nothing is to find it");
        assert!(parse("n", "seeds: 7\nrun: x\n").is_err(), "no edit");
        assert!(parse("n", "run: x\nseeds: 7\nin: f\n<<<<\na\n====\n>>>>\n").is_err(), "no crate");
    }

    #[test]
    fn an_edit_finds_its_item_in_any_file() {
        let root = crate::process::root().join("target/xtask-tests/bugs");
        let apply = |file: &str, edits: &[(&str, &str, &str)]| {
            let module = file.trim_end_matches(".rs").to_owned();
            let files = [("lib.rs", format!("mod {module};\n")), (file, TEXT.to_owned())];
            folder("bugs/crates/c", &files.each_ref().map(|(file, text)| (*file, text.as_str())));
            let changed = bug(edits).apply(&mut Sources::new(&root))?;
            let texts = changed.into_iter().map(|(file, text)| (file.display().to_string(), text));
            Ok::<Vec<(String, String)>, String>(texts.collect())
        };
        let changed = |find, replace| TEXT.replacen(find, replace, 1);
        for file in ["a.rs", "b.rs"] {
            let path = format!("crates/c/src/{file}");
            let expected = changed("g(\n        é,\n        y,\n    );", "h(é);\n");
            assert_eq!(
                apply(file, &[("c::f", "g(é, y);", "h(é);")]),
                Ok(vec![(path.clone(), expected)]),
                "formatted differently"
            );
            let expected = changed("2;", "4;\n").replace("3;", "5;\n");
            assert_eq!(
                apply(file, &[("c::A::f", "2;", "4;"), ("c::f", "3;", "5;")]),
                Ok(vec![(path, expected)]),
                "the type selects the item if the text does not"
            );
        }
        for (place, find, what) in [
            ("c::f", "2;", "c::f has the text to replace 2 times"),
            ("c::f", "4;", "c::f has the text to replace 0 times"),
            ("c::B::f", "1", "c::B::f has the text to replace 0 times"),
            ("c::h", "1", "there is no c::h"),
            ("d::f", "1", "crates/d/src has neither lib.rs nor main.rs"),
        ] {
            let error = apply("a.rs", &[(place, find, "x")]).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    /// Every description must fit the present sources.
    #[test]
    fn descriptions_fit_the_sources() {
        let root = crate::process::root();
        let bugs = read_all(&root.join("crates/xtask/bugs")).unwrap();
        assert!(bugs.len() >= 100, "{} bugs", bugs.len());
        let mut sources = Sources::new(&root);
        for bug in bugs {
            bug.apply(&mut sources).unwrap_or_else(|what| panic!("{}: {what}", bug.name));
        }
    }
}
