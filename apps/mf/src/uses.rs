//! Commands that ask a trained model: `intendant mf predict`, `recommend`, `similar`, `evaluate` and `serve`.

use crate::ask::{self, Cell, RECOMMENDED, similarity};
use crate::serve;
use clap::Args;
use intendant_core::{Element, ElementType};
use intendant_train::{TopArgs, TrainError, Use, measure, print};
use intendant_trained::{Export, measures, questions, words};
use mf::data::Dataset;
use mf::{Axis, Trained};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Questions that are answered together.
const TOGETHER: usize = 1024;

pub(crate) fn all() -> [Use; 5] {
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
        serve::serve(),
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
        let show = |cells: &[Cell]| {
            print(|out| {
                cells.iter().try_for_each(|cell| {
                    if self.json {
                        return writeln!(out, "{}", ask::predicted(model, *cell));
                    }
                    let (row, column) = *cell;
                    let value = model.predict(row, column);
                    writeln!(out, "{}\t{}\t{value}", rows.name(row), columns.name(column))
                })
            })
        };
        if let [row, column] = &self.cell[..] {
            return show(&[ask::find(model, [row, column]).map_err(TrainError::usage)?]);
        }
        let mut pending = Vec::new();
        let read = questions(|line| {
            pending.push(ask::find(model, words(line, "row and column")?)?);
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
        let asked = model.names(Axis::Rows).asked(&self.rows).map_err(TrainError::usage)?;
        for asked in asked.chunks(TOGETHER) {
            let none = Vec::new();
            let left_out: Vec<&[u32]> =
                asked.iter().map(|row| known.get(row).unwrap_or(&none).as_slice()).collect();
            let found = ask::recommend(model, asked, self.common.top, &left_out, self.common.threads());
            print(|out| found.iter().try_for_each(|found| RECOMMENDED.show(out, self.common.json, found)))?;
        }
        Ok(())
    }
}

impl Act for SimilarArgs {
    fn act<E: Element>(self, model: &Trained<E>) -> Result<(), TrainError> {
        let axis = if self.rows { Axis::Rows } else { Axis::Columns };
        let asked = model.names(axis).asked(&self.asked).map_err(TrainError::usage)?;
        let found = ask::similar(model, axis, &asked, self.common.top, self.common.threads());
        print(|out| found.iter().try_for_each(|found| similarity(axis).show(out, self.common.json, found)))
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
