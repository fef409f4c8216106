//! `intendant kge serve`: a model over HTTP.

use crate::ask::{self, Asked, NEAR, PREDICTED};
use intendant_core::{Element, ElementType};
use intendant_serve::{
    Endpoint, Found, Kind, Member, Model, Program, Question, ServeArgs, ServeError, each, run,
};
use intendant_train::{TrainError, Use};
use intendant_trained::{Export, TrainedError};
use kge::Trained;
use serde::Deserialize;
use serde_json::Value;

static PROGRAM: Program =
    Program { name: "kge", version: env!("CARGO_PKG_VERSION"), endpoints: &ENDPOINTS, load };

static ENDPOINTS: [Endpoint; 2] = [
    Endpoint {
        path: "/v1/predict",
        about: "The most probable objects (or subjects) of a subject and a relation",
        members: &[
            text("subject", "An entity, or '?' if it is asked for"),
            text("relation", "A relation"),
            text("object", "An entity, or '?' if it is asked for"),
            Member {
                name: "exclude",
                about: "Entities that are no answers; those that the model does not know have no effect",
                kind: Kind::Texts,
                required: false,
            },
        ],
        found: Found::List { answer: PREDICTED.answer, number: PREDICTED.number },
    },
    Endpoint {
        path: "/v1/neighbors",
        about: "The nearest neighbours of an entity",
        members: &[text("entity", "An entity")],
        found: Found::List { answer: NEAR.answer, number: NEAR.number },
    },
];

const fn text(name: &'static str, about: &'static str) -> Member {
    Member { name, about, kind: Kind::Text, required: true }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Predict {
    subject: String,
    relation: String,
    object: String,
    #[serde(default)]
    exclude: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Neighbors {
    entity: String,
}

/// The command.
pub(crate) fn serve() -> Use {
    Use::new("serve", "Answers such questions over HTTP, as JSON", |args: ServeArgs| {
        run(&PROGRAM, &args).map_err(|error| {
            if let ServeError::System { what, source } = error {
                TrainError::System { what, source }
            } else {
                TrainError::usage(error)
            }
        })
    })
}

fn load(export: &Export) -> Result<Box<dyn Model>, TrainedError> {
    Ok(match export.element()? {
        ElementType::F32 => Box::new(Served::<f32>::read(export)?),
        ElementType::F64 => Box::new(Served::<f64>::read(export)?),
    })
}

struct Served<E>(Trained<E>);

impl<E: Element> Served<E> {
    fn read(export: &Export) -> Result<Self, TrainedError> {
        let model = Trained::read(export)?;
        model.prepare();
        Ok(Self(model))
    }
}

impl<E: Element> Model for Served<E> {
    fn sizes(&self) -> Vec<(&'static str, usize)> {
        let Self(model) = self;
        vec![
            ("entities", model.entities().names().len()),
            ("relations", model.relations().names().len()),
            ("dim", model.dim()),
        ]
    }

    fn answer(&self, endpoint: &str, questions: &[Question], threads: usize) -> Vec<Result<Value, String>> {
        let Self(model) = self;
        if endpoint == "neighbors" {
            let find = |question: &Question| model.entities().find(&question.read::<Neighbors>()?.entity);
            let answer = |entities: &[u32], k: usize| ask::neighbors(model, entities, k, threads);
            return each(questions, find, answer, |found, k| NEAR.first(found, k));
        }
        let find = |question: &Question| {
            let Predict { subject, relation, object, exclude } = question.read()?;
            let asked = ask::find(model, [&subject, &relation, &object])?;
            let mut left_out: Vec<u32> =
                exclude.iter().filter_map(|entity| model.entities().get(entity)).collect();
            left_out.sort_unstable();
            Ok((asked, left_out))
        };
        let answer = |found: &[(Asked, Vec<u32>)], k: usize| {
            let asked: Vec<Asked> = found.iter().map(|(asked, _)| asked.clone()).collect();
            let left_out: Vec<&[u32]> = found.iter().map(|(_, left_out)| left_out.as_slice()).collect();
            ask::predict(model, &asked, k, &left_out, threads)
        };
        each(questions, find, answer, |found, k| PREDICTED.first(found, k))
    }
}
