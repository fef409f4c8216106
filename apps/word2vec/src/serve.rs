//! `intendant word2vec serve`: word vectors over HTTP.

use crate::ask::{self, WORDS};
use intendant_core::{Element, ElementType};
use intendant_serve::{
    Endpoint, Found, Kind, Member, Model, Program, Question, ServeArgs, ServeError, each, run,
};
use intendant_train::{TrainError, Use};
use intendant_trained::{Export, TrainedError};
use serde::Deserialize;
use serde_json::Value;
use word2vec::Trained;

static PROGRAM: Program =
    Program { name: "word2vec", version: env!("CARGO_PKG_VERSION"), endpoints: &ENDPOINTS, load };

static ENDPOINTS: [Endpoint; 2] = [
    Endpoint {
        path: "/v1/similar",
        about: "The words with the most similar vectors",
        members: &[word("word")],
        found: Found::List { answer: WORDS.answer, number: WORDS.number },
    },
    Endpoint {
        path: "/v1/analogy",
        about: "a is to b as c is to which word?",
        members: &[word("a"), word("b"), word("c")],
        found: Found::List { answer: WORDS.answer, number: WORDS.number },
    },
];

const fn word(name: &'static str) -> Member {
    Member { name, about: "A word", kind: Kind::Text, required: true }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Similar {
    word: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Analogy {
    a: String,
    b: String,
    c: String,
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
        vec![("words", model.vocabulary().len()), ("dim", model.dim())]
    }

    fn answer(&self, endpoint: &str, questions: &[Question], threads: usize) -> Vec<Result<Value, String>> {
        let Self(model) = self;
        if endpoint == "similar" {
            let find = |question: &Question| model.find(&question.read::<Similar>()?.word);
            let answer = |words: &[u32], k: usize| ask::similar(model, words, k, threads);
            return each(questions, find, answer, |found, k| WORDS.first(found, k));
        }
        let find = |question: &Question| {
            let Analogy { a, b, c } = question.read()?;
            ask::find(model, [&a, &b, &c])
        };
        each(
            questions,
            find,
            |words: &[[u32; 3]], k| ask::analogies(model, words, k, threads),
            |found, k| WORDS.first(found, k),
        )
    }
}
