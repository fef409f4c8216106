//! Commands that ask a trained model: `intendant mf predict`, `recommend`, `similar` and `evaluate`.

use clap::Args;
use intendant_core::{Element, ElementType};
use intendant_train::{TopArgs, TrainError, Use, measure, print};
use intendant_trained::{Export, Style, finite, json_line, measures, questions, words};
use mf::data::Dataset;
use mf::{Axis, Trained};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Questions that are answered together.
const TOGETHER: usize = 1024;

pub(crate) fn all() -> [Use; 4] {
    [
        Use::new("predict", "The values of cells", |args: PredictArgs| act(&args.model.clone(), args)),
        Use::new(
            "recommend",
            "The columns with the largest predicted values of a row",
            |args: RecommendArgs| act(&args.common.model.clone(), args),
        ),
        Use::new("similar", "The columns (or rows) with the most similar factors", |args: SimilarArgs| {
            act(&args.common.model.clone(), args)
        }),
        Use::new("evaluate", "Prediction errors on the cells of a file", |args: EvaluateArgs| {
            act(&args.model.clone(), args)
        }),
    ]
}

#[derive(Args, Clone, Debug)]
struct PredictArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// A row and a column. Without them, standard input has one cell per line, separated by a tab
    #[arg(value_names = ["ROW", "COLUMN"], num_args = 2)]
    cell: Vec<String>,

    /// Print a JSON object per cell instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct RecommendArgs {
    #[command(flatten)]
    common: TopArgs,

    /// Rows. Without any, standard input has one per line
    #[arg(value_name = "ROW")]
    rows: Vec<String>,

    /// Leave out the cells of this file, such as those of the training
    #[arg(long, value_name = "FILE")]
    exclude: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
struct SimilarArgs {
    #[command(flatten)]
    common: TopArgs,

    /// Columns. Without any, standard input has one per line
    #[arg(value_name = "COLUMN")]
    asked: Vec<String>,

    /// Ask for rows instead of columns
    #[arg(long)]
    rows: bool,
}

#[derive(Args, Clone, Debug)]
struct EvaluateArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Cells and their values, as --data has them
    #[arg(value_name = "FILE")]
    data: PathBuf,

    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What a command does with a model.
trait Act {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError>;
}

/// Opens the model, and acts on it in its element type.
fn act(folder: &Path, command: impl Act) -> Result<(), TrainError> {
    let export = Export::open(folder, "mf").map_err(TrainError::usage)?;
    match export.element().map_err(TrainError::usage)? {
        ElementType::F32 => command.act(&Trained::<f32>::read(&export).map_err(TrainError::usage)?),
        ElementType::F64 => command.act(&Trained::<f64>::read(&export).map_err(TrainError::usage)?),
    }
}

impl Act for PredictArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let (rows, columns) = (model.names(Axis::Rows), model.names(Axis::Columns));
        let find = |[row, column]: [&str; 2]| Ok::<_, String>((rows.find(row)?, columns.find(column)?));
        let show = |cells: &[(u32, u32)]| {
            print(|out| {
                cells.iter().try_for_each(|(row, column)| {
                    let value = model.predict(*row, *column);
                    let (row, column) = (rows.name(*row), columns.name(*column));
                    if self.json {
                        let asked = [("row", row), ("column", column)];
                        return json_line(out, &asked, [("prediction", finite(value))]);
                    }
                    writeln!(out, "{row}\t{column}\t{value}")
                })
            })
        };
        if let [row, column] = &self.cell[..] {
            return show(&[find([row, column]).map_err(TrainError::usage)?]);
        }
        let mut pending = Vec::new();
        let read = questions(|line| {
            pending.push(find(words(line, "row and column")?)?);
            if pending.len() == TOGETHER {
                show(&std::mem::take(&mut pending)).map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        read.map_err(TrainError::usage)?;
        show(&pending)
    }
}

/// Reads the cells of a file, which a flag or an argument names.
fn cells(flag: &str, path: &Path) -> Result<Dataset, TrainError> {
    Dataset::read(path).map_err(|error| TrainError::usage(format!("{flag}: {error}")))
}

impl Act for RecommendArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let known = self.exclude.as_ref().map(|path| cells("--exclude", path)).transpose()?;
        let known = known.map_or_else(BTreeMap::new, |cells| model.known(&cells));
        let (rows, columns) = (model.names(Axis::Rows), model.names(Axis::Columns));
        let style = Style { json: self.common.json, answer: "column", number: "prediction" };
        let asked = rows.asked(&self.rows).map_err(TrainError::usage)?;
        for asked in asked.chunks(TOGETHER) {
            let none = Vec::new();
            let left_out: Vec<&[u32]> =
                asked.iter().map(|row| known.get(row).unwrap_or(&none).as_slice()).collect();
            let found = model.recommend(asked, self.common.top, &left_out, self.common.threads());
            print(|out| {
                asked.iter().zip(&found).try_for_each(|(row, hits)| {
                    let answers = hits.iter().map(|hit| (columns.name(hit.row), hit.score));
                    style.show(out, &[("row", rows.name(*row))], answers)
                })
            })?;
        }
        Ok(())
    }
}

impl Act for SimilarArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let (axis, what) = if self.rows { (Axis::Rows, "row") } else { (Axis::Columns, "column") };
        let names = model.names(axis);
        let style = Style { json: self.common.json, answer: what, number: "similarity" };
        let asked = names.asked(&self.asked).map_err(TrainError::usage)?;
        let found = model.similar(axis, &asked, self.common.top, self.common.threads());
        print(|out| {
            asked.iter().zip(&found).try_for_each(|(row, hits)| {
                let answers = hits.iter().map(|hit| (names.name(hit.row), hit.score));
                style.show(out, &[(what, names.name(*row))], answers)
            })
        })
    }
}

impl Act for EvaluateArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let data = cells("FILE", &self.data)?;
        let (errors, value, unknown) = model.errors(&data);
        let mut measured = measure(Box::new(errors), value);
        measured.push(("cells".to_owned(), data.train().len() as f64));
        measured.push(("unknown".to_owned(), unknown as f64));
        print(|out| measures(out, self.json, &measured))
    }
}
