//! Planted bugs: descriptions in `bugs/*.bug`.
//!
//! ```text
//! Prose: what the bug is.
//! caught-by: history values      checks that may find it; `nothing` for a control that must pass
//! run: --mode async              options of `cargo xtask sim`; one line per run, each of which must find it
//! seeds: 500                     how many seeds that may take
//! file: crates/engine/src/x.rs
//! <<<<
//! text that occurs exactly once, however it is formatted
//! ====
//! text that replaces it
//! >>>>
//! ```

use std::fs;
use std::path::Path;

/// A change to a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) file: String,
    find: String,
    replace: String,
}

impl Edit {
    /// The changed text. How the text is formatted makes no difference.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        let (squeezed, places) = squeeze(text);
        let (wanted, _) = squeeze(&self.find);
        let found: Vec<usize> = squeezed.match_indices(&wanted).map(|(at, _)| at).collect();
        let [start] = found[..] else {
            let (file, times, find) = (&self.file, found.len(), &self.find);
            return Err(format!(
                "{file} has the text to replace {times} times; it must have it once:\n{find}"
            ));
        };
        let (first, last) = (places[start], places[start + wanted.len() - 1]);
        Ok(format!("{}{}{}", &text[..first], self.replace.trim_start(), &text[last + 1..]))
    }
}

/// The text without what a formatter may change: white space, and commas before closing brackets. With the place of each of
/// its bytes in the text.
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

/// A bug.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bug {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Checks that may find it. Empty for a control.
    pub(crate) caught_by: Vec<String>,
    pub(crate) runs: Vec<Vec<String>>,
    pub(crate) seeds: u64,
    pub(crate) edits: Vec<Edit>,
}

/// All bugs of a directory, by name.
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
        } else if let Some(file) = line.strip_prefix("file:") {
            bug.edits.push(Edit {
                file: file.trim().to_owned(),
                find: String::new(),
                replace: String::new(),
            });
        } else if line == "<<<<" {
            let edit = bug.edits.last_mut().ok_or("an edit without 'file:'")?;
            edit.find = block(&mut lines, "====")?;
            edit.replace = block(&mut lines, ">>>>")?;
        } else {
            bug.about.push_str(line.trim());
            bug.about.push(' ');
        }
    }
    if bug.edits.is_empty() || bug.edits.iter().any(|edit| edit.find.is_empty()) {
        return Err("every 'file:' needs an edit".to_owned());
    }
    if bug.runs.is_empty() || bug.seeds == 0 {
        return Err("'run:' and 'seeds:' are needed".to_owned());
    }
    Ok(bug)
}

/// The lines up to the one that is `end`, each with its line break.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in lines {
        if line == end {
            return Ok(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("no '{end}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_becomes_an_edit() {
        let text =
            "Breaks a.\ncaught-by: x y\nrun: --mode async\nseeds: 7\nfile: f.rs\n<<<<\na\n====\nb\nc\n>>>>\n";
        let bug = parse("n", text).unwrap();
        assert_eq!(
            (bug.caught_by.len(), bug.seeds, &bug.runs[0][..]),
            (2, 7, &["--mode".into(), "async".into()][..])
        );
        assert_eq!(bug.edits[0].apply("0\n a\n1\n").unwrap(), "0\n b\nc\n\n1\n");
        assert!(bug.edits[0].apply("0\n1\n").is_err(), "nothing to replace");
        assert!(bug.edits[0].apply("a\na\n").is_err(), "which one?");
        let edit = Edit { file: String::new(), find: "f(x, y);\n".to_owned(), replace: "g();\n".to_owned() };
        assert_eq!(
            edit.apply("é;\n  f(\n    x,\n    y,\n  );\n").unwrap(),
            "é;\n  g();\n\n",
            "formatted differently"
        );
        assert!(parse("n", "seeds: 7\nrun: x\n").is_err(), "no edit");
    }

    /// Sources move on; a description that no longer fits them would only be noticed by whoever plants it.
    #[test]
    fn descriptions_fit_the_sources() {
        let root = crate::process::root();
        let bugs = read_all(&root.join("crates/xtask/bugs")).unwrap();
        assert!(bugs.len() >= 8, "{} bugs", bugs.len());
        for bug in bugs {
            for edit in &bug.edits {
                let text = fs::read_to_string(root.join(&edit.file)).unwrap();
                edit.apply(&text).unwrap_or_else(|what| panic!("{}: {what}", bug.name));
            }
        }
    }
}
