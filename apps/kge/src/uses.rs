//! Commands that ask a trained model: `intendant kge predict` and `intendant kge neighbors`.

use clap::Args;
use intendant_core::{Element, ElementType};
use intendant_formats::NameIndex;
use intendant_train::{DataSource, TopArgs, TrainError, Use, print};
use intendant_trained::{Export, Style, questions, words};
use kge::data::{Dataset, Known};
use kge::{Question, Side, Trained};

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

/// Opens the model, and answers with it in its element type.
fn with_model(
    common: &TopArgs,
    f32: impl FnOnce(&Trained<f32>) -> Result<(), TrainError>,
    f64: impl FnOnce(&Trained<f64>) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let export = Export::open(&common.model, "kge").map_err(TrainError::usage)?;
    match export.element().map_err(TrainError::usage)? {
        ElementType::F32 => f32(&Trained::read(&export).map_err(TrainError::usage)?),
        ElementType::F64 => f64(&Trained::read(&export).map_err(TrainError::usage)?),
    }
}

fn question<E: Element>(
    model: &Trained<E>,
    [subject, relation, object]: [&str; 3],
) -> Result<Question, String> {
    let (side, entity) = match (subject == ASKED, object == ASKED) {
        (false, true) => (Side::Object, subject),
        (true, false) => (Side::Subject, object),
        _ => return Err(format!("subject or object must be '{ASKED}', and not both")),
    };
    Ok(Question { side, entity: model.entities().find(entity)?, relation: model.relations().find(relation)? })
}

impl PredictArgs {
    fn run(self) -> Result<(), TrainError> {
        let excluded = self.exclude.as_ref().map(Excluded::read).transpose()?;
        let excluded = excluded.as_ref();
        with_model(&self.common, |model| self.answer(model, excluded), |model| self.answer(model, excluded))
    }

    fn answer<E: Element>(&self, model: &Trained<E>, excluded: Option<&Excluded>) -> Result<(), TrainError> {
        let style = Style { json: self.common.json, answer: "entity", number: "score" };
        let mut pending: Vec<([String; 3], Question)> = Vec::new();
        let answer = |pending: &[([String; 3], Question)]| {
            let questions: Vec<Question> = pending.iter().map(|(_, question)| *question).collect();
            let known: Vec<Vec<u32>> = excluded.map_or_else(Vec::new, |excluded| {
                questions.iter().map(|question| excluded.known(model, *question)).collect()
            });
            let known: Vec<&[u32]> = known.iter().map(Vec::as_slice).collect();
            let found = model.predict(&questions, self.common.top, &known, self.common.threads());
            print(|out| {
                pending.iter().zip(&found).try_for_each(|((words, _), hits)| {
                    let [subject, relation, object] = words.each_ref().map(String::as_str);
                    let shown = [("subject", subject), ("relation", relation), ("object", object)];
                    style.show(
                        out,
                        &shown,
                        hits.iter().map(|hit| (model.entities().name(hit.row), hit.score)),
                    )
                })
            })
        };
        if let [subject, relation, object] = &self.triple[..] {
            let question = question(model, [subject, relation, object]).map_err(TrainError::usage)?;
            return answer(&[([subject, relation, object].map(Clone::clone), question)]);
        }
        questions(|line| {
            let words = words(line, "subject, relation and object")?;
            pending.push((words.map(str::to_owned), question(model, words)?));
            if pending.len() == TOGETHER {
                answer(&std::mem::take(&mut pending)).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
        .map_err(TrainError::usage)?;
        answer(&pending)
    }
}

impl NeighborArgs {
    fn run(self) -> Result<(), TrainError> {
        with_model(&self.common, |model| self.answer(model), |model| self.answer(model))
    }

    fn answer<E: Element>(&self, model: &Trained<E>) -> Result<(), TrainError> {
        let style = Style { json: self.common.json, answer: "entity", number: "similarity" };
        let name = |entity: u32| model.entities().name(entity);
        let entities = model.entities().asked(&self.entities).map_err(TrainError::usage)?;
        let found = model.neighbors(&entities, self.common.top, self.common.threads());
        print(|out| {
            entities.iter().zip(&found).try_for_each(|(entity, hits)| {
                let answers = hits.iter().map(|hit| (name(hit.row), hit.score));
                style.show(out, &[("entity", name(*entity))], answers)
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
