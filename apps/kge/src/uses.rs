//! Commands that ask a trained model: `intendant kge predict`, `neighbors`, `evaluate` and `serve`.

use crate::ask::{self, Asked, NEAR, PREDICTED};
use crate::{plan, serve};
use clap::Args;
use intendant_core::{Element, ElementType};
use intendant_formats::NameIndex;
use intendant_train::{DataSource, TopArgs, TrainError, Use, measure, print};
use intendant_trained::{Export, finite, json_line, measures, questions, words};
use kge::data::{Dataset, Known, Triple};
use kge::{Question, Side, Trained};
use serde_json::Value;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Questions that are answered together.
const TOGETHER: usize = 1024;

pub(crate) fn all() -> [Use; 4] {
    [
        Use::new(
            "predict",
            "The most probable objects (or subjects) of a subject and a relation",
            |args: PredictArgs| act(&args.common.model.clone(), args),
        ),
        Use::new("neighbors", "The nearest neighbours of entities", |args: NeighborArgs| {
            act(&args.common.model.clone(), args)
        }),
        Use::new("evaluate", "Link prediction on test triples", |args: EvaluateArgs| {
            act(&args.model.clone(), args)
        }),
        serve::serve(),
    ]
}

#[derive(Args, Clone, Debug)]
struct PredictArgs {
    #[command(flatten)]
    common: TopArgs,

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
    common: TopArgs,

    /// Entities. Without any, standard input has one per line
    #[arg(value_name = "ENTITY")]
    entities: Vec<String>,
}

#[derive(Args, Clone, Debug)]
struct EvaluateArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Graph whose test triples are predicted, as --data names it [default: that of the training]
    #[arg(value_name = "DATA")]
    data: Option<DataSource>,

    /// Print a line for each relation
    #[arg(long)]
    by_relation: bool,

    /// Print JSON objects instead of a table
    #[arg(long)]
    json: bool,

    /// Threads [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// What a command does with a model.
trait Act {
    fn act<E: Element>(self, model: &Trained<E>, export: &Export) -> Result<(), TrainError>;
}

/// Opens the model, and acts on it in its element type.
fn act(folder: &Path, command: impl Act) -> Result<(), TrainError> {
    let export = Export::open(folder, "kge").map_err(TrainError::usage)?;
    match export.element().map_err(TrainError::usage)? {
        ElementType::F32 => command.act(&Trained::<f32>::read(&export).map_err(TrainError::usage)?, &export),
        ElementType::F64 => command.act(&Trained::<f64>::read(&export).map_err(TrainError::usage)?, &export),
    }
}

impl Act for PredictArgs {
    fn act<E: Element>(self, model: &Trained<E>, _export: &Export) -> Result<(), TrainError> {
        let excluded = self.exclude.as_ref().map(Excluded::read).transpose()?;
        let excluded = excluded.as_ref();
        let mut pending: Vec<Asked> = Vec::new();
        let answer = |pending: &[Asked]| {
            let known: Vec<Vec<u32>> = excluded.map_or_else(Vec::new, |excluded| {
                pending.iter().map(|asked| excluded.known(model, asked.question)).collect()
            });
            let known: Vec<&[u32]> = known.iter().map(Vec::as_slice).collect();
            let found = ask::predict(model, pending, self.common.top, &known, self.common.threads());
            print(|out| found.iter().try_for_each(|found| PREDICTED.show(out, self.common.json, found)))
        };
        if let [subject, relation, object] = &self.triple[..] {
            return answer(&[ask::find(model, [subject, relation, object]).map_err(TrainError::usage)?]);
        }
        questions(|line| {
            pending.push(ask::find(model, words(line, "subject, relation and object")?)?);
            if pending.len() == TOGETHER {
                answer(&std::mem::take(&mut pending)).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
        .map_err(TrainError::usage)?;
        answer(&pending)
    }
}

impl Act for NeighborArgs {
    fn act<E: Element>(self, model: &Trained<E>, _export: &Export) -> Result<(), TrainError> {
        let entities = model.entities().asked(&self.entities).map_err(TrainError::usage)?;
        let found = ask::neighbors(model, &entities, self.common.top, self.common.threads());
        print(|out| found.iter().try_for_each(|found| NEAR.show(out, self.common.json, found)))
    }
}

impl Act for EvaluateArgs {
    fn act<E: Element>(self, model: &Trained<E>, export: &Export) -> Result<(), TrainError> {
        let data = match &self.data {
            Some(source) => graph("DATA", source)?,
            None => trained_on(export)?,
        };
        let (data, unknown) = model.renumbered(&data);
        if data.test.is_empty() {
            let reason = match unknown {
                0 => "the data have none".to_owned(),
                all => format!("the model does not know an entity or the relation of any of the {all}"),
            };
            return Err(TrainError::usage(format!("there are no test triples to predict: {reason}")));
        }
        let known = Arc::new(Known::new(&data));
        let ranked = |triples: &[Triple]| {
            let threads = intendant_train::threads(self.threads);
            let (ranking, value) = model.ranking(Arc::clone(&known), triples, threads);
            let mut measured = measure(Box::new(ranking), value);
            measured.push(("triples".to_owned(), triples.len() as f64));
            measured
        };
        if !self.by_relation {
            let mut measured = ranked(&data.test);
            measured.push(("unknown".to_owned(), unknown as f64));
            return print(|out| measures(out, self.json, &measured));
        }
        let mut triples = data.test.clone();
        triples.sort_by_key(|triple| triple.relation);
        let mut relations: Vec<&[Triple]> = triples.chunk_by(|a, b| a.relation == b.relation).collect();
        relations.sort_by_key(|triples| Reverse(triples.len()));
        let measured: Vec<_> =
            relations.iter().map(|triples| (triples[0].relation, ranked(triples))).collect();
        print(|out| {
            if !self.json {
                writeln!(out, "triples     mrr  hits@10  relation")?;
            }
            measured.iter().try_for_each(|(relation, measured)| {
                let name = model.relations().name(*relation);
                let value = |name: &str| measured.iter().find(|(of, _)| of == name).map_or(0.0, |(_, v)| *v);
                if self.json {
                    let said = measured.iter().map(|(name, value)| (name.as_str(), finite(*value)));
                    return json_line(out, &[("relation", name)], said);
                }
                let (triples, mrr, hits) = (value("triples"), value("mrr_filtered"), value("hits_at_10"));
                writeln!(out, "{triples:7}  {mrr:6.4}   {hits:6.4}  {name}")
            })
        })
    }
}

/// The graph that a model was trained on, with the test triples of that run.
fn trained_on(export: &Export) -> Result<Dataset, TrainError> {
    let setting = |flag: &str| export.setting(flag).and_then(Value::as_str);
    let builtin = || Ok(DataSource::Builtin(plan::BUILTIN.to_owned()));
    let source = setting("data").map_or_else(builtin, str::parse).map_err(TrainError::usage)?;
    let test = setting("test").map(str::parse).transpose().map_err(TrainError::usage)?;
    let seed = export.setting("seed").and_then(Value::as_u64).unwrap_or_default();
    let mut data = plan::graph(&source, test.as_ref(), seed)?;
    if setting("unseen") == Some("skip") {
        data.skip_unseen();
    }
    Ok(data)
}

/// Reads a graph that a flag or an argument names.
fn graph(flag: &str, source: &DataSource) -> Result<Dataset, TrainError> {
    plan::graph(source, None, 0).map_err(|error| TrainError::usage(format!("{flag}: {error}")))
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
        let data = graph("--exclude", source)?;
        let (entities, relations) = (NameIndex::of(&data.entities), NameIndex::of(&data.relations));
        Ok(Self { known: Known::new(&data), data, entities, relations })
    }

    /// The entities of the model that the triples have as answers to a question, ascending.
    fn known<E: Element>(&self, model: &Trained<E>, question: Question) -> Vec<u32> {
        let Self { data, known, entities, relations } = self;
        let entity = entities.find(&data.entities, model.entities().name(question.entity));
        let relation = relations.find(&data.relations, model.relations().name(question.relation));
        let (Some(entity), Some(relation)) = (entity, relation) else {
            return Vec::new();
        };
        let answers = match question.side {
            Side::Object => known.objects(entity, relation),
            Side::Subject => known.subjects(relation, entity),
        };
        let names = known.entities(&answers, 0..=u32::MAX).filter_map(|id| data.entities.get(id as usize));
        let mut found: Vec<u32> = names.filter_map(|name| model.entities().get(name)).collect();
        found.sort_unstable();
        found
    }
}
