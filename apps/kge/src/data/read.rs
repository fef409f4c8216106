//! File formats.
//!
//! * **LibKGE folder**: `train.del`, `valid.del`, `test.del` with lines of three numbers (subject, relation,
//!   object), and `entity_ids.del`, `relation_ids.del` with lines of number and name.
//! * **Folder of tab-separated files**: `train`, `valid` and `test`, each ending in `.txt`, `.tsv`, or one of
//!   these and `.zst` or `.gz`; lines of three names (subject, relation, object).
//! * **A single file** of the second kind: training triples only.
//!
//! Columns are separated by tabs. Only the training triples are required. A line that is not in the format is
//! an error, never skipped: a graph that is silently incomplete gives numbers that are silently wrong.

use super::error::DataError;
use super::synthetic::{self, Skew};
use super::{Dataset, Names, Naming, Triple};
use intendant_formats::{NameIndex, TextError, ZstdReader, lines, open};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

const CODEX_S: [(&str, &[u8]); 3] = [
    ("builtin:codex-s/train.txt.zst", include_bytes!("../../data/codex-s/train.txt.zst")),
    ("builtin:codex-s/valid.txt.zst", include_bytes!("../../data/codex-s/valid.txt.zst")),
    ("builtin:codex-s/test.txt.zst", include_bytes!("../../data/codex-s/test.txt.zst")),
];

impl Dataset {
    /// The data set called `name`: `codex-s`, which is built in; `synthetic:ENTITIESxRELATIONSxTRIPLES`, a
    /// generated graph with this many training triples, the same every time; or
    /// `skewed:ENTITIESxRELATIONSxTRIPLES`, a generated graph in which more of the triples contain few
    /// entities and relations.
    ///
    /// # Errors
    /// If there is none with this name, or it cannot be generated.
    pub fn builtin(name: &str) -> Result<Self, DataError> {
        for (kind, skew) in [("synthetic", Skew::MODERATE), ("skewed", Skew::HIGH)] {
            if let Some(spec) = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')) {
                return synthetic::generate(kind, spec, skew);
            }
        }
        match name {
            "codex-s" => {
                let mut reader = TripleReader::new(Naming::Names);
                let [train, valid, test] =
                    CODEX_S.map(|(file, bytes)| reader.triples(file, BufReader::new(ZstdReader::new(bytes))));
                Ok(reader.dataset(train?, valid?, test?))
            }
            name => Err(DataError::UnknownBuiltin { name: name.to_owned() }),
        }
    }

    /// Reads a folder of one of the formats that [`DataError::NoTraining`] names, or a single file of
    /// tab-separated training triples.
    ///
    /// # Errors
    /// If something cannot be read or is not in the format; the message names file and line.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let metadata = path.metadata().map_err(|source| TextError::Read { file: show(path), source })?;
        if !metadata.is_dir() {
            let mut reader = TripleReader::new(Naming::Names);
            let train = reader.file(path)?;
            return Ok(reader.dataset(train, Vec::new(), Vec::new()));
        }
        if path.join("train.del").exists() {
            let mut reader = TripleReader::new(Naming::Numbers);
            reader.entities = numbered_names(&path.join("entity_ids.del"))?;
            reader.relations = numbered_names(&path.join("relation_ids.del"))?;
            let train = reader.file(&path.join("train.del"))?;
            let mut optional = |name: &str| {
                let file = path.join(name);
                if file.exists() { reader.file(&file) } else { Ok(Vec::new()) }
            };
            let (valid, test) = (optional("valid.del")?, optional("test.del")?);
            return Ok(reader.dataset(train, valid, test));
        }
        let mut reader = TripleReader::new(Naming::Names);
        let train = split_file(path, "train")?.ok_or_else(|| DataError::NoTraining { folder: show(path) })?;
        let train = reader.file(&train)?;
        let mut optional = |name: &str| match split_file(path, name)? {
            Some(file) => reader.file(&file),
            None => Ok(Vec::new()),
        };
        let (valid, test) = (optional("valid")?, optional("test")?);
        Ok(reader.dataset(train, valid, test))
    }

    /// Replaces the test triples by those of a file, which names entities and relations as the data set does.
    /// Entities and relations that are new are added (unless they are given by number).
    ///
    /// # Errors
    /// If the file cannot be read or is not in the format.
    pub fn test_from(&mut self, file: &Path) -> Result<(), DataError> {
        let mut reader = TripleReader::new(self.naming);
        reader.entity_index = NameIndex::of(&self.entities);
        reader.relation_index = NameIndex::of(&self.relations);
        reader.entities = std::mem::take(&mut self.entities);
        reader.relations = std::mem::take(&mut self.relations);
        let test = reader.file(file);
        (self.entities, self.relations) = (reader.entities, reader.relations);
        self.removed.extend(std::mem::replace(&mut self.test, test?));
        Ok(())
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// The file of a split in a folder of tab-separated files.
fn split_file(folder: &Path, split: &str) -> Result<Option<PathBuf>, DataError> {
    let mut files = ["txt", "tsv", "txt.zst", "tsv.zst", "txt.gz", "tsv.gz"]
        .into_iter()
        .map(|ending| folder.join(format!("{split}.{ending}")))
        .filter(|file| file.exists());
    let (first, second) = (files.next(), files.next());
    match (first, second) {
        (Some(first), Some(second)) => {
            Err(DataError::Ambiguous { first: show(&first), second: show(&second) })
        }
        (first, _) => Ok(first),
    }
}

/// Splits a line into exactly `N` columns.
fn columns<'a, const N: usize>(text: &'a str, expected: &str) -> Result<[&'a str; N], String> {
    let mut columns = [""; N];
    let mut count = 0;
    for column in text.split('\t') {
        if let Some(place) = columns.get_mut(count) {
            *place = column;
        }
        count += 1;
    }
    if count != N {
        let found = if text.is_empty() {
            "the line is empty".to_owned()
        } else {
            format!("found {count} column{}", if count == 1 { "" } else { "s" })
        };
        return Err(format!("{found}, expected {N} separated by tabs: {expected}"));
    }
    if let Some(position) = columns.iter().position(|c| c.is_empty()) {
        return Err(format!("column {} is empty, expected {expected}", position + 1));
    }
    Ok(columns)
}

/// Reads LibKGE's list of numbers and names. Numbers may come in any order, but must be complete.
fn numbered_names(path: &Path) -> Result<Names, DataError> {
    let mut numbered: Vec<(u32, u64, String)> = Vec::new();
    let file = show(path);
    lines(&file, open(path)?, |text| {
        let [number, name] = columns::<2>(text, "number, name")?;
        let id = number.parse().map_err(|_| format!("'{number}' is not a number"))?;
        numbered.push((id, numbered.len() as u64 + 1, name.to_owned()));
        Ok(())
    })?;
    numbered.sort_unstable();
    let mut names = Names::default();
    for (expected, (id, line, name)) in numbered.iter().enumerate() {
        if *id as usize != expected {
            let problem = if (*id as usize) < expected {
                format!("number {id} is given twice")
            } else {
                format!("number {id} is given, but {expected} is not: numbers must be complete from 0")
            };
            return Err(TextError::Line { file, line: *line, problem }.into());
        }
        names.push(name);
    }
    Ok(names)
}

/// Reads the splits of a data set, one after the other.
struct TripleReader {
    naming: Naming,
    entities: Names,
    relations: Names,
    entity_index: NameIndex,
    relation_index: NameIndex,
}

impl TripleReader {
    fn new(naming: Naming) -> Self {
        Self {
            naming,
            entities: Names::default(),
            relations: Names::default(),
            entity_index: NameIndex::default(),
            relation_index: NameIndex::default(),
        }
    }

    fn file(&mut self, path: &Path) -> Result<Vec<Triple>, DataError> {
        self.triples(&show(path), open(path)?)
    }

    fn triples(&mut self, file: &str, reader: impl BufRead) -> Result<Vec<Triple>, DataError> {
        let mut triples = Vec::new();
        lines(file, reader, |text| {
            let [subject, relation, object] = columns::<3>(text, "subject, relation, object")?;
            triples.push(match self.naming {
                Naming::Names => {
                    let entity = |names: &mut Names, index: &mut NameIndex, name: &str| {
                        index.intern(names, name).ok_or_else(|| "more names than 32 bits number".to_owned())
                    };
                    Triple {
                        subject: entity(&mut self.entities, &mut self.entity_index, subject)?,
                        relation: entity(&mut self.relations, &mut self.relation_index, relation)?,
                        object: entity(&mut self.entities, &mut self.entity_index, object)?,
                    }
                }
                Naming::Numbers => Triple {
                    subject: number(subject, "entity", self.entities.len())?,
                    relation: number(relation, "relation", self.relations.len())?,
                    object: number(object, "entity", self.entities.len())?,
                },
            });
            Ok(())
        })?;
        if triples.is_empty() {
            return Err(DataError::Empty { file: file.to_owned() });
        }
        Ok(triples)
    }

    fn dataset(self, train: Vec<Triple>, valid: Vec<Triple>, test: Vec<Triple>) -> Dataset {
        let Self { naming, entities, relations, .. } = self;
        Dataset { entities, relations, train, valid, test, removed: Vec::new(), naming }
    }
}

fn number(text: &str, what: &str, count: usize) -> Result<u32, String> {
    let id: u32 = text.parse().map_err(|_| {
        format!("'{text}' is not the number of a{} {what}", if what.starts_with('e') { "n" } else { "" })
    })?;
    if id as usize >= count {
        return Err(format!("{what} {id} does not exist: {what}_ids.del lists {count}"));
    }
    Ok(id)
}
