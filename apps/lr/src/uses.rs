//! Commands that use a trained model: `intendant lr predict` and `intendant lr evaluate`.

use crate::saved::{self, SavedError, Settings};
use clap::Args;
use intendant_task::Split;
use intendant_train::{TrainError, Use, measure_initial, print};
use intendant_trained::{answer_while_reading, finite, input, json_line, measures};
use lr::data::{Dataset, HeldOut, Source, unlabelled};
use lr::{Config, Lr, Optimizer, Weights, sigmoid};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn predict() -> Use {
    Use::new("predict", "Probabilities that the labels of rows are 1", |args: PredictArgs| args.run())
}

pub(crate) fn evaluate() -> Use {
    Use::new("evaluate", "Measures of the predictions for labelled rows", |args: EvaluateArgs| args.run())
}

#[derive(Args, Clone, Debug)]
struct PredictArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Rows in the format of the training data, with or without labels [default: standard input, as '-']
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print a JSON object per row
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct EvaluateArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Rows with labels in the format of the training data
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads a model.
fn open(folder: &Path) -> Result<(Settings, Weights), TrainError> {
    let read = || -> Result<_, SavedError> {
        let settings = saved::settings(folder)?;
        let weights = saved::weights(folder, &settings)?;
        Ok((settings, weights))
    };
    read().map_err(TrainError::usage)
}

impl PredictArgs {
    fn run(self) -> Result<(), TrainError> {
        let (settings, weights) = open(&self.model)?;
        let reading = settings.reading();
        let (file, text) = input(self.file.as_deref()).map_err(TrainError::usage)?;
        let mut read = Ok(());
        print(|out| {
            read = answer_while_reading(out, |answers| {
                unlabelled(&reading, &file, text, |row| {
                    let probability = sigmoid(weights.score(row));
                    answers.write(|out| {
                        if self.json {
                            json_line(out, &[], [("probability", finite(probability))])
                        } else {
                            writeln!(out, "{probability}")
                        }
                    })
                })
            })?;
            Ok(())
        })?;
        read.map_err(TrainError::usage)
    }
}

impl EvaluateArgs {
    fn run(self) -> Result<(), TrainError> {
        let (settings, weights) = open(&self.model)?;
        let test = [(Split::Test, HeldOut::File(&self.file))];
        let data = Dataset::open(&Source::None, &test, &settings.reading());
        let mut data = data.map_err(TrainError::usage)?;
        data.widen(settings.features);
        let task = Lr::<f64>::new(Arc::new(data), config(settings.intercept), weights);
        let task = task.map_err(TrainError::usage)?;
        print(|out| measures(out, self.json, &measure_initial(&task)))
    }
}

/// Hyperparameters of a task that only evaluates. With plain gradient descent, a value is the weight itself.
const fn config(intercept: bool) -> Config {
    Config {
        optimizer: Optimizer::Sgd,
        learning_rate: 1.0,
        beta: 1.0,
        l1: 0.0,
        l2: 0.0,
        intercept,
        batch: 1,
        blocks: 1,
        delay: 0,
        kkt: None,
        reliability: 0,
        seed: 0,
    }
}
