//! Commands that ask a trained model: `intendant kge predict` and `intendant kge neighbors`.

use clap::Args;
use intendant_core::{Element, ElementType};
use intendant_formats::{NameIndex, lines};
use intendant_train::{DataSource, TrainError, Use, print};
use intendant_trained::{Export, Hit};
use kge::data::{Dataset, Known, Names};
use kge::{Question, Side, Trained};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::thread;

/// Stands for the entity that is asked for.
const ASKED: &str = "?";

/// Questions that are answered together.
const TOGETHER: usize = 1024;

pub(crate) fn predict() -> Use {
    Use::new(
        "predict",
        "The most probable objects (or subjects) of a subject and a relation",
        |args: PredictArgs| args.run(),
    )
}

pub(crate) fn neighbors() -> Use {
    Use::new("neighbors", "The nearest neighbours of entities", |args: NeighborArgs| args.run())
}

// What all commands share. (Not a documentation comment: it would become the description of the command.)
#[derive(Args, Clone, Debug)]
struct CommonArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Number of answers
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10)]
    top: usize,

    /// Print a JSON object per question instead of a table
    #[arg(long)]
    json: bool,

    /// Threads [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Args, Clone, Debug)]
struct PredictArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Subject, relation and object, of which subject or object is '?'. Without them, standard input has one
    /// question per line, separated by tabs
    #[arg(value_names = ["SUBJECT", "RELATION", "OBJECT"], num_args = 3)]
    triple: Vec<String>,

    /// Leave out answers that these data have, as --data names them
    #[arg(long, value_name = "DATA")]
    exclude: Option<DataSource>,
}

#[derive(Args, Clone, Debug)]
struct NeighborArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Entities. Without any, standard input has one per line
    #[arg(value_name = "ENTITY")]
    entities: Vec<String>,
}

/// What is asked for by name, and how answers are shown.
struct Asked<'a, E> {
    model: &'a Trained<E>,
    entities: &'a NameIndex,
    relations: &'a NameIndex,
    common: &'a CommonArgs,
}

impl CommonArgs {
    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1)
    }
}

/// Opens the model, and answers with it in its element type.
fn with_model(
    common: &CommonArgs,
    f32: impl FnOnce(&Asked<'_, f32>) -> Result<(), TrainError>,
    f64: impl FnOnce(&Asked<'_, f64>) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let export = Export::open(&common.model, "kge").map_err(TrainError::usage)?;
    match export.element().map_err(TrainError::usage)? {
        ElementType::F32 => ask(&export, common, f32),
        ElementType::F64 => ask(&export, common, f64),
    }
}

fn ask<E: Element>(
    export: &Export,
    common: &CommonArgs,
    act: impl FnOnce(&Asked<'_, E>) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let model = &Trained::<E>::read(export).map_err(TrainError::usage)?;
    let (entities, relations) = (&NameIndex::of(model.entities()), &NameIndex::of(model.relations()));
    act(&Asked { model, entities, relations, common })
}

fn find(index: &NameIndex, names: &Names, what: &str, name: &str, file: &str) -> Result<u32, String> {
    index
        .find(names, name)
        .ok_or_else(|| format!("there is no {what} '{name}'; the model's {file} lists all"))
}

impl<E: Element> Asked<'_, E> {
    fn entity(&self, name: &str) -> Result<u32, String> {
        find(self.entities, self.model.entities(), "entity", name, "entity_ids.txt")
    }

    fn relation(&self, name: &str) -> Result<u32, String> {
        find(self.relations, self.model.relations(), "relation", name, "relation_ids.txt")
    }

    fn question(&self, [subject, relation, object]: [&str; 3]) -> Result<Question, String> {
        let (side, entity) = match (subject == ASKED, object == ASKED) {
            (false, true) => (Side::Object, subject),
            (true, false) => (Side::Subject, object),
            _ => return Err(format!("subject or object must be '{ASKED}', and not both")),
        };
        Ok(Question { side, entity: self.entity(entity)?, relation: self.relation(relation)? })
    }

    /// The entities of the model that known triples have as answers to a question, ascending.
    fn known(&self, excluded: &Excluded, question: Question) -> Vec<u32> {
        let Excluded { data, known, entities, relations } = excluded;
        let entity = entities.find(&data.entities, self.name(question.entity));
        let relation = self.model.relations().get(question.relation as usize).unwrap_or_default();
        let (Some(entity), Some(relation)) = (entity, relations.find(&data.relations, relation)) else {
            return Vec::new();
        };
        let answers = match question.side {
            Side::Object => known.objects(entity, relation),
            Side::Subject => known.subjects(relation, entity),
        };
        let names = known.entities(&answers, 0..=u32::MAX).filter_map(|id| data.entities.get(id as usize));
        let mut found: Vec<u32> =
            names.filter_map(|name| self.entities.find(self.model.entities(), name)).collect();
        found.sort_unstable();
        found
    }

    fn name(&self, entity: u32) -> &str {
        self.model.entities().get(entity as usize).unwrap_or_default()
    }

    /// Shows the answers to one question, `asked`.
    fn show(
        &self,
        out: &mut dyn Write,
        asked: &[(&str, &str)],
        number: &str,
        hits: &[Hit],
    ) -> io::Result<()> {
        if self.common.json {
            let answers: Vec<_> =
                hits.iter().map(|hit| json!({ "entity": self.name(hit.row), number: hit.score })).collect();
            let mut object: serde_json::Map<_, _> =
                asked.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            object.insert("answers".to_owned(), json!(answers));
            return writeln!(out, "{}", serde_json::Value::Object(object));
        }
        let asked: Vec<&str> = asked.iter().map(|(_, value)| *value).collect();
        writeln!(out, "{}", asked.join("  "))?;
        for (rank, hit) in (1..).zip(hits) {
            writeln!(out, "{rank:4}  {:10.4}  {}", hit.score, self.name(hit.row))?;
        }
        Ok(())
    }
}

impl PredictArgs {
    fn run(self) -> Result<(), TrainError> {
        let excluded = self.exclude.as_ref().map(Excluded::read).transpose()?;
        let excluded = excluded.as_ref();
        with_model(&self.common, |asked| self.answer(asked, excluded), |asked| self.answer(asked, excluded))
    }

    fn answer<E: Element>(
        &self,
        asked: &Asked<'_, E>,
        excluded: Option<&Excluded>,
    ) -> Result<(), TrainError> {
        let mut pending: Vec<([String; 3], Question)> = Vec::new();
        let answer = |pending: &[([String; 3], Question)]| {
            let questions: Vec<Question> = pending.iter().map(|(_, question)| *question).collect();
            let known: Vec<Vec<u32>> = excluded.map_or_else(Vec::new, |excluded| {
                questions.iter().map(|question| asked.known(excluded, *question)).collect()
            });
            let known: Vec<&[u32]> = known.iter().map(Vec::as_slice).collect();
            let found = asked.model.predict(&questions, self.common.top, &known, self.common.threads());
            print(|out| {
                pending.iter().zip(&found).try_for_each(|((words, _), hits)| {
                    let [subject, relation, object] = words.each_ref().map(String::as_str);
                    let shown = [("subject", subject), ("relation", relation), ("object", object)];
                    asked.show(out, &shown, "score", hits)
                })
            })
        };
        if let [subject, relation, object] = &self.triple[..] {
            let question = asked.question([subject, relation, object]).map_err(TrainError::usage)?;
            return answer(&[([subject, relation, object].map(Clone::clone), question)]);
        }
        each_line(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            let [subject, relation, object] = words[..] else {
                return Err("expected subject, relation and object, separated by tabs".to_owned());
            };
            let words = [subject, relation, object];
            pending.push((words.map(str::to_owned), asked.question(words)?));
            if pending.len() == TOGETHER {
                answer(&std::mem::take(&mut pending)).map_err(|error| error.to_string())?;
            }
            Ok(())
        })?;
        answer(&pending)
    }
}

impl NeighborArgs {
    fn run(self) -> Result<(), TrainError> {
        with_model(&self.common, |asked| self.answer(asked), |asked| self.answer(asked))
    }

    fn answer<E: Element>(&self, asked: &Asked<'_, E>) -> Result<(), TrainError> {
        let mut entities = Vec::new();
        for name in &self.entities {
            entities.push(asked.entity(name).map_err(TrainError::usage)?);
        }
        if self.entities.is_empty() {
            each_line(|line| {
                entities.push(asked.entity(line)?);
                Ok(())
            })?;
        }
        let found = asked.model.neighbors(&entities, self.common.top, self.common.threads());
        print(|out| {
            entities.iter().zip(&found).try_for_each(|(entity, hits)| {
                asked.show(out, &[("entity", asked.name(*entity))], "similarity", hits)
            })
        })
    }
}

/// Triples whose answers are left out.
struct Excluded {
    data: Dataset,
    known: Known,
    entities: NameIndex,
    relations: NameIndex,
}

impl Excluded {
    fn read(source: &DataSource) -> Result<Self, TrainError> {
        let data = match source {
            DataSource::Builtin(name) => Dataset::builtin(name),
            DataSource::Path(path) => Dataset::read(path),
        };
        let data = data.map_err(|error| TrainError::usage(format!("--exclude: {error}")))?;
        let (entities, relations) = (NameIndex::of(&data.entities), NameIndex::of(&data.relations));
        Ok(Self { known: Known::new(&data), data, entities, relations })
    }
}

/// Calls `act` with each line of standard input.
fn each_line(act: impl FnMut(&str) -> Result<(), String>) -> Result<(), TrainError> {
    let input = io::stdin();
    if input.is_terminal() {
        eprintln!("reading questions from standard input, one per line");
    }
    lines("standard input", input.lock(), act).map_err(TrainError::usage)
}
