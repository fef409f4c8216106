//! `intendant mf serve`: a model over HTTP.

use crate::ask::{self, PREDICTION, RECOMMENDED, similarity};
use intendant_core::{Element, ElementType};
use intendant_serve::{
    Endpoint, Found, Kind, Member, Model, Program, Question, ServeArgs, ServeError, each, run,
};
use intendant_train::{TrainError, Use};
use intendant_trained::{Export, TrainedError};
use mf::{Axis, Trained};
use serde::Deserialize;
use serde_json::Value;

static PROGRAM: Program =
    Program { name: "mf", version: env!("CARGO_PKG_VERSION"), endpoints: &ENDPOINTS, load };

static ENDPOINTS: [Endpoint; 3] = [
    Endpoint {
        path: "/v1/predict",
        about: "The value of a cell",
        members: &[member("row", "A row", Kind::Text, true), member("column", "A column", Kind::Text, true)],
        found: Found::Number(PREDICTION),
    },
    Endpoint {
        path: "/v1/recommend",
        about: "The columns with the largest predicted values of a row",
        members: &[
            member("row", "A row", Kind::Text, true),
            member(
                "exclude",
                "Columns that are no answers; those that the model does not know have no effect",
                Kind::Texts,
                false,
            ),
        ],
        found: Found::List { answer: RECOMMENDED.answer, number: RECOMMENDED.number },
    },
    Endpoint {
        path: "/v1/similar",
        about: "The columns (or rows) with the most similar factors; answers to a row are rows",
        members: &[
            member("column", "A column; not together with row", Kind::Text, false),
            member("row", "A row; not together with column", Kind::Text, false),
        ],
        found: Found::List { answer: "column", number: "similarity" },
    },
];

const fn member(name: &'static str, about: &'static str, kind: Kind, required: bool) -> Member {
    Member { name, about, kind, required }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Predict {
    row: String,
    column: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recommend {
    row: String,
    #[serde(default)]
    exclude: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Similar {
    row: Option<String>,
    column: Option<String>,
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

    fn recommend(&self, questions: &[Question], threads: usize) -> Vec<Result<Value, String>> {
        let Self(model) = self;
        let (rows, columns) = (model.names(Axis::Rows), model.names(Axis::Columns));
        let find = |question: &Question| {
            let Recommend { row, exclude } = question.read()?;
            let mut left_out: Vec<u32> = exclude.iter().filter_map(|column| columns.get(column)).collect();
            left_out.sort_unstable();
            Ok((rows.find(&row)?, left_out))
        };
        let answer = |found: &[(u32, Vec<u32>)], k: usize| {
            let rows: Vec<u32> = found.iter().map(|(row, _)| *row).collect();
            let left_out: Vec<&[u32]> = found.iter().map(|(_, left_out)| left_out.as_slice()).collect();
            ask::recommend(model, &rows, k, &left_out, threads)
        };
        each(questions, find, answer, |found, k| RECOMMENDED.first(found, k))
    }

    /// Rows and columns are asked by themselves, and put together again.
    fn similar(&self, questions: &[Question], threads: usize) -> Vec<Result<Value, String>> {
        let Self(model) = self;
        let find = |question: &Question| {
            let (axis, name) = match question.read()? {
                Similar { row: Some(row), column: None } => (Axis::Rows, row),
                Similar { row: None, column: Some(column) } => (Axis::Columns, column),
                Similar { .. } => return Err("a question has a column or a row, and not both".to_owned()),
            };
            Ok((axis, model.names(axis).find(&name)?))
        };
        let answer = |asked: &[(Axis, u32)], k: usize| {
            let of = |axis: Axis| {
                let asked: Vec<u32> = asked.iter().filter(|(of, _)| *of == axis).map(|(_, at)| *at).collect();
                ask::similar(model, axis, &asked, k, threads).into_iter()
            };
            let (mut of_rows, mut of_columns) = (of(Axis::Rows), of(Axis::Columns));
            let next = |(axis, _): &(Axis, u32)| {
                let answered = match axis {
                    Axis::Rows => of_rows.next(),
                    Axis::Columns => of_columns.next(),
                };
                answered.map(|answered| (*axis, answered))
            };
            asked.iter().filter_map(next).collect()
        };
        each(questions, find, answer, |(axis, found), k| similarity(axis).first(found, k))
    }
}

impl<E: Element> Model for Served<E> {
    fn sizes(&self) -> Vec<(&'static str, usize)> {
        let Self(model) = self;
        let names = |axis| model.names(axis).names().len();
        vec![("rows", names(Axis::Rows)), ("columns", names(Axis::Columns)), ("rank", model.rank())]
    }

    fn answer(&self, endpoint: &str, questions: &[Question], threads: usize) -> Vec<Result<Value, String>> {
        let Self(model) = self;
        match endpoint {
            "recommend" => self.recommend(questions, threads),
            "similar" => self.similar(questions, threads),
            _ => {
                let find = |question: &Question| {
                    let Predict { row, column } = question.read()?;
                    ask::find(model, [&row, &column])
                };
                let answer =
                    |cells: &[ask::Cell], _| cells.iter().map(|cell| ask::predicted(model, *cell)).collect();
                each(questions, find, answer, |predicted, _| predicted)
            }
        }
    }
}
